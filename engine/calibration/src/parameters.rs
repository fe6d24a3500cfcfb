//! The physical parameters that a fit may change: where they stand in a model, and how far they may go. No values.

use kelpie_sim::SimSubsystem;
use serde::Serialize;

use crate::CalibrationError;

/// A physical parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parameter {
    /// Its path in a model, by which it is called.
    pub path: &'static str,
    /// What it is.
    pub phrase: &'static str,
    /// The unit of its value; empty for a count.
    pub unit: &'static str,
    /// Other values of the model that keep their ratio to it.
    pub along: &'static [&'static str],
    /// Whether it is a count.
    pub is_count: bool,
}

/// Factors of the base's value between which values are looked for. Source: our choice, because generations of NICs
/// differ by two, and a base of another generation should do.
pub const FACTORS: [f64; 2] = [0.2, 5.0];

const fn rate(path: &'static str, phrase: &'static str, unit: &'static str) -> Parameter {
    Parameter { path, phrase, unit, along: &[], is_count: false }
}

const fn count(path: &'static str, phrase: &'static str) -> Parameter {
    Parameter { path, phrase, unit: "", along: &[], is_count: true }
}

/// All of them, in the order in which a fit begins: what hides others first.
///
/// Left out is what simple traffic does not show. The latencies of PCIe and memory always come as a read, two ways and
/// an access, so they change together. `processing.segment_ns` and `processing.receive_message_ns` only show in sums
/// with others; `processing.units` and `slots`, `receive.slots` and `pcie.tags` cover the rates of healthy NICs.
pub const PARAMETERS: [Parameter; 17] = [
    rate("port.line_rate_gbps", "line rate", "Gbit/s"),
    rate("pcie.gbps", "PCIe bandwidth", "Gbit/s"),
    rate("port.max_mpps", "packet rate of the port", "Mpackets/s"),
    Parameter { along: &["host.memory_latency_ns"], ..rate("pcie.link_latency_ns", "PCIe latency, with memory", "ns") },
    rate("port.link_delay_ns", "delay of the wire", "ns"),
    rate("processing.packet_ns", "unit, each packet sent", "ns"),
    rate("processing.wqe_ns", "unit, each work request", "ns"),
    rate("processing.receive_packet_ns", "unit, each packet received", "ns"),
    rate("processing.response_kib_ns", "KiB of a READ response", "ns"),
    rate("processing.pipeline_packet_ns", "pipeline, each packet", "ns"),
    rate("posting.doorbell_ns", "posting, each call", "ns"),
    rate("posting.wqe_ns", "posting, each work request", "ns"),
    count("processing.max_reads", "READs on their way per QP"),
    count("fetch.send_misses", "reads of missing lines on their way"),
    rate("caches.contexts.kib", "cache of QP contexts", "KiB"),
    rate("caches.translations.kib", "cache of translations", "KiB"),
    Parameter {
        along: &["receive.xon_kib", "receive.capacity_kib"],
        ..rate("receive.xoff_kib", "PFC threshold XOFF, with XON", "KiB")
    },
];

/// Finds parameters by their paths; all if none is named.
///
/// # Errors
/// Names the first path that is no parameter.
pub fn named(paths: &[String]) -> Result<Vec<Parameter>, CalibrationError> {
    if let Some(unknown) = paths.iter().find(|path| PARAMETERS.iter().all(|known| known.path != path.as_str())) {
        let known = PARAMETERS.map(|parameter| parameter.path).join(", ");
        return Err(CalibrationError::NoParameter { path: unknown.chars().take(100).collect(), known });
    }
    let is_asked = |parameter: &&Parameter| paths.is_empty() || paths.iter().any(|path| path == parameter.path);
    Ok(PARAMETERS.iter().filter(is_asked).copied().collect())
}

/// A parameter with what a base says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Based {
    /// The parameter.
    pub parameter: Parameter,
    /// The base's value.
    pub base: f64,
    along: Vec<(&'static str, f64)>,
}

impl Parameter {
    /// The parameter over a base.
    pub fn over(&self, base: &SimSubsystem) -> Based {
        let number = |path: &str| base.number(path).expect("every model has all parameters, which a test checks");
        let along = self.along.iter().map(|path| (*path, number(path))).collect();
        Based { parameter: *self, base: number(self.path), along }
    }
}

impl Based {
    /// The base's value times e to `log`, as a model takes it.
    pub fn value(&self, log: f64) -> f64 {
        let value = self.base * log.exp();
        if self.parameter.is_count { value.round().max(1.0) } else { value }
    }

    /// The logarithm of the value that a model takes.
    pub fn snapped(&self, log: f64) -> f64 {
        (self.value(log) / self.base).ln()
    }

    /// Paths and numbers of a model in which the parameter has this value.
    pub fn settings(&self, value: f64) -> impl Iterator<Item = (&'static str, f64)> {
        let along = self.along.iter().map(move |(path, number)| (*path, number * value / self.base));
        std::iter::once((self.parameter.path, value)).chain(along)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_each_and_takes_it_at_both_ends_of_its_range() {
        for name in SimSubsystem::names() {
            let model = SimSubsystem::load(name).expect("embedded");
            for parameter in PARAMETERS {
                let based = parameter.over(&model);
                assert!(based.base > 0.0, "{name} {}", parameter.path);
                for factor in FACTORS {
                    let settings: Vec<(&str, f64)> = based.settings(based.value(factor.ln())).collect();
                    assert!(model.clone().set_numbers(&settings).is_ok(), "{name} {} {factor}", parameter.path);
                }
            }
        }
    }

    #[test]
    fn names_choose_and_unknown_ones_are_refused() {
        assert_eq!(named(&[]).expect("all").len(), PARAMETERS.len());
        let two = ["receive.xoff_kib", "pcie.gbps"].map(str::to_owned);
        let paths: Vec<&str> = named(&two).expect("two").iter().map(|parameter| parameter.path).collect();
        assert_eq!(paths, ["pcie.gbps", "receive.xoff_kib"]);
        let error = named(&["pcie.gpbs".to_owned()]).expect_err("a typing mistake").to_string();
        assert!(error.contains("pcie.gpbs") && error.contains("pcie.gbps"), "{error}");
    }

    #[test]
    fn counts_are_whole_and_thresholds_keep_their_ratio() {
        let model = SimSubsystem::load("F").expect("embedded");
        let reads = named(&["processing.max_reads".to_owned()]).expect("known")[0].over(&model);
        let counts = [0.7, 1e-9].map(|factor: f64| reads.value(factor.ln()) as u32);
        assert_eq!(counts, [11, 1]);
        let xoff: Vec<(&str, f64)> = PARAMETERS[16].over(&model).settings(96.0).collect();
        assert_eq!(xoff, [("receive.xoff_kib", 96.0), ("receive.xon_kib", 64.0), ("receive.capacity_kib", 256.0)]);
    }
}
