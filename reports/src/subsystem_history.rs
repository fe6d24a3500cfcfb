//! What a database knows of subsystems: their findings, and every workload that was measured with a verdict.

use std::collections::BTreeMap;
use std::rc::Rc;

use kelpie_monitor::Verdict;
use kelpie_search::Purpose;
use kelpie_spaces::{Condition, Region, Space, Workload};
use kelpie_store::{Campaign, CampaignId, ExperimentOutcome, FindingRecord, Store};

use crate::stored_campaign::{StoredCampaignError, space_of};

/// A finding with where it is kept.
#[derive(Debug)]
pub struct StoredFinding {
    /// The campaign that made it.
    pub campaign: CampaignId,
    /// What that campaign searched for anomalies.
    pub subsystem: String,
    /// What it searched; its findings say nothing about other workloads.
    pub space: Rc<Space>,
    /// The finding.
    pub finding: FindingRecord,
}

impl StoredFinding {
    /// Whether the workload lies in the finding's region, and where its campaign searched.
    pub fn holds(&self, workload: &Workload) -> bool {
        self.space.contains(workload) && self.finding.mfs.contains(workload)
    }

    /// Its conditions that were measured to cure its workload when broken alone.
    pub fn cured(&self) -> Vec<Condition> {
        let cures = self.finding.evidence().map_or_else(Vec::new, |evidence| evidence.cures);
        cures.into_iter().filter(|cure| cure.cured == Some(true)).map(|cure| cure.condition).collect()
    }

    /// Whether most workloads that meet its conditions show its symptom.
    pub fn says_likely(&self) -> bool {
        self.finding.confidence > 0.5
    }
}

/// An experiment with a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredExperiment {
    /// Its campaign.
    pub campaign: CampaignId,
    /// Its number there.
    pub number: u64,
    /// The verdict.
    pub is_anomalous: bool,
    /// Whether all that measured the workload was aimed at a known anomaly.
    pub is_aimed: bool,
}

/// All that is known of one subsystem.
#[derive(Debug)]
pub struct SubsystemHistory {
    /// Its name.
    pub subsystem: String,
    /// Its model or pair file.
    pub source: String,
    /// The campaigns on it.
    pub campaigns: Vec<CampaignId>,
    /// The spaces that were searched on it, the latest last.
    pub spaces: Vec<Rc<Space>>,
    /// Its findings.
    pub findings: Vec<StoredFinding>,
    /// What was measured; of a workload that was measured more than once an anomalous experiment, if there is one.
    pub measured: BTreeMap<Workload, StoredExperiment>,
}

impl SubsystemHistory {
    /// Nothing is known of this subsystem.
    pub fn nothing(subsystem: &str) -> Self {
        Self {
            subsystem: subsystem.to_owned(),
            source: String::new(),
            campaigns: Vec::new(),
            spaces: Vec::new(),
            findings: Vec::new(),
            measured: BTreeMap::new(),
        }
    }

    fn remember(&mut self, workload: Workload, measured: StoredExperiment) {
        let known = self.measured.entry(workload).or_insert(measured);
        let is_aimed = known.is_aimed && measured.is_aimed;
        if measured.is_anomalous && !known.is_anomalous {
            *known = measured;
        }
        known.is_aimed = is_aimed;
    }
}

fn campaigns(store: &mut Store, campaign: Option<CampaignId>) -> Result<Vec<Campaign>, StoredCampaignError> {
    Ok(match campaign {
        Some(id) => vec![store.campaign(id)?],
        None => store.campaigns()?,
    })
}

fn findings_of(
    store: &mut Store,
    campaign: &Campaign,
    space: &Rc<Space>,
) -> Result<Vec<StoredFinding>, StoredCampaignError> {
    let kept = |finding| StoredFinding {
        campaign: campaign.id,
        subsystem: campaign.definition.subsystem.clone(),
        space: Rc::clone(space),
        finding,
    };
    Ok(store.findings(campaign.id)?.into_iter().map(kept).collect())
}

/// The findings of a campaign, or of all.
///
/// # Errors
/// The database cannot be read, there is no such campaign, or a campaign was stored with a space that is none.
pub fn findings(store: &mut Store, campaign: Option<CampaignId>) -> Result<Vec<StoredFinding>, StoredCampaignError> {
    let mut findings = Vec::new();
    for campaign in campaigns(store, campaign)? {
        let space = Rc::new(space_of(&campaign)?);
        findings.extend(findings_of(store, &campaign, &space)?);
    }
    Ok(findings)
}

/// What is known of each subsystem, or of those with this name or this source, from one campaign or from all.
///
/// Two models or pair files of one name are two subsystems.
///
/// # Errors
/// As [`findings`].
pub fn known(
    store: &mut Store,
    campaign: Option<CampaignId>,
    subsystem: Option<&str>,
    source: Option<&str>,
) -> Result<Vec<SubsystemHistory>, StoredCampaignError> {
    let mut all: BTreeMap<(String, String), SubsystemHistory> = BTreeMap::new();
    for campaign in campaigns(store, campaign)? {
        let name = campaign.definition.subsystem.clone();
        let is_other = |wanted: Option<&str>, own: &str| wanted.is_some_and(|wanted| wanted != own);
        if is_other(subsystem, &name) || is_other(source, &campaign.definition.subsystem_source) {
            continue;
        }
        let space = Rc::new(space_of(&campaign)?);
        let findings = findings_of(store, &campaign, &space)?;
        let source = campaign.definition.subsystem_source.clone();
        let nothing = || SubsystemHistory { source: source.clone(), ..SubsystemHistory::nothing(&name) };
        let known = all.entry((name.clone(), source.clone())).or_insert_with(nothing);
        known.campaigns.push(campaign.id);
        known.spaces.push(space);
        known.findings.extend(findings);
        store.experiments(campaign.id, |experiment| {
            let ExperimentOutcome::Measured { assessment, .. } = experiment.outcome else { return };
            let is_anomalous = match assessment.verdict {
                Verdict::Anomalous => true,
                Verdict::Healthy => false,
                Verdict::Inconclusive => return,
            };
            let is_aimed = experiment.purpose.asked().is_some_and(Purpose::is_aimed);
            let measured =
                StoredExperiment { campaign: campaign.id, number: experiment.number, is_anomalous, is_aimed };
            known.remember(experiment.workload, measured);
        })?;
    }
    Ok(all.into_values().collect())
}

/// The regions of every finding in the database, whatever subsystem it was made on; one without a condition would be
/// all.
///
/// # Errors
/// As [`findings`].
pub fn known_regions(store: &mut Store) -> Result<Vec<Region>, StoredCampaignError> {
    let known = findings(store, None)?.into_iter();
    let known = known.filter(|kept| !kept.finding.is_candidate() && kept.finding.variant_of().is_none());
    let regions = known.map(|kept| kept.space.in_whole_space(&kept.finding.mfs));
    Ok(regions.filter(|mfs| !mfs.conditions.is_empty()).collect())
}
