//! `kelpie diff`: two campaigns side by side. What belongs together is decided in the reports crate.

use std::fmt::Write as _;
use std::process::ExitCode;

use kelpie_engine::MeasureError;
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_monitor::{Check, Severity, measure_judged};
use kelpie_reports::brief;
use kelpie_reports::compare::{CampaignSide, Compared, Fate, Repeated, compare};
use kelpie_reports::explained::{self, Weighed};
use kelpie_reports::identity::{self, Difference};
use kelpie_reports::site::{self, CampaignComparison, ComparedRow, SiteFile};
use kelpie_spaces::Condition;
use kelpie_store::{Anomaly, Campaign, CampaignId, Database, FindingRecord, Store};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Common;
use crate::cli::DiffArgs;
use crate::exit;
use crate::output::{Table, note, plural, print, print_json, width};

/// One of the two campaigns, and its subsystem if that can be measured.
struct ComparedCampaign {
    campaign: Campaign,
    findings: Vec<FindingRecord>,
    anomalies: Vec<Anomaly>,
    checks: Vec<Check>,
    subsystem: Option<OpenedSubsystem>,
}

/// What became of a finding, and how bad it is where it was found.
#[derive(Serialize)]
struct DiffRow {
    #[serde(flatten)]
    compared: Compared,
    severity: Option<Severity>,
}

impl ComparedCampaign {
    fn read(database: &Database, id: CampaignId, measure: bool) -> anyhow::Result<Self> {
        let mut store = Store::open_to_read(database)?;
        let campaign = store.campaign(id)?;
        let (mut findings, anomalies) = explained::read(&mut store, id)?;
        // What two campaigns have of one weakness differs in its variants.
        findings.retain(|finding| finding.variant_of().is_none());
        let checks = store.checks(id)?;
        let findings = campaign.definition.in_whole_space(findings)?;
        let definition = &campaign.definition;
        let open = || OpenedSubsystem::reopen(&definition.subsystem, &definition.subsystem_source, definition.bounds);
        let subsystem = match measure.then(open) {
            Some(Err(error)) => {
                note(&format!("campaign {id}: {} is not at hand: {error:#}", definition.subsystem));
                None
            }
            Some(Ok(opened)) => Some(opened),
            None => None,
        };
        Ok(Self { campaign, findings, anomalies, checks, subsystem })
    }

    fn finding(&self, number: u64) -> Option<&FindingRecord> {
        self.findings.iter().find(|finding| finding.number == number)
    }

    fn severity(&self, number: u64) -> Option<Severity> {
        Weighed::new(self.finding(number)?, &self.anomalies).severity
    }

    /// What the workload of the other campaign's finding shows here.
    fn repeat(&mut self, finding: &FindingRecord) -> Repeated {
        let Some(opened) = &mut self.subsystem else { return Repeated::NotMeasured };
        let bounds = self.campaign.definition.bounds;
        let judged = measure_judged(&finding.workload, &bounds, |workload, attempt| {
            opened.subsystem().measure_again(workload, attempt)
        });
        match judged {
            Ok(judged) => Repeated::of(&judged.assessment, finding.symptom),
            Err(error) => {
                let name = &self.campaign.definition.subsystem;
                note(&format!("finding {} is not measured on {name}: {error}", finding.number));
                if !matches!(error, MeasureError::Unsupported { .. }) {
                    self.subsystem = None;
                }
                Repeated::Unknown
            }
        }
    }
}

/// Runs the command.
pub fn run(args: &DiffArgs, common: Common) -> anyhow::Result<ExitCode> {
    if let Some(out) = &args.out {
        // Before anything is measured, because that may take a while.
        site::check_target(out, args.force)?;
    }
    let database = args.database.database()?;
    let mut a = ComparedCampaign::read(&database, args.a, !args.no_measure)?;
    let mut b = ComparedCampaign::read(args.against.as_ref().unwrap_or(&database), args.b, !args.no_measure)?;
    let (older, newer) = (a.findings.clone(), b.findings.clone());
    let repeat = |side, finding: &FindingRecord| {
        Ok::<_, anyhow::Error>(match side {
            CampaignSide::A => a.repeat(finding),
            CampaignSide::B => b.repeat(finding),
        })
    };
    let all = compare(&older, &newer, repeat)?;
    let severity = |compared: &Compared| match compared.side {
        CampaignSide::A => a.severity(compared.finding),
        CampaignSide::B => b.severity(compared.finding),
    };
    let mut all: Vec<DiffRow> =
        all.into_iter().map(|compared| DiffRow { severity: severity(&compared), compared }).collect();
    let worst_first = |one: &DiffRow, other: &DiffRow| {
        one.compared.fate.cmp(&other.compared.fate).then(Severity::worst_first(one.severity, other.severity))
    };
    all.sort_by(worst_first);
    let sides = [&a, &b];
    if let Some(out) = &args.out {
        site::publish(out, args.force, |write| write(page(sides, &all)))?;
    }
    if common.json { print_json(&document(sides, &all)) } else { print(&text(sides, &all)) }?;
    let is_settled = all.iter().all(|row| !matches!(row.compared.fate, Fate::New | Fate::Doubtful));
    Ok(if is_settled { exit::HEALTHY } else { exit::anomalous() })
}

fn count(all: &[DiffRow], fate: Fate) -> u64 {
    all.iter().filter(|row| row.compared.fate == fate).count() as u64
}

const FATES: [Fate; 5] = [Fate::New, Fate::Changed, Fate::Remains, Fate::Fixed, Fate::Doubtful];

fn document([a, b]: [&ComparedCampaign; 2], all: &[DiffRow]) -> Value {
    let campaign = |side: &ComparedCampaign| {
        let definition = &side.campaign.definition;
        json!({
            "campaign": side.campaign.id, "subsystem": definition.subsystem, "space": definition.space,
            "experiments": side.campaign.experiments, "findings": side.findings.len(),
        })
    };
    let counts: serde_json::Map<String, Value> =
        FATES.iter().map(|fate| (fate.to_string(), count(all, *fate).into())).collect();
    json!({
        "a": campaign(a), "b": campaign(b), "differences": differences(a, b), "counts": counts, "findings": all,
    })
}

/// In what the two subsystems differ.
fn differences(a: &ComparedCampaign, b: &ComparedCampaign) -> Vec<Difference> {
    let source = |side: &ComparedCampaign| side.campaign.definition.subsystem_source.clone();
    let mut found = identity::of_sources(&source(a), &source(b));
    found.extend(identity::of_checks(&a.checks, &b.checks));
    found
}

/// Differences that are listed. Source: our choice, because two models of different NICs differ in all of them.
const MOST_DIFFERENCES: usize = 20;

/// The differences as lines.
fn difference_lines(found: &[Difference]) -> String {
    if found.is_empty() {
        return "the subsystems are the same, as far as they were recorded\n".to_owned();
    }
    let mut table = Table::new(&["differs", "older", "newer"], &[]);
    for Difference { about, a, b } in found.iter().take(MOST_DIFFERENCES) {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        table.row(vec![about.clone(), shown(a), shown(b)]);
    }
    let more = found.len().saturating_sub(MOST_DIFFERENCES);
    let more = if more == 0 { String::new() } else { format!("and {more} more\n") };
    format!("{}{more}\n", table.render_within("", width()))
}

fn text([a, b]: [&ComparedCampaign; 2], all: &[DiffRow]) -> String {
    let mut text = String::new();
    for (name, side) in [("older", a), ("newer", b)] {
        let (campaign, definition) = (&side.campaign, &side.campaign.definition);
        let _ = writeln!(
            text,
            "{name}: campaign {}, {} over {}, {}, {}",
            campaign.id,
            definition.subsystem,
            definition.space,
            plural(campaign.experiments, "experiment"),
            plural(side.findings.len() as u64, "finding")
        );
    }
    if a.campaign.definition.space_source != b.campaign.definition.space_source {
        text += "the campaigns searched other spaces: what only one of them could find is not new or fixed by the subsystem\n";
    }
    text += &difference_lines(&differences(a, b));
    let _ = writeln!(text, "{}\n", counts(all));
    let mut table = Table::new(&["", "finding", "symptom", "severity", "conditions"], &[]);
    for ComparedRow { fate, finding, symptom, severity, conditions } in rows([a, b], all) {
        let severity = severity.map_or_else(|| "not measured".to_owned(), |severity| severity.to_string());
        table.row(vec![fate, finding, symptom, severity, conditions]);
    }
    text + &table.render_within("", width())
}

fn counts(all: &[DiffRow]) -> String {
    FATES.iter().map(|fate| format!("{} {fate}", count(all, *fate))).collect::<Vec<_>>().join(", ")
}

/// The findings in words.
fn rows([a, b]: [&ComparedCampaign; 2], all: &[DiffRow]) -> Vec<ComparedRow> {
    let row = |DiffRow { compared, severity }: &DiffRow| {
        let (own, other) = match compared.side {
            CampaignSide::A => (a, b),
            CampaignSide::B => (b, a),
        };
        let name = |side: &ComparedCampaign, number: u64| format!("{}.{number}", side.campaign.id);
        let finding = own.finding(compared.finding)?;
        let counterpart = compared.counterpart.map(|number| format!(" ({})", name(other, number))).unwrap_or_default();
        Some(ComparedRow {
            fate: fate(compared),
            finding: format!("{}{counterpart}", name(own, finding.number)),
            symptom: finding.symptom.name().to_owned(),
            severity: *severity,
            conditions: conditions(finding, compared),
        })
    };
    all.iter().filter_map(row).collect()
}

/// The same as a page.
fn page([a, b]: [&ComparedCampaign; 2], all: &[DiffRow]) -> SiteFile {
    let comparison = CampaignComparison {
        campaigns: [&a.campaign, &b.campaign],
        differences: &differences(a, b),
        counts: counts(all),
        rows: rows([a, b], all),
    };
    comparison.file()
}

/// What became of it; if that is not known, why.
fn fate(compared: &Compared) -> String {
    match (compared.fate, compared.repeated) {
        (Fate::Doubtful, Repeated::Unknown) => format!("{}, inconclusive there", compared.fate),
        (Fate::Doubtful, _) => format!("{}, not measured there", compared.fate),
        _ => compared.fate.to_string(),
    }
}

/// The conditions; of a changed finding those that differ.
fn conditions(finding: &FindingRecord, compared: &Compared) -> String {
    let joined = |conditions: &[Condition]| conditions.iter().map(Condition::brief).collect::<Vec<_>>().join(", ");
    if compared.fate != Fate::Changed {
        return format!("{}: {}", brief::shows_with(finding), brief::conditions(finding));
    }
    let or_nothing = |conditions: &[Condition]| {
        if conditions.is_empty() { "nothing".to_owned() } else { joined(conditions) }
    };
    format!("{} instead of {}", or_nothing(&compared.gained), or_nothing(&compared.lost))
}
