//! Counters of an RDMA port in sysfs. Source: kernel `Documentation/ABI/stable/sysfs-class-infiniband`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{CounterSource, Reading, SourceError};

const DIRECTORIES: [&str; 2] = ["counters", "hw_counters"];

/// Files beside the counters that are settings. Source: kernel `drivers/infiniband/core/sysfs.c`.
const NO_COUNTERS: [&str; 1] = ["lifespan"];

/// Longest file that can hold a counter; the rest of a longer one is not read. Units: bytes.
const LONGEST: u64 = 64;

/// Bits of the counters of `PortCounters`, which stop at their end and do not wrap.
///
/// Source: IBTA volume 1, section 16.1.3.5; kernel `drivers/infiniband/core/sysfs.c` (`PORT_PMA_ATTR`).
const BITS: [(&str, u32); 17] = [
    ("local_link_integrity_errors", 4),
    ("excessive_buffer_overrun_errors", 4),
    ("link_error_recovery", 8),
    ("link_downed", 8),
    ("port_xmit_constraint_errors", 8),
    ("port_rcv_constraint_errors", 8),
    ("symbol_error", 16),
    ("port_rcv_errors", 16),
    ("port_rcv_remote_physical_errors", 16),
    ("port_rcv_switch_relay_errors", 16),
    ("port_xmit_discards", 16),
    ("VL15_dropped", 16),
    ("port_xmit_data", 32),
    ("port_rcv_data", 32),
    ("port_xmit_packets", 32),
    ("port_rcv_packets", 32),
    ("port_xmit_wait", 32),
];

/// `ROOT/DEVICE/ports/PORT/{counters,hw_counters}/*`.
///
/// Values are as the kernel gives them; `port_xmit_data` and `port_rcv_data` count four octets each.
#[derive(Debug, Clone)]
pub struct SysfsSource {
    port: PathBuf,
}

impl SysfsSource {
    /// The counters of `port` (from 1) of the RDMA device `device`, such as `mlx5_0` or `rxe0`, below `root`, which is
    /// `/sys/class/infiniband` on a live machine.
    pub fn at(root: &Path, device: &str, port: u32) -> Self {
        Self { port: root.join(device).join("ports").join(port.to_string()) }
    }
}

impl CounterSource for SysfsSource {
    fn read(&mut self) -> Result<Reading, SourceError> {
        let mut reading = Reading::new();
        let mut found = false;
        for directory in DIRECTORIES {
            let path = self.port.join(directory);
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(source) => return Err(SourceError::List { path, source }),
            };
            found = true;
            // A counter that the driver refuses to read (EINVAL, EOPNOTSUPP), or that is at its end, is missing.
            let counters = entries.flatten().filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let value = read_counter(&entry.path())?;
                (!NO_COUNTERS.contains(&name.as_str()) && !is_at_its_end(&name, value)).then_some((name, value))
            });
            reading.extend(counters);
        }
        if found { Ok(reading) } else { Err(SourceError::NoCounters { path: self.port.clone() }) }
    }
}

fn is_at_its_end(name: &str, value: u64) -> bool {
    BITS.iter().any(|(counter, bits)| *counter == name && value == (1 << bits) - 1)
}

fn read_counter(path: &Path) -> Option<u64> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port_with(files: &[(&str, &str)]) -> (tempfile::TempDir, SysfsSource) {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            let path = root.path().join("rxe0/ports/1").join(name);
            fs::create_dir_all(path.parent().expect("below the port")).expect("directories");
            fs::write(path, text).expect("fixture");
        }
        let source = SysfsSource::at(root.path(), "rxe0", 1);
        (root, source)
    }

    #[test]
    fn both_directories_are_read_and_what_is_no_counter_is_missing() {
        let (_root, mut source) = port_with(&[
            ("counters/port_xmit_data", "18446744073709551615\n"),
            ("counters/port_xmit_wait", "N/A (no PMA)\n"),
            ("hw_counters/sent_pkts", "12\n"),
            ("hw_counters/rcvd_pkts", "0\n"),
            ("hw_counters/lifespan", "10\n"),
            ("hw_counters/too_big", "18446744073709551616\n"),
            ("hw_counters/empty", ""),
            ("hw_counters/deeper/name", "1\n"),
        ]);
        let expected = [("port_xmit_data", u64::MAX), ("rcvd_pkts", 0), ("sent_pkts", 12)];
        let expected: Reading = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(source.read().expect("a port"), expected);
    }

    #[test]
    fn a_counter_that_stopped_at_its_end_is_missing() {
        let (_root, mut source) = port_with(&[
            ("counters/link_downed", "255\n"),
            ("counters/symbol_error", "65535\n"),
            ("counters/local_link_integrity_errors", "15\n"),
            ("counters/port_xmit_packets", "4294967295\n"),
            ("counters/port_rcv_errors", "255\n"),
            ("counters/port_rcv_packets", "4294967296\n"),
        ]);
        let expected = [("port_rcv_errors", 255), ("port_rcv_packets", 1 << 32)];
        let expected: Reading = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(source.read().expect("a port"), expected);
    }

    #[test]
    fn one_directory_is_enough() {
        let (_root, mut source) = port_with(&[("hw_counters/sent_pkts", "7\n")]);
        assert_eq!(source.read().expect("a port"), Reading::from([("sent_pkts".to_owned(), 7)]));
    }

    #[test]
    fn a_missing_device_is_an_error_that_names_it() {
        let (root, _) = port_with(&[]);
        let error = SysfsSource::at(root.path(), "mlx5_9", 1).read().expect_err("no such device");
        assert!(error.to_string().contains("mlx5_9/ports/1"), "{error}");
    }
}
