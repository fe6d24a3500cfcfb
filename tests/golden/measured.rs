//! What models F and H show of their anomalies. Each point is measured once, and all that is said of it is said of that
//! measurement. `KELPIE_BLESS=1 cargo test --test main golden` writes the tables anew.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kelpie_monitor::{Measurement, Symptom};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::known::{self, Sign};

use super::cases::{ANOMALIES, GoldenAnomaly, trigger};
use super::{GoldenResult, NOT_REPRODUCED, assert_none, committed, decides, judge, load, measure, moves, show};

/// A point, and what it shows.
struct GoldenRow {
    id: u32,
    point: &'static str,
    shown: GoldenResult,
}

/// A model, and what was measured on it.
pub struct GoldenModel {
    pub model: &'static str,
    pub subsystem: SimSubsystem,
    triggers: BTreeMap<u32, (GoldenResult, Measurement)>,
    /// Triggers with one condition broken.
    broken: Vec<GoldenRow>,
    /// Triggers on the model with their fix.
    fixed: BTreeMap<u32, GoldenResult>,
}

/// The anomalies of a model.
fn anomalies(model: &str) -> impl Iterator<Item = &'static GoldenAnomaly> {
    ANOMALIES.iter().filter(move |anomaly| anomaly.subsystem == model)
}

/// Anomalies for which a model has a fix.
fn fixes(subsystem: &SimSubsystem) -> Vec<u32> {
    let model: serde_yaml::Value = serde_yaml::from_str(&subsystem.yaml()).expect("the model is YAML");
    let keys = model["fixes"].as_mapping().expect("a map of fixes").keys();
    keys.map(|key| key.as_u64().expect("anomalies are numbers") as u32).collect()
}

impl GoldenModel {
    fn of(model: &'static str) -> Self {
        let mut subsystem = load(model);
        let (mut triggers, mut broken, mut fixed) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for anomaly in anomalies(model) {
            let workload = trigger(anomaly.id).workload();
            let measurement = measure(&mut subsystem, &workload);
            triggers.insert(anomaly.id, (judge(&subsystem, &workload, &measurement), measurement));
            for (point, breaks) in anomaly.broken {
                let mut changed = trigger(anomaly.id);
                breaks(&mut changed);
                broken.push(GoldenRow { id: anomaly.id, point, shown: show(&mut subsystem, &changed.workload()) });
            }
        }
        for id in fixes(&subsystem) {
            let mut mended = load(model);
            mended.fix(id).expect("the model has this fix");
            fixed.insert(id, show(&mut mended, &trigger(id).workload()));
        }
        Self { model, subsystem, triggers, broken, fixed }
    }

    /// What the trigger of an anomaly shows.
    pub fn trigger(&self, id: u32) -> &(GoldenResult, Measurement) {
        &self.triggers[&id]
    }

    /// What all triggers show.
    pub fn triggers(&self) -> impl Iterator<Item = (u32, &GoldenResult)> {
        self.triggers.iter().map(|(id, (shown, _))| (*id, shown))
    }

    /// What the triggers of those anomalies show that do.
    pub fn reproduced(&self) -> impl Iterator<Item = (u32, &GoldenResult)> {
        self.triggers().filter(|(id, _)| !NOT_REPRODUCED.contains(id))
    }

    /// The other anomaly of this model that limits a broken point, if any.
    fn falls_into(&self, row: &GoldenRow) -> Option<u32> {
        let mut others = self.triggers.iter().filter(|(id, _)| **id != row.id);
        let same = others.find(|(_, (trigger, _))| trigger.limiting == row.shown.limiting);
        same.map(|(id, _)| *id).filter(|_| !row.shown.healthy())
    }

    /// Triggers show the symptoms of the paper.
    fn symptoms(&self) -> Vec<String> {
        let complaint = |(id, (shown, _)): (&u32, &(GoldenResult, Measurement))| {
            let as_in_the_paper = match known::anomaly(*id).expect("18 anomalies").symptom {
                Sign::Pause => shown.has(Symptom::Pause),
                Sign::Low => shown.symptoms == [Symptom::LowThroughput],
            };
            (as_in_the_paper == NOT_REPRODUCED.contains(id)).then(|| format!("{id}: {shown:?}"))
        };
        self.triggers.iter().filter_map(complaint).collect()
    }

    /// Most broken conditions are healthy or another anomaly: of this model all but so many, which leave the anomaly as
    /// it is.
    fn conditions(&self, undecided: usize) -> Vec<String> {
        let of_shown = self.broken.iter().filter(|row| !NOT_REPRODUCED.contains(&row.id));
        let left = of_shown.filter(|row| !row.shown.healthy() && self.falls_into(row).is_none());
        let left: Vec<String> = left.map(|row| format!("{} with {}: {:?}", row.id, row.point, row.shown)).collect();
        let all = self.broken.len();
        let text = format!("{} of {all} conditions do not decide, not {undecided}:\n{}", left.len(), left.join("\n"));
        (left.len() > undecided).then_some(text).into_iter().collect()
    }

    /// These anomalies have a fix, and it cures.
    fn cures(&self, fixes: &[u32]) -> Vec<String> {
        let known: Vec<u32> = self.fixed.keys().copied().collect();
        let other = (known != fixes).then(|| format!("fixes of {known:?}"));
        let ill = self.fixed.iter().filter(|(_, shown)| !shown.healthy());
        other.into_iter().chain(ill.map(|(id, shown)| format!("{id} with its fix: {shown:?}"))).collect()
    }

    /// Limiting parts tell anomalies apart.
    fn parts(&self) -> Vec<String> {
        let mut by_part = BTreeMap::<&str, Vec<u32>>::new();
        for (id, shown) in self.reproduced() {
            by_part.entry(&shown.limiting).or_default().push(id);
        }
        by_part.iter().filter(|(_, ids)| ids.len() > 1).map(|(part, ids)| format!("{part}: {ids:?}")).collect()
    }

    /// Everything as a table.
    fn table(&self) -> String {
        let mut table = format!(
            "{:<8} {:<10} {:<26} {:<13} {:<34} falls into\n",
            "anomaly", "subsystem", "point", "verdict", "limiting"
        );
        let mut line = |id: u32, point: &str, shown: &GoldenResult, into: Option<u32>| {
            let into = into.map_or_else(|| "-".to_owned(), |id| id.to_string());
            let (verdict, model) = (shown.text(), self.model);
            writeln!(table, "{id:<8} {model:<10} {point:<26} {verdict:<13} {:<34} {into}", shown.limiting)
                .expect("a String takes any text");
        };
        for (id, (shown, _)) in &self.triggers {
            line(*id, "trigger", shown, None);
            for row in self.broken.iter().filter(|row| row.id == *id) {
                line(*id, row.point, &row.shown, self.falls_into(row));
            }
            if let Some(shown) = self.fixed.get(id) {
                line(*id, "fix", shown, None);
            }
        }
        table
    }
}

/// All that is said of a model, so many of whose conditions do not decide and which has these fixes.
fn check(model: &'static str, undecided: usize, fixes: &[u32]) {
    let measured = GoldenModel::of(model);
    let complaints = [
        measured.symptoms(),
        measured.conditions(undecided),
        measured.cures(fixes),
        measured.parts(),
        committed("anomalies", model, &measured.table()),
        committed("decides", model, &decides::table(&measured)),
        moves::noise_changes(&measured),
    ];
    assert_none(&complaints.concat());
}

#[test]
fn f_shows_what_is_committed_and_what_the_paper_says() {
    assert_eq!((known::anomalies().len(), ANOMALIES.len()), (18, 18));
    check("F", 22, &[3, 11, 12]);
}

#[test]
fn h_shows_what_is_committed_and_what_the_paper_says() {
    check("H", 14, &[17, 18]);
}
