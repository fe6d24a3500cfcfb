//! LAG ports and source ports of QPs of mlx5 devices: in a bond with queue affinity the driver deals QPs out, and only
//! the device's own call moves one to another port; another call changes the UDP source port of a QP at work. libmlx5
//! is there if such a device is; nothing is loaded for it. Not tried on such a device.
//!
//! Source: `mlx5dv_query_qp_lag_port(3)`, `mlx5dv_modify_qp_lag_port(3)`: a later change of the QP's state may set the
//! port anew, and a QP that is not ready to send, or is in no LAG, is refused. `mlx5dv_modify_qp_udp_sport(3)`: RC and
//! UC QPs that are ready to send.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::sync::OnceLock;

use rdma_sys::{ibv_device, ibv_qp};

/// The library as the dynamic linker knows it.
const LIBRARY: &CStr = c"libmlx5.so.1";

/// Its functions. Source: `infiniband/mlx5dv.h`.
struct Mlx5 {
    is_supported: unsafe extern "C" fn(*mut ibv_device) -> bool,
    query: unsafe extern "C" fn(*mut ibv_qp, *mut u8, *mut u8) -> c_int,
    modify: unsafe extern "C" fn(*mut ibv_qp, u8) -> c_int,
    /// Since rdma-core 36.
    source_port: Option<unsafe extern "C" fn(*mut ibv_qp, u16) -> c_int>,
}

/// Why a QP was not put on a port of a LAG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LagRefusal {
    /// No libmlx5 with the call is in the process.
    NoCall,
    /// The device is not libmlx5's.
    OtherDevice,
    /// The device has no LAG whose port is set by QP.
    NoLag,
    /// The device does not change source ports of QPs at work.
    NoSourcePort,
    /// Another error: the call, and its errno.
    Failed(&'static str, c_int),
}

impl fmt::Display for LagRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LagRefusal::NoCall => f.write_str("no libmlx5 with mlx5dv_modify_qp_lag_port (rdma-core 31) is loaded"),
            LagRefusal::OtherDevice => f.write_str("not a device of libmlx5"),
            LagRefusal::NoLag => f.write_str("its LAG does not let QPs be put on a port (mlx5dv_modify_qp_lag_port)"),
            LagRefusal::NoSourcePort => {
                f.write_str("it does not change the source port of a QP at work (mlx5dv_modify_qp_udp_sport)")
            }
            LagRefusal::Failed(call, errno) => write!(f, "{call} failed with errno {errno}"),
        }
    }
}

/// The functions, if the library is in this process and new enough (rdma-core 31).
fn mlx5() -> Option<&'static Mlx5> {
    static FUNCTIONS: OnceLock<Option<Mlx5>> = OnceLock::new();
    FUNCTIONS
        .get_or_init(|| {
            // SAFETY: it only looks for a library that is loaded already, and keeps it.
            let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
            if library.is_null() {
                return None;
            }
            let symbol = |name: &CStr| {
                // SAFETY: the library is open.
                let found = unsafe { libc::dlsym(library, name.as_ptr()) };
                (!found.is_null()).then_some(found)
            };
            // SAFETY: the types are those of `infiniband/mlx5dv.h`.
            unsafe {
                Some(Mlx5 {
                    is_supported: std::mem::transmute::<
                        *mut libc::c_void,
                        unsafe extern "C" fn(*mut ibv_device) -> bool,
                    >(symbol(c"mlx5dv_is_supported")?),
                    query: std::mem::transmute::<
                        *mut libc::c_void,
                        unsafe extern "C" fn(*mut ibv_qp, *mut u8, *mut u8) -> c_int,
                    >(symbol(c"mlx5dv_query_qp_lag_port")?),
                    modify: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*mut ibv_qp, u8) -> c_int>(
                        symbol(c"mlx5dv_modify_qp_lag_port")?,
                    ),
                    source_port: symbol(c"mlx5dv_modify_qp_udp_sport").map(|found| {
                        std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*mut ibv_qp, u16) -> c_int>(found)
                    }),
                })
            }
        })
        .as_ref()
}

/// Has a QP that is ready to send leave by this port of its LAG, counted from 1. Says by which it leaves then.
///
/// # Errors
/// Where the device has no such LAG, or no such port.
///
/// # Safety
/// The QP exists.
pub unsafe fn leave_by(qp: *mut ibv_qp, port: u8) -> Result<u8, LagRefusal> {
    let mlx5 = mlx5().ok_or(LagRefusal::NoCall)?;
    let done = |call: &'static str, status: c_int| match status {
        0 => Ok(()),
        libc::EOPNOTSUPP => Err(LagRefusal::NoLag),
        errno => Err(LagRefusal::Failed(call, errno)),
    };
    let (mut configured, mut active) = (0, 0);
    // SAFETY: the QP, its context and its device exist; the device is asked first whether it is libmlx5's.
    unsafe {
        if !(mlx5.is_supported)((*(*qp).context).device) {
            return Err(LagRefusal::OtherDevice);
        }
        // Some firmware takes a change outside of a LAG and does nothing.
        done("mlx5dv_query_qp_lag_port", (mlx5.query)(qp, &raw mut configured, &raw mut active))?;
        done("mlx5dv_modify_qp_lag_port", (mlx5.modify)(qp, port))?;
        done("mlx5dv_query_qp_lag_port", (mlx5.query)(qp, &raw mut configured, &raw mut active))?;
    }
    Ok(active)
}

/// Has a QP that is ready to send send from this UDP source port from now on.
///
/// # Errors
/// Where the library or the device has no such call, or it fails.
///
/// # Safety
/// The QP exists.
pub unsafe fn leave_from(qp: *mut ibv_qp, source_port: u16) -> Result<(), LagRefusal> {
    let mlx5 = mlx5().ok_or(LagRefusal::NoCall)?;
    let call = mlx5.source_port.ok_or(LagRefusal::NoCall)?;
    // SAFETY: the QP, its context and its device exist; the device is asked first whether it is libmlx5's.
    match unsafe { (mlx5.is_supported)((*(*qp).context).device).then(|| call(qp, source_port)) } {
        None => Err(LagRefusal::OtherDevice),
        Some(0) => Ok(()),
        Some(libc::EOPNOTSUPP) => Err(LagRefusal::NoSourcePort),
        Some(errno) => Err(LagRefusal::Failed("mlx5dv_modify_qp_udp_sport", errno)),
    }
}
