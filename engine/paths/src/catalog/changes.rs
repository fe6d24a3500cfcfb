//! What of two hosts is not as it was when their catalog was measured, and what catalogs say against each other.

use std::collections::BTreeMap;

use super::{Catalog, CatalogDirection, CatalogEnd, Lag};

impl CatalogEnd {
    /// What of it is not as it was, whichever host of a pair it is called.
    pub fn changes(&self, now: &Self) -> Vec<String> {
        let names = |end: &Self| {
            end.ports.iter().map(|port| format!("{} ({})", port.name, port.mac)).collect::<Vec<_>>().join(", ")
        };
        let down = |end: &Self| if end.down.is_empty() { "none".to_owned() } else { end.down.join(", ") };
        let shown = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        let all = [
            ("device", self.device.clone(), now.device.clone()),
            ("address", self.gid.clone(), now.gid.clone()),
            ("bond's mode", self.mode.clone(), now.mode.clone()),
            ("bond's hash", self.policy.clone(), now.policy.clone()),
            ("device's choice of ports", self.selection.clone(), now.selection.clone()),
            ("ports", names(self), names(now)),
            ("ports that are down", down(self), down(now)),
        ];
        let changed = all.into_iter().filter(|(_, before, after)| before != after);
        changed.map(|(what, before, after)| format!("{what} {}, now {}", shown(&before), shown(&after))).collect()
    }
}

/// What two catalogs say of one address that cannot both be true; empty if they agree.
pub fn contradictions(catalogs: &[Catalog]) -> Vec<String> {
    let mut first: BTreeMap<&str, (&Catalog, &CatalogEnd)> = BTreeMap::new();
    let mut found = Vec::new();
    for catalog in catalogs {
        for end in &catalog.ends {
            let (before, was) = *first.entry(&end.gid).or_insert((catalog, end));
            let changes = was.changes(end).join("; ");
            if !changes.is_empty() {
                found.push(format!(
                    "{} (measured {}) and {} (measured {}) contradict each other about {}: {changes}",
                    before.subsystem, before.measured, catalog.subsystem, catalog.measured, end.gid
                ));
            }
        }
    }
    found
}

impl Catalog {
    /// What of a host is not as it was measured; empty if the catalog holds.
    pub fn changes(&self, now: &[CatalogEnd]) -> Vec<String> {
        let mut changes = Vec::new();
        for end in now {
            let Some(was) = self.ends.iter().find(|was| was.host == end.host) else { continue };
            changes.extend(was.changes(end).into_iter().map(|change| format!("host {}: {change}", end.host)));
        }
        changes
    }

    /// What of the LAG ports of senders is not as it was measured.
    pub fn lag_changes(&self, now: &[Option<Lag>; 2]) -> Vec<String> {
        let mut changes = Vec::new();
        for (CatalogDirection { from, lag: was, .. }, now) in self.directions.iter().zip(now) {
            let (Some(was), Some(now)) = (was, now) else { continue };
            if was.refused != now.refused {
                let shown = |lag: &Lag| lag.refused.clone().unwrap_or_else(|| "can be chosen".to_owned());
                changes.push(format!("host {from}: LAG ports {}, now {}", shown(was), shown(now)));
            }
            for (port, before) in was.known() {
                let after = now.known().find(|(other, side)| *other == port && *side != before);
                changes.extend(after.map(|(_, after)| {
                    format!("host {from}: LAG port {port} leaves by {}, now {}", before.name(), after.name())
                }));
            }
        }
        changes
    }
}
