//! A bond's slaves: which are down, slower than the others, out of the aggregate, or of another MTU.
//!
//! Source: kernel `Documentation/networking/bonding.rst`, `Documentation/ABI/testing/sysfs-class-net` (`operstate`),
//! `drivers/net/bonding/bond_sysfs_slave.c` and `bond_procfs.c`.

use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PortLink, speed};

/// What an LACP partner reports of a link that takes part: in step, collecting and distributing.
///
/// Source: IEEE 802.1AX, section 6.4.2.3 (state of a port, bits 3, 4 and 5).
const TAKES_PART: u32 = 0b11_1000;

/// The address of an LACP partner that is not there.
const NOBODY: &str = "00:00:00:00:00:00";

/// One slave with what the kernel shows of it: files, and of `proc/net/bonding/BOND` the lines of its part.
struct Slave<'a> {
    machine: &'a Machine,
    name: &'a str,
    part: String,
}

impl Slave<'_> {
    fn file(&self, name: &str) -> String {
        format!("sys/class/net/{}/{name}", self.name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.machine.text(&self.file(name)).filter(|text| !text.is_empty())
    }

    /// The value behind `label` of its part of the bond's report.
    fn reported(&self, label: &str) -> Option<&str> {
        self.part.lines().find_map(|line| line.trim().strip_prefix(label)?.strip_prefix(':')).map(str::trim)
    }

    /// The file and its value that say that the slave is down.
    fn down(&self) -> Option<(String, String)> {
        let is_down = |name: &str, value: &str| match name {
            "carrier" => value == "0",
            _ => ["down", "lowerlayerdown", "notpresent", "going down"].contains(&value),
        };
        let of_files = ["carrier", "operstate", "bonding_slave/mii_status"].into_iter().find_map(|name| {
            let value = self.text(name)?;
            is_down(name, &value).then(|| (format!("/{}", self.file(name)), value))
        });
        of_files.or_else(|| {
            let value = self.reported("MII Status").filter(|value| is_down("", value))?;
            Some(("MII Status".to_owned(), value.to_owned()))
        })
    }

    fn aggregator(&self) -> Option<String> {
        let of_report = || self.reported("Aggregator ID").map(str::to_owned);
        self.text("bonding_slave/ad_aggregator_id").or_else(of_report).filter(|id| id != "N/A")
    }

    /// Why the slave takes no part in the aggregate, if it does not.
    fn left_out(&self, active: Option<&str>) -> Option<(String, String)> {
        if let (Some(active), Some(own)) = (active, self.aggregator())
            && active != own
        {
            return Some((format!("aggregator of {}", self.name), format!("{own}, and the bond's is {active}")));
        }
        let name = "bonding_slave/ad_partner_oper_port_state";
        let state: u32 = self.text(name)?.parse().ok()?;
        let file = format!("/{}", self.file(name));
        (state & TAKES_PART != TAKES_PART).then(|| (file, format!("{state}, not in step, collecting and distributing")))
    }
}

/// A bond with its slaves.
struct Bond<'a> {
    machine: &'a Machine,
    name: &'a str,
    slaves: Vec<Slave<'a>>,
    /// `proc/net/bonding/BOND`, empty if it is not there.
    report: &'a str,
}

/// The check of the bond that the port's interface is; none if the interface is no bond.
pub fn check(machine: &Machine, link: &PortLink) -> Option<Check> {
    let name = link.netdev.as_deref()?;
    let list = machine.text(&format!("sys/class/net/{name}/bonding/slaves"))?;
    let report = machine.text(&format!("proc/net/bonding/{name}")).unwrap_or_default();
    let part = |slave: &str| {
        let mut parts = report.split("Slave Interface:").skip(1);
        parts.find(|part| part.split_whitespace().next() == Some(slave)).unwrap_or_default().to_owned()
    };
    let slaves = list.split_whitespace().map(|name| Slave { machine, name, part: part(name) }).collect();
    let bond = Bond { machine, name, slaves, report: &report };
    let found = bond.empty().or_else(|| bond.down()).or_else(|| bond.lacp());
    Some(found.or_else(|| bond.slower()).or_else(|| bond.other_mtu()).unwrap_or_else(|| bond.sound()))
}

fn names<'s>(slaves: impl IntoIterator<Item = &'s Slave<'s>>) -> String {
    slaves.into_iter().map(|slave| slave.name).collect::<Vec<_>>().join(" and ")
}

fn with(check: Check, evidence: impl IntoIterator<Item = (String, String)>) -> Check {
    evidence.into_iter().fold(check, |check, (source, value)| check.seen(source, value))
}

impl Bond<'_> {
    fn file(&self, name: &str) -> String {
        format!("sys/class/net/{}/{name}", self.name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.machine.text(&self.file(name)).filter(|text| !text.is_empty())
    }

    /// The value behind `label` of the report, before that of the slaves.
    fn reported(&self, label: &str) -> Option<String> {
        let part = self.report.split("Slave Interface:").next()?;
        part.lines().find_map(|line| Some(line.trim().strip_prefix(label)?.strip_prefix(':')?.trim().to_owned()))
    }

    fn found(&self, state: CheckState, summary: String) -> Check {
        let check = Check::new(CheckKind::Bond, state, summary).file(self.machine, &self.file("bonding/slaves"));
        let mode = self.file("bonding/mode");
        let check = if self.machine.has(&mode) { check.file(self.machine, &mode) } else { check };
        check.measured(Gauge::Slaves, self.slaves.len() as f64, None)
    }

    /// The same if it is known how many slaves are down.
    fn counted(&self, state: CheckState, summary: String, down: usize) -> Check {
        self.found(state, summary).measured(Gauge::SlavesDown, down as f64, 0.0)
    }

    fn empty(&self) -> Option<Check> {
        let summary = || format!("{} has no slave: nothing carries its traffic", self.name);
        let check = self.slaves.is_empty().then(|| self.found(CheckState::Fail, summary()))?;
        Some(check.repair(Repair::AddSlave, &[("bond", self.name)]))
    }

    fn down(&self) -> Option<Check> {
        let down: Vec<(&Slave<'_>, (String, String))> =
            self.slaves.iter().filter_map(|slave| Some((slave, slave.down()?))).collect();
        let (first, _) = down.first()?;
        let all = self.slaves.len();
        let rest = match all - down.len() {
            0 => "no port is left".to_owned(),
            up => format!("{up} of {all} carry all its traffic"),
        };
        let summary = format!("{} of {} is down: {rest}", names(down.iter().map(|(slave, _)| *slave)), self.name);
        let check =
            self.counted(CheckState::Fail, summary, down.len()).repair(Repair::RaiseSlave, &[("netdev", first.name)]);
        Some(with(check, down.into_iter().map(|(_, evidence)| evidence)))
    }

    fn lacp(&self) -> Option<Check> {
        let mode = self.text("bonding/mode").or_else(|| self.reported("Bonding Mode"))?;
        if !mode.contains("802.3ad") {
            return None;
        }
        let (bond, all) = (self.name, self.slaves.len());
        let on_switch = |check: Check| check.repair(Repair::AggregateOnSwitch, &[("bond", bond)]);
        let partner = self.text("bonding/ad_partner_mac").or_else(|| self.reported("Partner Mac Address"));
        if partner.as_deref() == Some(NOBODY) {
            let summary = format!(
                "{bond} has no LACP partner: the switch does not aggregate these ports, and one carries all traffic"
            );
            let check = self.counted(CheckState::Fail, summary, 0);
            return Some(on_switch(check.seen(format!("/{}", self.file("bonding/ad_partner_mac")), NOBODY)));
        }
        let active = self.text("bonding/ad_aggregator").or_else(|| self.reported("Aggregator ID"));
        let out: Vec<(&Slave<'_>, (String, String))> =
            self.slaves.iter().filter_map(|slave| Some((slave, slave.left_out(active.as_deref())?))).collect();
        if let Some((first, _)) = out.first() {
            let summary = format!(
                "{} of {bond} is up but not in its aggregate: the other ports carry all traffic",
                names(out.iter().map(|(slave, _)| *slave))
            );
            let check = self.counted(CheckState::Fail, summary, 0);
            let check = check.repair(Repair::AggregateSlave, &[("netdev", first.name), ("bond", bond)]);
            return Some(with(check, out.into_iter().map(|(_, evidence)| evidence)));
        }
        let file = self.file("bonding/ad_num_ports");
        let count = self.machine.number::<usize>(&file).filter(|count| *count < all)?;
        let summary = format!("only {count} of the {all} ports of {bond} are in its aggregate, and carry all traffic");
        Some(on_switch(self.counted(CheckState::Fail, summary, 0).file(self.machine, &file)))
    }

    fn slower(&self) -> Option<Check> {
        let speeds: Vec<(&Slave<'_>, f64)> =
            self.slaves.iter().filter_map(|slave| Some((slave, speed(self.machine, slave.name)?))).collect();
        let fastest = speeds.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
        let slow = || speeds.iter().filter(|(_, speed)| *speed < fastest);
        let (first, speed) = slow().next()?;
        let summary = format!(
            "{} of {} is at {} Gbit/s and another port at {}: flows through the slower one get less",
            names(slow().map(|(slave, _)| *slave)),
            self.name,
            speed / 1e9,
            fastest / 1e9
        );
        let check = self.counted(CheckState::Warn, summary, 0).repair(Repair::CheckSlave, &[("netdev", first.name)]);
        Some(speeds.iter().fold(check, |check, (slave, _)| check.file(self.machine, &slave.file("speed"))))
    }

    fn other_mtu(&self) -> Option<Check> {
        let mtu = self.text("mtu")?;
        let differs = |slave: &&Slave<'_>| slave.text("mtu").is_some_and(|own| own != mtu);
        let slave = self.slaves.iter().find(differs)?;
        let own = slave.text("mtu")?;
        let summary =
            format!("{} has MTU {own} and {} has {mtu}: packets of some flows are lost", slave.name, self.name);
        let check = self.counted(CheckState::Warn, summary, 0).file(self.machine, &slave.file("mtu"));
        let check = check.file(self.machine, &self.file("mtu"));
        Some(check.repair(Repair::SetSlaveMtu, &[("bond", self.name), ("mtu", &mtu)]))
    }

    /// What is said of a bond on which nothing is wrong: nothing good if its slaves tell nothing.
    fn sound(&self) -> Check {
        let tells = |slave: &Slave<'_>| {
            let mut files = ["carrier", "operstate", "bonding_slave/mii_status"].iter();
            files.any(|name| slave.text(name).is_some()) || slave.reported("MII Status").is_some()
        };
        let silent: Vec<&Slave<'_>> = self.slaves.iter().filter(|slave| !tells(slave)).collect();
        let Some(first) = silent.first() else {
            let all = self.slaves.iter().map(|slave| slave.name).collect::<Vec<_>>().join(", ");
            let summary = format!("all {} ports of {} are up: {all}", self.slaves.len(), self.name);
            return self.counted(CheckState::Pass, summary, 0);
        };
        let file = first.file("operstate");
        let summary = format!("whether {} of {} is up is not reported", names(silent), self.name);
        self.found(CheckState::Unknown, summary).file(self.machine, &file)
    }
}
