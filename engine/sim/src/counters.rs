//! What the simulated NIC counts, under the vendors' public names, and how an interval of it becomes a sample.

use std::collections::BTreeMap;

use kelpie_events::Picos;

/// Diagnostic counters of one host, since the start.
///
/// Source: the names follow the device diagnostics of NVIDIA's WinOF-2 manual and mlx5's `ethtool -S`; they count
/// events, and the stalls microseconds of stalled time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Diagnostics {
    /// Receive WQEs that were not on the NIC when a message needed them.
    pub receive_wqe_cache_miss: f64,
    /// QP contexts fetched from host memory.
    pub icm_cache_miss: f64,
    /// Translations fetched from host memory.
    pub l0_mtt_miss: f64,
    /// Scatter lists or request contexts that had to be fetched again.
    pub wqe_refetch: f64,
    /// Receive engine without PCIe write credits. Units: µs.
    pub pcie_internal_back_pressure: f64,
    /// Reads that waited for the path to memory. Units: µs.
    pub outbound_stalled_reads: f64,
    /// Writes that waited behind ordered requests. Units: µs.
    pub outbound_stalled_writes: f64,
    /// Receive engine waiting for packet processing. Units: µs.
    pub rxs_no_slow_path_credits: f64,
    /// Transmit turns whose gathered data had been given up.
    pub tx_staging_miss: f64,
    /// Datagrams without a receive WQE in time.
    pub rx_discards: f64,
}

impl Diagnostics {
    fn rows(&self) -> [(&'static str, f64); 10] {
        [
            ("receive_wqe_cache_miss", self.receive_wqe_cache_miss),
            ("icm_cache_miss", self.icm_cache_miss),
            ("l0_mtt_miss", self.l0_mtt_miss),
            ("wqe_refetch", self.wqe_refetch),
            ("pcie_internal_back_pressure", self.pcie_internal_back_pressure),
            ("outbound_stalled_reads", self.outbound_stalled_reads),
            ("outbound_stalled_writes", self.outbound_stalled_writes),
            ("rxs_no_slow_path_credits", self.rxs_no_slow_path_credits),
            ("tx_staging_miss", self.tx_staging_miss),
            ("rx_discards_phy", self.rx_discards),
        ]
    }

    /// Rates of the time since `before`.
    pub fn rates_since(&self, before: &Diagnostics, seconds: f64) -> BTreeMap<String, f64> {
        let rate = |((name, now), (_, then)): ((&str, f64), (&str, f64))| (name.to_owned(), (now - then) / seconds);
        self.rows().into_iter().zip(before.rows()).map(rate).collect()
    }
}

/// Traffic of one direction, since the start.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    pub payload_bytes: u64,
    pub wire_bytes: u64,
    pub packets: u64,
    pub messages: u64,
}

/// Time spent in a state that goes on and off.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spell {
    since: Option<Picos>,
    total: Picos,
}

impl Spell {
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    pub fn on(&mut self, now: Picos) {
        self.since.get_or_insert(now);
    }

    pub fn off(&mut self, now: Picos) {
        if let Some(since) = self.since.take() {
            self.total += now.saturating_sub(since);
        }
    }

    /// Time in the state until `now`.
    pub fn total(&self, now: Picos) -> Picos {
        self.total + self.since.map_or(Picos::ZERO, |since| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::counters;

    use super::*;

    #[test]
    fn every_counter_has_a_meaning() {
        for (name, _) in Diagnostics::default().rows() {
            assert!(counters::known(name).is_some(), "{name} has no row in the table of counters");
        }
    }
}
