//! Which of our crates may use which: dependencies point down only. ARCHITECTURE.md says why.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use crate::circles;
use crate::workspace::{self, Package};

/// Each crate with those right below it; it may use them and whatever is below them. The binary may use all.
const LAYERS: [(&str, &[&str]); 32] = [
    ("kelpie-spaces", &[]),
    ("kelpie-topology", &["kelpie-spaces"]),
    ("kelpie-monitor", &["kelpie-spaces"]),
    ("kelpie-diagnosis", &["kelpie-monitor", "kelpie-topology"]),
    ("kelpie-criteria", &[]),
    ("kelpie-selection", &[]),
    ("kelpie-engine", &["kelpie-spaces", "kelpie-monitor"]),
    ("kelpie-agent", &["kelpie-engine", "kelpie-paths", "kelpie-collectives"]),
    ("kelpie-belief", &["kelpie-spaces"]),
    ("kelpie-search", &["kelpie-spaces", "kelpie-monitor", "kelpie-belief"]),
    ("kelpie-events", &[]),
    ("kelpie-switch", &["kelpie-events"]),
    ("kelpie-nic", &["kelpie-switch"]),
    ("kelpie-sim", &["kelpie-engine", "kelpie-nic", "kelpie-paths", "kelpie-topology"]),
    ("kelpie-calibration", &["kelpie-sim", "kelpie-text"]),
    ("kelpie-mlx5", &[]),
    ("kelpie-verbs", &["kelpie-engine", "kelpie-mlx5"]),
    ("kelpie-trace", &["kelpie-spaces"]),
    ("kelpie-preload", &["kelpie-trace", "kelpie-mlx5"]),
    ("kelpie-collectives", &["kelpie-topology"]),
    ("kelpie-paths", &["kelpie-topology", "kelpie-spaces"]),
    ("kelpie-packets", &["kelpie-switch"]),
    ("kelpie-fabric", &["kelpie-packets", "kelpie-collectives", "kelpie-paths", "kelpie-text"]),
    ("kelpie-store", &["kelpie-spaces", "kelpie-monitor", "kelpie-search"]),
    ("kelpie-text", &["kelpie-spaces"]),
    ("kelpie-reports", &["kelpie-store", "kelpie-diagnosis", "kelpie-criteria", "kelpie-selection", "kelpie-text"]),
    ("kelpie-examine", &["kelpie-agent", "kelpie-diagnosis", "kelpie-sim"]),
    ("kelpie-campaign", &["kelpie-reports", "kelpie-examine"]),
    ("kelpie-fleet", &["kelpie-campaign"]),
    ("kelpie-watch", &["kelpie-campaign"]),
    ("kelpie-bench", &["kelpie-search", "kelpie-sim", "kelpie-reports"]),
    ("xtask", &[]),
];

/// What neither a crate nor any of ours below it may use, whatever the rows above come to say: of ours, and of others.
const NEVER: [(&str, &[&str]); 8] = [
    ("kelpie-search", &["kelpie-engine"]),
    ("kelpie-diagnosis", &["kelpie-engine"]),
    ("kelpie-fabric", &["kelpie-sim"]),
    // A part of a switch knows nothing of what drives it, and a part of a NIC sees no workload.
    ("kelpie-switch", &["kelpie-spaces", "kelpie-topology", "kelpie-nic"]),
    ("kelpie-nic", &["kelpie-spaces"]),
    ("kelpie-store", &["plotters", "maud"]),
    ("kelpie-engine", &["tokio", "rustls", "tarpc"]),
    ("kelpie-sim", &["tokio", "rustls", "tarpc"]),
];

/// Checks every dependency between our crates that goes into a build; tests may look up.
pub fn check(root: &Path) -> Result<()> {
    let packages = workspace::packages(root)?;
    let uses: Vec<Uses> = packages.iter().map(Uses::of).collect();
    let mut wrong: Vec<String> = uses.iter().flat_map(upwards).collect();
    wrong.extend(NEVER.iter().flat_map(|(package, never)| forbidden(package, never, &uses)));
    if wrong.is_empty() { circles::check(root, &packages) } else { bail!("{}", wrong.join("\n")) }
}

/// A crate and what it uses in a build.
struct Uses<'p> {
    package: &'p str,
    used: Vec<&'p str>,
}

impl<'p> Uses<'p> {
    fn of(package: &'p Package) -> Self {
        let built = package.dependencies.iter().filter(|used| !used.of_tests);
        Self { package: &package.name, used: built.map(|used| used.name.as_str()).collect() }
    }
}

/// The rows' word on what is right below a crate.
fn right_below(package: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(name, _)| *name == package).map(|(_, below)| *below)
}

/// All that is below a crate by the rows.
fn below(package: &str) -> BTreeSet<&'static str> {
    let (mut all, mut next) = (BTreeSet::new(), right_below(package).unwrap_or_default().to_vec());
    while let Some(name) = next.pop() {
        if all.insert(name) {
            next.extend(right_below(name).unwrap_or_default());
        }
    }
    all
}

/// What a crate uses of ours that is not below it.
fn upwards(uses: &Uses<'_>) -> Vec<String> {
    let package = uses.package;
    if package == "kelpie" {
        return Vec::new();
    }
    let below = below(package);
    let ours = uses.used.iter().filter(|name| name.starts_with("kelpie") || **name == "xtask");
    let wrong = ours.filter(|name| !below.contains(*name));
    wrong
        .map(|name| format!("{package} must not use {name}: dependencies point down only (xtask/src/layers.rs)"))
        .collect()
}

/// What a crate, by itself or through ours below it, uses of what it never may.
fn forbidden(package: &str, never: &[&str], all: &[Uses<'_>]) -> Vec<String> {
    let (mut seen, mut next, mut wrong) = (BTreeSet::new(), vec![package], Vec::new());
    while let Some(name) = next.pop() {
        let Some(uses) = all.iter().find(|uses| uses.package == name).filter(|_| seen.insert(name)) else { continue };
        let found = uses.used.iter().filter(|used| never.contains(used));
        wrong.extend(found.map(|used| {
            let by = if name == package { String::new() } else { format!(", as {name} below it does") };
            format!("{package} must never use {used}{by} (xtask/src/layers.rs)")
        }));
        next.extend(&uses.used);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_up_is_seen() {
        for (package, used, expected) in [
            ("kelpie-search", ["kelpie-spaces", "serde"], 0),
            ("kelpie-search", ["kelpie-engine", "serde"], 1),
            ("kelpie-spaces", ["kelpie-monitor", "kelpie"], 2),
            ("kelpie-agent", ["kelpie-spaces", "kelpie-engine"], 0),
            ("kelpie", ["kelpie-search", "kelpie-sim"], 0),
            ("kelpie-fleet", ["kelpie-agent", "kelpie-monitor"], 0),
            ("kelpie-fabric", ["kelpie-sim", "kelpie-events"], 1),
            ("a-new-crate", ["kelpie-spaces", "serde"], 1),
        ] {
            assert_eq!(upwards(&Uses { package, used: used.into() }).len(), expected, "{package} {used:?}");
        }
    }

    #[test]
    fn what_is_never_used_is_not_used_further_down_either() {
        let all = |used_by_engine: &'static str| {
            [
                Uses { package: "kelpie-sim", used: vec!["kelpie-engine", "rand"] },
                Uses { package: "kelpie-engine", used: vec!["serde", used_by_engine] },
            ]
        };
        assert_eq!(forbidden("kelpie-sim", &["tokio"], &all("thiserror")), [""; 0]);
        let wrong = forbidden("kelpie-sim", &["tokio"], &all("tokio"));
        assert_eq!(wrong, ["kelpie-sim must never use tokio, as kelpie-engine below it does (xtask/src/layers.rs)"]);
        assert_eq!(forbidden("kelpie-fabric", &["kelpie-sim"], &all("tokio")), [""; 0], "it does not exist yet");
    }

    #[test]
    fn the_rows_name_each_other_form_no_circle_and_keep_to_what_is_never() {
        for (package, right_below_it) in LAYERS {
            assert!(!below(package).contains(package), "{package} is below itself");
            for name in right_below_it {
                assert!(right_below(name).is_some(), "{package} is above {name}, which has no row");
            }
        }
        for (package, never) in NEVER {
            assert!(right_below(package).is_some(), "{package} has no row");
            assert!(never.iter().all(|name| !below(package).contains(name)), "{package}");
        }
    }
}
