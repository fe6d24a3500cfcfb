//! QPs that do the same, as one flow.

use std::collections::BTreeMap;

use kelpie_spaces::{Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, QpType, Request};

use crate::ends::{TracedProcess, TracedProcesses, most_at_once};
use crate::pattern;
use crate::trace::{OpCount, Process, TracedMr, TracedQp};

/// What QPs of one flow have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QpClassKey {
    from: Host,
    to: Host,
    qp_type: QpType,
    mtu: Mtu,
    wq_depth: Depths,
    /// `None` if its requests do not come in order.
    pattern: Option<Vec<Request>>,
}

/// One host's QPs that do the same.
#[derive(Debug, Default)]
pub struct QpClass<'e, 't> {
    members: Vec<ClassMember<'e, 't>>,
}

/// A QP with its process and, if that was traced, its peer.
#[derive(Debug, Clone, Copy)]
struct ClassMember<'e, 't> {
    end: &'e TracedProcess<'t>,
    qp: &'t TracedQp,
    peer: Option<(&'e TracedProcess<'t>, &'t TracedQp)>,
}

/// The QPs of host `from` that posted requests, by what they do.
pub fn classes<'e, 't>(
    own: &'e TracedProcesses<'t>,
    from: Host,
    peers: Option<&'e TracedProcesses<'t>>,
) -> BTreeMap<QpClassKey, QpClass<'e, 't>> {
    let mut classes: BTreeMap<QpClassKey, QpClass<'e, 't>> = BTreeMap::new();
    for (end, qp) in own.iter().flat_map(|end| end.process.qps.iter().map(move |qp| (end, qp))) {
        let (Some(qp_type), Ok(mtu)) = (qp.qp_type, Mtu::try_from(qp.mtu)) else { continue };
        let requests = requests(end.process, qp);
        if requests.is_empty() {
            continue;
        }
        let peer = if qp.loopback { Some(own) } else { peers }.and_then(|peers| peers.peer_of(qp));
        let recv = peer.map_or(qp, |(_, peer)| peer).wq_depth.recv.max(1);
        let key = QpClassKey {
            from,
            to: if qp.loopback { from } else { from.peer() },
            qp_type,
            mtu,
            wq_depth: Depths { send: qp.wq_depth.send.max(1), recv },
            pattern: pattern::repeated(&requests),
        };
        classes.entry(key).or_default().members.push(ClassMember { end, qp, peer });
    }
    classes
}

/// The latest requests of a QP; if there was no room for their shapes, one of the shortest and one of the longest
/// messages.
fn requests(process: &Process, qp: &TracedQp) -> Vec<Request> {
    let recent: Vec<Request> = process.recent(qp).filter_map(pattern::with_payload).collect();
    if !recent.is_empty() || qp.recent.len() as u64 == qp.requests {
        return recent;
    }
    let bounds = |count: &OpCount| {
        let op = count.op?;
        Some([count.min, count.max].map(|size| Request { op, sge: vec![size] }))
    };
    qp.ops.iter().filter_map(bounds).flatten().filter_map(|request| pattern::with_payload(&request)).collect()
}

impl<'e, 't> QpClass<'e, 't> {
    /// The flow of these QPs.
    pub fn flow(&self, key: &QpClassKey) -> Flow {
        let pattern = key.pattern.clone().unwrap_or_else(|| {
            let requests: Vec<Request> =
                self.members.iter().flat_map(|member| requests(member.end.process, member.qp)).collect();
            pattern::frequent(requests.iter())
        });
        let longest = pattern.iter().map(Request::message).max().unwrap_or(Bytes(1));
        let receives = pattern.iter().any(|request| request.op.consumes_receive());
        let recv_sge = if receives { self.receive_elements(key.qp_type, longest) } else { Vec::new() };
        let mean = |sum: u64, calls: u64, depth: u32| (sum / calls.max(1)).clamp(1, depth.into()) as u32;
        let total = |of: fn(&TracedQp) -> u64| self.qps().map(of).fold(0, u64::saturating_add);
        let of_receivers = |of: fn(&TracedQp) -> u64| self.receivers().map(of).fold(0, u64::saturating_add);
        let lands_in_receives = pattern.iter().all(|request| request.op.is_send());
        let floor = Bytes(longest.0.max(recv_sge.iter().map(|size| size.0).max().unwrap_or(1)));
        Flow {
            qp_type: key.qp_type,
            qps: self.most_at_once().clamp(1, u32::MAX.into()) as u32,
            mtu: key.mtu,
            wq_depth: key.wq_depth,
            batch: Batch {
                send: mean(total(|qp| qp.requests), total(|qp| qp.calls), key.wq_depth.send),
                recv: mean(of_receivers(|qp| qp.receives), of_receivers(|qp| qp.recv_calls), key.wq_depth.recv),
            },
            inline: self.qps().map(|qp| qp.inline).max().unwrap_or(Bytes(0)),
            memory: MemoryPair {
                from: self.memory(floor, ClassMember::sends_from),
                to: self.memory(floor, |member| member.lands_in(lands_in_receives)),
            },
            pattern,
            recv_sge,
            ..Flow::plain(key.from, key.to)
        }
    }

    /// Its QPs.
    pub fn qps(&self) -> impl Iterator<Item = &'t TracedQp> {
        self.members.iter().map(|member| member.qp)
    }

    /// The latest requests of all of them.
    fn recent(&self) -> impl Iterator<Item = &'t Request> {
        self.members.iter().flat_map(|member| member.end.process.recent(member.qp))
    }

    /// The QPs that receive, as far as they were seen.
    pub fn receivers(&self) -> impl Iterator<Item = &'t TracedQp> {
        self.members.iter().map(|member| member.peer.map_or(member.qp, |(_, peer)| peer))
    }

    /// What its flow does not say of its requests.
    pub fn note(&self, key: &QpClassKey) -> Option<String> {
        if key.pattern.is_none() {
            return Some(format!(
                "requests of {} QPs do not repeat in order: the vector holds the most frequent of the latest, by their \
                 share",
                self.members.len()
            ));
        }
        self.recent()
            .any(|request| request.message().0 == 0)
            .then(|| "requests without payload are left out: a workload cannot express them".to_owned())
    }

    /// Whether some QP's peer was not traced.
    pub fn has_unseen_peers(&self) -> bool {
        self.members.iter().any(|member| member.peer.is_none())
    }

    /// Whether more receives were posted than a queue holds, so that messages came in.
    pub fn receives(&self) -> bool {
        self.qps().any(|qp| qp.receives > qp.wq_depth.recv.into())
    }

    /// Most QPs that lived at the same time, process by process.
    fn most_at_once(&self) -> u64 {
        let mut of_process: BTreeMap<u64, Vec<[u64; 2]>> = BTreeMap::new();
        for member in &self.members {
            of_process.entry(member.end.process.pid).or_default().push(member.qp.lifetime);
        }
        of_process.into_values().map(most_at_once).sum()
    }

    /// The receive vector if it has more than one element; a workload has one element anyway.
    fn receive_elements(&self, qp_type: QpType, longest: Bytes) -> Vec<Bytes> {
        let mut elements = self.receivers().map(|qp| qp.recv_sge.clone()).max_by_key(Vec::len).unwrap_or_default();
        // A datagram's first 40 bytes are its global routing header. Source: `ibv_post_recv(3)`.
        let mut header = if qp_type == QpType::Ud { 40 } else { 0 };
        for element in &mut elements {
            let taken = header.min(element.0);
            (element.0, header) = (element.0 - taken, header - taken);
        }
        elements.retain(|element| element.0 > 0);
        let held = elements.iter().map(|element| element.0).fold(0, u64::saturating_add);
        if elements.len() > 1 && held >= longest.0 { elements } else { Vec::new() }
    }

    /// The memory of one side. An MR that several QPs share counts for each with its part.
    fn memory(&self, floor: Bytes, mrs_of: impl Fn(&ClassMember<'e, 't>) -> Vec<TracedMr>) -> Memory {
        let (mut mrs, mut size, mut devices) = (1, 0, BTreeMap::<Device, usize>::new());
        for member in &self.members {
            let used = mrs_of(member);
            mrs = mrs.max(used.len());
            size = size.max(used.iter().map(|mr| mr.length.0).max().unwrap_or(0));
            for device in used.iter().filter_map(|mr| mr.device) {
                *devices.entry(device).or_default() += 1;
            }
        }
        let device = devices.into_iter().max_by_key(|(_, count)| *count).map_or(Device::Dram(0), |(device, _)| device);
        Memory { device, mrs: mrs as u32, mr_size: Bytes(size.max(floor.0)) }
    }
}

impl ClassMember<'_, '_> {
    fn sends_from(&self) -> Vec<TracedMr> {
        self.end.sent_from(self.qp)
    }

    /// Where its messages land: what the peer registered, else as many as it named, of the sizes of its own.
    fn lands_in(&self, in_receives: bool) -> Vec<TracedMr> {
        let registered = match (self.peer, in_receives) {
            (Some((end, peer)), true) => end.received_into(peer),
            (Some((end, _)), false) => end.named_by(self.end, self.qp),
            (None, _) => Vec::new(),
        };
        if !registered.is_empty() {
            return registered;
        }
        match self.sends_from().first() {
            Some(mr) if !in_receives => vec![*mr; self.qp.rkeys.len().max(1)],
            _ => self.sends_from(),
        }
    }
}
