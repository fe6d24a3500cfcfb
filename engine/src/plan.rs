//! From a workload to what each host has to set up, in the terms of verbs. Pure: no device, no clock, no I/O.

use std::time::Duration;

use kelpie_spaces::{Bytes, Flow, Host, Memory, Mtu, Opcode, QpType, Request, Workload};
use serde::{Deserialize, Serialize};

/// What a datagram brings in front of its payload, whatever the network: a global routing header (GRH).
///
/// Units: bytes. Source: `ibv_post_recv(3)`, "the first 40 bytes of the buffer(s)".
pub const GRH_SIZE: u64 = 40;

/// The size of a segment, which WQEs of mlx5 are made of. Units: bytes. Source: `struct mlx5_wqe_data_seg`.
pub const WQE_SEGMENT: u64 = 16;

/// What WQEs of mlx5 are rounded up to, and the size of its CQEs. Units: bytes. Source: `MLX5_SEND_WQE_BB`.
const BASIC_BLOCK: u64 = 64;

/// Which end of a flow a group of QPs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Posts the request vector.
    Requester,
    /// Is written to, read from, or receives.
    Responder,
}

impl Role {
    /// The other end.
    #[must_use]
    pub fn peer(self) -> Role {
        match self {
            Role::Requester => Role::Responder,
            Role::Responder => Role::Requester,
        }
    }
}

/// Names one end of one flow; both hosts and both processes mean the same by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId {
    /// Index of the flow in the workload.
    pub flow: usize,
    /// Its end.
    pub role: Role,
}

impl GroupId {
    /// The other end of the flow.
    #[must_use]
    pub fn peer(self) -> GroupId {
        GroupId { flow: self.flow, role: self.role.peer() }
    }
}

/// Capabilities of each QP. Source: `ibv_qp_cap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Caps {
    /// `max_send_wr`.
    pub send_wr: u32,
    /// `max_recv_wr`.
    pub recv_wr: u32,
    /// `max_send_sge`.
    pub send_sge: u32,
    /// `max_recv_sge`.
    pub recv_sge: u32,
    /// `max_inline_data`. Units: bytes.
    pub inline: u32,
}

/// What a requester posts on each QP, in order, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendPlan {
    /// Work requests chained in one post.
    pub batch: u32,
    /// The request vector.
    pub requests: Vec<Request>,
    /// Messages up to this size are posted inline. Units: bytes.
    pub inline: u64,
    /// How long each QP pauses from one post to the next.
    pub pause: Duration,
    /// Whether requests that ask for a completion are timed.
    pub latency: bool,
}

/// What a responder posts on each QP for what consumes receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecvPlan {
    /// Work requests chained in one post.
    pub batch: u32,
    /// Sizes of the scatter elements, none where only immediate data arrives; of a datagram's, the first has room for
    /// the GRH before its payload. Units: bytes.
    pub elements: Vec<u64>,
    /// What arrives.
    pub ops: Vec<Opcode>,
}

/// QPs and MRs that one end of a flow makes and destroys beside its traffic. Units: per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Churn {
    /// QPs.
    pub qps: u32,
    /// MRs.
    pub mrs: u32,
}

/// Equal QPs of one end of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Which end of which flow.
    pub id: GroupId,
    /// Whether the other end is on this host, too.
    pub is_loopback: bool,
    /// Transport.
    pub qp_type: QpType,
    /// Number of QPs.
    pub qps: u32,
    /// Path MTU.
    pub mtu: Mtu,
    /// Capabilities of each QP; a queue that the role never posts to has room for one.
    pub caps: Caps,
    /// Set for a requester.
    pub send: Option<SendPlan>,
    /// Set for a responder where something consumes receives.
    pub recv: Option<RecvPlan>,
    /// What it makes and destroys meanwhile.
    pub churn: Churn,
    /// Memory here, per QP. A datagram's responder has MRs that hold a GRH besides its longest element.
    pub memory: Memory,
    /// Memory at the other end, per QP.
    pub remote: Memory,
}

impl GroupPlan {
    /// Memory regions of all its QPs.
    pub fn mrs(&self) -> u64 {
        u64::from(self.qps).saturating_mul(self.memory.mrs.into())
    }

    /// What they hold together. Units: bytes.
    pub fn registered_bytes(&self) -> u64 {
        self.mrs().saturating_mul(self.memory.mr_size.0)
    }

    /// What the queues of its QPs and their completions take of the host's memory: an estimate, since only the device's
    /// library knows, with the WQEs of mlx5, whose headers have room for every kind of request, and CQEs of 64 bytes.
    ///
    /// Units: bytes. Source: rdma-core, `providers/mlx5/verbs.c`: `sq_overhead`, `mlx5_calc_send_wqe`,
    /// `mlx5_calc_sq_size` and `mlx5_calc_rq_size`.
    pub fn queue_bytes(&self) -> u64 {
        let Caps { send_wr, recv_wr, send_sge, recv_sge, inline } = self.caps;
        let header = if self.qp_type == QpType::Ud { 64 } else { 192 };
        let payload = (WQE_SEGMENT * u64::from(send_sge)).max((4 + u64::from(inline)).next_multiple_of(WQE_SEGMENT));
        let send_wqe = (header + payload).next_multiple_of(BASIC_BLOCK);
        let send = (u64::from(send_wr) * send_wqe).next_power_of_two();
        let recv = u64::from(recv_wr).next_power_of_two() * (WQE_SEGMENT * u64::from(recv_sge)).next_power_of_two();
        let completions = BASIC_BLOCK * (u64::from(send_wr) + u64::from(recv_wr));
        u64::from(self.qps) * (send + recv + completions)
    }

    /// The operations that this end counts: those it requests, or those that consume its receives.
    pub fn ops(&self) -> Vec<Opcode> {
        match (&self.send, &self.recv) {
            (Some(send), _) => distinct(send.requests.iter().map(|request| request.op)),
            (None, Some(recv)) => recv.ops.clone(),
            (None, None) => Vec::new(),
        }
    }
}

/// What a host makes of the way of all that it sends. The default is the way as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PathPlan {
    /// Packets that are lost, of a million.
    pub loss_ppm: u32,
    /// What it takes longer. Units: ns.
    pub delay_ns: u32,
}

/// Everything that one host sets up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPlan {
    /// The host.
    pub host: Host,
    /// Its ends of the flows, in the order of the flows, requester before responder.
    pub groups: Vec<GroupPlan>,
    /// The ways of all flows that leave it, each once; a host can have one.
    pub paths: Vec<PathPlan>,
    /// The workload that it is a part of. A device needs no more than the rest; a model needs both ends.
    pub workload: Workload,
}

impl HostPlan {
    /// QPs and MRs that all its ends make and destroy beside their traffic; none if they make none. Units: per second.
    pub fn churn(&self) -> Option<[u64; 2]> {
        let sum = |of: fn(&Churn) -> u32| self.groups.iter().map(|group| u64::from(of(&group.churn))).sum();
        let all: [u64; 2] = [sum(|churn| churn.qps), sum(|churn| churn.mrs)];
        (all != [0, 0]).then_some(all)
    }

    /// The same, with every requester's signalled requests timed.
    #[must_use]
    pub fn with_latency(mut self) -> Self {
        self.groups.iter_mut().filter_map(|group| group.send.as_mut()).for_each(|send| send.latency = true);
        self
    }
}

/// What `host` does for `workload`, which has passed [`kelpie_spaces::check`].
pub fn plan(workload: &Workload, host: Host) -> HostPlan {
    let mut groups = Vec::new();
    for (index, flow) in workload.flows.iter().enumerate() {
        if flow.from == host {
            groups.push(requester(index, flow));
        }
        if flow.to == host {
            groups.push(responder(index, flow));
        }
    }
    let leave = workload.flows.iter().filter(|flow| !flow.is_loopback());
    let path = |flow: &Flow| PathPlan { loss_ppm: flow.loss_ppm, delay_ns: flow.path_delay_ns };
    let mut paths: Vec<PathPlan> = leave.map(path).collect();
    paths.sort_unstable();
    paths.dedup();
    HostPlan { host, groups, paths, workload: workload.clone() }
}

fn requester(index: usize, flow: &Flow) -> GroupPlan {
    // Each is named, so that the compiler asks what hosts make of a new one.
    let Flow {
        from,
        to,
        qp_type,
        qps,
        mtu,
        wq_depth,
        batch,
        pattern,
        recv_sge: _, // for the responder
        inline: Bytes(inline),
        interarrival_ns,
        qps_made_per_sec: _, // for both ends
        mrs_made_per_sec: _,
        loss_ppm: _, // for the paths of the host
        path_delay_ns: _,
        ports: _, // for who connects the QPs
        memory,
    } = flow;
    let widest = pattern.iter().map(|request| request.sge.len()).max().unwrap_or(1);
    GroupPlan {
        id: GroupId { flow: index, role: Role::Requester },
        is_loopback: from == to,
        qp_type: *qp_type,
        qps: *qps,
        mtu: *mtu,
        caps: Caps { send_wr: wq_depth.send, recv_wr: 1, send_sge: count(widest), recv_sge: 1, inline: *inline as u32 },
        send: Some(SendPlan {
            batch: batch.send,
            requests: pattern.clone(),
            inline: *inline,
            pause: Duration::from_nanos((*interarrival_ns).into()),
            latency: false,
        }),
        recv: None,
        churn: churn(flow),
        memory: memory.from,
        remote: memory.to,
    }
}

fn responder(index: usize, flow: &Flow) -> GroupPlan {
    let ops = distinct(flow.pattern.iter().map(|request| request.op).filter(|op| op.consumes_receive()));
    let mut memory = flow.memory.to;
    let recv = (!ops.is_empty()).then(|| {
        let mut elements: Vec<u64> = flow.receive_elements().iter().map(|size| size.0).collect();
        if flow.qp_type == QpType::Ud
            && let Some(first) = elements.first_mut()
        {
            *first += GRH_SIZE;
            memory.mr_size = memory.mr_size.max(Bytes(*first));
        }
        RecvPlan { batch: flow.batch.recv, elements, ops }
    });
    let recv_sge = recv.as_ref().map_or(1, |recv| count(recv.elements.len()).max(1));
    let recv_wr = if recv.is_some() { flow.wq_depth.recv } else { 1 };
    GroupPlan {
        id: GroupId { flow: index, role: Role::Responder },
        is_loopback: flow.is_loopback(),
        qp_type: flow.qp_type,
        qps: flow.qps,
        mtu: flow.mtu,
        caps: Caps { send_wr: 1, recv_wr, send_sge: 1, recv_sge, inline: 0 },
        send: None,
        recv,
        churn: churn(flow),
        memory,
        remote: flow.memory.from,
    }
}

fn churn(flow: &Flow) -> Churn {
    Churn { qps: flow.qps_made_per_sec, mrs: flow.mrs_made_per_sec }
}

/// Each of them once, in the order of [`Opcode::ALL`].
fn distinct(ops: impl Iterator<Item = Opcode>) -> Vec<Opcode> {
    let mut ops: Vec<Opcode> = ops.collect();
    ops.sort_unstable();
    ops.dedup();
    ops
}

fn count(len: usize) -> u32 {
    u32::try_from(len).expect("lists of a checked workload are short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{flow, workload};

    #[test]
    fn each_end_of_a_flow_lands_on_its_host() {
        let both = workload(vec![flow("a", "b", "WRITE"), flow("b", "a", "SEND"), flow("a", "a", "WRITE")]);
        let ids = |host| -> Vec<(usize, Role)> {
            plan(&both, host).groups.iter().map(|group| (group.id.flow, group.id.role)).collect()
        };
        let (requester, responder) = (Role::Requester, Role::Responder);
        assert_eq!(ids(Host::A), [(0, requester), (1, responder), (2, requester), (2, responder)]);
        assert_eq!(ids(Host::B), [(0, responder), (1, requester)]);
    }

    #[test]
    fn requests_are_timed_where_that_was_asked_for_and_nothing_else_changes() {
        let both = workload(vec![flow("a", "b", "WRITE"), flow("b", "a", "SEND"), flow("a", "a", "READ")]);
        let timed = |plan: &HostPlan| -> Vec<bool> {
            plan.groups.iter().filter_map(|group| group.send.as_ref()).map(|send| send.latency).collect()
        };
        let plain = plan(&both, Host::A);
        assert_eq!(timed(&plain), [false, false]);
        let mut with = plain.clone().with_latency();
        assert_eq!(timed(&with), [true, true]);
        with.groups.iter_mut().filter_map(|group| group.send.as_mut()).for_each(|send| send.latency = false);
        assert_eq!(with, plain);
    }

    #[test]
    fn both_ends_make_and_destroy_and_a_host_with_both_does_twice_as_much() {
        let mut making = flow("a", "b", "WRITE");
        (making.qps_made_per_sec, making.mrs_made_per_sec) = (100, 7);
        let both = workload(vec![making.clone(), Flow { to: making.from, ..making.clone() }, flow("a", "b", "READ")]);
        assert_eq!([Host::A, Host::B].map(|host| plan(&both, host).churn()), [Some([300, 21]), Some([100, 7])]);
        assert_eq!(plan(&workload(vec![flow("a", "b", "WRITE")]), Host::A).churn(), None);
    }

    #[test]
    fn only_a_responder_of_what_consumes_receives_has_them() {
        let table =
            [("WRITE", false), ("READ", false), ("SEND", true), ("WRITE_WITH_IMM", true), ("SEND_WITH_IMM", true)];
        for (op, receives) in table {
            let plan = plan(&workload(vec![flow("a", "b", op)]), Host::B);
            let group = &plan.groups[0];
            assert_eq!(group.recv.is_some(), receives, "{op}");
            assert_eq!(group.caps.recv_wr > 1, receives, "{op}");
        }
    }

    #[test]
    fn the_default_receive_vector_fits_the_largest_send() {
        let group = &plan(&workload(vec![flow("a", "b", "SEND")]), Host::B).groups[0];
        assert_eq!(group.recv.as_ref().map(|recv| recv.elements.clone()), Some(vec![4096]));
        let group = &plan(&workload(vec![flow("a", "b", "WRITE_WITH_IMM")]), Host::B).groups[0];
        assert_eq!(group.recv.as_ref().map(|recv| recv.elements.clone()), Some(vec![]), "nothing lands in a receive");
        assert_eq!(group.caps.recv_sge, 1);
    }

    #[test]
    fn queues_take_what_their_wqes_and_cqes_take() {
        let queues = |qp_type, caps| {
            let flow = flow("a", "b", "SEND");
            GroupPlan { qp_type, qps: 3, caps, ..requester(0, &flow) }.queue_bytes() / 3
        };
        let one = Caps { send_wr: 1, recv_wr: 1, send_sge: 1, recv_sge: 1, inline: 0 };
        for (qp_type, caps, expected) in [
            (QpType::Rc, one, 256 + 16 + 128),
            (QpType::Uc, one, 256 + 16 + 128),
            (QpType::Ud, one, 128 + 16 + 128),
            (QpType::Rc, Caps { send_sge: 4, ..one }, 256 + 16 + 128),
            (QpType::Rc, Caps { send_sge: 5, ..one }, 512 + 16 + 128),
            (QpType::Rc, Caps { inline: 60, ..one }, 256 + 16 + 128),
            (QpType::Rc, Caps { inline: 61, ..one }, 512 + 16 + 128),
            (QpType::Rc, Caps { recv_wr: 5, recv_sge: 3, ..one }, 256 + 8 * 64 + 6 * 64),
            (QpType::Rc, Caps { send_wr: 4096, send_sge: 16, ..one }, 4096 * 512 + 16 + 4097 * 64),
        ] {
            assert_eq!(queues(qp_type, caps), expected, "{qp_type} {caps:?}");
        }
    }

    #[test]
    fn a_datagram_has_room_for_its_grh() {
        let mut datagrams = flow("a", "b", "SEND");
        datagrams.qp_type = QpType::Ud;
        datagrams.mtu = Mtu::try_from(4096).expect("an MTU");
        for (mr_size, recv_sge, elements, grown) in [
            (16 << 10, vec![], vec![4096 + 40], 16 << 10),
            (4096, vec![], vec![4096 + 40], 4096 + 40),
            (4096, vec![4090, 6], vec![4130, 6], 4130),
        ] {
            datagrams.memory.to.mr_size = Bytes(mr_size);
            datagrams.recv_sge = recv_sge.into_iter().map(Bytes).collect();
            let group = &plan(&workload(vec![datagrams.clone()]), Host::B).groups[0];
            assert_eq!(group.recv.as_ref().expect("it receives").elements, elements);
            assert_eq!(group.memory.mr_size, Bytes(grown));
        }
    }
}
