//! One finding judged: random workloads that meet its conditions, and its conditions broken.

use std::collections::HashSet;

use kelpie_engine::Subsystem as _;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Feature, Space};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::breaker::{Broken, broken};
use super::likeness::Likeness;
use super::shown::{Judged, Shown};
use super::weakness::{Stored, Weakness};

/// Random points inside each finding. Source: our choice, because a share of 90 % is then known to 4 points.
pub const INSIDE: u64 = 50;
/// Seed of those points, to which the finding's place is added. Source: our choice, so that no campaign draws the same.
const SEED: u64 = 1 << 41;

/// What one finding was measured to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What its workload shows.
    pub weakness: Weakness,
    /// Transport and operation of the traffic that is limited there.
    pub traffic: String,
    /// Place of the finding of which it is a variant.
    pub variant_of: Option<usize>,
    /// Whether its conditions are not measured.
    pub is_candidate: bool,
    pub confidence: f64,
    /// Conditions, those on transport and operation counted once.
    pub conditions: u64,
    /// Empty of variants and candidates.
    pub broken: Vec<Broken>,
    /// Random workloads that meet the conditions and show the symptom, also beside others; none of variants and
    /// candidates.
    pub own: u64,
    /// Those that show only another symptom.
    pub other: u64,
    pub healthy: u64,
    /// Whether all of them are one workload.
    pub is_pinned: bool,
    /// How it compares with the paper's table, if its workload meets a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likeness: Option<Likeness>,
}

impl Judgement {
    pub(super) fn of(
        space: &Space,
        subsystem: &mut SimSubsystem,
        place: usize,
        stored: &Stored,
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Self> {
        let Stored { finding, weakness, traffic } = stored;
        let features = finding.mfs.conditions.iter().map(|condition| match condition.feature {
            Feature::QpType => Feature::Opcode,
            feature => feature,
        });
        let mut judgement = Self {
            weakness: weakness.clone(),
            traffic: traffic.clone(),
            variant_of: finding.evidence.variant_of.map(|number| number as usize - 1),
            is_candidate: finding.evidence.is_candidate,
            confidence: finding.confidence,
            conditions: features.collect::<HashSet<Feature>>().len() as u64,
            broken: Vec::new(),
            own: 0,
            other: 0,
            healthy: 0,
            is_pinned: false,
            likeness: Likeness::of(finding, subsystem.name()),
        };
        if judgement.variant_of.is_none() && !judgement.is_candidate {
            judgement.broken = broken(space, subsystem, finding, measured)?;
            judgement.look_inside(space, subsystem, place, stored, measured)?;
        }
        Ok(judgement)
    }

    fn look_inside(
        &mut self,
        space: &Space,
        subsystem: &mut SimSubsystem,
        place: usize,
        stored: &Stored,
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<()> {
        let mut points = HashSet::new();
        let mut random = Pcg64::seed_from_u64(SEED + place as u64);
        for _ in 0..INSIDE {
            let Some(point) = space.sample_in(&stored.finding.mfs, &mut random) else { break };
            let shown = Shown::measure(subsystem, &point)?;
            measured();
            let is_own = shown.seen.assessment.symptoms.contains(&stored.finding.symptom);
            match shown.judged() {
                Judged::Healthy => self.healthy += 1,
                Judged::Inconclusive => {}
                Judged::Anomalous(_) if is_own => self.own += 1,
                Judged::Anomalous(_) => self.other += 1,
            }
            points.insert(point);
        }
        self.is_pinned = points.len() <= 1;
        Ok(())
    }

    fn points(&self) -> Option<f64> {
        let points = self.own + self.other + self.healthy;
        (points > 0).then_some(points as f64)
    }

    /// Share that shows the symptom; `None` if no point has a verdict.
    pub fn own_share(&self) -> Option<f64> {
        Some(self.own as f64 / self.points()?)
    }

    /// Share that shows any; `None` if no point has a verdict.
    pub fn anomalous_share(&self) -> Option<f64> {
        Some((self.own + self.other) as f64 / self.points()?)
    }

    /// Whether at least as much shows the symptom as the finding states; `None` if it states nothing.
    pub fn holds(&self) -> Option<bool> {
        let share = self.own_share()?;
        (self.confidence > 0.0).then_some(share >= self.confidence)
    }
}
