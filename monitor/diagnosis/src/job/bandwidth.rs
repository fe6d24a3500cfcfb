//! What nccl-tests measured while all was well, and collectives that take longer than that. Nothing else is judged.
//!
//! Source: nccl-tests, `doc/PERFORMANCE.md`: bus bandwidth, by which collectives of any number of ranks compare.

use indexmap::IndexMap;

use super::diagnose::{FaultClass, JobDiagnosis, JobVerdict};
use super::operation::JobOperations;

/// From this factor on a collective is slow. Source: our choice, as for messages among their peers.
const SLOW: f64 = 1.5;
/// Iterations that are compared. Source: our choice.
const LATEST: usize = 50;

/// What a run of nccl-tests measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    /// The collective, as NCCL names it; old versions do not say.
    pub function: Option<String>,
    /// How many ranks took part, if the output says so.
    pub ranks: Option<u32>,
    /// Bytes, and the time that they took. Units: microseconds. In the order of bytes.
    pub times: Vec<(u64, f64)>,
}

impl Baseline {
    /// Reads what a run printed.
    ///
    /// # Errors
    /// Says what is missing.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let (mut function, mut ranks, mut times) = (None, 0, Vec::new());
        let mut columns: Option<(usize, usize)> = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some(heading) = words.split_first().filter(|(first, _)| **first == "#").map(|(_, heading)| heading) {
                let place = |name: &str| heading.iter().position(|word| *word == name);
                if let (Some(0), Some(time)) = (place("size"), place("time")) {
                    columns = Some((time, heading.len()));
                }
                ranks += u32::from(heading.first() == Some(&"Rank"));
                function = function.or_else(|| heading.iter().find_map(|word| function_of(word)));
                continue;
            }
            // Without --check, versions leave the last cell empty.
            let (Some((time, width)), Some(bytes)) = (columns, words.first().and_then(|word| word.parse::<u64>().ok()))
            else {
                continue;
            };
            let took = words.get(time).and_then(|word| word.parse::<f64>().ok());
            if let Some(took) = took.filter(|took| *took > 0.0 && words.len() + 2 >= width && bytes > 0) {
                times.push((bytes, took));
            }
        }
        if times.is_empty() {
            return Err(
                "no row of nccl-tests in it: a heading with `size` and `time`, and rows of numbers below".to_owned()
            );
        }
        times.sort_by_key(|(bytes, _)| *bytes);
        Ok(Self { function, ranks: (ranks > 0).then_some(ranks), times })
    }

    /// What a collective of this size took; nothing outside of what was measured. Units: microseconds.
    fn time(&self, bytes: u64) -> Option<f64> {
        let above = self.times.iter().position(|(size, _)| *size >= bytes)?;
        let (high, slow) = self.times[above];
        if high == bytes {
            return Some(slow);
        }
        let (low, quick) = *self.times.get(above.checked_sub(1)?)?;
        let share = (bytes - low) as f64 / (high - low) as f64;
        Some(quick + share * (slow - quick))
    }

    /// How many times longer the largest collectives of the job take than they did, with their size and times.
    pub fn compare(&self, job: &JobOperations) -> Option<Slower> {
        if let (Some(mine), Some(of_job)) = (&self.function, &job.function)
            && mine != of_job
        {
            return None;
        }
        // Whoever comes last waits for nobody: its time is that of the transfer.
        let mut shortest: IndexMap<u64, Vec<f64>> = IndexMap::new();
        for operations in job.iterations().rev().take(LATEST) {
            let shares = operations.iter().filter(|operation| operation.destination.is_none());
            let shares: Vec<_> = shares.filter_map(|share| Some((share.bytes, share.duration()?))).collect();
            if let Some((bytes, _)) = shares.first().filter(|first| shares.iter().all(|share| share.0 == first.0)) {
                let least = shares.iter().map(|share| share.1).min_by(f64::total_cmp)?;
                shortest.entry(*bytes).or_default().push(least);
            }
        }
        let scale = self.ranks.zip(job.ranks).map_or(1.0, |(mine, of_job)| {
            factor(job.function.as_deref(), of_job) / factor(job.function.as_deref(), mine)
        });
        let (bytes, mut took) =
            shortest.into_iter().filter(|(bytes, _)| self.time(*bytes).is_some()).max_by_key(|one| one.0)?;
        took.sort_by(f64::total_cmp);
        let (now, then) = (took[took.len() / 2], self.time(bytes)? * scale);
        (then > 0.0).then(|| Slower { times: now / then, bytes, now_us: now, then_us: then })
    }
}

/// A collective now and then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slower {
    /// How many times longer it takes.
    pub times: f64,
    /// Its size.
    pub bytes: u64,
    /// What it takes. Units: microseconds.
    pub now_us: f64,
    /// What it took, for as many ranks. Units: microseconds.
    pub then_us: f64,
}

impl Slower {
    /// Adds this to what was found of the job: it is slow although nothing in it differs from the rest.
    pub fn add_to(self, found: &mut JobDiagnosis) {
        let Self { times, bytes, now_us, then_us } = self;
        found.evidence.notes.push(format!(
            "collectives of {bytes} bytes take {times:.2} times what the baseline measured ({now_us:.0} us against \
             {then_us:.0} us)"
        ));
        if times >= SLOW && matches!(found.verdict, JobVerdict::Healthy | JobVerdict::Undecided) {
            (found.verdict, found.class) = (JobVerdict::Slow, Some(FaultClass::Communication));
            (found.job, found.times_slower) = (true, Some(times));
            found.evidence.rule = Some("baseline");
        }
    }
}

/// Bytes on the wire for each byte of the message.
fn factor(function: Option<&str>, ranks: u32) -> f64 {
    let others = f64::from(ranks.max(2) - 1) / f64::from(ranks.max(2));
    match function {
        Some("AllReduce") => 2.0 * others,
        Some("AllGather" | "ReduceScatter" | "AllToAll" | "AlltoAll") => others,
        _ => 1.0,
    }
}

/// The function that a program of nccl-tests measures.
fn function_of(word: &str) -> Option<String> {
    let name = word.strip_suffix("_perf")?;
    let name = name.rsplit('/').next().unwrap_or(name);
    Some(
        name.split('_')
            .map(|part| {
                let (first, rest) = part.split_at_checked(1).unwrap_or((part, ""));
                first.to_uppercase() + rest
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::*;

    const PRINTED: &str = "\
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 67108864 step: 8(factor) warmup iters: 1 iters: 20 agg iters: 1
# Using devices
#  Rank  0 Group  0 Pid   4000 on     node00 device  0 [0000:18:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4001 on     node00 device  1 [0000:2a:00] NVIDIA H100 80GB HBM3
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    40.00   26.21   26.21       0    39.50   26.55   26.55       0
     8388608       2097152     float     sum      -1   130.00   64.53   64.53       0   129.10   64.98   64.98       0
    67108864      16777216     float     sum      -1   900.00   74.56   74.56     N/A   899.10   74.64   74.64     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 55.1000
";

    fn job(bytes: u64, took: f64, function: &str) -> JobOperations {
        let share = |at: u64| Operation {
            iteration: at / 8,
            source: (at % 8) as u32,
            destination: None,
            bytes,
            entered: None,
            begin: Some(0.0),
            end: Some(took + (at % 8) as f64),
        };
        let function = Some(function.to_owned());
        JobOperations {
            function,
            ranks: Some(8),
            operations: (0..240).map(share).collect(),
            ..JobOperations::default()
        }
    }

    #[test]
    fn collectives_are_compared_with_what_was_measured() {
        let baseline = Baseline::from_text(PRINTED).expect("what it prints");
        assert_eq!(
            (baseline.function.as_deref(), baseline.ranks, baseline.times.len()),
            (Some("AllReduce"), Some(2), 3)
        );
        // Eight ranks move 1.75 times what two do.
        let slower = baseline.compare(&job(67_108_864, 3150.0, "AllReduce")).expect("of this function and size");
        assert_eq!((slower.then_us, slower.times), (1575.0, 2.0));
        assert!(baseline.compare(&job(67_108_864, 1575.0, "AllReduce")).is_some_and(|same| same.times < 1.01));
        assert_eq!(baseline.time(4_718_592), Some(85.0));
        assert_eq!(baseline.compare(&job(1 << 30, 9e4, "AllReduce")), None, "larger than what was measured");
        assert_eq!(baseline.compare(&job(67_108_864, 9e4, "AllGather")), None, "another function");
        assert!(Baseline::from_text("a,b\n1,2\n").expect_err("no table").starts_with("no row"));
    }
}
