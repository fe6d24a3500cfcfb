//! A qualification: the units of a plan and those that tell more, in the store as soon as they are over, and the
//! verdict on each node. One that was killed goes on where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kelpie_criteria::{
    Criteria, FleetJudge, FleetVerdict, HostFailure, LearnError, LearnOptions, Outcome, Unit, UnitKey,
};
use kelpie_store::{QualificationId, Store};
use serde::{Deserialize, Serialize};

use crate::campaign_check::CampaignCheck;
use crate::doctor;
use crate::inventory::{Inventory, InventoryHost};
use crate::plan::{DOCTOR, FleetMap, Plan, PlannedUnit};
use crate::ring;
use crate::scan::{Journal, Scan, ScanProgress};
use crate::traffic::SampleTimes;

/// Times that units are added that tell more. Source: our choice: with partners, once more, and what is left.
const MOST_QUESTIONS: usize = 4;
/// The version of the document.
pub(crate) const VERSION: u32 = 1;

/// What a qualification was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QualificationDocument {
    /// The version of this document.
    pub version: u32,
    /// The hosts.
    pub inventory: Inventory,
    /// The plan.
    pub plan: Plan,
    /// Criteria that were given; those of other metrics are learnt.
    pub criteria: Criteria,
    /// How they are learnt.
    pub options: LearnOptions,
}

impl QualificationDocument {
    /// One of this version.
    pub fn new(inventory: Inventory, plan: Plan, criteria: Criteria, options: LearnOptions) -> Self {
        let mut criteria = criteria;
        let doctor = plan.has_doctor().then(|| DOCTOR.to_owned());
        for name in doctor.into_iter().chain(plan.campaigns.iter().map(|campaign| campaign.name.clone())) {
            criteria.metrics.entry(name).or_insert_with(doctor::criterion);
        }
        Self { version: VERSION, inventory, plan, criteria, options }
    }
}

/// What is alike between healthy hosts by metric, where it is not as alike as throughput. Source: our choice: latencies
/// vary with the turn of the packet, counts of both ends with what is still on its way, and shares of an incast with
/// congestion control.
pub const ALPHAS: [(&str, f64); 5] = [
    ("pair_latency", 0.6),
    ("ring_latency", 0.6),
    ("pair_agreement", 0.5),
    ("ring_agreement", 0.5),
    ("incast_3_fairness", 0.5),
];

/// Who hears how it goes, and says whether to go on.
pub trait Witness {
    /// How far it is.
    fn progress(&mut self, progress: ScanProgress);

    /// Whether nothing more is to be begun.
    fn stops(&mut self) -> bool;
}

/// A qualification that is written.
#[derive(Debug)]
pub struct Qualification {
    /// Its number.
    pub id: QualificationId,
    store: Store,
    /// What it was asked.
    pub document: QualificationDocument,
    units: Vec<Unit>,
}

/// What came of running it.
#[derive(Debug)]
pub struct Qualified {
    /// What is said of the nodes.
    pub verdict: FleetVerdict,
    /// Whether all was done.
    pub is_whole: bool,
    /// All units, in the order in which they were over.
    pub units: Vec<Unit>,
    /// Where all of it is.
    pub store: Store,
}

/// Keeps units in the store.
struct StoreJournal<'q> {
    id: QualificationId,
    map: &'q FleetMap<'q>,
    store: &'q mut Store,
    units: &'q mut Vec<Unit>,
    witness: &'q mut dyn Witness,
}

impl Journal for StoreJournal<'_> {
    type Error = anyhow::Error;

    fn keep(&mut self, units: Vec<Unit>) -> anyhow::Result<()> {
        let units: Vec<Unit> = units.into_iter().map(|unit| ring::named(self.map, unit)).collect();
        let lines: Vec<String> = units.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        // The store waits for its disk, which no connection need wait for.
        tokio::task::block_in_place(|| self.store.add_units(self.id, self.units.len() as u64 + 1, &lines))?;
        self.units.extend(units);
        Ok(())
    }

    fn progress(&mut self, progress: ScanProgress) {
        self.witness.progress(progress);
    }

    fn stops(&mut self) -> bool {
        self.witness.stops()
    }
}

impl Qualification {
    /// Stores a new one.
    ///
    /// # Errors
    /// There is no such plan, or the store cannot be written.
    pub fn begin(mut store: Store, document: QualificationDocument) -> anyhow::Result<Self> {
        FleetMap::new(&document.inventory, &document.plan).units()?;
        if !(document.options.alpha > 0.0 && document.options.alpha < 1.0) {
            // Found at the end, a run that cannot be judged would be stored.
            return Err(LearnError::Alpha(document.options.alpha).into());
        }
        let id = store.begin_qualification(&serde_json::to_string(&document)?)?;
        Ok(Self { id, store, document, units: Vec::new() })
    }

    /// Goes on with a stored one; the latest if none is named.
    ///
    /// # Errors
    /// There is none, somebody else writes it, or it is of another version.
    pub fn resume(mut store: Store, id: Option<QualificationId>) -> anyhow::Result<Self> {
        let id = match id {
            Some(id) => id,
            None => store.qualifications()?.last().map(|last| last.id).context("no qualification yet")?,
        };
        store.open_qualification(id)?;
        let (document, units) = read(&mut store, id)?;
        Ok(Self { id, store, document, units })
    }

    /// Does what is left of it, and judges.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn run(mut self, times: SampleTimes, at_once: usize, witness: &mut dyn Witness) -> anyhow::Result<Qualified> {
        let document = self.document.clone();
        let map = FleetMap::new(&document.inventory, &document.plan);
        let planned = map.units()?;
        let keys = keys(&document, &planned);
        let runtime = kelpie_agent::with_one_worker()?;
        kelpie_agent::most_files();
        if document.plan.has_doctor() {
            let (store, units) = (&mut self.store, &mut self.units);
            let hosts = {
                let done = done(units);
                document.inventory.hosts.iter().filter(|host| !done.contains(&doctor::key(host))).collect()
            };
            let mut journal = StoreJournal { id: self.id, map: &map, store, units, witness };
            runtime.block_on(doctor::run(&document.inventory, hosts, at_once, &mut journal))?;
        }
        let mut scan = Scan::new(&document.inventory, &document.plan, times, at_once);
        let mut next: Vec<PlannedUnit> = {
            let done = done(&self.units);
            planned.iter().filter(|unit| !done.contains(&unit.key)).cloned().collect()
        };
        let mut is_stopped = false;
        for _ in 0..=MOST_QUESTIONS {
            let (store, units) = (&mut self.store, &mut self.units);
            let mut journal = StoreJournal { id: self.id, map: &map, store, units, witness };
            runtime.block_on(scan.run(next, &mut journal))?;
            is_stopped = witness.stops();
            let questions = questions(&document, &self.units).map_err(by_floor)?;
            next = questions.iter().filter_map(|key| map.of_key(key)).collect();
            next.extend(ring::again(&map, &self.units));
            if is_stopped || next.is_empty() {
                break;
            }
        }
        // Campaigns have connections of their own.
        drop(scan);
        for check in &document.plan.campaigns {
            if is_stopped {
                break;
            }
            let units;
            (units, is_stopped) = self.campaign(check, &document.inventory, witness);
            let (store, known) = (&mut self.store, &mut self.units);
            let mut journal = StoreJournal { id: self.id, map: &map, store, units: known, witness };
            runtime.block_on(async { journal.keep(units) })?;
        }
        // An agent that does not answer is not waited for.
        runtime.shutdown_background();
        let verdict = verdict_of(&document, &keys, &self.units).map_err(by_floor)?;
        // Who serves somebody else now may be asked later.
        let done = done(&self.units);
        let is_whole = !is_stopped && keys.iter().all(|key| done.contains(key));
        if is_whole {
            self.store.end_qualification(self.id, &serde_json::to_string(&verdict)?)?;
        }
        Ok(Qualified { verdict, is_whole, units: self.units, store: self.store })
    }
}

impl Qualification {
    /// The units of a campaign that are not done yet, and whether it was stopped.
    fn campaign(&self, check: &CampaignCheck, inventory: &Inventory, witness: &mut dyn Witness) -> (Vec<Unit>, bool) {
        let done = done(&self.units);
        if inventory.hosts.iter().all(|host| done.contains(&check.key(&host.name))) {
            return (Vec::new(), false);
        }
        let gone = ring::gone(&self.units);
        let (lost, there): (Vec<_>, Vec<_>) =
            inventory.hosts.iter().cloned().partition(|host| gone.contains(host.name.as_str()));
        let stop = AtomicBool::new(false);
        let there = Inventory { hosts: there, ..inventory.clone() };
        let mut units = thread::scope(|scope| {
            let running = scope.spawn(|| check.units(self.store.database(), &there, &stop, &|_| ()));
            while !running.is_finished() {
                if witness.stops() {
                    stop.store(true, Ordering::Relaxed);
                }
                thread::sleep(LOOK);
            }
            running.join().expect("a campaign does not panic")
        });
        let is_stopped = units.is_empty() && !there.hosts.is_empty();
        let skipped = |host: InventoryHost| Unit {
            key: check.key(&host.name),
            outcome: Outcome::Skipped(HostFailure { host: host.name, reason: "it failed before".to_owned() }),
            seconds: 0.0,
        };
        units.extend(lost.into_iter().filter(|_| !is_stopped).map(skipped));
        (units, is_stopped)
    }
}

/// How often it is looked whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What the store has of a qualification.
///
/// # Errors
/// There is none, or it is of another version.
pub fn read(store: &mut Store, id: QualificationId) -> anyhow::Result<(QualificationDocument, Vec<Unit>)> {
    let stored = store.qualification(id)?.with_context(|| format!("there is no qualification {id}"))?;
    let version = serde_json::from_str::<VersionOnly>(&stored.document)?.version;
    if version != VERSION {
        bail!("qualification {id} is of version {version}, this kelpie reads {VERSION}: use the kelpie that began it");
    }
    let document = serde_json::from_str(&stored.document)?;
    let (mut units, mut wrong) = (Vec::new(), None);
    store.units(id, 0, |number, line| match serde_json::from_str(line) {
        Ok(unit) => {
            units.push(unit);
            ControlFlow::Continue(())
        }
        Err(error) => {
            wrong = Some(anyhow::Error::new(error).context(format!("unit {number} of qualification {id}")));
            ControlFlow::Break(())
        }
    })?;
    wrong.map_or(Ok((document, units)), Err)
}

#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// What units say of the nodes of a qualification, which may not have ended: a node some of whose units are not done is
/// not well yet.
///
/// # Errors
/// All nodes are below a floor, an option breaks a rule, or a check is unknown.
pub fn verdict_so_far(document: &QualificationDocument, units: &[Unit]) -> anyhow::Result<FleetVerdict> {
    let planned = FleetMap::new(&document.inventory, &document.plan).units()?;
    verdict_of(document, &keys(document, &planned), units).map_err(by_floor)
}

/// What was measured is not lost with a floor that nothing reaches.
fn by_floor(error: LearnError) -> anyhow::Error {
    match &error {
        LearnError::BelowFloor { metric, .. } => anyhow::anyhow!(
            "{error}: `kelpie qualify show --floor {metric}=VALUE` judges what was measured by another one"
        ),
        _ => error.into(),
    }
}

/// All units that were planned, those without traffic first.
fn keys(document: &QualificationDocument, planned: &[PlannedUnit]) -> Vec<UnitKey> {
    let examined = document.inventory.hosts.iter().filter(|_| document.plan.has_doctor()).map(doctor::key);
    let hosts = &document.inventory.hosts;
    let of_campaigns = document.plan.campaigns.iter().flat_map(|check| hosts.iter().map(|host| check.key(&host.name)));
    examined.chain(planned.iter().map(|unit| unit.key.clone())).chain(of_campaigns).collect()
}

fn verdict_of(
    document: &QualificationDocument,
    planned: &[UnitKey],
    units: &[Unit],
) -> Result<FleetVerdict, LearnError> {
    let (hosts, units) = (names(document), &doctor::last(&document.plan, units)[..]);
    let mut verdict = FleetJudge::new(&hosts, units, &document.criteria, &document.options)?.verdict();
    for (host, count) in lacking(planned, units) {
        verdict.lacks(&host, count, "the run ended before");
    }
    Ok(verdict)
}

fn questions(document: &QualificationDocument, units: &[Unit]) -> Result<Vec<UnitKey>, LearnError> {
    let hosts = names(document);
    Ok(FleetJudge::new(&hosts, units, &document.criteria, &document.options)?.questions())
}

fn names(document: &QualificationDocument) -> Vec<String> {
    document.inventory.hosts.iter().map(|host| host.name.clone()).collect()
}

/// The units that are not to be done again.
fn done(units: &[Unit]) -> BTreeSet<&UnitKey> {
    units.iter().filter(|unit| !unit.outcome.is_not_asked()).map(|unit| &unit.key).collect()
}

/// Units of each host that were planned and not done.
fn lacking(planned: &[UnitKey], units: &[Unit]) -> BTreeMap<String, usize> {
    let done: BTreeSet<&UnitKey> = units.iter().map(|unit| &unit.key).collect();
    let mut lacking = BTreeMap::new();
    for key in planned.iter().filter(|key| !done.contains(key)) {
        for host in &key.hosts {
            *lacking.entry(host.clone()).or_default() += 1;
        }
    }
    lacking
}
