//! A real Slurm on this machine, whose nodes are processes: agents are started by `srun`, and what a qualification
//! says is taken to Slurm. `xtask/scripts/setup.sh slurm` unpacks it into `target/slurm`; without it, nothing is
//! tried.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kelpie_examine::simulated_host::{FleetAgent, SimulatedFleet};
use kelpie_sim::SimSubsystem;
use serde_json::Value;

use crate::support::{Bench, Ran};

/// How long the nodes may take to be idle.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster of one user, without root and without munge, in a PID namespace of its own: all of it dies with the test.
struct Cluster {
    bench: Bench,
    nodes: usize,
    /// First two parts of the agents' addresses, which differ between tests that run at a time.
    network: [u8; 2],
    namespace: Child,
    steps: Vec<Child>,
}

/// Where Slurm is.
fn prefix() -> Option<PathBuf> {
    let prefix = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/slurm/root");
    let is_there = prefix.join("usr/sbin/slurmctld-wlm").is_file();
    if !is_there {
        eprintln!("no Slurm, so nothing is tried: xtask/scripts/setup.sh slurm");
    }
    is_there.then_some(prefix)
}

fn plugins(prefix: &Path) -> PathBuf {
    let found = std::fs::read_dir(prefix.join("usr/lib")).expect("a folder").flatten();
    let mut folders = found.map(|entry| entry.path().join("slurm-wlm"));
    folders.find(|folder| folder.is_dir()).expect("plugins of Slurm")
}

impl Cluster {
    /// None if Slurm is not there.
    fn start(nodes: usize, more: impl Fn(&Bench) -> String) -> Option<Self> {
        let (prefix, bench) = (prefix()?, Bench::new());
        let process = std::process::id();
        let (network, port) = ([(64 + process % 60) as u8, (process / 60 % 250) as u8], 10_000 + process % 200 * 100);
        let (plugins, dir) = (plugins(&prefix), bench.path("."));
        let [dir, plugins, prefix] = [&dir, &plugins, &prefix].map(|path| path.display());
        std::fs::create_dir(bench.path("state")).expect("a folder");
        std::fs::create_dir(bench.path("spool")).expect("a folder");
        let of = |command: &str| Ran::of(Command::new("sh").args(["-c", command]).output().expect("a shell")).stdout;
        let (user, host) = (of("id -un"), of("hostname -s"));
        let (user, host) = (user.trim(), host.trim());
        let mut conf = format!(
            "ClusterName=kelpie\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={port}\nSlurmUser={user}\nSlurmdUser={user}\n\
             AuthType=auth/none\nCredType=cred/none\nPluginDir={plugins}\nStateSaveLocation={dir}/state\n\
             SlurmdSpoolDir={dir}/spool/%n\nSlurmctldPidFile={dir}/ctld.pid\nSlurmdPidFile={dir}/%n.pid\n\
             SlurmdLogFile={dir}/%n.log\nSlurmctldLogFile={dir}/ctld.log\nProctrackType=proctrack/linuxproc\n\
             CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\nSlurmdParameters=config_overrides\nReturnToService=1\n\
             NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{}-{}] CPUs=4\n\
             PartitionName=test Nodes=ALL Default=YES\n",
            port + 1,
            port as usize + nodes,
        );
        conf += &more(&bench);
        bench.write("slurm.conf", conf);
        // The shell reads what nobody writes: when the test is gone, so is the shell, which is the first of its
        // namespace.
        let mut script = format!("cd {dir}; {prefix}/usr/sbin/slurmctld-wlm -D -c -f slurm.conf >ctld.out 2>&1 &\n");
        for node in 1..=nodes {
            let _ = writeln!(
                script,
                "{prefix}/usr/sbin/slurmd-wlm -D -N node{node} -d {prefix}/usr/sbin/slurmstepd-wlm -f {dir}/slurm.conf >node{node}.out 2>&1 &"
            );
        }
        script += "cat >/dev/null\n";
        bench.write("start.sh", script);
        let mut command = Command::new("unshare");
        // A namespace of users lets one make the others; root needs none.
        if user != "root" {
            command.args(["--user", "--map-current-user"]);
        }
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh"]).arg(bench.path("start.sh"));
        let namespace = environment(&mut command, &bench).stdin(Stdio::piped()).spawn().expect("unshare");
        let cluster = Self { bench, nodes, network, namespace, steps: Vec::new() };
        let idle = || cluster.run("sinfo", &["-h", "-N", "-t", "idle", "-o", "%N"]).stdout.lines().count() == nodes;
        cluster.wait("idle nodes", idle);
        Some(cluster)
    }

    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is_so() {
            let log = || std::fs::read_to_string(self.bench.path("ctld.log")).unwrap_or_default();
            assert!(Instant::now() < end, "no {what}: {}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A program of Slurm's, or ours with Slurm's on its path.
    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = match program {
            "kelpie" => self.bench.command(args),
            program => {
                let mut command = Command::new(prefix().expect("there").join("usr/bin").join(program));
                command.args(args).stdin(Stdio::null());
                command
            }
        };
        environment(&mut command, &self.bench);
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Ran {
        Ran::of(self.command(program, args).output().expect("it starts"))
    }

    fn kelpie(&self, args: &[&str]) -> Ran {
        self.run("kelpie", args)
    }

    fn scontrol(&self, args: &[&str]) -> String {
        let ran = self.run("scontrol", args);
        assert_eq!(ran.status, Some(0), "{args:?}: {}", ran.stderr);
        ran.stdout
    }

    /// State and reason of a node.
    fn node(&self, node: usize) -> (String, String) {
        let line = self.scontrol(&["--oneliner", "show", "node", &format!("node{node}")]);
        let state = line.split(" State=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a state");
        let reason =
            line.split(" Reason=").nth(1).and_then(|rest| rest.rsplit_once(" [")).map_or("", |(reason, _)| reason);
        (state.to_owned(), reason.to_owned())
    }

    fn address(&self, node: usize) -> Ipv4Addr {
        Ipv4Addr::new(127, self.network[0], self.network[1], node as u8)
    }

    /// The inventory of what Slurm says. All nodes of one machine have one address; each gets its own.
    fn inventory(&mut self) {
        let mut said = self.run("sinfo", &["--json"]).json();
        for node in said["nodes"].as_array_mut().expect("nodes") {
            let number: usize = node["name"].as_str().and_then(|name| name[4..].parse().ok()).expect("a number");
            node["address"] = self.address(number).to_string().into();
        }
        self.bench.write("sinfo.json", said.to_string());
        let mut topology = String::new();
        for leaf in 0..self.nodes.div_ceil(8) {
            let _ = writeln!(topology, "SwitchName=leaf{leaf} Nodes=node[{}-{}]", leaf * 8 + 1, leaf * 8 + 8);
        }
        let _ = writeln!(topology, "SwitchName=top Switches=leaf[0-{}]", self.nodes.div_ceil(8) - 1);
        self.bench.write("topology.conf", topology);
        let imported = self.kelpie(&["inventory", "import", "--slurm", "sinfo.json", "--topology", "topology.conf"]);
        assert_eq!((imported.status, imported.stderr.as_str()), (Some(0), ""));
        self.bench.write("hosts.yaml", imported.stdout);
    }

    /// What starts an agent on a node, with a fault on some.
    fn agents(&self, faults: &[(usize, &str)]) -> String {
        let kelpie = env!("CARGO_BIN_EXE_kelpie");
        let mut script = "n=${SLURMD_NODENAME#node}; fault=\ncase $n in\n".to_owned();
        for (node, fault) in faults {
            let _ = writeln!(script, "{node}) fault='--simulated-fault {fault}' ;;");
        }
        let [a, b] = self.network;
        let _ = writeln!(
            script,
            "esac\nexec {kelpie} agent --listen 127.{a}.{b}.$n:7471 --simulated F --set sampling.noise=0.005 --set sampling.seed=$n $fault"
        );
        self.bench.write("agents.sh", format!("#!/bin/sh\n{script}"));
        let path = self.bench.path("agents.sh").display().to_string();
        assert!(Command::new("chmod").args(["755", &path]).status().expect("chmod").success());
        path
    }

    /// Starts the agents by `srun`, and waits until all answer.
    fn start_agents(&mut self, faults: &[(usize, &str)]) {
        let (path, nodes) = (self.agents(faults), format!("-N{}", self.nodes));
        let mut command = self.command("srun", &[&nodes, &path]);
        let log = std::fs::File::create(self.bench.path("srun.log")).expect("writable");
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        self.steps.push(command.spawn().expect("srun"));
        self.wait("agents", || self.kelpie(&["inventory", "check", "hosts.yaml", "--json"]).status == Some(0));
    }

    fn stop_agents(&mut self) {
        for mut step in self.steps.drain(..) {
            let _ = step.kill();
            let _ = step.wait();
        }
        let is_over = || self.run("squeue", &["-h"]).stdout.is_empty();
        assert_eq!(self.run("scancel", &["--state=RUNNING"]).status, Some(0));
        self.wait("end of the step", is_over);
    }

    fn qualify(&self) -> (Value, Option<i32>) {
        let ran = self.kelpie(&["qualify", "run", "hosts.yaml", "--db", "k.db", "--json"]);
        (ran.json(), ran.status)
    }

    fn apply(&self, more: &[&str]) -> (Value, Option<i32>) {
        let ran = self.kelpie(&[&["qualify", "slurm", "apply", "--db", "k.db", "--json"], more].concat());
        (ran.json(), ran.status)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.steps.iter_mut().chain([&mut self.namespace]) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What programs of Slurm need that are not where they were built for.
fn environment<'c>(command: &'c mut Command, bench: &Bench) -> &'c mut Command {
    let prefix = prefix().expect("there");
    let plugins = plugins(&prefix);
    let libraries = format!("{}:{}", plugins.display(), plugins.parent().expect("a folder").display());
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", prefix.join("usr/bin").display());
    command.env("SLURM_CONF", bench.path("slurm.conf")).env("LD_LIBRARY_PATH", libraries).env("PATH", path)
}

/// Nodes in this state, by number.
fn nodes_in(verdict: &Value, state: &str) -> Vec<usize> {
    let nodes = verdict["nodes"].as_object().expect("nodes").iter();
    let mut found: Vec<usize> = nodes
        .filter(|(_, node)| node["state"] == state)
        .map(|(name, _)| name[4..].parse().expect("a number"))
        .collect();
    found.sort_unstable();
    found
}

/// What is done, by node.
fn acts(applied: &Value, act: &str) -> Vec<usize> {
    let steps = applied["steps"].as_array().expect("steps").iter().filter(|step| step["act"] == act);
    let mut nodes: Vec<usize> =
        steps.map(|step| step["node"].as_str().expect("a node")[4..].parse().expect("a number")).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn nodes_that_are_out_are_drained_and_taken_back_and_others_are_left_alone() {
    // A health check that waits for its sign.
    let health = |bench: &Bench| {
        for host in ["mlx5", "over/ib-ndr-x8"] {
            crate::doctor::unpack::unpack(host, &bench.path("bad"));
        }
        let (dir, kelpie) = (bench.path("."), env!("CARGO_BIN_EXE_kelpie"));
        let prefix = prefix().expect("there");
        let libraries = plugins(&prefix);
        let script = format!(
            "#!/bin/sh\ncd {dir}; [ $SLURMD_NODENAME = node6 ] && [ -e go ] || exit 0\nenv > health.env\nexport \
             PATH={}/usr/bin:/usr/bin:/bin SLURM_CONF={dir}/slurm.conf LD_LIBRARY_PATH={}:{}\n\
             {kelpie} qualify slurm health --act --root bad > health.out 2>&1\n",
            prefix.display(),
            libraries.display(),
            libraries.parent().expect("a folder").display(),
            dir = dir.display()
        );
        bench.write("health.sh", script);
        let made = Command::new("chmod").arg("755").arg(bench.path("health.sh")).status();
        assert!(made.expect("chmod").success());
        format!("HealthCheckProgram={}/health.sh\nHealthCheckInterval=1\nHealthCheckNodeState=ANY\n", dir.display())
    };
    let Some(mut cluster) = Cluster::start(8, health) else { return };
    cluster.inventory();
    cluster.start_agents(&[(3, "lie")]);
    cluster.scontrol(&["update", "NodeName=node7", "State=DRAIN", "Reason=bad fan"]);
    let (verdict, status) = cluster.qualify();
    assert_eq!((nodes_in(&verdict, "out"), nodes_in(&verdict, "in").len(), status), (vec![3], 7, Some(1)), "{verdict}");

    // Nothing is done unless it is said.
    let (applied, status) = cluster.apply(&[]);
    assert_eq!((acts(&applied, "drain"), acts(&applied, "leave"), status), (vec![3], vec![7], Some(1)), "{applied}");
    assert_eq!(cluster.node(3).1, "");
    let (applied, status) = cluster.apply(&["--act"]);
    assert_eq!((acts(&applied, "drain"), status), (vec![3], Some(0)), "{applied}");
    let (state, reason) = cluster.node(3);
    assert!(state.contains("DRAIN") && reason.starts_with("kelpie: run=1 check="), "{state} {reason}");
    assert_eq!(cluster.node(7).1, "bad fan");
    // Once more, and it is left as it is.
    let (applied, status) = cluster.apply(&["--act"]);
    assert_eq!((acts(&applied, "drain"), acts(&applied, "leave"), status), (vec![], vec![3, 7], Some(0)), "{applied}");

    // A check of the host itself.
    cluster.bench.write("go", "");
    cluster.wait("drain by the health check", || cluster.node(6).1.starts_with("kelpie: health check=pcie "));
    let environment = std::fs::read_to_string(cluster.bench.path("health.env")).expect("written");
    assert!(!environment.contains("SLURM_CONF=") && environment.contains("SLURMD_NODENAME=node6"), "{environment}");

    // Mended: the drained node cannot be reached through Slurm, so its agent is started otherwise.
    cluster.stop_agents();
    let agents = (1..=8).map(|node| {
        let model = SimSubsystem::load("F").expect("embedded");
        FleetAgent { listen: SocketAddr::from((cluster.address(node), 7471)), model, fault: None }
    });
    let _fleet = SimulatedFleet::serve(agents).expect("loopback");
    let (verdict, status) = cluster.qualify();
    assert_eq!((nodes_in(&verdict, "in").len(), status), (8, Some(0)), "{verdict}");
    let (applied, status) = cluster.apply(&["--act"]);
    assert_eq!(
        (acts(&applied, "resume"), acts(&applied, "leave"), status),
        (vec![3], vec![6, 7], Some(0)),
        "{applied}"
    );
    assert_eq!(cluster.node(3).1, "", "the reason goes with the drain");
    assert!(!cluster.node(3).0.contains("DRAIN"), "{:?}", cluster.node(3));
    assert_eq!(cluster.node(7), ("IDLE+DRAIN".to_owned(), "bad fan".to_owned()));
    assert!(cluster.node(6).1.starts_with("kelpie: health "), "no qualification drained it");
}

mod long {
    use super::*;

    #[test]
    #[ignore = "long"]
    fn the_packaged_batch_script_measures_the_nodes_of_its_job() {
        let Some(mut cluster) = Cluster::start(8, |_| String::new()) else { return };
        cluster.inventory();
        let agents = cluster.agents(&[(5, "die")]);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/slurm/kelpie-qualify.sbatch");
        let (out, inventory) = (cluster.bench.path("job.txt"), cluster.bench.path("hosts.yaml"));
        let out = out.display().to_string();
        let mut command = cluster.command("sbatch", &["--wait", "--nodes=8", "-o", &out, script]);
        let binary = Path::new(env!("CARGO_BIN_EXE_kelpie")).parent().expect("a folder");
        let path = format!("{}/usr/bin:{}:/usr/bin:/bin", prefix().expect("there").display(), binary.display());
        command.env("PATH", path).env("KELPIE_AGENT", agents).env("KELPIE_INVENTORY", inventory);
        let ran = Ran::of(command.env("KELPIE_DB", cluster.bench.path("k.db")).output().expect("it starts"));
        let said = std::fs::read_to_string(&out).unwrap_or_default();
        assert_eq!(ran.status, Some(1), "{} {said}", ran.stderr);
        assert!(said.contains("qualification 1: 1 out, 0 unknown, 7 in\n"), "{said}");
        assert!(said.contains("\nscontrol update NodeName=node5 State=DRAIN Reason=\"kelpie: run=1 "), "{said}");
        assert_eq!(cluster.node(5).1, "", "nobody said --act");
    }

    /// 5 % hang, lie or die; one node's daemon is killed, and one node with its agent.
    #[test]
    #[ignore = "long"]
    fn sixty_four_nodes_are_judged_in_a_minute_and_no_more_are_drained_than_may_be() {
        let Some(mut cluster) = Cluster::start(64, |_| "SlurmdTimeout=10\n".to_owned()) else { return };
        cluster.inventory();
        cluster.start_agents(&[(9, "hang"), (30, "lie"), (51, "die:1")]);
        let kill = |words: [&str; 2]| {
            let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
            let is_it = |folder: &Path| {
                let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                words.iter().all(|word| line.contains(word))
            };
            let found: Vec<String> = processes
                .filter(|entry| is_it(&entry.path()))
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            assert_eq!(found.len(), 1, "{words:?}");
            assert!(Command::new("kill").arg("-9").args(found).status().expect("kill").success());
        };
        let conf = cluster.bench.path("").display().to_string();
        let agent = format!("agent --listen {}:7471 ", cluster.address(40));
        kill([" -N node17 ", &conf]);
        kill([" -N node40 ", &conf]);
        kill([&agent, "--simulated"]);
        let started = Instant::now();
        let (verdict, status) = cluster.qualify();
        let took = started.elapsed();
        eprintln!("{took:?}");
        assert_eq!((nodes_in(&verdict, "out"), status), (vec![9, 30, 40, 51], Some(1)), "{verdict}");
        assert_eq!(nodes_in(&verdict, "in").len(), 60, "whose daemon alone is gone is well");
        assert!(took < Duration::from_mins(1), "{took:?}");
        // 5 % of 64 are 3.
        let (applied, status) = cluster.apply(&["--act"]);
        let drained = acts(&applied, "drain");
        assert_eq!((drained.len(), status), (3, Some(0)), "{applied}");
        for node in &drained {
            let (state, reason) = cluster.node(*node);
            assert!(state.contains("DRAIN") && reason.starts_with("kelpie: run=1 check="), "{node}: {state} {reason}");
        }
        let (applied, _) = cluster.apply(&["--act", "--drain-at-most", "9"]);
        let all: Vec<usize> = [drained, acts(&applied, "drain")].concat();
        // Slurm may have said of node 40 by now that it does not respond.
        assert!([9, 30, 51].iter().all(|node| all.contains(node)) && all.len() >= 3, "{applied}");
        assert!(!cluster.node(17).1.starts_with("kelpie"), "{:?}", cluster.node(17));
    }
}
