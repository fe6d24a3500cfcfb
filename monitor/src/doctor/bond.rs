//! A bond's slaves: which are down, slower than the others, out of the aggregate, or of another MTU.
//!
//! Source: kernel `Documentation/networking/bonding.rst`, `Documentation/ABI/testing/sysfs-class-net` (`operstate`),
//! `drivers/net/bonding/bond_sysfs_slave.c` and `bond_procfs.c`.

use crate::check::{Check, State};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Machine, PortLink, speed};

/// What an LACP partner reports of a link that takes part: in step, collecting and distributing.
///
/// Source: IEEE 802.1AX, section 6.4.2.3 (state of a port, bits 3, 4 and 5).
const TAKES_PART: u32 = 0b11_1000;

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

/// The check of the bond that the port's interface is; none if the interface is no bond.
pub fn check(machine: &Machine, link: &PortLink) -> Option<Check> {
    let bond = link.netdev.as_deref()?;
    let of_bond = |name: &str| format!("sys/class/net/{bond}/{name}");
    let list = machine.text(&of_bond("bonding/slaves"))?;
    let report = machine.text(&format!("proc/net/bonding/{bond}")).unwrap_or_default();
    let part = |slave: &str| {
        let mut parts = report.split("Slave Interface:").skip(1);
        parts.find(|part| part.split_whitespace().next() == Some(slave)).unwrap_or_default().to_owned()
    };
    let slaves: Vec<Slave<'_>> =
        list.split_whitespace().map(|name| Slave { machine, name, part: part(name) }).collect();
    let check = |state, summary: String| {
        let check = Check::new(CheckKind::Bond, state, summary).file(machine, &of_bond("bonding/slaves"));
        let check =
            if machine.has(&of_bond("bonding/mode")) { check.file(machine, &of_bond("bonding/mode")) } else { check };
        check.measured(Gauge::Slaves, slaves.len() as f64, None)
    };
    let Some(first) = slaves.first() else {
        return Some(
            check(State::Fail, format!("{bond} has no slave: nothing carries its traffic"))
                .repair(Repair::AddSlave, &[("bond", bond)]),
        );
    };
    let names = |slaves: &[&Slave<'_>]| slaves.iter().map(|slave| slave.name).collect::<Vec<_>>().join(" and ");

    let mut down = Vec::new();
    let mut evidence = Vec::new();
    for slave in &slaves {
        if let Some(seen) = slave.down() {
            down.push(slave);
            evidence.push(seen);
        }
    }
    let with = |check: Check, evidence: Vec<(String, String)>| {
        evidence.into_iter().fold(check, |check, (source, value)| check.seen(source, value))
    };
    let counted = |check: Check| check.measured(Gauge::SlavesDown, down.len() as f64, 0.0);
    if !down.is_empty() {
        let up = slaves.len() - down.len();
        let rest = if up == 0 {
            "no port is left".to_owned()
        } else {
            format!("{up} of {} carry all its traffic", slaves.len())
        };
        let summary = format!("{} of {bond} is down: {rest}", names(&down));
        let check = with(counted(check(State::Fail, summary)), evidence);
        return Some(check.repair(Repair::RaiseSlave, &[("netdev", down[0].name)]));
    }

    let is_lacp =
        machine.text(&of_bond("bonding/mode")).map_or(report.contains("802.3ad"), |mode| mode.starts_with("802.3ad"));
    if is_lacp {
        let partner = machine.text(&of_bond("bonding/ad_partner_mac")).filter(|mac| !mac.is_empty());
        let reported = || {
            let line = report.lines().find_map(|line| line.trim().strip_prefix("Partner Mac Address:"));
            line.map(|mac| mac.trim().to_owned())
        };
        let partner = partner.or_else(reported);
        if partner.as_deref() == Some("00:00:00:00:00:00") {
            let summary = format!(
                "{bond} has no LACP partner: the switch does not aggregate these ports, and one carries all traffic"
            );
            let check = counted(check(State::Fail, summary))
                .seen(format!("/{}", of_bond("bonding/ad_partner_mac")), "00:00:00:00:00:00");
            return Some(check.repair(Repair::AggregateOnSwitch, &[("bond", bond)]));
        }
        let reported = || {
            let part = report.split("Slave Interface:").next().unwrap_or_default();
            part.lines().find_map(|line| line.trim().strip_prefix("Aggregator ID:")).map(|id| id.trim().to_owned())
        };
        let active = machine.text(&of_bond("bonding/ad_aggregator")).filter(|id| !id.is_empty()).or_else(reported);
        let out: Vec<(&Slave<'_>, (String, String))> =
            slaves.iter().filter_map(|slave| Some((slave, slave.left_out(active.as_deref())?))).collect();
        if let Some((slave, _)) = out.first() {
            let left_out: Vec<&Slave<'_>> = out.iter().map(|(slave, _)| *slave).collect();
            let summary = format!(
                "{} of {bond} is up but not in its aggregate: the other ports carry all traffic",
                names(&left_out)
            );
            let netdev = slave.name;
            let evidence = out.into_iter().map(|(_, evidence)| evidence).collect();
            let check = with(counted(check(State::Fail, summary)), evidence);
            return Some(check.repair(Repair::AggregateSlave, &[("netdev", netdev), ("bond", bond)]));
        }
        let file = of_bond("bonding/ad_num_ports");
        if let Some(count) = machine.number::<usize>(&file).filter(|count| *count < slaves.len()) {
            let summary = format!(
                "only {count} of the {} ports of {bond} are in its aggregate, and carry all traffic",
                slaves.len()
            );
            let check = counted(check(State::Fail, summary)).file(machine, &file);
            return Some(check.repair(Repair::AggregateOnSwitch, &[("bond", bond)]));
        }
    }

    let speeds: Vec<(&Slave<'_>, f64)> =
        slaves.iter().filter_map(|slave| Some((slave, speed(machine, slave.name)?))).collect();
    let fastest = speeds.iter().map(|(_, speed)| *speed).fold(0.0, f64::max);
    let slower: Vec<&(&Slave<'_>, f64)> = speeds.iter().filter(|(_, speed)| *speed < fastest).collect();
    if let Some((slave, speed)) = slower.first() {
        let (speed, fastest) = (speed / 1e9, fastest / 1e9);
        let slow: Vec<&Slave<'_>> = slower.iter().map(|(slave, _)| *slave).collect();
        let summary = format!(
            "{} of {bond} is at {speed} Gbit/s and another port at {fastest}: half of the flows get less",
            names(&slow)
        );
        let check = speeds
            .iter()
            .fold(counted(check(State::Warn, summary)), |check, (slave, _)| check.file(machine, &slave.file("speed")));
        return Some(check.repair(Repair::CheckSlave, &[("netdev", slave.name)]));
    }

    let mtu = machine.text(&of_bond("mtu"));
    let other =
        slaves.iter().find(|slave| mtu.is_some() && slave.text("mtu").is_some_and(|own| Some(&own) != mtu.as_ref()));
    if let (Some(slave), Some(mtu)) = (other, &mtu) {
        let own = slave.text("mtu").unwrap_or_default();
        let summary = format!("{} has MTU {own} and {bond} has {mtu}: packets of some flows are lost", slave.name);
        let check =
            counted(check(State::Warn, summary)).file(machine, &slave.file("mtu")).file(machine, &of_bond("mtu"));
        return Some(check.repair(Repair::SetSlaveMtu, &[("bond", bond), ("mtu", mtu)]));
    }

    let is_known = slaves.iter().all(|slave| {
        ["carrier", "operstate", "bonding_slave/mii_status"].iter().any(|name| slave.text(name).is_some())
            || slave.reported("MII Status").is_some()
    });
    let all = slaves.iter().map(|slave| slave.name).collect::<Vec<_>>().join(", ");
    Some(if is_known {
        counted(check(State::Pass, format!("all {} ports of {bond} are up: {all}", slaves.len())))
    } else {
        check(State::Unknown, format!("whether {all} of {bond} are up is not reported"))
            .file(machine, &first.file("operstate"))
    })
}
