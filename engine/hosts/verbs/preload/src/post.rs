//! Posting as `verbs.h` inlines it: chains of requests. The extended way is in `extended`.

use kelpie_trace::{Opcode, QpRow, Recorder};
use rdma_sys::{ibv_qp, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_srq, ibv_wr_opcode};

use crate::contexts;
use crate::copies::Copies;
use crate::state;

/// Local key and length of each element.
pub fn elements(list: &[ibv_sge]) -> impl Iterator<Item = (u32, u32)> + Clone {
    list.iter().map(|element| (element.lkey, element.length))
}

/// The elements of a request.
///
/// # Safety
/// `list` has `count` elements.
unsafe fn list<'a>(list: *const ibv_sge, count: i32) -> &'a [ibv_sge] {
    if count <= 0 || list.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(list, count as usize) }
}

/// A request as it was before it was posted.
#[derive(Clone, Copy)]
struct SavedRequest {
    at: *const ibv_send_wr,
    op: Option<Opcode>,
    rkey: Option<u32>,
    is_inline: bool,
    is_local: bool,
    /// Where its elements end among those of the chain.
    elements_end: usize,
}

/// A receive as it was before it was posted.
#[derive(Clone, Copy)]
struct SavedReceive {
    at: *const ibv_recv_wr,
    /// As above.
    elements_end: usize,
}

/// Local key and length of each element of a chain, one request after the other.
type ElementCopies = Copies<(u32, u32), 256>;

/// Stands before `post_send` of a context.
pub unsafe extern "C" fn post_send(qp: *mut ibv_qp, chain: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> i32 {
    // SAFETY: the caller has a QP.
    let Some(real) = contexts::post_send(unsafe { (*qp).context }) else { return libc::ENOSYS };
    // SAFETY: the caller has a QP and a chain, which may be gone once they are posted.
    let known = state::of_qp(qp)
        .and_then(|known| Some((known, unsafe { copy_chain(chain, (*qp).qp_type == ibv_qp_type::IBV_QPT_UD) }?)));
    // SAFETY: with the caller's own arguments.
    let status = unsafe { real(qp, chain, bad) };
    if let Some(((recorder, row), (requests, elements))) = known {
        // SAFETY: a call that fails has set it.
        let refused = (status != 0).then(|| unsafe { first_refused(chain, bad) });
        record_chain(recorder, row, requests.as_slice(), elements.as_slice(), refused);
    }
    status
}

/// The first request that was not taken; nothing says which it is if the caller gave no place for it.
///
/// # Safety
/// `bad` is null, or was set.
unsafe fn first_refused<T>(chain: *mut T, bad: *mut *mut T) -> *const T {
    // SAFETY: as the caller promises.
    if bad.is_null() { chain } else { unsafe { *bad } }
}

/// The requests of a chain and their elements; `None` if there is no memory for them.
///
/// # Safety
/// `chain` ends with a null `next`, and all it points to lives.
unsafe fn copy_chain(
    chain: *const ibv_send_wr,
    is_datagram: bool,
) -> Option<(Copies<SavedRequest, 64>, ElementCopies)> {
    let (mut requests, mut kept, mut end) = (Copies::new(), ElementCopies::new(), 0);
    let mut next = chain;
    while !next.is_null() {
        // SAFETY: as the caller promises; `wr` holds what belongs to the operation.
        unsafe {
            let request = &*next;
            let op = op(request.opcode);
            let rkey = match op {
                Some(Opcode::Write | Opcode::Read | Opcode::WriteWithImm) => Some(request.wr.rdma.rkey),
                Some(Opcode::FetchAdd | Opcode::CmpSwap) => Some(request.wr.atomic.rkey),
                _ => None,
            };
            let list = list(request.sg_list, request.num_sge);
            let has_room = elements(list).all(|element| kept.push(element));
            end += list.len();
            let is_local = is_datagram && state::is_local(request.wr.ud.ah);
            let is_inline = request.send_flags & ibv_send_flags::IBV_SEND_INLINE.0 != 0;
            if !has_room || !requests.push(SavedRequest { at: next, op, rkey, is_inline, is_local, elements_end: end })
            {
                return None;
            }
            next = request.next;
        }
    }
    Some((requests, kept))
}

/// Records the requests before `refused`, or all if there is none.
fn record_chain(
    recorder: Recorder<'_>,
    row: QpRow,
    requests: &[SavedRequest],
    elements: &[(u32, u32)],
    refused: Option<*const ibv_send_wr>,
) {
    let (mut count, mut start) = (0, 0);
    for request in requests.iter().take_while(|request| Some(request.at) != refused) {
        if request.is_local {
            recorder.loopback(row);
        }
        let own = elements[start..request.elements_end].iter().copied();
        recorder.request(row, request.op, own, request.rkey, request.is_inline);
        start = request.elements_end;
        count += 1;
    }
    if count > 0 {
        recorder.posted(row, count, state::now);
    }
}

/// Source: `enum ibv_wr_opcode`. A SEND that invalidates a key moves what a SEND moves.
fn op(opcode: ibv_wr_opcode::Type) -> Option<Opcode> {
    Some(match opcode {
        ibv_wr_opcode::IBV_WR_SEND | ibv_wr_opcode::IBV_WR_SEND_WITH_INV => Opcode::Send,
        ibv_wr_opcode::IBV_WR_SEND_WITH_IMM => Opcode::SendWithImm,
        ibv_wr_opcode::IBV_WR_RDMA_WRITE => Opcode::Write,
        ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM => Opcode::WriteWithImm,
        ibv_wr_opcode::IBV_WR_RDMA_READ => Opcode::Read,
        ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD => Opcode::FetchAdd,
        ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP => Opcode::CmpSwap,
        _ => return None,
    })
}

/// Stands before `post_recv` of a context.
pub unsafe extern "C" fn post_recv(qp: *mut ibv_qp, chain: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> i32 {
    // SAFETY: the caller has a QP.
    let Some(real) = contexts::post_recv(unsafe { (*qp).context }) else { return libc::ENOSYS };
    // SAFETY: with the caller's own arguments, and a chain that lives until it is posted.
    unsafe { post_receives(state::of_qp(qp), chain, bad, || real(qp, chain, bad)) }
}

/// Stands before `post_srq_recv` of a context.
pub unsafe extern "C" fn post_srq_recv(srq: *mut ibv_srq, chain: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> i32 {
    // SAFETY: the caller has a shared receive queue.
    let Some(real) = contexts::post_srq_recv(unsafe { (*srq).context }) else { return libc::ENOSYS };
    // SAFETY: with the caller's own arguments, and a chain that lives until it is posted.
    unsafe { post_receives(state::of_srq(srq), chain, bad, || real(srq, chain, bad)) }
}

/// Posts by `post` what `chain` holds, and records it.
///
/// # Safety
/// `chain` ends with a null `next`, and all it points to lives until it is posted; `bad` is set if `post` fails.
unsafe fn post_receives(
    known: Option<(Recorder<'_>, QpRow)>,
    chain: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl FnOnce() -> i32,
) -> i32 {
    // SAFETY: as the caller promises.
    let known = known.and_then(|known| Some((known, unsafe { copy_receives(chain) }?)));
    let status = post();
    if let Some(((recorder, row), (receives, elements))) = known {
        // SAFETY: a call that fails has set it.
        let refused = (status != 0).then(|| unsafe { first_refused(chain, bad) });
        let (mut count, mut start) = (0, 0);
        for receive in receives.as_slice().iter().take_while(|receive| Some(receive.at) != refused) {
            recorder.receive(row, elements.as_slice()[start..receive.elements_end].iter().copied());
            start = receive.elements_end;
            count += 1;
        }
        if count > 0 {
            recorder.posted_receives(row, count);
        }
    }
    status
}

/// The receives of a chain and their elements; `None` if there is no memory for them.
///
/// # Safety
/// `chain` ends with a null `next`, and all it points to lives.
unsafe fn copy_receives(chain: *const ibv_recv_wr) -> Option<(Copies<SavedReceive, 64>, ElementCopies)> {
    let (mut receives, mut kept, mut end) = (Copies::new(), ElementCopies::new(), 0);
    let mut next = chain;
    while !next.is_null() {
        // SAFETY: as the caller promises.
        let (receive, list) = unsafe { (&*next, list((*next).sg_list, (*next).num_sge)) };
        end += list.len();
        if !elements(list).all(|element| kept.push(element))
            || !receives.push(SavedReceive { at: next, elements_end: end })
        {
            return None;
        }
        next = receive.next;
    }
    Some((receives, kept))
}
