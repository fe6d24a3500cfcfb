//! Answers for people.

use std::fmt::Write as _;

use kelpie_text::{Table, percent, si};

use crate::answer::{Level, ProgramAnswer};
use crate::peer::FlowsAnswer;
use crate::problem::FlowRates;
use crate::timeline::TimelineRun;

fn micros(micros: Option<f64>) -> String {
    match micros {
        None => "never".to_owned(),
        Some(micros) if micros >= 1e5 => format!("{:.2} ms", micros / 1e3),
        Some(micros) => format!("{micros:.1} µs"),
    }
}

/// What a network did, from marks, pauses, the largest queue and lost packets, and what was sent again.
fn happened([marks, pauses, queue, lost]: [u64; 4], again: u64) -> String {
    format!("marks {marks}, pauses {pauses}, largest queue {}B, lost {lost}, sent again {again}", si(queue as f64))
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Packets => "packets",
        Level::Flows => "flows",
        Level::Analytic => "analytic",
        Level::Physical => "hosts",
    }
}

impl ProgramAnswer {
    /// Jobs and steps, then what the network did.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["job", "step", "time", "busbw"], &[2, 3]);
        for job in &self.jobs {
            table.row(vec![job.name.clone(), "until its end".to_owned(), micros(job.end_us), String::new()]);
            for step in &job.steps {
                let busbw = step.busbw_gb_per_s.map_or_else(String::new, |busbw| format!("{busbw:.2} GB/s"));
                table.row(vec![String::new(), step.step.clone(), micros(step.mean_us), busbw]);
            }
        }
        let mut text = if table.is_empty() { String::new() } else { table.render("") };
        if let Some(flows) = &self.flows {
            let (mean, most) = (micros(Some(flows.mean_us)), micros(Some(flows.most_us)));
            let _ = writeln!(
                text,
                "{} flows, {} of them ended, in {mean} in the mean and at most {most}",
                flows.count, flows.ended
            );
        }
        let _ = writeln!(
            text,
            "{} transfers by {}, the last at {}",
            self.transfers,
            level(self.level),
            micros(Some(self.end_us))
        );
        if self.unfinished > 0 {
            let _ = writeln!(text, "{} transfers never ended", self.unfinished);
        }
        let Some(network) = &self.network else { return text };
        for (reason, count) in &network.unfinished_because {
            let why = match *reason {
                "waits" => "wait for others that never ended",
                "gave_up" => "are of QPs that gave up: no way was left, or too much was lost",
                "out_of_time" => "had no time left: see the setting end_us",
                _ => "stand still: their packets are held for ever",
            };
            let _ = writeln!(text, "  {count} {why}");
        }
        let counts = [network.ecn_marks, network.pfc_pauses, network.max_queue_bytes, network.lost_packets];
        let _ = writeln!(text, "{}", happened(counts, network.retransmissions));
        if !network.deadlocked.is_empty() {
            let _ = writeln!(text, "deadlock of PFC: {} hold each other up", network.deadlocked.join(", "));
        }
        let mut links = Table::new(&["busiest links", "in use"], &[1]);
        for hot in &network.hot_links {
            links.row(vec![hot.link.join(" to "), percent(hot.use_share)]);
        }
        if !links.is_empty() {
            text.push_str(&links.render(""));
        }
        text
    }
}

/// Several answers to one question, side by side: what each is called, and the answer.
pub fn side_by_side(answers: &[(String, ProgramAnswer)]) -> String {
    let headings: Vec<&str> = std::iter::once("").chain(answers.iter().map(|(name, _)| name.as_str())).collect();
    let mut table = Table::new(&headings, &[1, 2, 3, 4, 5, 6, 7, 8]);
    let mut row = |name: String, cell: &dyn Fn(&ProgramAnswer) -> String| {
        table.row(std::iter::once(name).chain(answers.iter().map(|(_, answer)| cell(answer))).collect());
    };
    let Some((_, first)) = answers.first() else { return String::new() };
    for (job, of) in first.jobs.iter().enumerate() {
        row(of.name.clone(), &|answer| micros(answer.jobs[job].end_us));
        for (step, of) in of.steps.iter().enumerate() {
            row(format!("  {}", of.step), &|answer| micros(answer.jobs[job].steps[step].mean_us));
        }
    }
    row("last transfer".to_owned(), &|answer| micros(Some(answer.end_us)));
    let network = |answer: &ProgramAnswer, of: fn(&crate::answer::NetworkAnswer) -> String| {
        answer.network.as_ref().map_or_else(|| "-".to_owned(), of)
    };
    row("marks".to_owned(), &|answer| network(answer, |n| n.ecn_marks.to_string()));
    row("pauses".to_owned(), &|answer| network(answer, |n| n.pfc_pauses.to_string()));
    row("largest queue".to_owned(), &|answer| network(answer, |n| format!("{}B", si(n.max_queue_bytes as f64))));
    row("sent again".to_owned(), &|answer| network(answer, |n| n.retransmissions.to_string()));
    row("never ended".to_owned(), &|answer| answer.unfinished.to_string());
    table.render("")
}

impl TimelineRun {
    /// What jobs get, whenever that changes; jobs without a name have their number.
    pub fn text(&self, names: &[&str]) -> String {
        let heading =
            |(job, name): (usize, &&str)| if name.is_empty() { format!("job {job}") } else { (*name).to_owned() };
        let names: Vec<String> = names.iter().enumerate().map(heading).collect();
        let columns: Vec<&str> = ["from", "because"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let mut table = Table::new(&columns, &[0]);
        for moment in &self.moments {
            let gbps = moment.busbw_gbps.iter().map(|gbps| format!("{gbps:.1} Gbps"));
            let start = [format!("{:.3} s", moment.at_s), moment.because.clone()];
            table.row(start.into_iter().chain(gbps).collect());
        }
        table.render("")
    }
}

impl FlowRates {
    /// What jobs get.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["job", "busbw"], &[0, 1]);
        for (job, gbps) in self.busbw_gbps.iter().enumerate() {
            table.row(vec![job.to_string(), format!("{gbps:.1} Gbps")]);
        }
        table.render("")
    }
}

impl FlowsAnswer {
    /// Completion times and what the network did.
    pub fn text(&self) -> String {
        let times = self.completions();
        let at = |share: f64| {
            micros(times.get((times.len().saturating_sub(1) as f64 * share) as usize).map(|t| *t as f64 / 1e3))
        };
        let mean = times.iter().sum::<u64>() as f64 / times.len().max(1) as f64 / 1e3;
        let mut text = String::new();
        let _ = writeln!(text, "{} flows, {} of them ended", self.flows.len(), times.len());
        let mut table = Table::new(&["completion", "shortest", "mean", "median", "99 %", "longest"], &[1, 2, 3, 4, 5]);
        table.row(vec![String::new(), at(0.0), micros(Some(mean)), at(0.5), at(0.99), at(1.0)]);
        text.push_str(&table.render(""));
        let counts = [self.ecn_marks, self.pfc_pauses, self.max_queue_bytes, self.lost_packets];
        let hops = si(self.hop_packets as f64);
        let _ = writeln!(text, "{}, {hops}hop-packets", happened(counts, self.retransmissions));
        text
    }
}
