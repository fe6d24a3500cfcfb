//! No circles of files within a crate: what a file uses must not use it in turn, by whatever way. Tests do not count.

mod crate_files;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::Package;
use crate_files::CrateFiles;

/// Checks every library and program of these crates.
///
/// A parent and its only child may use each other; no more.
pub fn check(root: &Path, packages: &[Package]) -> Result<()> {
    let mut circles = Vec::new();
    for first_file in packages.iter().flat_map(|package| &package.roots) {
        let files = CrateFiles::read(first_file)?;
        circles.extend(circles_of(&files).iter().map(|circle| names(root, &files, circle)));
    }
    let wrong: Vec<String> = circles
        .iter()
        .map(|circle| format!("a circle: {}; move what both ends need into a file of its own", circle.join(", ")))
        .collect();
    if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
}

fn names(root: &Path, files: &CrateFiles, circle: &BTreeSet<usize>) -> Vec<String> {
    let mut names: Vec<String> = circle
        .iter()
        .map(|file| files.files[*file].0.strip_prefix(root).unwrap_or(&files.files[*file].0).display().to_string())
        .collect();
    names.sort();
    names
}

/// Files that reach each other, in groups of more than one; not a parent with its child.
fn circles_of(files: &CrateFiles) -> Vec<BTreeSet<usize>> {
    let groups = groups(&files.uses());
    let is_family = |group: &BTreeSet<usize>| {
        let modules: Vec<&[String]> = group.iter().map(|file| files.files[*file].1.as_slice()).collect();
        match modules.as_slice() {
            [one, other] => {
                let parent_of =
                    |child: &[String], parent: &[String]| child.split_last().is_some_and(|(_, up)| up == parent);
                parent_of(one, other) || parent_of(other, one)
            }
            _ => false,
        }
    };
    groups.into_iter().filter(|group| !is_family(group)).collect()
}

/// The strongly connected components of more than one node.
fn groups(edges: &[BTreeSet<usize>]) -> Vec<BTreeSet<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|node| reached_from(node, edges)).collect();
    let group = |node: usize| -> BTreeSet<usize> {
        reached[node].iter().copied().filter(|other| reached[*other].contains(&node)).collect()
    };
    let mut groups: Vec<BTreeSet<usize>> = (0..edges.len()).map(group).filter(|group| group.len() > 1).collect();
    groups.sort();
    groups.dedup();
    groups
}

fn reached_from(node: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![node]);
    while let Some(node) = next.pop() {
        next.extend(edges[node].iter().filter(|other| reached.insert(**other)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_reach_each_other_and_chains_do_not() {
        let edges = |pairs: &[(usize, usize)]| {
            let mut edges = vec![BTreeSet::new(); 6];
            for (from, to) in pairs {
                edges[*from].insert(*to);
            }
            edges
        };
        assert_eq!(groups(&edges(&[(0, 1), (1, 2), (0, 2), (3, 2)])), [] as [BTreeSet<usize>; 0]);
        let two = groups(&edges(&[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 0)]));
        assert_eq!(two, [BTreeSet::from([0, 1, 2]), BTreeSet::from([3, 4])]);
    }

    /// The circles of a crate with these files beside an empty root.
    fn circles(texts: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in texts {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let files = CrateFiles::read(&folder.path().join("lib.rs")).expect("a crate");
        circles_of(&files).iter().map(|circle| names(folder.path(), &files, circle)).collect()
    }

    #[test]
    fn only_a_parent_and_its_child_may_use_each_other() {
        let siblings = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ];
        assert_eq!(circles(&siblings), [["a.rs", "b.rs"]]);
        let family = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; use b::B; pub struct A;"),
            ("a/b.rs", "use super::A; pub struct B;"),
        ];
        assert_eq!(circles(&family), [] as [Vec<String>; 0]);
        let large = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; use {b::B, c::C}; pub struct A;"),
            ("a/b.rs", "use super::A; pub struct B;"),
            ("a/c.rs", "use super::A; pub struct C;"),
        ];
        assert_eq!(circles(&large), [["a.rs", "a/b.rs", "a/c.rs"]]);
        let for_tests = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; } pub struct B;"),
        ];
        assert_eq!(circles(&for_tests), [] as [Vec<String>; 0]);
    }
}
