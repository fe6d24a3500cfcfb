//! What nccl-tests measured while all was well, and collectives that take longer than that. Nothing else is judged.
//!
//! Source: nccl-tests, `doc/PERFORMANCE.md`: bus bandwidth, by which collectives of any number of ranks compare; sizes
//! there are of all ranks together. NCCL's Inspector (`inspectorComputeCollBw`) and `PyTorch` write those of one rank.

use indexmap::IndexMap;

use super::diagnose::{FaultClass, JobDiagnosis, JobVerdict};
use super::operation::{JobOperations, plain};

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
    ///
    /// # Errors
    /// Says why there is nothing to compare.
    pub fn compare(&self, job: &JobOperations) -> Result<Slower, String> {
        let mine = self.function.as_deref().map(plain);
        let is_mine = |function: &str| mine.as_ref().is_none_or(|mine| *mine == plain(function));
        if let Some(of_job) = job.function.as_deref().filter(|of_job| !is_mine(of_job)) {
            let function = self.function.as_deref().unwrap_or_default();
            return Err(format!("it is of {function}, and the job calls {of_job}"));
        }
        let ranks = u64::from(job.ranks.unwrap_or(1)).max(1);
        // Whoever comes last waits for nobody: its time is that of the transfer.
        let mut shortest: IndexMap<u64, Vec<f64>> = IndexMap::new();
        let (mut function, mut has_function) = (job.function.as_deref(), job.calls.is_empty());
        for operations in job.iterations().rev().take(LATEST) {
            if let Some(calls) = job.calls.get(&operations[0].iteration) {
                let Some(called) = calls.keys().next().filter(|called| calls.len() == 1 && is_mine(called)) else {
                    continue;
                };
                (function, has_function) = (Some(called.as_str()), true);
            }
            let shares = operations.iter().filter(|operation| operation.destination.is_none());
            let shares: Vec<_> = shares.filter_map(|share| Some((share.bytes, share.duration()?))).collect();
            if let Some((bytes, _)) = shares.first().filter(|first| shares.iter().all(|share| share.0 == first.0)) {
                let of_all = if is_of_one_rank(job, function) { bytes.saturating_mul(ranks) } else { *bytes };
                shortest.entry(of_all).or_default().extend(shares.iter().map(|share| share.1).min_by(f64::total_cmp));
            }
        }
        if shortest.is_empty() {
            return Err(if has_function {
                "the records have no collective with times whose ranks have one size".to_owned()
            } else {
                format!("it is of {}, and the job does not call that", self.function.as_deref().unwrap_or_default())
            });
        }
        let scale =
            self.ranks.zip(job.ranks).map_or(1.0, |(mine, of_job)| factor(function, of_job) / factor(function, mine));
        let sizes: Vec<u64> = shortest.keys().copied().collect();
        let (bytes, mut took, then) = shortest
            .into_iter()
            .filter_map(|(bytes, took)| Some((bytes, took, self.time(bytes)? * scale)))
            .max_by_key(|one| one.0)
            .ok_or_else(|| self.no_such_size(&sizes))?;
        took.sort_by(f64::total_cmp);
        let now = took[took.len() / 2];
        Ok(Slower { times: now / then, bytes, now_us: now, then_us: then })
    }

    fn no_such_size(&self, sizes: &[u64]) -> String {
        let (smallest, largest) = (sizes.iter().min().unwrap_or(&0), sizes.iter().max().unwrap_or(&0));
        let [least, most] = [self.times.first(), self.times.last()].map(|one| one.map_or(0, |(bytes, _)| *bytes));
        format!("it has sizes from {least} to {most} bytes, and the job's collectives {smallest} to {largest}")
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

/// Whether records of this collective have the size of one rank's part, and not of all. `PyTorch` writes what goes in.
fn is_of_one_rank(job: &JobOperations, function: Option<&str>) -> bool {
    match function.map(plain).as_deref() {
        Some("allgather") => true,
        Some("reducescatter") => job.calls.is_empty(),
        _ => false,
    }
}

/// Bytes on the wire for each byte of the message.
fn factor(function: Option<&str>, ranks: u32) -> f64 {
    let others = f64::from(ranks.max(2) - 1) / f64::from(ranks.max(2));
    match function.map(plain).as_deref() {
        Some("allreduce") => 2.0 * others,
        Some("allgather" | "reducescatter" | "alltoall") => others,
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
        assert!(baseline.compare(&job(67_108_864, 1575.0, "AllReduce")).is_ok_and(|same| same.times < 1.01));
        assert_eq!(baseline.time(4_718_592), Some(85.0));
        let error = baseline.compare(&job(1 << 30, 9e4, "AllReduce")).expect_err("larger than what was measured");
        assert_eq!(
            error,
            "it has sizes from 1048576 to 67108864 bytes, and the job's collectives 1073741824 to 1073741824"
        );
        let error = baseline.compare(&job(67_108_864, 9e4, "AllGather")).expect_err("another function");
        assert_eq!(error, "it is of AllReduce, and the job calls AllGather");
        let mut messages = job(67_108_864, 3150.0, "AllReduce");
        messages.operations.iter_mut().for_each(|one| one.destination = Some(9));
        let error = baseline.compare(&messages).expect_err("of messages");
        assert!(error.starts_with("the records have no collective"), "{error}");
        // Of eight ranks each has an eighth of what nccl-tests prints.
        for function in ["AllGather", "ReduceScatter"] {
            let program = if function == "AllGather" { "all_gather_perf" } else { "reduce_scatter_perf" };
            let baseline = Baseline::from_text(&PRINTED.replace("all_reduce_perf", program)).expect("what it prints");
            let same = baseline.compare(&job(8_388_608, 1575.0, function)).expect("64 MiB together");
            assert_eq!((same.bytes, same.then_us), (67_108_864, 1575.0), "{function}");
        }
        assert!(Baseline::from_text("a,b\n1,2\n").expect_err("no table").starts_with("no row"));
    }
}
