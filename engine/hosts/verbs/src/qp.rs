//! A queue pair and its way from creation to ready-to-send. What is posted on it is in `requester` and `responder`.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use kelpie_engine::plan::{Caps, Role};
use kelpie_mlx5::LagRefusal;
use kelpie_spaces::{Mtu, QpType};
use rdma_sys::{
    ibv_access_flags, ibv_atomic_cap, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_recv_wr, ibv_send_wr, ibv_wr_opcode,
};

use crate::ah::{LocalPort, RemotePort, address};
use crate::cq::Cq;
use crate::device::Context;
use crate::error::VerbsError;
use crate::pd::Pd;
use crate::verb::Verb;

/// Transport retries. Source: IBTA volume 1, section 11.2.5.2: 7 is the most.
const RETRIES: u8 = 7;

/// Retries when the receiver is not ready; 7 is for ever. Source: IBTA volume 1, section 11.2.5.2.
const RNR_RETRIES: u8 = 7;

/// Code of the shortest wait asked of a requester when no receive is posted: 0.64 ms.
/// Source: IBTA volume 1, table 45 (receiver-not-ready timer).
const MIN_RNR_TIMER: u8 = 12;

/// How long a send queue that was stopped may take to be drained, and how often it is looked at. Source: our choice.
const DRAINED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);

/// The QP it talks to.
#[derive(Debug, Clone, Copy)]
pub struct RemoteQp {
    /// Its port.
    pub port: RemotePort,
    /// Its number.
    pub qpn: u32,
    /// First packet sequence number that it sends.
    pub psn: u32,
    /// READs and atomics that it answers at a time.
    pub reads: u8,
}

/// `ibv_qp`.
pub struct Qp {
    raw: NonNull<ibv_qp>,
    kind: QpType,
    pd: Arc<Pd>,
    _cq: Arc<Cq>,
}

// SAFETY: libibverbs is thread-safe for all calls on a queue pair.
unsafe impl Send for Qp {}
// SAFETY: as above.
unsafe impl Sync for Qp {}

impl Qp {
    /// Creates one whose completions, of both kinds, go to `cq`.
    pub fn new(pd: &Arc<Pd>, cq: &Arc<Cq>, kind: QpType, caps: &Caps) -> Result<Self, VerbsError> {
        // SAFETY: all fields are pointers, for which null is valid, and integers.
        let mut attributes: ibv_qp_init_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        attributes.send_cq = cq.raw();
        attributes.recv_cq = cq.raw();
        attributes.qp_type = match kind {
            QpType::Rc => ibv_qp_type::IBV_QPT_RC,
            QpType::Uc => ibv_qp_type::IBV_QPT_UC,
            QpType::Ud => ibv_qp_type::IBV_QPT_UD,
        };
        attributes.cap = ibv_qp_cap {
            max_send_wr: caps.send_wr,
            max_recv_wr: caps.recv_wr,
            max_send_sge: caps.send_sge,
            max_recv_sge: caps.recv_sge,
            max_inline_data: caps.inline,
        };
        let library = pd.context().library();
        // SAFETY: domain and queue exist; the attributes live through the call.
        let raw = NonNull::new(unsafe { (library.create_qp.run)(pd.raw(), &raw mut attributes) });
        let object = || format!("an {kind} QP with {caps:?} on {}", pd.context().name());
        let raw = raw.ok_or_else(|| {
            let error = io::Error::last_os_error();
            // No attribute of a device says how much it takes inline, so the only way is to try.
            if caps.inline > 0 && error.raw_os_error() == Some(libc::EINVAL) {
                let (name, inline) = (pd.context().name(), caps.inline);
                return VerbsError::Unsupported(format!(
                    "{name} takes less than {inline} bytes inline (max_inline_data)"
                ));
            }
            VerbsError::Verb { verb: library.create_qp.verb, object: object(), source: error }
        })?;
        Ok(Self { raw, kind, pd: Arc::clone(pd), _cq: Arc::clone(cq) })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        // SAFETY: the QP exists.
        unsafe { self.raw.as_ref() }.qp_num
    }

    /// From reset to init: it can take receives; datagrams only with this `qkey`.
    pub fn init(&self, port: u8, qkey: u32) -> Result<(), VerbsError> {
        let mut attributes = zeroed();
        attributes.qp_state = ibv_qp_state::IBV_QPS_INIT;
        attributes.port_num = port;
        let mut mask =
            ibv_qp_attr_mask::IBV_QP_STATE | ibv_qp_attr_mask::IBV_QP_PKEY_INDEX | ibv_qp_attr_mask::IBV_QP_PORT;
        if self.kind == QpType::Ud {
            attributes.qkey = qkey;
            mask |= ibv_qp_attr_mask::IBV_QP_QKEY;
        } else {
            attributes.qp_access_flags = match self.kind {
                QpType::Rc => remote_access(self.pd.context().limits().atomic_cap).0,
                _ => ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
            };
            mask |= ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS;
        }
        self.modify(attributes, mask, "to INIT")
    }

    /// Back to reset, from wherever it is: nothing is posted and nothing arrives any more.
    pub fn reset(&self) -> Result<(), VerbsError> {
        let mut attributes = zeroed();
        attributes.qp_state = ibv_qp_state::IBV_QPS_RESET;
        self.modify(attributes, ibv_qp_attr_mask::IBV_QP_STATE, "to RESET")
    }

    /// Whether it can begin anew after a reset, which leaves it in reset.
    ///
    /// Drivers differ: irdma of kernel 6 takes a reset for an error, says nothing, and refuses INIT from then on
    /// (`irdma_modify_qp_roce`).
    pub fn can_begin_anew(&self, port: u8) -> bool {
        self.init(port, 0).and_then(|()| self.reset()).is_ok()
    }

    /// From init to ready-to-receive: it answers `remote`, datagrams from anyone.
    pub fn ready_to_receive(&self, local: &LocalPort, remote: &RemoteQp, mtu: Mtu) -> Result<(), VerbsError> {
        let mut attributes = zeroed();
        attributes.qp_state = ibv_qp_state::IBV_QPS_RTR;
        if self.kind == QpType::Ud {
            return self.modify(attributes, ibv_qp_attr_mask::IBV_QP_STATE, "to RTR");
        }
        // Source: `infiniband/verbs.h`, `enum ibv_mtu`: 1 is 256, 5 is 4096.
        attributes.path_mtu = mtu.bytes().ilog2() - 7;
        attributes.dest_qp_num = remote.qpn;
        attributes.rq_psn = remote.psn;
        attributes.ah_attr = address(local, &remote.port);
        let mut mask = ibv_qp_attr_mask::IBV_QP_STATE
            | ibv_qp_attr_mask::IBV_QP_AV
            | ibv_qp_attr_mask::IBV_QP_PATH_MTU
            | ibv_qp_attr_mask::IBV_QP_DEST_QPN
            | ibv_qp_attr_mask::IBV_QP_RQ_PSN;
        if self.kind == QpType::Rc {
            attributes.max_dest_rd_atomic = reads(self.pd.context(), Role::Responder);
            attributes.min_rnr_timer = MIN_RNR_TIMER;
            mask = mask | ibv_qp_attr_mask::IBV_QP_MAX_DEST_RD_ATOMIC | ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(attributes, mask, "to RTR")
    }

    /// From ready-to-receive to ready-to-send towards `remote`, with `psn` as its first packet sequence number.
    pub fn ready_to_send(&self, local: &LocalPort, remote: &RemoteQp, psn: u32) -> Result<(), VerbsError> {
        let mut attributes = zeroed();
        attributes.qp_state = ibv_qp_state::IBV_QPS_RTS;
        attributes.sq_psn = psn;
        let mut mask = ibv_qp_attr_mask::IBV_QP_STATE | ibv_qp_attr_mask::IBV_QP_SQ_PSN;
        if self.kind == QpType::Rc {
            attributes.timeout = local.tuning.ack_timeout;
            attributes.retry_cnt = RETRIES;
            attributes.rnr_retry = RNR_RETRIES;
            // More than the peer answers would end the QP (IBTA volume 1, section 9.4.4).
            attributes.max_rd_atomic = reads(self.pd.context(), Role::Requester).min(remote.reads);
            mask = mask
                | ibv_qp_attr_mask::IBV_QP_TIMEOUT
                | ibv_qp_attr_mask::IBV_QP_RETRY_CNT
                | ibv_qp_attr_mask::IBV_QP_RNR_RETRY
                | ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(attributes, mask, "to RTS")
    }

    /// Has it, ready to send, leave by this port of the device's LAG; by which it leaves then.
    pub fn leave_by(&self, lag_port: u8) -> Result<u8, VerbsError> {
        // SAFETY: the QP exists.
        unsafe { kelpie_mlx5::leave_by(self.raw.as_ptr(), lag_port) }.map_err(|refused| {
            let name = self.pd.context().name();
            match refused {
                LagRefusal::Failed(..) => {
                    VerbsError::Protocol(format!("QP {} of {name} to LAG port {lag_port}: {refused}", self.number()))
                }
                _ => VerbsError::Unsupported(format!("{name} has no LAG ports to choose: {refused}")),
            }
        })
    }

    /// Has it, ready to send and with nothing outstanding, send from the source port of `local` from now on: by its
    /// device's own call, or by a stop of its send queue.
    ///
    /// Soft-RoCE calls a stopped send queue drained when something is posted to it that has not begun
    /// (`drivers/infiniband/sw/rxe/rxe_req.c`, `req_check_sq_drain_done`), and begins it with what is posted next.
    pub fn move_to(&self, local: &LocalPort, remote: &RemotePort) -> Result<(), VerbsError> {
        if let Some(source_port) = local.tuning.udp_source_port {
            // SAFETY: the QP exists.
            match unsafe { kelpie_mlx5::leave_from(self.raw.as_ptr(), source_port) } {
                Ok(()) => return Ok(()),
                Err(refused @ LagRefusal::Failed(..)) => {
                    let (qp, name) = (self.number(), self.pd.context().name());
                    return Err(VerbsError::Protocol(format!(
                        "QP {qp} of {name} from source port {source_port}: {refused}"
                    )));
                }
                Err(_) => {}
            }
        }
        let mut stopped = zeroed();
        stopped.qp_state = ibv_qp_state::IBV_QPS_SQD;
        self.modify(stopped, ibv_qp_attr_mask::IBV_QP_STATE, "to SQD")?;
        self.write_nothing()?;
        let mut moved = zeroed();
        moved.ah_attr = address(local, remote);
        self.modify(moved, ibv_qp_attr_mask::IBV_QP_AV, "to another path")?;
        let until = Instant::now() + DRAINED;
        loop {
            let mut ready = zeroed();
            ready.qp_state = ibv_qp_state::IBV_QPS_RTS;
            match self.modify(ready, ibv_qp_attr_mask::IBV_QP_STATE, "from SQD to RTS") {
                Err(_) if Instant::now() < until => thread::sleep(LOOK),
                done => return done,
            }
        }
    }

    /// A WRITE of no bytes, which touches no memory and completes without a word.
    fn write_nothing(&self) -> Result<(), VerbsError> {
        // SAFETY: all fields are integers and pointers, for which zero is valid.
        let mut request: ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
        request.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
        // SAFETY: a chain of one without elements.
        let posted = unsafe { self.post_send(&raw mut request) };
        let object = || format!("QP {} of {}", self.number(), self.pd.context().name());
        posted.map_err(|source| VerbsError::Verb { verb: Verb::POST_SEND, object: object(), source })
    }

    fn modify(&self, mut attributes: ibv_qp_attr, mask: ibv_qp_attr_mask, way: &str) -> Result<(), VerbsError> {
        let modify = &self.pd.context().library().modify_qp;
        // SAFETY: the QP exists; the attributes live through the call.
        let status = unsafe { (modify.run)(self.raw.as_ptr(), &raw mut attributes, mask.0 as i32) };
        if status == 0 {
            return Ok(());
        }
        let object = format!("QP {} of {} {way}", self.number(), self.pd.context().name());
        Err(VerbsError::from_status(modify.verb, object, status))
    }

    /// Posts a chain of work requests.
    ///
    /// # Safety
    /// `chain` starts a list that ends with a null `next`, and all it points to lives through the call.
    pub unsafe fn post_send(&self, chain: *mut ibv_send_wr) -> Result<(), io::Error> {
        let mut bad = std::ptr::null_mut();
        // SAFETY: the QP exists; the caller vouches for the chain.
        errno(unsafe { ibv_post_send(self.raw.as_ptr(), chain, &raw mut bad) })
    }

    /// Posts a chain of receive requests.
    ///
    /// # Safety
    /// As for `post_send`.
    pub unsafe fn post_recv(&self, chain: *mut ibv_recv_wr) -> Result<(), io::Error> {
        let mut bad = std::ptr::null_mut();
        // SAFETY: the QP exists; the caller vouches for the chain.
        errno(unsafe { ibv_post_recv(self.raw.as_ptr(), chain, &raw mut bad) })
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: destroyed once; nothing else holds it.
        let status = unsafe { (self.pd.context().library().destroy_qp.run)(self.raw.as_ptr()) };
        if status != 0 {
            tracing::warn!(error = %io::Error::from_raw_os_error(status.abs()), "ibv_destroy_qp failed");
        }
    }
}

/// Every remote access that a device with these atomics offers.
pub fn remote_access(atomics: ibv_atomic_cap::Type) -> ibv_access_flags {
    let plain = ibv_access_flags::IBV_ACCESS_REMOTE_WRITE | ibv_access_flags::IBV_ACCESS_REMOTE_READ;
    if atomics == ibv_atomic_cap::IBV_ATOMIC_NONE { plain } else { plain | ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC }
}

fn zeroed() -> ibv_qp_attr {
    // SAFETY: all fields are integers, for which zero is valid.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// READs and atomics that a QP of the device can have outstanding at a requester, and can answer at a responder.
pub fn reads(context: &Context, role: Role) -> u8 {
    let limit = match role {
        Role::Requester => context.limits().max_qp_init_rd_atom,
        Role::Responder => context.limits().max_qp_rd_atom,
    };
    limit.clamp(0, u8::MAX.into()) as u8
}

fn errno(status: i32) -> Result<(), io::Error> {
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status.abs())) }
}
