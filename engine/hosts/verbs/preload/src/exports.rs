//! The functions that stand before libibverbs' own: each does what its name says by the real one, and notes it.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use kelpie_trace::QueueDepths;
use rdma_sys::{
    ibv_ah, ibv_ah_attr, ibv_context, ibv_device, ibv_mr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap,
    ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_state, ibv_qp_type, ibv_srq, ibv_srq_init_attr,
    ibv_srq_init_attr_ex,
};

use crate::contexts::{self, Functions};
use crate::next::{NextFunction, dlvsym_of_libc, real_dlvsym};
use crate::{addresses, extended, memory, post, state, steer};

macro_rules! exports {
    ($($name:ident $symbol:literal $version:literal: $type:ty;)*) => {
        /// Every function that ours stand before.
        static ALL: [NextFunction; [$($symbol),*].len()] = [$(NextFunction::new($symbol, $version, $name as *const c_void)),*];

        /// The real functions.
        #[allow(non_camel_case_types, reason = "each is named like the function that it is an index of")]
        enum Index {
            $($name),*
        }

        mod real {
            #[allow(clippy::wildcard_imports, reason = "all types of the signatures")]
            use super::*;
            $(
                pub fn $name() -> Option<$type> {
                    let real = ALL[Index::$name as usize].real();
                    // SAFETY: this is its type in `infiniband/verbs.h`.
                    (!real.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, $type>(real) })
                }
            )*
        }
    };
}

exports! {
    ibv_open_device c"ibv_open_device" c"IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context;
    ibv_create_qp c"ibv_create_qp" c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
    ibv_qp_to_qp_ex c"ibv_qp_to_qp_ex" c"IBVERBS_1.6": unsafe extern "C" fn(*mut ibv_qp) -> *mut ibv_qp_ex;
    ibv_modify_qp c"ibv_modify_qp" c"IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
    ibv_destroy_qp c"ibv_destroy_qp" c"IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_qp) -> c_int;
    ibv_create_srq c"ibv_create_srq" c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
    ibv_create_ah c"ibv_create_ah" c"IBVERBS_1.1": unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
    ibv_reg_mr c"ibv_reg_mr" c"IBVERBS_1.1":
        unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
    ibv_reg_mr_iova c"ibv_reg_mr_iova" c"IBVERBS_1.7":
        unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr;
    ibv_reg_mr_iova2 c"ibv_reg_mr_iova2" c"IBVERBS_1.8":
        unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_uint) -> *mut ibv_mr;
    ibv_reg_dmabuf_mr c"ibv_reg_dmabuf_mr" c"IBVERBS_1.12":
        unsafe extern "C" fn(*mut ibv_pd, u64, usize, u64, c_int, c_int) -> *mut ibv_mr;
}

/// What the functions of each context are exchanged for.
const OF_CONTEXTS: Functions = Functions {
    post_send: post::post_send,
    post_recv: post::post_recv,
    post_srq_recv: post::post_srq_recv,
    create_qp_ex,
    create_srq_ex,
};

/// Sets `errno` to "not supported by this library" and returns the null that verbs return then.
fn missing<T>() -> *mut T {
    // SAFETY: the thread's own.
    unsafe { *libc::__errno_location() = libc::ENOSYS };
    null_mut()
}

/// Stands before `dlvsym(3)`: a program that opens libibverbs by itself, as NCCL does, asks here for its functions.
///
/// `RTLD_NEXT` and `RTLD_DEFAULT` mean something else for each caller, which libc knows by the place that it returns
/// to. So those are a jump into libc and no call. Only x86-64 has it; elsewhere such a program is not recorded.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        // RTLD_NEXT is -1, and RTLD_DEFAULT is 0.
        "lea rax, [rdi + 1]",
        "cmp rax, 1",
        "ja {in_a_library}",
        "push rdi",
        "push rsi",
        "push rdx",
        "call {real}",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "je 2f",
        "jmp rax",
        "2:",
        "ret",
        in_a_library = sym dlvsym_in_a_library,
        real = sym real_dlvsym,
    )
}

/// What a library that the program has opened has, or ours instead.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn dlvsym_in_a_library(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    // SAFETY: as the caller promises.
    let real = unsafe { dlvsym_of_libc(handle, name, version) };
    if real.is_null() || name.is_null() {
        return real;
    }
    // SAFETY: it was found, so it is a name.
    let name = unsafe { CStr::from_ptr(name) };
    ALL.iter().find(|next| next.is_named(name)).map_or(real, |next| next.instead_of(real))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    let Some(real) = real::ibv_open_device() else { return missing() };
    // SAFETY: with the caller's own argument.
    let context = unsafe { real(device) };
    if !context.is_null() {
        state::begin();
        steer::begin();
        // A program that is only steered posts as ever.
        if state::recorder().is_some() {
            // SAFETY: nobody else has it yet.
            unsafe { contexts::exchange(context, &OF_CONTEXTS) };
        }
    }
    context
}

fn caps(cap: &ibv_qp_cap) -> QueueDepths {
    QueueDepths { send_depth: cap.max_send_wr, recv_depth: cap.max_recv_wr }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, wanted: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    let Some(real) = real::ibv_create_qp() else { return missing() };
    // What was wanted is overwritten by what was given.
    // SAFETY: the caller has attributes, and they live through the call.
    let (raw_type, caps, srq) = unsafe { ((*wanted).qp_type, caps(&(*wanted).cap), (*wanted).srq) };
    // SAFETY: with the caller's own arguments.
    let qp = unsafe { real(pd, wanted) };
    if !qp.is_null() {
        // SAFETY: it was just created.
        state::add_qp(qp, raw_type, unsafe { (*qp).qp_num }, caps, srq);
    }
    qp
}

/// Stands before `create_qp_ex` of a context.
unsafe extern "C" fn create_qp_ex(context: *mut ibv_context, wanted: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    let Some(real) = contexts::create_qp_ex(context) else { return missing() };
    // SAFETY: the caller has attributes, and they live through the call.
    let (raw_type, caps, srq) = unsafe { ((*wanted).qp_type, caps(&(*wanted).cap), (*wanted).srq) };
    // SAFETY: with the caller's own arguments.
    let qp = unsafe { real(context, wanted) };
    if !qp.is_null() {
        // SAFETY: it was just created.
        state::add_qp(qp, raw_type, unsafe { (*qp).qp_num }, caps, srq);
    }
    qp
}

/// A program that posts the extended way asks for this once a QP.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    let Some(real) = real::ibv_qp_to_qp_ex() else { return missing() };
    // SAFETY: with the caller's own argument.
    let extended = unsafe { real(qp) };
    if !extended.is_null() && state::recorder().is_some() {
        // SAFETY: it exists, and the program posts only with what it gets here.
        unsafe { extended::exchange(extended) };
    }
    extended
}

/// Modifies a QP as it was asked for, with another source port if the agent has one for it.
///
/// # Safety
/// As for `ibv_modify_qp`.
unsafe fn modify(
    real: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
    qp: *mut ibv_qp,
    wanted: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        if let Some(mut steered) = steer::steered(qp, wanted, mask) {
            if real(qp, &raw mut steered, mask) == 0 {
                return 0;
            }
            steer::refused((*qp).qp_num, (*wanted).dest_qp_num);
        }
        let status = real(qp, wanted, mask);
        let is_reset = mask as u32 & ibv_qp_attr_mask::IBV_QP_STATE.0 != 0
            && matches!((*wanted).qp_state, ibv_qp_state::IBV_QPS_RESET | ibv_qp_state::IBV_QPS_ERR);
        if status == 0 && is_reset {
            steer::gone((*qp).qp_num);
        }
        if status == 0 && mask as u32 & ibv_qp_attr_mask::IBV_QP_STATE.0 != 0 {
            steer::changed(qp, (*wanted).qp_state);
        }
        status
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, wanted: *mut ibv_qp_attr, mask: c_int) -> c_int {
    let Some(real) = real::ibv_modify_qp() else { return libc::ENOSYS };
    // SAFETY: the caller has a QP, and attributes as far as the mask names them.
    let status = unsafe { modify(real, qp, wanted, mask) };
    let Some((recorder, row)) = state::of_qp(qp).filter(|_| status == 0) else { return status };
    let has = |bit: ibv_qp_attr_mask| mask as u32 & bit.0 != 0;
    // SAFETY: the caller has a QP, and attributes as far as the mask names them.
    unsafe {
        let context = (*qp).context;
        if has(ibv_qp_attr_mask::IBV_QP_PORT) && (*qp).qp_type == ibv_qp_type::IBV_QPT_UD {
            let port = addresses::port(context, (*wanted).port_num);
            if let Some(mtu) = port.and_then(|port| addresses::mtu(port.active_mtu)) {
                recorder.mtu(row, mtu);
            }
        }
        if let Some(mtu) = addresses::mtu((*wanted).path_mtu).filter(|_| has(ibv_qp_attr_mask::IBV_QP_PATH_MTU)) {
            recorder.mtu(row, mtu);
        }
        if has(ibv_qp_attr_mask::IBV_QP_DEST_QPN) {
            recorder.peer(row, (*wanted).dest_qp_num);
        }
        let address = &raw const (*wanted).ah_attr;
        if has(ibv_qp_attr_mask::IBV_QP_AV) && addresses::is_local(context, (*address).port_num, &*address) {
            recorder.loopback(row);
        }
    }
    status
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    let Some(real) = real::ibv_destroy_qp() else { return libc::ENOSYS };
    let known = state::remove_qp(qp);
    // SAFETY: it exists until it is destroyed.
    let number = unsafe { (*qp).qp_num };
    // SAFETY: with the caller's own argument.
    let status = unsafe { real(qp) };
    if status == 0 {
        steer::gone(number);
    }
    match known {
        Some((recorder, row)) if status == 0 => recorder.ended(row),
        Some((_, row)) => state::restore_qp(qp, row),
        None => {}
    }
    status
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, wanted: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    let Some(real) = real::ibv_create_srq() else { return missing() };
    // SAFETY: the caller has attributes.
    let depth = unsafe { (*wanted).attr.max_wr };
    // SAFETY: with the caller's own arguments.
    let srq = unsafe { real(pd, wanted) };
    if !srq.is_null() {
        state::add_srq(srq, depth);
    }
    srq
}

/// Stands before `create_srq_ex` of a context.
unsafe extern "C" fn create_srq_ex(context: *mut ibv_context, wanted: *mut ibv_srq_init_attr_ex) -> *mut ibv_srq {
    let Some(real) = contexts::create_srq_ex(context) else { return missing() };
    // SAFETY: the caller has attributes.
    let depth = unsafe { (*wanted).attr.max_wr };
    // SAFETY: with the caller's own arguments.
    let srq = unsafe { real(context, wanted) };
    if !srq.is_null() {
        state::add_srq(srq, depth);
    }
    srq
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, wanted: *mut ibv_ah_attr) -> *mut ibv_ah {
    let Some(real) = real::ibv_create_ah() else { return missing() };
    // SAFETY: with the caller's own arguments.
    let handle = unsafe { real(pd, wanted) };
    if !handle.is_null() && state::recorder().is_some() {
        // SAFETY: the caller has a protection domain and an address.
        let is_local = unsafe { addresses::is_local((*pd).context, (*wanted).port_num, &*wanted) };
        state::set_local(handle, is_local);
    }
    handle
}

/// Notes an MR of what begins at `address`, unless it was not made.
///
/// # Safety
/// `mr` is null or exists.
unsafe fn registered(mr: *mut ibv_mr, address: *mut c_void) -> *mut ibv_mr {
    if let Some(recorder) = state::recorder().filter(|_| !mr.is_null()) {
        // SAFETY: as the caller promises.
        let (lkey, rkey, length) = unsafe { ((*mr).lkey, (*mr).rkey, (*mr).length) };
        recorder.mr(lkey, rkey, length as u64, memory::device(address));
    }
    mr
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(pd: *mut ibv_pd, address: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr {
    let Some(real) = real::ibv_reg_mr() else { return missing() };
    // SAFETY: with the caller's own arguments.
    unsafe { registered(real(pd, address, length, access), address) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    let Some(real) = real::ibv_reg_mr_iova() else { return missing() };
    // SAFETY: with the caller's own arguments.
    unsafe { registered(real(pd, address, length, iova, access), address) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    let Some(real) = real::ibv_reg_mr_iova2() else { return missing() };
    // SAFETY: with the caller's own arguments.
    unsafe { registered(real(pd, address, length, iova, access), address) }
}

/// The address of a dma-buf is that of the memory for whoever maps it so, as CUDA programs do.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    file: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let Some(real) = real::ibv_reg_dmabuf_mr() else { return missing() };
    // SAFETY: with the caller's own arguments.
    unsafe { registered(real(pd, offset, length, iova, file, access), iova as *mut c_void) }
}
