//! What came of a run.

use crate::congestion::{CongestionControl, NEVER};
use crate::network::{PortName, Traffic};
use crate::nic::QpState;
use crate::series::Series;
use crate::shard::{Counters, Plan, Shard};

/// What became of a message. Units: ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageTimes {
    /// When it was posted; nothing if what it waits for did not happen.
    pub posted: Option<u64>,
    /// When it had arrived as a whole.
    pub received: Option<u64>,
    /// When its sender knew.
    pub done: Option<u64>,
    /// Why its sender never knew.
    pub unfinished: Option<Unfinished>,
}

/// Why a message did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// What it waits for did not happen.
    Waits,
    /// Its QP gave up after as many timeouts in a row as it may have.
    GaveUp,
    /// The run ended first.
    OutOfTime,
    /// Nothing more happens: its packets were lost or are held for ever, and its QP has no timeout.
    Stuck,
}

/// What became of a QP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpEnd {
    /// What arrived in order. Units: bytes of messages.
    pub received_bytes: u64,
    /// Packets that were sent again.
    pub retransmissions: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// CNPs that its receiver sent.
    pub cnps: u32,
    /// Whether it is in error: as many timeouts in a row as it may have, and one more.
    pub gave_up: bool,
}

/// What left by an end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkUse {
    /// Units: bytes on the wire without preamble.
    pub bytes: u64,
    /// Frames that paused the other end.
    pub pauses: u32,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Of each message.
    pub messages: Vec<MessageTimes>,
    /// Of each QP.
    pub qps: Vec<QpEnd>,
    /// Of each link, what left by its ends.
    pub links: Vec<[LinkUse; 2]>,
    /// Ports that hold packets and stay paused although nothing more happens: a deadlock of PFC.
    pub deadlocked: Vec<PortName>,
    /// In all.
    pub counters: Counters,
    /// What was sampled, if something was.
    pub series: Option<Series>,
    /// When the last thing happened. Units: ns.
    pub end_ns: u64,
}

impl Outcome {
    /// Messages that did not end, and why.
    pub fn unfinished(&self) -> impl Iterator<Item = (u32, Unfinished)> {
        (0..).zip(&self.messages).filter_map(|(number, message)| Some((number, message.unfinished?)))
    }
}

/// Puts together what parts know.
pub(crate) fn outcome<C: CongestionControl, const HOPS: usize>(
    traffic: &Traffic,
    plan: &Plan<'_>,
    shards: &[Shard<C, HOPS>],
    series: Option<Series>,
) -> Outcome {
    let layout = plan.layout;
    let at = |node: u32| &shards[usize::from(plan.parts[node as usize])];
    let is_over = shards.iter().all(|shard| shard.wheel.earliest().is_none());
    let time = |time: u64| (time != NEVER).then_some(time);
    let messages = traffic.messages.iter().enumerate().map(|(number, form)| {
        let qp = traffic.qps[form.qp as usize];
        let (from, to) = (&at(qp.from).messages[number], &at(qp.to).messages[number]);
        let unfinished = if from.done != NEVER {
            None
        } else if from.waits > 0 {
            Some(Unfinished::Waits)
        } else if at(qp.from).senders[form.qp as usize].state == QpState::Error {
            Some(Unfinished::GaveUp)
        } else {
            Some(if is_over { Unfinished::Stuck } else { Unfinished::OutOfTime })
        };
        MessageTimes { posted: time(from.posted), received: time(to.received), done: time(from.done), unfinished }
    });
    let qps = traffic.qps.iter().enumerate().map(|(number, qp)| {
        let (from, to) = (at(qp.from), at(qp.to));
        QpEnd {
            received_bytes: to.received_bytes(plan, number),
            retransmissions: from.counted[number].resent,
            timeouts: from.counted[number].timeouts,
            cnps: to.counted[number].cnps,
            gave_up: from.senders[number].state == QpState::Error,
        }
    });
    let of_port = |port: u32| {
        let shard = at(layout.ports[port as usize].node);
        LinkUse { bytes: shard.ports[port as usize].sent, pauses: shard.pauses[port as usize] }
    };
    let links = (0..plan.works.len() as u32).map(|link| layout.ports_of_link(link).map(of_port));
    let is_held = |port: &u32| {
        let shard = at(layout.ports[*port as usize].node);
        let paused = shard.ports[*port as usize].paused;
        let queues = &shard.queues[*port as usize * plan.classes..][..plan.classes];
        queues.iter().enumerate().any(|(class, queue)| paused >> class & 1 != 0 && queue.bytes > 0)
    };
    let name = |port: u32| {
        let place = layout.ports[port as usize];
        PortName { node: place.node, link: place.link }
    };
    let held = (0..layout.ports.len() as u32).filter(|port| is_over && is_held(port)).map(name);
    let mut counters = Counters::default();
    for shard in shards {
        counters.add(&shard.counters);
    }
    Outcome {
        messages: messages.collect(),
        qps: qps.collect(),
        links: links.collect(),
        deadlocked: held.collect(),
        counters,
        series,
        end_ns: shards.iter().map(|shard| shard.last).max().unwrap_or(0),
    }
}
