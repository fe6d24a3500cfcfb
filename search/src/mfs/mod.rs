//! From an anomalous workload to its region: the conditions that trigger it, validated. The method is in `docs/search.md`.

mod categorical;
mod conditions;
mod cures;
mod fallback;
mod ordered;
mod path;
mod refine;

use kelpie_monitor::Symptom;
use kelpie_spaces::Workload;

use crate::finding::{Evidence, Finding, wilson_lower_bound};
use crate::history::Outcome;
use crate::oracle::{Oracle, Purpose};
use crate::session::Session;
use crate::signals::Observation;

use conditions::Conditions;

/// Confidence below which a region is not stored: no conjunction of features tells its healthy points apart.
///
/// Source: our choice, because a region that was validated reaches 0.91 and one whose healthy points no feature tells apart does not.
const LEAST_CONFIDENCE: f64 = 0.85;

/// `ConstructMFS`: if `seen` is anomalous, finds its region, validates it and stores the finding.
///
/// Says whether it was anomalous. When the oracle stops in the middle, nothing is stored. A region that could not
/// be validated even when pinned to the workload's features is only skipped from then on.
pub(crate) fn construct<O: Oracle>(
    session: &mut Session<'_, O>,
    workload: &Workload,
    seen: &Observation,
    found_at: u64,
) -> Result<bool, O::Error> {
    let Outcome::Anomalous(symptom) = Outcome::from(&seen.assessment) else { return Ok(false) };
    let started = session.experiments();
    let mut builder = Builder::new(session, workload, symptom);
    builder.refine()?;
    let cures = builder.cures()?;
    let (validated, healthy_inside) = (u64::from(builder.fresh), builder.inseparable.len() as u64);
    let finding = Finding {
        symptom,
        workload: workload.clone(),
        mfs: builder.conditions.region(),
        found_at,
        experiments_for_mfs: builder.session.experiments() - started,
        confidence: wilson_lower_bound(validated, validated + healthy_inside),
        evidence: Evidence {
            symptoms: seen.assessment.symptoms.clone(),
            signals: seen.signals.clone(),
            validated,
            healthy_inside,
            narrowed: builder.narrowed > 0,
            cures,
        },
    };
    let neighbourhood = builder.neighbourhood();
    if finding.confidence < LEAST_CONFIDENCE {
        session.avoid(finding.mfs);
    } else {
        session.found(&finding)?;
    }
    session.avoid(neighbourhood);
    Ok(true)
}

/// A region under construction around one anomalous workload, the anchor.
struct Builder<'s, 'a, O: Oracle> {
    session: &'s mut Session<'a, O>,
    anchor: &'s Workload,
    symptom: Symptom,
    conditions: Conditions,
    /// Random points inside the region that were anomalous.
    inside: Vec<Workload>,
    /// How many of them since the region last changed.
    fresh: u32,
    /// Healthy points that no feature tells from the anchor.
    inseparable: Vec<Workload>,
    /// Random points that had been measured before.
    remembered: u32,
    /// Points that showed the symptom.
    showing: Vec<Workload>,
    /// The conditions before the first narrowing.
    before_narrowing: Option<Conditions>,
    /// How often the region was narrowed because its limit was reached.
    narrowed: u32,
    started: u64,
}

impl<'s, 'a, O: Oracle> Builder<'s, 'a, O> {
    fn new(session: &'s mut Session<'a, O>, anchor: &'s Workload, symptom: Symptom) -> Self {
        let started = session.experiments();
        Self {
            session,
            anchor,
            symptom,
            conditions: Conditions::default(),
            inside: Vec::new(),
            fresh: 0,
            inseparable: Vec::new(),
            remembered: 0,
            showing: Vec::new(),
            before_narrowing: None,
            narrowed: 0,
            started,
        }
    }

    /// Whether the workload shows the anchor's symptom; another symptom is another weakness.
    fn shows(&mut self, workload: &Workload) -> Result<bool, O::Error> {
        let shown = self.session.outcome(workload, Purpose::Mfs)? == Outcome::Anomalous(self.symptom);
        if shown {
            self.showing.push(workload.clone());
        }
        Ok(shown)
    }
}
