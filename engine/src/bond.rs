//! The bond below an RDMA port: how it chooses between its ports, which these are, and what each has moved.

use kelpie_monitor::machine::{Gid, Machine, PortLink, gids, rdma_devices};
use kelpie_monitor::sources::{CounterSource, EthtoolSource};
use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::verbs_host::{HostError, Port};

/// Most members that are looked at. Source: our choice, because LAGs of RDMA devices have two to four ports.
const MOST: usize = 8;

/// One port of the bond, or the only port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
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
}

/// What carries the traffic of an RDMA port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    pub members: Vec<Member>,
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
        let members = names.iter().map(|name| member(machine, name)).collect();
        Ok(Self { device, gid, mode: word("mode"), policy: word("xmit_hash_policy"), selection, members, netdev })
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

fn member(machine: &Machine, name: &str) -> Member {
    let file = |file: &str| format!("sys/class/net/{name}/{file}");
    let bonded = machine.text(&file("bonding_slave/perm_hwaddr"));
    let statistics = |way: &str, what: &str| machine.number(&file(&format!("statistics/{way}_{what}"))).unwrap_or(0);
    let mut counts = ["bytes", "packets"].map(|what| ["tx", "rx"].map(|way| statistics(way, what)));
    // RDMA passes the counters of the network interface by on NICs with a transport of their own. Source: mlx5,
    // `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`; not tried on such a device.
    let of_driver = EthtoolSource::new(machine, name).and_then(|mut source| source.read().ok());
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
    Member {
        name: name.to_owned(),
        mac: bonded.or_else(|| machine.text(&file("address"))).unwrap_or_default(),
        is_up: is_up(machine, name),
        bytes,
        packets,
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
        }
        let machine = Machine::recorded(root.path());
        let bond = Bond::read(&machine, &Port::default()).expect("there is one device");
        assert_eq!(
            (bond.mode.as_str(), bond.policy.as_str(), bond.netdev.as_str()),
            ("balance-xor", "layer3+4", "bond0")
        );
        assert_eq!(bond.gid, "0000:0000:0000:0000:0000:ffff:0a09:0101");
        let seen: Vec<_> = bond.members.iter().map(|one| (one.name.as_str(), one.is_up, one.bytes)).collect();
        assert_eq!(seen, [("eth0", true, [100, 7]), ("eth1", false, [101, 7])]);
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
