//! A kernel with its initramfs: the first programs of a guest, and modules.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::lab::initramfs::Archive;
use crate::lab::place::{Lab, read};

/// A kernel ready to boot.
pub struct Kernel {
    /// `6.1` or `6.12`.
    pub version: String,
    pub image: PathBuf,
    pub initramfs: PathBuf,
}

/// Writes an initramfs into this folder of the lab, with modules in the order of loading: names and bytes.
pub fn write_initramfs(lab: &Lab, folder: &str, modules: &[(String, Vec<u8>)]) -> Result<PathBuf> {
    let mut archive = Archive::default();
    for dir in ["bin", "dev", "proc", "sys", "modules"] {
        archive.directory(dir);
    }
    archive.console("dev/console");
    archive.executable("bin/busybox", &read(&busybox(lab)?)?);
    archive.executable("init", &read(&lab.root.join("tests/guests/init"))?);
    archive.executable("network", &read(&lab.root.join("tests/guests/network"))?);
    for (index, (name, bytes)) in modules.iter().enumerate() {
        archive.executable(&format!("modules/{index:02}-{name}.ko"), bytes);
    }
    let dir = lab.common.join(folder);
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    let (initramfs, new) = (dir.join("initramfs"), dir.join("initramfs.new"));
    fs::write(&new, archive.finish()).with_context(|| format!("write {}", new.display()))?;
    fs::rename(&new, &initramfs)?;
    Ok(initramfs)
}

fn busybox(lab: &Lab) -> Result<PathBuf> {
    std::env::split_paths(&lab.path)
        .map(|dir| dir.join("busybox"))
        .find(|path| path.is_file())
        .context("busybox not found: run `cargo xtask lab install`")
}
