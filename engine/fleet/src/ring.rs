//! Rings: each host sends to the next one, all at the same time, as collectives do. A host that fails would spoil the
//! ring of all others, so theirs is closed without it.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_criteria::{Outcome, Unit, UnitKey};

use crate::plan::{FleetMap, PlannedUnit, RING};

/// What metrics of pairs begin with, and those of a ring: all hosts send at once there.
const PAIR_METRICS: &str = "pair_";
const RING_METRICS: &str = "ring_";

/// A unit with the names of its metrics: connections of a ring are measured as pairs are, and have the distance of
/// their own ends.
pub fn named(map: &FleetMap<'_>, mut unit: Unit) -> Unit {
    let Outcome::Values(values) = &mut unit.outcome else { return unit };
    for value in values.iter_mut().filter(|_| unit.key.check == RING) {
        let Some(name) = value.metric.strip_prefix(PAIR_METRICS) else { continue };
        let distance = value.to.as_ref().and_then(|to| map.distance(&value.from, to));
        value.metric = match (name.strip_suffix('.'), distance) {
            (Some(name), Some(distance)) => format!("{RING_METRICS}{name}.{}", distance.name()),
            _ => format!("{RING_METRICS}{name}"),
        };
    }
    unit
}

/// Hosts that did not do their part and have not since.
pub fn gone(units: &[Unit]) -> BTreeSet<&str> {
    let mut gone = BTreeSet::new();
    for unit in units {
        match &unit.outcome {
            Outcome::Values(_) => unit.key.hosts.iter().for_each(|host| _ = gone.remove(host.as_str())),
            Outcome::Failed(failure) | Outcome::Skipped(failure) => _ = gone.insert(failure.host.as_str()),
            Outcome::Unsupported(_) => {}
        }
    }
    gone
}

/// Rings that are closed without the hosts that spoilt theirs.
pub fn again(map: &FleetMap<'_>, units: &[Unit]) -> Vec<PlannedUnit> {
    let mut spoilt: BTreeMap<&str, (&UnitKey, BTreeSet<&str>)> = BTreeMap::new();
    let failed = gone(units);
    for unit in units {
        let host = match &unit.outcome {
            Outcome::Values(_) => None,
            Outcome::Failed(failure) | Outcome::Skipped(failure) | Outcome::Unsupported(failure) => {
                Some(failure.host.as_str())
            }
        };
        // Two hosts are asked by what was slow.
        if unit.key.check != RING || unit.key.hosts.len() <= 2 {
            continue;
        }
        match host {
            Some(host) => {
                let (key, without) = spoilt.entry(&unit.key.component).or_insert((&unit.key, BTreeSet::new()));
                *key = &unit.key;
                without.insert(host);
            }
            None => _ = spoilt.remove(unit.key.component.as_str()),
        }
    }
    let closed = spoilt.into_values().filter_map(|(key, without)| {
        let is_there = |host: &&String| !without.contains(host.as_str()) && !failed.contains(host.as_str());
        let hosts: Vec<String> = key.hosts.iter().filter(is_there).cloned().collect();
        (hosts.len() > 1).then(|| map.of_key(&UnitKey { hosts, ..key.clone() })).flatten()
    });
    closed.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use kelpie_criteria::{Better, HostFailure, UnitValue};

    use super::*;
    use crate::inventory::Inventory;
    use crate::plan::Plan;

    #[test]
    fn a_ring_closes_without_who_spoilt_it_and_its_connections_have_their_distance() {
        let hosts: Vec<String> = (0..6).map(|host| format!("- {{name: n{host}, leaf: l{}}}\n", host / 3)).collect();
        let hosts = hosts.concat();
        let text = format!("kelpie: inventory/1\nhosts:\n{hosts}");
        let inventory = Inventory::from_bytes(Path::new("x.yaml"), text.as_bytes()).expect("a good file");
        let plan = Plan::named("loopback_write,ring").expect("known");
        let map = FleetMap::new(&inventory, &plan);
        let planned = map.units().expect("known");
        let ring = planned.last().expect("a ring").key.clone();
        let failure = |host: &str| HostFailure { host: host.to_owned(), reason: "it hangs".to_owned() };
        let unit = |key: &UnitKey, outcome: Outcome| Unit { key: key.clone(), outcome, seconds: 1.0 };
        // The fourth is gone since its loopback, and the second fails in the ring.
        let mut units =
            vec![unit(&planned[3].key, Outcome::Failed(failure("n3"))), unit(&ring, Outcome::Failed(failure("n1")))];
        let next = again(&map, &units);
        assert_eq!(next.iter().map(|unit| &unit.key.hosts[..]).collect::<Vec<_>>(), [["n0", "n2", "n4", "n5"]]);
        let value = |from: &str, to: &str, metric: &str| UnitValue {
            metric: metric.to_owned(),
            unit: "Gb/s".to_owned(),
            better: Better::Higher,
            from: from.to_owned(),
            to: Some(to.to_owned()),
            samples: vec![1.0],
        };
        let values = vec![value("n0", "n2", "pair_bandwidth."), value("n2", "n4", "pair_agreement")];
        let done = named(&map, unit(&next[0].key, Outcome::Values(values)));
        let Outcome::Values(values) = &done.outcome else { panic!("{done:?}") };
        assert_eq!([&values[0].metric, &values[1].metric], ["ring_bandwidth.leaf", "ring_agreement"]);
        units.push(done);
        assert!(again(&map, &units).is_empty());
    }
}
