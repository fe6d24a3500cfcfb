//! What a running campaign says on stderr: a bar on a terminal, one line per finding elsewhere. Decides nothing.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::{note, plural};

/// The face of a running campaign.
pub struct Progress {
    bar: ProgressBar,
    findings: u64,
}

impl Progress {
    /// Progress towards `budget` experiments, or for as long as it takes.
    pub fn new(budget: Option<u64>) -> Self {
        let (bar, template) = match budget {
            Some(budget) => {
                (ProgressBar::new(budget), "{bar:30} {pos}/{len} experiments, {per_sec}, {msg}, {eta} left")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {pos} experiments, {per_sec}, {msg}, {elapsed} so far"),
        };
        let style = ProgressStyle::with_template(template).expect("the template is a constant").with_key(
            "per_sec",
            |state: &indicatif::ProgressState, line: &mut dyn std::fmt::Write| {
                // A line that cannot be drawn is not worth stopping for.
                let _ = write!(line, "{:.1}/s", state.per_sec());
            },
        );
        bar.set_style(style);
        bar.set_message(plural(0, "finding"));
        let progress = Self { bar, findings: 0 };
        progress.bar.enable_steady_tick(Duration::from_millis(200));
        progress
    }

    /// A stored experiment was replayed; it took no time and says nothing about the rate.
    pub fn replayed(&self, number: u64) {
        self.bar.set_position(number);
        self.bar.reset_eta();
    }

    /// An experiment was measured and stored.
    pub fn measured(&self, number: u64) {
        self.bar.set_position(number);
    }

    /// Progress of several campaigns towards `total` experiments.
    pub fn of_campaigns(campaigns: u64, total: u64) -> Self {
        let progress = Self::new(Some(total));
        progress.bar.set_message(plural(campaigns, "campaign"));
        progress
    }

    /// Experiments of a fit, of which nobody knows how many there will be.
    pub fn of_experiments() -> Self {
        let progress = Self::new(None);
        progress.bar.set_message("fitting");
        progress
    }

    /// One more experiment was measured, by any of several campaigns.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// A finding came up, now or in an earlier run, or was refined; it is said once.
    pub fn found(&mut self, number: u64, line: &str, replayed: bool) {
        let is_new = number > self.findings;
        self.findings = self.findings.max(number);
        self.bar.set_message(plural(self.findings, "finding"));
        if is_new && !replayed {
            self.line(line);
        }
    }

    /// Says one line without tearing the bar.
    pub fn line(&self, line: &str) {
        self.bar.suspend(|| note(line));
    }

    /// Takes the bar away.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_valid() {
        for budget in [None, Some(10)] {
            let mut progress = Progress::new(budget);
            progress.replayed(1);
            progress.measured(2);
            progress.found(1, "a finding", true);
            assert_eq!(progress.bar.message(), "1 finding");
            progress.close();
        }
    }
}
