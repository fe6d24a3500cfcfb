//! Source files that no crate compiles because no other file says `mod` of them; rustc passes over them in silence.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// Folders in which cargo takes every file as a root.
const OF_ROOTS: [&str; 4] = ["benches", "bin", "examples", "fuzz_targets"];

/// The files among these, each with its text, that are of no crate.
pub fn faults(sources: &[(PathBuf, String)]) -> Vec<String> {
    let declared: HashSet<PathBuf> = sources.iter().flat_map(|(file, text)| children(file, text)).collect();
    let is_lost = |file: &&PathBuf| !is_root(file) && !declared.contains(*file);
    let lost = sources.iter().map(|(file, _)| file).filter(is_lost);
    lost.map(|file| format!("{}: no file has `mod` of it, so nothing compiles it", file.display())).collect()
}

/// Whether cargo begins a crate with a file. Of the binary's tests only `tests/main.rs` is one.
fn is_root(file: &Path) -> bool {
    let folder = file.parent().unwrap_or(Path::new(""));
    let is_named = |names: &[&str], part: &Path| names.iter().any(|name| part.ends_with(name));
    let is_test = folder.ends_with("tests") && folder != Path::new("tests") && !folder.iter().any(|part| part == "src");
    is_named(&["lib.rs", "main.rs", "build.rs"], file) || is_named(&OF_ROOTS, folder) || is_test
}

/// Where the modules may be that a file declares.
fn children(file: &Path, text: &str) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let below = if is_root(file) || file.ends_with("mod.rs") { folder.to_owned() } else { file.with_extension("") };
    let mut children = Vec::new();
    let mut named = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            named = Some(plain(&folder.join(path)));
        }
        let declared = line.strip_suffix(';').and_then(|line| line.split_once("mod "));
        let Some((_, name)) = declared.filter(|(before, _)| before.is_empty() || before.starts_with("pub")) else {
            continue;
        };
        match named.take() {
            Some(path) => children.push(path),
            None => children.extend([below.join(format!("{name}.rs")), below.join(name).join("mod.rs")]),
        }
    }
    children
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_lost_unless_a_file_above_it_has_its_mod() {
        for (sources, lost) in [
            (&[("a/src/lib.rs", "pub mod b;\n"), ("a/src/b.rs", "mod c;"), ("a/src/b/c.rs", "")][..], 0),
            (&[("a/src/lib.rs", ""), ("a/src/b.rs", "")], 1),
            (&[("src/main.rs", "mod b;"), ("src/b/mod.rs", "pub(crate) mod c;"), ("src/b/c.rs", "")], 0),
            (&[("src/main.rs", "mod b;"), ("src/b.rs", ""), ("src/c/b.rs", "")], 1),
            (&[("tests/main.rs", "mod a;\n"), ("tests/a.rs", ""), ("tests/b.rs", "")], 1),
            (&[("a/tests/b.rs", "#[path = \"../fixtures/c.rs\"]\nmod c;"), ("a/fixtures/c.rs", "")], 0),
            (&[("a/src/b/tests/c.rs", ""), ("a/benches/d.rs", "")], 1),
        ] {
            let sources: Vec<_> = sources.iter().map(|(file, text)| (file.into(), (*text).to_owned())).collect();
            assert_eq!(faults(&sources).len(), lost, "{sources:?}");
        }
    }
}
