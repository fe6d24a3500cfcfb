//! What is measured beside the experiments, and decides nothing: whether the machine is as it was, and how often the
//! workload of a finding is anomalous.

use kelpie_monitor::{ATTEMPTS, JudgedMeasurement, Symptom, Verdict, measure_judged};
use kelpie_reports::explained;
use kelpie_reports::repeats::{ControlReport, of_finding};
use kelpie_spaces::Workload;
use kelpie_store::{MeasuredAgain, StoreError};

use super::{CampaignOracle, StopReason, failed, plain};

/// Experiments between two measurements of the control workload, of which the first says how fast the machine is.
/// Source: our choice, 4 % of the time.
const CONTROL_EVERY: u64 = 25;
/// How often the workload of a finding is measured again if it is anomalous each time, and how often otherwise. Source:
/// our choice: three cost little, and ten say a rate of a half to within a third.
const REPEATS: [usize; 2] = [3, 10];
/// Part of the experiments of a campaign that findings are measured again. Source: our choice, because an experiment on
/// real hosts takes seconds.
const REPEATED: f64 = 0.1;
/// Which run of a workload the first such measurement is, for the noise of a simulated subsystem. Source: our choice,
/// beyond those that decide.
const FIRST_RUN: u32 = 100;

impl CampaignOracle<'_> {
    /// Measures the control workload if it is time to.
    pub(super) fn measure_control(&mut self) -> Result<(), StoreError> {
        let after = self.number - 1;
        // A campaign that is resumed here may have this one.
        let is_measured = || self.again.iter().any(|row| row.finding.is_none() && row.after == after);
        if !after.is_multiple_of(CONTROL_EVERY) || is_measured() {
            return Ok(());
        }
        self.measure_again(&plain(), FIRST_RUN + (after / CONTROL_EVERY) as u32, after, None)?;
        if self.again.iter().filter(|row| row.finding.is_none()).map(|row| row.verdict).eq([Verdict::Anomalous]) {
            let text = "warning: the control workload, which every pair runs, is anomalous itself: `bounds` states what these \
                        hosts do not reach, or something is wrong with them; next: `kelpie subsystem check`, and the pair's \
                        file without `bounds`";
            self.parts.progress.line(text);
        }
        let control = ControlReport::of(&self.again);
        if let Some(control) = control.filter(|control| control.moved.last().is_some_and(|last| last.after == after)) {
            self.parts.progress.line(&format!("warning: {control}"));
        }
        Ok(())
    }

    /// Measures the workloads of findings again, one after the other and over again, until it is known how often each
    /// is anomalous.
    pub(super) fn measure_findings_again(&mut self) -> Result<(), StopReason> {
        let (findings, anomalies) = explained::read(self.parts.store, self.id).map_err(failed)?;
        let with_witness = |finding| (finding, explained::witness(finding, &anomalies).map(|witness| witness.number));
        // What takes a host down is not done again for a figure.
        let findings: Vec<_> =
            findings.iter().filter(|finding| finding.symptom != Symptom::HostFailure).map(with_witness).collect();
        let most = (REPEATED * self.number as f64).ceil() as usize;
        for round in 0..REPEATS[1] {
            for (finding, since) in &findings {
                let own = || of_finding(&self.again, finding.number, *since);
                let is_anomalous = own().all(|row| row.verdict == Verdict::Anomalous);
                if own().count() > round || round >= REPEATS[usize::from(!is_anomalous)] {
                    continue;
                }
                if self.again.iter().filter(|row| row.finding.is_some()).count() >= most {
                    return Ok(());
                }
                self.check_interruption()?;
                let run = FIRST_RUN + round as u32;
                let is_measured = self.measure_again(&finding.workload, run, self.number, Some(finding.number));
                if !is_measured.map_err(failed)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Measures and stores once more; nothing if each run shows the same, or if a host fails, which the experiment that
    /// comes next says.
    fn measure_again(
        &mut self,
        workload: &Workload,
        run: u32,
        after: u64,
        finding: Option<u64>,
    ) -> Result<bool, StoreError> {
        // As a recipe is replayed: until the verdict is clear.
        let subsystem = &mut self.parts.subsystem;
        let judged = measure_judged(workload, &self.parts.bounds, |workload, attempt| {
            subsystem.measure_again(workload, run * ATTEMPTS + attempt)
        });
        let Ok(JudgedMeasurement { measurement, assessment, .. }) = judged else { return Ok(false) };
        if measurement.samples.is_empty() {
            return Ok(false);
        }
        let row = MeasuredAgain::of(after, finding, assessment.verdict, &measurement);
        self.parts.store.add_measured_again(self.id, self.again.len() as u64 + 1, &row)?;
        self.again.push(row);
        Ok(true)
    }
}
