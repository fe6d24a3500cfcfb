//! Campaigns of many experiments: made by the search itself over a subsystem in closed form, and stored through the
//! store. What commands then cost.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use kelpie_engine::Subsystem;
use kelpie_monitor::{Assessment, Bounds, Measurement, PauseRatios, PerHost, Symptom};
use kelpie_search::{Algorithm, Config, Finding, Observation, Oracle, Purpose, SignalSet};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Condition, Feature, FeatureValue, Flow, Host, Region, Space, Test, Workload};
use kelpie_store::{
    CampaignDefinition, CampaignId, Experiment, ExperimentClock, ExperimentOutcome, FindingRecord, Store,
};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::support::{Bench, HEALTHY};

/// Weaknesses of the subsystem.
const WEAKNESSES: usize = 48;

/// A weakness: a region in which this symptom shows.
struct Weakness {
    symptom: Symptom,
    region: Region,
}

/// Regions of three conditions around random workloads, each of a thousandth to a hundredth of the space.
fn weaknesses(space: &Space, rng: &mut Pcg64) -> Vec<Weakness> {
    let random: Vec<Workload> = (0..4000).map(|_| space.sample(rng)).collect();
    let mut weaknesses = Vec::new();
    while weaknesses.len() < WEAKNESSES {
        let centre = &random[rng.random_range(0..random.len())];
        let conditions =
            (0..3).map(|_| condition(centre, Feature::ALL[rng.random_range(0..Feature::ALL.len())])).collect();
        let region = Region { conditions };
        let inside = random.iter().filter(|workload| region.contains(workload)).count();
        if (4..40).contains(&inside) {
            let symptom = if weaknesses.len() % 2 == 0 { Symptom::Pause } else { Symptom::LowThroughput };
            weaknesses.push(Weakness { symptom, region });
        }
    }
    weaknesses
}

fn condition(centre: &Workload, feature: Feature) -> Condition {
    let test = match centre.feature(feature) {
        FeatureValue::Number(value) => Test::Range { min: Some(value), max: None },
        FeatureValue::Category(word) => Test::In(vec![word]),
    };
    Condition { feature, test }
}

/// An oracle that stores what it answers, as a campaign does.
struct StoringOracle<'a> {
    store: &'a mut Store,
    id: CampaignId,
    bounds: Bounds,
    budget: u64,
    number: u64,
    skipped: u64,
    findings: u64,
    weaknesses: Vec<Weakness>,
    /// What the simulated subsystem measures of plain traffic.
    plain: Measurement,
    stored: Duration,
}

impl StoringOracle<'_> {
    fn symptoms(&self, workload: &Workload) -> Vec<Symptom> {
        let hit = self.weaknesses.iter().filter(|weakness| weakness.region.contains(workload));
        let mut symptoms: Vec<Symptom> = hit.map(|weakness| weakness.symptom).collect();
        symptoms.sort_unstable();
        symptoms.dedup();
        symptoms
    }

    /// Plain traffic with noise, and with what the symptoms look like.
    fn measurement(&self, workload: &Workload, symptoms: &[Symptom]) -> Measurement {
        let mut hasher = DefaultHasher::new();
        workload.hash(&mut hasher);
        let mut rng = Pcg64::seed_from_u64(hasher.finish());
        let mut measurement = self.plain.clone();
        let share = if symptoms.contains(&Symptom::LowThroughput) { rng.random_range(0.1..0.7) } else { 1.0 };
        let pause = if symptoms.contains(&Symptom::Pause) { rng.random_range(0.01..0.5) } else { 0.0 };
        let held =
            self.weaknesses.iter().map(|one| one.region.conditions.iter().filter(|part| part.holds(workload)).count());
        let heat: Vec<f64> = held.map(|held| 100_f64.powf(held as f64)).collect();
        for sample in &mut measurement.samples {
            for rates in &mut sample.directions {
                rates.wire_bps *= share * rng.random_range(0.98..1.0);
                rates.packets_per_sec *= share * rng.random_range(0.98..1.0);
            }
            let ratio = PauseRatios { tx: pause * rng.random_range(0.9..1.0), rx: 0.0 };
            sample.pause = Some(PerHost { a: ratio, b: PauseRatios { tx: 0.0, rx: ratio.tx } });
            for host in Host::BOTH {
                for (value, heat) in sample.counters.get_mut(host).values_mut().zip(heat.iter().cycle()) {
                    *value = heat * rng.random_range(0.95..1.0);
                }
            }
        }
        measurement
    }
}

impl Oracle for StoringOracle<'_> {
    type Error = ();

    fn measure(&mut self, workload: &Workload, purpose: Purpose) -> Result<Observation, ()> {
        if self.number >= self.budget {
            return Err(());
        }
        self.number += 1;
        let symptoms = self.symptoms(workload);
        let measurement = self.measurement(workload, &symptoms);
        let assessment = Assessment::of_symptoms(symptoms);
        let observation = Observation::new(workload, &measurement, assessment.clone(), &self.bounds);
        let experiment = Experiment {
            number: self.number,
            purpose: purpose.into(),
            skipped_before: std::mem::take(&mut self.skipped),
            workload: workload.clone(),
            outcome: ExperimentOutcome::Measured { measurement, assessment, attempts: 1 },
        };
        let clock = ExperimentClock {
            started_unix_ms: 1_700_000_000_000 + self.number.cast_signed() * 20,
            duration_seconds: 0.02,
        };
        let start = Instant::now();
        self.store.append_experiment(self.id, &experiment, clock).expect("room for it");
        self.stored += start.elapsed();
        Ok(observation)
    }

    fn skipped(&mut self, _: &Workload) {
        self.skipped += 1;
    }

    fn found(&mut self, number: u64, finding: &Finding) -> Result<(), ()> {
        self.findings = self.findings.max(number);
        self.store.put_finding(self.id, &FindingRecord::new(number, finding)).map_err(|error| panic!("{error}"))
    }
}

/// Writes a campaign of so many experiments, as if it had been stopped then; says how many findings it has, and how
/// long the search and the store took.
fn write(path: &Path, algorithm: Algorithm, experiments: u64) -> (u64, Duration, Duration) {
    let space = Space::catalog("full").expect("it is in the catalog");
    let mut subsystem = SimSubsystem::load("F").expect("it is embedded");
    let plain = subsystem.measure(&Workload::new(vec![Flow::plain(Host::A, Host::B)])).expect("plain traffic runs");
    let config = Config::new(algorithm, SignalSet::Both, 7);
    let definition = CampaignDefinition {
        kelpie_version: env!("CARGO_PKG_VERSION").to_owned(),
        subsystem: "sim:F".to_owned(),
        subsystem_source: subsystem.yaml(),
        bounds: subsystem.bounds(),
        space: "full".to_owned(),
        space_source: space.to_yaml(),
        algorithm: config.algorithm.to_string(),
        signal: config.signal.to_string(),
        seed: config.seed,
        config: serde_json::to_string(&config).expect("settings are JSON"),
        budget: Some(1 << 40),
    };
    let mut store = Store::create(path).expect("a new database");
    let (id, lock) = store.begin_campaign(&definition, &[]).expect("room for it");
    let mut recorder = StoringOracle {
        id,
        bounds: definition.bounds,
        budget: experiments,
        number: 0,
        skipped: 0,
        findings: 0,
        weaknesses: weaknesses(&space, &mut Pcg64::seed_from_u64(15)),
        plain,
        stored: Duration::ZERO,
        store: &mut store,
    };
    let start = Instant::now();
    kelpie_search::run(&space, &config, &mut recorder).expect_err("the budget ends it");
    let (findings, stored) = (recorder.findings, recorder.stored);
    drop(lock);
    (findings, start.elapsed().saturating_sub(stored), stored)
}

/// What a command took: seconds, and the most memory. Units: MiB.
struct Cost {
    seconds: f64,
    mib: f64,
}

/// Runs a command to its end, with its output thrown away.
fn cost(bench: &Bench, args: &[&str]) -> Cost {
    let mut command = bench.command(args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().expect("the binary starts");
    let mut kib = 0;
    // The peak is in /proc for as long as the process lives.
    let status = loop {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).and_then(|peak| peak.parse::<u64>().ok());
        kib = kib.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(matches!(status.code(), Some(0 | 1)), "{args:?}: {status}");
    Cost { seconds: start.elapsed().as_secs_f64(), mib: kib as f64 / 1024.0 }
}

/// Every command that reads a campaign.
const COMMANDS: [&[&str]; 14] = [
    &["campaign", "list"],
    &["campaign", "show", "1"],
    &["campaign", "show", "1", "--json"],
    &["campaign", "show", "1", "--json", "--experiments"],
    &["watch", "1", "--json"],
    &["mfs", "list"],
    &["mfs", "check", "w.yaml"],
    &["report", "1", "--out", "site"],
    &["diff", "1", "1", "--no-measure"],
    &["campaign", "export", "1", "--out", "csv"],
    &["campaign", "export", "1", "--format", "parquet", "--out", "parquet"],
    &["campaign", "baseline", "1", "--unexplained", "--out", "accepted.yaml"],
    &["campaign", "backup", "--out", "copy.db"],
    &["recipe", "export", "1.1", "--out", "recipe.tar.gz"],
];

/// Costs of all commands on a campaign of so many experiments.
fn costs(algorithm: Algorithm, experiments: u64) -> BTreeMap<String, Cost> {
    let bench = Bench::in_memory();
    bench.write("w.yaml", HEALTHY);
    let (findings, search, store) = write(&bench.path("k.db"), algorithm, experiments);
    println!("{algorithm}, {experiments} experiments, {findings} findings: search {search:.1?}, store {store:.1?}");
    if let Some(kept) = std::env::var_os("KELPIE_LARGE_KEEP") {
        std::fs::copy(bench.path("k.db"), kept).expect("room for a copy");
    }
    let commands = COMMANDS.iter().map(|args| (args.join(" "), [args, &["--db", "k.db"][..]].concat()));
    let more = (experiments + 1).to_string();
    let resume = ["campaign", "resume", "1", "--budget", &more, "--db", "k.db"];
    let commands = commands.chain([("campaign resume".to_owned(), resume.to_vec())]);
    let mut costs = BTreeMap::new();
    for (name, args) in commands {
        let cost = cost(&bench, &args);
        println!("{:8.2} s {:8.1} MiB  {name}", cost.seconds, cost.mib);
        costs.insert(name, cost);
    }
    costs
}

/// `KELPIE_LARGE` is how many experiments, and `KELPIE_LARGE_ALGORITHM` whose; the suite's own are few.
mod long {
    use super::*;

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn what_large_campaigns_cost() {
        let algorithm = std::env::var("KELPIE_LARGE_ALGORITHM").unwrap_or_else(|_| Algorithm::Kelpie.to_string());
        let algorithm = algorithm.parse().expect("KELPIE_LARGE_ALGORITHM is the name of an algorithm");
        let experiments = std::env::var("KELPIE_LARGE").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000);
        let over: Vec<String> = (costs(algorithm, experiments).iter())
            .filter(|(_, cost)| cost.mib > 200.0)
            .map(|(name, cost)| format!("{name}: {:.0} MiB", cost.mib))
            .collect();
        assert!(over.is_empty(), "over 200 MiB: {over:?}");
    }
}
