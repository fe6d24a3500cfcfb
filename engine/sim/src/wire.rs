//! The wire, the switch and the internal loopback path, with priority flow control (PFC). `transmit` decides what is
//! sent.

use kelpie_events::Picos;
use kelpie_spaces::{Host, QpType};

use crate::event::Event;
use crate::world::{Burst, Carries, World};

/// Time for which the packet rate may exceed the specified one, as long as its mean does not.
///
/// Source: our choice, a queue of some dozens of descriptors before the packet scheduler.
const PACKET_RATE_SLACK: Picos = Picos::new(2_000_000);

impl World<'_> {
    /// Schedules the next burst of a host when it may go.
    pub fn kick_egress(&mut self, at: Host) {
        let now = self.now;
        let host = self.hosts.get_mut(at);
        if host.held.is_on() {
            return;
        }
        let ready = [host.out_acks.front(), host.out_wire.front()].into_iter().flatten().map(|burst| burst.ready).min();
        let Some(ready) = ready else { return };
        let time = ready.max(now).max(host.wire.free());
        if time < host.egress_at {
            host.egress_at = time;
            self.events.at(time, Event::Egress(at));
        }
    }

    /// The wire of a host takes a burst; acknowledgements go first.
    pub fn egress(&mut self, at: Host) {
        let now = self.now;
        let host = self.hosts.get_mut(at);
        if host.egress_at > now {
            return;
        }
        host.egress_at = Picos::MAX;
        if host.held.is_on() {
            return;
        }
        if host.wire.free() <= now {
            let due = |burst: Option<&Burst>| burst.is_some_and(|burst| burst.ready <= now);
            let burst = if due(host.out_acks.front()) {
                host.out_acks.pop_front()
            } else if due(host.out_wire.front()) {
                host.out_wire.pop_front()
            } else {
                None
            };
            if let Some(mut burst) = burst {
                // Sending comes first in the shared pipeline: it takes its share and leaves receiving the rest.
                host.shared.serve(now, self.costs.packet * burst.packets);
                let paced = host.packet_rate.serve(now, self.costs.transmit_packet * burst.packets);
                let sent = host.wire.serve(now, self.costs.wire.time(burst.wire));
                host.wire.hold_until(paced.saturating_sub(PACKET_RATE_SLACK).max(sent));
                burst.ready = now + self.costs.link;
                host.to_switch.push_back(burst);
                self.events.at(burst.ready, Event::AtSwitch(at));
                self.sent(&burst);
            }
        }
        self.start_turns(at);
        self.kick_egress(at);
    }

    /// Schedules the next loopback burst of a host when it may go.
    pub fn kick_loopback(&mut self, at: Host) {
        let now = self.now;
        let host = self.hosts.get_mut(at);
        let Some(burst) = host.out_loop.front() else { return };
        if host.looped + burst.wire > self.costs.loopback_fill {
            return;
        }
        let time = burst.ready.max(now).max(host.loopback.free());
        if time < host.loopback_at {
            host.loopback_at = time;
            self.events.at(time, Event::Loopback(at));
        }
    }

    /// A burst turns round inside the NIC: no rate limit but its share of the receive buffer.
    pub fn loopback(&mut self, at: Host) {
        let now = self.now;
        let host = self.hosts.get_mut(at);
        if host.loopback_at > now {
            return;
        }
        host.loopback_at = Picos::MAX;
        let room = |burst: &Burst| burst.ready <= now && host.looped + burst.wire <= self.costs.loopback_fill;
        if host.loopback.free() <= now
            && host.out_loop.front().is_some_and(room)
            && let Some(mut burst) = host.out_loop.pop_front()
        {
            let processed = host.shared.serve(now, self.costs.packet * burst.packets);
            host.loopback.serve(now, processed - now);
            burst.ready = now;
            self.sent(&burst);
            self.fill_buffer(at, burst);
        }
        self.start_turns(at);
        self.kick_loopback(at);
    }

    /// A burst has left: its turn ends, and without acknowledgements its messages are complete.
    fn sent(&mut self, burst: &Burst) {
        self.packets += burst.packets;
        if burst.carries != Carries::Ack {
            let host = self.hosts.get_mut(burst.from);
            host.turns -= 1;
            host.staged -= burst.payload;
        }
        if burst.carries == Carries::Request && burst.messages > 0 && self.flow_of(burst.qp).qp_type != QpType::Rc {
            self.complete(burst.qp, burst.messages);
        }
    }

    /// A burst reaches the switch.
    pub fn at_switch(&mut self, from: Host) {
        let to = from.peer();
        let Some(burst) = self.hosts.get_mut(from).to_switch.pop_front() else { return };
        let port = self.ports.get_mut(to);
        port.queued += burst.wire;
        port.queue.push_back(burst);
        if port.queued > self.costs.switch_xoff && !port.holding_sender {
            port.holding_sender = true;
            self.events.at(self.now + self.costs.link, Event::HostPause(from));
        }
        self.kick_switch_port(to);
    }

    /// Schedules the switch port towards a host.
    pub fn kick_switch_port(&mut self, to: Host) {
        let now = self.now;
        let port = self.ports.get_mut(to);
        if !port.scheduled && !port.paused && !port.queue.is_empty() {
            port.scheduled = true;
            self.events.at(port.wire.free().max(now), Event::SwitchPort(to));
        }
    }

    /// The switch port towards a host sends a burst, cut-through.
    pub fn switch_port(&mut self, to: Host) {
        let now = self.now;
        let port = self.ports.get_mut(to);
        port.scheduled = false;
        if port.paused {
            return;
        }
        let Some(mut burst) = port.queue.pop_front() else { return };
        port.queued -= burst.wire;
        port.wire.serve(now, self.costs.wire.time(burst.wire));
        burst.ready = now + self.costs.link;
        if port.holding_sender && port.queued < self.costs.switch_xon {
            port.holding_sender = false;
            self.events.at(now + self.costs.link, Event::HostResume(to.peer()));
        }
        self.hosts.get_mut(to).from_switch.push_back(burst);
        self.events.at(burst.ready, Event::Arrive(to));
        self.kick_switch_port(to);
    }

    /// A burst arrives from the wire.
    pub fn arrive(&mut self, at: Host) {
        if let Some(burst) = self.hosts.get_mut(at).from_switch.pop_front() {
            self.fill_buffer(at, burst);
        }
    }

    /// A burst enters the receive buffer; over the XOFF threshold the switch port is paused.
    fn fill_buffer(&mut self, at: Host, mut burst: Burst) {
        burst.context = self.arriving_context(at, &burst);
        let now = self.now;
        let host = self.hosts.get_mut(at);
        if burst.from == burst.to {
            host.looped += burst.wire;
        } else {
            host.filled += burst.wire;
        }
        host.buffer.push_back(burst);
        if host.filled > self.costs.xoff && !host.holding.is_on() {
            host.holding.on(now);
            self.events.at(now + self.costs.link, Event::SwitchPause(at));
        }
        self.receive_next(at);
    }

    /// A burst has left the receive buffer; under the XON threshold the switch port is resumed.
    pub fn drain_buffer(&mut self, at: Host, burst: &Burst) {
        let now = self.now;
        let host = self.hosts.get_mut(at);
        if burst.from == burst.to {
            host.looped -= burst.wire;
        } else {
            host.filled -= burst.wire;
        }
        if host.holding.is_on() && host.filled < self.costs.xon {
            host.holding.off(now);
            self.events.at(now + self.costs.link, Event::SwitchResume(at));
        }
        self.kick_loopback(at);
    }
}
