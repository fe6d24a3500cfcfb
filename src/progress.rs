//! What a running campaign says on stderr: a bar on a terminal, one line per finding elsewhere. Decides nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::output::{is_quiet, note, plural};

/// How often a campaign says how it stands if there is no terminal. Source: our choice, because somebody who waits
/// wants to see that it goes on, and a log is to stay short.
const LINE: Duration = Duration::from_secs(10);

/// The face of a running campaign.
pub struct ProgressDisplay {
    bar: ProgressBar,
    pace: ProgressPace,
    findings: u64,
    anomalies: u64,
    /// When the campaign has to stand still.
    deadline: Option<Instant>,
    /// When the last line was said, if lines are said.
    line: Option<Instant>,
}

impl ProgressDisplay {
    /// Progress towards `budget` experiments, or for as long as it takes.
    pub fn new(budget: Option<u64>) -> Self {
        Self::until(budget, None)
    }

    /// Progress of a campaign that ends with its budget or at a moment, whichever is first.
    pub fn of_campaign(budget: Option<u64>, deadline: Option<Instant>) -> Self {
        let mut progress = Self::until(budget, deadline);
        progress.line = progress.bar.is_hidden().then(Instant::now);
        progress.say_counts();
        progress
    }

    fn until(budget: Option<u64>, deadline: Option<Instant>) -> Self {
        let (bar, template) = match budget {
            Some(budget) => (ProgressBar::new(budget), "{bar:30} {pos}/{len} experiments, {rate}, {msg}{left}"),
            None if deadline.is_some() => {
                (ProgressBar::new_spinner(), "{spinner} {pos} experiments, {rate}, {msg}{left}")
            }
            None => (ProgressBar::new_spinner(), "{spinner} {pos} experiments, {rate}, {msg}, {elapsed} so far"),
        };
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        let pace = ProgressPace::new();
        let (of_rate, of_left) = (pace.clone(), pace.clone());
        // A line that cannot be drawn is not worth stopping for.
        let style = style
            .with_key("rate", move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
                let _ = write!(line, "{:.1}/s", of_rate.per_second(state.pos()));
            })
            .with_key("left", move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
                let eta = budget.and_then(|budget| of_left.left(state.pos(), budget));
                let _ = write!(line, "{}", said(left(eta, deadline)));
            });
        bar.set_style(style);
        if is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, pace, findings: 0, anomalies: 0, deadline, line: None }
    }

    fn count(&mut self, is_anomalous: bool) {
        if is_anomalous {
            self.anomalies += 1;
            self.say_counts();
        }
    }

    fn say_counts(&self) {
        self.bar.set_message(format!("{}, {} anomalous", plural(self.findings, "finding"), self.anomalies));
    }

    /// How the campaign stands, in a line.
    fn standing(&self) -> String {
        let of = self.bar.length().map_or_else(String::new, |budget| format!(" of {budget}"));
        let eta = self.bar.length().and_then(|budget| self.pace.left(self.bar.position(), budget));
        let left = said(left(eta, self.deadline));
        format!("{}{of} experiments, {}{left}", self.bar.position(), self.bar.message())
    }

    /// Progress towards so many cells of a matrix.
    pub fn of_cells(cells: usize) -> Self {
        let progress = Self::until(Some(cells as u64), None);
        let (template, pace) = ("{bar:30} {pos}/{len} cells, {msg}{left}", progress.pace.clone());
        progress.bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant").with_key(
            "left",
            move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
                let _ = write!(line, "{}", said(pace.left(state.pos(), cells as u64)));
            },
        ));
        progress
    }

    /// So many cells are done, and this one comes next.
    pub fn cell(&self, done: usize, rnic: &str, endpoint: &str) {
        self.bar.set_position(done as u64);
        self.bar.set_message(format!("{rnic} to {endpoint}"));
    }

    /// Progress over the units of a fleet.
    pub fn of_units() -> Self {
        let progress = Self::until(None, None);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} units{msg}, {eta} left");
        progress.bar.set_style(style.expect("the template is a constant"));
        progress
    }

    /// So many units of all are done, and so many hosts do not answer.
    pub fn units(&self, done: usize, all: usize, gone: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        if gone > 0 {
            self.bar.set_message(format!(", {} without an answer", plural(gone as u64, "host")));
        }
    }

    /// Progress of several campaigns towards `total` experiments.
    pub fn of_campaigns(campaigns: u64, total: u64) -> Self {
        let progress = Self::new(Some(total));
        progress.bar.set_message(plural(campaigns, "campaign"));
        progress
    }

    /// So many experiments were measured.
    pub fn reached(&self, number: u64) {
        self.bar.set_position(number);
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

    /// Says one line without tearing the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| note(line));
    }

    /// Takes the bar away.
    pub fn close(&self) {
        self.bar.finish_and_clear();
    }
}

impl kelpie_campaign::Progress for ProgressDisplay {
    fn goes_on(&mut self, number: u64, findings: u64, anomalies: u64) {
        (self.findings, self.anomalies) = (findings, anomalies);
        self.read(number);
        self.say_counts();
    }

    fn read(&mut self, number: u64) {
        self.bar.set_position(number);
        self.pace.begin(number);
    }

    fn replayed(&mut self, number: u64, is_anomalous: bool) {
        self.read(number);
        self.count(is_anomalous);
    }

    fn measured(&mut self, number: u64, is_anomalous: bool) {
        self.bar.set_position(number);
        self.count(is_anomalous);
        if self.line.is_some_and(|last| last.elapsed() >= LINE) {
            self.line = Some(Instant::now());
            note(&self.standing());
        }
    }

    fn found(&mut self, number: u64, line: &str, replayed: bool) {
        let is_new = number > self.findings;
        self.findings = self.findings.max(number);
        self.say_counts();
        if is_new && !replayed {
            self.say(line);
        }
    }

    fn line(&self, line: &str) {
        self.say(line);
    }
}

/// When, and at which position, a pace began. What comes takes as long as what was, in the mean: single experiments of
/// real hosts differ too much to look at the last ones alone.
#[derive(Clone)]
struct ProgressPace(Arc<Mutex<(Instant, u64)>>);

impl ProgressPace {
    fn new() -> Self {
        Self(Arc::new(Mutex::new((Instant::now(), 0))))
    }

    fn begin(&self, position: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), position);
    }

    /// Time since it began, and steps made since.
    fn so_far(&self, position: u64) -> (Duration, u64) {
        let (since, first) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (since.elapsed(), position.saturating_sub(first))
    }

    fn per_second(&self, position: u64) -> f64 {
        let (time, steps) = self.so_far(position);
        steps as f64 / time.as_secs_f64().max(1e-3)
    }

    /// Time until `length`; not known before the first step.
    fn left(&self, position: u64, length: u64) -> Option<Duration> {
        let (time, steps) = self.so_far(position);
        let to_come = length.saturating_sub(position);
        Duration::try_from_secs_f64(time.as_secs_f64() * to_come as f64 / steps as f64).ok()
    }
}

/// The end of a line that says how much time is left.
fn said(left: Option<Duration>) -> String {
    left.map_or_else(String::new, |left| format!(", {} left", HumanDuration(left)))
}

/// The time left: until the budget is used up, or until the deadline, whichever is first.
fn left(eta: Option<Duration>, deadline: Option<Instant>) -> Option<Duration> {
    let until = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    match (eta, until) {
        (Some(eta), Some(until)) => Some(eta.min(until)),
        (eta, until) => eta.or(until),
    }
}

#[cfg(test)]
mod tests {
    use kelpie_campaign::Progress as _;

    use super::*;

    #[test]
    fn findings_and_anomalies_are_counted() {
        for budget in [None, Some(10)] {
            let mut progress = ProgressDisplay::of_campaign(budget, None);
            assert_eq!(progress.bar.message(), "0 findings, 0 anomalous");
            progress.replayed(1, true);
            progress.measured(2, false);
            progress.measured(3, true);
            progress.found(1, "a finding", true);
            assert_eq!(progress.bar.message(), "1 finding, 2 anomalous");
            let of = if budget.is_some() { " of 10" } else { "" };
            let line = progress.standing();
            assert!(line.starts_with(&format!("3{of} experiments, 1 finding, 2 anomalous")), "{line}");
            progress.close();
        }
    }

    #[test]
    fn the_time_left_is_that_of_what_ends_first() {
        let soon = Instant::now() + Duration::from_mins(1);
        let long = Some(Duration::from_hours(2));
        assert!(left(long, Some(soon)).is_some_and(|left| left <= Duration::from_mins(1)));
        assert_eq!(left(long, None), long);
        assert_eq!(left(Some(Duration::from_secs(1)), Some(soon)), Some(Duration::from_secs(1)));
        assert_eq!(left(None, None), None);
        let progress = ProgressDisplay::of_campaign(None, Some(soon));
        assert!(progress.standing().ends_with(" seconds left"), "{}", progress.standing());
    }

    #[test]
    fn what_comes_takes_as_long_as_what_was() {
        let pace = ProgressPace::new();
        assert_eq!(pace.left(0, 100), None);
        pace.begin(40);
        pace.0.lock().expect("unpoisoned").0 -= Duration::from_mins(10);
        assert_eq!(pace.left(41, u64::MAX), None, "too long to say");
        let minutes = pace.left(60, 100).expect("twenty steps").as_secs_f64() / 60.0;
        assert!((minutes - 20.0).abs() < 0.1 && (pace.per_second(60) - 1.0 / 30.0).abs() < 1e-3, "{minutes}");
    }
}
