//! The catalog of a pair of hosts as `catalog/1`: which UDP source port takes which path, what is wrong with it, and
//! what it was measured on. How it is measured is in `probe`.

use kelpie_spaces::{DocumentError, Host, read_tagged};
use kelpie_topology::Side;
use kelpie_topology::ecmp::{FIRST_PORT, PORTS};
use serde::{Deserialize, Serialize};

/// Longest text of a file. Units: bytes. Source: our choice.
const LONGEST: usize = 512;

/// A port of a bond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Network interface.
    pub name: String,
    /// Its own address.
    pub mac: String,
}

/// What the paths of a host begin and end at. A catalog is of no use once any of it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Which host.
    pub host: Host,
    /// RDMA device.
    pub device: String,
    /// Address of its traffic, as the kernel writes GIDs.
    pub gid: String,
    /// Mode of the bond; empty if there is none.
    pub mode: String,
    /// What the bond hashes.
    pub policy: String,
    /// How the device itself chooses, if it says so.
    pub selection: String,
    /// Ports, the left one first.
    pub ports: Vec<Port>,
    /// Those that were down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
}

/// What a source port leads to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// UDP source port.
    pub source_port: u16,
    /// Port by which it leaves; none if it could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Side>,
    /// Port at which it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrives: Option<Side>,
    /// Packets that were sent to measure loss.
    pub sent: u64,
    /// Those that arrived.
    pub received: u64,
    /// Median time of a small request. Units: microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
    /// Source ports of one group have about the same latency; groups say nothing of which switches they cross.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Why it is not to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// A pair of ports, and what goes through both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Port of the sender.
    pub leaves: Side,
    /// Port of the receiver.
    pub arrives: Side,
    /// Goodput. Units: bits/s.
    pub bps: f64,
}

/// All that was found in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// The sender.
    pub from: Host,
    /// By source port.
    pub paths: Vec<Path>,
    /// Throughput of the pairs of ports.
    pub ways: Vec<Way>,
}

/// A catalog.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Name of the subsystem.
    pub subsystem: String,
    /// When it was measured, for people.
    pub measured: String,
    /// The same. Units: seconds since 1970.
    pub measured_unix_s: u64,
    /// Both hosts.
    pub ends: Vec<End>,
    /// Both directions.
    pub directions: Vec<Direction>,
}

impl Catalog {
    /// Tag of the format.
    pub const FORMAT: &'static str = "catalog/1";

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, DocumentError> {
        let (document, catalog) = read_tagged::<Self>(file, text, Self::FORMAT)?;
        document.refuse_all(catalog.broken_rules().into_iter())?;
        Ok(catalog)
    }

    /// The file.
    ///
    /// # Panics
    /// Never: all of it can be written.
    pub fn to_yaml(&self) -> String {
        let body = serde_yaml::to_string(self).expect("plain data");
        format!("kelpie: {}\n{body}", Self::FORMAT)
    }

    /// Every key that breaks a rule, with the rule.
    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        let mut check = |is_right: bool, key: &str, rule: &str| {
            if !is_right {
                broken.push((key.to_owned(), rule.to_owned()));
            }
        };
        let hosts: Vec<Host> = self.ends.iter().map(|end| end.host).collect();
        check(hosts == Host::BOTH, "ends", "write host a, then host b");
        let senders: Vec<Host> = self.directions.iter().map(|direction| direction.from).collect();
        check(senders == Host::BOTH, "directions", "write the direction from a, then that from b");
        for (place, end) in self.ends.iter().enumerate() {
            check((1..=8).contains(&end.ports.len()), &format!("ends[{place}].ports"), "write 1 to 8 ports");
            let words = [
                ("device", &end.device),
                ("gid", &end.gid),
                ("mode", &end.mode),
                ("policy", &end.policy),
                ("selection", &end.selection),
            ];
            for (key, word) in words {
                let rule = format!("write at most {LONGEST} bytes");
                check(word.len() <= LONGEST, &format!("ends[{place}].{key}"), &rule);
            }
        }
        for (place, Direction { paths, ways, .. }) in self.directions.iter().enumerate() {
            let at = format!("directions[{place}]");
            check(ways.len() <= 4, &format!("{at}.ways"), "write at most four ways");
            if paths.len() > usize::from(PORTS) {
                check(false, &format!("{at}.paths"), &format!("write at most {PORTS} paths"));
                continue;
            }
            for (index, path) in paths.iter().enumerate() {
                let key = |key: &str| format!("{at}.paths[{index}].{key}");
                let port = path.source_port;
                check(port >= FIRST_PORT, &key("source_port"), &format!("write {FIRST_PORT} to 65535"));
                let is_next = index == 0 || paths[index - 1].source_port < port;
                check(is_next, &key("source_port"), "write them in order, none twice");
                check(path.received <= path.sent, &key("received"), "more than were sent");
                let is_time = path.latency_us.is_none_or(|latency| latency.is_finite() && latency >= 0.0);
                check(is_time, &key("latency_us"), "write a number from 0");
            }
        }
        broken
    }

    /// What of a host is not as it was measured; empty if the catalog holds.
    pub fn changes(&self, now: &[End]) -> Vec<String> {
        let mut changes = Vec::new();
        for end in now {
            let Some(was) = self.ends.iter().find(|was| was.host == end.host) else { continue };
            let names = |end: &End| {
                end.ports.iter().map(|port| format!("{} ({})", port.name, port.mac)).collect::<Vec<_>>().join(", ")
            };
            let down = |end: &End| if end.down.is_empty() { "none".to_owned() } else { end.down.join(", ") };
            for (what, before, after) in [
                ("device", was.device.clone(), end.device.clone()),
                ("address", was.gid.clone(), end.gid.clone()),
                ("bond's mode", was.mode.clone(), end.mode.clone()),
                ("bond's hash", was.policy.clone(), end.policy.clone()),
                ("device's choice of ports", was.selection.clone(), end.selection.clone()),
                ("ports", names(was), names(end)),
                ("ports that are down", down(was), down(end)),
            ] {
                if before != after {
                    let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
                    changes.push(format!("host {}: {what} {}, now {}", end.host, shown(&before), shown(&after)));
                }
            }
        }
        changes
    }

    /// The path of a source port.
    pub fn path(&self, from: Host, source_port: u16) -> Option<&Path> {
        let paths = &self.directions.iter().find(|direction| direction.from == from)?.paths;
        paths.iter().find(|path| path.source_port == source_port)
    }

    /// Source ports from one host that leave and arrive on this side and that nothing is wrong with. If the device deals
    /// QPs out, a source port says only where it arrives, and the QP's LAG port by which it leaves.
    pub fn straight(&self, from: Host, side: Side) -> Vec<u16> {
        let direction = self.directions.iter().filter(|direction| direction.from == from);
        let is_dealt = self.ends.iter().any(|end| end.host == from && end.selection == "queue_affinity");
        let leaves = |path: &Path| is_dealt || path.leaves == Some(side);
        let fits = |path: &&Path| leaves(path) && path.arrives == Some(side) && path.fault.is_none();
        direction.flat_map(|direction| &direction.paths).filter(fits).map(|path| path.source_port).collect()
    }

    /// Source ports for so many QPs, half and half: left to left, right to right, none twice while there are enough.
    pub fn plan(&self, from: Host, qps: usize) -> Vec<u16> {
        let sides = Side::BOTH.map(|side| self.straight(from, side));
        let usable: Vec<&Vec<u16>> = sides.iter().filter(|ports| !ports.is_empty()).collect();
        if usable.is_empty() {
            return Vec::new();
        }
        (0..qps)
            .map(|qp| usable[qp % usable.len()])
            .enumerate()
            .map(|(qp, ports)| ports[qp / usable.len() % ports.len()])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(host: Host) -> End {
        let port = |name: &str| Port { name: name.to_owned(), mac: format!("52:54:00:00:00:0{}", name.len()) };
        End {
            host,
            device: "rxe0".to_owned(),
            gid: "0000:0000:0000:0000:0000:ffff:0a09:0101".to_owned(),
            mode: "balance-xor".to_owned(),
            policy: "layer3+4".to_owned(),
            selection: String::new(),
            ports: vec![port("eth0"), port("eth1")],
            down: Vec::new(),
        }
    }

    fn catalog() -> Catalog {
        use Side::{Left, Right};
        let path = |source_port, leaves, arrives, fault: Option<&str>| Path {
            source_port,
            leaves: Some(leaves),
            arrives: Some(arrives),
            sent: 200,
            received: 200,
            latency_us: Some(12.5),
            group: Some(0),
            fault: fault.map(str::to_owned),
        };
        let paths = vec![
            path(50_000, Left, Left, None),
            path(50_001, Right, Right, None),
            path(50_002, Left, Right, None),
            path(50_003, Left, Left, None),
            path(50_004, Right, Right, Some("loses 2 %")),
        ];
        let way = Way { leaves: Left, arrives: Left, bps: 1.5e7 };
        let direction = |from| Direction { from, paths: paths.clone(), ways: vec![way.clone()] };
        Catalog {
            subsystem: "rack 7".to_owned(),
            measured: "2026-11-24 07:00:00 UTC".to_owned(),
            measured_unix_s: 1_795_503_600,
            ends: vec![end(Host::A), end(Host::B)],
            directions: vec![direction(Host::A), direction(Host::B)],
        }
    }

    #[test]
    fn a_catalog_reads_back_and_plans_half_and_half_without_what_is_faulty() {
        let catalog = catalog();
        assert_eq!(Catalog::from_yaml("c.yaml", &catalog.to_yaml()).expect("it was written so"), catalog);
        assert_eq!(catalog.straight(Host::A, Side::Right), [50_001]);
        assert_eq!(catalog.plan(Host::B, 5), [50_000, 50_001, 50_003, 50_001, 50_000]);
        let mut lame = catalog;
        lame.directions[0].paths[1].fault = Some("dead".to_owned());
        assert_eq!(lame.plan(Host::A, 3), [50_000, 50_003, 50_000]);
        assert!(lame.plan(Host::A, 0).is_empty());
        // Of a device that deals QPs out, the port by which they leave is no source port's.
        lame.ends[0].selection = "queue_affinity".to_owned();
        assert_eq!(
            [Side::Left, Side::Right].map(|side| lame.straight(Host::A, side)),
            [vec![50_000, 50_003], vec![50_002]]
        );
    }

    #[test]
    fn what_changed_is_said() {
        let catalog = catalog();
        let mut now = catalog.ends.clone();
        assert!(catalog.changes(&now).is_empty());
        now[1].mode = "active-backup".to_owned();
        now[1].down = vec!["eth1".to_owned()];
        let changes = catalog.changes(&now);
        assert_eq!(changes[0], "host b: bond's mode balance-xor, now active-backup");
        assert_eq!(changes[1], "host b: ports that are down none, now eth1");
    }

    #[test]
    fn all_mistakes_are_said_at_once() {
        let mut wrong = catalog();
        wrong.ends[1].ports.clear();
        wrong.ends[0].policy = "x".repeat(LONGEST + 1);
        wrong.directions[0].paths[2].received = 201;
        wrong.directions[1].paths[3].source_port = 7;
        let error = Catalog::from_yaml("c.yaml", &wrong.to_yaml()).expect_err("it breaks rules").to_string();
        for expected in [
            "ends[0].policy: write at most 512 bytes",
            "ends[1].ports: write 1 to 8 ports",
            "directions[0].paths[2].received: more than were sent",
            "directions[1].paths[3].source_port: write 49152 to 65535",
            "directions[1].paths[3].source_port: write them in order, none twice",
        ] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn bad_files_name_line_and_key() {
        let text = catalog().to_yaml();
        for (from, to, expected) in [
            ("catalog/1", "catalog/2", "kelpie: this is another version; write `kelpie: catalog/1`"),
            ("source_port: 50000", "source_port: 80", "directions[0].paths[0].source_port: write 49152"),
            ("source_port: 50000", "source_port: 50001", "paths[1].source_port: write them in order"),
            ("received: 200", "received: 201", "received: more than were sent"),
            ("- host: a", "- host: b", "ends: write host a, then host b"),
            ("subsystem:", "substem:", "substem"),
        ] {
            let error = Catalog::from_yaml("c.yaml", &text.replacen(from, to, 1)).expect_err(to);
            let said = error.to_string();
            assert!(said.starts_with("c.yaml:") && said.contains(expected), "{to}: {said}");
        }
    }
}
