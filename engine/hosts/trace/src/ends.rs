//! The processes of one host, indexed by what is asked of them: which QP has this number, how many QPs share this MR.

use std::collections::BTreeMap;

use kelpie_spaces::constraints::MAX_PINNED;
use kelpie_spaces::{Bytes, QpType};

use crate::trace::{Process, Trace, TracedMr, TracedQp};

/// A process with the number of QPs that use each key at the same time.
#[derive(Debug)]
pub struct TracedProcess<'t> {
    /// The process.
    pub process: &'t Process,
    sent_from: BTreeMap<u32, u64>,
    received_into: BTreeMap<u32, u64>,
    named: BTreeMap<u32, u64>,
}

/// All of a trace.
#[derive(Debug)]
pub struct TracedProcesses<'t> {
    all: Vec<TracedProcess<'t>>,
    by_number: BTreeMap<u32, Vec<(usize, &'t TracedQp)>>,
    most_datagrams: Option<(usize, &'t TracedQp)>,
}

impl<'t> TracedProcesses<'t> {
    /// Indexes a trace.
    pub fn of(trace: &'t Trace) -> Self {
        let mut by_number: BTreeMap<u32, Vec<(usize, &TracedQp)>> = BTreeMap::new();
        let mut most_datagrams: Option<(usize, &TracedQp)> = None;
        for (index, process) in trace.processes.iter().enumerate() {
            for qp in &process.qps {
                by_number.entry(qp.number).or_default().push((index, qp));
                if qp.qp_type == Some(QpType::Ud) && most_datagrams.is_none_or(|(_, most)| qp.receives > most.receives)
                {
                    most_datagrams = Some((index, qp));
                }
            }
        }
        Self { all: trace.processes.iter().map(TracedProcess::of).collect(), by_number, most_datagrams }
    }

    /// Its processes.
    pub fn iter(&self) -> impl Iterator<Item = &TracedProcess<'t>> {
        self.all.iter()
    }

    /// The QP at the other end of `qp`: the connected one, or of datagrams the one that received most.
    pub fn peer_of(&self, qp: &TracedQp) -> Option<(&TracedProcess<'t>, &'t TracedQp)> {
        let (index, peer) = if qp.qp_type == Some(QpType::Ud) {
            self.most_datagrams?
        } else {
            let fits = |peer: &TracedQp| peer.raw_type == qp.raw_type && [0, qp.number].contains(&peer.peer);
            *self.by_number.get(&qp.peer)?.iter().find(|(_, peer)| fits(peer))?
        };
        Some((&self.all[index], peer))
    }
}

impl<'t> TracedProcess<'t> {
    fn of(process: &'t Process) -> Self {
        let users = |keys: fn(&TracedQp) -> &Vec<u32>| {
            let mut lifetimes: BTreeMap<u32, Vec<[u64; 2]>> = BTreeMap::new();
            for qp in &process.qps {
                for key in keys(qp) {
                    lifetimes.entry(*key).or_default().push(qp.lifetime);
                }
            }
            lifetimes.into_iter().map(|(key, lifetimes)| (key, most_at_once(lifetimes))).collect()
        };
        Self {
            process,
            sent_from: users(|qp| &qp.lkeys),
            received_into: users(|qp| &qp.recv_keys),
            named: users(|qp| &qp.rkeys),
        }
    }

    /// The MRs that the QP sends from, each with the part of it that is the QP's.
    pub fn sent_from(&self, qp: &TracedQp) -> Vec<TracedMr> {
        self.parts(&qp.lkeys, &self.sent_from)
    }

    /// The MRs that the QP receives into.
    pub fn received_into(&self, qp: &TracedQp) -> Vec<TracedMr> {
        self.parts(&qp.recv_keys, &self.received_into)
    }

    /// This process's MRs that a QP of `requester` names.
    pub fn named_by(&self, requester: &TracedProcess<'_>, qp: &TracedQp) -> Vec<TracedMr> {
        let named = self.process.mrs.values().filter(|mr| qp.rkeys.contains(&mr.rkey)).filter(|mr| is_bounded(mr));
        named.map(|mr| part_per_user(mr, requester.named.get(&mr.rkey))).collect()
    }

    fn parts(&self, keys: &[u32], users: &BTreeMap<u32, u64>) -> Vec<TracedMr> {
        let registered =
            keys.iter().filter_map(|key| Some((key, self.process.mrs.get(key).filter(|mr| is_bounded(mr))?)));
        registered.map(|(key, mr)| part_per_user(mr, users.get(key))).collect()
    }
}

/// Whether it is memory rather than the whole address space, as on-demand paging may register.
fn is_bounded(mr: &TracedMr) -> bool {
    mr.length <= MAX_PINNED
}

/// Most of these that lived at the same time; the end of a lifetime is 0 if there is none yet.
pub fn most_at_once(lifetimes: impl IntoIterator<Item = [u64; 2]>) -> u64 {
    let mut events = Vec::new();
    for [created, destroyed] in lifetimes {
        events.push((created, true));
        if destroyed > 0 {
            events.push((destroyed, false));
        }
    }
    events.sort_unstable();
    let (mut now, mut most) = (0u64, 0u64);
    for (_, begins) in events {
        now = if begins { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

fn part_per_user(mr: &TracedMr, users: Option<&u64>) -> TracedMr {
    TracedMr { length: Bytes(mr.length.0 / users.copied().unwrap_or(1).max(1)), ..*mr }
}
