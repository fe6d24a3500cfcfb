//! One end of one flow on this host: its memory, CQs and QPs, from creation to traffic.

use std::sync::Arc;

use kelpie_engine::chain;
use kelpie_engine::host::{GroupEndpoint, QpEndpoint, RemoteMr};
use kelpie_engine::plan::{Caps, GroupPlan, Role};
use kelpie_spaces::QpType;
use rdma_sys::{ibv_wc, ibv_wc_opcode, ibv_wc_status};

use crate::address::Gid;
use crate::cq::{Completions, Cq};
use crate::device::{PortState, text};
use crate::error::VerbsError;
use crate::memory::Arena;
use crate::mr::Mr;
use crate::pd::Pd;
use crate::qp::{LocalPort, Qp, RemoteQp};
use crate::requester::{Memories, Requester, index_of};
use crate::responder::Responder;
use crate::rotation::Region;

/// Packet sequence numbers have 24 bits. Source: IBTA volume 1, section 9.2.
const PSN_MASK: u32 = 0x00ff_ffff;

/// One end of one flow. Fields are dropped in this order: QPs before CQs and MRs.
pub struct Group {
    plan: GroupPlan,
    qps: Vec<Qp>,
    cqs: Vec<Arc<Cq>>,
    mrs: Vec<Mr>,
    /// Set when connected.
    pub requester: Option<Requester>,
    /// Set when connected, where SENDs arrive.
    pub responder: Option<Responder>,
}

impl Group {
    /// Creates everything of `plan`.
    pub fn new(pd: &Arc<Pd>, plan: &GroupPlan) -> Result<Self, VerbsError> {
        check_limits(pd, plan)?;
        let cqs = completion_queues(pd, plan)?;
        let per_cq = (plan.qps as usize).div_ceil(cqs.len());
        let cq_of = |index: usize| &cqs[index / per_cq];
        let qps = (0..plan.qps as usize).map(|index| Qp::new(pd, cq_of(index), plan.qp_type, &plan.caps));
        let qps = qps.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { mrs: register(pd, plan)?, plan: plan.clone(), qps, cqs, requester: None, responder: None })
    }

    /// What it was made of.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// What its peer has to know.
    pub fn endpoint(&self, gid: &Gid, port: PortState) -> GroupEndpoint {
        let per_qp = self.plan.memory.mrs as usize;
        let is_responder = self.plan.id.role == Role::Responder;
        let qps = self.qps.iter().enumerate().map(|(index, qp)| QpEndpoint {
            qpn: qp.number(),
            psn: first_psn(qp),
            mrs: if is_responder {
                let mrs = self.mrs[index * per_qp..][..per_qp].iter().map(Mr::remote);
                mrs.map(|region| RemoteMr(region.address, region.key)).collect()
            } else {
                Vec::new()
            },
        });
        let lid = if port.is_ethernet { 0 } else { port.lid };
        GroupEndpoint { id: self.plan.id, gid: gid.raw, lid, qps: qps.collect() }
    }

    /// Connects every QP to its peer and posts the first receives.
    pub fn connect(&mut self, local: LocalPort, peer: &GroupEndpoint) -> Result<(), VerbsError> {
        if peer.qps.len() != self.qps.len() {
            let (ours, theirs) = (self.qps.len(), peer.qps.len());
            return Err(VerbsError::Protocol(format!("flow {}: {ours} QPs here, {theirs} there", self.plan.id.flow)));
        }
        for qp in &self.qps {
            qp.init(local)?;
        }
        if let Some(recv) = &self.plan.recv {
            let memories = self.memories();
            let mut responder = Responder::new(recv, self.plan.mtu, self.plan.qps, self.plan.caps.recv_wr, memories);
            let named = |(index, source): (u32, _)| VerbsError::Verb {
                verb: "ibv_post_recv",
                object: self.qp_name(index),
                source,
            };
            responder.fill_all(&self.qps).map_err(named)?;
            self.responder = Some(responder);
        }
        for (qp, remote) in self.qps.iter().zip(&peer.qps) {
            let remote = RemoteQp { gid: peer.gid, lid: peer.lid, qpn: remote.qpn, psn: remote.psn };
            qp.ready_to_receive(local, &remote, self.plan.mtu)?;
            qp.ready_to_send(first_psn(qp))?;
        }
        if let Some(send) = &self.plan.send {
            let per_qp = self.plan.remote.mrs as usize;
            if peer.qps.iter().any(|qp| qp.mrs.len() != per_qp) {
                let flow = self.plan.id.flow;
                return Err(VerbsError::Protocol(format!(
                    "flow {flow}: the peer names other than {per_qp} MRs per QP"
                )));
            }
            let regions = peer.qps.iter().flat_map(|qp| &qp.mrs).map(|mr| Region { address: mr.0, key: mr.1 });
            let remote = Memories { regions: regions.collect(), per_qp, size: self.plan.remote.mr_size.0 };
            let (mtu, qps, depth) = (self.plan.mtu, self.plan.qps, self.plan.caps.send_wr);
            self.requester = Some(Requester::new(send, mtu, qps, depth, self.memories(), remote));
        }
        Ok(())
    }

    fn memories(&self) -> Memories {
        Memories {
            regions: self.mrs.iter().map(Mr::local).collect(),
            per_qp: self.plan.memory.mrs as usize,
            size: self.plan.memory.mr_size.0,
        }
    }

    /// Posts for the first time.
    pub fn start(&mut self, mut event: impl FnMut(String)) {
        let flow = self.plan.id.flow;
        if let Some(requester) = &mut self.requester {
            requester.fill_all(&self.qps, |index, error| event(post_failed("ibv_post_send", flow, index, error)));
        }
    }

    /// Takes what has completed and posts again; how much that was, and how many queues had run low.
    pub fn progress(&mut self, room: &mut Completions, post: bool, mut event: impl FnMut(String)) -> (usize, u32) {
        let mut done = 0;
        for index in 0..self.cqs.len() {
            match self.cqs[index].poll(room) {
                Ok(completions) => {
                    done += completions.len();
                    for completion in completions {
                        completed(&self.plan, &mut self.requester, &mut self.responder, completion, &mut event);
                    }
                }
                Err(error) => event(format!("flow {}: {}", self.plan.id.flow, chain(&error))),
            }
        }
        let flow = self.plan.id.flow;
        let mut ran_low = 0;
        if let Some(requester) = &mut self.requester {
            let failed = |index: u32, error: &std::io::Error| event(post_failed("ibv_post_send", flow, index, error));
            ran_low = requester.refill(&self.qps, post, failed);
        }
        if let Some(responder) = &mut self.responder {
            responder.refill(&self.qps, |index, error| event(post_failed("ibv_post_recv", flow, index, error)));
        }
        (done, ran_low)
    }

    fn qp_name(&self, index: u32) -> String {
        format!("QP {index} of flow {}", self.plan.id.flow)
    }
}

fn completed(
    plan: &GroupPlan,
    requester: &mut Option<Requester>,
    responder: &mut Option<Responder>,
    completion: &ibv_wc,
    event: &mut impl FnMut(String),
) {
    let index = index_of(completion.wr_id);
    if completion.status != ibv_wc_status::IBV_WC_SUCCESS {
        let first = match (requester, responder) {
            (Some(requester), _) => requester.failed(index),
            (None, Some(responder)) => responder.failed(index),
            (None, None) => false,
        };
        // What was still queued is flushed with it; the first error says why.
        if first && completion.status != ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
            event(format!("flow {} {:?}: {}", plan.id.flow, plan.id.role, status(completion.status)));
        }
    } else if completion.opcode == ibv_wc_opcode::IBV_WC_RECV {
        if let Some(responder) = responder {
            responder.completed(index, completion.byte_len);
        }
    } else if let Some(requester) = requester {
        requester.completed(completion.wr_id);
    }
}

fn post_failed(verb: &str, flow: usize, index: u32, error: &std::io::Error) -> String {
    format!("flow {flow}: {verb} failed for QP {index}: {error}")
}

fn status(code: ibv_wc_status::Type) -> String {
    match crate::library::library() {
        // SAFETY: the function accepts any number and returns a static string.
        Ok(library) => text(unsafe { (library.wc_status_str)(code) }),
        Err(_) => format!("completion status {code}"),
    }
}

/// A number that differs between QPs and sessions as QP numbers do.
fn first_psn(qp: &Qp) -> u32 {
    qp.number().wrapping_mul(0x9e37_79b1) & PSN_MASK
}

fn check_limits(pd: &Pd, plan: &GroupPlan) -> Result<(), VerbsError> {
    if plan.qp_type == QpType::Ud {
        return Err(VerbsError::Unsupported("UD is not supported on real hosts yet".to_owned()));
    }
    let limits = pd.context().limits();
    let Caps { send_wr, recv_wr, send_sge, recv_sge } = plan.caps;
    let max_sge = limits.max_sge;
    let table = [
        ("work requests in a queue", send_wr.max(recv_wr), limits.max_qp_wr),
        ("elements in a work request", send_sge.max(recv_sge), max_sge),
        ("completions in a queue", per_qp_completions(plan), limits.max_cqe),
        ("QPs", plan.qps, limits.max_qp),
        ("MRs", plan.qps.saturating_mul(plan.memory.mrs), limits.max_mr),
    ];
    for (what, wanted, limit) in table {
        if i64::from(wanted) > i64::from(limit) {
            let name = pd.context().name();
            return Err(VerbsError::Unsupported(format!("{name} has at most {limit} {what}, not {wanted}")));
        }
    }
    Ok(())
}

/// Completions that one QP can have at a time: when it fails, every posted request completes.
fn per_qp_completions(plan: &GroupPlan) -> u32 {
    plan.caps.send_wr.saturating_add(plan.caps.recv_wr)
}

/// As few CQs as hold all completions of the group.
fn completion_queues(pd: &Arc<Pd>, plan: &GroupPlan) -> Result<Vec<Arc<Cq>>, VerbsError> {
    let each = per_qp_completions(plan);
    let most = u32::try_from(pd.context().limits().max_cqe).unwrap_or(0);
    let per_cq = (most / each).clamp(1, plan.qps);
    (0..plan.qps.div_ceil(per_cq)).map(|_| Cq::new(pd.context(), per_cq * each)).collect()
}

/// The MRs of all QPs, QP after QP, in one mapping.
fn register(pd: &Arc<Pd>, plan: &GroupPlan) -> Result<Vec<Mr>, VerbsError> {
    let count = plan.qps as usize * plan.memory.mrs as usize;
    let too_much = || VerbsError::Unsupported(format!("{count} MRs of {} do not fit", plan.memory.mr_size));
    let size = usize::try_from(plan.memory.mr_size.0).map_err(|_| too_much())?;
    // A page between regions of odd size would hide what a device does with them; they only start aligned.
    let stride = size.checked_next_multiple_of(64).ok_or_else(too_much)?;
    let arena = Arc::new(Arena::new(plan.memory.device, stride.checked_mul(count).ok_or_else(too_much)?)?);
    (0..count).map(|index| Mr::new(pd, &arena, index * stride, size)).collect()
}
