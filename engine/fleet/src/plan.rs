//! What a qualification does: checks, and the units that they come to on the hosts of an inventory. Pure.

use std::collections::{HashMap, HashSet};

use kelpie_criteria::UnitKey;
use kelpie_spaces::document::utf8;
use kelpie_spaces::{DocumentError, Opcode, read_tagged};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign_check::CampaignCheck;
use crate::command::CommandCheck;
use crate::inventory::{Inventory, InventoryHost};
use crate::place::{by_place, positions};
use crate::rounds::{Distance, Position, all_pairs, batches, quick_scan};

/// Most senders of an incast. Source: our choice; as many as hosts of a large leaf.
const MOST_SENDERS: usize = 63;
/// Most hosts of a batch. Source: our choice; larger ones take nearly as long as all pairs.
const MOST_OF_BATCH: usize = 64;
/// Fewest hosts of a ring: two are a pair.
const LEAST_OF_RING: usize = 3;

/// A check of the fleet's hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FleetCheck {
    /// Each NIC sends to its own host through itself: the NIC, its PCIe link and the memory; no cable.
    Loopback(Opcode),
    /// Pairs send to each other both ways, then one small message after the other: NICs, cables and switches.
    Pairs {
        /// Which.
        of: PairsOf,
    },
    /// So many hosts send to one at a time: buffers and congestion control on the receiver's side.
    Incast(usize),
    /// A program for each host, by its place among the plan's commands.
    Command(usize),
}

/// Which hosts send to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PairsOf {
    /// Each host and one other, for each distance.
    Distances,
    /// All pairs of so many hosts that stand side by side.
    Batch(usize),
    /// All pairs.
    All,
    /// Each host sends to the next one, all at the same time.
    Ring,
}

impl FleetCheck {
    /// A check of traffic by its name, as units have it.
    fn of_name(name: &str) -> Option<Self> {
        let op = |op: &str| Opcode::ALL.into_iter().find(|known| known.to_string().to_lowercase() == op);
        let incast = numbered(name, "incast_", 2..=MOST_SENDERS).map(Self::Incast);
        let ring = (name == RING).then_some(Self::Pairs { of: PairsOf::Ring });
        name.strip_prefix("loopback_").and_then(op).map(Self::Loopback).or(incast).or(ring)
    }
}

/// The number behind a name's beginning, if it is one of these.
fn numbered(name: &str, begin: &str, of: std::ops::RangeInclusive<usize>) -> Option<usize> {
    name.strip_prefix(begin)?.parse().ok().filter(|number| of.contains(number))
}

/// Checks one after the other, format `plan/1`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Names of checks or of plans: `quick`, `full`, `loopback_write`, `pair` (one of each host for each distance),
    /// `batches_8` (all pairs of each eight hosts), `all_pairs`, `ring`, `incast_3`, `doctor`. Commands
    /// follow.
    #[serde(default)]
    pub checks: Vec<String>,
    /// Programs that are run for each host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandCheck>,
    /// Short campaigns on pairs of neighbours, behind all else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub campaigns: Vec<CampaignCheck>,
}

/// Why a plan was refused.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It does not fit the format, or breaks a rule; the text names line and key.
    #[error(transparent)]
    File(#[from] DocumentError),
    /// It has a check that nobody knows.
    #[error(
        "no check `{0}`: write quick, full, or some of loopback_write, loopback_read, loopback_send, pair, batches_8, \
         all_pairs, ring, incast_3 and doctor, with commas between; or name a file of format plan/1"
    )]
    Unknown(String),
}

impl Plan {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "plan/1";

    /// Names of checks and plans with commas between.
    ///
    /// # Errors
    /// The name that nobody knows.
    pub fn named(names: &str) -> Result<Self, PlanError> {
        let plan = Self { checks: names.split(',').map(|name| name.trim().to_owned()).collect(), ..Self::default() };
        plan.checks().map(|_| plan)
    }

    /// Reads and checks a file's bytes.
    ///
    /// # Errors
    /// Where it breaks a rule.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, PlanError> {
        let (document, file) = read_tagged::<Self>(name, utf8(name, bytes)?, Self::FORMAT)?;
        document.refuse_all(file.broken_rules().into_iter())?;
        Ok(file)
    }

    /// The JSON schema of the file.
    pub fn schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Plan).to_value();
        schema["title"] = "Kelpie plan of a qualification, version 1".into();
        schema["properties"]["kelpie"] = serde_json::json!({"const": Self::FORMAT});
        schema
    }

    fn broken_rules(&self) -> Vec<(String, String)> {
        let mut broken = Vec::new();
        for (place, name) in self.checks.iter().enumerate() {
            if let Err(error) = of_name(name) {
                broken.push((format!("checks[{place}]"), error.to_string()));
            }
        }
        for (place, command) in self.commands.iter().enumerate() {
            let of_command = command.broken_rules().into_iter();
            broken.extend(of_command.map(|(key, rule)| (format!("commands[{place}].{key}"), rule)));
            let is_taken = self.commands[..place].iter().any(|other| other.name == command.name);
            if is_taken || of_name(&command.name).is_ok() {
                broken.push((format!("commands[{place}].name"), format!("`{}` is a check already", command.name)));
            }
        }
        for (place, campaign) in self.campaigns.iter().enumerate() {
            let of_campaign = campaign.broken_rules().into_iter();
            broken.extend(of_campaign.map(|(key, rule)| (format!("campaigns[{place}].{key}"), rule)));
            let others = self.campaigns[..place].iter().map(|other| &other.name);
            let is_taken = others.chain(self.commands.iter().map(|other| &other.name)).any(|it| *it == campaign.name);
            if is_taken || of_name(&campaign.name).is_ok() {
                broken.push((format!("campaigns[{place}].name"), format!("`{}` is a check already", campaign.name)));
            }
        }
        if self.checks.is_empty() && self.commands.is_empty() && self.campaigns.is_empty() {
            broken.push(("checks".to_owned(), "write at least one, a command or a campaign".to_owned()));
        }
        broken
    }

    /// Its checks with their names, each once.
    fn checks(&self) -> Result<Vec<(String, FleetCheck)>, PlanError> {
        let mut checks: Vec<(String, FleetCheck)> = Vec::new();
        for name in &self.checks {
            checks.extend(of_name(name)?);
        }
        checks
            .extend(self.commands.iter().enumerate().map(|(place, of)| (of.name.clone(), FleetCheck::Command(place))));
        let mut seen = HashSet::new();
        checks.retain(|(_, check)| seen.insert(*check));
        Ok(checks)
    }

    /// Whether hosts examine themselves.
    pub fn has_doctor(&self) -> bool {
        self.checks.iter().any(|check| check == DOCTOR)
    }

    /// Whether it has all checks of another one; all pairs are more than some.
    pub fn covers(&self, other: &Self) -> bool {
        let has_campaign = |campaign: &CampaignCheck| self.campaigns.contains(campaign);
        if (other.has_doctor() && !self.has_doctor()) || !other.campaigns.iter().all(has_campaign) {
            return false;
        }
        let (Ok(mine), Ok(theirs)) = (self.checks(), other.checks()) else { return false };
        let has = |check: FleetCheck| mine.iter().any(|(_, one)| *one == check);
        theirs.into_iter().all(|(_, check)| match check {
            FleetCheck::Command(place) => self.commands.contains(&other.commands[place]),
            FleetCheck::Pairs { of: PairsOf::Distances | PairsOf::Batch(_) } => {
                has(check) || has(FleetCheck::Pairs { of: PairsOf::All })
            }
            check => has(check),
        })
    }

    /// Its checks and commands in a few words, as `named` reads them if there is no command.
    pub fn words(&self) -> String {
        let programs = self.commands.iter().map(|command| &command.name);
        let names = self.checks.iter().chain(programs).chain(self.campaigns.iter().map(|campaign| &campaign.name));
        names.map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// A check by the name that units have.
    fn check(&self, name: &str) -> Option<FleetCheck> {
        let command = self.commands.iter().position(|command| command.name == name).map(FleetCheck::Command);
        let traffic =
            if name == PAIR { Some(FleetCheck::Pairs { of: PairsOf::All }) } else { FleetCheck::of_name(name) };
        command.or(traffic)
    }
}

/// The checks of the plan `full`.
pub const FULL: [&str; 5] = ["loopback_write", "loopback_read", "loopback_send", ALL_PAIRS, "incast_3"];
const ALL_PAIRS: &str = "all_pairs";

/// The check of a full plan that units of this name are of.
pub fn plan_name(check: &str) -> &str {
    if check == PAIR { ALL_PAIRS } else { check }
}

/// Whichever pairs were planned, more of them may tell, so that their units have one name.
const PAIR: &str = "pair";
/// The check that moves no traffic, and its units: hosts examine themselves.
pub const DOCTOR: &str = "doctor";
/// The check and its units.
pub const RING: &str = "ring";

/// The checks that a name stands for, each with the name of its units.
fn of_name(name: &str) -> Result<Vec<(String, FleetCheck)>, PlanError> {
    let names: &[&str] = match name {
        "quick" => &["loopback_write", "pair"],
        "full" => &FULL,
        // No unit of traffic.
        DOCTOR => &[],
        name => &[name],
    };
    let one = |name: &&str| match *name {
        PAIR => Ok((PAIR.to_owned(), FleetCheck::Pairs { of: PairsOf::Distances })),
        ALL_PAIRS => Ok((PAIR.to_owned(), FleetCheck::Pairs { of: PairsOf::All })),
        name => {
            if let Some(hosts) = numbered(name, "batches_", 2..=MOST_OF_BATCH) {
                return Ok((PAIR.to_owned(), FleetCheck::Pairs { of: PairsOf::Batch(hosts) }));
            }
            let check = FleetCheck::of_name(name).ok_or_else(|| PlanError::Unknown(name.to_owned()))?;
            Ok((name.to_owned(), check))
        }
    };
    names.iter().map(one).collect()
}

/// A unit to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedUnit {
    /// What it is called.
    pub key: UnitKey,
    /// The check.
    pub check: FleetCheck,
    /// Its hosts by number; of an incast the receiver last, of a ring each before the one that it sends to.
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
    plan: &'i Plan,
    numbers: HashMap<&'i str, usize>,
    positions: Vec<Position>,
    /// Whether a host has several NICs.
    has_rails: bool,
}

impl<'i> FleetMap<'i> {
    /// Of an inventory and a plan.
    pub fn new(inventory: &'i Inventory, plan: &'i Plan) -> Self {
        let positions = positions(inventory);
        let numbers = inventory.hosts.iter().enumerate().map(|(number, host)| (host.name.as_str(), number)).collect();
        let has_rails = inventory.hosts.iter().any(|host| host.ports().len() > 1);
        Self { inventory, plan, numbers, positions, has_rails }
    }

    /// The units of the plan, in order: a host's units are done one after the other.
    ///
    /// # Errors
    /// The name of a check that nobody knows.
    pub fn units(&self) -> Result<Vec<PlannedUnit>, PlanError> {
        let checks = self.plan.checks()?;
        let mut units: Vec<PlannedUnit> = checks.iter().flat_map(|(name, check)| self.of_check(name, *check)).collect();
        // Two schedules may have the same pair.
        let mut seen = HashSet::new();
        units.retain(|unit| seen.insert(unit.key.clone()));
        Ok(units)
    }

    /// How far apart two hosts are.
    pub fn distance(&self, one: &str, other: &str) -> Option<Distance> {
        let position = |name: &str| self.numbers.get(name).map(|number| self.positions[*number]);
        Some(Distance::between(position(one)?, position(other)?))
    }

    fn of_check(&self, name: &str, check: FleetCheck) -> Vec<PlannedUnit> {
        let rails = self.rails();
        let of_rail = |rail: u32| {
            let has = |host: &usize| self.inventory.hosts[*host].ports().iter().any(|(other, _)| *other == rail);
            (0..self.inventory.hosts.len()).filter(has).collect::<Vec<_>>()
        };
        let with_rails = |rounds: Vec<Vec<usize>>| {
            let on_rails = rounds.into_iter().flat_map(|hosts| rails.iter().map(move |rail| (hosts.clone(), *rail)));
            on_rails.filter_map(|(hosts, rail)| self.unit(name, check, &hosts, rail)).collect::<Vec<_>>()
        };
        let count = self.inventory.hosts.len();
        match check {
            FleetCheck::Loopback(_) => with_rails((0..count).map(|host| vec![host]).collect()),
            FleetCheck::Command(_) => {
                let rail = |host: usize| self.inventory.hosts[host].ports()[0].0;
                (0..count).filter_map(|host| self.unit(name, check, &[host], rail(host))).collect()
            }
            FleetCheck::Pairs { of: PairsOf::Ring } => {
                let ring = |rail: u32| -> Vec<usize> {
                    let hosts = of_rail(rail);
                    by_place(self.inventory).into_iter().filter(|host| hosts.contains(host)).collect()
                };
                let rings = rails.iter().map(|rail| (ring(*rail), *rail));
                let rings = rings.filter(|(hosts, _)| hosts.len() >= LEAST_OF_RING);
                rings.filter_map(|(hosts, rail)| self.unit(name, check, &hosts, rail)).collect()
            }
            FleetCheck::Pairs { of } => {
                let rounds = match of {
                    PairsOf::Distances => quick_scan(&self.positions),
                    PairsOf::Batch(size) => self.batches(size),
                    PairsOf::All | PairsOf::Ring => all_pairs(count),
                };
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
                        self.unit(name, check, &senders.chain([hosts[receiver]]).collect::<Vec<_>>(), *rail)
                    }));
                }
                units
            }
        }
    }

    /// All pairs of each so many hosts.
    fn batches(&self, size: usize) -> Vec<Vec<(usize, usize)>> {
        let hosts = by_place(self.inventory);
        let of_batch = |batch: Vec<usize>| {
            let named = |(one, other): (usize, usize)| (hosts[batch[one]], hosts[batch[other]]);
            all_pairs(batch.len()).into_iter().map(|round| round.into_iter().map(named).collect()).collect::<Vec<_>>()
        };
        batches(hosts.len(), size).into_iter().flat_map(of_batch).collect()
    }

    fn rails(&self) -> Vec<u32> {
        let mut rails: Vec<u32> =
            self.inventory.hosts.iter().flat_map(InventoryHost::ports).map(|(rail, _)| rail).collect();
        rails.sort_unstable();
        rails.dedup();
        rails
    }

    /// A unit, if all of its hosts have a NIC of the rail.
    fn unit(&self, name: &str, check: FleetCheck, hosts: &[usize], rail: u32) -> Option<PlannedUnit> {
        let has = |host: &usize| self.inventory.hosts[*host].ports().iter().any(|(other, _)| *other == rail);
        if !hosts.iter().all(has) {
            return None;
        }
        let has_component = self.has_rails && !matches!(check, FleetCheck::Command(_));
        let component = if has_component { format!("rail{rail}") } else { String::new() };
        let mut names: Vec<String> = hosts.iter().map(|host| self.inventory.hosts[*host].name.clone()).collect();
        let distance = match (check, hosts) {
            (FleetCheck::Pairs { of: PairsOf::Distances | PairsOf::Batch(_) | PairsOf::All }, [one, other]) => {
                names.sort();
                Some(Distance::between(self.positions[*one], self.positions[*other]))
            }
            _ => None,
        };
        let hosts = names.iter().map(|name| self.numbers[name.as_str()]).collect();
        let key = UnitKey { check: name.to_owned(), hosts: names, component };
        Some(PlannedUnit { key, check, hosts, rail, distance })
    }

    /// A unit that somebody asks for by its key; none that this inventory does not have.
    pub fn of_key(&self, key: &UnitKey) -> Option<PlannedUnit> {
        let check = self.plan.check(&key.check)?;
        let hosts: Option<Vec<usize>> = key.hosts.iter().map(|name| self.numbers.get(name.as_str()).copied()).collect();
        let hosts = hosts?;
        let rail = match key.component.strip_prefix("rail") {
            Some(rail) => rail.parse().ok()?,
            None => self.inventory.hosts[*hosts.first()?].ports()[0].0,
        };
        self.unit(&key.check, check, &hosts, rail)
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
        let plan = Plan::named("full").expect("known");
        let map = FleetMap::new(&inventory, &plan);
        let units = map.units().expect("known");
        let count = |check: &str| units.iter().filter(|unit| unit.key.check == check).count();
        assert_eq!(["loopback_write", "loopback_read", "pair", "incast_3"].map(count), [12, 12, 30, 12]);
        let keys: BTreeSet<&UnitKey> = units.iter().map(|unit| &unit.key).collect();
        assert_eq!(keys.len(), units.len(), "each once");
        assert!(units.iter().all(|unit| map.of_key(&unit.key).is_some_and(|again| again.key == unit.key)));
    }

    #[test]
    fn a_plan_covers_what_has_no_more_checks() {
        let plan = |name: &str| Plan::named(name).expect("known");
        let covers = |one: &str, other: &str| plan(one).covers(&plan(other));
        assert!(covers("full", "quick") && covers("quick", "pair") && covers("all_pairs", "pair"));
        assert!(!covers("quick", "full") && !covers("pair", "all_pairs") && !covers("pair", "loopback_write"));
        let command =
            "kelpie: plan/1\nchecks: [quick]\ncommands: [{name: nccl, run: [true]}]\n".replace("[true]", "[\"true\"]");
        let with = Plan::from_bytes("p.yaml", command.as_bytes()).expect("sound");
        assert!(with.covers(&plan("quick")) && with.covers(&with) && !plan("full").covers(&with));
        assert_eq!(with.words(), "quick,nccl");
    }

    #[test]
    fn batches_have_all_pairs_of_neighbours_and_a_pair_of_two_schedules_is_measured_once() {
        let inventory = inventory(10, 1);
        let plan = Plan::named("batches_4,pair").expect("known");
        let units = FleetMap::new(&inventory, &plan).units().expect("known");
        let of_batches: BTreeSet<(usize, usize)> = (0..10)
            .flat_map(|one| (one + 1..10).map(move |other| (one, other)))
            .filter(|(a, b)| a / 4 == b / 4)
            .collect();
        let pairs: Vec<(usize, usize)> = units.iter().map(|unit| (unit.hosts[0], unit.hosts[1])).collect();
        let each: BTreeSet<(usize, usize)> = pairs.iter().copied().collect();
        assert_eq!((each.len(), each.intersection(&of_batches).count()), (pairs.len(), 6 + 6 + 1));
        let named = |name: &str| Plan::named(name).expect("a plan");
        let covers = |one: &str, other: &str| named(one).covers(&named(other));
        assert!(!covers("full", "doctor,quick") && covers("full,doctor", "doctor,quick"));
        assert!(covers("full", "batches_8") && !covers("batches_8", "pair") && !covers("full", "ring"));
        assert!(Plan::named("batches_1").is_err() && Plan::named("batches_65").is_err());
    }

    #[test]
    fn a_ring_has_all_hosts_of_a_rail_with_neighbours_side_by_side() {
        let text = "kelpie: inventory/1\nhosts:\n- {name: a, leaf: l0}\n- {name: b, leaf: l1}\n- {name: c, leaf: l0}\n- \
                    {name: d, leaf: l1}\n";
        let inventory = Inventory::from_bytes(Path::new("x.yaml"), text.as_bytes()).expect("a good file");
        let plan = Plan::named("ring").expect("known");
        let map = FleetMap::new(&inventory, &plan);
        let units = map.units().expect("known");
        assert_eq!(units.iter().map(|unit| &unit.key.hosts[..]).collect::<Vec<_>>(), [["a", "c", "b", "d"]]);
        assert_eq!((units[0].distance, map.distance("b", "d")), (None, Some(Distance::Leaf)));
        let both = UnitKey { hosts: vec!["d".to_owned(), "a".to_owned()], ..units[0].key.clone() };
        assert_eq!(map.of_key(&both).expect("a smaller ring").hosts, [3, 0]);
    }

    #[test]
    fn a_quick_plan_has_a_pair_of_each_host_for_each_distance() {
        let inventory = inventory(16, 1);
        let plan = Plan::named("quick").expect("known");
        let units = FleetMap::new(&inventory, &plan).units().expect("known");
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

    #[test]
    fn a_plan_has_names_and_programs_and_what_breaks_a_rule_is_named() {
        const GOOD: &str = "kelpie: plan/1\nchecks: [quick, incast_4]\ncommands:\n  \
            - {name: fio, run: [ssh, \"{host}\", fio], timeout_seconds: 90}\n\
            campaigns: [{name: rpc, space: rpc-library, budget: 40}]\n";
        let read = |text: &str| Plan::from_bytes("plan.yaml", text.as_bytes());
        let plan = read(GOOD).expect("a good file");
        let inventory = inventory(6, 1);
        let units = FleetMap::new(&inventory, &plan).units().expect("known");
        assert_eq!(units.iter().filter(|unit| unit.key.check == "fio").count(), 6);
        for (from, to, expected) in [
            ("quick", "quik", "checks[0]: no check `quik`"),
            ("incast_4", "incast_1", "checks[1]: no check `incast_1`"),
            ("name: fio", "name: pair", "commands[0].name: `pair` is a check already"),
            ("name: fio", "name: \"f o\"", "commands[0].name: write letters"),
            ("[ssh, \"{host}\", fio]", "[]", "commands[0].run: write the program"),
            ("timeout_seconds: 90", "pattern: \"(\"", "commands[0].pattern: "),
            ("timeout_seconds: 90", "pattern: x", "commands[0].pattern: write a named group"),
            ("name: rpc", "name: fio", "campaigns[0].name: `fio` is a check already"),
            ("rpc-library", "rpc", "campaigns[0].space: write one of the catalog"),
            ("budget: 40", "budget: 0", "campaigns[0].budget: write 1 to"),
            ("timeout_seconds: 90", "timeout_seconds: 0", "commands[0].timeout_seconds: write 1 to"),
        ] {
            let error = read(&GOOD.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(expected), "{to}: {error}");
        }
    }
}
