//! A protection domain.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::ibv_pd;

use crate::device::Context;
use crate::error::VerbsError;

/// `ibv_pd`.
pub struct Pd {
    raw: NonNull<ibv_pd>,
    context: Arc<Context>,
}

// SAFETY: libibverbs is thread-safe for all calls on a protection domain.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates one.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, VerbsError> {
        let allocate = &context.library().alloc_pd;
        // SAFETY: the context is open.
        let raw = NonNull::new(unsafe { (allocate.run)(context.raw()) })
            .ok_or_else(|| VerbsError::last_os_error(allocate.verb, context.name()))?;
        Ok(Arc::new(Self { raw, context: Arc::clone(context) }))
    }

    /// The raw protection domain, for other objects of this crate.
    pub fn raw(&self) -> *mut ibv_pd {
        self.raw.as_ptr()
    }

    /// Its device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: every object of the domain holds a reference to it and is gone.
        if unsafe { (self.context.library().dealloc_pd.run)(self.raw()) } != 0 {
            tracing::warn!(error = %io::Error::last_os_error(), "ibv_dealloc_pd failed");
        }
    }
}
