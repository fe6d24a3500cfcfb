//! Hosts as sysfs shows them: an A100-like, an H100-like, an AMD host with four NUMA nodes per socket, a storage host,
//! a virtual machine. The trees are constructed after the kernel's and vendors' public documentation, not recorded.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::discover::{Discovered, discover};
use kelpie_diagnosis::host::{HostDiagnosis, HostQuestion, HostVerdict, Reference, diagnose};
use kelpie_monitor::check::CheckState;
use kelpie_monitor::checks::{CHECKS, CheckGroup, CheckKind, GAUGES};
use kelpie_monitor::machine::Machine;
use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;
use tempfile::TempDir;

/// A tree of sysfs that is being written.
struct SysfsTree {
    root: TempDir,
    rnics: usize,
}

impl SysfsTree {
    /// Sockets with this many NUMA nodes each.
    fn new(sockets: usize, numa: usize) -> Self {
        let tree = Self { root: tempfile::tempdir().expect("a folder"), rnics: 0 };
        for node in 0..sockets * numa {
            tree.write(
                &format!("sys/devices/system/node/node{node}/cpulist"),
                format!("{}-{}", 8 * node, 8 * node + 7),
            );
            let package = format!("sys/devices/system/cpu/cpu{}/topology/physical_package_id", 8 * node);
            tree.write(&package, (node / numa).to_string());
        }
        tree.write("proc/cpuinfo", "flags\t\t: fpu vme avx2");
        tree
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, text).expect("it is writable");
    }

    /// A function of PCI at the end of `way` (addresses from the root port on), with its link.
    fn function(&self, bus: &str, way: &[&str], numa: i32, class: &str, vendor: &str, width: u32) -> String {
        let directory = format!("sys/devices/pci0000:{bus}/{}", way.join("/"));
        for (name, text) in [
            ("class", class.to_owned()),
            ("vendor", vendor.to_owned()),
            ("numa_node", numa.to_string()),
            ("current_link_width", width.to_string()),
            ("max_link_width", "16".to_owned()),
            ("current_link_speed", "16.0 GT/s PCIe".to_owned()),
            ("max_link_speed", "16.0 GT/s PCIe".to_owned()),
        ] {
            self.write(&format!("{directory}/{name}"), text);
        }
        let devices = self.path().join("sys/bus/pci/devices");
        fs::create_dir_all(&devices).expect("a folder");
        let link = devices.join(way.last().expect("a function has an address"));
        if !link.exists() {
            symlink(self.path().join(&directory), link).expect("a link");
        }
        directory
    }

    fn rnic(&mut self, bus: &str, way: &[&str], numa: i32, width: u32) {
        let directory = self.function(bus, way, numa, "0x020000", "0x15b3", width);
        let device = self.path().join(format!("sys/class/infiniband/mlx5_{}", self.rnics));
        fs::create_dir_all(&device).expect("a folder");
        symlink(self.path().join(directory), device.join("device")).expect("a link");
        self.rnics += 1;
    }

    /// The port of an RNIC, which is up.
    fn port(&self, rnic: usize, rate: &str) {
        let directory = format!("sys/class/infiniband/mlx5_{rnic}/ports/1");
        self.write(&format!("{directory}/rate"), rate);
        self.write(&format!("{directory}/state"), "4: ACTIVE");
    }

    fn gpu(&self, bus: &str, way: &[&str], numa: i32) {
        self.function(bus, way, numa, "0x030200", "0x10de", 16);
    }

    fn discover(&self) -> Discovered {
        discover(&Machine::recorded(self.path())).expect("there are RNICs")
    }
}

/// Switches with an RNIC and some GPUs each, spread over two sockets.
fn switched(switches: usize, gpus: usize, narrow: Option<usize>) -> SysfsTree {
    let mut tree = SysfsTree::new(2, 1);
    for switch in 0..switches {
        let bus = format!("{:02x}", 16 * switch);
        let numa = i32::from(switch >= switches / 2);
        let address = |bus: usize, device: usize| format!("0000:{:02x}:{device:02x}.0", 16 * switch + bus);
        let (root, up) = (address(0, 1), address(1, 0));
        tree.function(&bus, &[&root], numa, "0x060400", "0x8086", 16);
        tree.function(&bus, &[&root, &up], numa, "0x060400", "0x1000", 16);
        for slot in 0..=gpus {
            let (down, device) = (address(2, slot), address(3 + slot, 0));
            tree.function(&bus, &[&root, &up, &down], numa, "0x060400", "0x1000", 16);
            let way = [root.as_str(), &up, &down, &device];
            if slot == 0 {
                tree.rnic(&bus, &way, numa, if narrow == Some(switch) { 4 } else { 16 });
            } else {
                tree.gpu(&bus, &way, numa);
            }
        }
    }
    tree
}

fn count(found: &Discovered, kind: NodeKind) -> usize {
    found.topology.nodes().iter().filter(|node| node.kind == kind).count()
}

/// The kinds of nodes between two named ones.
fn way(found: &Discovered, from: &str, to: &str) -> Vec<NodeKind> {
    let node = |name| found.topology.node(name).unwrap_or_else(|| panic!("no {name} in {:?}", found.topology));
    let route = found.topology.route(node(from), node(to)).expect("a tree is connected");
    found.topology.kinds(node(from), &route)
}

#[test]
fn hosts_with_switches() {
    for (switches, gpus) in [(4, 2), (8, 1)] {
        let found = switched(switches, gpus, None).discover();
        assert_eq!(
            (count(&found, NodeKind::Rnic), count(&found, NodeKind::Gpu), count(&found, NodeKind::PcieSwitch)),
            (switches, switches * gpus, switches)
        );
        assert_eq!(found.topology.links().len(), found.topology.nodes().len() - 1, "a tree");
        assert_eq!(way(&found, "mlx5_0", "gpu0"), [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Gpu]);
        let across = [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Socket, NodeKind::Socket, NodeKind::Memory];
        assert_eq!(way(&found, "mlx5_0", "mem1"), across);
        assert!(found.readings.iter().all(|reading| reading.state != CheckState::Warn), "{:?}", found.readings);
    }
}

#[test]
fn a_narrow_link_is_written_as_it_is_and_said() {
    let found = switched(4, 2, Some(2)).discover();
    let link = found.topology.links().iter().position(|link| found.topology.nodes()[link.a].name == "mlx5_2");
    let link = link.expect("it has a link");
    assert_eq!(found.topology.links()[link].gbps, Some(63.0));
    let warned: Vec<&str> = found
        .readings
        .iter()
        .filter(|reading| reading.state == CheckState::Warn)
        .map(|reading| reading.about.as_str())
        .collect();
    assert_eq!(warned, [found.topology.link_name(link)]);
}

/// A host whose RNICs are to reach two memories, measured at these rates.
fn judged(found: &Discovered, gbps: impl Fn(usize) -> f64) -> HostDiagnosis {
    let rows: Vec<String> = found
        .topology
        .nodes()
        .iter()
        .filter(|node| node.kind == NodeKind::Rnic)
        .map(|node| node.name.clone())
        .collect();
    let cells: Vec<Vec<f64>> = (0..rows.len()).map(|row| vec![gbps(row), gbps(row) * 0.99]).collect();
    let text =
        serde_json::json!({"kelpie": "matrix/1", "rows": rows, "columns": ["mem0", "mem1"], "bandwidth_gbps": cells});
    let matrix = Matrix::from_bytes("m", text.to_string().as_bytes()).expect("it keeps the rules");
    // As it was written into a file and read again.
    let host = HostTopology::from_yaml("t", &found.topology.to_yaml()).expect("it keeps the rules");
    let question = HostQuestion { host: &host, matrix: &matrix, repeats: &[], baseline: None, busy: false };
    diagnose(question).expect("they fit")
}

#[test]
fn a_link_that_trained_low_is_named_with_what_it_could_carry() {
    let found = switched(8, 0, Some(5)).discover();
    let seen = judged(&found, |row| if row == 5 { 55.0 } else { 195.0 + row as f64 });
    let link = found.topology.links().iter().position(|link| found.topology.nodes()[link.a].name == "mlx5_5");
    let link = found.topology.link_name(link.expect("it has a link"));
    assert_eq!((seen.verdict, &seen.explanations), (HostVerdict::Abnormal, &vec![vec![link.clone()]]), "{seen:?}");
    let slow = &seen.slow[0];
    assert_eq!((slow.reference, slow.trained.as_deref()), (Reference::Siblings, Some("x4 of x16")));
    assert!((slow.carried_gbps - 55.0).abs() < 0.1 && (195.0..203.0).contains(&slow.expected_gbps), "{slow:?}");
    // What trained low and carries enough is said, and is no fault of what was measured.
    let enough = judged(&found, |_| 55.0);
    assert_eq!(enough.verdict, HostVerdict::Abnormal, "55 of 252 is not enough for the others");
    let trees = switched(8, 0, Some(5));
    for rnic in 0..8 {
        trees.port(rnic, "25 Gb/sec (1X EDR)");
    }
    let slow_ports = judged(&trees.discover(), |_| 24.2);
    assert_eq!(slow_ports.verdict, HostVerdict::Healthy, "{slow_ports:?}");
    assert!(slow_ports.notes.iter().any(|note| note.contains("trained to x4 of x16")), "{:?}", slow_ports.notes);
}

#[test]
fn all_nics_slow_alike_are_below_what_links_and_ports_declare() {
    let tree = switched(8, 0, None);
    let without = judged(&tree.discover(), |_| 49.0);
    assert_eq!(
        (without.verdict, without.slow[0].reference),
        (HostVerdict::Abnormal, Reference::Topology),
        "{without:?}"
    );
    assert_eq!(without.explanations[0].len(), 8, "each RNIC's own link: {without:?}");
    for rnic in 0..8 {
        tree.port(rnic, "200 Gb/sec (4X HDR)");
    }
    let at = |gbps: f64| judged(&tree.discover(), |_| gbps);
    let slow = at(98.0);
    assert_eq!((slow.verdict, slow.slow[0].reference), (HostVerdict::Abnormal, Reference::Port), "{slow:?}");
    assert!((slow.slow[0].expected_gbps - 200.0).abs() < 1e-9);
    assert_eq!(at(192.0).verdict, HostVerdict::Healthy);
    // A NIC for storage, with another port, is no sibling of the others.
    tree.port(3, "100 Gb/sec (2X HDR)");
    let mixed = judged(&tree.discover(), |row| if row == 3 { 97.0 } else { 195.0 });
    assert_eq!(mixed.verdict, HostVerdict::Healthy, "{mixed:?}");
    // All links at x4, as a bifurcated slot or a riser would have them.
    let mut all = SysfsTree::new(2, 1);
    for rnic in 0..16 {
        let (root, device) = (format!("0000:{rnic:02x}:01.0"), format!("0000:{rnic:02x}:02.0"));
        all.function(&format!("{rnic:02x}"), &[&root], 0, "0x060400", "0x8086", 16);
        all.rnic(&format!("{rnic:02x}"), &[&root, &device], rnic / 8, 4);
    }
    let narrow = judged(&all.discover(), |_| 55.0);
    assert_eq!((narrow.verdict, narrow.explanations[0].len()), (HostVerdict::Abnormal, 16), "{narrow:?}");
    assert!(narrow.slow.iter().all(|slow| slow.trained.as_deref() == Some("x4 of x16")), "{narrow:?}");
}

#[test]
fn a_slot_that_is_no_wider_than_the_link_is_no_fault_and_gpus_idle_slowly() {
    let mut tree = SysfsTree::new(1, 1);
    let root = "0000:00:01.0";
    // The slot has eight lanes, and the card sixteen.
    tree.function("00", &[root], 0, "0x060400", "0x8086", 8);
    tree.write("sys/devices/pci0000:00/0000:00:01.0/max_link_width", "8");
    tree.rnic("00", &[root, "0000:01:00.0"], 0, 8);
    tree.gpu("20", &["0000:20:00.0"], 0);
    tree.write("sys/devices/pci0000:20/0000:20:00.0/current_link_speed", "2.5 GT/s PCIe");
    let found = tree.discover();
    assert!(found.readings.iter().all(|reading| reading.state != CheckState::Warn), "{:?}", found.readings);
    assert!(found.topology.links().iter().all(|link| link.trained().is_none()), "{:?}", found.topology);
    assert!(found.topology.links().iter().any(|link| link.gbps == Some(252.1)), "as fast as under load");
}

#[test]
fn accelerators_of_any_vendor_and_nics_without_rdma_are_named() {
    let mut tree = SysfsTree::new(1, 1);
    tree.rnic("10", &["0000:10:00.0", "0000:11:00.0"], 0, 16);
    let of = |bus: &str, class: &str, vendor: &str, device: &str| {
        let address = format!("0000:{bus}:00.0");
        let directory = tree.function(bus, &[&address], 0, class, vendor, 16);
        tree.write(&format!("{directory}/device"), device);
    };
    of("20", "0x120000", "0x1002", "0x74a1");
    of("21", "0x120000", "0x1da3", "0x1060");
    of("22", "0x038000", "0x1002", "0x738c");
    of("30", "0x020000", "0x1ae0", "0x0042");
    // The processor's own display.
    tree.function("00", &["0000:00:02.0"], 0, "0x030000", "0x8086", 1);
    let found = tree.discover();
    assert_eq!(count(&found, NodeKind::Gpu), 3, "{:?}", found.topology);
    let said = found.devices.join("\n");
    for expected in [
        "gpu0: 0000:20:00.0: AMD, class 0x1200",
        "gpu1: 0000:21:00.0: Intel Habana, class 0x1200",
        "mlx5_0: 0000:11:00.0: NVIDIA Mellanox NIC",
        "0000:30:00.0: Google gVNIC (gve), without RDMA: no RDMA device",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

#[test]
fn four_numa_nodes_per_socket() {
    let mut tree = SysfsTree::new(2, 4);
    for (node, bus) in [(1, "20"), (6, "a0")] {
        let (root, device) = (format!("0000:{bus}:01.1"), format!("0000:{bus}:02.0"));
        tree.function(bus, &[&root], node, "0x060400", "0x1022", 16);
        tree.rnic(bus, &[&root, &device], node, 16);
    }
    let found = tree.discover();
    assert_eq!(
        (count(&found, NodeKind::NumaNode), count(&found, NodeKind::Memory), count(&found, NodeKind::Socket)),
        (8, 8, 2)
    );
    assert_eq!(way(&found, "mlx5_0", "mem1"), [NodeKind::Rnic, NodeKind::NumaNode, NodeKind::Memory]);
    let across =
        [NodeKind::Rnic, NodeKind::NumaNode, NodeKind::Socket, NodeKind::Socket, NodeKind::NumaNode, NodeKind::Memory];
    assert_eq!(way(&found, "mlx5_0", "mem6"), across);
}

#[test]
fn a_storage_host_has_drives_and_a_card_with_two_ports() {
    let mut tree = SysfsTree::new(2, 1);
    for port in ["0000:3b:00.0", "0000:3b:00.1"] {
        tree.rnic("3a", &["0000:3a:00.0", port], 0, 16);
    }
    for (drive, device) in ["0000:b1:00.0", "0000:b2:00.0"].into_iter().enumerate() {
        tree.function("b0", &[&format!("0000:b0:0{drive}.0"), device], 1, "0x010802", "0x144d", 16);
    }
    // A management controller's display is no GPU.
    tree.function("00", &["0000:00:1c.0", "0000:02:00.0"], 0, "0x030000", "0x1a03", 1);
    let found = tree.discover();
    assert_eq!((count(&found, NodeKind::Nvme), count(&found, NodeKind::Gpu), count(&found, NodeKind::Rnic)), (2, 0, 2));
    // Both ports share the card's link.
    assert_eq!(way(&found, "mlx5_0", "mlx5_1"), [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Rnic]);
    assert_eq!(
        way(&found, "mlx5_1", "mem0"),
        [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Socket, NodeKind::Memory]
    );
}

#[test]
fn a_virtual_machine_needs_ats() {
    let mut tree = SysfsTree::new(0, 1);
    tree.write("proc/cpuinfo", "flags\t\t: fpu hypervisor avx2");
    tree.rnic("00", &["0000:00:05.0"], -1, 16);
    // Configuration space of which root sees all, with the capability of ATS at 0x100, and its enable bit off and on.
    for (control, expected) in [(0u16, CheckState::Warn), (1 << 15, CheckState::Pass)] {
        let mut config = vec![0; 4096];
        config[0x100..0x104].copy_from_slice(&0x0001_000f_u32.to_le_bytes());
        config[0x106..0x108].copy_from_slice(&control.to_le_bytes());
        tree.write("sys/devices/pci0000:00/0000:00:05.0/config", &config);
        let found = tree.discover();
        assert_eq!(way(&found, "mlx5_0", "mem0"), [NodeKind::Rnic, NodeKind::Socket, NodeKind::Memory]);
        let ats = found.readings.iter().find(|reading| reading.name == "ats").expect("it is read");
        assert_eq!(ats.state, expected);
    }
}

#[test]
fn every_check_and_number_of_the_table_is_made_of_some_host() {
    let tree = switched(2, 1, None);
    tree.write("sys/devices/system/edac/mc/mc0/dimm0/size", "16384");
    let readings = tree.discover().readings;
    let inside = |kind: CheckKind| kind.row().group == CheckGroup::Inside;
    let of_table: BTreeSet<&str> = CHECKS.iter().filter(|row| inside(row.kind)).map(|row| row.name).collect();
    assert_eq!(readings.iter().map(|check| check.name.as_str()).collect::<BTreeSet<_>>(), of_table);
    for row in GAUGES.iter().filter(|row| inside(row.kind)) {
        let checks = readings.iter().filter(|check| check.name == row.kind.name());
        let is_measured = checks.flat_map(|check| &check.measured).any(|one| one.name == row.name);
        assert!(is_measured, "no host has the number {} of {}", row.name, row.kind.name());
    }
}

#[test]
fn a_host_without_rdma_says_so() {
    let tree = SysfsTree::new(1, 1);
    let problem = discover(&Machine::recorded(tree.path())).expect_err("there is none");
    assert!(problem.contains("no RDMA device"), "{problem}");
}
