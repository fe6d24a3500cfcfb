//! What a database knows of a workload: the findings that hold it, how it leaves them, and the nearest. No words.

use std::rc::Rc;

use kelpie_spaces::advice::{Missed, WayOut, missed, ways_out};
use kelpie_spaces::{Region, Space, Workload};
use kelpie_store::{CampaignId, FindingRecord, Store};

use crate::stored_campaign::{StoredCampaignError, space_of};

/// A finding with where it is kept.
#[derive(Debug)]
pub struct Kept {
    /// The campaign that made it.
    pub campaign: CampaignId,
    /// What that campaign searched for anomalies.
    pub subsystem: String,
    /// What it searched; its findings say nothing about other workloads.
    pub space: Rc<Space>,
    /// The finding.
    pub finding: FindingRecord,
}

impl Kept {
    fn holds(&self, workload: &Workload) -> bool {
        self.space.contains(workload) && self.finding.mfs.contains(workload)
    }
}

/// The findings of a campaign, or of all.
///
/// # Errors
/// The database cannot be read, there is no such campaign, or a campaign was stored with a space that is none.
pub fn kept(store: &mut Store, campaign: Option<CampaignId>) -> Result<Vec<Kept>, StoredCampaignError> {
    let campaigns = match campaign {
        Some(id) => vec![store.campaign(id)?],
        None => store.campaigns()?,
    };
    let mut kept = Vec::new();
    for campaign in campaigns {
        let space = Rc::new(space_of(&campaign)?);
        let with_campaign = |finding| Kept {
            campaign: campaign.id,
            subsystem: campaign.definition.subsystem.clone(),
            space: Rc::clone(&space),
            finding,
        };
        kept.extend(store.findings(campaign.id)?.into_iter().map(with_campaign));
    }
    Ok(kept)
}

/// A finding and how far a workload is from it.
#[derive(Debug)]
pub struct Placed<'k> {
    /// The finding.
    pub kept: &'k Kept,
    /// The conditions that the workload does not meet; none if it is inside.
    pub missed: Vec<Missed<'k>>,
    /// The changes that lead out of the region; none if the workload is outside.
    pub ways: Vec<WayOut>,
}

impl<'k> Placed<'k> {
    fn new(kept: &'k Kept, workload: &Workload, is_known: impl Fn(&Workload) -> bool) -> Self {
        let region = &kept.finding.mfs;
        let missed = missed(&kept.space, workload, region);
        let ways = if missed.is_empty() { ways_out(&kept.space, workload, region, is_known) } else { Vec::new() };
        Self { kept, missed, ways }
    }

    /// Conditions that are not met, then how far.
    fn distance(&self) -> (usize, usize) {
        (self.missed.len(), self.missed.iter().map(|missed| missed.steps).sum())
    }
}

/// What the findings say of one workload.
#[derive(Debug)]
pub struct Lookup<'k> {
    placed: Vec<Placed<'k>>,
    /// Findings of campaigns whose space does not hold the workload, which say nothing of it.
    pub elsewhere: usize,
}

impl<'k> Lookup<'k> {
    /// Looks a workload up among findings.
    pub fn new(kept: &'k [Kept], workload: &Workload) -> Self {
        let is_known = |changed: &Workload| kept.iter().any(|kept| kept.holds(changed));
        let (about, elsewhere): (Vec<&Kept>, Vec<&Kept>) = kept.iter().partition(|kept| kept.space.contains(workload));
        let mut placed: Vec<Placed<'_>> = about.into_iter().map(|kept| Placed::new(kept, workload, is_known)).collect();
        placed.sort_by_key(Placed::distance);
        Self { placed, elsewhere: elsewhere.len() }
    }

    /// How many findings say something of the workload.
    pub fn count(&self) -> usize {
        self.placed.len()
    }

    /// The findings whose regions hold the workload.
    pub fn inside(&self) -> &[Placed<'k>] {
        &self.placed[..self.split()]
    }

    /// The others, the nearest first.
    pub fn outside(&self) -> &[Placed<'k>] {
        &self.placed[self.split()..]
    }

    /// The cheapest change that leaves all findings at once.
    pub fn advice(&self) -> Option<&WayOut> {
        self.placed.iter().flat_map(|placed| &placed.ways).filter(|way| way.is_safe).min_by_key(|way| way.cost)
    }

    fn split(&self) -> usize {
        self.placed.partition_point(|placed| placed.missed.is_empty())
    }
}

/// The regions of every finding in the database, whatever subsystem it was made on; one without a condition would be
/// all.
///
/// # Errors
/// As [`kept`].
pub fn known_regions(store: &mut Store) -> Result<Vec<Region>, StoredCampaignError> {
    let regions = kept(store, None)?.into_iter().map(|kept| kept.space.in_whole_space(&kept.finding.mfs));
    Ok(regions.filter(|mfs| !mfs.conditions.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TINY_SPACE, finding, workload};

    fn kept() -> Vec<Kept> {
        let space = Rc::new(Space::from_yaml("tiny", TINY_SPACE).expect("a space"));
        let of = |number| Kept {
            campaign: CampaignId(number),
            subsystem: "sim:F".to_owned(),
            space: Rc::clone(&space),
            finding: finding(1, 1, workload(4, 4096)),
        };
        vec![of(1), of(2)]
    }

    #[test]
    fn a_workload_inside_is_told_how_to_leave_all_findings_at_once() {
        let kept = kept();
        let lookup = Lookup::new(&kept, &workload(4, 4096));
        assert_eq!((lookup.inside().len(), lookup.outside().len(), lookup.elsewhere), (2, 0, 0));
        let advice = lookup.advice().expect("fewer QPs lead out of both");
        assert!(kept.iter().all(|kept| !kept.holds(&advice.workload)));
    }

    #[test]
    fn a_workload_outside_is_told_what_it_misses() {
        let kept = kept();
        let lookup = Lookup::new(&kept, &workload(2, 4096));
        assert_eq!((lookup.inside().len(), lookup.count()), (0, 2));
        assert_eq!(lookup.outside()[0].missed.len(), 1);
        assert!(lookup.advice().is_none(), "there is nothing to leave");
    }

    #[test]
    fn findings_of_other_spaces_say_nothing() {
        let mut workload = workload(4, 4096);
        workload.flows[0].qps = 4096;
        let kept = kept();
        let lookup = Lookup::new(&kept, &workload);
        assert_eq!((lookup.count(), lookup.elsewhere), (0, 2));
    }
}
