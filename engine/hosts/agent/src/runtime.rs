//! The asynchronous runtime of agents, planners and controllers: one thread beside the caller's.

use tokio::runtime::{Builder, Runtime};

/// A runtime whose thread keeps connections alive, and closes them, while the caller does something else.
///
/// # Errors
/// The thread or its poller could not be made.
pub(crate) fn with_one_worker() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}
