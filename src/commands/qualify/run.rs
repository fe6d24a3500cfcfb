//! `kelpie qualify run`, `resume` and `show`: a fleet is measured, and said which nodes may take jobs.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use kelpie_criteria::{FleetState, FleetVerdict, LearnOptions, Unit};
use kelpie_examine::files::{read_file, read_file_up_to};
use kelpie_fleet::auto::{Auto, Wanted};
use kelpie_fleet::inventory::Inventory;
use kelpie_fleet::past::before;
use kelpie_fleet::plan::Plan;
use kelpie_fleet::qualification::{ALPHAS, Qualification, QualificationDocument, Witness, read, verdict_so_far};
use kelpie_fleet::scan::ScanProgress;
use kelpie_fleet::traffic::SampleTimes;
use kelpie_reports::qualification::{self as report};
use kelpie_store::{QualificationId, Store};
use serde::Serialize;

use crate::args::Common;
use crate::cli::qualify::{HowArgs, RunArgs, StoredArgs};
use crate::exit;
use crate::inputs::db_argument;
use crate::output::{note, print, print_json};
use crate::progress::ProgressDisplay;
use crate::stop;

/// Runs `kelpie qualify run`.
pub fn run(args: &RunArgs, common: Common) -> anyhow::Result<ExitCode> {
    let inventory = Inventory::from_bytes(&args.inventory, &read_file(&args.inventory)?)?;
    let mut store = Store::create(args.how.database.database()?)?;
    let auto = (args.plan == AUTO).then(|| choose(&mut store, &inventory, args)).transpose()?;
    let plan = match &auto {
        Some(auto) => match auto.plan()? {
            Some(plan) => plan,
            None => return say_none(auto, common),
        },
        None if args.plan.contains(['/', '.']) => Plan::from_bytes(&args.plan, &read_file(Path::new(&args.plan))?)?,
        None => Plan::named(&args.plan)?,
    };
    let criteria = args.criteria.as_deref().map(super::criteria).transpose()?.unwrap_or_default();
    let alphas = ALPHAS.iter().map(|(metric, alpha)| ((*metric).to_owned(), *alpha)).collect();
    let floors = args.floor.iter().cloned().collect();
    let options = LearnOptions { alpha: args.alpha, floors, alphas, ..LearnOptions::default() };
    let document = QualificationDocument::new(inventory, plan, criteria, options);
    go_on(Qualification::begin(store, document)?, auto.as_ref(), &args.how, common)
}

/// What stands for a plan that is chosen by the past.
const AUTO: &str = "auto";

fn choose(store: &mut Store, inventory: &Inventory, args: &RunArgs) -> anyhow::Result<Auto> {
    let bytes = args.history.as_deref().map(|path| read_file_up_to(path, super::MAX_CRITERIA)).transpose()?;
    let name = args.history.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let (within, time) = (args.within.into(), args.how.time);
    let wanted = Wanted { target: args.target, within, time };
    let auto = Auto::choose(store, inventory, bytes.as_deref().map(|bytes| (name.as_str(), bytes)), wanted)?;
    auto.text().lines().for_each(note);
    Ok(auto)
}

/// No check is made.
fn say_none(auto: &Auto, common: Common) -> anyhow::Result<ExitCode> {
    if common.json {
        print_json(&serde_json::json!({"auto": auto}))?;
    }
    Ok(if auto.is_enough() { exit::HEALTHY } else { exit::failed() })
}

/// Runs `kelpie qualify resume`.
pub fn resume(args: &StoredArgs, common: Common) -> anyhow::Result<ExitCode> {
    let store = Store::open_to_write(args.how.database.database()?)?;
    let mut qualification = Qualification::resume(store, args.id.map(QualificationId))?;
    qualification.document.options.floors.extend(args.floor.iter().cloned());
    go_on(qualification, None, &args.how, common)
}

/// Runs `kelpie qualify show`.
pub fn show(args: &StoredArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_to_read(args.how.database.database()?)?;
    let id = match args.id {
        Some(id) => QualificationId(id),
        None => store.qualifications()?.last().map(|last| last.id).context("no qualification yet")?,
    };
    let (mut document, units) = read(&mut store, id)?;
    document.options.floors.extend(args.floor.iter().cloned());
    let stored = store.qualification(id)?.and_then(|stored| stored.ended).filter(|_| args.floor.is_empty());
    let said = match stored {
        Some(said) => serde_json::from_str(&said)?,
        None => verdict_so_far(&document, &units)?,
    };
    say(&QualifiedDocument { qualification: id, auto: None, verdict: &said }, &units, &mut store, &args.how, common)
}

fn go_on(qualification: Qualification, auto: Option<&Auto>, how: &HowArgs, common: Common) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &how.report {
        kelpie_reports::folder::check(folder).with_context(|| folder.display().to_string())?;
    }
    let id = qualification.id;
    let again = format!("kelpie qualify resume {id}{}", db_argument(&how.database.database()?));
    let mut watched = Watched {
        bar: ProgressDisplay::of_units(),
        stopped: stop::on_signals("stopping after the units that were begun; once more ends at once")?,
        end: how.time.map(|time| Instant::now() + time),
    };
    let mut qualified = qualification.run(SampleTimes::default(), how.at_once.into(), &mut watched)?;
    watched.bar.close();
    if !qualified.is_whole {
        note(&format!("not whole yet: `{again}` goes on"));
    }
    let said = QualifiedDocument { qualification: id, auto, verdict: &qualified.verdict };
    say(&said, &qualified.units, &mut qualified.store, how, common)
}

struct Watched {
    bar: ProgressDisplay,
    stopped: Arc<AtomicBool>,
    end: Option<Instant>,
}

impl Witness for Watched {
    fn progress(&mut self, ScanProgress { done, all, gone }: ScanProgress) {
        self.bar.units(done, all, gone);
    }

    fn stops(&mut self) -> bool {
        self.stopped.load(Ordering::Relaxed) || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

#[derive(Serialize)]
struct QualifiedDocument<'v> {
    qualification: QualificationId,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto: Option<&'v Auto>,
    #[serde(flatten)]
    verdict: &'v FleetVerdict,
}

fn say(
    said: &QualifiedDocument<'_>,
    units: &[Unit],
    store: &mut Store,
    how: &HowArgs,
    common: Common,
) -> anyhow::Result<ExitCode> {
    let QualifiedDocument { qualification: id, verdict, .. } = said;
    if common.json {
        print_json(&said)?;
    } else {
        print(&report::text(id.0, verdict))?;
    }
    if let Some(folder) = &how.report {
        report::write(folder, id.0, verdict, units, &before(store, *id)?)
            .with_context(|| folder.display().to_string())?;
        note(&format!("report {}", folder.display()));
    }
    Ok(match verdict.count(FleetState::Out) {
        1.. => exit::anomalous(),
        0 if verdict.count(FleetState::Unknown) > 0 => exit::failed(),
        0 => exit::HEALTHY,
    })
}
