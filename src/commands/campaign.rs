//! `kelpie campaign`: begin, go on, list, show. The campaign itself is in `kelpie-campaign`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kelpie_campaign::document::{self, CampaignContents, Wanted};
use kelpie_campaign::text as findings_text;
use kelpie_campaign::{CampaignLimits, CampaignParts, StopReason};
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_fleet::campaigns::{self, PairsSearch};
use kelpie_fleet::inventory::Inventory;
use kelpie_monitor::Bounds;
use kelpie_reports::explained::{self, Explained};
use kelpie_reports::gate::{Gate, Ruling};
use kelpie_reports::identity;
use kelpie_reports::recipe::IMPORT;
use kelpie_reports::subsystem_history::known_regions;
use kelpie_reports::times;
use kelpie_search::Config;
use kelpie_spaces::Space;
use kelpie_store::{
    Campaign, CampaignClock, CampaignDefinition, CampaignId, CampaignState, Label, Store, StoreError, WriterLock,
};
use kelpie_text::clean_json;
use serde_json::json;

use crate::args::{Common, DEFAULT_BUDGET, DatabaseArgs};
use crate::campaigns::{chosen, latest, next_step, resume_command};
use crate::cli::{self, CampaignOrFinding, ResumeArgs, RunArgs, ShowArgs};
use crate::exit;
use crate::gate;
use crate::inputs;
use crate::output::{Table, note, plural, print, print_json, print_prose};
use crate::progress::ProgressDisplay;
use crate::stop;

/// Begins a campaign.
pub fn run(args: &RunArgs, common: Common) -> anyhow::Result<ExitCode> {
    let space = inputs::read_space(&args.space)?;
    if let Some(inventory) = campaigns::inventory_named(&args.subsystem.subsystem)? {
        return run_pairs(&inventory, &space, args, common);
    }
    let gate = args.gate.read()?;
    let mut opened = args.subsystem.open()?;
    let seed = common.seed_or_default();
    let budget = budget(args.limits);
    let bounds = opened.subsystem().bounds();
    let database = args.database.database()?;
    let mut store = Store::create(&database)?;
    let known = if args.seed_findings { known_regions(&mut store)? } else { Vec::new() };
    let reduce_host_failures = args.reduce_host_failures;
    let config = Config { known, reduce_host_failures, ..Config::new(args.algorithm, args.signal, seed) };
    let definition = CampaignDefinition {
        kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
        subsystem: args.subsystem.subsystem.clone(),
        subsystem_source: opened.source(),
        bounds,
        space: args.space.clone(),
        space_source: space.to_yaml(),
        algorithm: args.algorithm.to_string(),
        signal: args.signal.to_string(),
        seed,
        config: serde_json::to_string(&config)?,
        budget,
    };
    let mut checks = opened.checks();
    if args.paths {
        checks.extend(opened.path_checks(&note)?);
    }
    let (id, lock) = store.begin_campaign(&definition, &checks)?;
    if let Some(label) = args.label.label() {
        store.put_label(id, &label)?;
    }
    let campaign_run = CampaignRun { id, space, config, bounds: definition.bounds, budget, limits: args.limits };
    note(&format!(
        "campaign {id}: {} over {}, {}, seed {seed}, {}{}\ndatabase {}",
        definition.subsystem,
        definition.space,
        definition.algorithm,
        campaign_run.end_in_words(),
        campaign_run.known_in_words(),
        database
    ));
    campaign_run.run(
        lock,
        &mut store,
        &mut opened,
        &EndDisplay { json: common.json, gate: args.gate.gate.then_some(gate) },
    )
}

fn budget(limits: cli::LimitArgs) -> Option<u64> {
    if limits.time.is_some() { limits.budget } else { limits.budget.or(Some(DEFAULT_BUDGET)) }
}

/// Runs a campaign on each pair of an inventory.
fn run_pairs(inventory: &Inventory, space: &Space, args: &RunArgs, common: Common) -> anyhow::Result<ExitCode> {
    if args.gate.gate || args.seed_findings || args.paths || args.label.label().is_some() {
        bail!("--gate, --seed-findings, --paths, --name and --note are of the campaign of one pair: leave them out");
    }
    let (pairs, left) = campaigns::pairs(inventory);
    if pairs.is_empty() {
        bail!("the inventory has no two hosts with a NIC of the same rail");
    }
    if let Some(host) = left {
        note(&format!("{host} has no partner, and is not measured"));
    }
    let stop = stop::on_signals("stopping after these experiments; interrupt again to stop now")?;
    let limits = CampaignLimits {
        budget: budget(args.limits),
        deadline: args.limits.time.map(|time| Instant::now() + time),
        host_patience: args.limits.host_patience,
        stop: &stop,
    };
    let search = PairsSearch {
        space: (space, &args.space),
        algorithm: args.algorithm,
        signal: args.signal,
        seed: common.seed_or_default(),
        reduce_host_failures: args.reduce_host_failures,
        limits,
    };
    let database = args.database.database()?;
    drop(Store::create(&database)?);
    let found = campaigns::run(&database, pairs, &search, &note);
    if common.json {
        print_json(&found)?;
    } else {
        print(&found.text())?;
    }
    note(&format!("database {database}"));
    Ok(if found.is_whole() { exit::HEALTHY } else { exit::failed() })
}

/// Goes on with a campaign.
pub fn resume(args: &ResumeArgs, common: Common) -> anyhow::Result<ExitCode> {
    if common.seed.is_some() {
        bail!("--seed cannot change while a campaign is resumed: leave it out, or begin a new one with `campaign run`");
    }
    let gate = args.gate.read()?;
    let database = args.database.database()?;
    // By somebody who cannot write: what is damaged stays as it is.
    let mut reader = Store::open_to_read(&database)?;
    let id = match args.id {
        Some(id) => id,
        None => latest(&mut reader, |campaign| campaign.state == CampaignState::Stopped)?.context(
            "no campaign was stopped; `kelpie campaign list` shows all, and a finished one is resumed by its number",
        )?,
    };
    reader.verify(id)?;
    drop(reader);
    let mut store = Store::open_to_write(&database)?;
    let lock = store.lock_campaign(id)?;
    // Read again: whoever held the lock may have gone on meanwhile.
    let campaign = store.campaign(id)?;
    if campaign.definition.algorithm == IMPORT {
        bail!("campaign {id} holds an imported finding, and no search to go on with");
    }
    let budget = budget_to_resume(&campaign, args.limits)?;
    let definition = campaign.definition;
    let space = definition.space()?;
    let config = serde_json::from_str(&definition.config)
        .with_context(|| format!("campaign {id} was begun by Kelpie {}; its settings", definition.kelpie_version))?;
    let mut opened = OpenedSubsystem::reopen(&definition.subsystem, &definition.subsystem_source, definition.bounds)?;
    let campaign_run = CampaignRun { id, space, config, bounds: definition.bounds, budget, limits: args.limits };
    note(&format!(
        "campaign {id}: {} goes on after {}, seed {}, {}\ndatabase {}",
        definition.subsystem,
        plural(campaign.experiments, "experiment"),
        definition.seed,
        campaign_run.end_in_words(),
        database
    ));
    campaign_run.run(
        lock,
        &mut store,
        &mut opened,
        &EndDisplay { json: common.json, gate: args.gate.gate.then_some(gate) },
    )
}

fn budget_to_resume(campaign: &Campaign, limits: cli::LimitArgs) -> anyhow::Result<Option<u64>> {
    let (id, done) = (campaign.id, campaign.experiments);
    match (limits.budget, campaign.definition.budget) {
        (Some(budget), _) if budget < done => {
            bail!("campaign {id} already has {done} experiments, and --budget counts those too")
        }
        (Some(budget), _) => Ok(Some(budget)),
        (None, Some(_)) if campaign.state == CampaignState::Finished => {
            bail!("campaign {id} is finished with {done} experiments; --budget N above that extends it")
        }
        (None, None) if limits.time.is_none() => {
            bail!("campaign {id} has no budget; limit it with --time T or --budget N")
        }
        (None, budget) => Ok(budget),
    }
}

/// What a gate says of a campaign that this process ran.
fn ruling(gate: &Gate, store: &mut Store, campaign: &Campaign) -> anyhow::Result<Ruling> {
    let (findings, anomalies) = explained::read(store, campaign.id)?;
    Ok(gate.rule(&Explained::new(&findings, &anomalies), campaign, store.has_verdict(campaign.id)?))
}

/// How a campaign's end is shown.
struct EndDisplay {
    json: bool,
    /// If somebody asked for it.
    gate: Option<Gate>,
}

/// A campaign that this process runs.
struct CampaignRun {
    id: CampaignId,
    space: Space,
    config: Config,
    bounds: Bounds,
    budget: Option<u64>,
    limits: cli::LimitArgs,
}

impl CampaignRun {
    fn known_in_words(&self) -> String {
        match self.config.known.len() as u64 {
            0 => String::new(),
            known => format!(", {} known beforehand", plural(known, "finding")),
        }
    }

    fn end_in_words(&self) -> String {
        let budget = self.budget.map(|budget| plural(budget, "experiment"));
        let time = self.limits.time.map(|time| plural(time.as_secs(), "second"));
        [budget, time].into_iter().flatten().collect::<Vec<_>>().join(" or ")
    }

    fn run(
        &self,
        lock: WriterLock,
        store: &mut Store,
        opened: &mut OpenedSubsystem,
        shown: &EndDisplay,
    ) -> anyhow::Result<ExitCode> {
        let start = Instant::now();
        let stored = store.campaign(self.id)?.experiments;
        let stop = stop::on_signals("stopping after this experiment; interrupt again to stop now")?;
        let deadline = self.limits.time.map(|time| start + time);
        let mut progress = ProgressDisplay::of_campaign(self.budget, deadline);
        let limits =
            CampaignLimits { budget: self.budget, deadline, host_patience: self.limits.host_patience, stop: &stop };
        let parts = CampaignParts {
            store: &mut *store,
            subsystem: opened.subsystem(),
            bounds: self.bounds,
            limits,
            progress: &mut progress,
        };
        let end = kelpie_campaign::run(self.id, &self.space, &self.config, parts);
        progress.close();
        drop(lock);
        if let StopReason::Failed(error) = end {
            let saved = error.chain().find_map(|cause| cause.downcast_ref().and_then(StoreError::saved));
            let command = match saved {
                // The campaign is not in what lies at the old place.
                Some(saved) => resume_command(&saved, self.id, ""),
                None => self.command_to_go_on(store, false, start),
            };
            return Err(error.context(format!("campaign {} stopped; go on with `{command}`", self.id)));
        }
        let was_interrupted = matches!(end, StopReason::Interrupted);
        let campaign = store.campaign(self.id)?;
        let ruling = match &shown.gate {
            Some(gate) => Some(ruling(gate, store, &self.as_asked(campaign.clone(), &end))?),
            None => None,
        };
        if shown.json {
            print_json(&document::with_ruling(store, self.id, ruling.clone())?)?;
        } else {
            let database = inputs::db_argument(store.database());
            print_prose(&findings_text::campaign(store, self.id, Wanted::default(), &database)?)?;
        }
        note(&format!("database {}", store.database()));
        let is_finished = matches!(end, StopReason::Finished);
        let is_no_further = stored > 0 && campaign.experiments == stored;
        // Who repeats it without an eye on it has to learn that it stands still.
        let is_standing_still = matches!(end, StopReason::Time) && is_no_further;
        if !is_finished {
            let why = match end {
                StopReason::Time if is_no_further => "the time was over before a new experiment; give it more",
                StopReason::Time => "the time is over",
                _ => "stopped",
            };
            let is_time_over = matches!(end, StopReason::Time);
            note(&format!("{why}; go on with `{}`", self.command_to_go_on(store, is_time_over, start)));
        }
        Ok(match ruling {
            Some(ruling) => {
                let next = is_finished.then(|| next_step(&campaign, store.database())).flatten();
                gate::exit_of(&ruling, next.as_deref())
            }
            None if was_interrupted || is_standing_still => exit::failed(),
            None => exit::HEALTHY,
        })
    }

    /// A campaign as far as this process was to bring it: one that is finished may be so with an earlier budget.
    fn as_asked(&self, mut campaign: Campaign, end: &StopReason) -> Campaign {
        if matches!(end, StopReason::Interrupted) || (matches!(end, StopReason::Time) && self.budget.is_some()) {
            campaign.state = CampaignState::Stopped;
            campaign.definition.budget = self.budget;
        }
        campaign
    }

    /// What to give as limits to go on is what the store does not know: a new budget, or without one the time that is
    /// left, or as much again.
    fn command_to_go_on(&self, store: &mut Store, is_time_over: bool, start: Instant) -> String {
        let is_stored = |campaign: Campaign| campaign.definition.budget == self.budget;
        let limits = match (self.budget, self.limits.time) {
            (Some(budget), _) if !store.campaign(self.id).is_ok_and(is_stored) => format!(" --budget {budget}"),
            (None, Some(time)) => {
                let left = time.saturating_sub(start.elapsed()).max(Duration::from_secs(1));
                let time = if is_time_over { time } else { left };
                format!(" --time {}s", time.as_secs())
            }
            _ => String::new(),
        };
        resume_command(store.database(), self.id, &limits)
    }
}

/// Shows a campaign.
pub fn show(args: &ShowArgs, common: Common) -> anyhow::Result<ExitCode> {
    if args.experiments && !common.json {
        bail!("--experiments prints JSON only; add --json");
    }
    let database = args.database.database()?;
    let mut store = Store::open_to_read(&database)?;
    let id = match args.id {
        Some(CampaignOrFinding::Finding(id, number)) => {
            return show_finding(&mut store, id, number, common);
        }
        Some(CampaignOrFinding::Campaign(id)) => id,
        None => chosen(&mut store, None)?,
    };
    let wanted = Wanted { symptom: args.symptom, top: args.top.map(|top| top as usize), all: args.all };
    match (common.json, args.experiments) {
        (_, true) => print_with_experiments(&mut store, id, wanted)?,
        (true, false) => print_json(&document::with_clock(&mut store, id, wanted)?)?,
        (false, false) => {
            let database = inputs::db_argument(store.database());
            print_prose(&findings_text::campaign(&mut store, id, wanted, &database)?)?;
        }
    }
    Ok(exit::HEALTHY)
}

fn show_finding(store: &mut Store, id: CampaignId, number: u64, common: Common) -> anyhow::Result<ExitCode> {
    if common.json {
        let read = CampaignContents::of(store, id)?;
        let mut limiter = read.limiter()?;
        print_json(&read.document(read.weighed(number)?, &read.explained(), &mut limiter))?;
    } else {
        let database = inputs::db_argument(store.database());
        print_prose(&findings_text::finding(store, id, number, &database)?)?;
    }
    Ok(exit::HEALTHY)
}

/// Prints the document with every experiment, one at a time: a campaign need not fit into memory.
fn print_with_experiments(store: &mut Store, id: CampaignId, wanted: Wanted) -> anyhow::Result<()> {
    let most = store.campaign(id)?.experiments;
    let document = serde_json::to_string_pretty(&document::with_clock(store, id, wanted)?)?;
    let head = document.strip_suffix("\n}").context("an object with something in it")?;
    print(&clean_json(format!("{head},\n  \"log\": [")))?;
    let (mut separator, mut outcome) = ("\n", Ok(()));
    store.experiments(id, |experiment| {
        // One that runs may have gone on meanwhile.
        if experiment.number <= most && outcome.is_ok() {
            outcome = serde_json::to_string_pretty(&document::entry(&experiment))
                .map_err(anyhow::Error::from)
                .and_then(|text| print(&clean_json(format!("{separator}    {}", text.replace('\n', "\n    ")))));
            separator = ",\n";
        }
    })?;
    outcome?;
    print(if separator == "\n" { "]\n}\n" } else { "\n  ]\n}\n" })
}

/// Lists the campaigns of a database.
pub fn list(args: &DatabaseArgs, common: Common) -> anyhow::Result<ExitCode> {
    let database = args.database()?;
    let mut store = Store::open_to_read(&database)?;
    let campaigns = store.campaigns()?;
    let mut rows = Vec::new();
    for campaign in campaigns {
        rows.push((store.label(campaign.id)?, store.clock(campaign.id)?, campaign));
    }
    if common.json {
        let row = |(label, clock, campaign): &(Label, CampaignClock, Campaign)| {
            let definition = &campaign.definition;
            json!({
                "campaign": campaign.id, "name": label.name, "note": label.note, "state": campaign.state,
                "subsystem": definition.subsystem, "space": definition.space, "algorithm": definition.algorithm,
                "signal": definition.signal, "seed": definition.seed, "budget": definition.budget,
                "experiments": campaign.experiments, "skipped": campaign.skipped, "findings": campaign.findings,
                "started_unix_ms": clock.started_unix_ms, "measured_seconds": clock.measured_seconds,
            })
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        print_json(&json!({"database": database.to_string(), "campaigns": rows}))?;
        return Ok(exit::HEALTHY);
    }
    let heading =
        ["id", "state", "subsystem", "space", "algorithm", "seed", "experiments", "findings", "started", "name"];
    let mut table = Table::new(&heading, &[0, 5, 6, 7]);
    for (label, clock, campaign) in rows {
        let definition = campaign.definition;
        let changed = document::changed(&definition);
        table.row(vec![
            campaign.id.to_string(),
            campaign.state.to_string(),
            if changed.is_empty() {
                definition.subsystem
            } else {
                format!("{} with {}", definition.subsystem, identity::in_words(&changed))
            },
            definition.space,
            definition.algorithm,
            definition.seed.to_string(),
            campaign.experiments.to_string(),
            campaign.findings.to_string(),
            times::started(clock),
            label.name.unwrap_or_default(),
        ]);
    }
    print(&table.render(""))?;
    Ok(exit::HEALTHY)
}
