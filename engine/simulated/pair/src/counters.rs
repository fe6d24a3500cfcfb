//! What the simulated NIC counts, under the vendors' public names, and how an interval of it becomes a sample.

use std::collections::BTreeMap;

use kelpie_nic::nic::{Nic, Tally};

/// Counted events of a NIC since the start, under the vendors' public names.
///
/// Source: the names follow the device diagnostics of NVIDIA's WinOF-2 manual and mlx5's `ethtool -S`.
fn rows(nic: &Nic) -> [(&'static str, u64); 9] {
    // Each is named, so that the compiler asks for the public name of a new one, or for who else reads it.
    let Tally {
        context_misses,
        translation_misses,
        wqe_refetches,
        receive_wqe_misses,
        no_receive,
        scatter_misses,
        refused: _, // for what limits a run
        not_ready,
        naks,
        timeouts: _, // for whether traffic goes on
        write_waits,
        packets: _, // for how long a sample has to be
        lost,
        unused: _, // for tests of conservation
    } = nic.tally();
    [
        ("receive_wqe_cache_miss", receive_wqe_misses),
        ("icm_cache_miss", context_misses),
        ("l0_mtt_miss", translation_misses),
        ("wqe_refetch", wqe_refetches + scatter_misses),
        ("pcie_internal_back_pressure", write_waits),
        ("rnr_naks_sent", not_ready),
        ("out_of_sequence", naks),
        ("rx_discards_phy", lost),
        ("out_of_buffer", no_receive),
    ]
}

/// What a NIC has counted at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Diagnostics([(&'static str, u64); 9]);

impl Diagnostics {
    /// What it has counted so far.
    pub fn of(nic: &Nic) -> Self {
        Self(rows(nic))
    }

    /// Rates of the time since `before`.
    pub fn rates_since(&self, before: &Diagnostics, seconds: f64) -> BTreeMap<String, f64> {
        let rate = |((name, now), (_, then)): (&(&str, u64), &(&str, u64))| {
            ((*name).to_owned(), (now - then) as f64 / seconds)
        };
        self.0.iter().zip(&before.0).map(rate).collect()
    }
}

/// Traffic of one direction, since the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrafficCounters {
    pub payload_bytes: u64,
    pub wire_bytes: u64,
    pub packets: u64,
    pub messages: u64,
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::counters;

    use super::*;
    use crate::model::Model;
    use crate::pair::{Queues, SimulatedPair};
    use crate::rings::Rings;

    #[test]
    fn every_counter_has_a_meaning_and_is_counted() {
        let model = Model::load("F").expect("embedded");
        let workload = kelpie_spaces::known::anomaly(1).expect("18 anomalies").trigger.workload();
        let pair = SimulatedPair::new(
            &model,
            Rings::new(&model, &workload).expect("F has this memory"),
            &[Queues::default(); 2],
        );
        let rows = rows(&pair.nics[0]);
        for (name, _) in rows {
            assert!(counters::known(name).is_some(), "{name} has no row in the table of counters");
        }
        let is_simulated = |row: &&counters::Counter| row.source.contains("device diagnostics");
        for row in counters::TABLE.iter().filter(is_simulated) {
            let is_counted = row.name == counters::TIMEOUTS || rows.iter().any(|(name, _)| *name == row.name);
            assert!(is_counted, "no simulated NIC counts {}", row.name);
        }
    }
}
