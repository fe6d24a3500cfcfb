//! `cargo xtask lab`: guests with Soft-RoCE, each host running an agent, from Debian packages only.
//! The guests' side is `tests/guests/init`; the commands here only prepare, start, reach and end them.

mod bench;
mod emulated;
mod guest;
mod health;
mod initramfs;
mod keeper;
mod kernel;
mod machine;
mod netem;
mod place;
mod shape;
mod user_mode;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use anyhow::{Context, Result, bail, ensure};

use guest::Guest;
use machine::Machine;
use place::Lab;
use shape::{FEWEST, MEMORY_MIB, MOST, Shape, leaf_port};

/// Programs whose absence means that `install` was not run.
const PROGRAMS: [&str; 5] = ["busybox", "rdma", "tshark", "ib_write_bw", "ibv_ud_pingpong"];

/// Those that only one kind of guest needs.
const PROGRAMS_OF_USER_MODE: [&str; 5] = ["setpriv", "make", "flex", "bison", "bc"];
const PROGRAMS_OF_EMULATED: [&str; 2] = ["qemu-system-x86_64", "depmod"];

/// Longest boot that is waited for; an emulated guest takes 9 s on an idle machine of two cores, and minutes on one
/// that builds meanwhile.
const BOOT_LIMIT: Duration = Duration::from_mins(5);

/// Where a lab keeps the name of its kind of guests.
const MACHINE: &str = "machine";

const USAGE: &str = "usage: cargo xtask lab install [--emulated] | up [--kernel 6.1|6.12] [--emulated] | kernel [--kernel 6.1|6.12] | mend | \
                     status | run a|b -- COMMAND | netem [--delay TIME] [--loss PERCENT] | netem clear | bench perftest|turnaround|trace | down\n\
                     With --dual-port after the first word, the lab of two ports each behind a leaf: up [--hosts 2..4], \
                     mend, status, run a|b|c|d|leaf, netem PORT [--delay TIME] [--loss PERCENT] [--rate RATE], netem PORT clear, \
                     link PORT up|down, down; PORT is a-left, a-right, b-left, and so on";

/// Runs one lab command.
pub fn run(args: &[String]) -> Result<()> {
    // Where a user's shell has no /sbin, the tools of kmod and iproute2 are there all the same.
    let path = env::var("PATH").unwrap_or_default();
    let mut words: Vec<&str> = args.iter().map(String::as_str).collect();
    let is_dual = words.get(1) == Some(&"--dual-port");
    if is_dual {
        words.remove(1);
    }
    let root = crate::workspace_root();
    let common = env::var_os("KELPIE_LAB_DIR").map_or_else(|| root.join("target/lab"), PathBuf::from);
    let is_up = words.first() == Some(&"up");
    let hosts: Option<usize> = option(&mut words, "up", "--hosts")
        .map(|given| given.parse().ok().filter(|hosts| (FEWEST..=MOST).contains(hosts)).context("--hosts 2, 3 or 4"))
        .transpose()?;
    let kernel = option(&mut words, "up", "--kernel").or_else(|| option(&mut words, "kernel", "--kernel"));
    let is_emulated = is_up && words.iter().position(|word| *word == "--emulated").map(|at| words.remove(at)).is_some();
    if hosts.is_some() && !is_dual || kernel.is_some_and(|version| !kernel::VERSIONS.contains(&version)) {
        bail!("{USAGE}");
    }
    let shape = if is_dual { Shape::DualPort(FEWEST) } else { Shape::Pair };
    let path = format!("{path}:/usr/sbin:/sbin");
    let mut lab = Lab { shape, machine: Machine::UserMode, common: std::path::absolute(common)?, root, path };
    lab.know_hosts(hosts)?;
    lab.know_machine(is_up, is_emulated)?;
    match words.as_slice() {
        ["install"] => lab.install("lab"),
        ["install", "--emulated"] => lab.install("emulated"),
        ["up"] => lab.up(kernel),
        ["kernel"] => kernel::prepare(&lab, kernel).map(|kernel| println!("{}", kernel.image.display())),
        ["keep"] => keeper::keep(&lab),
        ["mend"] => {
            lab.mend()?.iter().for_each(|line| println!("{line}"));
            Ok(())
        }
        ["status"] => lab.status(),
        ["run", name, "--", command @ ..] if !command.is_empty() => lab.run_in(name, &command.join(" ")),
        ["netem", port, options @ ..] if is_dual && !options.is_empty() => lab.netem_at(port, options),
        ["netem", options @ ..] if !is_dual && !options.is_empty() => lab.netem(options),
        ["link", port, state @ ("up" | "down")] if is_dual => lab.link(port, state),
        ["bench", args @ ..] if !is_dual => lab.bench(args),
        ["down"] => lab.down(),
        _ => bail!("{USAGE}"),
    }
}

/// Takes an option of a command with its value out of the words; the value is empty if there is none.
fn option<'w>(words: &mut Vec<&'w str>, command: &str, name: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| *word == name).filter(|_| words.first() == Some(&command))?;
    words.drain(at..words.len().min(at + 2)).nth(1).or(Some(""))
}

impl Lab {
    fn guests(&self) -> Vec<Guest> {
        self.shape.roles().into_iter().map(|role| Guest::new(&self.state(), role)).collect()
    }

    /// How many hosts there are behind the leaf: as many as were started, or as are asked for.
    fn know_hosts(&mut self, asked: Option<usize>) -> Result<()> {
        if !self.shape.is_dual() {
            return Ok(());
        }
        let file = self.state().join("hosts");
        let started = fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
        self.shape = Shape::DualPort(started.unwrap_or(FEWEST));
        let Some(asked) = asked else { return Ok(()) };
        let (running, wanted) = (self.guests(), Shape::DualPort(asked));
        if wanted != self.shape && running.iter().any(Guest::is_running) {
            bail!("the lab has {} hosts: `cargo xtask lab down --dual-port` first", running.len() - 1);
        }
        self.shape = wanted;
        fs::create_dir_all(self.state())?;
        fs::write(file, asked.to_string()).context("write the number of hosts")
    }

    /// What the guests are: what they were started as, or what `up` is asked for.
    fn know_machine(&mut self, is_up: bool, is_emulated: bool) -> Result<()> {
        let file = self.state().join(MACHINE);
        let started = fs::read_to_string(&file).ok().and_then(|name| Machine::of(name.trim()));
        let is_running = self.guests().iter().any(Guest::is_running);
        if let Some(started) = started.filter(|_| is_running || !is_up) {
            self.machine = started;
            if is_emulated && started != Machine::Emulated {
                bail!("the guests that run are not emulated: `cargo xtask lab down` first");
            }
        } else if is_up {
            self.machine = if is_emulated { Machine::Emulated } else { Machine::UserMode };
            fs::create_dir_all(self.state())?;
            fs::write(file, self.machine.name()).context("write what the guests are")?;
        }
        Ok(())
    }

    /// Guests that would not fit into memory, all of which they may touch, would end other processes of this machine.
    fn have_room(&self, guests: usize) -> Result<()> {
        let text = fs::read_to_string("/proc/meminfo").context("read /proc/meminfo")?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib: Option<u64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        let (available, wanted) =
            (kib.context("/proc/meminfo has no MemAvailable")? / 1024, guests as u64 * MEMORY_MIB);
        if self.shape != Shape::DualPort(FEWEST) && self.shape.is_dual() && available < wanted {
            bail!("{guests} guests may take {wanted} MiB, and {available} MiB are available: fewer --hosts");
        }
        Ok(())
    }

    fn leaf_port(&self, port: &str) -> Result<(&'static str, &'static str, String)> {
        let Shape::DualPort(hosts) = self.shape else { bail!("{USAGE}") };
        leaf_port(hosts, port).with_context(|| format!("no port `{port}` at the leaf of {hosts} hosts\n{USAGE}"))
    }

    fn guest(&self, name: &str) -> Result<Guest> {
        self.guests().into_iter().find(|guest| guest.name == name).with_context(|| USAGE)
    }

    /// Takes a link of the leaf down or up, at both ends, as pulling its cable does.
    fn link(&self, port: &str, state: &str) -> Result<()> {
        let (host, at_host, at_leaf) = self.leaf_port(port)?;
        let change = |interface: &str| format!("sh /run/network {state} {interface}");
        self.succeed(host, &change(at_host))?;
        self.succeed("leaf", &format!("{} && sh /run/network routes", change(&at_leaf)))
    }

    /// Runs a command in a guest, which has to succeed.
    fn succeed(&self, name: &str, command: &str) -> Result<()> {
        let (output, status) = self.guest(name)?.execute(command, Duration::from_secs(40))?;
        if status != 0 {
            bail!("`{command}` failed in guest {name}: {}", output.trim());
        }
        Ok(())
    }

    fn missing_programs(&self) -> Vec<&'static str> {
        let found = |program: &str| env::split_paths(&self.path).any(|dir| dir.join(program).is_file());
        let of_kind = match self.machine {
            Machine::UserMode => &PROGRAMS_OF_USER_MODE[..],
            Machine::Emulated => &PROGRAMS_OF_EMULATED,
        };
        PROGRAMS.iter().chain(of_kind).copied().filter(|program| !found(program)).collect()
    }

    /// What the guests, the preparation, the tests and the benchmarks need, as Debian packages.
    fn install(&self, kind: &str) -> Result<()> {
        let status = self.command("xtask/scripts/setup.sh").arg(kind).current_dir(&self.root).status();
        ensure!(status.context("run xtask/scripts/setup.sh")?.success(), "xtask/scripts/setup.sh {kind} failed");
        Ok(())
    }

    fn up(&self, kernel: Option<&str>) -> Result<()> {
        let started = Instant::now();
        let missing = self.missing_programs();
        if !missing.is_empty() {
            let option = if self.machine == Machine::Emulated { " --emulated" } else { "" };
            bail!("{} not found: run `cargo xtask lab install{option}` first", missing.join(", "));
        }
        fs::create_dir_all(self.share())?;
        let (_, fresh) = self.deploy("dev")?;
        let guests = self.guests();
        let (running, ended): (Vec<&Guest>, Vec<&Guest>) = guests.iter().partition(|guest| guest.is_running());
        if let Some(other) = running
            .iter()
            .find(|guest| kernel.is_some_and(|wanted| guest.kernel().is_some_and(|booted| booted != wanted)))
        {
            bail!("guest {} runs another kernel: `cargo xtask lab down` first", other.name);
        }
        if running.is_empty() {
            self.forget_stalls()?;
        }
        if !ended.is_empty() {
            self.have_room(ended.len())?;
            // A guest that comes back has the kernel of those that run.
            let running = running.first().and_then(|guest| guest.kernel());
            let prepared = kernel::prepare(self, kernel.or(running.as_deref()))?;
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
            running.into_iter().filter(|guest| guest.has_agent()).try_for_each(Guest::restart_agent)?;
        }
        for guest in guests.iter().filter(|guest| guest.has_agent()) {
            guest.wait_agent(Duration::from_mins(1))?;
        }
        println!("lab is up after {:.0} s: {}", started.elapsed().as_secs_f64(), self.pair_file().display());
        Ok(())
    }

    /// Builds the binary with verbs and puts it where the guests read it; where it is here, and whether it changed.
    fn deploy(&self, profile: &str) -> Result<(PathBuf, bool)> {
        // Of the whole workspace, and in `dev` with the tests, so that what the other checks built is not built again
        // with other features of the same crates.
        let targets: &[&str] = if profile == "dev" { &["--lib", "--bins", "--tests"] } else { &[] };
        eprintln!("building kelpie with its feature `verbs`, which takes minutes the first time");
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
        let shared = self.share().join(name);
        let new = shared.with_extension("new");
        let stripped = self.command("strip").arg("-o").arg(&new).arg(built).status().context("run strip")?;
        if !stripped.success() {
            bail!("strip {} failed", built.display());
        }
        let changed = fs::read(&shared).ok() != Some(fs::read(&new)?);
        fs::rename(&new, &shared)?;
        Ok(changed)
    }

    fn pair_file(&self) -> PathBuf {
        self.state().join("pair.yaml")
    }

    /// The shipped pair file with the ports that the guests got.
    fn write_pair(&self, guests: &[Guest]) -> Result<()> {
        let shipped = self.shape.pair_file();
        let mut text = fs::read_to_string(self.root.join(shipped)).with_context(|| format!("read {shipped}"))?;
        for guest in guests {
            let Some(wanted) = guest.role.port else { continue };
            text = text.replace(&format!("127.0.0.1:{wanted}\""), &format!("127.0.0.1:{}\"", guest.port()?));
        }
        let new = self.state().join("pair.yaml.new");
        fs::write(&new, text)?;
        fs::rename(&new, self.pair_file()).context("write pair.yaml")
    }

    fn status(&self) -> Result<()> {
        let mut down = Vec::new();
        for guest in self.guests() {
            if guest.is_running() && guest.has_agent() {
                let (links, _) = guest.execute("rdma link; rdma resource", Duration::from_secs(10))?;
                println!("{}: up, agent on 127.0.0.1:{}\n{links}", guest.name, guest.port()?);
            } else if guest.is_running() {
                let (routes, _) = guest.execute("ip route show 10.9.0.0/16", Duration::from_secs(10))?;
                println!("{}: up\n{routes}", guest.name);
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
        let (output, status) = self.guest(name)?.execute(command, Duration::from_mins(10))?;
        print!("{output}");
        if status != 0 {
            bail!("the command ended with status {status} in guest {name}");
        }
        Ok(())
    }

    fn down(&mut self) -> Result<()> {
        if self.shape.is_dual() {
            // All that there may be, whatever is recorded.
            self.shape = Shape::DualPort(MOST);
        }
        if self.guests().iter().any(Guest::is_running) && self.stalls() > 0 {
            println!("guests that stalled and were started again since the lab came up: {}", self.stalls());
        }
        // Whatever becomes of one, the others go.
        let mut ended: Vec<Result<()>> = self.guests().iter().map(Guest::end).collect();
        ended.push(keeper::wait_gone(self));
        let removed =
            [self.pair_file(), self.state().join("hosts"), self.state().join(MACHINE)].map(
                |file| match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(error).with_context(|| format!("remove {}", file.display()))
                    }
                    _ => Ok(()),
                },
            );
        ended.into_iter().chain(removed).collect()
    }
}
