//! Independent work on all cores.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does all of the work on all cores; what `stop` ended has no result. After a failure nothing else begins.
pub fn on_all_cores<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> anyhow::Result<Option<R>> + Sync,
) -> anyhow::Result<Vec<Option<R>>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let worker = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return Ok(()) };
            let result = work(item).inspect_err(|_| next.store(items.len(), Ordering::Relaxed))?;
            *results[index].lock().expect("no thread panics while it holds the lock") = result;
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a search does not panic"))
    })?;
    Ok(results.into_iter().map(|result| result.into_inner().expect("no thread panicked")).collect())
}
