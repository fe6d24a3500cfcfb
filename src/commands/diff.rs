//! `kelpie diff`: two campaigns side by side. What belongs together is decided in `kelpie_reports::compare`, and
//! put into words in `side_by_side`.

use std::process::ExitCode;

use kelpie_engine::MeasureError;
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_monitor::measure_judged;
use kelpie_reports::compare::{CampaignSide, Repeated, compare};
use kelpie_reports::explained;
use kelpie_reports::side_by_side::{ComparedCampaign, SideBySide};
use kelpie_reports::site;
use kelpie_store::{CampaignId, Database, FindingRecord, Store};

use crate::args::Common;
use crate::cli::DiffArgs;
use crate::exit;
use crate::output::{note, print, print_json};

/// One of the two campaigns, and its subsystem if that can be measured.
struct DiffSide {
    compared: ComparedCampaign,
    subsystem: Option<OpenedSubsystem>,
}

impl DiffSide {
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
        Ok(Self { compared: ComparedCampaign { campaign, findings, anomalies, checks }, subsystem })
    }

    /// What the workload of the other campaign's finding shows here.
    fn repeat(&mut self, finding: &FindingRecord) -> Repeated {
        let Some(opened) = &mut self.subsystem else { return Repeated::NotMeasured };
        let definition = &self.compared.campaign.definition;
        let bounds = definition.bounds;
        let judged = measure_judged(&finding.workload, &bounds, |workload, attempt| {
            opened.subsystem().measure_again(workload, attempt)
        });
        match judged {
            Ok(judged) => Repeated::of(&judged.assessment, finding.symptom),
            Err(error) => {
                note(&format!("finding {} is not measured on {}: {error}", finding.number, definition.subsystem));
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
    let mut a = DiffSide::read(&database, args.a, !args.no_measure)?;
    let mut b = DiffSide::read(args.against.as_ref().unwrap_or(&database), args.b, !args.no_measure)?;
    let (older, newer) = (a.compared.findings.clone(), b.compared.findings.clone());
    let found = compare(&older, &newer, |side, finding: &FindingRecord| {
        Ok::<_, anyhow::Error>(match side {
            CampaignSide::A => a.repeat(finding),
            CampaignSide::B => b.repeat(finding),
        })
    })?;
    let both = SideBySide::new(&a.compared, &b.compared, found);
    if let Some(out) = &args.out {
        site::publish(out, args.force, |write| write(both.page()))?;
    }
    if common.json { print_json(&both.document()) } else { print(&both.text()) }?;
    Ok(if both.is_settled() { exit::HEALTHY } else { exit::anomalous() })
}
