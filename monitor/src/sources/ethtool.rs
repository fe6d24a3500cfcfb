//! Counters of a network interface's driver, as `ethtool -S` lists them.

use std::path::PathBuf;

use below_ethtool::{Ethtool, EthtoolReadable};

use super::{CounterSource, Reading, SourceError};
use crate::machine::Machine;

/// What the names of these counters begin with: RDMA devices and their interfaces have counters of the same name.
pub const PREFIX: &str = "ethtool.";

/// Most counters that are kept. Source: our choice, because drivers have some hundred that are not of one queue.
const MOST: usize = 2_048;

/// The driver's counters, without those of single queues: RDMA traffic does not pass these.
pub struct EthtoolSource {
    netdev: String,
    origin: Origin,
}

enum Origin {
    Kernel(Ethtool),
    File(PathBuf),
}

impl EthtoolSource {
    /// The counters of `netdev`; `None` if the kernel cannot be asked.
    pub fn new(machine: &Machine, netdev: &str) -> Option<Self> {
        let origin = if machine.is_live() {
            Origin::Kernel(Ethtool::new(netdev).ok()?)
        } else {
            Origin::File(machine.path(&format!("ethtool/{netdev}")))
        };
        Some(Self { netdev: netdev.to_owned(), origin })
    }

    fn counters(&self) -> Option<Vec<(String, u64)>> {
        match &self.origin {
            Origin::Kernel(ethtool) => ethtool.stats().ok(),
            Origin::File(path) => Some(parse(&std::fs::read_to_string(path).ok()?)),
        }
    }
}

impl CounterSource for EthtoolSource {
    fn read(&mut self) -> Result<Reading, SourceError> {
        let counters = self.counters().ok_or_else(|| SourceError::Driver { netdev: self.netdev.clone() })?;
        let kept = counters.into_iter().filter(|(name, _)| !is_of_one_queue(name.trim()));
        Ok(kept.take(MOST).map(|(name, value)| (format!("{PREFIX}{}", name.trim()), value)).collect())
    }
}

/// What `ethtool -S` prints.
fn parse(text: &str) -> Vec<(String, u64)> {
    let line = |line: &str| {
        let (name, value) = line.rsplit_once(':')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// Whether a counter is of one queue, ring or channel.
///
/// Source: kernel drivers; mlx5 `rx3_packets`, `ch3_poll`, `ptp_tx0_packets`, `qos_tx1_bytes`; bnxt `[3]: rx_drops`;
/// ice and virtio `rx_queue_3_bytes`; i40e `rx-3.rx_packets`; hns3 `txq3_bytes`; ionic and mana `rx_3_bytes`. Not
/// `rx_64_bytes_phy`, qede's `rx_64_byte_packets`, `rx_prio3_pause`.
fn is_of_one_queue(name: &str) -> bool {
    const BEFORE_NUMBER: [&str; 18] = [
        "[",
        "rx",
        "tx",
        "ch",
        "ptp_rx",
        "ptp_tx",
        "ptp_ch",
        "qos_rx",
        "qos_tx",
        "xsk_rx",
        "xsk_tx",
        "rx_queue_",
        "tx_queue_",
        "queue_",
        "rx-",
        "tx-",
        "rxq",
        "txq",
    ];
    // Sizes of packets have a number in the same place.
    let is_size = name.ends_with("_phy") || name.contains("_byte_");
    let mut of_number = ["rx_", "tx_"].into_iter().filter_map(|start| name.strip_prefix(start)?.split_once('_'));
    if of_number.any(|(number, _)| number.parse::<u32>().is_ok()) && !is_size {
        return true;
    }
    BEFORE_NUMBER
        .iter()
        .filter_map(|start| name.strip_prefix(start))
        .any(|rest| rest.starts_with(|character: char| character.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_single_queues_are_left_out() {
        for (name, expected) in [
            ("rx3_packets", true),
            ("ch12_poll", true),
            ("[3]: rx_ucast_packets", true),
            ("rx_queue_0_bytes", true),
            ("rx-3.rx_packets", true),
            ("txq3_bytes", true),
            ("rx_64_bytes_phy", false),
            ("rx_64_byte_packets", false),
            ("rx_65_to_127_byte_packets", false),
            ("rx_1024_to_1518_bytes_phy", false),
            ("rx_12_bytes", true),
            ("tx_0_hwstamp_valid", true),
            ("tx_pripause_3_1us_count", false),
            ("hc_tc3_tx_pause_phy", false),
            ("rx_prio3_pause_duration", false),
            ("rx_packets", false),
            ("tx_priority_3_xoff.nic", false),
            ("chained", false),
            ("", false),
        ] {
            assert_eq!(is_of_one_queue(name), expected, "{name}");
        }
    }

    #[test]
    fn what_ethtool_prints_is_read_and_what_is_no_number_is_missing() {
        let text = "NIC statistics:\n     rx_packets: 12\n     [0]: rx_drops: 4\n     tx_ppp0_frames         : 7\n     \
                    odd: x\n     minus: -1\n";
        let read: Vec<(String, u64)> = parse(text);
        let expected = [("rx_packets", 12), ("[0]: rx_drops", 4), ("tx_ppp0_frames", 7)];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
