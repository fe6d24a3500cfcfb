//! What of two hosts is not as it was when their catalog was measured.

use super::{Catalog, Direction, End, Lag};

impl Catalog {
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

    /// What of the LAG ports of senders is not as it was measured.
    pub fn lag_changes(&self, now: &[Option<Lag>; 2]) -> Vec<String> {
        let mut changes = Vec::new();
        for (Direction { from, lag: was, .. }, now) in self.directions.iter().zip(now) {
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
