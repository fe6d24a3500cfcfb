//! The asynchronous runtime of agents, planners and controllers: one thread beside the caller's.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

/// A runtime whose thread keeps connections alive, and closes them, while the caller does something else.
///
/// # Errors
/// The thread or its poller could not be made.
pub fn with_one_worker() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// How many files the process may open, once it may open as many as it can: connections are files.
pub fn most_files() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Refused, the limit stays what it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = getrlimit(Resource::Nofile).current.or(current);
    files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}
