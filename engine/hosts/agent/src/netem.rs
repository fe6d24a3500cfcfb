//! Loss and delay of what a host sends, by the kernel's netem: around a host whose operator allowed that, refused else.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kelpie_engine::plan::{HostPlan, PathPlan};
use kelpie_engine::rank::{RankJob, RankReading};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupPorts, HostError, HostReading, Port, PortReport, VerbsHost};

/// Packets that netem keeps. Source: our choice, a second at 1 Gbit/s of 1 KiB, because its own 1,000 add loss to
/// delay.
const QUEUE: &str = "125000";

/// How long `tc` may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Pause between looks whether it is done.
const STEP: Duration = Duration::from_millis(2);

/// A host, and the interface that its traffic leaves by.
pub struct Netem {
    host: Box<dyn VerbsHost>,
    interface: Option<String>,
    tool: OsString,
    is_set: bool,
}

impl Netem {
    /// A host whose operator lets Kelpie set the netem of this interface; without one, paths stay as they are.
    pub fn new(host: Box<dyn VerbsHost>, interface: Option<String>) -> Self {
        Self { host, interface, tool: "tc".into(), is_set: false }
    }

    fn set(&mut self, plan: &HostPlan) -> Result<(), HostError> {
        let refuse = |reason: &str| Err(HostError::Unsupported(reason.to_owned()));
        match plan.paths.as_slice() {
            [] => return Ok(()),
            [_] => {}
            _ => {
                return refuse(
                    "all flows of a host share its netem: give them the same `loss_ppm` and `path_delay_ns`",
                );
            }
        }
        let path = plan.paths[0];
        if path == PathPlan::default() {
            return Ok(());
        }
        let Some(interface) = self.interface.clone() else {
            return refuse(
                "nobody can make this path lose packets or take longer: start the agent with `--netem INTERFACE`, or \
                 leave out `loss_ppm` and `path_delay_ns`",
            );
        };
        self.is_set = true;
        let (delay, loss) = (f64::from(path.delay_ns) / 1e3, f64::from(path.loss_ppm) / 1e4);
        let (delay, loss) = (format!("{delay}us"), format!("{loss}%"));
        self.tc(&[
            "qdisc", "replace", "dev", &interface, "root", "netem", "limit", QUEUE, "delay", &delay, "loss", &loss,
        ])
    }

    /// Takes loss and delay away, if they were set.
    fn clear(&mut self) {
        if !std::mem::take(&mut self.is_set) {
            return;
        }
        let interface = self.interface.clone().unwrap_or_default();
        if let Err(error) = self.tc(&["qdisc", "del", "dev", &interface, "root"]) {
            tracing::error!(%error, interface, "loss and delay stay: run `tc qdisc del dev {interface} root`");
        }
    }

    fn tc(&self, arguments: &[&str]) -> Result<(), HostError> {
        let failed = |why: &str| HostError::Failed(format!("`tc {}`: {why}", arguments.join(" ")));
        let mut command = Command::new(&self.tool);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
        let started = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(failed(&format!("{status}; it needs CAP_NET_ADMIN and sch_netem"))),
                Ok(None) if started.elapsed() < LIMIT => thread::sleep(STEP),
                Ok(None) => {
                    _ = child.kill();
                    _ = child.wait();
                    return Err(failed("it did not end"));
                }
                Err(error) => return Err(failed(&error.to_string())),
            }
        }
    }
}

impl Drop for Netem {
    fn drop(&mut self) {
        self.clear();
    }
}

impl VerbsHost for Netem {
    fn inspect(&mut self, port: &Port) -> Result<PortReport, HostError> {
        self.host.inspect(port)
    }

    fn set_up(&mut self, port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        self.clear();
        self.set(plan)?;
        self.host.set_up(port, plan)
    }

    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError> {
        self.host.connect(peers)
    }

    fn set_source_ports(&mut self, groups: &[GroupPorts]) -> Result<(), HostError> {
        self.host.set_source_ports(groups)
    }

    fn start(&mut self) -> Result<(), HostError> {
        self.host.start()
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        self.host.sample()
    }

    fn stop(&mut self, drain: Duration) -> Result<HostReading, HostError> {
        self.host.stop(drain)
    }

    fn set_up_rank(&mut self, port: &Port, job: &RankJob) -> Result<Vec<GroupEndpoint>, HostError> {
        self.clear();
        self.host.set_up_rank(port, job)
    }

    fn read_rank(&mut self) -> Result<RankReading, HostError> {
        self.host.read_rank()
    }

    fn recycle(&mut self) {
        self.host.recycle();
        self.clear();
    }

    fn tear_down(&mut self) {
        self.host.tear_down();
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use kelpie_engine::plan::plan;
    use kelpie_spaces::{Flow, Host, Workload};

    use super::*;
    use crate::AbsentHost;

    /// What `tc` was asked for by these flows of host `a`, and what the host said.
    fn asked(interface: Option<&str>, paths: &[(u32, u32)]) -> (String, String) {
        let dir = tempfile::tempdir().expect("a directory");
        let (tool, log) = (dir.path().join("tc"), dir.path().join("log"));
        fs::write(&tool, format!("#!/bin/sh\necho \"$*\" >> {}\n", log.display())).expect("a file");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("a mode");
        let host = Box::new(AbsentHost::new("no device".to_owned()));
        let mut netem = Netem::new(host, interface.map(str::to_owned));
        netem.tool = tool.into();
        let flows = paths.iter().map(|(loss_ppm, path_delay_ns)| Flow {
            loss_ppm: *loss_ppm,
            path_delay_ns: *path_delay_ns,
            ..Flow::plain(Host::A, Host::B)
        });
        let said = netem.set_up(&Port::default(), &plan(&Workload::new(flows.collect()), Host::A));
        netem.recycle();
        netem.recycle();
        (fs::read_to_string(&log).unwrap_or_default(), said.expect_err("there is no device").to_string())
    }

    #[test]
    fn a_path_is_set_before_traffic_and_cleared_once_after_it() {
        let (asked, said) = asked(Some("eth7"), &[(1500, 20_500), (1500, 20_500)]);
        let expected =
            "qdisc replace dev eth7 root netem limit 125000 delay 20.5us loss 0.15%\nqdisc del dev eth7 root\n";
        assert_eq!((asked.as_str(), said.as_str()), (expected, "no device"));
    }

    #[test]
    fn what_cannot_be_set_is_refused_and_what_need_not_be_is_left_alone() {
        for (interface, paths, expected) in [
            (Some("eth7"), &[(0, 0)][..], "no device"),
            (None, &[(0, 0)], "no device"),
            (None, &[(1, 0)], "--netem INTERFACE"),
            (None, &[(0, 1)], "--netem INTERFACE"),
            (Some("eth7"), &[(1, 0), (0, 0)], "share its netem"),
        ] {
            let (asked, said) = asked(interface, paths);
            assert!(asked.is_empty() && said.contains(expected), "{interface:?} {paths:?}: {asked} {said}");
        }
    }
}
