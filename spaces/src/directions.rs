//! Which way payload travels: the directions that a workload loads, and who pays into each.

use crate::workload::{Flow, Host, Opcode, Workload};

/// One direction that payload takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Direction {
    /// Host that sends the payload.
    pub from: Host,
    /// Host that receives the payload.
    pub to: Host,
}

impl Direction {
    /// Where the payload of `op` on `flow` goes: READs and atomics bring it back to the requester.
    pub fn of(flow: &Flow, op: Opcode) -> Self {
        if op.brings_back() { Self { from: flow.to, to: flow.from } } else { Self { from: flow.from, to: flow.to } }
    }

    /// The direction back.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { from: self.to, to: self.from }
    }

    /// Whether the payload stays on its host and does not cross a port.
    pub fn is_loopback(self) -> bool {
        self.from == self.to
    }
}

/// Every direction that `workload` loads, in order and once each.
pub fn loaded_directions(workload: &Workload) -> Vec<Direction> {
    let mut directions: Vec<Direction> = workload
        .flows
        .iter()
        .flat_map(|flow| flow.pattern.iter().map(|request| Direction::of(flow, request.op)))
        .collect();
    directions.sort_unstable();
    directions.dedup();
    directions
}

/// The host whose receivers take everything that is paid into `direction`; `None` where some of it needs none.
pub fn receiver(workload: &Workload, direction: Direction) -> Option<Host> {
    let requests =
        |flow: &Flow| flow.pattern.iter().map(|request| (Direction::of(flow, request.op), request.op)).collect();
    let requests = workload.flows.iter().flat_map::<Vec<(Direction, Opcode)>, _>(requests);
    let mut paid = requests.filter(|(way, _)| *way == direction).peekable();
    (paid.peek().is_some() && paid.all(|(_, op)| op.consumes_receive())).then_some(direction.to)
}
