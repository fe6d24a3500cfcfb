//! Posting the extended way, `ibv_wr_start` to `ibv_wr_complete`: each step is a function pointer of the QP.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};

use kelpie_trace::Opcode;
use rdma_sys::{__be32, ibv_ah, ibv_data_buf, ibv_qp_ex, ibv_sge};

use crate::contexts::swap;
use crate::lock::EXCHANGING;
use crate::pointers::Pointers;
use crate::post::elements;
use crate::state;

/// Numbers from here on are no operation.
const NO_OP: u32 = u32::MAX;

/// A QP's own functions, by [`QpFunction`], and the post call that is being made.
struct Slot {
    real: [AtomicPtr<c_void>; STEPS],
    /// The request that waits for its elements.
    op: AtomicU32,
    /// Plus one; 0 if it names no remote memory.
    rkey: AtomicU64,
    batch: AtomicU64,
}

/// The functions of a QP that are exchanged.
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "each is named like the function that it is an index of")]
enum QpFunction {
    start,
    complete,
    send,
    send_imm,
    send_inv,
    rdma_write,
    rdma_write_imm,
    rdma_read,
    fetch_add,
    cmp_swap,
    set_sge,
    set_sge_list,
    set_inline,
    set_inline_list,
    set_ud,
}

const STEPS: usize = QpFunction::set_ud as usize + 1;

impl Slot {
    const fn new() -> Self {
        Self {
            real: [const { AtomicPtr::new(null_mut()) }; STEPS],
            op: AtomicU32::new(NO_OP),
            rkey: AtomicU64::new(0),
            batch: AtomicU64::new(0),
        }
    }

    /// A request begins.
    fn begins(&self, qp: *mut ibv_qp_ex, op: Opcode, rkey: Option<u32>) {
        self.has_elements(qp, std::iter::empty(), false);
        self.op.store(op as u32, Relaxed);
        self.rkey.store(rkey.map_or(0, |rkey| u64::from(rkey) + 1), Relaxed);
    }

    /// The request that waits for them has these elements; one that never got any has none.
    fn has_elements(&self, qp: *mut ibv_qp_ex, elements: impl Iterator<Item = (u32, u32)> + Clone, is_inline: bool) {
        let Some(op) = Opcode::ALL.get(self.op.load(Relaxed) as usize) else { return };
        self.op.store(NO_OP, Relaxed);
        self.batch.store(self.batch.load(Relaxed) + 1, Relaxed);
        if let Some((recorder, row)) = state::of_qp(qp.cast()) {
            let rkey = self.rkey.load(Relaxed).checked_sub(1).map(|rkey| rkey as u32);
            recorder.request(row, Some(*op), elements, rkey, is_inline);
        }
    }
}

/// QPs whose functions can be exchanged at a time. Source: our choice, above the paper's 20,000.
const MOST: usize = 1 << 15;

static SLOTS: [Slot; MOST] = [const { Slot::new() }; MOST];
/// Places in `SLOTS`; a QP keeps its own for as long as its address is in use, also in a child of a fork.
static INDEX: Pointers<{ 2 * MOST }> = Pointers::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What belongs to a QP whose functions were exchanged.
fn slot(qp: *mut ibv_qp_ex) -> &'static Slot {
    &SLOTS[INDEX.get(qp).expect("functions are exchanged only for a QP that has a slot")]
}

/// Exchanges the functions of a QP that the program got hold of, once.
///
/// # Safety
/// `qp` exists; before the first call returns no thread posts on it.
pub unsafe fn exchange(qp: *mut ibv_qp_ex) {
    // SAFETY: as the caller promises.
    EXCHANGING.alone(|| unsafe { exchange_alone(qp) });
}

/// # Safety
/// As for `exchange`, and no other thread is here.
unsafe fn exchange_alone(qp: *mut ibv_qp_ex) {
    // A program may ask for it as often as it likes, also between the steps of a post call.
    // SAFETY: the QP exists, and what it posts with changes only here.
    if unsafe { (*qp).wr_start }.is_some_and(|held| held as usize == start as *const () as usize) {
        return;
    }
    let index = INDEX.get(qp).unwrap_or_else(|| COUNT.fetch_add(1, Relaxed));
    if index >= MOST || !INDEX.put(qp, index) {
        return;
    }
    let slot = &SLOTS[index];
    slot.op.store(NO_OP, Relaxed);
    macro_rules! swap {
        ($($field:ident => $ours:ident;)*) => {
            $(
                // SAFETY: as the caller promises; ours has the type of the field.
                unsafe { swap(&raw mut (*qp).$field, &slot.real[QpFunction::$ours as usize], $ours as *mut c_void) };
            )*
        };
    }
    swap! {
        wr_start => start;
        wr_complete => complete;
        wr_send => send;
        wr_send_imm => send_imm;
        wr_send_inv => send_inv;
        wr_rdma_write => rdma_write;
        wr_rdma_write_imm => rdma_write_imm;
        wr_rdma_read => rdma_read;
        wr_atomic_fetch_add => fetch_add;
        wr_atomic_cmp_swp => cmp_swap;
        wr_set_sge => set_sge;
        wr_set_sge_list => set_sge_list;
        wr_set_inline_data => set_inline;
        wr_set_inline_data_list => set_inline_list;
        wr_set_ud_addr => set_ud;
    }
}

/// Calls the QP's own function with the caller's own arguments.
macro_rules! real {
    ($slot:expr, $field:ident, fn($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        let real = $slot.real[QpFunction::$field as usize].load(Acquire);
        // SAFETY: it was stored by `exchange`, from a pointer of this type, and is called as the program called it.
        unsafe {
            let real: unsafe extern "C" fn($($type),*) $(-> $result)? = std::mem::transmute(real);
            real($($argument),*)
        }
    }};
}

unsafe extern "C" fn start(qp: *mut ibv_qp_ex) {
    let slot = slot(qp);
    // From here to `complete` a device lets no other thread post on the QP.
    real!(slot, start, fn(*mut ibv_qp_ex), qp);
    slot.op.store(NO_OP, Relaxed);
    slot.batch.store(0, Relaxed);
}

unsafe extern "C" fn complete(qp: *mut ibv_qp_ex) -> c_int {
    let slot = slot(qp);
    slot.has_elements(qp, std::iter::empty(), false);
    if let Some((recorder, row)) = state::of_qp(qp.cast()) {
        recorder.posted(row, slot.batch.load(Relaxed), state::now);
    }
    real!(slot, complete, fn(*mut ibv_qp_ex) -> c_int, qp)
}

/// Functions that begin a request.
macro_rules! beginnings {
    ($($name:ident($($argument:ident: $type:ty),*) = $op:ident, $rkey:expr;)*) => {
        $(
            unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $argument: $type)*) {
                let slot = slot(qp);
                slot.begins(qp, Opcode::$op, $rkey);
                real!(slot, $name, fn(*mut ibv_qp_ex $(, $type)*), qp $(, $argument)*);
            }
        )*
    };
}

beginnings! {
    send() = Send, None;
    send_imm(data: __be32) = SendWithImm, None;
    send_inv(key: u32) = Send, None;
    rdma_write(rkey: u32, address: u64) = Write, Some(rkey);
    rdma_write_imm(rkey: u32, address: u64, data: __be32) = WriteWithImm, Some(rkey);
    rdma_read(rkey: u32, address: u64) = Read, Some(rkey);
    fetch_add(rkey: u32, address: u64, add: u64) = FetchAdd, Some(rkey);
    cmp_swap(rkey: u32, address: u64, compare: u64, swap: u64) = CmpSwap, Some(rkey);
}

unsafe extern "C" fn set_sge(qp: *mut ibv_qp_ex, lkey: u32, address: u64, length: u32) {
    let slot = slot(qp);
    slot.has_elements(qp, std::iter::once((lkey, length)), false);
    real!(slot, set_sge, fn(*mut ibv_qp_ex, u32, u64, u32), qp, lkey, address, length);
}

unsafe extern "C" fn set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    let slot = slot(qp);
    // SAFETY: the caller has this many elements.
    let held = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    slot.has_elements(qp, elements(held), false);
    real!(slot, set_sge_list, fn(*mut ibv_qp_ex, usize, *const ibv_sge), qp, count, list);
}

unsafe extern "C" fn set_inline(qp: *mut ibv_qp_ex, address: *mut c_void, length: usize) {
    let slot = slot(qp);
    slot.has_elements(qp, std::iter::once((0, length as u32)), true);
    real!(slot, set_inline, fn(*mut ibv_qp_ex, *mut c_void, usize), qp, address, length);
}

unsafe extern "C" fn set_inline_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    let slot = slot(qp);
    // SAFETY: the caller has this many buffers.
    let held = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(list, count) } };
    slot.has_elements(qp, held.iter().map(|buffer| (0, buffer.length as u32)), true);
    real!(slot, set_inline_list, fn(*mut ibv_qp_ex, usize, *const ibv_data_buf), qp, count, list);
}

unsafe extern "C" fn set_ud(qp: *mut ibv_qp_ex, handle: *mut ibv_ah, number: u32, key: u32) {
    if state::is_local(handle)
        && let Some((recorder, row)) = state::of_qp(qp.cast())
    {
        recorder.loopback(row);
    }
    real!(slot(qp), set_ud, fn(*mut ibv_qp_ex, *mut ibv_ah, u32, u32), qp, handle, number, key);
}
