//! What a device's context has as function pointers: they are exchanged for ours, and the real ones kept here.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use rdma_sys::{ibv_context, ibv_qp, ibv_qp_init_attr_ex, ibv_srq, ibv_srq_init_attr_ex, verbs_context};

use crate::pointers::Pointers;

/// Most contexts at a time. Source: our choice, because a program opens each device of a host once or twice.
const MOST: usize = 256;

static INDEX: Pointers<{ 2 * MOST }> = Pointers::new();
static KEPT: [SavedFunctions; MOST] = [const { SavedFunctions::new() }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A context's own functions.
struct SavedFunctions {
    post_send: AtomicPtr<c_void>,
    post_recv: AtomicPtr<c_void>,
    post_srq_recv: AtomicPtr<c_void>,
    create_qp_ex: AtomicPtr<c_void>,
    create_srq_ex: AtomicPtr<c_void>,
}

impl SavedFunctions {
    const fn new() -> Self {
        Self {
            post_send: AtomicPtr::new(null_mut()),
            post_recv: AtomicPtr::new(null_mut()),
            post_srq_recv: AtomicPtr::new(null_mut()),
            create_qp_ex: AtomicPtr::new(null_mut()),
            create_srq_ex: AtomicPtr::new(null_mut()),
        }
    }
}

/// Functions of `struct ibv_context_ops`.
pub type PostSend =
    unsafe extern "C" fn(*mut ibv_qp, *mut rdma_sys::ibv_send_wr, *mut *mut rdma_sys::ibv_send_wr) -> i32;
/// As above.
pub type PostRecv =
    unsafe extern "C" fn(*mut ibv_qp, *mut rdma_sys::ibv_recv_wr, *mut *mut rdma_sys::ibv_recv_wr) -> i32;
/// As above.
pub type PostSrqRecv =
    unsafe extern "C" fn(*mut ibv_srq, *mut rdma_sys::ibv_recv_wr, *mut *mut rdma_sys::ibv_recv_wr) -> i32;
/// Functions of `struct verbs_context`.
pub type CreateQpEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
/// As above.
pub type CreateSrqEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;

/// What a context's functions are exchanged for.
pub struct Functions {
    pub post_send: PostSend,
    pub post_recv: PostRecv,
    pub post_srq_recv: PostSrqRecv,
    pub create_qp_ex: CreateQpEx,
    pub create_srq_ex: CreateSrqEx,
}

macro_rules! original {
    ($($name:ident: $type:ty;)*) => {
        $(
            /// The context's own function; `None` for a context that was never exchanged.
            pub fn $name(context: *const ibv_context) -> Option<$type> {
                let real = KEPT[INDEX.get(context)?].$name.load(Acquire);
                // SAFETY: it was stored by `exchange`, from a pointer of this type.
                (!real.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, $type>(real) })
            }
        )*
    };
}

original! {
    post_send: PostSend;
    post_recv: PostRecv;
    post_srq_recv: PostSrqRecv;
    create_qp_ex: CreateQpEx;
    create_srq_ex: CreateSrqEx;
}

/// Exchanges the functions of a context that was just opened for `ours`.
///
/// # Safety
/// `context` is open, and no other thread has it yet.
pub unsafe fn exchange(context: *mut ibv_context, ours: &Functions) {
    let index = INDEX.get(context).unwrap_or_else(|| COUNT.fetch_add(1, Relaxed));
    if index >= MOST || !INDEX.put(context, index) {
        return;
    }
    let kept = &KEPT[index];
    // SAFETY: as the caller promises; the extended context lies around the plain one.
    unsafe {
        let ops = &raw mut (*context).ops;
        swap(&raw mut (*ops).post_send, &kept.post_send, ours.post_send as *mut c_void);
        swap(&raw mut (*ops).post_recv, &kept.post_recv, ours.post_recv as *mut c_void);
        swap(&raw mut (*ops).post_srq_recv, &kept.post_srq_recv, ours.post_srq_recv as *mut c_void);
        // Source: `verbs_get_ctx` in `infiniband/verbs.h`.
        if (*context).abi_compat as usize == usize::MAX {
            let extended: *mut verbs_context = context.byte_sub(offset_of!(verbs_context, context)).cast();
            swap(&raw mut (*extended).create_qp_ex, &kept.create_qp_ex, ours.create_qp_ex as *mut c_void);
            swap(&raw mut (*extended).create_srq_ex, &kept.create_srq_ex, ours.create_srq_ex as *mut c_void);
        }
    }
}

/// Puts `ours` where a function pointer is, and keeps what was there; what is absent stays so.
///
/// # Safety
/// `place` holds an optional function pointer of the type of `ours`, and nobody else uses it meanwhile.
pub unsafe fn swap<F>(place: *mut Option<F>, kept: &AtomicPtr<c_void>, ours: *mut c_void) {
    let place: *mut *mut c_void = place.cast();
    // SAFETY: an optional function pointer is a pointer that may be null.
    unsafe {
        if !(*place).is_null() && *place != ours {
            kept.store(*place, Release);
            *place = ours;
        }
    }
}
