//! The QPs of one end of a flow that one thread polls, on a CQ of their own: connecting them, and their traffic.

use std::io;

use kelpie_engine::chain;
use kelpie_engine::plan::{GroupId, GroupPlan};
use kelpie_engine::verbs_host::{CompletedWork, GroupEndpoint, QpEndpoint};
use kelpie_spaces::QpType;
use rdma_sys::{ibv_wc, ibv_wc_opcode, ibv_wc_status};

use crate::ah::{Ah, DatagramTarget, LocalPort, RemotePort};
use crate::cq::{Completions, POLL_BATCH};
use crate::device::text;
use crate::error::VerbsError;
use crate::latency::ByOp;
use crate::parallel;
use crate::pd::Pd;
use crate::pool::QpSet;
use crate::qp::{Qp, RemoteQp};
use crate::requester::{OPCODES, Requester, index_of};
use crate::responder::Responder;
use crate::rotation::Rotation;
use crate::verb::Verb;

/// Packet sequence numbers have 24 bits. Source: IBTA volume 1, section 9.2.
const PSN_MASK: u32 = 0x00ff_ffff;

/// What a QP's first packet sequence number is added to for its queue key, whose highest bit only the kernel may set.
/// Source: IBTA volume 1, section 10.2.5 (controlled `Q_Key`s); otherwise our choice.
const QKEY_BASE: u32 = 0x4b00_0000;

/// QPs of one end of a flow. Fields are dropped in this order: address handles after what names them.
pub struct Lane {
    /// Which end of which flow.
    pub id: GroupId,
    set: QpSet,
    /// QPs in use, the first of the set.
    qps: usize,
    /// First of them in the group.
    first: usize,
    /// What makes packet sequence numbers differ from those of an earlier session.
    session: u32,
    requester: Option<Requester>,
    responder: Option<Responder>,
}

impl Lane {
    /// QPs `first` to `first + qps` of a group, on those of `set`.
    pub fn new(id: GroupId, set: QpSet, first: usize, qps: usize, session: u32) -> Self {
        Self { id, set, qps, first, session, requester: None, responder: None }
    }

    /// What peers have to know of each QP; memory is added by the group.
    pub fn endpoints(&self) -> impl Iterator<Item = QpEndpoint> + '_ {
        let psn = |qp| first_psn(qp, self.session);
        self.used().iter().map(move |qp| QpEndpoint { qpn: qp.number(), psn: psn(qp), mrs: Vec::new() })
    }

    /// Number of QPs in use.
    pub fn len(&self) -> usize {
        self.qps
    }

    /// Whether it posts requests.
    pub fn is_requester(&self) -> bool {
        self.requester.is_some()
    }

    /// Whether anything of it ever completes: the target of one-sided operations only holds memory.
    pub fn awaits_completions(&self) -> bool {
        self.requester.is_some() || self.responder.is_some()
    }

    /// The QPs, how many of them were in use, and what has to outlive their use: the requester has address handles.
    pub fn into_parts(self) -> (QpSet, usize, Option<Requester>) {
        (self.set, self.qps, self.requester)
    }

    fn used(&self) -> &[Qp] {
        &self.set.qps[..self.qps]
    }

    /// Connects every QP to its peer and posts the first receives. `local` memory is that of the whole group, as is
    /// `remote`, which a requester has. The QPs of the group have the source ports beside `port` in turn, if there are
    /// any.
    pub fn connect(
        &mut self,
        pd: &std::sync::Arc<Pd>,
        plan: &GroupPlan,
        (port, source_ports): (&LocalPort, &[u16]),
        peer: &GroupEndpoint,
        memory: (&Rotation, Option<&Rotation>),
    ) -> Result<(), VerbsError> {
        let peers = &peer.qps[self.first..][..self.qps];
        let remote_port = RemotePort { gid: peer.gid, lid: peer.lid, needs_grh: peer.needs_grh };
        let (qps, session) = (&self.set.qps[..self.qps], self.session);
        parallel::collect(qps.len(), |index| qps[index].init(port.port, qkey(first_psn(&qps[index], session))))?;
        let local = memory.0.part(self.first, self.qps);
        if let Some(recv) = &plan.recv {
            let depth = plan.caps.recv_wr;
            let mut responder = Responder::new(recv, plan.qp_type, plan.mtu, self.qps as u32, depth, local.clone());
            let named = |(index, source): (u32, _)| VerbsError::Verb {
                verb: Verb::POST_RECV,
                object: format!("QP {} of flow {}", self.first + index as usize, self.id.flow),
                source,
            };
            responder.fill_all(qps).map_err(named)?;
            self.responder = Some(responder);
        }
        parallel::collect(qps.len(), |index| {
            let qp = &qps[index];
            let QpEndpoint { qpn, psn, .. } = peers[index];
            let remote = RemoteQp { port: remote_port, qpn, psn, reads: peer.reads };
            let port = port.with_source_port(in_turn(source_ports, self.first + index));
            qp.ready_to_receive(&port, &remote, plan.mtu)?;
            qp.ready_to_send(&port, &remote, first_psn(qp, session))
        })?;
        if let (Some(send), Some(remote)) = (&plan.send, memory.1) {
            let targets = if plan.qp_type == QpType::Ud {
                let target = |peer: &QpEndpoint| {
                    let ah = Ah::new(pd, port, &remote_port)?;
                    Ok(DatagramTarget { ah, qpn: peer.qpn, qkey: qkey(peer.psn) })
                };
                peers.iter().map(target).collect::<Result<_, VerbsError>>()?
            } else {
                Vec::new()
            };
            let memory = [local, remote.part(self.first, self.qps)];
            let depth = plan.caps.send_wr;
            let qps = self.first as u32..(self.first + self.qps) as u32;
            self.requester = Some(Requester::new(send, plan.mtu, qps, depth, memory, targets));
        }
        Ok(())
    }

    /// Has its QPs, ready to send, leave by these ports of the device's LAG, which the QPs of the group have in turn.
    /// By which each leaves then.
    pub fn leave_by(&self, lag_ports: &[u8]) -> Result<Vec<u8>, VerbsError> {
        let put = |(qp, index): (&Qp, usize)| Some(qp.leave_by(in_turn(lag_ports, index)?));
        self.used().iter().zip(self.first..).filter_map(put).collect()
    }

    /// Posts for the first time.
    pub fn start(&mut self, mut event: impl FnMut(String)) {
        if let Some(requester) = &mut self.requester {
            let (id, first) = (self.id, self.first);
            let failed = |index: u32, error: &io::Error| event(post_failed(Verb::POST_SEND, id, first, index, error));
            requester.fill_all(&self.set.qps, failed);
        }
    }

    /// Takes what has completed and posts again; how much that was, and how many queues had run low.
    pub fn progress(&mut self, room: &mut Completions, post: bool, mut event: impl FnMut(String)) -> (usize, u32) {
        let (id, first) = (self.id, self.first);
        if let (Some(requester), true) = (&mut self.requester, post) {
            let failed = |index: u32, error: &io::Error| event(post_failed(Verb::POST_SEND, id, first, index, error));
            requester.post_due(&self.set.qps, failed);
        }
        let completions = match self.set.cq.poll(room) {
            Ok(completions) => completions,
            Err(error) => {
                event(format!("flow {}: {}", self.id.flow, chain(&error)));
                return (0, 0);
            }
        };
        if completions.is_empty() {
            return (0, 0);
        }
        if let Some(requester) = &mut self.requester {
            requester.polled();
        }
        for completion in completions {
            if index_of(completion.wr_id) as usize >= self.qps {
                event(format!(
                    "flow {}: a completion names no work request (wr_id {:#x})",
                    self.id.flow, completion.wr_id
                ));
            } else if completion.status != ibv_wc_status::IBV_WC_SUCCESS {
                self.failed(completion, &mut event);
            } else if completion.opcode & ibv_wc_opcode::IBV_WC_RECV != 0 {
                if let Some(responder) = &mut self.responder {
                    responder.completed(completion);
                }
            } else if let Some(requester) = &mut self.requester {
                requester.completed(completion.wr_id);
            }
        }
        let is_behind = completions.len() == POLL_BATCH;
        let mut ran_low = 0;
        if let Some(requester) = &mut self.requester {
            let failed = |index: u32, error: &io::Error| event(post_failed(Verb::POST_SEND, id, first, index, error));
            ran_low = requester.refill(&self.set.qps, post, is_behind, failed);
        }
        if let Some(responder) = &mut self.responder {
            let failed = |index: u32, error: &io::Error| event(post_failed(Verb::POST_RECV, id, first, index, error));
            responder.refill(&self.set.qps, is_behind, failed);
        }
        (completions.len(), ran_low)
    }

    fn failed(&mut self, completion: &ibv_wc, event: &mut impl FnMut(String)) {
        let index = index_of(completion.wr_id);
        let is_first = match (&mut self.requester, &mut self.responder) {
            (Some(requester), _) => requester.failed(index),
            (None, Some(responder)) => responder.failed(index),
            (None, None) => false,
        };
        // What was still queued is flushed with it; the first error says why.
        if is_first && completion.status != ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
            event(format!("flow {} {:?}: {}", self.id.flow, self.id.role, status(completion.status)));
        }
    }

    /// Completed work by operation, `Opcode as usize`.
    pub fn counts(&self) -> [CompletedWork; OPCODES] {
        match (&self.requester, &self.responder) {
            (Some(requester), _) => *requester.counts(),
            (None, Some(responder)) => *responder.counts(),
            (None, None) => [CompletedWork::default(); OPCODES],
        }
    }

    /// Messages that arrived while its receive queues were left to run low.
    pub fn late(&self) -> u64 {
        self.responder.as_ref().map_or(0, Responder::late)
    }

    /// Room for latencies, for `exchange_latencies`; none if its requests are not timed.
    pub fn room_for_latencies(&self) -> ByOp {
        self.requester.as_ref().map(Requester::room_for_latencies).unwrap_or_default()
    }

    /// Gives the latencies since the last exchange in return for room.
    pub fn exchange_latencies(&mut self, room: &mut ByOp) {
        if let Some(requester) = &mut self.requester {
            requester.exchange_latencies(room);
        }
    }

    /// Posted by its requester and not completed. Units: work requests.
    pub fn outstanding(&self) -> u64 {
        self.requester.as_ref().map_or(0, Requester::outstanding)
    }
}

/// What the QP in this place of a group has, if its QPs have these in turn.
fn in_turn<T: Copy>(all: &[T], place: usize) -> Option<T> {
    Some(all[place.checked_rem(all.len())?])
}

/// A number that differs between QPs and sessions.
pub fn first_psn(qp: &Qp, session: u32) -> u32 {
    (qp.number() ^ session.rotate_left(16)).wrapping_mul(0x9e37_79b1) & PSN_MASK
}

/// What a QP with this first packet sequence number wants to see in datagrams.
fn qkey(psn: u32) -> u32 {
    QKEY_BASE | psn
}

fn post_failed(verb: Verb, id: GroupId, first: usize, index: u32, error: &io::Error) -> String {
    format!("flow {}: {verb} failed for QP {}: {error}", id.flow, first + index as usize)
}

/// What a status of a completion means.
pub fn status(code: ibv_wc_status::Type) -> String {
    match crate::library::library() {
        // SAFETY: the function accepts any number and returns a static string.
        Ok(library) => text(unsafe { (library.wc_status_str.run)(code) }),
        Err(_) => format!("completion status {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_go_on_in_turn_from_one_lane_of_a_group_to_the_next() {
        let lanes = [0..3, 3..5, 5..8];
        let ports: Vec<u8> = lanes.into_iter().flatten().filter_map(|place| in_turn(&[1, 2], place)).collect();
        assert_eq!(ports, [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(in_turn::<u16>(&[], 3), None, "the device chooses");
    }
}
