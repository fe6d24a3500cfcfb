//! What each source file must have: a first sentence, a readable length, a crate that compiles it, and no unsafe code
//! outside engine/hosts/verbs. Pages are checked with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{modules, pages};

/// Lines after which a file is worth splitting.
const LONG: usize = 500;

/// The only folder whose crates may hold unsafe code; in all others the workspace's lints forbid it.
const UNSAFE_CRATE: &str = "engine/hosts/verbs";

/// No member of the workspace, so without its lints; the fuzzer's macro exports a C function.
const FUZZ_CRATE: &str = "tests/fuzz";

/// Checks every source file and every page.
pub fn check(root: &Path) -> Result<()> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let (mut wrong, mut sources) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| is_source(file)) {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(root).unwrap_or(file);
        wrong.extend(faults(name, &text).into_iter().map(|fault| format!("{}: {fault}", name.display())));
        let lines = text.lines().count();
        if lines > LONG {
            eprintln!("   {}: {lines} lines; can it be split?", name.display());
        }
        if name.extension().is_some_and(|extension| extension == "rs") {
            sources.push((name.to_owned(), text));
        }
    }
    wrong.extend(modules::faults(&sources));
    wrong.extend(pages::faults(root, &files)?);
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

/// What is wrong with a file.
fn faults(name: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.extension().is_some_and(|extension| extension == "toml") {
        let inherits = text.contains("[lints]\nworkspace = true");
        let exempt = name.starts_with(UNSAFE_CRATE) || name.starts_with(FUZZ_CRATE);
        if text.contains("[package]") && !inherits && !exempt {
            faults.push("does not take the workspace's lints, which forbid unsafe code".to_owned());
        }
        return faults;
    }
    if !text.lines().next().is_some_and(|line| line.starts_with("//! ") && line.len() > 12) {
        faults.push("must begin with one `//!` sentence: what lives here, what does not".to_owned());
    }
    faults
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            if ![".git", "target", "out"].contains(&&*name) {
                collect(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn is_source(file: &Path) -> bool {
    file.ends_with("Cargo.toml") || file.extension().is_some_and(|extension| extension == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_seen() {
        let header = "//! A sentence that says what lives here.\n";
        for (name, text, expected) in [
            ("a.rs", format!("{header}fn main() {{}}\n"), 0),
            ("a.rs", "fn main() {}\n".to_owned(), 1),
            ("a.rs", "//! x\n".to_owned(), 1),
            ("Cargo.toml", "[package]\nname = \"x\"\n".to_owned(), 1),
            ("Cargo.toml", "[package]\n\n[lints]\nworkspace = true\n".to_owned(), 0),
            ("engine/hosts/verbs/Cargo.toml", "[package]\n".to_owned(), 0),
            ("tests/fuzz/Cargo.toml", "[package]\n".to_owned(), 0),
        ] {
            assert_eq!(faults(Path::new(name), &text).len(), expected, "{name}: {text}");
        }
    }
}
