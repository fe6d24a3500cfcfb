//! One end of one flow on this host: its memory and its lanes, from creation to being connected.

use kelpie_engine::plan::{Caps, GroupId, GroupPlan, Role};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupLag, GroupPorts, HostError, RemoteMr};
use kelpie_spaces::{Device, Opcode, QpType};
use rdma_sys::ibv_atomic_cap;

use crate::ah::LocalPort;
use crate::cq::Completions;
use crate::device::{Context, PortState};
use crate::error::VerbsError;
use crate::lane::Lane;
use crate::mr::Mr;
use crate::pool::{MrKind, Pool, QpKind};
use crate::qp;
use crate::rotation::{RegisteredRegion, Rotation};

/// QPs that are worth a polling thread. Source: our choice, because a thread keeps about as many queues full.
const QPS_PER_THREAD: u32 = 4;

/// One end of one flow. Fields are dropped in this order: QPs before the MRs that they name.
pub struct Group {
    plan: GroupPlan,
    lanes: Vec<Lane>,
    mrs: Vec<Mr>,
    mr_kind: MrKind,
    /// Of its QPs, in turn; what is empty is the port's tuning's, or the device's choice.
    ports: GroupPorts,
    /// What came of LAG ports, if there are any.
    lag: Option<GroupLag>,
}

impl Group {
    /// Creates everything of `plan`, in lanes for up to `threads` threads.
    pub fn new(
        pool: &mut Pool,
        plan: &GroupPlan,
        port: &LocalPort,
        threads: usize,
        session: u32,
    ) -> Result<Self, VerbsError> {
        check_limits(pool.pd().context(), plan)?;
        let kind = QpKind { qp_type: plan.qp_type, caps: plan.caps, is_loopback: plan.is_loopback };
        let most = u32::try_from(pool.pd().context().limits().max_cqe).unwrap_or(0);
        let by_cq = plan.qps.div_ceil((most / kind.completions()).max(1));
        let by_threads = (threads as u32).min(plan.qps.div_ceil(QPS_PER_THREAD));
        let per_lane = plan.qps.div_ceil(by_cq.max(by_threads));
        let mut lanes = Vec::new();
        let mut first = 0;
        while first < plan.qps {
            let qps = per_lane.min(plan.qps - first);
            lanes.push(Lane::new(plan.id, pool.take_qps(kind, qps)?, first as usize, qps as usize, session));
            first += qps;
        }
        let mr_kind = MrKind {
            device: plan.memory.device,
            size: plan.memory.mr_size.0,
            huge_pages: port.tuning.huge_pages,
            is_relaxed: port.tuning.relaxed_ordering,
        };
        let mrs = pool.take_mrs(mr_kind, plan.qps as usize * plan.memory.mrs as usize)?;
        Ok(Self { plan: plan.clone(), lanes, mrs, mr_kind, ports: no_ports(plan.id), lag: None })
    }

    /// What it was made of.
    pub fn plan(&self) -> &GroupPlan {
        &self.plan
    }

    /// Gives its QPs their ports of these, once they are connected.
    pub fn set_ports(&mut self, wanted: &[GroupPorts]) {
        let own = wanted.iter().find(|ports| ports.id == self.plan.id);
        self.ports = own.cloned().unwrap_or_else(|| no_ports(self.plan.id));
    }

    /// What came of its LAG ports, if there are any.
    pub fn lag(&self) -> Option<GroupLag> {
        self.lag.clone()
    }

    /// What its peer has to know.
    pub fn endpoint(&self, context: &Context, port: &LocalPort, state: PortState) -> GroupEndpoint {
        let reads = qp::reads(context, self.plan.id.role);
        let per_qp = self.plan.memory.mrs as usize;
        let mut qps: Vec<_> = self.lanes.iter().flat_map(Lane::endpoints).collect();
        if self.plan.id.role == Role::Responder {
            for (qp, mrs) in qps.iter_mut().zip(self.mrs.chunks(per_qp)) {
                qp.mrs = mrs.iter().map(Mr::remote).map(|region| RemoteMr(region.address, region.key)).collect();
            }
        }
        GroupEndpoint {
            id: self.plan.id,
            gid: port.gid,
            lid: if state.is_ethernet { 0 } else { state.lid },
            needs_grh: state.needs_grh,
            reads,
            qps,
        }
    }

    /// Connects every QP to its peer and posts the first receives.
    pub fn connect(&mut self, pool: &Pool, port: &LocalPort, peer: &GroupEndpoint) -> Result<(), VerbsError> {
        let (flow, ours, theirs) = (self.plan.id.flow, self.plan.qps as usize, peer.qps.len());
        if theirs != ours {
            return Err(VerbsError::Protocol(format!("flow {flow}: {ours} QPs here, {theirs} there")));
        }
        let (per_qp, memory) = (self.plan.memory.mrs as usize, self.plan.memory.mr_size.0);
        let local = Rotation::new(self.mrs.iter().map(Mr::local).collect(), per_qp, memory, self.longest_element());
        let remote = self.plan.send.is_some().then(|| self.remote_memory(peer)).transpose()?;
        let GroupPorts { id, ports, lag_ports } = &self.ports;
        for lane in &mut self.lanes {
            lane.connect(pool.pd(), &self.plan, (port, ports), peer, (&local, remote.as_ref()))?;
        }
        let leaves = || self.lanes.iter().map(|lane| lane.leave_by(lag_ports)).collect::<Result<Vec<_>, _>>();
        self.lag = (!lag_ports.is_empty())
            .then(|| GroupLag { id: *id, leaves: leaves().map(|ports| ports.concat()).map_err(HostError::from) });
        Ok(())
    }

    /// The longest element that is posted here. Units: bytes.
    fn longest_element(&self) -> u64 {
        let sent = self.plan.send.iter().flat_map(|send| &send.requests).flat_map(|request| &request.sge);
        let received = self.plan.recv.iter().flat_map(|recv| &recv.elements);
        sent.map(|size| size.0).chain(received.copied()).max().unwrap_or(0)
    }

    /// The peer's memory, as one-sided requests walk through it.
    fn remote_memory(&self, peer: &GroupEndpoint) -> Result<Rotation, VerbsError> {
        let (flow, per_qp) = (self.plan.id.flow, self.plan.remote.mrs as usize);
        if peer.qps.iter().any(|qp| qp.mrs.len() != per_qp) {
            return Err(VerbsError::Protocol(format!("flow {flow}: the peer does not name {per_qp} MRs per QP")));
        }
        let regions = peer.qps.iter().flat_map(|qp| &qp.mrs).map(|mr| RegisteredRegion { address: mr.0, key: mr.1 });
        let requests = self.plan.send.iter().flat_map(|send| &send.requests);
        let longest = requests.filter(|request| !request.op.is_send()).map(|request| request.message().0).max();
        Ok(Rotation::new(regions.collect(), per_qp, self.plan.remote.mr_size.0, longest.unwrap_or(0)))
    }

    /// Its lanes, which leave it for the threads that poll them and come back with `give_back`.
    pub fn take_lanes(&mut self) -> Vec<Lane> {
        std::mem::take(&mut self.lanes)
    }

    /// Takes back lanes that traffic has ended on.
    pub fn give_back(&mut self, lane: Lane) {
        self.lanes.push(lane);
    }

    /// Leaves its objects to those who come next; QPs and CQs only after a session in which nothing went wrong.
    pub fn recycle(self, pool: &mut Pool, port: u8, is_sound: bool, room: &mut Completions) {
        for lane in self.lanes {
            let (set, used, _requester) = lane.into_parts();
            if is_sound {
                pool.put_qps(set, used, port, room);
            }
        }
        pool.put_mrs(self.mr_kind, self.mrs);
    }
}

fn no_ports(id: GroupId) -> GroupPorts {
    GroupPorts { id, ports: Vec::new(), lag_ports: Vec::new() }
}

fn check_limits(context: &Context, plan: &GroupPlan) -> Result<(), VerbsError> {
    let limits = context.limits();
    let Caps { send_wr, recv_wr, send_sge, recv_sge, .. } = plan.caps;
    let requests = || plan.send.iter().flat_map(|send| &send.requests);
    let read_sge =
        requests().filter(|request| request.op == Opcode::Read).map(|request| request.sge.len() as u32).max();
    let table = [
        ("work requests in a queue (max_qp_wr)", send_wr.max(recv_wr), limits.max_qp_wr),
        ("elements in a work request (max_sge)", send_sge.max(recv_sge), limits.max_sge),
        ("elements in a READ (max_sge_rd)", read_sge.unwrap_or(0), limits.max_sge_rd),
        ("completions in a queue (max_cqe)", send_wr.saturating_add(recv_wr), limits.max_cqe),
        ("QPs (max_qp)", plan.qps, limits.max_qp),
        ("MRs (max_mr)", plan.qps.saturating_mul(plan.memory.mrs), limits.max_mr),
        ("address handles (max_ah)", if plan.qp_type == QpType::Ud { plan.qps } else { 0 }, limits.max_ah),
    ];
    let name = context.name();
    for (what, wanted, limit) in table {
        if i64::from(wanted) > i64::from(limit) {
            return Err(VerbsError::Unsupported(format!("{name} has at most {limit} {what}, not {wanted}")));
        }
    }
    if matches!(plan.memory.device, Device::Gpu(_)) && plan.send.as_ref().is_some_and(|send| send.inline > 0) {
        return Err(VerbsError::Unsupported("inline data is copied by the CPU, which cannot read a GPU".to_owned()));
    }
    let size = plan.memory.mr_size.0;
    if size > limits.max_mr_size {
        let most = limits.max_mr_size;
        return Err(VerbsError::Unsupported(format!(
            "{name} has MRs of at most {most} bytes (max_mr_size), not {size}"
        )));
    }
    if limits.atomic_cap == ibv_atomic_cap::IBV_ATOMIC_NONE
        && let Some(request) = requests().find(|request| request.op.is_atomic())
    {
        return Err(VerbsError::Unsupported(format!("{name} cannot {} (atomic_cap is none)", request.op)));
    }
    Ok(())
}
