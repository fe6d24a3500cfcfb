//! A stock Debian kernel for emulated guests: downloaded as a package and unpacked. Nothing of it is installed on this
//! machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::pack::{Kernel, write_initramfs};
use crate::lab::place::{Lab, checked, read};

/// Modules of a guest, in the order of loading; their dependencies come first.
/// `crc32_generic` is a crypto dependency of `rdma_rxe` that modprobe does not list.
const MODULES: [&str; 17] = [
    "crc32_generic",
    "crc32c_generic",
    "virtio_pci",
    "virtio_net",
    "9p",
    "9pnet_virtio",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "sch_netem",
    "veth",
    "dummy",
    "virtio_rng",
    "bonding",
    "sch_tbf",
    "sch_prio",
    "cls_u32",
];

/// Downloads (once) and packs the kernel of this version, `6.1` or `6.12`.
pub fn prepare(lab: &Lab, version: &str) -> Result<Kernel> {
    let name = format!("kernel-{version}");
    let dir = lab.common.join(&name);
    let tree = dir.join("tree");
    if !dir.join("complete").exists() {
        download(lab, version, &dir, &tree)?;
    }
    let image = only_entry(&tree.join("boot"), "vmlinuz-")?;
    let release = image.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("vmlinuz-"));
    let release = release.context("the kernel image has an odd name")?;
    let modules: Vec<_> =
        module_paths(lab, &tree, release)?.iter().map(|path| module(lab, path)).collect::<Result<_>>()?;
    let initramfs = write_initramfs(lab, &name, &modules)?;
    Ok(Kernel { version: version.to_owned(), image, initramfs })
}

fn download(lab: &Lab, version: &str, dir: &Path, tree: &Path) -> Result<()> {
    let meta = if version == "6.1" { "linux-image-amd64".to_owned() } else { format!("linux-image-{version}-amd64") };
    let listed = checked(lab.command("apt-cache").args(["depends", &meta]), "apt-cache depends")?;
    let wanted = format!("linux-image-{version}.");
    let package = listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with(&wanted))
        .with_context(|| {
            format!("{meta} names no {wanted}* package: run `cargo xtask lab install`, or this is no Debian 12")
        })?;
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(tree)?;
    checked(lab.command("apt-get").args(["download", "-qq", package]).current_dir(dir), "apt-get download")?;
    let deb = only_entry(dir, "linux-image-")?;
    checked(lab.command("dpkg").arg("-x").arg(&deb).arg(tree), "dpkg -x")?;
    fs::remove_file(&deb)?;
    let release = package.strip_prefix("linux-image-").unwrap_or(package);
    checked(lab.command("depmod").arg("-b").arg(tree).arg(release), "depmod")?;
    fs::write(dir.join("complete"), package)?;
    Ok(())
}

fn only_entry(dir: &Path, prefix: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            return Ok(entry.path());
        }
    }
    bail!("{} holds no {prefix}* file", dir.display())
}

/// The modules with their dependencies, each once, in the order of loading.
fn module_paths(lab: &Lab, tree: &Path, release: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for module in MODULES {
        let mut modprobe = lab.command("modprobe");
        modprobe.arg("-d").arg(tree).args(["-S", release, "--show-depends", module]);
        for line in checked(&mut modprobe, &format!("modprobe --show-depends {module}"))?.lines() {
            let Some(path) = line.strip_prefix("insmod ").and_then(|rest| rest.split_whitespace().next()) else {
                continue;
            };
            let path = PathBuf::from(path);
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

/// A module's name and bytes; later kernels ship them compressed.
fn module(lab: &Lab, path: &Path) -> Result<(String, Vec<u8>)> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
    let name = name.context("a module has an odd name")?.to_owned();
    if path.extension().is_some_and(|extension| extension == "xz") {
        let output = lab.command("xz").arg("-dc").arg(path).output().context("run xz")?;
        if !output.status.success() {
            bail!("xz -dc {} failed", path.display());
        }
        return Ok((name, output.stdout));
    }
    Ok((name, read(path)?))
}
