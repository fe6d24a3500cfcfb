//! How a campaign stands, in OpenMetrics.

use std::sync::atomic::AtomicU64;

use kelpie_store::CampaignState;
use kelpie_text::clean;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::campaign_progress::CampaignProgress;
use crate::text::ENDS;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SignalLabels {
    signal: String,
}

/// The campaign in OpenMetrics. What nobody knows is left out.
pub fn text(progress: &CampaignProgress, now_unix_ms: i64) -> String {
    let mut all = Registry::with_prefix("kelpie_campaign");
    let campaign = &progress.campaign;
    let definition = &campaign.definition;
    let labels = [
        ("campaign", campaign.id.to_string()),
        ("subsystem", clean(&definition.subsystem)),
        ("space", clean(&definition.space)),
        ("algorithm", clean(&definition.algorithm)),
        ("signal", clean(&definition.signal)),
        ("seed", definition.seed.to_string()),
    ];
    all.register("definition", "What the campaign searches, and how", Info::new(labels.to_vec()));
    let running = u64::from(campaign.state == CampaignState::Running);
    all.register("running", "Whether a process runs it", ConstGauge::new(running));
    let ended = Family::<VerdictLabels, prometheus_client::metrics::counter::Counter>::default();
    for (end, word) in ENDS {
        ended.get_or_create(&VerdictLabels { verdict: word }).inc_by(progress.count(end));
    }
    all.register("experiments", "Experiments by how they ended", ended);
    all.register("skipped", "Workloads that a finding already explained", ConstCounter::new(campaign.skipped));
    all.register("findings", "Findings", ConstGauge::new(campaign.findings));
    let explained = progress.explained();
    let unexplained = explained.unexplained.len() as u64;
    all.register("unexplained_anomalies", "Anomalous experiments in no finding", ConstGauge::new(unexplained));
    let worst = explained.anomalies.first().map_or(0.0, |worst| worst.severity.share());
    all.register("worst_severity_ratio", "Share of a port that the worst anomaly takes", ConstGauge::new(worst));
    if let Some(budget) = definition.budget {
        all.register("budget_experiments", "Experiments that end it", ConstGauge::new(budget));
    }
    if let Some(rate) = progress.per_minute(now_unix_ms) {
        all.register("experiments_per_second", "Experiments per second, lately", ConstGauge::new(rate / 60.0));
    }
    if let Some(left) = progress.seconds_left(now_unix_ms) {
        all.register("left_seconds", "Time left at the present rate", ConstGauge::new(left));
    }
    let signals = Family::<SignalLabels, Gauge<f64, AtomicU64>>::default();
    for signal in progress.signals().0 {
        if let Some(value) = signal.latest() {
            signals.get_or_create(&SignalLabels { signal: clean(&signal.name) }).set(value);
        }
    }
    all.register("last_signal", "Signals of the last experiment that has them", signals);
    let mut text = String::new();
    encode(&mut text, &all).expect("a string takes all that is written to it");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, empty, hostile, running};

    #[test]
    fn every_line_is_a_sample_or_a_comment_and_the_last_ends_the_set() {
        for progress in [empty(), running(), hostile()] {
            let text = text(&progress, NOW);
            assert!(text.ends_with("# EOF\n"), "{text}");
            for line in text.lines() {
                assert!(line.starts_with("# ") || line.starts_with("kelpie_campaign_"), "{line:?}");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
        let progress = running();
        let text = text(&progress, NOW);
        let anomalous = progress.count(ENDS[1].0);
        assert!(anomalous > 0);
        let sample = format!("kelpie_campaign_experiments_total{{verdict=\"anomalous\"}} {anomalous}\n");
        assert!(text.contains(&sample), "{text}");
        assert!(text.contains("kelpie_campaign_running 1\n"), "{text}");
    }
}
