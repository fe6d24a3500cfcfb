//! What is wrong with a catalog that was read.

use kelpie_spaces::Host;
use kelpie_spaces::flow_label::{FIRST_PORT, PORTS};
use kelpie_topology::PortSide;

use super::{Catalog, CatalogDirection, LAG_PORTS, LONGEST, Lag};

impl Catalog {
    /// Every key that breaks a rule, with the rule.
    pub(super) fn broken_rules(&self) -> Vec<(String, String)> {
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
        for (place, CatalogDirection { from, lag, paths, ways }) in self.directions.iter().enumerate() {
            let at = format!("directions[{place}]");
            let is_dealt = self.ends.iter().any(|end| end.host == *from && end.deals());
            let key = format!("{at}.lag");
            match lag {
                None if is_dealt => {
                    let rule =
                        "write what its LAG ports lead to, because the device deals QPs out; a new probe finds it out";
                    check(false, &key, rule);
                }
                None => {}
                Some(_) if !is_dealt => check(false, &key, "leave it out, because the device deals no QPs out"),
                Some(Lag { ports, refused }) => {
                    let is_one = ports.is_empty() == refused.is_some();
                    check(is_one, &key, "write `ports`, or in `refused` why there are none");
                    let is_ordered = ports.is_empty() || ports.iter().map(|one| one.port).eq(LAG_PORTS);
                    check(is_ordered, &format!("{key}.ports"), "write LAG port 1, then 2");
                    let is_short = refused.as_ref().is_none_or(|reason| reason.len() <= LONGEST);
                    check(is_short, &format!("{key}.refused"), &format!("write at most {LONGEST} bytes"));
                }
            }
            let known: Vec<(u8, PortSide)> = lag.iter().flat_map(Lag::known).collect();
            check(ways.len() <= 4, &format!("{at}.ways"), "write at most four ways");
            if paths.len() > usize::from(PORTS) {
                check(false, &format!("{at}.paths"), &format!("write at most {PORTS} paths"));
                continue;
            }
            for (index, path) in paths.iter().enumerate() {
                let key = |key: &str| format!("{at}.paths[{index}].{key}");
                let port = path.source_port;
                check(port >= FIRST_PORT, &key("source_port"), &format!("write {FIRST_PORT} to 65535"));
                let known = known.iter().find(|(port, _)| Some(*port) == path.lag_port).map(|(_, side)| *side);
                check(path.lag_port.is_none() || known.is_some(), &key("lag_port"), "the direction's `lag` has it not");
                let is_so = !is_dealt || path.leaves.is_none() || path.leaves == known;
                check(is_so, &key("leaves"), "the direction's `lag` does not have the path's LAG port leave so");
                let is_next = index == 0 || paths[index - 1].source_port < port;
                check(is_next, &key("source_port"), "write them in order, none twice");
                check(path.received <= path.sent, &key("received"), "more than were sent");
                let is_time = path.latency_us.is_none_or(|latency| latency.is_finite() && latency >= 0.0);
                check(is_time, &key("latency_us"), "write a number from 0");
            }
        }
        broken
    }
}
