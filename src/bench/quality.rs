//! How good the findings of a campaign are, measured: random points of the space, and random points inside each finding.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use kelpie_search::REFINED;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::Space;
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::points::workloads;
use super::shown::{Judged, Shown};
use super::weakness::Stored;

/// Random points inside each finding. Source: our choice, because a share of 95 % is then known to 2 points.
pub const INSIDE: u64 = 100;
/// Seed of those points, to which the finding's place is added. Source: our choice, so that no campaign draws the same.
const SEED: u64 = 1 << 41;

/// What random points say of the findings of one campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Random points that were anomalous.
    pub anomalous: u64,
    /// How many of them lie in a finding.
    pub explained: u64,
    /// Random points that were healthy.
    pub healthy: u64,
    /// How many of them lie in a finding.
    pub accused: u64,
    pub findings: Vec<Inside>,
}

/// What random points inside one finding showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    pub confidence: f64,
    /// Whether all random points inside are one workload.
    pub is_pinned: bool,
    pub anomalous: u64,
    pub healthy: u64,
    /// Anomalous points with another symptom, or limited by another part, than the finding's own workload.
    pub other: u64,
}

impl Inside {
    fn points(&self) -> Option<f64> {
        let points = self.anomalous + self.healthy;
        (points > 0).then_some(points as f64)
    }

    /// Share that is anomalous; `None` if no point has a verdict.
    pub fn anomalous_share(&self) -> Option<f64> {
        Some(self.anomalous as f64 / self.points()?)
    }

    /// Share that is healthy; `None` if no point has a verdict.
    pub fn healthy_share(&self) -> Option<f64> {
        Some(self.healthy as f64 / self.points()?)
    }

    /// Share with another weakness.
    pub fn other_share(&self) -> Option<f64> {
        Some(self.other as f64 / self.points()?)
    }

    /// Whether the finding states a confidence and at least as much of it is anomalous as it says.
    pub fn holds(&self) -> Option<bool> {
        let share = self.anomalous_share()?;
        (self.confidence > 0.0).then_some(share >= self.confidence)
    }

    fn of(
        space: &Space,
        subsystem: &mut SimSubsystem,
        (place, Stored { finding, weakness }): (usize, &Stored),
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Self> {
        let mut inside = Self { confidence: finding.confidence, is_pinned: false, anomalous: 0, healthy: 0, other: 0 };
        let mut points = HashSet::new();
        let mut random = Pcg64::seed_from_u64(SEED + place as u64);
        for _ in 0..INSIDE {
            let Some(point) = space.sample_in(&finding.mfs, &mut random) else { break };
            let shown = Shown::measure(subsystem, &point)?;
            measured();
            match shown.judged() {
                Judged::Healthy => inside.healthy += 1,
                Judged::Inconclusive => {}
                Judged::Anomalous(shown) => {
                    inside.anomalous += 1;
                    inside.other += u64::from(shown != *weakness);
                }
            }
            points.insert(point);
        }
        inside.is_pinned = points.len() <= 1;
        Ok(inside)
    }
}

impl Quality {
    /// Judges the findings of a campaign by these random points; `None` if `stop` ended it. `measured` is called after
    /// each point inside a finding.
    ///
    /// # Errors
    /// The subsystem could not be measured.
    pub fn of(
        space: &Space,
        subsystem: &SimSubsystem,
        findings: &[Stored],
        points: &[Judged],
        stop: &AtomicBool,
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Option<Self>> {
        let mut quality = Self { anomalous: 0, explained: 0, healthy: 0, accused: 0, findings: Vec::new() };
        for (workload, shown) in workloads(space, points.len() as u64).zip(points) {
            let is_inside = findings.iter().any(|stored| stored.finding.mfs.contains(&workload));
            let (all, inside) = match shown {
                Judged::Anomalous(_) => (&mut quality.anomalous, &mut quality.explained),
                Judged::Healthy => (&mut quality.healthy, &mut quality.accused),
                Judged::Inconclusive => continue,
            };
            *all += 1;
            *inside += u64::from(is_inside);
        }
        let mut subsystem = subsystem.clone();
        for stored in findings.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let inside = Inside::of(space, &mut subsystem, stored, measured).context("judging a finding")?;
            quality.findings.push(inside);
        }
        Ok(Some(quality))
    }
}

/// How good the findings of several campaigns are; `None` is a share of nothing. Units: shares, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QualityScore {
    /// Findings of a campaign, in the mean.
    pub findings: f64,
    /// Random anomalous points that lie in a finding.
    pub explained: Option<f64>,
    /// Random healthy points that lie in a finding.
    pub accused: Option<f64>,
    /// Healthy share inside a finding: median and 95th percentile.
    pub healthy_inside: Option<[f64; 2]>,
    /// Share inside a finding with another symptom or limited by another part: median and 95th percentile.
    pub other_inside: Option<[f64; 2]>,
    /// Findings that are their workload and no more.
    pub pinned: Option<f64>,
    /// Findings of a campaign that are refined, in the mean.
    pub refined: f64,
    /// Of those that state a confidence the ones of which random points show at least as much to be anomalous.
    pub holds: Option<f64>,
}

impl QualityScore {
    /// Over these campaigns; `None` of none.
    pub fn of<'q>(campaigns: impl Iterator<Item = &'q Quality>) -> Option<Self> {
        let campaigns: Vec<&Quality> = campaigns.collect();
        let findings = || campaigns.iter().flat_map(|quality| &quality.findings);
        let sum = |of: fn(&Quality) -> u64| campaigns.iter().map(|quality| of(quality)).sum::<u64>() as f64;
        let both = |of: fn(&Inside) -> Option<f64>| {
            let mut values: Vec<f64> = findings().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            (!values.is_empty()).then(|| [0.5, 0.95].map(|share| percentile(&values, share)))
        };
        let all = findings().count() as f64;
        let share = |count: f64, of: f64| (of > 0.0).then(|| count / of);
        let stated = findings().filter_map(Inside::holds).count() as f64;
        (!campaigns.is_empty()).then(|| Self {
            findings: all / campaigns.len() as f64,
            explained: share(sum(|quality| quality.explained), sum(|quality| quality.anomalous)),
            accused: share(sum(|quality| quality.accused), sum(|quality| quality.healthy)),
            healthy_inside: both(Inside::healthy_share),
            other_inside: both(Inside::other_share),
            pinned: share(findings().filter(|inside| inside.is_pinned).count() as f64, all),
            refined: findings().filter(|inside| inside.confidence >= REFINED).count() as f64 / campaigns.len() as f64,
            holds: share(findings().filter(|inside| inside.holds() == Some(true)).count() as f64, stated),
        })
    }
}

/// The value that this share of the sorted values does not exceed; there is one at least. Units: of `values`.
fn percentile(values: &[f64], share: f64) -> f64 {
    let at = (share * values.len() as f64).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}
