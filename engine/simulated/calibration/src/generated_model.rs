//! Subsystems that nobody built and nobody tuned for, as model files: what they may have, and what is broken on
//! purpose.

use std::fmt::Write as _;

use kelpie_sim::SimSubsystem;
use kelpie_sim::parameters::Parameter::{
    Capacity, Interconnect, LineRate, LinkLatency, MaxMpps, MemoryLatency, Pcie, RemoteMemory, Xoff, Xon,
};
use kelpie_sim::parameters::{Breakage, DrawRange, Drawn, Parameter, TABLE};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Model whose structure every one has. Values below replace its own.
const BASE: &str = "F";

/// Line rate and PCIe bandwidth. Units: Gbit/s. Source: Collie, Table 1; PCIe base specification 3.0 and 4.0, 16 lanes.
const PORTS: &[(f64, f64)] = &[(25.0, 126.0), (100.0, 126.0), (100.0, 252.0), (200.0, 252.0)];

/// The cache that is too small is so many times smaller than drawn. Source: our choice, so that what fits on F does
/// not.
const SMALL: f64 = 4.0;

/// A narrow path has so many times fewer misses on their way than drawn, at least one. Source: our choice; with one
/// alone, most workloads that miss at all are anomalous.
const NARROW: f64 = 8.0;

/// Part of the time of a packet of 512 B on the wire that a serialised pipeline takes: one direction fits, two do not.
const SERIALISED_PIPELINE: f64 = 0.7;

/// Numbers that are drawn alone, evenly by their logarithms.
fn alone() -> impl Iterator<Item = (Parameter, DrawRange)> {
    TABLE.iter().filter_map(|row| match row.drawn {
        Drawn::Alone(draw) => Some((row.parameter, draw)),
        _ => None,
    })
}

/// Parameters with the ranges from which they are drawn.
type Ranges = Vec<(Parameter, DrawRange)>;

/// What goes together where contexts are used: for a turn of many packets, or anew for each of few packets, which takes
/// a cache for the QPs that alternate, and a context in one read. First what is drawn, then what is not left to chance.
fn of_contexts(is_few: bool) -> (Ranges, Vec<(Parameter, f64)>) {
    let (mut ranges, mut fixed) = (Vec::new(), Vec::new());
    for row in TABLE {
        match row.drawn {
            Drawn::ByContexts(both) => ranges.push((row.parameter, both[usize::from(is_few)])),
            Drawn::OfContexts(numbers) => fixed.push((row.parameter, numbers[usize::from(is_few)])),
            _ => (),
        }
    }
    (ranges, fixed)
}

/// What is drawn so that a parameter follows from it: its name, and its range.
fn origin(parameter: Parameter) -> (&'static str, DrawRange) {
    match parameter.row().drawn {
        Drawn::From(name, draw) => (name, draw),
        _ => unreachable!("{parameter} follows from a number that is drawn"),
    }
}

/// Parameters that follow from numbers, in the order in which those are drawn.
const DERIVED: [Parameter; 4] = [LinkLatency, Xoff, Interconnect, RemoteMemory];

/// Words with their two choices, each half of the time, in the order in which they are drawn.
fn words() -> Vec<(Parameter, [&'static str; 2])> {
    let mut words: Vec<_> = (TABLE.iter())
        .filter_map(|row| match row.drawn {
            Drawn::Either { turn, words } => Some((turn, row.parameter, words)),
            _ => None,
        })
        .collect();
    words.sort_unstable();
    words.into_iter().map(|(_, parameter, words)| (parameter, words)).collect()
}

fn broken(how: Breakage) -> impl Iterator<Item = Parameter> {
    TABLE.iter().filter(move |row| row.broken == Some(how)).map(|row| row.parameter)
}

/// Caches of which one is far too small.
fn caches() -> Vec<Parameter> {
    broken(Breakage::Small).collect()
}

/// Paths of which one is far too narrow: several times fewer misses at a time than drawn, or a serialised pipeline.
fn paths() -> Vec<Parameter> {
    broken(Breakage::Narrow).chain(broken(Breakage::Serialised)).collect()
}

/// One of some, with even chances.
fn one_of<T: Copy>(all: &[T], random: &mut impl Rng) -> T {
    all[random.random_range(0..all.len() as u64) as usize]
}

/// What a seed draws.
struct DrawnValues {
    /// Each parameter that differs from the base.
    all: Vec<(Parameter, String)>,
    /// The cache that is too small.
    small: Parameter,
    /// The path that is too narrow.
    narrow: Parameter,
}

fn values(seed: u64) -> DrawnValues {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (line_rate, pcie) = one_of(PORTS, &mut random);
    let mut values: Vec<(Parameter, String)> = vec![(LineRate, line_rate.to_string()), (Pcie, pcie.to_string())];
    let mut put = |parameter: Parameter, value: f64| values.push((parameter, rounded(value).to_string()));
    let small = one_of(&caches(), &mut random);
    let (drawn, fixed) = of_contexts(random.random_bool(0.5));
    for (parameter, value) in fixed {
        put(parameter, value);
    }
    for (parameter, range) in alone().chain(drawn) {
        let value = draw(&range, &mut random);
        put(parameter, if parameter == small { value / SMALL } else { value });
    }
    let [read, xoff, interconnect, remote] = DERIVED.map(|parameter| draw(&origin(parameter).1, &mut random));
    // As on F: two links and one access make a read, and the thresholds keep their ratio.
    put(LinkLatency, read * 3.0 / 11.0);
    put(MemoryLatency, read * 5.0 / 11.0);
    put(Xoff, xoff);
    put(Xon, xoff * 2.0 / 3.0);
    put(Capacity, xoff * 8.0 / 3.0);
    put(Interconnect, line_rate * interconnect);
    put(RemoteMemory, line_rate * remote);
    let narrow = one_of(&paths(), &mut random);
    narrow_down(&mut values, narrow, line_rate);
    for (parameter, words) in words() {
        values.push((parameter, words[usize::from(random.random_bool(0.5))].to_owned()));
    }
    DrawnValues { all: values, small, narrow }
}

/// Makes one path far too narrow for a port.
fn narrow_down(values: &mut Vec<(Parameter, String)>, path: Parameter, line_rate: f64) {
    let drawn = values.iter().find(|(parameter, _)| *parameter == path).and_then(|(_, value)| value.parse().ok());
    let of_base = || SimSubsystem::load(BASE).ok().and_then(|model| model.number(path.path()));
    let misses = drawn.or_else(of_base).unwrap_or(1.0);
    let wire_ns = 8.0 * 512.0 / line_rate;
    let is_serialised = path.row().broken == Some(Breakage::Serialised);
    let narrow = if is_serialised { wire_ns * SERIALISED_PIPELINE } else { (misses / NARROW).ceil() };
    values.retain(|(parameter, _)| *parameter != path);
    values.push((path, rounded(narrow).to_string()));
    if is_serialised {
        // A bound that no traffic reaches would make all short packets anomalous.
        let most = 1e3 / narrow;
        let drawn = values.iter_mut().filter(|(parameter, _)| *parameter == MaxMpps);
        drawn.for_each(|(_, value)| {
            *value = rounded(value.parse::<f64>().map_or(most, |drawn| drawn.min(most))).to_string();
        });
    }
}

/// The model file that a seed draws; equal seeds give equal files.
pub fn model(seed: u64) -> String {
    let DrawnValues { all, small, narrow } = values(seed);
    let mut text = format!(
        "# Drawn by `kelpie subsystem generate --seed {seed}`; docs/reference/generated-subsystems.md has the ranges.\n\
         kelpie: model/2\nname: generated-{seed}\n\
         description: drawn with seed {seed}, with {small} far too small and {narrow} far too narrow\nbase: {BASE}\n"
    );
    write_tree(&mut text, all.into_iter().map(|(parameter, value)| (parameter.path(), value)).collect());
    // What mends an anomaly of F mends none here.
    text.push_str("fixes: {3: null, 11: null, 12: null}\n");
    text
}

/// A number of a range, evenly by its logarithm; one whose ends are whole is rounded.
fn draw(range: &DrawRange, random: &mut impl Rng) -> f64 {
    let value = random.random_range(range.low.ln()..range.high.ln()).exp();
    if range.low.fract() == 0.0 && range.high.fract() == 0.0 { value.round() } else { value }
}

/// With two digits after the point at most.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Values by their paths, as YAML with two spaces for each level.
fn write_tree(text: &mut String, mut values: Vec<(&str, String)>) {
    values.sort();
    let mut open: Vec<String> = Vec::new();
    for (path, value) in values {
        let keys: Vec<&str> = path.split('.').collect();
        let same = keys[..keys.len() - 1].iter().zip(&open).take_while(|(key, open)| key == open).count();
        open.truncate(same);
        for key in &keys[same..keys.len() - 1] {
            let _ = writeln!(text, "{}{key}:", "  ".repeat(open.len()));
            open.push((*key).to_owned());
        }
        let _ = writeln!(text, "{}{}: {value}", "  ".repeat(open.len()), keys[keys.len() - 1]);
    }
}

/// What is drawn, and from where, as a table in Markdown.
#[cfg(test)]
fn table() -> String {
    let mut text = "| parameter | least | largest | source |\n|---|---|---|---|\n".to_owned();
    let ports: Vec<String> = PORTS.iter().map(|(line, pcie)| format!("{line} with {pcie}")).collect();
    let _ = writeln!(
        text,
        "| `port.line_rate_gbps` with `pcie.gbps` | {} | | Collie, Table 1; PCIe base specification 3.0 and 4.0, x16 |",
        ports.join(", ")
    );
    let of_contexts = [false, true].into_iter().flat_map(|is_few| of_contexts(is_few).0);
    let named = alone().chain(of_contexts).map(|(parameter, draw)| (parameter.path(), draw));
    for (name, DrawRange { low, high, source }) in named.chain(DERIVED.map(origin)) {
        let _ = writeln!(text, "| `{name}` | {low} | {high} | {source} |");
    }
    for (parameter, words) in words() {
        let _ = writeln!(text, "| `{parameter}` | {} or {} | | the models F and H |", words[0], words[1]);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kelpie_engine::Subsystem as _;
    use kelpie_monitor::{Verdict, assess};
    use kelpie_spaces::{Opcode, Space};

    use super::*;
    use crate::traffic::Traffic;

    fn load(seed: u64) -> SimSubsystem {
        SimSubsystem::from_yaml(&format!("generated-{seed}"), &model(seed)).expect("it fits the format")
    }

    #[test]
    fn every_model_loads_with_each_number_in_its_range_but_the_two_that_it_names() {
        let mut broken = BTreeSet::new();
        for seed in 0..200 {
            let (drawn, text) = (load(seed), model(seed));
            let value = |parameter: Parameter| drawn.number(parameter.path()).expect("a number of every model");
            let description = text.lines().find(|line| line.starts_with("description")).expect("it has one");
            let is_named = |parameter: Parameter| description.contains(parameter.path());
            let of_contexts = of_contexts(value(Parameter::ContextTables) < 2.0).0;
            for (parameter, range) in alone().chain(of_contexts) {
                let is_held_down = parameter == MaxMpps && is_named(Parameter::PipelinePacket);
                let is_in_range = value(parameter) <= range.high && value(parameter) >= range.low;
                let divisor = if parameter.row().broken == Some(Breakage::Small) { SMALL } else { NARROW };
                let broken = (range.low / divisor - 0.01)..=(range.high / divisor).ceil();
                let is_broken = is_named(parameter) && broken.contains(&value(parameter));
                assert!(is_in_range || is_held_down || is_broken, "seed {seed}: {parameter} {}", value(parameter));
            }
            let both: Vec<Parameter> = caches().into_iter().chain(paths()).filter(|one| is_named(*one)).collect();
            assert_eq!(both.len(), 2, "seed {seed}: {both:?}");
            for parameter in both.iter().filter(|one| one.row().broken == Some(Breakage::Narrow)) {
                assert!(value(*parameter) <= (102.0 / NARROW).ceil(), "seed {seed}: {parameter}");
            }
            broken.extend(both);
        }
        assert!(caches().iter().chain(&paths()).all(|one| broken.contains(one)), "{broken:?}");
        assert_eq!(model(7), model(7));
        assert_ne!(model(7), model(8));
    }

    #[test]
    fn what_the_table_draws_is_in_the_file_and_nothing_else() {
        let mut written = BTreeSet::new();
        for seed in 0..50 {
            let of_seed: BTreeSet<Parameter> = values(seed).all.into_iter().map(|(parameter, _)| parameter).collect();
            for row in TABLE {
                let has = of_seed.contains(&row.parameter);
                assert!(has || matches!(row.drawn, Drawn::No(_)), "seed {seed} leaves {} out", row.path);
            }
            written.extend(of_seed);
        }
        let drawn: BTreeSet<Parameter> = (TABLE.iter())
            .filter(|row| !matches!(row.drawn, Drawn::No(_)) || row.broken.is_some())
            .map(|row| row.parameter)
            .collect();
        assert_eq!(written, drawn);
    }

    #[test]
    fn every_model_can_be_measured_and_plain_traffic_is_healthy() {
        let space = Space::catalog("full").expect("in the catalog");
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for seed in 1000..1010 {
            let mut drawn = load(seed);
            let plain = Traffic::new(Opcode::Write, 65_536, 8).workload().expect("valid");
            let judged = assess(&plain, &drawn.bounds(), &drawn.measure(&plain).expect("it runs"));
            assert_eq!(judged.verdict, Verdict::Healthy, "seed {seed}: {judged:?}");
            assert_eq!(drawn.unreached(), [], "seed {seed}");
            drawn.measure(&space.sample(&mut random)).expect("it runs");
        }
    }

    #[test]
    fn the_page_has_the_table() {
        let page = include_str!("../../../../docs/reference/generated-subsystems.md");
        assert!(page.contains(&table()), "docs/reference/generated-subsystems.md must contain:\n{}", table());
    }
}
