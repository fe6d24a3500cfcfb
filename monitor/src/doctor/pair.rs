//! Two hosts side by side: what should be the same on both. Each host by itself is elsewhere.

use super::Examination;
use crate::check::{Check, State};

/// The step that repairs a difference, for each fact.
const FIXES: [(&str, &str); 6] = [
    (
        "interface MTU",
        "ip link set dev NETDEV mtu 4200, on both hosts: the smaller one limits the path MTU of workloads",
    ),
    ("link speed", "check the cable and `ethtool NETDEV`: the slower port limits both"),
    ("PFC priorities", "dcb pfc set dev NETDEV prio-pfc all:off 3:on, on both hosts and the switch"),
    ("trust", "dcb app show dev NETDEV, and give both the same"),
    ("BIOS", "install the same BIOS and give both the same settings, unless the difference is what you test"),
    ("firmware", "flash the same firmware, unless the difference is what you test"),
];

/// A check for every fact that both hosts reported: the same, or different.
pub fn compare(a: &Examination, b: &Examination) -> Vec<Check> {
    let both = a.facts.iter().filter_map(|(name, of_a)| Some((name, of_a, b.facts.get(name)?)));
    both.map(|(name, of_a, of_b)| {
        let check = if of_a == of_b {
            Check::new(name, State::Pass, format!("{of_a} on both"))
        } else {
            let fix = FIXES.iter().find(|(fact, _)| fact == name).map(|(_, fix)| *fix);
            let check = Check::new(name, State::Warn, format!("a has {of_a}, b has {of_b}"));
            check.fix(fix.unwrap_or("use two hosts of one kind, unless the difference is what you test"))
        };
        check.about("pair").seen("host a", of_a).seen("host b", of_b)
    })
    .collect()
}
