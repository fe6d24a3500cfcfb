//! A memory region.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_access_flags, ibv_mr};

use crate::error::VerbsError;
use crate::memory::Arena;
use crate::pd::Pd;
use crate::qp::remote_access;
use crate::rotation::RegisteredRegion;

/// `IBV_ACCESS_RELAXED_ORDERING`, which rdma-sys does not have. Source: `infiniband/verbs.h`,
/// `IBV_ACCESS_OPTIONAL_FIRST`.
const RELAXED_ORDERING: u32 = 1 << 20;

/// `ibv_mr`.
pub struct Mr {
    raw: NonNull<ibv_mr>,
    /// Of its first byte, as work requests name it.
    address: u64,
    pd: Arc<Pd>,
    _arena: Arc<Arena>,
}

// SAFETY: libibverbs is thread-safe for all calls on a memory region.
unsafe impl Send for Mr {}

impl Mr {
    /// Registers `length` bytes of `arena` from `offset` for every kind of access; they lie within it.
    ///
    /// Relaxed ordering of the device's PCIe writes is a wish: a libibverbs, kernel or device without it keeps the
    /// order.
    pub fn new(
        pd: &Arc<Pd>,
        arena: &Arc<Arena>,
        offset: usize,
        length: usize,
        is_relaxed: bool,
    ) -> Result<Self, VerbsError> {
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE | remote_access(pd.context().limits().atomic_cap);
        let library = pd.context().library();
        let flags = access.0 | if is_relaxed { RELAXED_ORDERING } else { 0 };
        let address = arena.address() + offset as u64;
        let (verb, raw) = match &**arena {
            Arena::Host(_) => {
                let start = address as *mut c_void;
                if let Some(register) = &library.reg_mr_iova2 {
                    // SAFETY: the range lies in the arena, which outlives the region.
                    (register.verb, unsafe { (register.run)(pd.raw(), start, length, address, flags) })
                } else {
                    let register = &library.reg_mr;
                    // SAFETY: as above.
                    (register.verb, unsafe { (register.run)(pd.raw(), start, length, access.0 as i32) })
                }
            }
            Arena::Gpu(memory) => {
                let register = library.reg_dmabuf_mr.as_ref().ok_or_else(|| {
                    VerbsError::Unsupported("GPU memory needs libibverbs 34 or newer (ibv_reg_dmabuf_mr)".to_owned())
                })?;
                // SAFETY: as above; the descriptor is open as long as the arena lives.
                let raw = unsafe {
                    (register.run)(pd.raw(), offset as u64, length, address, memory.descriptor(), flags as i32)
                };
                (register.verb, raw)
            }
        };
        let object = || format!("{length} bytes on {}; check the memlock limit (ulimit -l)", pd.context().name());
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last_os_error(verb, object()))?;
        Ok(Self { raw, address, pd: Arc::clone(pd), _arena: Arc::clone(arena) })
    }

    /// As own work requests name it.
    pub fn local(&self) -> RegisteredRegion {
        // SAFETY: the region exists.
        RegisteredRegion { address: self.address, key: unsafe { self.raw.as_ref() }.lkey }
    }

    /// As a peer's work requests name it.
    pub fn remote(&self) -> RegisteredRegion {
        // SAFETY: the region exists.
        RegisteredRegion { address: self.address, key: unsafe { self.raw.as_ref() }.rkey }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: deregistered once; the QPs that could use it are gone.
        let status = unsafe { (self.pd.context().library().dereg_mr.run)(self.raw.as_ptr()) };
        if status != 0 {
            tracing::warn!(error = %io::Error::from_raw_os_error(status.abs()), "ibv_dereg_mr failed");
        }
    }
}
