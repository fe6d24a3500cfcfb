//! The catalog of a pair of hosts as `catalog/1`: which UDP source port takes which path, what is wrong with it, and
//! what it was measured on. How it is measured is in `probe`.

mod changes;
mod rules;

pub use changes::contradictions;

use kelpie_spaces::{DocumentError, Host, read_tagged};
use kelpie_topology::PortSide;
use serde::{Deserialize, Serialize};

/// How a device chooses that deals QPs out to the ports of its bond, in the words of mlx5's driver.
const DEALT: &str = "queue_affinity";

/// LAG ports that are probed. Source: our choice, because a bond here has a left and a right port.
pub const LAG_PORTS: [u8; 2] = [1, 2];

/// Longest text of a file. Units: bytes. Source: our choice.
const LONGEST: usize = 512;

/// Longest reason why QPs cannot be put on LAG ports, so that its bytes fit. Units: characters.
pub const LONGEST_REASON: usize = LONGEST / 4;

/// A port of a bond.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BondPort {
    /// Network interface.
    pub name: String,
    /// Its own address.
    pub mac: String,
}

/// What the paths of a host begin and end at. A catalog is of no use once any of it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogEnd {
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
    pub ports: Vec<BondPort>,
    /// Those that were down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<String>,
}

/// What a source port leads to; if the device deals QPs out, a source port of a QP that was put on a LAG port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcePortPath {
    /// UDP source port.
    pub source_port: u16,
    /// LAG port on which its QP was put.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag_port: Option<u8>,
    /// Port by which it leaves; none if it could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<PortSide>,
    /// Port at which it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrives: Option<PortSide>,
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

/// How a QP leaves. Of QPs that go together, either all have a LAG port or none has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QpPort {
    /// From which UDP source port.
    pub source_port: u16,
    /// On which port of the device's LAG it is put; none leaves it to the device.
    pub lag_port: Option<u8>,
}

impl QpPort {
    /// From this source port, wherever the device puts it.
    pub fn hashed(source_port: u16) -> Self {
        Self { source_port, lag_port: None }
    }
}

/// A pair of ports, and what goes through both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortPair {
    /// Port of the sender.
    pub leaves: PortSide,
    /// Port of the receiver.
    pub arrives: PortSide,
    /// Goodput. Units: bits/s.
    pub bps: f64,
}

/// A port of a device's LAG.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LagPort {
    /// Its number, from 1.
    pub port: u8,
    /// By which the device says that a QP leaves that was put on it.
    pub active: u8,
    /// Port of the bond by which such a QP was seen to leave; none if it could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<PortSide>,
}

/// What came of putting QPs on the ports of a LAG: one of both.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// The ports, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<LagPort>,
    /// Why QPs cannot be put on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Lag {
    /// The ports that were seen to lead to a side.
    pub fn known(&self) -> impl Iterator<Item = (u8, PortSide)> + '_ {
        self.ports.iter().filter_map(|one| Some((one.port, one.leaves?)))
    }
}

/// All that was found in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogDirection {
    /// The sender.
    pub from: Host,
    /// LAG ports of the sender, if its device deals QPs out to the ports of its bond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<Lag>,
    /// By source port.
    pub paths: Vec<SourcePortPath>,
    /// Throughput of the pairs of ports.
    pub ways: Vec<PortPair>,
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
    pub ends: Vec<CatalogEnd>,
    /// Both directions.
    pub directions: Vec<CatalogDirection>,
}

impl SourcePortPath {
    /// One of which nothing is known yet.
    pub fn unknown(QpPort { source_port, lag_port }: QpPort) -> Self {
        Self {
            source_port,
            lag_port,
            leaves: None,
            arrives: None,
            sent: 0,
            received: 0,
            latency_us: None,
            group: None,
            fault: None,
        }
    }

    /// How a QP leaves that takes it.
    pub fn port(&self) -> QpPort {
        QpPort { source_port: self.source_port, lag_port: self.lag_port }
    }
}

impl CatalogEnd {
    /// Whether the device deals QPs out to the ports of its bond, whatever their source ports are.
    pub fn deals(&self) -> bool {
        self.selection == DEALT
    }
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

    /// What came of LAG ports of this host; none if its device deals no QPs out.
    pub fn lag(&self, from: Host) -> Option<&Lag> {
        self.directions.iter().find(|direction| direction.from == from)?.lag.as_ref()
    }

    /// Paths from one host that leave and arrive on this side and that nothing is wrong with.
    pub fn sound(&self, from: Host, side: PortSide) -> Vec<&SourcePortPath> {
        let direction = self.directions.iter().filter(|direction| direction.from == from);
        let fits = |path: &&SourcePortPath| [path.leaves, path.arrives] == [Some(side); 2] && path.fault.is_none();
        direction.flat_map(|direction| &direction.paths).filter(fits).collect()
    }

    /// Their source ports.
    pub fn straight(&self, from: Host, side: PortSide) -> Vec<u16> {
        self.sound(from, side).into_iter().map(|path| path.source_port).collect()
    }

    /// Paths for so many QPs, half and half: left to left, right to right, none twice while there are enough.
    pub fn plan(&self, from: Host, qps: usize) -> Vec<&SourcePortPath> {
        let sides = PortSide::BOTH.map(|side| self.sound(from, side));
        let usable: Vec<_> = sides.iter().filter(|paths| !paths.is_empty()).collect();
        (0..if usable.is_empty() { 0 } else { qps })
            .map(|qp| (qp / usable.len(), usable[qp % usable.len()]))
            .map(|(turn, paths)| paths[turn % paths.len()])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(host: Host) -> CatalogEnd {
        let port = |name: &str| BondPort { name: name.to_owned(), mac: format!("52:54:00:00:00:0{}", name.len()) };
        CatalogEnd {
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
        use PortSide::{Left, Right};
        let path = |source_port, leaves, arrives, fault: Option<&str>| SourcePortPath {
            leaves: Some(leaves),
            arrives: Some(arrives),
            sent: 200,
            received: 200,
            latency_us: Some(12.5),
            group: Some(0),
            fault: fault.map(str::to_owned),
            ..SourcePortPath::unknown(QpPort::hashed(source_port))
        };
        let paths = vec![
            path(50_000, Left, Left, None),
            path(50_001, Right, Right, None),
            path(50_002, Left, Right, None),
            path(50_003, Left, Left, None),
            path(50_004, Right, Right, Some("loses 2 %")),
        ];
        let way = PortPair { leaves: Left, arrives: Left, bps: 1.5e7 };
        let direction = |from| CatalogDirection { from, lag: None, paths: paths.clone(), ways: vec![way.clone()] };
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
        assert_eq!(catalog.straight(Host::A, PortSide::Right), [50_001]);
        let plan = |catalog: &Catalog, from, qps| -> Vec<u16> {
            catalog.plan(from, qps).into_iter().map(|path| path.source_port).collect()
        };
        assert_eq!(plan(&catalog, Host::B, 5), [50_000, 50_001, 50_003, 50_001, 50_000]);
        let mut lame = catalog;
        lame.directions[0].paths[1].fault = Some("dead".to_owned());
        assert_eq!(plan(&lame, Host::A, 3), [50_000, 50_003, 50_000]);
        assert!(lame.plan(Host::A, 0).is_empty());
    }

    /// As above, but host a deals QPs out, and has LAG port 1 on its right.
    fn dealt() -> Catalog {
        let mut catalog = catalog();
        catalog.ends[0].selection = "queue_affinity".to_owned();
        let port = |port, leaves| LagPort { port, active: port, leaves: Some(leaves) };
        let direction = &mut catalog.directions[0];
        direction.lag = Some(Lag { ports: vec![port(1, PortSide::Right), port(2, PortSide::Left)], refused: None });
        for path in &mut direction.paths {
            path.lag_port = Some(if path.leaves == Some(PortSide::Right) { 1 } else { 2 });
        }
        catalog
    }

    #[test]
    fn a_plan_has_the_lag_port_of_each_path_and_there_is_none_without_the_devices_call() {
        let catalog = dealt();
        let text = catalog.to_yaml();
        assert_eq!(Catalog::from_yaml("c.yaml", &text).expect("it was written so"), catalog);
        let planned = catalog.plan(Host::A, 3).into_iter().map(|path| (path.source_port, path.lag_port));
        assert_eq!(planned.collect::<Vec<_>>(), [(50_000, Some(2)), (50_001, Some(1)), (50_003, Some(2))]);
        assert!(catalog.plan(Host::B, 3).iter().all(|path| path.lag_port.is_none()));
        let mut without = catalog.clone();
        without.directions[0].lag = Some(Lag { ports: Vec::new(), refused: Some("no call".to_owned()) });
        for path in &mut without.directions[0].paths {
            (path.lag_port, path.leaves) = (None, None);
        }
        assert_eq!(Catalog::from_yaml("c.yaml", &without.to_yaml()).expect("it was written so"), without);
        assert!(without.plan(Host::A, 3).is_empty() && without.straight(Host::A, PortSide::Left).is_empty());
    }

    #[test]
    fn lag_ports_that_contradict_are_refused_with_line_and_key() {
        let text = dealt().to_yaml();
        for (from, to, expected) in [
            ("selection: queue_affinity", "selection: hash", "directions[0].lag: leave it out"),
            ("  lag:\n", "  lag_was:\n", "lag_was"),
            ("active: 1", "activ: 1", "activ"),
            ("  - port: 1", "  - port: 2", "directions[0].lag.ports: write LAG port 1, then 2"),
            (
                "    ports:\n    - port: 1",
                "    refused: x\n    ports:\n    - port: 1",
                "lag: write `ports`, or in `refused`",
            ),
            ("lag_port: 2", "lag_port: 3", "directions[0].paths[0].lag_port: the direction's `lag` has it not"),
            ("lag_port: 2", "lag_port: 1", "directions[0].paths[0].leaves: the direction's `lag` does not"),
        ] {
            let error = refusal(&text, from, to);
            let line = error.strip_prefix("c.yaml:").and_then(|rest| rest.split(':').next()?.parse::<u32>().ok());
            assert!(line.is_some_and(|line| line > 1) && error.contains(expected), "{to}: {error}");
        }
        let mut old = dealt();
        old.directions[0].lag = None;
        let error = Catalog::from_yaml("c.yaml", &old.to_yaml()).expect_err("it says nothing of LAG ports").to_string();
        assert!(error.contains("directions[0].lag: write what its LAG ports lead to"), "{error}");
    }

    #[test]
    fn lag_ports_that_changed_are_said() {
        let catalog = dealt();
        let was = [catalog.directions[0].lag.clone(), None];
        assert!(catalog.lag_changes(&was).is_empty());
        let mut now = was.clone();
        let lag = now[0].as_mut().expect("it deals QPs out");
        lag.ports[0].leaves = Some(PortSide::Left);
        lag.ports[1].leaves = None;
        assert_eq!(catalog.lag_changes(&now), ["host a: LAG port 1 leaves by right, now left"]);
        now[0] = Some(Lag { ports: Vec::new(), refused: Some("no call".to_owned()) });
        assert_eq!(catalog.lag_changes(&now), ["host a: LAG ports can be chosen, now no call"]);
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

    /// Why a catalog in which this was changed is refused.
    fn refusal(text: &str, from: &str, to: &str) -> String {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        Catalog::from_yaml("c.yaml", &changed).expect_err(to).to_string()
    }

    #[test]
    fn bad_files_name_line_and_key() {
        let text = catalog().to_yaml();
        for (from, to, expected) in [
            ("catalog/1", "catalog/2", "kelpie: this is format `catalog/2`; write `kelpie: catalog/1`"),
            ("source_port: 50000", "source_port: 80", "directions[0].paths[0].source_port: write 49152"),
            ("source_port: 50000", "source_port: 50001", "paths[1].source_port: write them in order"),
            ("received: 200", "received: 201", "received: more than were sent"),
            ("- host: a", "- host: b", "ends: write host a, then host b"),
            ("subsystem:", "substem:", "substem"),
        ] {
            let said = refusal(&text, from, to);
            assert!(said.starts_with("c.yaml:") && said.contains(expected), "{to}: {said}");
        }
    }
}
