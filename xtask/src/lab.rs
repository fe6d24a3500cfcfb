//! `cargo xtask lab`: two QEMU guests with Soft-RoCE, each running an agent, from Debian packages only.
//! The guests' side is `lab/init`; the commands here only prepare, start, reach and end them.

mod bench;
mod guest;
mod health;
mod initramfs;
mod kernel;
mod netem;
mod place;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use anyhow::{Context, Result, bail};

use guest::{Guest, NAMES};
use place::Lab;

/// What the guests, the preparation, the tests and the benchmarks need, as Debian packages.
const PACKAGES: [&str; 12] = [
    "qemu-system-x86",
    "busybox-static",
    "kmod",
    "xz-utils",
    "binutils",
    "iproute2",
    "libibverbs1",
    "ibverbs-providers",
    "rdma-core",
    "tshark",
    "perftest",
    "ibverbs-utils",
];

/// Programs whose absence means that `install` was not run.
const PROGRAMS: [&str; 7] =
    ["qemu-system-x86_64", "busybox", "depmod", "rdma", "tshark", "ib_write_bw", "ibv_ud_pingpong"];

/// Longest boot that is waited for; 9 s on an idle machine of two cores, minutes on one that builds meanwhile.
const BOOT_LIMIT: Duration = Duration::from_mins(5);

const USAGE: &str = "usage: cargo xtask lab install | up [--kernel 6.1|6.12] | mend | status | run a|b -- COMMAND | \
                     netem [--delay TIME] [--loss PERCENT] | netem clear | bench perftest|turnaround|trace | down";

/// Runs one lab command.
pub fn run(args: &[String]) -> Result<()> {
    // Where a user's shell has no /sbin, the tools of kmod and iproute2 are there all the same.
    let path = env::var("PATH").unwrap_or_default();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = crate::workspace_root();
    let state = env::var_os("KELPIE_LAB_DIR").map_or_else(|| root.join("target/lab"), PathBuf::from);
    let lab = Lab { state: std::path::absolute(state)?, root, path: format!("{path}:/usr/sbin:/sbin") };
    match words.as_slice() {
        ["install"] => lab.install(),
        ["up"] => lab.up("6.1"),
        ["up", "--kernel", version @ ("6.1" | "6.12")] => lab.up(version),
        ["mend"] => {
            lab.mend()?.iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        ["status"] => lab.status(),
        ["run", name, "--", command @ ..] if !command.is_empty() => lab.run_in(name, &command.join(" ")),
        ["netem", options @ ..] if !options.is_empty() => lab.netem(options),
        ["bench", args @ ..] => lab.bench(args),
        ["down"] => lab.down(),
        _ => bail!("{USAGE}"),
    }
}

impl Lab {
    fn guests(&self) -> [Guest; 2] {
        NAMES.map(|name| Guest::new(&self.state, name))
    }

    fn missing_programs(&self) -> Vec<&'static str> {
        let found = |program: &str| env::split_paths(&self.path).any(|dir| dir.join(program).is_file());
        PROGRAMS.into_iter().filter(|program| !found(program)).collect()
    }

    fn install(&self) -> Result<()> {
        let sudo = if is_root()? { None } else { Some("sudo") };
        for step in [
            vec!["apt-get", "update", "-qq"],
            [&["apt-get", "install", "-y", "-qq", "--no-install-recommends"][..], &PACKAGES].concat(),
        ] {
            let line: Vec<&str> = sudo.into_iter().chain(step).collect();
            let status = self
                .command(line[0])
                .args(&line[1..])
                .env("DEBIAN_FRONTEND", "noninteractive")
                .status()
                .with_context(|| format!("run {}: the lab is made of Debian packages and needs apt", line[0]))?;
            if !status.success() {
                bail!("`{}` failed; install these by hand: {}", line.join(" "), PACKAGES.join(" "));
            }
        }
        Ok(())
    }

    fn up(&self, kernel: &str) -> Result<()> {
        let started = Instant::now();
        let missing = self.missing_programs();
        if !missing.is_empty() {
            bail!("{} not found: run `cargo xtask lab install` first", missing.join(", "));
        }
        fs::create_dir_all(self.state.join("share"))?;
        let (_, fresh) = self.deploy("dev")?;
        let guests = self.guests();
        let (running, ended): (Vec<&Guest>, Vec<&Guest>) = guests.iter().partition(|guest| guest.is_running());
        if let Some(other) = running.iter().find(|guest| guest.kernel().is_some_and(|booted| booted != kernel)) {
            bail!("guest {} runs another kernel: `cargo xtask lab down` first", other.name);
        }
        if running.is_empty() {
            self.forget_stalls()?;
        }
        if !ended.is_empty() {
            let prepared = kernel::prepare(self, kernel)?;
            for guest in &ended {
                guest.start(self, &prepared)?;
            }
            for guest in &ended {
                guest.wait_ready(BOOT_LIMIT)?;
            }
        }
        self.write_pair(&guests)?;
        self.mend()?.iter().for_each(|line| eprintln!("{line}"));
        if fresh {
            running.into_iter().try_for_each(Guest::restart_agent)?;
        }
        for guest in &guests {
            guest.wait_agent(Duration::from_mins(1))?;
        }
        println!(
            "lab is up after {:.0} s: {}",
            started.elapsed().as_secs_f64(),
            self.state.join("pair.yaml").display()
        );
        Ok(())
    }

    /// Builds the binary with verbs and puts it where the guests read it; where it is here, and whether it changed.
    fn deploy(&self, profile: &str) -> Result<(PathBuf, bool)> {
        // Of the whole workspace, and in `dev` with the tests, so that what the other checks built is not built again
        // with other features of the same crates.
        let targets: &[&str] = if profile == "dev" { &["--lib", "--bins", "--tests"] } else { &[] };
        let status = crate::cargo::cargo(&self.root)
            .args(["build", "--quiet", "--workspace", "--features", "verbs", "--profile", profile])
            .args(targets)
            .status()
            .context("run cargo build")?;
        if !status.success() {
            bail!(
                "building kelpie with its feature `verbs` failed: it needs libibverbs-dev librdmacm-dev libclang-dev"
            );
        }
        // This program was built by the profile `dev`, whose folder is `debug`.
        let folder = env::current_exe()?.parent().and_then(Path::parent).map(Path::to_owned);
        let folder = folder.context("this program lies in the target folder")?;
        let built = folder.join(if profile == "dev" { "debug" } else { profile });
        let binary = built.join("kelpie");
        let changed = self.copy_for_guests(&binary)?;
        self.copy_for_guests(&built.join("libkelpie_preload.so"))?;
        Ok((binary, changed))
    }

    /// Puts a built file where the guests read it; whether it changed.
    fn copy_for_guests(&self, built: &Path) -> Result<bool> {
        let name = built.file_name().context("a file has a name")?;
        let shared = self.state.join("share").join(name);
        let new = shared.with_extension("new");
        let stripped = self.command("strip").arg("-o").arg(&new).arg(built).status().context("run strip")?;
        if !stripped.success() {
            bail!("strip {} failed", built.display());
        }
        let changed = fs::read(&shared).ok() != Some(fs::read(&new)?);
        fs::rename(&new, &shared)?;
        Ok(changed)
    }

    /// The shipped pair file with the ports that the guests got.
    fn write_pair(&self, guests: &[Guest; 2]) -> Result<()> {
        let mut text = fs::read_to_string(self.root.join("lab/pair.yaml")).context("read lab/pair.yaml")?;
        for (guest, shipped) in guests.iter().zip(["127.0.0.1:7471", "127.0.0.1:7472"]) {
            text = text.replace(shipped, &format!("127.0.0.1:{}", guest.port()?));
        }
        let new = self.state.join("pair.yaml.new");
        fs::write(&new, text)?;
        fs::rename(&new, self.state.join("pair.yaml")).context("write pair.yaml")
    }

    fn status(&self) -> Result<()> {
        let mut down = Vec::new();
        for guest in self.guests() {
            if guest.is_running() {
                let (links, _) = guest.execute("rdma link; rdma resource", Duration::from_secs(10))?;
                println!("{}: up, agent on 127.0.0.1:{}\n{links}", guest.name, guest.port()?);
            } else {
                down.push(guest.name);
            }
        }
        if !down.is_empty() {
            bail!("guest {} is down: run `cargo xtask lab up`", down.join(" and "));
        }
        Ok(())
    }

    fn run_in(&self, name: &str, command: &str) -> Result<()> {
        let guest = self.guests().into_iter().find(|guest| guest.name == name).with_context(|| USAGE)?;
        let (output, status) = guest.execute(command, Duration::from_mins(10))?;
        print!("{output}");
        if status != 0 {
            bail!("the command ended with status {status} in guest {name}");
        }
        Ok(())
    }

    fn down(&self) -> Result<()> {
        if self.guests().iter().any(Guest::is_running) && self.stalls() > 0 {
            println!("guests that stalled and were started again since the lab came up: {}", self.stalls());
        }
        // Whatever becomes of one, the others go.
        let ended = self.guests().map(|guest| guest.end());
        let removed = match fs::remove_file(self.state.join("pair.yaml")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error).context("remove pair.yaml"),
            _ => Ok(()),
        };
        ended.into_iter().chain([removed]).collect()
    }
}

fn is_root() -> Result<bool> {
    let output = Command::new("id").arg("-u").output().context("run id")?;
    Ok(output.stdout.trim_ascii() == b"0")
}
