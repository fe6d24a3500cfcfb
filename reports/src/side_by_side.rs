//! Two campaigns side by side, as text, as JSON and as a page. What belongs together is decided in `compare`.

use std::fmt::Write as _;

use kelpie_monitor::{Check, Severity};
use kelpie_spaces::Condition;
use kelpie_store::{Anomaly, Campaign, FindingRecord};
use kelpie_text::{Table, plural, width};
use serde::Serialize;
use serde_json::{Value, json};

use crate::brief;
use crate::compare::{CampaignSide, Compared, Fate, Repeated};
use crate::explained::Weighed;
use crate::identity::{self, Difference};
use crate::site::{CampaignComparison, ComparedRow, SiteFile};

/// One of the two campaigns.
#[derive(Debug)]
pub struct ComparedCampaign {
    /// The campaign.
    pub campaign: Campaign,
    /// Its findings but for variants, in the whole space.
    pub findings: Vec<FindingRecord>,
    /// Its anomalous experiments.
    pub anomalies: Vec<Anomaly>,
    /// What the doctor saw of its hosts.
    pub checks: Vec<Check>,
}

/// What became of a finding, and how bad it is where it was found.
#[derive(Debug, Serialize)]
struct DiffRow {
    #[serde(flatten)]
    compared: Compared,
    severity: Option<Severity>,
}

/// Two campaigns, and what became of their findings.
#[derive(Debug)]
pub struct SideBySide<'a> {
    older: &'a ComparedCampaign,
    newer: &'a ComparedCampaign,
    rows: Vec<DiffRow>,
}

impl ComparedCampaign {
    fn finding(&self, number: u64) -> Option<&FindingRecord> {
        self.findings.iter().find(|finding| finding.number == number)
    }

    fn severity(&self, number: u64) -> Option<Severity> {
        Weighed::new(self.finding(number)?, &self.anomalies).severity
    }
}

const FATES: [Fate; 5] = [Fate::New, Fate::Changed, Fate::Remains, Fate::Fixed, Fate::Doubtful];

impl<'a> SideBySide<'a> {
    /// The findings, those to look at first.
    pub fn new(older: &'a ComparedCampaign, newer: &'a ComparedCampaign, found: Vec<Compared>) -> Self {
        let weighed = |compared: Compared| {
            let own = if compared.side == CampaignSide::A { older } else { newer };
            DiffRow { severity: own.severity(compared.finding), compared }
        };
        let mut rows: Vec<DiffRow> = found.into_iter().map(weighed).collect();
        rows.sort_by(|one, other| {
            one.compared.fate.cmp(&other.compared.fate).then(Severity::worst_first(one.severity, other.severity))
        });
        Self { older, newer, rows }
    }

    /// Whether nothing is new, and nothing in doubt.
    pub fn is_settled(&self) -> bool {
        self.rows.iter().all(|row| !matches!(row.compared.fate, Fate::New | Fate::Doubtful))
    }

    fn count(&self, fate: Fate) -> u64 {
        self.rows.iter().filter(|row| row.compared.fate == fate).count() as u64
    }

    /// As a document.
    pub fn document(&self) -> Value {
        let campaign = |side: &ComparedCampaign| {
            let definition = &side.campaign.definition;
            json!({
                "campaign": side.campaign.id, "subsystem": definition.subsystem, "space": definition.space,
                "experiments": side.campaign.experiments, "findings": side.findings.len(),
            })
        };
        let counts: serde_json::Map<String, Value> =
            FATES.iter().map(|fate| (fate.to_string(), self.count(*fate).into())).collect();
        json!({
            "a": campaign(self.older), "b": campaign(self.newer), "differences": self.differences(),
            "counts": counts, "findings": self.rows,
        })
    }

    /// In what the two subsystems differ.
    fn differences(&self) -> Vec<Difference> {
        let source = |side: &ComparedCampaign| side.campaign.definition.subsystem_source.clone();
        let mut found = identity::of_sources(&source(self.older), &source(self.newer));
        found.extend(identity::of_checks(&self.older.checks, &self.newer.checks));
        found
    }

    /// As text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, side) in [("older", self.older), ("newer", self.newer)] {
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
        if self.older.campaign.definition.space_source != self.newer.campaign.definition.space_source {
            text += "the campaigns searched other spaces: what only one of them could find is not new or fixed by the subsystem\n";
        }
        text += &difference_lines(&self.differences());
        let _ = writeln!(text, "{}\n", self.counts());
        let mut table = Table::new(&["", "finding", "symptom", "severity", "conditions"], &[]);
        for ComparedRow { fate, finding, symptom, severity, conditions } in self.rows_in_words() {
            let severity = severity.map_or_else(|| "not measured".to_owned(), |severity| severity.to_string());
            table.row(vec![fate, finding, symptom, severity, conditions]);
        }
        text + &table.render_within("", width())
    }

    fn counts(&self) -> String {
        FATES.iter().map(|fate| format!("{} {fate}", self.count(*fate))).collect::<Vec<_>>().join(", ")
    }

    fn rows_in_words(&self) -> Vec<ComparedRow> {
        let row = |DiffRow { compared, severity }: &DiffRow| {
            let (own, other) = match compared.side {
                CampaignSide::A => (self.older, self.newer),
                CampaignSide::B => (self.newer, self.older),
            };
            let name = |side: &ComparedCampaign, number: u64| format!("{}.{number}", side.campaign.id);
            let finding = own.finding(compared.finding)?;
            let counterpart =
                compared.counterpart.map(|number| format!(" ({})", name(other, number))).unwrap_or_default();
            Some(ComparedRow {
                fate: fate(compared),
                finding: format!("{}{counterpart}", name(own, finding.number)),
                symptom: finding.symptom.name().to_owned(),
                severity: *severity,
                conditions: conditions(finding, compared),
            })
        };
        self.rows.iter().filter_map(row).collect()
    }

    /// As a page.
    pub fn page(&self) -> SiteFile {
        let comparison = CampaignComparison {
            campaigns: [&self.older.campaign, &self.newer.campaign],
            differences: &self.differences(),
            counts: self.counts(),
            rows: self.rows_in_words(),
        };
        comparison.file()
    }
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
