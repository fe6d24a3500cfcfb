//! The level of hosts: the same step as real traffic between ranks, which somebody else carries out. Rings only,
//! because agents run rings only.

use kelpie_collectives::group::GroupOp;
use kelpie_collectives::program::{AlgorithmName, GroupKind, Programs};
use kelpie_collectives::rounds::{RankCluster, Rounds, Transfer};

use crate::analytic::bus_factor;
use crate::answer::{JobAnswer, Level, ProgramAnswer, StepAnswer};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PhysicalError<E> {
    /// The job is not one that ranks run.
    #[error(
        "hosts run one program of one step: all_reduce of all GPUs, with the algorithm ring; and one rank for each GPU"
    )]
    Job,
    /// The ranks.
    #[error(transparent)]
    Ranks(E),
}

/// What ranks measured of a program.
///
/// # Errors
/// If the program is not one ring, or the ranks could not run it.
pub fn answer<C: RankCluster>(
    programs: &Programs,
    gpus: u32,
    ranks: &mut C,
) -> Result<ProgramAnswer, PhysicalError<C::Error>> {
    let [program] = programs.programs.as_slice() else { return Err(PhysicalError::Job) };
    let [step] = program.steps.as_slice() else { return Err(PhysicalError::Job) };
    let is_ring = matches!(step.algorithm, AlgorithmName::Ring) && step.group == GroupKind::All;
    let Some((GroupOp::AllReduce, bytes)) = step.group_op().filter(|_| is_ring && programs.flows.is_empty()) else {
        return Err(PhysicalError::Job);
    };
    let job = Rounds::ring_all_reduce(gpus, bytes.0, program.iterations);
    let mut transfers: Vec<Transfer> = Vec::new();
    ranks.run(&job, &mut |transfer| transfers.push(transfer)).map_err(PhysicalError::Ranks)?;
    let spans: Option<Vec<f64>> = (0..program.iterations).map(|iteration| span_us(&transfers, iteration)).collect();
    let mean = spans.map(|spans| spans.iter().sum::<f64>() / spans.len() as f64);
    let busbw = mean.map(|micros| bytes.0 as f64 * bus_factor(GroupOp::AllReduce, gpus as usize) / micros / 1e3);
    let end = transfers.iter().filter_map(|transfer| transfer.end).fold(0.0, f64::max);
    let step = StepAnswer { step: step.words(), mean_us: mean, busbw_gb_per_s: busbw };
    let name = if program.name.is_empty() { "job 0".to_owned() } else { program.name.clone() };
    Ok(ProgramAnswer {
        level: Level::Physical,
        jobs: vec![JobAnswer { name, end_us: mean.map(|_| end), steps: vec![step] }],
        flows: None,
        end_us: end,
        transfers: transfers.len(),
        unfinished: transfers.iter().filter(|transfer| transfer.end.is_none()).count(),
        network: None,
    })
}

/// From the first begin of an iteration to its last end; nothing if a transfer never ended. Units: µs.
fn span_us(transfers: &[Transfer], iteration: u32) -> Option<f64> {
    let of = || transfers.iter().filter(|transfer| transfer.iteration == iteration);
    let begin = of().filter_map(|transfer| transfer.begin).min_by(f64::total_cmp)?;
    let ends: Option<Vec<f64>> = of().map(|transfer| transfer.end).collect();
    Some(ends?.into_iter().fold(begin, f64::max) - begin)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Ranks that take 10 µs for each round, and say nothing of the last transfer if they are to hang.
    struct Metronome {
        hangs: bool,
    }

    impl RankCluster for Metronome {
        type Error = Infallible;

        fn run(&mut self, job: &Rounds, give: &mut dyn FnMut(Transfer)) -> Result<(), Infallible> {
            for iteration in 0..job.iterations {
                for round in 0..job.shifts.len() as u32 {
                    for from in 0..job.ranks {
                        let begin = f64::from(iteration) * 1000.0 + f64::from(round) * 10.0;
                        let hangs = self.hangs && iteration == 1 && round == 0;
                        let end = (!hangs).then_some(begin + 10.0);
                        let to = job.to(from, round as usize);
                        let (entered, begin) = (Some(begin), Some(begin));
                        give(Transfer { iteration, round, from, to, bytes: job.bytes, entered, begin, end });
                    }
                }
            }
            Ok(())
        }
    }

    fn programs(step: &str) -> Programs {
        let text = format!("kelpie: job/1\nprograms:\n- {{iterations: 2, steps: [{step}]}}\n");
        Programs::from_yaml("j", &text, 4, 4).expect("valid").0
    }

    #[test]
    fn a_ring_on_ranks_is_answered_as_by_the_other_levels() {
        let ring = programs("{all_reduce: 4000, algorithm: ring}");
        let seen = answer(&ring, 4, &mut Metronome { hangs: false }).expect("a ring");
        assert_eq!((seen.jobs[0].steps[0].mean_us, seen.transfers, seen.unfinished), (Some(60.0), 2 * 6 * 4, 0));
        let busbw = seen.jobs[0].steps[0].busbw_gb_per_s.expect("a collective");
        assert!((busbw - 4000.0 * 1.5 / 60e3).abs() < 1e-9, "{busbw}");
        let hung = answer(&ring, 4, &mut Metronome { hangs: true }).expect("data");
        assert_eq!((hung.jobs[0].end_us, hung.unfinished), (None, 4));
        let other = programs("{all_to_all: 4000}");
        assert!(matches!(answer(&other, 4, &mut Metronome { hangs: false }), Err(PhysicalError::Job)));
    }
}
