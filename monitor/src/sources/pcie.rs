//! PCIe of a NIC: errors that were reported (AER) and the state of its link.

use super::{CounterSource, Reading, SourceError};
use crate::machine::{Machine, PciFunction, pci_path};

/// Lanes of the NIC's link, now. A level, not a count.
pub const LINK_WIDTH: &str = "pci.link_width";

/// Transfers of each lane, now. A level, not a count. Units: million per second.
pub const LINK_MEGATRANSFERS: &str = "pci.link_megatransfers";

/// Files of error counts with what their counters are called. Source: kernel `Documentation/ABI/testing/
/// sysfs-bus-pci-devices-aer_stats`.
const AER: [(&str, &str); 3] = [
    ("aer_dev_correctable", "pci.aer_correctable."),
    ("aer_dev_nonfatal", "pci.aer_nonfatal."),
    ("aer_dev_fatal", "pci.aer_fatal."),
];

/// Most lines of such a file that are read. Source: our choice, because the specification has 26 errors.
const MOST_LINES: usize = 64;

/// The NIC's own function; what its upstream port saw is not read.
#[derive(Debug, Clone)]
pub struct PcieSource {
    machine: Machine,
    directory: String,
}

impl PcieSource {
    /// The function in this directory of sysfs.
    pub fn new(machine: &Machine, directory: &str) -> Self {
        Self { machine: machine.clone(), directory: directory.to_owned() }
    }
}

impl CounterSource for PcieSource {
    fn read(&mut self) -> Result<Reading, SourceError> {
        let mut reading = Reading::new();
        for (file, prefix) in AER {
            let text = self.machine.text(&format!("{}/{file}", self.directory)).unwrap_or_default();
            reading.extend(text.lines().take(MOST_LINES).filter_map(|line| count(line, prefix)));
        }
        let path = pci_path(&self.machine, &self.directory);
        if let Some(rate) = path.last().and_then(PciFunction::current_rate) {
            reading.insert(LINK_WIDTH.to_owned(), rate.width.into());
            reading.insert(LINK_MEGATRANSFERS.to_owned(), (rate.gt_per_sec * 1e3).round() as u64);
        }
        Ok(reading)
    }
}

/// `BadTLP 3`; of the kinds that do not occur in practice only the total.
fn count(line: &str, prefix: &str) -> Option<(String, u64)> {
    let (name, value) = line.split_once(' ')?;
    let is_kept = name.starts_with("TOTAL_") || prefix == AER[0].1;
    let name = if name.starts_with("TOTAL_") { "total" } else { name };
    Some((format!("{prefix}{name}"), value.trim().parse().ok()?)).filter(|_| is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correctable_errors_come_by_kind_and_others_in_total() {
        for (line, prefix, expected) in [
            ("BadTLP 3", AER[0].1, Some(("pci.aer_correctable.BadTLP", 3))),
            ("TOTAL_ERR_COR 5", AER[0].1, Some(("pci.aer_correctable.total", 5))),
            ("TOTAL_ERR_FATAL 1", AER[2].1, Some(("pci.aer_fatal.total", 1))),
            ("DLP 1", AER[2].1, None),
            ("BadTLP", AER[0].1, None),
            ("BadTLP x", AER[0].1, None),
        ] {
            let expected = expected.map(|(name, value)| (name.to_owned(), value));
            assert_eq!(count(line, prefix), expected, "{line}");
        }
    }
}
