//! A kernel for user mode (`ARCH=um`), built once from Debian's source package into a cache outside of the tree.
//!
//! The cache is `kelpie` in `$XDG_CACHE_HOME` or `~/.cache`, and a kernel's folder there is named after the version of
//! its source and a hash of its configuration, `tests/guests/um.config`, and of what is changed in the source.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context, Result, bail, ensure};

use super::pack::{Kernel, write_initramfs};
use crate::lab::place::{Lab, checked, read};

/// Versions of Debian's source packages, the first that is installed by default.
pub const VERSIONS: [&str; 2] = ["6.12", "6.1"];

/// What of the source this architecture never compiles: two thirds of it. Files that the configuration reads stay.
const LEFT_OUT: [&str; 7] = [
    "*/Documentation/*.rst",
    "*/arch/*/boot/dts/*",
    "*/drivers/gpu/*.[chS]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/testing/*",
];

/// Where the source says how many bytes of a process's extended registers it keeps, and what it says instead.
///
/// The host takes these registers back only as a whole, and clamps a longer length to its own; a CPU with AMX has
/// 11,008 bytes of them. Source: `arch/x86/kernel/fpu/regset.c`, `xstateregs_set`, and `kernel/ptrace.c`,
/// `ptrace_regset`; kernels since 6.13 ask the host for the length. Handlers of signals have them on their stack, so
/// `CONFIG_KERNEL_STACK_ORDER` in `tests/guests/um.config` makes room.
const REGISTERS: (&str, &str, &str) =
    ("arch/x86/um/user-offsets.c", "DEFINE_LONGS(HOST_FP_SIZE, 2696);", "DEFINE_LONGS(HOST_FP_SIZE, 12288);");

/// Room that source and objects take while they are there. Units: bytes. Source: measured, 1.1 GB.
const ROOM: u64 = 1_500_000_000;

/// How often the build says how far it is.
const PROGRESS: Duration = Duration::from_secs(20);

/// The kernel of this version, which is built if the cache does not have it.
pub fn prepare(lab: &Lab, version: Option<&str>) -> Result<Kernel> {
    let version = match version {
        Some(version) => version,
        None => VERSIONS.into_iter().find(|version| source(version).is_file()).unwrap_or(VERSIONS[0]),
    };
    let image = image(lab, version)?;
    let initramfs = write_initramfs(lab, "kernel-user-mode", &[])?;
    Ok(Kernel { version: version.to_owned(), image, initramfs })
}

/// Where Debian's package puts a source.
fn source(version: &str) -> PathBuf {
    PathBuf::from(format!("/usr/src/linux-source-{version}.tar.xz"))
}

fn image(lab: &Lab, version: &str) -> Result<PathBuf> {
    let archive = source(version);
    ensure!(
        archive.is_file(),
        "{} is missing: run `cargo xtask lab install`, or start emulated guests with `cargo xtask lab up --emulated`",
        archive.display()
    );
    let package = format!("linux-source-{version}");
    let full = checked(lab.command("dpkg-query").args(["-W", "-f=${Version}", &package]), "dpkg-query -W")?;
    let config = lab.root.join("tests/guests/um.config");
    let made_of = [read(&config)?.as_slice(), REGISTERS.2.as_bytes()].concat();
    let name = format!("linux-um-{}-{:08x}", full.trim().replace(['~', ':', '/'], "-"), fnv(&made_of));
    let cache = cache()?;
    fs::create_dir_all(&cache).with_context(|| format!("make {}", cache.display()))?;
    let image = cache.join(&name).join("linux");
    // A second process waits here, and finds what the first one built.
    let lock = File::create(cache.join(format!("{name}.lock"))).context("write into the cache of kernels")?;
    lock.lock().context("lock the cache of kernels")?;
    if !image.is_file() {
        let build = Build { lab, archive: &archive, config: &config, dir: cache.join(format!("{name}.build")) };
        build.run(&image).with_context(|| format!("build Linux {} for user mode", full.trim()))?;
    }
    Ok(image)
}

fn cache() -> Result<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache =
        named.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set, and a kernel has to be kept there")?;
    Ok(cache.join("kelpie"))
}

/// Tells configurations apart. Source: FNV-1a, 32 bits, draft-eastlake-fnv.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A build in a folder of its own, which goes when it ends.
struct Build<'a> {
    lab: &'a Lab,
    archive: &'a Path,
    config: &'a Path,
    dir: PathBuf,
}

impl Build<'_> {
    fn run(&self, image: &Path) -> Result<()> {
        let started = Instant::now();
        eprintln!("building the guests' kernel from {}, once: some minutes", self.archive.display());
        self.remove()?;
        fs::create_dir_all(&self.dir)?;
        self.have_room()?;
        let mut tar = self.lab.command("tar");
        tar.args(LEFT_OUT.map(|pattern| format!("--exclude={pattern}"))).arg("--strip-components=1");
        checked(tar.arg("-xf").arg(self.archive).arg("-C").arg(&self.dir), "tar -xf")?;
        self.widen_registers()?;
        let config = format!("KCONFIG_ALLCONFIG={}", self.config.display());
        checked(self.make().args([&config, "allnoconfig"]), "make allnoconfig")?;
        self.configuration_holds()?;
        self.compile(started)?;
        let folder = image.parent().context("a kernel lies in a folder")?;
        fs::create_dir_all(folder)?;
        let new = folder.join("linux.new");
        checked(self.lab.command("strip").arg("-o").arg(&new).arg(self.dir.join("linux")), "strip linux")?;
        fs::rename(&new, image)?;
        self.remove()?;
        eprintln!("the kernel is built after {:.0} s: {}", started.elapsed().as_secs_f64(), image.display());
        Ok(())
    }

    fn remove(&self) -> Result<()> {
        if self.dir.exists() {
            fs::remove_dir_all(&self.dir).with_context(|| format!("remove {}", self.dir.display()))?;
        }
        Ok(())
    }

    fn have_room(&self) -> Result<()> {
        let there = rustix::fs::statvfs(&self.dir).context("ask how much room there is")?;
        let free = there.f_bavail * there.f_frsize;
        ensure!(
            free >= ROOM,
            "{} has {} MB free, and the build needs {} MB for a while: make room, or set XDG_CACHE_HOME",
            self.dir.display(),
            free / 1_000_000,
            ROOM / 1_000_000
        );
        Ok(())
    }

    fn widen_registers(&self) -> Result<()> {
        let (file, old, new) = REGISTERS;
        let path = self.dir.join(file);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        ensure!(
            text.matches(old).count() == 1,
            "this source has no `{old}` in {file}: see whether it needs the change"
        );
        fs::write(&path, text.replace(old, new)).with_context(|| format!("write {}", path.display()))
    }

    /// `make` whose result does not depend on the user, the host or the time.
    fn make(&self) -> Command {
        let mut make = self.lab.command("make");
        make.current_dir(&self.dir).arg("ARCH=um");
        make.env("KBUILD_BUILD_TIMESTAMP", "1970-01-01")
            .env("KBUILD_BUILD_USER", "kelpie")
            .env("KBUILD_BUILD_HOST", "lab");
        // Of the `make` that this program may run below.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").stdin(Stdio::null());
        make
    }

    /// What was asked for and is not there, because something that it depends on has another name in this version.
    fn configuration_holds(&self) -> Result<()> {
        let made = fs::read_to_string(self.dir.join(".config")).context("read .config")?;
        let asked = fs::read_to_string(self.config).context("read tests/guests/um.config")?;
        let missing: Vec<&str> = asked
            .lines()
            .filter(|line| line.starts_with("CONFIG_") && !made.lines().any(|other| other == *line))
            .collect();
        ensure!(missing.is_empty(), "this source has no {}", missing.join(", "));
        Ok(())
    }

    fn compile(&self, started: Instant) -> Result<()> {
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let log = self.dir.with_extension("log");
        let written = File::create(&log).context("write a log of the build")?;
        let mut make = self.make();
        let make = make.arg(format!("-j{jobs}")).stdout(Stdio::piped()).stderr(written);
        let mut running = make.spawn().context("run make")?;
        let lines = BufReader::new(running.stdout.take().context("its output is ours")?).lines();
        let (mut files, mut said) = (0, Instant::now());
        for _ in lines.map_while(Result::ok).filter(|line| line.starts_with("  CC")) {
            files += 1;
            if said.elapsed() >= PROGRESS {
                said = Instant::now();
                eprintln!("   the kernel: {files} files after {:.0} s", started.elapsed().as_secs_f64());
            }
        }
        if !running.wait().context("wait for make")?.success() {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let end: Vec<&str> = text.lines().rev().take(10).collect();
            bail!("make failed, see {}:\n{}", log.display(), end.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        fs::remove_file(&log).context("remove the log of the build")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_that_differ_have_other_names() {
        // Source: draft-eastlake-fnv, test vectors.
        assert_eq!((fnv(b""), fnv(b"a"), fnv(b"foobar")), (0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968));
    }
}
