//! Cargo, run as a developer's shell runs it, although this program was itself run by cargo.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prefixes of what cargo and nextest tell the programs that they run.
const TOLD: [&str; 7] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_", "NEXTEST_", "OUT_DIR"];

/// Cargo in this folder, without input.
///
/// Without what cargo told this program: build scripts that depend on such a variable (ring's, and so all that uses TLS)
/// would run again each time that a build comes from here and not from a shell.
pub fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.current_dir(root).stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        if TOLD.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            cargo.env_remove(name);
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cargo_told_this_program_is_not_told_to_cargo() {
        // Cargo and nextest set it for every test.
        assert!(env::var_os("CARGO_PKG_NAME").is_some());
        let command = cargo(Path::new("."));
        let removed: Vec<_> = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        assert!(removed.contains(&"CARGO_PKG_NAME".as_ref()) && removed.contains(&"CARGO_MANIFEST_DIR".as_ref()));
        assert!(!removed.contains(&"PATH".as_ref()));
    }
}
