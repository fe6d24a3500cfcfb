//! What a qualification does: checks, and the units that they come to on the hosts of an inventory. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kelpie_criteria::UnitKey;
use kelpie_spaces::Opcode;

use crate::inventory::Inventory;
use crate::rounds::{Distance, Position, all_pairs, quick_scan};
use crate::traffic::SampleTimes;

/// What connecting, setting up and tearing down take on a real host, beside traffic. Source: our choice, for estimates.
const AROUND: Duration = Duration::from_millis(200);
/// Most senders of an incast. Source: our choice; as many as hosts of a large leaf.
const MOST_SENDERS: usize = 63;
/// Sessions of traffic of a pair: throughput, then latency.
const SESSIONS_OF_PAIR: u32 = 2;

/// A check of the fleet's hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetCheck {
    /// Each NIC sends to its own host through itself: the NIC, its PCIe link and the memory; no cable.
    Loopback(Opcode),
    /// Pairs send to each other both ways, then one small message after the other: NICs, cables and switches.
    Pairs {
        /// All pairs, or one for each distance.
        all: bool,
    },
    /// So many hosts send to one at a time: buffers and congestion control on the receiver's side.
    Incast(usize),
}

impl FleetCheck {
    /// The name, as units have it.
    pub fn name(self) -> String {
        match self {
            Self::Loopback(op) => format!("loopback_{}", op.to_string().to_lowercase()),
            // Whichever pairs were planned, more of them may tell.
            Self::Pairs { .. } => "pair".to_owned(),
            Self::Incast(senders) => format!("incast_{senders}"),
        }
    }

    /// The check of a unit.
    pub fn of_name(name: &str) -> Option<Self> {
        let op = |op: &str| Opcode::ALL.into_iter().find(|known| known.to_string().to_lowercase() == op);
        if name == "pair" {
            return Some(Self::Pairs { all: true });
        }
        let senders = name.strip_prefix("incast_").and_then(|senders| senders.parse().ok());
        let incast = senders.filter(|senders| (2..=MOST_SENDERS).contains(senders)).map(Self::Incast);
        name.strip_prefix("loopback_").and_then(op).map(Self::Loopback).or(incast)
    }

    /// How long a unit takes.
    pub fn expected(self, times: SampleTimes) -> Duration {
        let sessions = if matches!(self, Self::Pairs { .. }) { SESSIONS_OF_PAIR } else { 1 };
        (times.traffic() + AROUND) * sessions
    }
}

/// Checks one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// The checks.
    pub checks: Vec<FleetCheck>,
}

impl Plan {
    /// A plan that comes along, or checks by their names with commas between: `loopback_write`, `pair` (one of each host
    /// for each distance), `all_pairs`, `incast_3`.
    pub fn named(name: &str) -> Option<Self> {
        let names = match name {
            "quick" => "loopback_write,pair",
            "full" => "loopback_write,loopback_read,loopback_send,all_pairs,incast_3",
            names => names,
        };
        let of_name = |name: &str| match name {
            "pair" => Some(FleetCheck::Pairs { all: false }),
            "all_pairs" => Some(FleetCheck::Pairs { all: true }),
            name => FleetCheck::of_name(name),
        };
        let checks: Option<Vec<FleetCheck>> = names.split(',').map(of_name).collect();
        Some(Self { name: name.to_owned(), checks: checks? })
    }
}

/// A unit to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedUnit {
    /// What it is called.
    pub key: UnitKey,
    /// The check.
    pub check: FleetCheck,
    /// Its hosts by number; of several the receiver last.
    pub hosts: Vec<usize>,
    /// The rail of the NICs.
    pub rail: u32,
    /// How far apart the two hosts of a pair are.
    pub distance: Option<Distance>,
}

/// The hosts of an inventory by name, with positions and rails.
#[derive(Debug)]
pub struct FleetMap<'i> {
    inventory: &'i Inventory,
    numbers: HashMap<&'i str, usize>,
    positions: Vec<Position>,
    /// Whether a host has several NICs.
    has_rails: bool,
}

impl<'i> FleetMap<'i> {
    /// Of an inventory. Hosts without a leaf are at one of their own name, which none has.
    pub fn new(inventory: &'i Inventory) -> Self {
        let mut leaves: BTreeMap<(Option<&str>, Option<&str>), usize> = BTreeMap::new();
        let mut pods: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        let mut position = |host: &'i crate::inventory::InventoryHost| {
            let (pod, leaf) = (host.pod.as_deref(), host.leaf.as_deref());
            let (next_leaf, next_pod) = (leaves.len(), pods.len());
            Position {
                leaf: *leaves.entry((pod, leaf)).or_insert(next_leaf),
                pod: *pods.entry(pod).or_insert(next_pod),
            }
        };
        let positions = inventory.hosts.iter().map(&mut position).collect();
        let numbers = inventory.hosts.iter().enumerate().map(|(number, host)| (host.name.as_str(), number)).collect();
        let has_rails = inventory.hosts.iter().any(|host| host.ports().len() > 1);
        Self { inventory, numbers, positions, has_rails }
    }

    /// The units of a plan, in order: a host's units are done one after the other.
    pub fn units(&self, plan: &Plan) -> Vec<PlannedUnit> {
        plan.checks.iter().flat_map(|check| self.of_check(*check)).collect()
    }

    fn of_check(&self, check: FleetCheck) -> Vec<PlannedUnit> {
        let rails = self.rails();
        let of_rail = |rail: u32| {
            let has = |host: &usize| self.inventory.hosts[*host].ports().iter().any(|(other, _)| *other == rail);
            (0..self.inventory.hosts.len()).filter(has).collect::<Vec<_>>()
        };
        let with_rails = |rounds: Vec<Vec<usize>>| {
            let on_rails = rounds.into_iter().flat_map(|hosts| rails.iter().map(move |rail| (hosts.clone(), *rail)));
            on_rails.filter_map(|(hosts, rail)| self.unit(check, hosts, rail)).collect::<Vec<_>>()
        };
        let count = self.inventory.hosts.len();
        match check {
            FleetCheck::Loopback(_) => with_rails((0..count).map(|host| vec![host]).collect()),
            FleetCheck::Pairs { all } => {
                let rounds = if all { all_pairs(count) } else { quick_scan(&self.positions) };
                with_rails(rounds.into_iter().flatten().map(|(one, other)| vec![one, other]).collect())
            }
            FleetCheck::Incast(senders) => {
                let mut units = Vec::new();
                for rail in &rails {
                    let hosts = of_rail(*rail);
                    if hosts.len() <= senders {
                        continue;
                    }
                    // The next ones send, so that each host sends as often as all others.
                    units.extend((0..hosts.len()).filter_map(|receiver| {
                        let senders = (1..=senders).map(|step| hosts[(receiver + step) % hosts.len()]);
                        self.unit(check, senders.chain([hosts[receiver]]).collect(), *rail)
                    }));
                }
                units
            }
        }
    }

    fn rails(&self) -> Vec<u32> {
        let mut rails: Vec<u32> =
            self.inventory.hosts.iter().flat_map(|host| host.ports()).map(|(rail, _)| rail).collect();
        rails.sort_unstable();
        rails.dedup();
        rails
    }

    /// A unit, if all of its hosts have a NIC of the rail.
    fn unit(&self, check: FleetCheck, hosts: Vec<usize>, rail: u32) -> Option<PlannedUnit> {
        let has = |host: &usize| self.inventory.hosts[*host].ports().iter().any(|(other, _)| *other == rail);
        if !hosts.iter().all(has) {
            return None;
        }
        let component = if self.has_rails { format!("rail{rail}") } else { String::new() };
        let mut names: Vec<String> = hosts.iter().map(|host| self.inventory.hosts[*host].name.clone()).collect();
        let distance = match (check, &hosts[..]) {
            (FleetCheck::Pairs { .. }, [one, other]) => {
                names.sort();
                Some(Distance::between(self.positions[*one], self.positions[*other]))
            }
            _ => None,
        };
        let hosts = names.iter().map(|name| self.numbers[name.as_str()]).collect();
        let key = UnitKey { check: check.name(), hosts: names, component };
        Some(PlannedUnit { key, check, hosts, rail, distance })
    }

    /// A unit that somebody asks for by its key; none that this inventory does not have.
    pub fn of_key(&self, key: &UnitKey) -> Option<PlannedUnit> {
        let check = FleetCheck::of_name(&key.check)?;
        let hosts: Option<Vec<usize>> = key.hosts.iter().map(|name| self.numbers.get(name.as_str()).copied()).collect();
        let rail = if key.component.is_empty() {
            *self.rails().first()?
        } else {
            key.component.strip_prefix("rail")?.parse().ok()?
        };
        self.unit(check, hosts?, rail)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn inventory(hosts: usize, nics: usize) -> Inventory {
        let nics: Vec<String> = (0..nics).map(|nic| format!("{{device: mlx5_{nic}}}")).collect();
        let host = |host| {
            format!("  - {{name: n{host}, leaf: l{}, pod: p{}, nics: [{}]}}\n", host / 4, host / 8, nics.join(", "))
        };
        let text = format!("kelpie: inventory/1\nhosts:\n{}", (0..hosts).map(host).collect::<String>());
        Inventory::from_bytes(Path::new("x.yaml"), text.as_bytes()).expect("a good file")
    }

    #[test]
    fn a_full_plan_has_every_pair_on_every_rail_and_an_incast_to_each_host() {
        let inventory = inventory(6, 2);
        let map = FleetMap::new(&inventory);
        let units = map.units(&Plan::named("full").expect("known"));
        let count = |check: &str| units.iter().filter(|unit| unit.key.check == check).count();
        assert_eq!(["loopback_write", "loopback_read", "pair", "incast_3"].map(count), [12, 12, 30, 12]);
        let keys: BTreeSet<&UnitKey> = units.iter().map(|unit| &unit.key).collect();
        assert_eq!(keys.len(), units.len(), "each once");
        assert!(units.iter().all(|unit| map.of_key(&unit.key).is_some_and(|again| again.key == unit.key)));
    }

    #[test]
    fn a_quick_plan_has_a_pair_of_each_host_for_each_distance() {
        let inventory = inventory(16, 1);
        let units = FleetMap::new(&inventory).units(&Plan::named("quick").expect("known"));
        let pairs: Vec<&PlannedUnit> = units.iter().filter(|unit| unit.distance.is_some()).collect();
        assert_eq!(pairs.len(), 3 * 8);
        for distance in Distance::ALL {
            let hosts: BTreeSet<usize> = pairs
                .iter()
                .filter(|unit| unit.distance == Some(distance))
                .flat_map(|unit| unit.hosts.clone())
                .collect();
            assert_eq!(hosts.len(), 16, "{distance:?}");
        }
        assert!(pairs.iter().all(|unit| unit.key.component.is_empty()));
    }
}
