//! Recorded hosts read as live ones are: what is found, what an interval of it says, what wraps and what is missing.

#[path = "../fixtures/unpack.rs"]
mod unpack;

use std::path::Path;

use kelpie_monitor::machine::{Machine, PortLink, rdma_devices};
use kelpie_monitor::pause::host_pause;
use kelpie_monitor::rates::{Rates, rates};
use kelpie_monitor::sources::{CounterSource, PortSources, Reading};

const MLX5: &str = "sys/class/infiniband/mlx5_0/ports/1";

/// A host with its sources, and the means to let time pass.
struct SourcesHost {
    root: tempfile::TempDir,
    sources: PortSources,
}

impl SourcesHost {
    /// Recordings joined by `+` are written over each other.
    fn new(names: &str, device: &str) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in names.split('+') {
            unpack::unpack(name, root.path());
        }
        let sources = PortSources::on(&Machine::recorded(root.path()), device, 1);
        Self { root, sources }
    }

    fn read(&mut self) -> Reading {
        self.sources.read().expect("a recorded port")
    }

    /// Changes a file, or a line of it.
    fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.root.path().join(file);
        let text = std::fs::read_to_string(&path).expect("a recorded file");
        assert!(text.contains(from), "{file} holds no `{from}`");
        std::fs::write(&path, text.replace(from, to)).expect("writable");
    }

    /// Rates over a second between now and after `change`.
    fn interval(&mut self, change: impl FnOnce(&Self)) -> Rates {
        let before = self.read();
        change(self);
        rates(&before, &self.read(), 1.0)
    }
}

/// Recorded hosts whose ports count no time of pause, each with why.
const WITHOUT_TIME: [(&str, &str); 0] = [];

#[test]
fn every_recorded_host_shows_its_counters_and_its_pause() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let hosts = files.filter(|path| path.extension().is_some_and(|ending| ending == "host"));
    let mut count = 0;
    for host in hosts {
        let name = host.file_stem().and_then(|name| name.to_str()).expect("a name");
        // The recording of a bond lies over that of the host that has it.
        let names = if name == "bond" { "mlx5+bond" } else { name };
        let root = tempfile::tempdir().expect("a directory");
        names.split('+').for_each(|name| unpack::unpack(name, root.path()));
        let machine = Machine::recorded(root.path());
        let devices = rdma_devices(&machine);
        let device = devices.first().unwrap_or_else(|| panic!("{name} has no RDMA device"));
        let reading = PortSources::on(&machine, device, 1).read().expect("a recorded port");
        let pause = host_pause(&rates(&reading, &reading, 1.0));
        let is_excused = WITHOUT_TIME.iter().any(|(host, _)| *host == name);
        assert!(
            pause.is_some() || is_excused,
            "{name}: no row of the table of pause counters fits: {:?}",
            reading.keys()
        );
        count += 1;
    }
    assert!(count >= 3, "the recorded hosts are part of the repository");
}

/// Sources that no port opens, each with why.
const NOT_OF_A_PORT: [(&str, &str); 2] =
    [("PortSources", "all sources of a port together"), ("ScriptedSource", "what tests say")];

#[test]
fn every_source_is_opened_with_a_port() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sources");
    let text = |path: &Path| std::fs::read_to_string(path).expect("a source file");
    let port = text(&folder.join("port.rs"));
    for entry in std::fs::read_dir(&folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        // A folder has parts of a source.
        let source = if path.is_file() { text(&path) } else { continue };
        for line in source.lines().filter_map(|line| line.strip_prefix("impl CounterSource for ")) {
            let name = line.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            let is_excused = NOT_OF_A_PORT.iter().any(|(other, _)| *other == name);
            let is_opened = ["new", "at"].iter().any(|make| port.contains(&format!("{name}::{make}(")));
            assert!(is_opened || is_excused, "`PortSources::on` does not open {name} of {}", path.display());
        }
    }
}

#[test]
fn every_source_of_an_mlx5_port_is_found() {
    let reading = SourcesHost::new("mlx5", "mlx5_0").read();
    for (name, value) in [
        ("port_xmit_packets", 1_000),
        ("out_of_buffer", 3),
        ("ethtool.rx_prio3_discards", 5),
        ("ethtool.rx_64_bytes_phy", 12),
        ("net.rx_dropped", 0),
        ("net.speed_megabits", 100_000),
        ("pci.aer_correctable.BadTLP", 2),
        ("pci.aer_fatal.total", 0),
        ("pci.link_width", 16),
        ("pci.link_megatransfers", 16_000),
    ] {
        assert_eq!(reading.get(name), Some(&value), "{name}");
    }
    for absent in ["lifespan", "ethtool.rx0_packets", "ethtool.ch0_poll", "net.rx_missed_errors"] {
        assert!(!reading.contains_key(absent), "{absent}");
    }
}

#[test]
fn counters_of_one_name_are_kept_apart() {
    let reading = SourcesHost::new("bnxt", "bnxt_re0").read();
    assert_eq!((reading["rx_bytes"], reading["ethtool.rx_bytes"]), (1_000_000, 9_500_000));
    assert!(!reading.contains_key("ethtool.[0]: rx_ucast_packets"));
    assert!(!reading.keys().any(|name| name.starts_with("port_")), "no `counters` directory, no counters");
}

#[test]
fn an_interval_crosses_the_ends_of_counters_and_leaves_out_what_was_reset_or_went_away() {
    let mut host = SourcesHost::new("mlx5", "mlx5_0");
    let seen = host.interval(|host| {
        host.change(&format!("{MLX5}/counters/port_xmit_data"), "4294967000", "704");
        host.change(&format!("{MLX5}/counters/port_rcv_data"), "18446744073709551000", "384");
        host.change(&format!("{MLX5}/hw_counters/rx_write_requests"), "4000000", "10");
        std::fs::remove_file(host.root.path().join(MLX5).join("hw_counters/np_cnp_sent")).expect("it was there");
    });
    for crossed in ["port_rcv_data", "port_xmit_data"] {
        assert_eq!(seen.per_sec.get(crossed), Some(&1000.0), "{crossed}");
    }
    assert_eq!(seen.per_sec.get("out_of_buffer"), Some(&0.0), "nothing happened, and that is known");
    for missing in ["rx_write_requests", "np_cnp_sent"] {
        assert_eq!(seen.per_sec.get(missing), None, "{missing}");
    }
}

#[test]
fn mlx5_counts_the_time_of_pause() {
    let mut host = SourcesHost::new("mlx5", "mlx5_0");
    let seen = host.interval(|host| {
        host.change("ethtool/ens1f0np0", "rx_prio3_pause_duration: 20000", "rx_prio3_pause_duration: 70000");
        host.change("ethtool/ens1f0np0", "18446744073709551516", "1900");
        host.change("ethtool/ens1f0np0", "outbound_pci_stalled_wr: 7", "outbound_pci_stalled_wr: 3");
    });
    let pause = host_pause(&seen).expect("both sides count");
    assert!((pause.ratios.rx - 0.05).abs() < 1e-9, "50 ms of a second: {pause:?}");
    assert!((pause.ratios.tx - 0.002).abs() < 1e-9, "2 ms across the end of 64 bits: {pause:?}");
    assert!(!pause.is_upper_bound);
    assert_eq!(
        seen.per_sec.get("ethtool.outbound_pci_stalled_wr"),
        Some(&3.0),
        "a share of the last second, not a count"
    );
}

#[test]
fn each_slave_of_a_bond_counts_and_the_longest_pause_is_the_ports() {
    let mut host = SourcesHost::new("mlx5+bond", "mlx5_0");
    let reading = host.read();
    for (name, value) in [
        ("port_xmit_packets", 1_000),
        ("slave0.ethtool.rx_prio3_discards", 5),
        ("slave1.ethtool.rx_discards_phy", 7),
        ("slave1.net.rx_dropped", 4),
        ("pci.link_width", 16),
    ] {
        assert_eq!(reading.get(name), Some(&value), "{name}");
    }
    let strangers = |name: &&String| name.starts_with("ethtool.") || name.starts_with("slave2.");
    assert_eq!(reading.keys().find(strangers), None, "neither the bond nor another card counts");
    let seen = host.interval(|host| {
        host.change("ethtool/ens1f0np0", "rx_prio3_pause_duration: 20000", "rx_prio3_pause_duration: 70000");
        host.change("ethtool/ens1f1np1", "tx_prio3_pause_duration: 0", "tx_prio3_pause_duration: 300000");
    });
    let ratios = host_pause(&seen).expect("both count").ratios;
    assert!((ratios.rx - 0.05).abs() < 1e-9 && (ratios.tx - 0.3).abs() < 1e-9, "{ratios:?}");
    assert_eq!(seen.per_sec.get("slave1.net.speed_megabits"), Some(&100_000.0), "a level, also of a slave");
}

#[test]
fn a_slave_with_an_rdma_device_of_its_own_is_not_this_one_s() {
    let host = SourcesHost::new("mlx5+bond", "mlx5_0");
    let other = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/infiniband/mlx5_1";
    std::fs::create_dir_all(host.root.path().join(other)).expect("a directory");
    let machine = Machine::recorded(host.root.path());
    assert_eq!(PortLink::of(&machine, "mlx5_0", 1).wires, ["ens1f0np0"]);
    let reading = PortSources::on(&machine, "mlx5_0", 1).read().expect("a recorded port");
    assert_eq!(reading.get("ethtool.rx_prio3_discards"), Some(&5), "alone, it needs no number");
}

#[test]
fn bnxt_without_durations_counts_frames() {
    let mut host = SourcesHost::new("bnxt", "bnxt_re0");
    let seen = host.interval(|host| {
        host.change("ethtool/enp96s0", "tx_pfc_ena_frames_pri3: 1000", "tx_pfc_ena_frames_pri3: 1010");
    });
    let pause = host_pause(&seen).expect("both sides count");
    assert!((pause.ratios.tx - 10.0 * 65_535.0 * 512.0 / 1e11).abs() < 1e-9, "{pause:?}");
    assert!(pause.is_upper_bound && pause.ratios.rx == 0.0, "{pause:?}");
    // A link that reports no speed.
    let speed = "sys/class/net/enp96s0/speed";
    host.change(speed, "100000", "-1");
    assert_eq!(host_pause(&host.interval(|_| ())), None);
}

#[test]
fn without_a_device_there_is_no_reading() {
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("mlx5", root.path());
    let error = PortSources::on(&Machine::recorded(root.path()), "mlx5_9", 1).read().expect_err("no such device");
    assert!(error.to_string().contains("mlx5_9/ports/1"), "{error}");
    assert!(Path::new(root.path()).exists());
}
