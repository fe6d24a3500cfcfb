//! Subsystems that nobody built and nobody tuned for, as model files: what they may have, and what is broken on
//! purpose.

use std::fmt::Write as _;

use kelpie_sim::SimSubsystem;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Model whose structure every one has. Values below replace its own.
const BASE: &str = "F";

/// A number of a model that is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// Its path in a model.
    pub path: &'static str,
    /// The least value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
    /// Where both come from.
    pub source: &'static str,
}

const fn drawn(path: &'static str, low: f64, high: f64, source: &'static str) -> Drawn {
    Drawn { path, low, high, source }
}

/// Half a generation of NICs less than F, and most of one more: as [`crate::generate::DRAWN`].
const AROUND_F: &str = "F's value times 0.6 to 1.6, our choice as for calibrated NICs";
const F_AND_H: &str = "between the models F and H";
const MESSAGES: &str = "published measurements, sources 1 and 2";

/// Numbers that are drawn alone, evenly by their logarithms; those whose ends are whole are rounded.
pub const DRAWN: &[Drawn] = &[
    drawn("port.max_mpps", 118.0, 155.0, MESSAGES),
    drawn("port.link_delay_ns", 180.0, 480.0, AROUND_F),
    drawn("posting.doorbell_ns", 60.0, 180.0, "F; published measurements, sources 5 and 6"),
    drawn("posting.wqe_ns", 5.0, 13.0, AROUND_F),
    drawn("processing.wqe_ns", 12.0, 32.0, AROUND_F),
    drawn("processing.packet_ns", 13.0, 35.0, AROUND_F),
    drawn("processing.receive_packet_ns", 15.0, 40.0, AROUND_F),
    drawn("processing.response_kib_ns", 28.0, 75.0, AROUND_F),
    drawn("caches.translations.kib", 922.0, 2458.0, AROUND_F),
    drawn("caches.send_wqes.kib", 307.0, 819.0, AROUND_F),
    drawn("caches.receive_wqes.kib", 614.0, 1638.0, AROUND_F),
    drawn("caches.read_lists.kib", 24.0, 104.0, F_AND_H),
    drawn("caches.ring_pages.kib", 0.5, 1.5, F_AND_H),
    drawn("fetch.receive_ahead_lines", 4.0, 24.0, F_AND_H),
    drawn("fetch.inline_receives", 48.0, 512.0, F_AND_H),
    drawn("fetch.translation_misses", 29.0, 77.0, AROUND_F),
    drawn("fetch.receive_misses", 38.0, 102.0, AROUND_F),
    drawn("fetch.read_list_misses", 3.0, 5.0, F_AND_H),
    drawn("pcie.write_credit_kib", 32.0, 128.0, F_AND_H),
    drawn("host.interconnect_latency_ns", 50.0, 100.0, "Neugebauer et al., SIGCOMM 2018: 105 ns both ways; F"),
];

/// What goes together where contexts are used: for a turn of many packets, or anew for each of few packets, which takes
/// a cache for the QPs that alternate, and a context in one read.
const CONTEXTS: [(&[Drawn], [f64; 2]); 2] = [
    (
        &[
            drawn("processing.turn_packets", 16.0, 64.0, "F's value to a quarter of that, our choice"),
            drawn("caches.contexts.kib", 128.0, 512.0, "F's value to four times that, our choice"),
            drawn("fetch.send_misses", 4.0, 16.0, "F's value to four times that, our choice"),
        ],
        [4.0, 2.0],
    ),
    (
        &[
            drawn("processing.turn_packets", 1.0, 4.0, "H's value to four times that, our choice"),
            drawn("caches.contexts.kib", 1024.0, 4096.0, "H's value to a quarter of that, our choice"),
            drawn("fetch.send_misses", 16.0, 32.0, "H's value to half of that, our choice"),
        ],
        [1.0, 8.0],
    ),
];

/// Numbers that are drawn as factors of others, and what they become.
pub const DERIVED: &[Drawn] = &[
    drawn("pcie read, with memory (ns)", 500.0, 900.0, "F; Neugebauer et al., SIGCOMM 2018"),
    drawn("receive.xoff_kib, with xon and capacity", 115.0, 307.0, AROUND_F),
    drawn("host.interconnect_gbps over the line rate", 1.2, 1.5, F_AND_H),
    drawn("host.remote_memory_gbps over the line rate", 1.8, 3.0, F_AND_H),
];

/// Line rate and PCIe bandwidth. Units: Gbit/s. Source: Collie, Table 1; PCIe base specification 3.0 and 4.0, 16 lanes.
pub const PORTS: &[(f64, f64)] = &[(25.0, 126.0), (100.0, 126.0), (100.0, 252.0), (200.0, 252.0)];

/// Words, each half of the time. Source: the models F and H.
pub const WORDS: &[(&str, [&str; 2])] = &[
    ("fetch.when_busy", ["refuse", "wait"]),
    ("fetch.chain_wqes", ["63", "1000000"]),
    ("fetch.pushed_lines", ["0", "4"]),
    ("pcie.ordering", ["strict", "relaxed"]),
    ("host.acs_redirect", ["true", "false"]),
];

/// Caches of which one is far too small, [`SMALL`] times smaller than drawn.
pub const CACHES: [&str; 5] = [
    "caches.contexts.kib",
    "caches.translations.kib",
    "caches.send_wqes.kib",
    "caches.receive_wqes.kib",
    "caches.read_lists.kib",
];

/// Source: our choice, so that what fits on F does not.
pub const SMALL: f64 = 4.0;

/// Paths of which one is far too narrow: several times fewer misses at a time than drawn, or a serialised
/// pipeline.
pub const PATHS: [&str; 5] =
    ["fetch.send_misses", "fetch.receive_misses", "fetch.receive_wqe_misses", "fetch.read_list_misses", PIPELINE];

const PIPELINE: &str = "processing.pipeline_packet_ns";

/// A narrow path has so many times fewer misses on their way than drawn, at least one. Source: our choice; with one
/// alone, most workloads that miss at all are anomalous.
const NARROW: f64 = 8.0;

/// Part of the time of a packet of 512 B on the wire that a serialised pipeline takes: one direction fits, two do not.
const SERIALISED_PIPELINE: f64 = 0.7;

/// The model file that a seed draws; equal seeds give equal files.
pub fn model(seed: u64) -> String {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (line_rate, pcie) = PORTS[random.random_range(0..PORTS.len() as u64) as usize];
    let mut values: Vec<(String, String)> =
        vec![("port.line_rate_gbps".to_owned(), line_rate.to_string()), ("pcie.gbps".to_owned(), pcie.to_string())];
    let mut put = |path: &str, value: f64| values.push((path.to_owned(), rounded(value).to_string()));
    let small = CACHES[random.random_range(0..CACHES.len() as u64) as usize];
    let (of_contexts, [tables, lines]) = CONTEXTS[usize::from(random.random_bool(0.5))];
    put("caches.context_tables", tables);
    put("caches.context_lines", lines);
    for number in DRAWN.iter().chain(of_contexts) {
        let value = number.draw(&mut random);
        put(number.path, if number.path == small { value / SMALL } else { value });
    }
    let [read, xoff, interconnect, remote] = [0, 1, 2, 3].map(|index: usize| DERIVED[index].draw(&mut random));
    // As on F: two links and one access make a read, and the thresholds keep their ratio.
    put("pcie.link_latency_ns", read * 3.0 / 11.0);
    put("host.memory_latency_ns", read * 5.0 / 11.0);
    put("receive.xoff_kib", xoff);
    put("receive.xon_kib", xoff * 2.0 / 3.0);
    put("receive.capacity_kib", xoff * 8.0 / 3.0);
    put("host.interconnect_gbps", line_rate * interconnect);
    put("host.remote_memory_gbps", line_rate * remote);
    let serial = PATHS[random.random_range(0..PATHS.len() as u64) as usize];
    let wire_ns = 8.0 * 512.0 / line_rate;
    let drawn = values.iter().find(|(path, _)| path == serial).and_then(|(_, value)| value.parse().ok());
    let of_base = || SimSubsystem::load(BASE).ok().and_then(|model| model.number(serial));
    let misses = drawn.or_else(of_base).unwrap_or(1.0);
    let serialised = if serial == PIPELINE { wire_ns * SERIALISED_PIPELINE } else { (misses / NARROW).ceil() };
    values.retain(|(path, _)| path != serial);
    values.push((serial.to_owned(), rounded(serialised).to_string()));
    if serial == PIPELINE {
        // A bound that no traffic reaches would make all short packets anomalous.
        let most = 1e3 / serialised;
        let drawn = values.iter_mut().filter(|(path, _)| path == "port.max_mpps");
        drawn.for_each(|(_, value)| {
            *value = rounded(value.parse::<f64>().map_or(most, |drawn| drawn.min(most))).to_string();
        });
    }
    for (path, words) in WORDS {
        values.push(((*path).to_owned(), words[usize::from(random.random_bool(0.5))].to_owned()));
    }
    let mut text = format!(
        "# Drawn by `kelpie subsystem generate --seed {seed}`; docs/reference/generated-subsystems.md has the ranges.\n\
         kelpie: model/2\nname: generated-{seed}\n\
         description: drawn with seed {seed}, with {small} far too small and {serial} far too narrow\nbase: {BASE}\n"
    );
    write_tree(&mut text, values);
    // What mends an anomaly of F mends none here.
    text.push_str("fixes: {3: null, 11: null, 12: null}\n");
    text
}

impl Drawn {
    fn draw(&self, random: &mut impl Rng) -> f64 {
        let value = random.random_range(self.low.ln()..self.high.ln()).exp();
        if self.low.fract() == 0.0 && self.high.fract() == 0.0 { value.round() } else { value }
    }
}

/// With two digits after the point at most.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Values by their paths, as YAML with two spaces for each level.
fn write_tree(text: &mut String, mut values: Vec<(String, String)>) {
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
pub fn table() -> String {
    let mut text = "| parameter | least | largest | source |\n|---|---|---|---|\n".to_owned();
    let ports: Vec<String> = PORTS.iter().map(|(line, pcie)| format!("{line} with {pcie}")).collect();
    let _ = writeln!(
        text,
        "| `port.line_rate_gbps` with `pcie.gbps` | {} | | Collie, Table 1; PCIe base specification 3.0 and 4.0, x16 |",
        ports.join(", ")
    );
    let of_contexts = CONTEXTS.iter().flat_map(|(numbers, _)| *numbers);
    for Drawn { path, low, high, source } in DRAWN.iter().chain(of_contexts).chain(DERIVED) {
        let _ = writeln!(text, "| `{path}` | {low} | {high} | {source} |");
    }
    for (path, words) in WORDS {
        let _ = writeln!(text, "| `{path}` | {} or {} | | the models F and H |", words[0], words[1]);
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
            let value = |path: &str| drawn.number(path).expect("a number of every model");
            let description = text.lines().find(|line| line.starts_with("description")).expect("it has one");
            let is_named = |path: &str| description.contains(path);
            let of_contexts = CONTEXTS[usize::from(value("caches.context_tables") < 2.0)].0;
            for number in DRAWN.iter().chain(of_contexts) {
                let is_held_down = number.path == "port.max_mpps" && is_named(PIPELINE);
                let is_in_range = value(number.path) <= number.high && value(number.path) >= number.low;
                let divisor = if CACHES.contains(&number.path) { SMALL } else { NARROW };
                let broken = (number.low / divisor - 0.01)..=(number.high / divisor).ceil();
                let is_broken = is_named(number.path) && broken.contains(&value(number.path));
                assert!(is_in_range || is_held_down || is_broken, "seed {seed}: {number:?} {}", value(number.path));
            }
            let both = CACHES.iter().chain(&PATHS).filter(|path| is_named(path));
            let both: Vec<&str> = both.copied().collect();
            assert_eq!(both.len(), 2, "seed {seed}: {both:?}");
            for path in both.iter().filter(|path| **path != PIPELINE && !path.starts_with("caches")) {
                assert!(value(path) <= (102.0 / NARROW).ceil(), "seed {seed}: {path}");
            }
            broken.extend(both);
        }
        assert!(CACHES.iter().chain(&PATHS).all(|path| broken.contains(path)), "{broken:?}");
        assert_eq!(model(7), model(7));
        assert_ne!(model(7), model(8));
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
        let page = include_str!("../../../docs/reference/generated-subsystems.md");
        assert!(page.contains(&table()), "docs/reference/generated-subsystems.md must contain:\n{}", table());
    }
}
