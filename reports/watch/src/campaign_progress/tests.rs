//! Tests of the progress: counting, rates, time left and signals, as news come in.

use kelpie_monitor::Verdict;

use super::*;
use crate::testing::{NOW, brief, campaign, empty, finding, news, running};

#[test]
fn news_add_up() {
    let mut progress = empty();
    assert!(progress.is_read() && progress.phase().is_none() && progress.per_minute(NOW).is_none());
    progress.take(news((1..=12).map(brief).collect(), vec![finding(1, "UD")]));
    let mut more = news((13..=20).map(brief).collect(), vec![finding(2, "UD")]);
    (more.skipped_at_end, more.is_all, more.stored) = (3, false, 90);
    progress.take(more);
    assert_eq!((progress.campaign.experiments, progress.stored, progress.is_read()), (20, 90, false));
    assert_eq!((progress.campaign.skipped, progress.campaign.findings), (13, 2));
    assert_eq!(progress.ended, [12, 4, 2, 2]);
    assert_eq!(progress.count(Ended::Judged(Verdict::Anomalous)), 4);
    assert_eq!((progress.purposes, progress.phase()), ([10, 10, 0, 0, 0, 0, 0], Some(1)));
    assert_eq!(progress.budget_ratio(), Some(20.0 / 150.0));
    // Whoever resumes may take the budget away, and what was skipped at the end is counted again before an experiment.
    let mut resumed = news(vec![brief(21)], Vec::new());
    resumed.budget = None;
    progress.take(resumed);
    assert_eq!((progress.campaign.skipped, progress.budget_ratio(), progress.seconds_left(NOW)), (11, None, None));
}

#[test]
fn only_the_latest_experiments_are_kept() {
    let mut progress = CampaignProgress::new(campaign(None));
    progress.take(news((1..=1000).map(brief).collect(), Vec::new()));
    assert_eq!((progress.campaign.experiments, progress.recent.len() as u64), (1000, RECENT));
    assert_eq!(progress.recent.front().map(|brief| brief.number), Some(1000 - RECENT + 1));
}

#[test]
fn the_rate_is_that_of_now() {
    let near = |rate: Option<f64>, expected: f64| assert!((rate.unwrap() - expected).abs() < 0.01, "{rate:?}");
    let mut progress = running();
    // 60 experiments, one each second, the first half a second before the minute.
    near(progress.per_minute(NOW), 60.0 / 59.5 * 60.0);
    near(progress.seconds_left(NOW), 90.0 * 59.5 / 60.0);
    near(progress.per_minute(NOW + 59_500), 60.0 / 119.0 * 60.0);
    near(progress.per_minute(NOW - 999_000), 60.0 / 59.5 * 60.0);
    assert_eq!(progress.per_minute(NOW + 601_000), None, "nothing for ten minutes");
    // Stopped, it stays what it was.
    progress.campaign.state = CampaignState::Stopped;
    near(progress.per_minute(NOW + 999_000), 60.0 / 59.5 * 60.0);
    assert_eq!(progress.seconds_left(NOW), None);
    // Resumed an hour later, only what came after counts.
    progress.campaign.state = CampaignState::Running;
    let mut later = brief(61);
    later.clock = Some(ExperimentClock { started_unix_ms: NOW + 3_600_000, duration_seconds: 2.0 });
    progress.take(news(vec![later], Vec::new()));
    near(progress.per_minute(NOW + 3_602_000), 30.0);
}

#[test]
fn clocks_that_make_no_sense_give_no_rate() {
    for (started_unix_ms, duration_seconds) in
        [(NOW, 0.0), (NOW, -5.0), (i64::MAX, 1e308), (i64::MIN, 1.0), (NOW, f64::INFINITY)]
    {
        let mut progress = CampaignProgress::new(campaign(Some(150)));
        let clock = Some(ExperimentClock { started_unix_ms, duration_seconds });
        progress.take(news(vec![Brief { clock, ..brief(1) }], Vec::new()));
        let rate = progress.per_minute(NOW);
        assert!(rate.is_none_or(|rate| rate.is_finite() && rate >= 0.0), "{started_unix_ms}: {rate:?}");
    }
}

#[test]
fn signals_are_aligned_with_experiments() {
    let (signals, silent) = running().signals();
    let names: Vec<&str> = signals.iter().map(|signal| signal.name.as_str()).collect();
    assert_eq!(names, [UTILISATION, "icm_cache_miss", "pcie_internal_back_pressure"]);
    assert_eq!(silent, 1, "rx_discards was 0 throughout");
    assert!(signals.iter().all(|signal| signal.values.len() == 60));
    assert_eq!(signals[0].values[8], None, "experiment 9 was not measured");
    assert_eq!((signals[0].values[7], signals[0].latest()), (Some(1.0), Some(0.5)));
    let one_gap = SignalSeries { name: String::new(), values: vec![Some(2.0), None] };
    assert_eq!(one_gap.latest(), Some(2.0));
}
