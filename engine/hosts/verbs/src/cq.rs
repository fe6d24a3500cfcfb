//! A completion queue and polling it.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::{ibv_cq, ibv_poll_cq, ibv_wc};

use crate::device::Context;
use crate::error::VerbsError;
use crate::verb::Verb;

/// Completions taken in one poll. Source: our choice, because more brings little and fills a page.
pub const POLL_BATCH: usize = 32;

/// `ibv_cq`.
pub struct Cq {
    raw: NonNull<ibv_cq>,
    context: Arc<Context>,
}

// SAFETY: libibverbs is thread-safe for all calls on a completion queue.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

/// Room for the completions of one poll.
pub struct Completions([MaybeUninit<ibv_wc>; POLL_BATCH]);

impl Completions {
    /// Empty room.
    pub fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; POLL_BATCH])
    }
}

impl Cq {
    /// Creates one for `entries` completions at a time.
    pub fn new(context: &Arc<Context>, entries: u32) -> Result<Arc<Self>, VerbsError> {
        let object = || format!("a CQ of {entries} entries on {}", context.name());
        let count = i32::try_from(entries).map_err(|_| VerbsError::Unsupported(object()))?;
        let create = &context.library().create_cq;
        // SAFETY: the context is open; no channel and no user pointer are passed.
        let raw = unsafe { (create.run)(context.raw(), count, null_mut(), null_mut(), 0) };
        let raw = NonNull::new(raw).ok_or_else(|| VerbsError::last_os_error(create.verb, object()))?;
        Ok(Arc::new(Self { raw, context: Arc::clone(context) }))
    }

    /// The raw queue, for other objects of this crate.
    pub fn raw(&self) -> *mut ibv_cq {
        self.raw.as_ptr()
    }

    /// Takes what has completed.
    pub fn poll<'a>(&self, room: &'a mut Completions) -> Result<&'a [ibv_wc], VerbsError> {
        // SAFETY: the queue exists and there is room for as many completions as are asked for.
        let count = unsafe { ibv_poll_cq(self.raw(), POLL_BATCH as i32, room.0.as_mut_ptr().cast()) };
        let count =
            usize::try_from(count).map_err(|_| VerbsError::from_status(Verb::POLL_CQ, self.context.name(), count))?;
        // SAFETY: the first `count` completions, at most POLL_BATCH, were written.
        Ok(unsafe { std::slice::from_raw_parts(room.0.as_ptr().cast(), count.min(POLL_BATCH)) })
    }

    /// Takes everything that has completed and forgets it, when nothing completes any more.
    pub fn drain(&self, room: &mut Completions) -> Result<(), VerbsError> {
        while !self.poll(room)?.is_empty() {}
        Ok(())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: every QP of the queue holds a reference to it and is gone.
        let status = unsafe { (self.context.library().destroy_cq.run)(self.raw()) };
        if status != 0 {
            tracing::warn!(error = %io::Error::from_raw_os_error(status.abs()), "ibv_destroy_cq failed");
        }
    }
}
