//! The 18 anomalies on the simulated subsystems: triggers, conditions broken one by one, fixes. Points are in `cases`.

pub mod cases;
mod decides;
mod models;
mod moves;
mod perftest;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Measurement, Symptom, Verdict, assess};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::Workload;
use kelpie_spaces::known::{self, Sign};

use cases::{ANOMALIES, Anomaly, trigger};

/// The golden table; `KELPIE_BLESS=1 cargo test --test main golden` writes it anew.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/anomalies.txt");

/// What a workload shows.
#[derive(Debug, Clone, PartialEq)]
struct Shown {
    verdict: Verdict,
    symptoms: Vec<Symptom>,
    limiting: String,
}

impl Shown {
    fn healthy(&self) -> bool {
        self.verdict == Verdict::Healthy
    }

    fn has(&self, symptom: Symptom) -> bool {
        self.symptoms.contains(&symptom)
    }

    fn text(&self) -> String {
        match (self.verdict, self.has(Symptom::Pause), self.has(Symptom::LowThroughput)) {
            (Verdict::Anomalous, true, true) => "pause, low",
            (Verdict::Anomalous, true, false) => "pause",
            (Verdict::Anomalous, false, _) => "low",
            (Verdict::Healthy, ..) => "healthy",
            (Verdict::Inconclusive, ..) => "inconclusive",
        }
        .to_owned()
    }
}

fn load(name: &str) -> SimSubsystem {
    SimSubsystem::load(name).expect("an embedded model")
}

fn show(subsystem: &mut SimSubsystem, workload: &Workload) -> Shown {
    kelpie_spaces::check(workload).expect("a valid workload");
    let measurement = subsystem.measure(workload).expect("the hosts have the devices");
    judge(subsystem, workload, &measurement)
}

/// What a subsystem's last measurement shows.
fn judge(subsystem: &SimSubsystem, workload: &Workload, measurement: &Measurement) -> Shown {
    let assessment = assess(workload, &subsystem.bounds(), measurement);
    Shown { verdict: assessment.verdict, symptoms: assessment.symptoms, limiting: subsystem.limiting().to_owned() }
}

/// What the trigger of anomaly `id` shows.
fn show_trigger(subsystem: &mut SimSubsystem, id: u32) -> Shown {
    show(subsystem, &trigger(id).workload())
}

/// Triggers of all anomalies on their own subsystems.
fn triggers() -> BTreeMap<u32, Shown> {
    ANOMALIES.iter().map(|anomaly| (anomaly.id, show_trigger(&mut load(anomaly.subsystem), anomaly.id))).collect()
}

/// Anomalies for which the model of `subsystem` has a fix.
fn fixes(subsystem: &SimSubsystem) -> Vec<u32> {
    let model: serde_yaml::Value = serde_yaml::from_str(&subsystem.yaml()).expect("the model is YAML");
    let keys = model["fixes"].as_mapping().expect("a map of fixes").keys();
    keys.map(|key| key.as_u64().expect("anomalies are numbers") as u32).collect()
}

/// The other anomaly of the same subsystem that limits a broken point, if any.
fn falls_into(anomaly: &Anomaly, shown: &Shown, triggers: &BTreeMap<u32, Shown>) -> Option<u32> {
    if shown.healthy() {
        return None;
    }
    let others = ANOMALIES.iter().filter(|other| other.id != anomaly.id && other.subsystem == anomaly.subsystem);
    others.map(|other| other.id).find(|other| triggers[other].limiting == shown.limiting)
}

fn broken(anomaly: &Anomaly) -> Vec<(&'static str, Shown)> {
    let mut subsystem = load(anomaly.subsystem);
    let each = anomaly.broken.iter().map(|(name, breaks)| {
        let mut point = trigger(anomaly.id);
        breaks(&mut point);
        (*name, show(&mut subsystem, &point.workload()))
    });
    each.collect()
}

fn fixed(anomaly: &Anomaly) -> Option<Shown> {
    let mut subsystem = load(anomaly.subsystem);
    fixes(&subsystem).contains(&anomaly.id).then(|| {
        subsystem.fix(anomaly.id).expect("the model has this fix");
        show_trigger(&mut subsystem, anomaly.id)
    })
}

/// Fails with every complaint at once.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// Anomalies that do not come out of the parts; `docs/simulated-subsystem.md` has the reasons.
pub const NOT_REPRODUCED: [u32; 2] = [9, 10];

#[test]
fn triggers_show_the_symptoms_of_the_paper() {
    let anomalies = known::anomalies();
    assert_eq!((anomalies.len(), ANOMALIES.len()), (18, 18));
    let shown = triggers();
    let mut complaints = Vec::new();
    for known::Anomaly { id, symptom, .. } in anomalies {
        let shown = &shown[&id];
        let as_in_the_paper = match symptom {
            Sign::Pause => shown.has(Symptom::Pause),
            Sign::Low => shown.symptoms == [Symptom::LowThroughput],
        };
        if as_in_the_paper == NOT_REPRODUCED.contains(&id) {
            complaints.push(format!("{id}: {shown:?}"));
        }
    }
    assert_none(&complaints);
}

/// Conditions of the paper that do not decide here: broken, they leave the anomaly as it is.
const UNDECIDED: usize = 52;

#[test]
fn most_broken_conditions_are_healthy_or_another_anomaly() {
    let triggers = triggers();
    let (mut left, mut all) = (Vec::new(), 0);
    for anomaly in ANOMALIES.iter().filter(|anomaly| !NOT_REPRODUCED.contains(&anomaly.id)) {
        for (name, shown) in broken(anomaly) {
            all += 1;
            if !shown.healthy() && falls_into(anomaly, &shown, &triggers).is_none() {
                left.push(format!("{} with {name}: {shown:?}", anomaly.id));
            }
        }
    }
    println!("{} of {all} conditions do not decide:\n{}", left.len(), left.join("\n"));
    assert!(left.len() <= UNDECIDED, "{} of {all}:\n{}", left.len(), left.join("\n"));
}

#[test]
fn fixes_cure() {
    assert_eq!(fixes(&load("F")), [3, 11, 12]);
    assert_eq!(fixes(&load("H")), [17, 18]);
    let cured = |anomaly: &Anomaly| fixed(anomaly).is_none_or(|shown| shown.healthy());
    let complaints: Vec<String> =
        ANOMALIES.iter().filter(|anomaly| !cured(anomaly)).map(|anomaly| anomaly.id.to_string()).collect();
    assert_none(&complaints);
}

#[test]
fn limiting_parts_tell_anomalies_apart() {
    let triggers = triggers();
    for subsystem in ["F", "H"] {
        let mut by_part = BTreeMap::<&str, Vec<u32>>::new();
        let reproduced = ANOMALIES.iter().filter(|anomaly| !NOT_REPRODUCED.contains(&anomaly.id));
        for anomaly in reproduced.filter(|anomaly| anomaly.subsystem == subsystem) {
            by_part.entry(&triggers[&anomaly.id].limiting).or_default().push(anomaly.id);
        }
        let shared: Vec<String> =
            by_part.iter().filter(|(_, ids)| ids.len() > 1).map(|(part, ids)| format!("{part}: {ids:?}")).collect();
        assert_none(&shared);
    }
}

#[test]
fn table_is_as_committed() {
    let triggers = triggers();
    let mut table = String::new();
    let mut row = |id: u32, subsystem: &str, point: &str, shown: &Shown, into: Option<u32>| {
        let into = into.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let verdict = shown.text();
        writeln!(table, "{id:<8} {subsystem:<10} {point:<26} {verdict:<13} {:<34} {into}", shown.limiting)
            .expect("a String takes any text");
    };
    for anomaly in &ANOMALIES {
        row(anomaly.id, anomaly.subsystem, "trigger", &triggers[&anomaly.id], None);
        for (name, shown) in broken(anomaly) {
            row(anomaly.id, anomaly.subsystem, name, &shown, falls_into(anomaly, &shown, &triggers));
        }
        if let Some(shown) = fixed(anomaly) {
            row(anomaly.id, anomaly.subsystem, "fix", &shown, None);
        }
    }
    let heading = format!(
        "{:<8} {:<10} {:<26} {:<13} {:<34} falls into\n",
        "anomaly", "subsystem", "point", "verdict", "limiting"
    );
    assert_committed(TABLE, &(heading + &table));
}

/// Fails if a table is not as committed, or writes it with `KELPIE_BLESS=1`.
fn assert_committed(path: &str, table: &str) {
    if std::env::var_os("KELPIE_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(path, table).expect("the table can be written");
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(table == committed, "{path} differs (KELPIE_BLESS=1 writes it anew):\n{}", difference(&committed, table));
}

/// Lines that only one of two tables has.
fn difference(committed: &str, now: &str) -> String {
    let missing = |of: &str, in_other: &str, sign: &str| {
        let lines = of.lines().filter(|line| !in_other.lines().any(|other| other == *line));
        lines.map(|line| [sign, " ", line, "\n"].concat()).collect::<Vec<_>>().concat()
    };
    missing(committed, now, "-") + &missing(now, committed, "+")
}
