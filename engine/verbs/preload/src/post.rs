//! Posting as `verbs.h` inlines it: chains of requests. The extended way is in `extended`.

use std::ptr::null_mut;

use kelpie_trace::{Opcode, Recorder, Row};
use rdma_sys::{ibv_qp, ibv_qp_type, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_srq, ibv_wr_opcode};

use crate::contexts;
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

/// Stands before `post_send` of a context.
pub unsafe extern "C" fn post_send(qp: *mut ibv_qp, chain: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) -> i32 {
    // SAFETY: the caller has a QP.
    let Some(real) = contexts::post_send(unsafe { (*qp).context }) else { return libc::ENOSYS };
    // SAFETY: with the caller's own arguments.
    let status = unsafe { real(qp, chain, bad) };
    if let Some((recorder, row)) = state::of_qp(qp) {
        // SAFETY: the caller has a QP, and a chain that lives through our call, too.
        unsafe {
            let refused = if status == 0 { null_mut() } else { *bad };
            record_chain(recorder, row, chain, refused, (*qp).qp_type == ibv_qp_type::IBV_QPT_UD);
        }
    }
    status
}

/// Records the requests before `refused`, or all if that is null.
///
/// # Safety
/// `chain` ends with a null `next`, and all it points to lives.
unsafe fn record_chain(
    recorder: Recorder<'_>,
    row: Row,
    chain: *const ibv_send_wr,
    refused: *const ibv_send_wr,
    is_datagram: bool,
) {
    let (mut next, mut count) = (chain, 0);
    while !next.is_null() && next != refused {
        // SAFETY: as the caller promises; `wr` holds what belongs to the operation.
        unsafe {
            let request = &*next;
            let op = op(request.opcode);
            let rkey = match op {
                Some(Opcode::Write | Opcode::Read | Opcode::WriteWithImm) => Some(request.wr.rdma.rkey),
                Some(Opcode::FetchAdd | Opcode::CmpSwap) => Some(request.wr.atomic.rkey),
                _ => None,
            };
            if is_datagram && state::is_local(request.wr.ud.ah) {
                recorder.loopback(row);
            }
            let is_inline = request.send_flags & ibv_send_flags::IBV_SEND_INLINE.0 != 0;
            recorder.request(row, op, elements(list(request.sg_list, request.num_sge)), rkey, is_inline);
            next = request.next;
        }
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
    // SAFETY: with the caller's own arguments.
    let status = unsafe { real(qp, chain, bad) };
    if let Some((recorder, row)) = state::of_qp(qp) {
        // SAFETY: the caller has a chain that lives through our call, too.
        unsafe { record_receives(recorder, row, chain, if status == 0 { null_mut() } else { *bad }) };
    }
    status
}

/// Stands before `post_srq_recv` of a context.
pub unsafe extern "C" fn post_srq_recv(srq: *mut ibv_srq, chain: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) -> i32 {
    // SAFETY: the caller has a shared receive queue.
    let Some(real) = contexts::post_srq_recv(unsafe { (*srq).context }) else { return libc::ENOSYS };
    // SAFETY: with the caller's own arguments.
    let status = unsafe { real(srq, chain, bad) };
    if let Some((recorder, row)) = state::of_srq(srq) {
        // SAFETY: the caller has a chain that lives through our call, too.
        unsafe { record_receives(recorder, row, chain, if status == 0 { null_mut() } else { *bad }) };
    }
    status
}

/// Records the receives before `refused`, or all if that is null.
///
/// # Safety
/// `chain` ends with a null `next`, and all it points to lives.
unsafe fn record_receives(recorder: Recorder<'_>, row: Row, chain: *const ibv_recv_wr, refused: *const ibv_recv_wr) {
    let (mut next, mut count) = (chain, 0);
    while !next.is_null() && next != refused {
        // SAFETY: as the caller promises.
        unsafe {
            let receive = &*next;
            recorder.receive(row, elements(list(receive.sg_list, receive.num_sge)));
            next = receive.next;
        }
        count += 1;
    }
    if count > 0 {
        recorder.posted_receives(row, count);
    }
}
