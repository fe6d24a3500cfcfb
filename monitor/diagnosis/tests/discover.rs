//! Hosts as sysfs shows them: an A100-like, an H100-like, an AMD host with four NUMA nodes per socket, a storage host,
//! a virtual machine. The trees are constructed after the kernel's and vendors' public documentation, not recorded.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kelpie_diagnosis::discover::{Discovered, discover};
use kelpie_monitor::check::State;
use kelpie_monitor::checks::{CHECKS, CheckGroup, CheckKind, GAUGES};
use kelpie_monitor::machine::Machine;
use kelpie_topology::host::Kind;
use tempfile::TempDir;

/// A tree of sysfs that is being written.
struct Tree {
    root: TempDir,
    rnics: usize,
}

impl Tree {
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

    fn gpu(&self, bus: &str, way: &[&str], numa: i32) {
        self.function(bus, way, numa, "0x030200", "0x10de", 16);
    }

    fn discover(&self) -> Discovered {
        discover(&Machine::recorded(self.path())).expect("there are RNICs")
    }
}

/// Switches with an RNIC and some GPUs each, spread over two sockets.
fn switched(switches: usize, gpus: usize, narrow: Option<usize>) -> Tree {
    let mut tree = Tree::new(2, 1);
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

fn count(found: &Discovered, kind: Kind) -> usize {
    found.topology.nodes().iter().filter(|node| node.kind == kind).count()
}

/// The kinds of nodes between two named ones.
fn way(found: &Discovered, from: &str, to: &str) -> Vec<Kind> {
    let node = |name| found.topology.node(name).unwrap_or_else(|| panic!("no {name} in {:?}", found.topology));
    let route = found.topology.route(node(from), node(to)).expect("a tree is connected");
    found.topology.kinds(node(from), &route)
}

#[test]
fn hosts_with_switches() {
    for (switches, gpus) in [(4, 2), (8, 1)] {
        let found = switched(switches, gpus, None).discover();
        assert_eq!(
            (count(&found, Kind::Rnic), count(&found, Kind::Gpu), count(&found, Kind::PcieSwitch)),
            (switches, switches * gpus, switches)
        );
        assert_eq!(found.topology.links().len(), found.topology.nodes().len() - 1, "a tree");
        assert_eq!(way(&found, "mlx5_0", "gpu0"), [Kind::Rnic, Kind::PcieSwitch, Kind::Gpu]);
        let across = [Kind::Rnic, Kind::PcieSwitch, Kind::Socket, Kind::Socket, Kind::Memory];
        assert_eq!(way(&found, "mlx5_0", "mem1"), across);
        assert!(found.readings.iter().all(|reading| reading.state != State::Warn), "{:?}", found.readings);
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
        .filter(|reading| reading.state == State::Warn)
        .map(|reading| reading.about.as_str())
        .collect();
    assert_eq!(warned, [found.topology.link_name(link)]);
}

#[test]
fn four_numa_nodes_per_socket() {
    let mut tree = Tree::new(2, 4);
    for (node, bus) in [(1, "20"), (6, "a0")] {
        let (root, device) = (format!("0000:{bus}:01.1"), format!("0000:{bus}:02.0"));
        tree.function(bus, &[&root], node, "0x060400", "0x1022", 16);
        tree.rnic(bus, &[&root, &device], node, 16);
    }
    let found = tree.discover();
    assert_eq!((count(&found, Kind::NumaNode), count(&found, Kind::Memory), count(&found, Kind::Socket)), (8, 8, 2));
    assert_eq!(way(&found, "mlx5_0", "mem1"), [Kind::Rnic, Kind::NumaNode, Kind::Memory]);
    let across = [Kind::Rnic, Kind::NumaNode, Kind::Socket, Kind::Socket, Kind::NumaNode, Kind::Memory];
    assert_eq!(way(&found, "mlx5_0", "mem6"), across);
}

#[test]
fn a_storage_host_has_drives_and_a_card_with_two_ports() {
    let mut tree = Tree::new(2, 1);
    for port in ["0000:3b:00.0", "0000:3b:00.1"] {
        tree.rnic("3a", &["0000:3a:00.0", port], 0, 16);
    }
    for (drive, device) in ["0000:b1:00.0", "0000:b2:00.0"].into_iter().enumerate() {
        tree.function("b0", &[&format!("0000:b0:0{drive}.0"), device], 1, "0x010802", "0x144d", 16);
    }
    // A management controller's display is no GPU.
    tree.function("00", &["0000:00:1c.0", "0000:02:00.0"], 0, "0x030000", "0x1a03", 1);
    let found = tree.discover();
    assert_eq!((count(&found, Kind::Nvme), count(&found, Kind::Gpu), count(&found, Kind::Rnic)), (2, 0, 2));
    // Both ports share the card's link.
    assert_eq!(way(&found, "mlx5_0", "mlx5_1"), [Kind::Rnic, Kind::PcieSwitch, Kind::Rnic]);
    assert_eq!(way(&found, "mlx5_1", "mem0"), [Kind::Rnic, Kind::PcieSwitch, Kind::Socket, Kind::Memory]);
}

#[test]
fn a_virtual_machine_needs_ats() {
    let mut tree = Tree::new(0, 1);
    tree.write("proc/cpuinfo", "flags\t\t: fpu hypervisor avx2");
    tree.rnic("00", &["0000:00:05.0"], -1, 16);
    // Configuration space of which root sees all, with the capability of ATS at 0x100, and its enable bit off and on.
    for (control, expected) in [(0u16, State::Warn), (1 << 15, State::Pass)] {
        let mut config = vec![0; 4096];
        config[0x100..0x104].copy_from_slice(&0x0001_000f_u32.to_le_bytes());
        config[0x106..0x108].copy_from_slice(&control.to_le_bytes());
        tree.write("sys/devices/pci0000:00/0000:00:05.0/config", &config);
        let found = tree.discover();
        assert_eq!(way(&found, "mlx5_0", "mem0"), [Kind::Rnic, Kind::Socket, Kind::Memory]);
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
    let tree = Tree::new(1, 1);
    let problem = discover(&Machine::recorded(tree.path())).expect_err("there is none");
    assert!(problem.contains("no RDMA device"), "{problem}");
}
