//! An RDMA port and its network interface: state, address, MTU, priorities, what can be counted, versions.

use kelpie_spaces::headers;

use super::bond;
use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::{Gid, GidRank, Machine, PortLink, gids, speed};
use crate::pause::{counts_pause, host_pause};
use crate::rates::rates;
use crate::sources::{CounterSource, Dcb, PortSources, link_speeds};

/// Bytes that `RoCE` adds to the payload of a packet. Units: bytes. Source: kernel `include/rdma/ib_addr.h`
/// (`iboe_get_mtu`): GRH 40, UDP, BTH, XRC 4, atomic 28, ICRC.
const ROCE_OVERHEAD: u64 = 40 + headers::UDP + headers::BTH + 4 + 28 + headers::ICRC;

/// What traffic of DSCP 0 is to have instead if no DSCP is lossless: everybody uses DSCP 0, and mapped to a lossless
/// priority it would take all best-effort traffic there. Source: NVIDIA, "RoCE configuration" (DSCP 26, priority 3).
const USUAL_DSCP: u16 = 26;

pub fn checks(machine: &Machine, link: &PortLink, traffic_class: u8) -> Vec<Check> {
    let mut checks = vec![state(machine, link), gid(machine, link), versions(machine, link)];
    // InfiniBand has path MTU and flow control of its own; what IPoIB has says nothing of them.
    let ethernet = is_ethernet(machine, link);
    if ethernet {
        checks.extend(mtu(machine, link));
        checks.extend(bond::check(machine, link));
        checks.extend(link.wires.iter().flat_map(|wire| priorities(machine, link, wire, traffic_class)));
        if link.netdev.is_none() {
            let check =
                Check::new(CheckKind::Interface, CheckState::Unknown, "no network interface was found for this port");
            checks.push(check.file(machine, &link.port_file("gid_attrs/ndevs/0")));
        }
    }
    checks.push(pause_counters(machine, link));
    checks
}

/// What both hosts of a pair should have in common.
pub fn facts(machine: &Machine, link: &PortLink) -> Vec<(CheckKind, Option<String>)> {
    let interface = |name| link.netdev_file(name).and_then(|file| machine.text(&file));
    let pfc = link.wires.first().and_then(|netdev| Dcb::of(machine, netdev));
    vec![
        (CheckKind::SameMtu, interface("mtu")),
        (CheckKind::SameSpeed, interface("speed").filter(|speed| !speed.starts_with('-'))),
        (CheckKind::SameDevice, machine.text(&format!("{}/hca_type", link.device_directory()))),
        (
            CheckKind::SameFirmware,
            machine.text(&format!("{}/fw_ver", link.device_directory())).filter(|text| !text.is_empty()),
        ),
        (CheckKind::SameDriver, driver(machine, link)),
        (CheckKind::SamePfc, pfc.as_ref().map(|dcb| format!("{:?}", dcb.pfc_priorities()))),
        (CheckKind::SameTrust, pfc.as_ref().map(|dcb| trust(dcb).to_owned())),
    ]
}

fn is_ethernet(machine: &Machine, link: &PortLink) -> bool {
    machine.text(&link.port_file("link_layer")).is_some_and(|layer| layer == "Ethernet")
}

fn state(machine: &Machine, link: &PortLink) -> Check {
    let (state, physical) = (link.port_file("state"), link.port_file("phys_state"));
    let text = machine.text(&state).unwrap_or_default();
    let rate = machine.text(&link.port_file("rate")).unwrap_or_default();
    let is_infiniband = link.is_infiniband(machine);
    // Source: IBTA volume 1, section 14.3: the subnet manager takes a port whose link is up from INIT to ARMED and
    // ACTIVE.
    let awaits_manager = is_infiniband && (text.ends_with("INIT") || text.ends_with("ARMED"));
    let lanes = (text.ends_with("ACTIVE")).then(|| lost_lanes(machine, link, &rate)).flatten();
    let check = match text.as_str() {
        text if text.ends_with("ACTIVE") => match &lanes {
            Some((state, words)) => Check::new(CheckKind::Port, *state, format!("active, {rate}: {words}")),
            None => Check::new(CheckKind::Port, CheckState::Pass, format!("active, {rate}")),
        },
        "" => Check::new(CheckKind::Port, CheckState::Unknown, "the state of the port is not reported"),
        text if awaits_manager => {
            let summary = format!("the link is up but not active ({text}): no subnet manager has configured the port");
            Check::new(CheckKind::Port, CheckState::Fail, summary)
        }
        text => Check::new(CheckKind::Port, CheckState::Fail, format!("not active ({text}): no QP can be connected")),
    };
    let check = check.file(machine, &state).file(machine, &physical);
    let check = if rate.is_empty() { check } else { check.file(machine, &link.port_file("rate")) };
    if lanes.is_some() {
        return check.repair(Repair::RepairLanes, &[]);
    }
    if awaits_manager {
        return check.repair(Repair::RunSubnetManager, &[]);
    }
    match &link.netdev {
        Some(netdev) if check.state == CheckState::Fail && !is_infiniband => {
            check.repair(Repair::RaiseLink, &[("netdev", netdev)])
        }
        _ if check.state == CheckState::Fail => check.repair(Repair::CheckSubnet, &[]),
        _ => check,
    }
}

/// What is wrong with the width of an active link, such as that of `100 Gb/sec (1X NDR)`.
///
/// A port of InfiniBand has two lanes at least, with a split cable. Of Ethernet some ports have one lane (SFP), so the
/// modes of the interface decide; without these only the fast lanes of QSFP are told. Source: kernel
/// `drivers/infiniband/core/sysfs.c` (`rate_show`) and `drivers/infiniband/hw/mlx5/main.c`
/// (`translate_eth_proto_oper`); IBTA volume 2 names the widths.
fn lost_lanes(machine: &Machine, link: &PortLink, rate: &str) -> Option<(CheckState, String)> {
    let lane = rate.split_once("(1X")?.1.trim_end_matches(')').trim();
    if link.is_infiniband(machine) {
        let words = "one lane of four carries all, so three lanes are lost or the port is set to one";
        return Some((CheckState::Fail, words.to_owned()));
    }
    let trained = link.wires.iter().filter_map(|wire| speed(machine, wire)).reduce(f64::max)? / 1e6;
    let own = link.wires.iter().filter_map(|wire| link_speeds(machine, wire).own_megabits).max();
    match own {
        Some(own) if trained < own as f64 => {
            Some((CheckState::Warn, format!("one lane, and the port could have {} Gbit/s", own / 1000)))
        }
        None if ["HDR", "NDR", "XDR"].contains(&lane) => Some((
            CheckState::Warn,
            "one lane: a port of QSFP has lost the others, a port of SFP has no more".to_owned(),
        )),
        _ => None,
    }
}

fn gid(machine: &Machine, link: &PortLink) -> Check {
    let chosen = Gid::best(gids(None, |name| machine.text(&link.port_file(name))));
    let directory = link.port_file("gids");
    let of = |state, summary: String| {
        let check = Check::new(CheckKind::Gid, state, summary);
        match &chosen {
            Some(Gid { index, text, kind, .. }) => {
                check.seen(format!("/{directory}/{index}"), format!("{text} {kind}").trim_end())
            }
            None => check.seen(format!("/{directory}"), "no entry that is not zero"),
        }
    };
    let netdev = link.netdev.as_deref().unwrap_or("NETDEV");
    let add_address = |check: Check| check.repair(Repair::AddAddress, &[("netdev", netdev)]);
    match (&chosen, is_ethernet(machine, link)) {
        (None, false) => {
            of(CheckState::Fail, "the port has no address".to_owned()).repair(Repair::StartSubnetManager, &[])
        }
        (Some(Gid { index, .. }), false) => of(CheckState::Pass, format!("index {index}, InfiniBand")),
        (Some(gid), true) if gid.rank() == GidRank::V2OverIpv4 => {
            of(CheckState::Pass, format!("index {}, RoCEv2 over IPv4", gid.index))
        }
        (Some(gid), true) if gid.rank() == GidRank::V2OverIpv6 => {
            let summary =
                format!("RoCEv2 only over IPv6 (index {}): both hosts must reach each other over it", gid.index);
            add_address(of(CheckState::Warn, summary))
        }
        (_, true) => {
            add_address(of(CheckState::Fail, "no RoCEv2 address: RoCEv1 is not routed and not measured".to_owned()))
        }
    }
}

/// The largest path MTU that fits an interface's MTU.
fn path_mtu(interface: u64) -> Option<u64> {
    [4096, 2048, 1024, 512, 256].into_iter().find(|mtu| mtu + ROCE_OVERHEAD <= interface)
}

fn mtu(machine: &Machine, link: &PortLink) -> Option<Check> {
    let netdev = link.netdev.as_ref()?;
    let file = link.netdev_file("mtu")?;
    let Some(interface) = machine.number::<u64>(&file) else {
        return Some(Check::new(CheckKind::Mtu, CheckState::Unknown, "the MTU is not reported").file(machine, &file));
    };
    let check = match path_mtu(interface) {
        Some(4096) => Check::new(
            CheckKind::Mtu,
            CheckState::Pass,
            format!("{interface} on the interface, so path MTUs up to 4096"),
        ),
        Some(path) => {
            let summary = format!("{interface} on the interface, so path MTUs only up to {path}");
            Check::new(CheckKind::Mtu, CheckState::Warn, summary)
                .repair(Repair::RaiseMtuEverywhere, &[("netdev", netdev)])
        }
        None => Check::new(
            CheckKind::Mtu,
            CheckState::Fail,
            format!("{interface} on the interface, too small for any path MTU"),
        )
        .repair(Repair::RaiseMtu, &[("netdev", netdev)]),
    };
    let needed = (4096 + ROCE_OVERHEAD) as f64;
    Some(check.measured(Gauge::InterfaceMtu, interface as f64, needed).file(machine, &file))
}

fn trust(dcb: &Dcb) -> &'static str {
    if dcb.dscp.is_empty() { "the VLAN tag" } else { "DSCP" }
}

/// PFC, trust state, and whether the traffic class is one of the lossless, on one interface.
fn priorities(machine: &Machine, link: &PortLink, netdev: &str, traffic_class: u8) -> Vec<Check> {
    let source = format!("dcb {netdev}");
    let Some(dcb) = Dcb::of(machine, netdev) else {
        let summary = "the driver does not report its flow control over netlink: lost packets look like a slow NIC";
        let check = Check::new(CheckKind::Pfc, CheckState::Unknown, summary).seen(source, "no answer");
        return vec![check.repair(Repair::AskPfc, &[("netdev", netdev)])];
    };
    let enabled = dcb.pfc_priorities();
    let list = enabled.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let settings = format!("pfc priorities [{list}], trust {}", trust(&dcb));
    if enabled.is_empty() {
        let summary = "no priority is lossless: packets are dropped, unless the whole link is paused (ethtool -a)";
        let check = Check::new(CheckKind::Pfc, CheckState::Warn, summary).seen(source, settings);
        let check = check.measured(Gauge::LosslessPriorities, 0.0, 1.0);
        return vec![check.repair(Repair::EnablePfc, &[("netdev", netdev)])];
    }
    let pfc = Check::new(CheckKind::Pfc, CheckState::Pass, format!("lossless: priority {list}"))
        .measured(Gauge::LosslessPriorities, enabled.len() as f64, 1.0)
        .seen(&source, &settings);
    vec![pfc, class(machine, link, netdev, &dcb, traffic_class).seen(source, settings)]
}

/// Whether traffic of this class travels at a lossless priority; there is at least one.
fn class(machine: &Machine, link: &PortLink, netdev: &str, dcb: &Dcb, traffic_class: u8) -> Check {
    // NVIDIA's driver can give all traffic of a port one class; it reads `Global tclass=106`.
    let file = format!("{}/tc/{}/traffic_class", link.device_directory(), link.port);
    let forced = machine.text(&file).and_then(|text| text.rsplit('=').next()?.trim().parse::<u8>().ok());
    let judged = forced.unwrap_or(traffic_class);
    let dscp = u16::from(judged >> 2);
    let (priority, lossless) = (dcb.priority_of(dscp), dcb.pfc_priorities());
    let summary = format!("DSCP {dscp} travels at priority {priority} (the interface trusts {})", trust(dcb));
    let check = if lossless.contains(&priority) {
        Check::new(CheckKind::TrafficClass, CheckState::Pass, format!("{summary}, which is lossless"))
    } else {
        // Of several that will do, the usual one.
        let mut mapped = dcb.dscp.iter().filter(|(_, priority)| lossless.contains(priority)).map(|(dscp, _)| *dscp);
        let mapped = mapped.clone().find(|dscp| *dscp == USUAL_DSCP).or_else(|| mapped.next());
        let dscp = mapped.unwrap_or(if dscp == 0 { USUAL_DSCP } else { dscp });
        let class = (dscp << 2 | u16::from(judged & 0b11)).to_string();
        let check = Check::new(CheckKind::TrafficClass, CheckState::Warn, format!("{summary}, which is not lossless"));
        let check = if mapped.is_some() {
            check
        } else {
            let words = [("netdev", netdev), ("dscp", &dscp.to_string()), ("priority", &lossless[0].to_string())];
            check.repair(Repair::MapDscp, &words)
        };
        match forced {
            Some(_) => check.repair(Repair::ForceClass, &[("class", &class), ("file", &file)]),
            None => check.repair(Repair::SendClass, &[("class", &class)]),
        }
    };
    let check = check.measured(Gauge::Dscp, f64::from(judged >> 2), None);
    let check = check.measured(Gauge::Priority, f64::from(priority), None);
    if forced.is_some() { check.file(machine, &file) } else { check }
}

fn pause_counters(machine: &Machine, link: &PortLink) -> Check {
    let source = "all counters of the port";
    let reading = match PortSources::on(machine, &link.device, link.port).read() {
        Ok(reading) => reading,
        Err(error) => {
            return Check::new(CheckKind::Counters, CheckState::Warn, "the port has no counters")
                .seen(source, error.to_string());
        }
    };
    let count = format!("{} counters", reading.len());
    let check = match host_pause(&rates(&reading, &reading, 1.0)) {
        Some(pause) if pause.is_upper_bound => {
            let summary = "pause is counted in frames only: its ratio is the most it can be";
            Check::new(CheckKind::Counters, CheckState::Warn, summary)
        }
        Some(_) => Check::new(CheckKind::Counters, CheckState::Pass, format!("{count}, the time of pause among them")),
        None if counts_pause(&reading) != [false, false] => {
            let (here, missing) = if counts_pause(&reading)[1] { ("received", "sent") } else { ("sent", "received") };
            let summary = match counts_pause(&reading) {
                [true, true] => {
                    "pause is counted in frames and the speed of the link is unknown: no share of the time".to_owned()
                }
                _ => format!("pause is counted where it is {here} only: pause that is {missing} cannot be seen here"),
            };
            Check::new(CheckKind::Counters, CheckState::Warn, summary)
        }
        None => {
            let summary = "no counter of pause: the symptom `pause` cannot be seen here";
            Check::new(CheckKind::Counters, CheckState::Warn, summary)
        }
    };
    check.measured(Gauge::CountersFound, reading.len() as f64, None).seen(source, count)
}

fn versions(machine: &Machine, link: &PortLink) -> Check {
    let file = format!("{}/fw_ver", link.device_directory());
    let firmware = machine.text(&file).filter(|text| !text.is_empty() && text != "0.0.0");
    let driver = driver(machine, link).unwrap_or_else(|| "no PCI driver (a software device)".to_owned());
    let summary = match &firmware {
        Some(firmware) => format!("firmware {firmware}, {driver}"),
        None => driver,
    };
    let check = Check::new(CheckKind::Versions, CheckState::Pass, summary).file(machine, &file);
    check.file(machine, "proc/sys/kernel/osrelease")
}

/// The driver's name, and its version if it is not the kernel's own.
fn driver(machine: &Machine, link: &PortLink) -> Option<String> {
    let name = machine.link_name(&format!("{}/device/driver", link.device_directory()))?;
    let version = machine.text(&format!("sys/module/{name}/version"));
    Some(version.map_or_else(|| name.clone(), |version| format!("{name} {version}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtus_fit_the_interface() {
        for (interface, expected) in
            [(9000, Some(4096)), (4200, Some(4096)), (4191, Some(2048)), (1500, Some(1024)), (351, None)]
        {
            assert_eq!(path_mtu(interface), expected, "{interface}");
        }
    }
}
