//! The 18 anomalies on the simulated subsystems: what their tests share. Points are in `cases`.

pub mod cases;
mod decides;
mod measured;
mod models;
mod moves;
mod perftest;

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Measurement, Symptom, Verdict, assess};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::Workload;

use cases::{ANOMALIES, trigger};

/// What a workload shows.
#[derive(Debug, Clone, PartialEq)]
struct GoldenResult {
    verdict: Verdict,
    symptoms: Vec<Symptom>,
    limiting: String,
}

impl GoldenResult {
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

fn measure(subsystem: &mut SimSubsystem, workload: &Workload) -> Measurement {
    kelpie_spaces::check(workload).expect("a valid workload");
    subsystem.measure(workload).expect("the hosts have the devices")
}

fn show(subsystem: &mut SimSubsystem, workload: &Workload) -> GoldenResult {
    let measurement = measure(subsystem, workload);
    judge(subsystem, workload, &measurement)
}

/// What a subsystem's last measurement shows.
fn judge(subsystem: &SimSubsystem, workload: &Workload, measurement: &Measurement) -> GoldenResult {
    let assessment = assess(workload, &subsystem.bounds(), measurement);
    GoldenResult {
        verdict: assessment.verdict,
        symptoms: assessment.symptoms,
        limiting: subsystem.limiting().to_owned(),
    }
}

/// What the trigger of anomaly `id` shows.
fn show_trigger(subsystem: &mut SimSubsystem, id: u32) -> GoldenResult {
    show(subsystem, &trigger(id).workload())
}

/// Fails with every complaint at once.
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
}

/// Anomalies that do not come out of the parts; `docs/explained/simulated-subsystem.md` has the reasons.
pub const NOT_REPRODUCED: [u32; 2] = [9, 10];

/// Where the committed table of this name and model is.
fn path(name: &str, model: &str) -> String {
    format!("{}/tests/golden/{name}-{model}.txt", env!("CARGO_MANIFEST_DIR"))
}

/// What is wrong with a table, if it is not as committed; with `KELPIE_BLESS=1` it is written, and nothing is.
fn committed(name: &str, model: &str, table: &str) -> Vec<String> {
    let path = path(name, model);
    if std::env::var_os("KELPIE_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, table).expect("the table can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let complaint = || format!("{path} differs (KELPIE_BLESS=1 writes it anew):\n{}", difference(&committed, table));
    (table != committed).then(complaint).into_iter().collect()
}

/// The part that limits the trigger of an anomaly, by the committed table, which `measured` checks.
fn limiting(id: u32) -> String {
    let anomaly = ANOMALIES.iter().find(|anomaly| anomaly.id == id).expect("18 anomalies");
    let table = std::fs::read_to_string(path("anomalies", anomaly.subsystem)).expect("it is committed");
    let words = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = words.into_iter().find(|row| row[0] == id.to_string() && row[2] == "trigger");
    // Before the last column; a verdict may be of two words.
    row.and_then(|row| row.iter().rev().nth(1).map(ToString::to_string)).expect("each anomaly has a trigger")
}

/// Lines that only one of two tables has.
fn difference(committed: &str, now: &str) -> String {
    let missing = |of: &str, in_other: &str, sign: &str| {
        let lines = of.lines().filter(|line| !in_other.lines().any(|other| other == *line));
        lines.map(|line| [sign, " ", line, "\n"].concat()).collect::<Vec<_>>().concat()
    };
    missing(committed, now, "-") + &missing(now, committed, "+")
}
