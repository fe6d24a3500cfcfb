//! The files of one host, below a root: reading them, listing them, following links. What they mean lives elsewhere.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest file that is read; the rest of a longer one is not. Units: bytes. Source: our choice, because the largest
/// that is asked for is a PCIe configuration space of 4 KiB or a recorded `ethtool -S` of some hundred KiB.
const LONGEST: u64 = 1 << 20;

/// Most entries of a directory that are looked at. Source: our choice, because a host has fewer CPUs and GIDs.
const MOST_ENTRIES: usize = 16_384;

/// The files of one host. Names are relative to its root, without a leading slash: `sys/class/net`.
#[derive(Debug, Clone)]
pub struct Machine {
    root: PathBuf,
    live: bool,
}

impl Machine {
    /// This machine.
    pub fn live() -> Self {
        Self { root: PathBuf::from("/"), live: true }
    }

    /// A recorded tree. What a live machine is asked by system calls is a file there:
    /// `ethtool/NETDEV` (the output of `ethtool -S`) and `dcb/NETDEV` (see [`crate::sources::Dcb`]).
    pub fn recorded(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), live: false }
    }

    /// Whether the kernel may be asked, beyond files.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Where a file is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file without surrounding white space; `None` if it cannot be read or is no text.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = String::from_utf8(self.bytes(name)?).ok()?;
        Some(text.trim().to_owned())
    }

    /// A number in a file.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// The content of a file.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.path(name)).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The entries of a directory, sorted; none if it is not there.
    pub fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).into_iter().flatten().take(MOST_ENTRIES);
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    /// Whether something of this name is there.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The name with every link followed; `None` if it is not there or leads out of the root.
    pub fn real(&self, name: &str) -> Option<String> {
        let root = self.root.canonicalize().ok()?;
        let path = self.path(name).canonicalize().ok()?;
        path.strip_prefix(root).ok()?.to_str().map(str::to_owned)
    }

    /// The last part of what a link leads to, such as the name of a driver.
    pub fn link_name(&self, name: &str) -> Option<String> {
        let target = fs::read_link(self.path(name)).ok()?;
        target.file_name()?.to_str().map(str::to_owned)
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }
}
