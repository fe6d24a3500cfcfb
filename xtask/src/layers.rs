//! Which of our crates may use which: dependencies point down only. ARCHITECTURE.md says why.

use std::path::Path;

use anyhow::{Result, bail};

use crate::circles;
use crate::workspace;

/// Each crate with those below it; the binary may use all of them.
const LAYERS: [(&str, &[&str]); 13] = [
    ("kelpie-spaces", &[]),
    ("kelpie-monitor", &["kelpie-spaces"]),
    ("kelpie-engine", &["kelpie-spaces", "kelpie-monitor"]),
    ("kelpie-agent", &["kelpie-spaces", "kelpie-monitor", "kelpie-engine"]),
    ("kelpie-search", &["kelpie-spaces", "kelpie-monitor"]),
    ("kelpie-events", &[]),
    ("kelpie-sim", &["kelpie-spaces", "kelpie-monitor", "kelpie-engine", "kelpie-events"]),
    ("kelpie-verbs", &["kelpie-spaces", "kelpie-monitor", "kelpie-engine"]),
    ("kelpie-trace", &["kelpie-spaces"]),
    ("kelpie-preload", &["kelpie-trace"]),
    ("kelpie-store", &["kelpie-spaces", "kelpie-monitor", "kelpie-search"]),
    ("kelpie-reports", &["kelpie-spaces", "kelpie-monitor", "kelpie-search", "kelpie-store"]),
    ("xtask", &[]),
];

/// Checks every dependency between our crates that goes into a build; tests may look up.
pub fn check(root: &Path) -> Result<()> {
    let packages = workspace::packages(root)?;
    let mut wrong = Vec::new();
    for package in &packages {
        let used = package.dependencies.iter().filter(|used| !used.of_tests).map(|used| used.name.as_str());
        wrong.extend(faults(&package.name, used));
    }
    if wrong.is_empty() { circles::check(root, &packages) } else { bail!("{}", wrong.join("\n")) }
}

fn faults<'a>(package: &str, used: impl Iterator<Item = &'a str>) -> Vec<String> {
    if package == "kelpie" {
        return Vec::new();
    }
    let below = LAYERS.iter().find(|(name, _)| *name == package).map(|(_, below)| *below);
    used.filter(|name| name.starts_with("kelpie") || *name == "xtask")
        .filter(|name| below.is_none_or(|below| !below.contains(name)))
        .map(|name| format!("{package} must not use {name}: dependencies point down only (xtask/src/layers.rs)"))
        .collect()
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
            ("kelpie", ["kelpie-search", "kelpie-sim"], 0),
            ("a-new-crate", ["kelpie-spaces", "serde"], 1),
        ] {
            assert_eq!(faults(package, used.into_iter()).len(), expected, "{package} {used:?}");
        }
    }
}
