//! GIDs of a port, from sysfs, and which one to use. libibverbs tells no `RoCE` version through its older calls.
//!
//! Source: kernel `Documentation/ABI/testing/sysfs-class-infiniband`, `gids` and `gid_attrs/types`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::VerbsError;

/// Where the kernel puts RDMA devices.
pub const SYSFS_ROOT: &str = "/sys/class/infiniband";

/// Entries of a GID table that are looked at; real tables have up to 256.
const MOST_GIDS: u16 = 256;

/// An entry of a port's GID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gid {
    /// Its index.
    pub index: u8,
    /// The address.
    pub raw: [u8; 16],
    /// `RoCEv2` over IPv4 is best, then `RoCEv2` over IPv6, then the rest.
    rank: u8,
}

/// The GID with this index, or the best one.
pub fn choose(root: &Path, device: &str, port: u8, wanted: Option<u8>) -> Result<Gid, VerbsError> {
    let dir = root.join(device).join("ports").join(port.to_string());
    let table = table(&dir, wanted)?;
    table.into_iter().min_by_key(|gid| (gid.rank, gid.index)).ok_or_else(|| VerbsError::NoGid {
        object: format!("{device} port {port}"),
        wanted: wanted.map_or_else(|| "at all".to_owned(), |index| format!("with index {index}")),
    })
}

/// The entries that hold an address; only one is looked at where that one is wanted.
fn table(dir: &Path, wanted: Option<u8>) -> Result<Vec<Gid>, VerbsError> {
    let gids = dir.join("gids");
    if let Err(source) = fs::metadata(&gids) {
        return Err(VerbsError::Sysfs { path: gids, source });
    }
    let mut table = Vec::new();
    for index in wanted.map_or(0..MOST_GIDS, |index| index.into()..u16::from(index) + 1) {
        let Ok(text) = fs::read_to_string(gids.join(index.to_string())) else { break };
        let Some(raw) = parse(text.trim()).filter(|raw| *raw != [0; 16]) else { continue };
        let path: PathBuf = dir.join("gid_attrs/types").join(index.to_string());
        // Reading the type of an entry that is being changed fails; so does it on InfiniBand with old kernels.
        let kind = fs::read_to_string(path).unwrap_or_default();
        table.push(Gid { index: index as u8, raw, rank: rank(kind.trim(), &raw) });
    }
    Ok(table)
}

fn rank(kind: &str, raw: &[u8; 16]) -> u8 {
    let is_ipv4 = raw[..10] == [0; 10] && raw[10..12] == [0xff, 0xff];
    match (kind, is_ipv4) {
        ("RoCE v2", true) => 0,
        ("RoCE v2", false) => 1,
        _ => 2,
    }
}

/// Eight groups of four hexadecimal digits.
fn parse(text: &str) -> Option<[u8; 16]> {
    let mut raw = [0; 16];
    let mut groups = text.split(':');
    for pair in raw.chunks_exact_mut(2) {
        let group = groups.next().filter(|group| group.len() == 4)?;
        pair.copy_from_slice(&u16::from_str_radix(group, 16).ok()?.to_be_bytes());
    }
    groups.next().is_none().then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK_LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe4b:0001";
    const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
    const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

    fn tree(entries: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let port = root.path().join("nic0/ports/1");
        fs::create_dir_all(port.join("gids")).expect("a directory");
        fs::create_dir_all(port.join("gid_attrs/types")).expect("a directory");
        for (index, (gid, kind)) in entries.iter().enumerate() {
            fs::write(port.join(format!("gids/{index}")), format!("{gid}\n")).expect("a file");
            fs::write(port.join(format!("gid_attrs/types/{index}")), format!("{kind}\n")).expect("a file");
        }
        root
    }

    #[test]
    fn roce_v2_over_ipv4_comes_first() {
        /// Address and type of each entry, the index that is wanted, the index that is chosen.
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<u8>, Option<u8>);
        let v1 = "IB/RoCE v1";
        let table: &[Case<'_>] = &[
            (&[(LINK_LOCAL, v1), (LINK_LOCAL, "RoCE v2"), (IPV4, v1), (IPV4, "RoCE v2")], None, Some(3)),
            (&[(LINK_LOCAL, v1), (LINK_LOCAL, "RoCE v2"), (EMPTY, "RoCE v2")], None, Some(1)),
            (&[(LINK_LOCAL, v1)], None, Some(0)),
            (&[(LINK_LOCAL, v1), (IPV4, "RoCE v2")], Some(0), Some(0)),
            (&[(LINK_LOCAL, v1), (EMPTY, "RoCE v2")], Some(1), None),
            (&[(LINK_LOCAL, v1)], Some(7), None),
            (&[("nonsense", v1)], None, None),
        ];
        for (entries, wanted, expected) in table {
            let root = tree(entries);
            let chosen = choose(root.path(), "nic0", 1, *wanted).ok().map(|gid| gid.index);
            assert_eq!(chosen, *expected, "{entries:?} {wanted:?}");
        }
    }

    #[test]
    fn a_missing_port_is_named() {
        let root = tree(&[]);
        let error = choose(root.path(), "nic0", 2, None).expect_err("no port 2");
        assert!(error.to_string().contains("nic0/ports/2/gids"), "{error}");
    }
}
