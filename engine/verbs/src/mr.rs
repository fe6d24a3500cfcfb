//! A memory region.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_access_flags, ibv_mr};

use crate::error::VerbsError;
use crate::memory::Arena;
use crate::pd::Pd;
use crate::rotation::Region;

/// `ibv_mr`.
pub struct Mr {
    raw: NonNull<ibv_mr>,
    pd: Arc<Pd>,
    _arena: Arc<Arena>,
}

// SAFETY: libibverbs is thread-safe for all calls on a memory region.
unsafe impl Send for Mr {}

impl Mr {
    /// Registers `length` bytes of `arena` from `offset` for every kind of access.
    pub fn new(pd: &Arc<Pd>, arena: &Arc<Arena>, offset: usize, length: usize) -> Result<Self, VerbsError> {
        let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE
            | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE
            | ibv_access_flags::IBV_ACCESS_REMOTE_READ;
        let (start, flags) = (arena.at(offset), access.0 as i32);
        // SAFETY: the range lies in the arena, which outlives the region.
        let raw = NonNull::new(unsafe { (pd.context().library().reg_mr)(pd.raw(), start, length, flags) });
        let object = || format!("{length} bytes on {}; check the memlock limit (ulimit -l)", pd.context().name());
        let raw = raw.ok_or_else(|| VerbsError::last_os_error("ibv_reg_mr", object()))?;
        Ok(Self { raw, pd: Arc::clone(pd), _arena: Arc::clone(arena) })
    }

    /// As own work requests name it.
    pub fn local(&self) -> Region {
        // SAFETY: the region exists.
        let mr = unsafe { self.raw.as_ref() };
        Region { address: mr.addr as u64, key: mr.lkey }
    }

    /// As a peer's work requests name it.
    pub fn remote(&self) -> Region {
        // SAFETY: the region exists.
        let mr = unsafe { self.raw.as_ref() };
        Region { address: mr.addr as u64, key: mr.rkey }
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: deregistered once; the QPs that could use it are gone.
        let status = unsafe { (self.pd.context().library().dereg_mr)(self.raw.as_ptr()) };
        if status != 0 {
            tracing::warn!(error = %io::Error::from_raw_os_error(status.abs()), "ibv_dereg_mr failed");
        }
    }
}
