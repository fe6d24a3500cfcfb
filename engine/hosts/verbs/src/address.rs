//! Which GID of a port to use, from sysfs, because older calls of libibverbs do not report the `RoCE` version.
//! The rule is in `kelpie_monitor::machine`.

use std::fs;
use std::path::Path;

use kelpie_monitor::machine::{Gid, gids};

use crate::error::VerbsError;

/// Where the kernel puts RDMA devices.
pub const SYSFS_ROOT: &str = "/sys/class/infiniband";

/// The GID with this index, or the best one.
pub fn choose(root: &Path, device: &str, port: u8, wanted: Option<u8>) -> Result<Gid, VerbsError> {
    let directory = root.join(device).join("ports").join(port.to_string());
    let path = directory.join("gids");
    if let Err(source) = fs::metadata(&path) {
        return Err(VerbsError::Sysfs { path, source });
    }
    let table = gids(wanted, |name| fs::read_to_string(directory.join(name)).ok());
    Gid::best(table).ok_or_else(|| VerbsError::NoGid {
        object: format!("{device} port {port}"),
        wanted: wanted.map_or_else(|| "at all".to_owned(), |index| format!("with index {index}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let port = root.path().join("nic0/ports/1");
        fs::create_dir_all(port.join("gids")).expect("a directory");
        fs::create_dir_all(port.join("gid_attrs/types")).expect("a directory");
        fs::write(port.join("gids/3"), "0000:0000:0000:0000:0000:ffff:0a4d:0001\n").expect("a file");
        fs::write(port.join("gid_attrs/types/3"), "RoCE v2\n").expect("a file");
        root
    }

    #[test]
    fn the_table_of_the_port_is_read() {
        let root = tree();
        let index =
            |wanted| choose(root.path(), "nic0", 1, wanted).map(|gid| gid.index).map_err(|error| error.to_string());
        assert_eq!(index(None), Ok(3));
        assert_eq!(index(Some(3)), Ok(3));
        assert!(index(Some(0)).is_err_and(|error| error.contains("with index 0")), "{:?}", index(Some(0)));
    }

    #[test]
    fn a_missing_port_is_named() {
        let root = tree();
        let error = choose(root.path(), "nic0", 2, None).expect_err("no port 2");
        assert!(error.to_string().contains("nic0/ports/2/gids"), "{error}");
    }
}
