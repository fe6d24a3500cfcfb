//! The store's records as types: campaigns, experiments, findings. Their SQL lives in `store`.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use kelpie_monitor::{Assessment, Bounds, Measurement, Symptom, Verdict};
use kelpie_search::{Finding, FindingEvidence, REFINED};
use kelpie_spaces::{Feature, Region, Space, SpaceError, Workload};
use serde::{Deserialize, Serialize};

use crate::purpose::StoredPurpose;

/// A campaign's number in its database, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CampaignId(pub i64);

impl fmt::Display for CampaignId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CampaignId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(CampaignId)
    }
}

/// A qualification's number in its database, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct QualificationId(pub i64);

impl fmt::Display for QualificationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for QualificationId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(QualificationId)
    }
}

/// What one process at a time writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A campaign.
    Campaign(CampaignId),
    /// A qualification.
    Qualification(QualificationId),
}

impl Subject {
    /// What it is, in one word.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Subject::Campaign(_) => "campaign",
            Subject::Qualification(_) => "qualification",
        }
    }

    /// Its number.
    pub(crate) fn number(self) -> i64 {
        match self {
            Subject::Campaign(CampaignId(number)) | Subject::Qualification(QualificationId(number)) => number,
        }
    }
}

impl From<CampaignId> for Subject {
    fn from(id: CampaignId) -> Self {
        Subject::Campaign(id)
    }
}

impl From<QualificationId> for Subject {
    fn from(id: QualificationId) -> Self {
        Subject::Qualification(id)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.number())
    }
}

/// All that decides a campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignDefinition {
    /// The program that started it.
    pub kelpie_version: String,
    /// Name of the subsystem, such as `sim:F`.
    pub subsystem: String,
    /// Its whole model or pair file as YAML.
    pub subsystem_source: String,
    /// What the subsystem does at best.
    pub bounds: Bounds,
    /// Name of the space: of the catalog, or of a file.
    pub space: String,
    /// The space as YAML.
    pub space_source: String,
    /// Name of the algorithm.
    pub algorithm: String,
    /// Name of the signal set.
    pub signal: String,
    /// Seed of every random decision; at most `i64::MAX`.
    pub seed: u64,
    /// Every setting of the search, JSON.
    pub config: String,
    /// Experiments; `None` is no limit.
    pub budget: Option<u64>,
}

impl CampaignDefinition {
    /// The space that is searched.
    ///
    /// # Errors
    /// It was stored by a Kelpie whose spaces this one cannot read.
    pub fn space(&self) -> Result<Space, SpaceError> {
        Space::from_yaml(&self.space, &self.space_source)
    }

    /// Findings of this campaign as they hold for every workload: with the bounds of the space that was searched.
    ///
    /// # Errors
    /// As [`CampaignDefinition::space`].
    pub fn in_whole_space(&self, findings: Vec<FindingRecord>) -> Result<Vec<FindingRecord>, SpaceError> {
        let space = self.space()?;
        let whole = |finding: FindingRecord| FindingRecord { mfs: space.in_whole_space(&finding.mfs), ..finding };
        Ok(findings.into_iter().map(whole).collect())
    }
}

/// How far a campaign is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CampaignState {
    /// Some process runs it.
    Running,
    /// Begun, not finished, and no process runs it: it can be resumed.
    Stopped,
    /// It ran to its budget, or if it has none, until the `--time` was over that it was given last, or the search had
    /// nothing left to ask.
    Finished,
}

impl fmt::Display for CampaignState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CampaignState::Running => "running",
            CampaignState::Stopped => "stopped",
            CampaignState::Finished => "finished",
        })
    }
}

/// A stored campaign.
#[derive(Debug, Clone, PartialEq)]
pub struct Campaign {
    /// Its number.
    pub id: CampaignId,
    /// What decides it.
    pub definition: CampaignDefinition,
    /// How far it is.
    pub state: CampaignState,
    /// Experiments stored.
    pub experiments: u64,
    /// Workloads skipped because a finding already explains them.
    pub skipped: u64,
    /// Findings stored.
    pub findings: u64,
    /// Experiments under which a host failed each time.
    pub host_failures: u64,
}

impl Campaign {
    /// Why it has fewer experiments than it was to have, if so: what the others would show is not known.
    pub fn open_end(&self) -> Option<String> {
        let budget = self.definition.budget;
        let of = budget.map_or_else(String::new, |budget| format!(" of {budget}"));
        let s = if budget.unwrap_or(self.experiments) == 1 { "" } else { "s" };
        let done = format!("{}{of} experiment{s}", self.experiments);
        match self.state {
            CampaignState::Running => Some(format!("the campaign is running: {done} so far")),
            CampaignState::Stopped if budget.is_none_or(|budget| self.experiments < budget) => {
                Some(format!("the campaign stopped after {done}"))
            }
            CampaignState::Stopped | CampaignState::Finished => None,
        }
    }
}

/// What came of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub enum ExperimentOutcome {
    /// It ran.
    Measured {
        /// What was seen.
        measurement: Measurement,
        /// What it means.
        assessment: Assessment,
        /// How often it was measured until the verdict was conclusive or given up.
        attempts: u32,
    },
    /// The subsystem cannot express the workload; nothing was measured.
    Unsupported {
        /// What is missing.
        reason: String,
    },
}

/// One experiment, without what a clock says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// 1, 2, 3, … within the campaign.
    pub number: u64,
    /// What it was for.
    pub purpose: StoredPurpose,
    /// Workloads skipped since the experiment before.
    pub skipped_before: u64,
    /// What was run.
    pub workload: Workload,
    /// What came of it.
    pub outcome: ExperimentOutcome,
}

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Measured, with this verdict.
    Judged(Verdict),
    /// The subsystem cannot express the workload.
    Unsupported,
}

/// When an experiment ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExperimentClock {
    /// Start. Units: milliseconds since 1970.
    pub started_unix_ms: i64,
    /// Duration. Units: seconds.
    pub duration_seconds: f64,
}

/// What a clock says now; before 1970 it says 0. Units: milliseconds since 1970.
pub fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A finding: a symptom, the conditions under which it shows, and the evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct FindingRecord {
    /// 1, 2, 3, … within the campaign.
    pub number: u64,
    /// What is seen.
    pub symptom: Symptom,
    /// Number of the experiment that first showed it.
    pub found_at: u64,
    /// Experiments that the reduction took.
    pub experiments_for_mfs: u64,
    /// How sure the validation is, 0 to 1.
    pub confidence: f64,
    /// The minimal feature set.
    pub mfs: Region,
    /// A workload that shows it, as simple as the search could make it.
    pub workload: Workload,
    /// What the search kept of how it came to know, JSON.
    pub evidence: serde_json::Value,
}

impl FindingRecord {
    /// Whether both hold the same workloads by the same symptom: two weaknesses may show in one region.
    pub fn has_conditions_of(&self, other: &FindingRecord) -> bool {
        self.symptom == other.symptom && self.mfs == other.mfs
    }

    /// A finding of a search, as the store keeps it.
    pub fn new(number: u64, finding: &Finding) -> Self {
        Self {
            number,
            symptom: finding.symptom,
            found_at: finding.found_at,
            experiments_for_mfs: finding.experiments_for_mfs,
            confidence: finding.confidence,
            mfs: finding.mfs.clone(),
            workload: finding.workload.clone(),
            evidence: serde_json::to_value(&finding.evidence).expect("maps of evidence have text as keys"),
        }
    }

    /// What its region rests on; `None` if another version of Kelpie, or a recipe, kept something else.
    pub fn evidence(&self) -> Option<FindingEvidence> {
        FindingEvidence::deserialize(&self.evidence).ok()
    }

    /// Whether its conditions are still to be measured.
    pub fn is_candidate(&self) -> bool {
        self.evidence["is_candidate"] == true
    }

    /// The finding of which it is a variant, by its number.
    pub fn variant_of(&self) -> Option<u64> {
        self.evidence["variant_of"].as_u64()
    }

    /// Its region for readers, with the conditions in front that its workload was measured to need.
    pub fn region_by_need(&self) -> Region {
        let cures = self.evidence().map_or_else(Vec::new, |evidence| evidence.cures);
        let needed: Vec<Feature> =
            cures.iter().filter(|cure| cure.cured == Some(true)).map(|cure| cure.condition.feature).collect();
        let mut region = self.mfs.clone();
        region.conditions.sort_by_key(|condition| !needed.contains(&condition.feature));
        region
    }

    /// Whether so much is known of its region that being inside is enough.
    pub fn is_refined(&self) -> bool {
        self.confidence >= REFINED
    }

    /// Whether its region was pinned around its workload rather than found, whatever else was kept.
    pub fn is_pinned(&self) -> bool {
        self.evidence["narrowed"] == true
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Condition, Test};

    use crate::testing::{finding, workload};

    use super::*;

    #[test]
    fn what_an_anomaly_needs_stands_in_front() {
        let mut found = finding(1, 1, workload(3, 1024));
        let transport = Condition { feature: Feature::QpType, test: Test::In(vec!["RC".to_owned()]) };
        found.mfs.set(transport.clone());
        let [first, second] = &found.mfs.conditions[..] else { panic!("{:?}", found.mfs) };
        assert_eq!((first, second.feature), (&transport, Feature::Qps));
        let features: Vec<Feature> = found.region_by_need().conditions.iter().map(|one| one.feature).collect();
        assert_eq!(features, [Feature::Qps, Feature::QpType], "QPs were measured to be needed");
        found.evidence = serde_json::Value::Null;
        assert_eq!(found.region_by_need(), found.mfs, "nothing was measured");
    }
}
