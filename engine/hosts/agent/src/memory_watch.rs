//! This host's memory while traffic runs: what has arrived and is not processed yet lies in it, and a kernel that runs
//! out of memory ends programs. Soft-RoCE queues UC and UD packets without a limit (Linux 6.12, `rxe_resp_queue_pkt` in
//! `drivers/infiniband/sw/rxe/rxe_resp.c`).

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelpie_engine::meminfo;
use kelpie_engine::verbs_host::HostError;
use tokio::task::JoinSet;

use crate::lease::{LeasedHost, locked};

/// How often memory is looked at. Source: our choice, because Soft-RoCE was seen to take a gigabyte in two seconds.
const TICK: Duration = Duration::from_millis(50);

/// Traffic has to leave this part of the memory that was available when it began. Source: our choice: on a sound host
/// it takes nothing of note, because its buffers were registered before.
const LEAST_LEFT: f64 = 0.5;

const MIB: u64 = 1 << 20;

/// Memory at one moment. Units: bytes.
#[derive(Debug, Clone, Copy)]
struct FreeMemory {
    /// What programs and the kernel could still have.
    available: u64,
    /// What the kernel has for objects of its own, packets among them.
    slab: u64,
}

/// Looks at memory for as long as traffic runs, and ends traffic that takes it all.
pub struct MemoryWatch {
    look: fn() -> Option<FreeMemory>,
    looking: Mutex<JoinSet<()>>,
    verdict: Arc<Mutex<Option<String>>>,
}

impl MemoryWatch {
    /// Of this machine.
    pub fn new() -> Self {
        Self::by(|| Some(FreeMemory { available: meminfo::bytes("MemAvailable")?, slab: meminfo::bytes("Slab")? }))
    }

    fn by(look: fn() -> Option<FreeMemory>) -> Self {
        Self { look, looking: Mutex::default(), verdict: Arc::default() }
    }

    /// Traffic runs from now on, on this host.
    pub fn begin(&self, host: Arc<LeasedHost>) {
        self.end();
        let look = self.look;
        let Some(before) = look() else { return };
        let (began, verdict) = (Instant::now(), Arc::clone(&self.verdict));
        locked(&self.looking).spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                let Some(now) = look() else { return };
                if (now.available as f64) < before.available as f64 * LEAST_LEFT {
                    *locked(&verdict) = Some(said(before, now, began.elapsed()));
                    // Its QPs go, and what waits for them with them.
                    let _ = host.blocking(|host| host.tear_down()).await;
                    return;
                }
            }
        });
    }

    /// No traffic runs any more.
    pub fn end(&self) {
        locked(&self.looking).abort_all();
        *locked(&self.verdict) = None;
    }

    /// What a step has come to, unless its traffic was ended here.
    pub fn judge<T>(&self, outcome: Result<T, HostError>) -> Result<T, HostError> {
        match &*locked(&self.verdict) {
            Some(verdict) => Err(HostError::Failed(verdict.clone())),
            None => outcome,
        }
    }
}

fn said(before: FreeMemory, now: FreeMemory, after: Duration) -> String {
    format!(
        "this host's memory ran low while traffic ran: {} of {} MiB were left after {:.1} s, and the kernel's slab had grown from \
         {} to {} MiB; the agent ended the traffic",
        now.available / MIB,
        before.available / MIB,
        after.as_secs_f64(),
        before.slab / MIB,
        now.slab / MIB
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::AbsentHost;

    static LEFT: AtomicU64 = AtomicU64::new(1000);

    #[tokio::test]
    async fn traffic_that_takes_most_of_the_memory_is_ended_and_other_traffic_is_not() {
        let watch = MemoryWatch::by(|| {
            LEFT.load(Relaxed).checked_sub(1).map(|at| FreeMemory { available: at * MIB, slab: (1000 - at) * MIB })
        });
        let host = Arc::new(LeasedHost::new(Box::new(AbsentHost::new("no device".to_owned()))));
        watch.begin(Arc::clone(&host));
        LEFT.store(600, Relaxed);
        tokio::time::sleep(4 * TICK).await;
        assert_eq!(watch.judge(Ok(7)), Ok(7));
        LEFT.store(200, Relaxed);
        let started = Instant::now();
        let Err(HostError::Failed(said)) = (loop {
            match watch.judge(Ok(7)) {
                Ok(_) if started.elapsed() < Duration::from_secs(20) => tokio::time::sleep(TICK).await,
                outcome => break outcome,
            }
        }) else {
            panic!("it is ended")
        };
        assert!(said.contains("199 of 999 MiB were left") && said.contains("from 1 to 801 MiB"), "{said}");
        watch.begin(host);
        assert_eq!(watch.judge(Ok(7)), Ok(7), "of other traffic nothing is known yet");
        watch.end();
    }
}
