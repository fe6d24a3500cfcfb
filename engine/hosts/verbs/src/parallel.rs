//! Doing the same for many objects on several threads at once: a device creates them one after the other otherwise.

use std::thread;

/// Most threads. Source: our choice, because the kernel serialises part of each call.
const MOST_THREADS: usize = 8;

/// Objects that are worth a thread. Source: our choice, because a thread costs about as much as one of them.
const WORTH_A_THREAD: usize = 16;

/// Calls `work` for 0 to `count` and collects the results in order; the first error ends it, after what was begun.
pub fn collect<T: Send, E: Send>(count: usize, work: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let threads = cpus.min(MOST_THREADS).min(count / WORTH_A_THREAD);
    if threads < 2 {
        return (0..count).map(work).collect();
    }
    let chunk = count.div_ceil(threads);
    let run = |thread: usize| (thread * chunk..count.min((thread + 1) * chunk)).map(&work).collect();
    let run = &run;
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let parts = handles.into_iter().map(|handle| handle.join().expect("creating objects does not panic"));
        let parts: Vec<Result<Vec<T>, E>> = parts.collect();
        let mut all = Vec::with_capacity(count);
        for part in parts {
            all.extend(part?);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_an_error_is_told() {
        for count in [0, 1, 15, 32, 1000, 1001] {
            let doubled = collect(count, |index| Ok::<_, ()>(2 * index)).expect("no error");
            assert_eq!(doubled, (0..count).map(|index| 2 * index).collect::<Vec<_>>());
        }
        let failed = collect(1000, |index| if index == 700 { Err(index) } else { Ok(()) });
        assert_eq!(failed, Err(700));
    }
}
