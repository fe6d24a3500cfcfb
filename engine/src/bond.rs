//! The bond below an RDMA port: how it chooses between its ports, which these are, and what each has moved.

use std::collections::BTreeMap;

use kelpie_monitor::machine::{Gid, Machine, PortLink, gids, rdma_devices};
use kelpie_monitor::sources::{CounterSource, ETHTOOL_PREFIX, EthtoolSource, Reading, link_speeds};
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::verbs_host::{HostError, Port};

/// Most members that are looked at. Source: our choice, because LAGs of RDMA devices have two to four ports.
const MOST: usize = 8;

/// One port of the bond, or the only port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondMember {
    /// Network interface.
    #[serde(deserialize_with = "bounded::text")]
    pub name: String,
    /// Its own address on the link, which the bond does not change.
    #[serde(deserialize_with = "bounded::text")]
    pub mac: String,
    /// Whether its link is up.
    pub is_up: bool,
    /// Bytes since it was made, sent and received.
    pub bytes: [u64; 2],
    /// Packets, likewise.
    pub packets: [u64; 2],
    /// Speed that it trained to; none if the driver says none. Units: Mbit/s.
    #[serde(default)]
    pub speed_megabits: Option<u64>,
    /// Speed of the fastest link that it could have. Units: Mbit/s.
    #[serde(default)]
    pub fastest_megabits: Option<u64>,
    /// Speed of the fastest link that its partner offers as well; none if the partner is not known. Units: Mbit/s.
    #[serde(default)]
    pub agreed_megabits: Option<u64>,
    /// Whether its link is up and has no speed, as virtual ones have none.
    #[serde(default)]
    pub is_speedless: bool,
    /// Largest packet. Units: bytes.
    #[serde(default)]
    pub mtu: Option<u64>,
    /// Errors since it was made, of both directions.
    #[serde(default)]
    pub errors: u64,
    /// The driver's counters of pause.
    #[serde(default, deserialize_with = "bounded::counters")]
    pub pause: Reading,
    /// Address of the switch that its LACP talks to; none without LACP, or if the kernel does not say.
    #[serde(default)]
    pub lacp_partner: Option<String>,
}

/// What carries the traffic of an RDMA port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bond {
    /// RDMA device.
    #[serde(deserialize_with = "bounded::text")]
    pub device: String,
    /// Network interface of the device.
    #[serde(deserialize_with = "bounded::text")]
    pub netdev: String,
    /// The address of its traffic, eight groups of four digits.
    #[serde(deserialize_with = "bounded::text")]
    pub gid: String,
    /// The bond's mode, such as `balance-xor`; empty if there is no bond.
    #[serde(deserialize_with = "bounded::text")]
    pub mode: String,
    /// What it hashes, such as `layer3+4`.
    #[serde(deserialize_with = "bounded::text")]
    pub policy: String,
    /// How the device itself chooses, if it says so: `hash` or `queue_affinity` of mlx5.
    #[serde(deserialize_with = "bounded::text")]
    pub selection: String,
    /// Its ports, by name; the first is the left one.
    pub members: Vec<BondMember>,
    /// What the narrowest PCIe link above the device carries. Units: bits/s.
    #[serde(default)]
    pub pcie_bps: Option<f64>,
}

impl Bond {
    /// Reads the bond below `port`.
    ///
    /// # Errors
    /// Where there is no such device or port, or its network interface is not known.
    pub fn read(machine: &Machine, port: &Port) -> Result<Self, HostError> {
        let failed = |what: String| HostError::Failed(what);
        let devices = rdma_devices(machine);
        let device = match (&port.device, &devices[..]) {
            (Some(named), _) if devices.contains(named) => named.clone(),
            (None, [only]) => only.clone(),
            (Some(named), _) => {
                return Err(failed(format!("no RDMA device {named}; there are: {}", devices.join(", "))));
            }
            (None, _) => return Err(failed(format!("name an RDMA device; there are: {}", devices.join(", ")))),
        };
        let link = PortLink::of(machine, &device, port.port.into());
        let netdev = link.netdev.clone();
        let netdev = netdev.ok_or_else(|| failed(format!("{device} port {}: no network interface", port.port)))?;
        let table = gids(port.gid_index, |name| machine.text(&link.port_file(name)));
        let gid = Gid::best(table).map(|gid| gid.text).unwrap_or_default();
        let bonding = |name: &str| machine.text(&format!("sys/class/net/{netdev}/bonding/{name}")).unwrap_or_default();
        // The kernel writes a word and its number.
        let word = |name: &str| bonding(name).split_whitespace().next().unwrap_or_default().to_owned();
        let mut names: Vec<String> = bonding("slaves").split_whitespace().take(MOST).map(str::to_owned).collect();
        names.sort_unstable();
        if names.is_empty() {
            names.push(netdev.clone());
        }
        let selection = selection(machine, &link).unwrap_or_default();
        let mut members: Vec<BondMember> = names.iter().map(|name| member(machine, name)).collect();
        let partners = partners(&machine.text(&format!("proc/net/bonding/{netdev}")).unwrap_or_default());
        for member in &mut members {
            member.lacp_partner = partners.get(&member.name).cloned();
        }
        let rates = link.pci(machine).into_iter().filter_map(|function| function.current_rate());
        let pcie_bps = rates.map(kelpie_monitor::machine::PcieRate::bits_per_sec).min_by(f64::total_cmp);
        let policy = word("xmit_hash_policy");
        Ok(Self { device, gid, mode: word("mode"), policy, selection, members, netdev, pcie_bps })
    }
}

/// How mlx5's LAG chooses. Not tried on such a device.
///
/// Source: kernel `drivers/net/ethernet/mellanox/mlx5/core/lag/debugfs.c`, file `port_sel_mode`.
fn selection(machine: &Machine, link: &PortLink) -> Option<String> {
    let function = link.pci(machine).last()?.address().to_owned();
    let text = machine.text(&format!("sys/kernel/debug/mlx5/{function}/lag/port_sel_mode"))?;
    Some(text.split_whitespace().next().unwrap_or_default().to_owned())
}

/// The switch that each port's LACP talks to, by port.
///
/// Source: kernel `drivers/net/bonding/bond_procfs.c`, which shows it to administrators only.
fn partners(text: &str) -> BTreeMap<String, String> {
    let (mut partners, mut port, mut is_partner) = (BTreeMap::new(), None, false);
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("Slave Interface: ") {
            (port, is_partner) = (Some(name.to_owned()), false);
        } else if line.starts_with("details partner lacp pdu") {
            is_partner = true;
        } else if let (true, Some(mac), Some(port)) = (is_partner, line.strip_prefix("system mac address: "), &port) {
            partners.insert(port.clone(), mac.to_owned());
        }
    }
    partners
}

fn member(machine: &Machine, name: &str) -> BondMember {
    let file = |file: &str| format!("sys/class/net/{name}/{file}");
    let bonded = machine.text(&file("bonding_slave/perm_hwaddr"));
    let statistics = |way: &str, what: &str| machine.number(&file(&format!("statistics/{way}_{what}"))).unwrap_or(0);
    let mut counts = ["bytes", "packets"].map(|what| ["tx", "rx"].map(|way| statistics(way, what)));
    // RDMA passes the counters of the network interface by on NICs with a transport of their own. Source: mlx5,
    // `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`; not tried on such a device.
    let of_driver = EthtoolSource::new(machine, name).and_then(|mut source| source.read().ok());
    let is_pause = |name: &str| ["pause", "pfc", "ppp", "xoff"].iter().any(|word| name.contains(word));
    let mut pause: Reading = of_driver.iter().flatten().map(|(name, count)| (name.clone(), *count)).collect();
    pause.retain(|name, _| name.starts_with(ETHTOOL_PREFIX) && is_pause(name));
    if let Some(counters) = of_driver {
        for (row, what) in counts.iter_mut().zip(["bytes", "packets"]) {
            for (count, way) in row.iter_mut().zip(["tx", "rx"]) {
                if let Some(physical) = counters.get(&format!("ethtool.{way}_{what}_phy")) {
                    *count = *physical;
                }
            }
        }
    }
    let [bytes, packets] = counts;
    // A port that is down, or has no speed, has -1 or nothing.
    let speed_megabits = machine.number::<u64>(&file("speed")).filter(|speed| (1..u32::MAX.into()).contains(speed));
    let is_up = is_up(machine, name);
    let fastest = link_speeds(machine, name);
    BondMember {
        name: name.to_owned(),
        mac: bonded.or_else(|| machine.text(&file("address"))).unwrap_or_default(),
        is_up,
        bytes,
        packets,
        speed_megabits,
        fastest_megabits: fastest.own_megabits,
        agreed_megabits: fastest.agreed_megabits,
        is_speedless: is_up && speed_megabits.is_none(),
        mtu: machine.number(&file("mtu")),
        errors: ["tx", "rx"].map(|way| statistics(way, "errors")).iter().sum(),
        pause,
        lacp_partner: None,
    }
}

/// Whether an interface carries data. Not every driver sets its state, and one that is unknown carries data like one
/// that is up; the carrier of an interface that is switched off cannot be read.
///
/// Source: kernel `Documentation/networking/operstates.rst`, `IF_OPER_UNKNOWN`.
fn is_up(machine: &Machine, name: &str) -> bool {
    let file = |file: &str| machine.text(&format!("sys/class/net/{name}/{file}")).unwrap_or_default();
    match file("operstate").as_str() {
        "up" => true,
        "unknown" => file("carrier") == "1",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_bond_is_read_with_its_ports_and_a_plain_interface_is_its_own_only_port() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
            fs::write(path, text).expect("it is ours");
        };
        let port = "sys/class/infiniband/rxe0/ports/1";
        write("sys/class/infiniband/rxe0/parent", "bond0\n");
        write(&format!("{port}/gids/1"), "0000:0000:0000:0000:0000:ffff:0a09:0101\n");
        write(&format!("{port}/gid_attrs/types/1"), "RoCE v2\n");
        write("sys/class/net/bond0/bonding/mode", "balance-xor 2\n");
        write("sys/class/net/bond0/bonding/xmit_hash_policy", "layer3+4 1\n");
        write("sys/class/net/bond0/bonding/slaves", "eth1 eth0\n");
        write("sys/class/net/bond0/address", "52:54:00:00:00:01\n");
        for (place, name) in ["eth0", "eth1"].iter().enumerate() {
            let of = |file: &str| format!("sys/class/net/{name}/{file}");
            write(&of("operstate"), if place == 0 { "up\n" } else { "down\n" });
            write(&of("bonding_slave/perm_hwaddr"), "52:54:00:4b:00:01\n");
            write(&of("statistics/tx_bytes"), &format!("{}\n", 100 + place));
            write(&of("statistics/rx_bytes"), "7\n");
            write(&of("statistics/tx_packets"), "2\n");
            write(&of("statistics/rx_packets"), "1\n");
            write(&of("statistics/rx_errors"), "3\n");
            write(&of("speed"), if place == 0 { "100000\n" } else { "-1\n" });
            write(&of("mtu"), "9000\n");
            write(&format!("modes/{name}"), "100000baseCR4/Full\n200000baseCR4/Full\nAutoneg\n");
            write(&format!("partner_modes/{name}"), "100000baseCR4/Full\n");
            write(&format!("ethtool/{name}"), "rx_prio3_pause_duration: 7\nrx_discards_phy: 9\n");
        }
        let pdu = |way: &str, mac: &str| format!("details {way} lacp pdu:\n    system mac address: {mac}\n");
        let slave = |name: &str, partner| {
            format!("\nSlave Interface: {name}\n{}{}", pdu("actor", "52:54:00:00:00:01"), pdu("partner", partner))
        };
        let zero = "00:00:00:00:00:00";
        write("proc/net/bonding/bond0", &format!("v\n{}{}", slave("eth0", "aa:bb:cc:00:00:01"), slave("eth1", zero)));
        let machine = Machine::recorded(root.path());
        let bond = Bond::read(&machine, &Port::default()).expect("there is one device");
        assert_eq!(
            (bond.mode.as_str(), bond.policy.as_str(), bond.netdev.as_str()),
            ("balance-xor", "layer3+4", "bond0")
        );
        assert_eq!(bond.gid, "0000:0000:0000:0000:0000:ffff:0a09:0101");
        let seen: Vec<_> = bond.members.iter().map(|one| (one.name.as_str(), one.is_up, one.bytes)).collect();
        assert_eq!(seen, [("eth0", true, [100, 7]), ("eth1", false, [101, 7])]);
        let [first, second] = &bond.members[..] else { panic!("two ports") };
        assert_eq!(
            (first.speed_megabits, first.fastest_megabits, first.agreed_megabits, first.mtu),
            (Some(100_000), Some(200_000), Some(100_000), Some(9000))
        );
        assert_eq!((second.speed_megabits, second.is_speedless, first.errors), (None, false, 3), "it is down");
        assert_eq!(first.pause.iter().collect::<Vec<_>>(), [(&"ethtool.rx_prio3_pause_duration".to_owned(), &7)]);
        assert_eq!([first, second].map(|one| one.lacp_partner.as_deref()), [Some("aa:bb:cc:00:00:01"), Some(zero)]);
        write("sys/class/net/eth1/operstate", "unknown\n");
        write("sys/class/net/eth1/carrier", "1\n");
        assert!(is_up(&machine, "eth1"), "a driver that sets no state");
        write("sys/class/net/eth1/carrier", "0\n");
        assert!(!is_up(&machine, "eth1"), "and one without a carrier");
        fs::remove_dir_all(root.path().join("sys/class/net/bond0/bonding")).expect("it is ours");
        let plain = Bond::read(&machine, &Port::default()).expect("there is one device");
        assert_eq!((plain.mode.as_str(), plain.members.len(), plain.members[0].name.as_str()), ("", 1, "bond0"));
        let error = Bond::read(&machine, &Port { device: Some("mlx5_0".to_owned()), ..Port::default() });
        assert!(error.expect_err("it is not there").to_string().contains("rxe0"));
    }
}
