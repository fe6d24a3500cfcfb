//! Where a QP's path leads: whether back to its own port, and how large packets may be on it.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use rdma_sys::{ibv_ah_attr, ibv_context, ibv_gid, ibv_port_attr};

use crate::next::NextFunction;

/// `ibv_query_port` and `ibv_query_gid` are only used, never stood before.
static QUERY_PORT: NextFunction = NextFunction::new(c"ibv_query_port", c"IBVERBS_1.1", std::ptr::null());
static QUERY_GID: NextFunction = NextFunction::new(c"ibv_query_gid", c"IBVERBS_1.1", std::ptr::null());

type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
type QueryGid = unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int;

/// The library's own function.
fn query_port() -> Option<QueryPort> {
    let real = QUERY_PORT.real();
    // SAFETY: this is its type in `infiniband/verbs.h`, but for the length of what it fills.
    (!real.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, QueryPort>(real) })
}

/// The library's own function.
fn query_gid() -> Option<QueryGid> {
    let real = QUERY_GID.real();
    // SAFETY: this is its type in `infiniband/verbs.h`.
    (!real.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, QueryGid>(real) })
}

/// What the port says; `None` if it does not.
pub fn port(context: *mut ibv_context, number: u8) -> Option<ibv_port_attr> {
    let query = query_port()?;
    // SAFETY: all fields are integers, for which zero is valid.
    let mut port: ibv_port_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the context is open; the function fills what an older library knows of the structure.
    (unsafe { query(context, number, &raw mut port) } == 0).then_some(port)
}

/// Path MTU in bytes. Source: `enum ibv_mtu`: 1 is 256, 5 is 4096.
pub fn mtu(code: u32) -> Option<u32> {
    (1..=5).contains(&code).then(|| 128 << code)
}

/// Whether an address is the port's own.
pub fn is_local(context: *mut ibv_context, number: u8, address: &ibv_ah_attr) -> bool {
    if address.is_global == 0 {
        return port(context, number).is_some_and(|port| port.lid == address.dlid && port.lid != 0);
    }
    // SAFETY: any bytes are a GID.
    gid(context, number, address.grh.sgid_index).is_some_and(|own| own == unsafe { address.grh.dgid.raw })
}

/// An entry of the port's GID table.
pub fn gid(context: *mut ibv_context, number: u8, index: u8) -> Option<[u8; 16]> {
    let query = query_gid()?;
    let mut gid = ibv_gid { raw: [0; 16] };
    // SAFETY: the context is open, and the GID ours.
    let status = unsafe { query(context, number, index.into(), &raw mut gid) };
    // SAFETY: any bytes are a GID.
    (status == 0).then_some(unsafe { gid.raw })
}
