//! Campaigns that tests of `watch` look at: one that runs, one that is empty, one of a stranger. No assertions.

use std::collections::BTreeMap;

use kelpie_monitor::{Bounds, Severity, Symptom, Verdict};
use kelpie_search::{Purpose as Asked, UTILISATION};
use kelpie_spaces::{Condition, Feature, Region, Test, Workload, workload_from_yaml};
use kelpie_store::Ended;
use kelpie_store::{
    Anomaly, Brief, Campaign, CampaignDefinition, CampaignId, CampaignNews, CampaignState, ExperimentClock,
    FindingRecord,
};

use crate::campaign_progress::CampaignProgress;

/// When tests look. Units: milliseconds since 1970.
pub const NOW: i64 = 1_700_000_060_000;

/// What would clear a screen, ring, colour, and turn the direction of writing.
pub const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\n\u{9b}31m\u{202e}\u{0}雪\u{7f}";

/// A campaign of which nothing was read.
pub fn campaign(budget: Option<u64>) -> Campaign {
    let definition = CampaignDefinition {
        kelpie_version: "0.0.0".to_owned(),
        subsystem: "sim:F".to_owned(),
        subsystem_source: String::new(),
        bounds: Bounds::new(2e11, 2.15e8),
        space: "full".to_owned(),
        space_source: String::new(),
        algorithm: "collie".to_owned(),
        signal: "both".to_owned(),
        seed: 7,
        config: "{}".to_owned(),
        budget,
    };
    Campaign {
        id: CampaignId(3),
        definition,
        state: CampaignState::Running,
        experiments: 0,
        skipped: 0,
        findings: 0,
        host_failures: 0,
    }
}

/// An experiment of half a second that ended at `NOW` less a second for each one after it up to 60.
pub fn brief(number: u64) -> Brief {
    let ended = match number % 10 {
        3 | 7 => Ended::Judged(Verdict::Anomalous),
        5 => Ended::Judged(Verdict::Inconclusive),
        9 => Ended::Unsupported,
        _ => Ended::Judged(Verdict::Healthy),
    };
    let wave = (number % 8) as f64 / 8.0;
    let mut signals = BTreeMap::new();
    if ended != Ended::Unsupported {
        signals.insert(UTILISATION.to_owned(), 1.0 - wave);
        signals.insert("icm_cache_miss".to_owned(), wave * 4e6);
        signals.insert("pcie_internal_back_pressure".to_owned(), if number % 8 == 7 { 1200.0 } else { 0.0 });
        signals.insert("rx_discards".to_owned(), 0.0);
    }
    let started_unix_ms = NOW - 500 - (60 - number.cast_signed()) * 1000;
    Brief {
        number,
        purpose: if number <= 10 {
            Asked::Rank
        } else if number <= 40 {
            Asked::Search
        } else {
            Asked::Mfs
        }
        .into(),
        skipped_before: number % 2,
        ended,
        anomaly: (ended == Ended::Judged(Verdict::Anomalous)).then(|| anomaly(number)),
        clock: Some(ExperimentClock { started_unix_ms, duration_seconds: 0.5 }),
        signals,
    }
}

/// What is new where these were stored.
pub fn news(experiments: Vec<Brief>, findings: Vec<FindingRecord>) -> CampaignNews {
    CampaignNews {
        state: CampaignState::Running,
        budget: Some(150),
        skipped_at_end: 0,
        stored: experiments.last().map_or(0, |brief| brief.number),
        experiments,
        findings,
        is_all: true,
    }
}

/// Inside the findings, or, of every third, not: with fewer receives at once.
fn anomaly(number: u64) -> Anomaly {
    let mut workload = workload();
    if number.is_multiple_of(3) {
        workload.flows[0].batch.recv = 16;
    }
    let severity = Severity { port_lost: number as f64 / 100.0, pause_ratio: 0.02 };
    Anomaly { number, symptom: Symptom::Pause, severity, workload, shows_again: true, reason: None }
}

fn workload() -> Workload {
    let text = "kelpie: workload/1\nflows:\n  - from: a\n    to: b\n    qp_type: UD\n    qps: 4\n    mtu: 2048\n    \
         wq_depth: {send: 256, recv: 256}\n    batch: {send: 64, recv: 64}\n    \
         pattern: [{op: SEND, sge: [2KiB]}]\n    memory:\n      \
         from: {device: \"dram:0\", mrs: 1, mr_size: 64KiB}\n      to: {device: \"dram:0\", mrs: 1, mr_size: 64KiB}\n";
    workload_from_yaml("test", text).expect("a workload")
}

/// A finding with a condition on a number and one on a word.
pub fn finding(number: u64, word: &str) -> FindingRecord {
    let conditions = vec![
        Condition { feature: Feature::QpType, test: Test::In(vec![word.to_owned()]) },
        Condition { feature: Feature::RecvBatch, test: Test::Range { min: Some(48), max: None } },
        Condition { feature: Feature::RecvWqDepth, test: Test::Range { min: Some(256), max: None } },
    ];
    FindingRecord {
        number,
        symptom: if number % 2 == 1 { Symptom::Pause } else { Symptom::LowThroughput },
        found_at: number * 10 + 3,
        experiments_for_mfs: 62,
        confidence: 0.93,
        mfs: Region { conditions },
        workload: workload(),
        evidence: serde_json::json!({"narrowed": number == 2}),
    }
}

/// Begun, and nothing stored yet.
pub fn empty() -> CampaignProgress {
    let mut progress = CampaignProgress::new(campaign(Some(150)));
    progress.take(news(Vec::new(), Vec::new()));
    progress
}

/// In the middle: 60 of 150 experiments, three findings, 60 experiments a minute.
pub fn running() -> CampaignProgress {
    let mut progress = CampaignProgress::new(campaign(Some(150)));
    progress.take(news((1..=60).map(brief).collect(), (1..=3).map(|number| finding(number, "UD")).collect()));
    progress
}

/// One whose every text would steer a terminal.
pub fn hostile() -> CampaignProgress {
    let mut campaign = campaign(Some(150));
    for text in [&mut campaign.definition.subsystem, &mut campaign.definition.space, &mut campaign.definition.algorithm]
    {
        HOSTILE.clone_into(text);
    }
    HOSTILE.clone_into(&mut campaign.definition.signal);
    let mut progress = CampaignProgress::new(campaign);
    let mut experiment = brief(1);
    experiment.purpose = HOSTILE.to_owned().into();
    experiment.signals.insert(HOSTILE.to_owned(), 5.0);
    progress.take(news(vec![experiment], vec![finding(1, HOSTILE)]));
    progress
}
