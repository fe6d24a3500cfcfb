//! What a fabric is made of: nodes, and links between them.

/// What stands at the ends of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// Sends and receives; nothing goes through it.
    Host,
    /// Forwards, with a shared buffer, PFC and ECN.
    Switch,
    /// Forwards inside of a host, as an `NVSwitch` does: it neither marks nor pauses nor loses. It sends and receives
    /// too, because it can reduce.
    Crossbar,
}

/// A cable, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Nodes at its ends.
    pub ends: [u32; 2],
    /// Units: Gbit/s.
    pub gbps: f64,
    /// Units: ns.
    pub delay_ns: u32,
    /// Share of packets that it loses, in each direction.
    pub loss: f64,
}

/// Nodes by number, and links.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// Kind of each node.
    pub nodes: Vec<NodeKind>,
    /// Links in the order in which nodes number their ports.
    pub links: Vec<Link>,
}

/// A queue pair: messages of it arrive in order. One from a host to itself crosses no network: its messages, which may
/// be empty, arrive as they are posted, and stand for anything that takes time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpForm {
    /// Host that sends.
    pub from: u32,
    /// Host that receives.
    pub to: u32,
    /// Priority, from 0.
    pub class: u8,
    /// UDP ports: source, destination.
    pub ports: [u16; 2],
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageForm {
    /// Number of its QP.
    pub qp: u32,
    /// Size. Units: bytes.
    pub bytes: u64,
    /// When it is posted, counted from when all that it waits for has happened, or from the start. Units: ns.
    pub start_ns: u64,
}

/// What of a message another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// It has arrived; the other one leaves from where it arrived.
    Received,
    /// It was acknowledged; the other one leaves from where it left.
    Sent,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Queue pairs.
    pub qps: Vec<QpForm>,
    /// Messages.
    pub messages: Vec<MessageForm>,
    /// A message, what of it is waited for, and the message that waits.
    pub waits: Vec<(u32, Trigger, u32)>,
}

/// A port, by its node and its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortName {
    /// Node.
    pub node: u32,
    /// Link.
    pub link: u32,
}
