//! How good the findings of campaigns are, measured: how many there are for each weakness, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::Space;
use serde::{Deserialize, Serialize};

use super::breaker::Broken;
use super::judgement::Judgement;
use super::likeness::Likeness;
use super::points::workloads;
use super::shown::Judged;
use super::weakness::Stored;

/// What random points say of the findings of one campaign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Random points that were anomalous.
    pub anomalous: u64,
    /// How many of them meet the conditions of a finding with their symptom.
    pub explained: u64,
    /// Random points that were healthy.
    pub healthy: u64,
    /// How many of them meet the conditions of a finding.
    pub accused: u64,
    /// In the order of their numbers.
    pub findings: Vec<Judgement>,
}

impl Quality {
    /// Judges the findings of a campaign by these random points; `None` if `stop` ended it. `measured` is called after
    /// each other experiment.
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
            let mut holding = findings.iter().filter(|stored| stored.finding.mfs.contains(&workload));
            match shown {
                Judged::Anomalous(weakness) => {
                    quality.anomalous += 1;
                    let is_explained = holding.any(|stored| stored.finding.symptom == weakness.symptom);
                    quality.explained += u64::from(is_explained);
                }
                Judged::Healthy => {
                    quality.healthy += 1;
                    quality.accused += u64::from(holding.next().is_some());
                }
                Judged::Inconclusive => {}
            }
        }
        let mut subsystem = subsystem.clone();
        for (place, stored) in findings.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let judgement = Judgement::of(space, &mut subsystem, place, stored, measured);
            quality.findings.push(judgement.context("judging a finding")?);
        }
        Ok(Some(quality))
    }

    /// Findings that are neither variants nor candidates.
    fn firsts(&self) -> impl Iterator<Item = &Judgement> {
        self.findings.iter().filter(|finding| finding.variant_of.is_none() && !finding.is_candidate)
    }

    fn candidates(&self) -> impl Iterator<Item = &Judgement> {
        self.findings.iter().filter(|finding| finding.variant_of.is_none() && finding.is_candidate)
    }

    fn variants(&self) -> impl Iterator<Item = (&Judgement, &Judgement)> {
        self.findings.iter().filter_map(|finding| Some((finding, self.findings.get(finding.variant_of?)?)))
    }

    /// For each of these keys so many findings; `None` without findings.
    fn for_each<K: Ord>(&self, key: impl Fn(&Judgement) -> K) -> Option<f64> {
        let keys: BTreeSet<K> = self.firsts().map(key).collect();
        (!keys.is_empty()).then(|| self.firsts().count() as f64 / keys.len() as f64)
    }

    /// Findings by the row of the paper's table that their workload meets.
    fn rows(&self) -> BTreeMap<u32, Vec<&Likeness>> {
        let mut rows: BTreeMap<u32, Vec<&Likeness>> = BTreeMap::new();
        for likeness in self.firsts().filter_map(|finding| finding.likeness.as_ref()) {
            rows.entry(likeness.anomaly).or_default().push(likeness);
        }
        rows
    }

    /// Weaknesses that variants show and no finding or candidate does.
    fn lost(&self) -> f64 {
        let kept: BTreeSet<_> = self.firsts().chain(self.candidates()).map(|finding| &finding.weakness).collect();
        let lost = self.variants().map(|(variant, _)| &variant.weakness).filter(|weakness| !kept.contains(weakness));
        lost.collect::<BTreeSet<_>>().len() as f64
    }
}

/// How good the findings of several campaigns are; `None` is a share or a mean of nothing. Units: shares, 0 to 1, if
/// nothing else is said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QualityScore {
    /// Findings of a campaign, in the mean, without variants and candidates. Units: findings.
    pub findings: f64,
    /// Variants of a campaign, in the mean. Units: findings.
    pub variants: f64,
    /// Candidates of a campaign, in the mean. Units: findings.
    pub candidates: f64,
    /// Findings for each symptom with its limiting part, transport and operation, in the mean. Units: findings.
    pub for_each_limiting: Option<f64>,
    /// Findings for each weakness, which is a symptom with its limiting part, in the mean. Units: findings.
    pub for_each_part: Option<f64>,
    /// Weaknesses of a campaign that only variants show, in the mean. Units: weaknesses.
    pub lost: f64,
    /// Variants with the weakness of their finding.
    pub pure: Option<f64>,
    /// Conditions of a finding, those on transport and operation counted once: median and 95th percentile. Units:
    /// conditions.
    pub conditions: Option<[f64; 2]>,
    /// Conditions without which the symptom is gone, of those that can be broken alone.
    pub necessary: Option<f64>,
    /// Rows of the paper's table that a campaign touches, in the mean. Units: rows.
    pub rows: f64,
    /// Of what findings name that meet such a row the share that the row names, and the other way round, in the mean
    /// over rows: precision and recall.
    pub like_rows: Option<[f64; 2]>,
    /// Random anomalous points that meet the conditions of a finding with their symptom.
    pub explained: Option<f64>,
    /// Random healthy points that meet the conditions of a finding.
    pub accused: Option<f64>,
    /// Of random points that meet the conditions of a finding those that show its symptom, in the mean.
    pub own_inside: Option<f64>,
    /// Those that show any.
    pub any_inside: Option<f64>,
    /// Findings whose stated confidence holds for their own symptom, of those that state one.
    pub holds: Option<f64>,
    /// Findings that state one.
    pub stated: Option<f64>,
    /// Findings that are their workload and no more.
    pub pinned: Option<f64>,
}

impl QualityScore {
    /// Over these campaigns; `None` of none.
    pub fn of<'q>(campaigns: impl Iterator<Item = &'q Quality>) -> Option<Self> {
        let campaigns: Vec<&Quality> = campaigns.collect();
        let findings = || campaigns.iter().flat_map(|quality| quality.firsts());
        let variants = || campaigns.iter().flat_map(|quality| quality.variants());
        let sum = |of: fn(&Quality) -> u64| campaigns.iter().map(|quality| of(quality)).sum::<u64>() as f64;
        let broken = || findings().flat_map(|finding| &finding.broken).filter_map(Broken::is_necessary);
        let (all, stated) = (findings().count() as f64, findings().filter_map(Judgement::holds).count() as f64);
        let holding = findings().filter(|finding| finding.holds() == Some(true)).count() as f64;
        let is_pure = |(variant, first): &(&Judgement, &Judgement)| variant.weakness == first.weakness;
        let mut conditions: Vec<f64> = findings().map(|finding| finding.conditions as f64).collect();
        conditions.sort_by(f64::total_cmp);
        let each = campaigns.len() as f64;
        (!campaigns.is_empty()).then(|| Self {
            findings: all / each,
            variants: variants().count() as f64 / each,
            candidates: campaigns.iter().map(|quality| quality.candidates().count()).sum::<usize>() as f64 / each,
            for_each_limiting: mean(
                campaigns.iter().filter_map(|quality| {
                    quality.for_each(|finding| (finding.weakness.clone(), finding.traffic.clone()))
                }),
            ),
            for_each_part: mean(
                campaigns.iter().filter_map(|quality| quality.for_each(|finding| finding.weakness.clone())),
            ),
            lost: campaigns.iter().map(|quality| quality.lost()).sum::<f64>() / each,
            pure: share(variants().filter(is_pure).count() as f64, variants().count() as f64),
            conditions: (!conditions.is_empty()).then(|| [0.5, 0.95].map(|share| percentile(&conditions, share))),
            necessary: share(broken().filter(|is| *is).count() as f64, broken().count() as f64),
            rows: campaigns.iter().map(|quality| quality.rows().len()).sum::<usize>() as f64 / each,
            like_rows: like_rows(&campaigns),
            explained: share(sum(|quality| quality.explained), sum(|quality| quality.anomalous)),
            accused: share(sum(|quality| quality.accused), sum(|quality| quality.healthy)),
            own_inside: mean(findings().filter_map(Judgement::own_share)),
            any_inside: mean(findings().filter_map(Judgement::anomalous_share)),
            holds: share(holding, stated),
            stated: share(stated, all),
            pinned: share(findings().filter(|finding| finding.is_pinned).count() as f64, all),
        })
    }
}

/// Precision and recall, each row as much as any other.
fn like_rows(campaigns: &[&Quality]) -> Option<[f64; 2]> {
    let over_rows = |part: fn(&Likeness) -> Option<f64>| {
        let rows = campaigns.iter().flat_map(|quality| quality.rows().into_values());
        mean(rows.filter_map(|row| mean(row.into_iter().filter_map(part))))
    };
    let precision = over_rows(|one| share(one.both as f64, one.named as f64))?;
    Some([precision, over_rows(|one| share(one.both as f64, one.asked as f64))?])
}

fn share(count: f64, of: f64) -> Option<f64> {
    (of > 0.0).then(|| count / of)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    share(sum, count)
}

/// The value that this share of the sorted values does not exceed; there is one at least. Units: of `values`.
fn percentile(values: &[f64], share: f64) -> f64 {
    let at = (share * values.len() as f64).ceil() as usize;
    values[at.clamp(1, values.len()) - 1]
}
