//! What happens in the simulated subsystem, and to which QP or host. Handled by the parts.

use kelpie_spaces::Host;

/// What happens at an event, and to which QP or host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The application of a QP rings the doorbell.
    Doorbell(u32),
    /// WQEs of a QP whose context or translations had to be fetched are on the NIC.
    Fetched(u32),
    /// A host's wire, or its internal loopback path, may take the next burst.
    Egress(Host),
    /// The internal loopback path of a host may take the next burst.
    Loopback(Host),
    /// A burst from this host reaches the switch.
    AtSwitch(Host),
    /// The switch port towards this host may take the next burst.
    SwitchPort(Host),
    /// A burst reaches the receive buffer of this host from the wire.
    Arrive(Host),
    /// The receive engine of this host is done with a burst.
    Received(Host),
    /// A pause frame of this host reaches the switch.
    SwitchPause(Host),
    /// A resume frame of this host reaches the switch.
    SwitchResume(Host),
    /// A pause frame of the switch reaches this host.
    HostPause(Host),
    /// A resume frame of the switch reaches this host.
    HostResume(Host),
}
