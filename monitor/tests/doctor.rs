//! What the doctor says of recorded hosts: a good one, one on which much is wrong, and what is missing or changed.

#[path = "../fixtures/unpack.rs"]
mod unpack;

use std::collections::BTreeSet;
use std::path::Path;

use kelpie_monitor::check::{Check, CheckState};
use kelpie_monitor::checks::{CHECKS, CheckGroup, CheckKind, GAUGES};
use kelpie_monitor::doctor::{Earlier, Examination, compare, examine, examine_since};
use kelpie_monitor::machine::Machine;

const PORT: &str = "sys/class/infiniband/mlx5_0/ports/1";
const NIC: &str = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";

/// A recorded host (or several, joined by `+`, written over each other), changed by `change`, examined.
fn examined(hosts: &str, change: impl FnOnce(&dyn Fn(&str, &str))) -> Examination {
    let root = tempfile::tempdir().expect("a directory");
    for host in hosts.split('+') {
        unpack::unpack(host, root.path());
    }
    change(&|file, text| {
        let path = root.path().join(file);
        std::fs::create_dir_all(path.parent().expect("below the root")).expect("a directory");
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{file}: {error}"));
    });
    examine(&Machine::recorded(root.path()), None, None, 0)
}

/// A recorded host that was examined before, and again after `change` and so many seconds.
fn again(hosts: &str, seconds: f64, change: impl FnOnce(&dyn Fn(&str, &str))) -> Examination {
    let root = tempfile::tempdir().expect("a directory");
    hosts.split('+').for_each(|host| unpack::unpack(host, root.path()));
    let machine = Machine::recorded(root.path());
    let before = examine(&machine, None, None, 0);
    change(&|file, text| std::fs::write(root.path().join(file), text).expect("writable"));
    examine_since(&machine, None, None, 0, Some(Earlier { counted: &before.counted, seconds: Some(seconds) }))
}

fn check<'e>(seen: &'e Examination, name: &str) -> &'e Check {
    seen.checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("no `{name}`: {seen:#?}"))
}

#[test]
fn a_good_host_is_good_and_every_statement_has_evidence() {
    let seen = examined("mlx5", |_| ());
    assert_eq!(seen.host, "good");
    for check in &seen.checks {
        let expected = match check.name.as_str() {
            "traffic class" => CheckState::Warn,
            _ => CheckState::Pass,
        };
        assert_eq!(check.state, expected, "{check:?}");
        assert!(!check.evidence.is_empty(), "{check:?}");
        assert!(!check.summary.is_empty() && !check.about.is_empty(), "{check:?}");
    }
    let checks: Vec<&str> = seen.checks.iter().map(|check| check.name.as_str()).collect();
    let expected = "memlock, cpu governor, port, gid, versions, mtu, pfc, traffic class, counters, pcie, pcie errors, \
                    relaxed ordering, read request, acs, iommu, numa, cable, retransmissions, drops";
    assert_eq!(checks.join(", "), expected);
    assert!(check(&seen, "gid").summary.contains("index 3"));
    assert!(check(&seen, "relaxed ordering").summary.contains("each MR has to ask"), "allowed is not used");
    assert!(check(&seen, "numa").summary.contains("distance 21"));
}

/// What a check of the table measured of some host, by the names of checks and numbers.
fn measured(seen: &[Examination]) -> BTreeSet<(String, String)> {
    let checks = seen.iter().flat_map(|seen| &seen.checks);
    checks.flat_map(|check| check.measured.iter().map(|one| (check.name.clone(), one.name.clone()))).collect()
}

#[test]
fn every_check_and_number_of_the_table_is_made_of_some_host() {
    let of = |root: &str| examine(&Machine::recorded(Path::new(root)), None, None, 0);
    let no_interface = examined("mlx5", |write| write(&format!("{PORT}/gid_attrs/ndevs/0"), "gone\n"));
    let dmi = tempfile::tempdir().expect("a directory");
    unpack::unpack("bnxt", dmi.path());
    std::fs::create_dir_all(dmi.path().join("sys/class/dmi/id")).expect("a directory");
    std::fs::write(dmi.path().join("sys/class/dmi/id/bios_version"), "1.2").expect("a file");
    let dmi = examine(&Machine::recorded(dmi.path()), None, None, 0);
    let bond = examined("mlx5+bond", |_| ());
    let flapping = again("mlx5+over/flapping-cable", 10.0, |_| ());
    let storm = examined("mlx5", |write| write("ethtool/ens1f0np0", "     tx_pause_storm_error_events: 0\n"));
    let good = examined("mlx5", |_| ());
    let seen = [good, examined("bnxt", |_| ()), no_interface, dmi, of("/nowhere"), bond, flapping, storm];
    let names: BTreeSet<&str> = seen.iter().flat_map(|seen| &seen.checks).map(|check| check.name.as_str()).collect();
    let of_table = CHECKS.iter().filter(|row| row.group == CheckGroup::Host).map(|row| row.name);
    assert_eq!(names, of_table.collect(), "a check of the table is not looked at, or another is");
    let measured = measured(&seen);
    for row in GAUGES.iter().filter(|row| row.kind.row().group == CheckGroup::Host) {
        let name = (row.kind.name().to_owned(), row.name.to_owned());
        assert!(measured.contains(&name), "no host has the number {name:?}");
    }
}

#[test]
fn every_fact_of_the_table_is_compared() {
    let dmi = |version: &str| {
        let root = tempfile::tempdir().expect("a directory");
        unpack::unpack("mlx5", root.path());
        std::fs::create_dir_all(root.path().join("sys/class/dmi/id")).expect("a directory");
        for (file, text) in [("bios_version", version), ("sys_vendor", version)] {
            std::fs::write(root.path().join("sys/class/dmi/id").join(file), text).expect("a file");
        }
        examine(&Machine::recorded(root.path()), None, None, 0)
    };
    let (mut a, mut b) = (dmi("1"), dmi("2"));
    for (host, rate) in [(&mut a, 0.0), (&mut b, 3.0)] {
        for kind in [CheckKind::SameCableRate, CheckKind::SameResentRate] {
            host.rates.insert(kind.name().to_owned(), rate);
        }
    }
    let facts = [CheckKind::NotAsked, CheckKind::SameOther];
    let of_table = CHECKS.iter().filter(|row| row.group == CheckGroup::Pair && !facts.contains(&row.kind));
    let of_table: BTreeSet<&str> = of_table.map(|row| row.name).collect();
    let compared = compare(&a, &b);
    assert_eq!(compared.iter().map(|check| check.name.as_str()).collect::<BTreeSet<_>>(), of_table);
    let fix = |checks: &[Check], name: &str| checks.iter().find(|check| check.name == name)?.fix.clone();
    assert!(fix(&compared, "BIOS").is_some_and(|fix| fix.starts_with("install the same BIOS")));
    for (host, temperature) in [(&mut a, "40"), (&mut b, "41")] {
        host.facts.insert("temperature".to_owned(), temperature.to_owned());
    }
    assert!(fix(&compare(&a, &b), "temperature").is_some_and(|fix| fix.starts_with("use two hosts of one kind")));
}

#[test]
fn what_is_wrong_is_told_with_its_value_and_what_mends_it() {
    let seen = examined("bnxt", |_| ());
    for (name, state, evidence, fix) in [
        ("memlock", CheckState::Fail, "Max locked memory: 8388608", "ulimit -l unlimited"),
        ("cpu governor", CheckState::Warn, "powersave", "cpupower frequency-set -g performance"),
        ("gid", CheckState::Warn, "RoCE v2", "ip address add"),
        ("mtu", CheckState::Warn, "1500", "ip link set dev enp96s0 mtu 4200"),
        ("pfc", CheckState::Warn, "pfc priorities []", "dcb pfc set dev enp96s0"),
        ("counters", CheckState::Warn, "counters", ""),
        ("pcie", CheckState::Fail, "8.0 GT/s PCIe", "slot"),
        ("pcie errors", CheckState::Warn, "total 20", "reseat"),
        ("relaxed ordering", CheckState::Warn, "0", "setpci -s 0000:60:00.0 CAP_EXP+8.w=0010:0010"),
        ("acs", CheckState::Warn, "redirects", "setpci -s 0000:5f:00.0 ECAP_ACS+6.w=0000:000c"),
        ("iommu", CheckState::Warn, "DMA-FQ", "iommu=pt"),
        ("numa", CheckState::Warn, "-1", "BIOS"),
    ] {
        let check = check(&seen, name);
        assert_eq!(check.state, state, "{check:?}");
        assert!(check.evidence.iter().any(|seen| seen.value.contains(evidence)), "{check:?}");
        assert!(check.fix.as_deref().unwrap_or_default().contains(fix), "{check:?}");
    }
}

#[test]
fn a_change_of_one_file_changes_one_check() {
    let config = |name: &str| format!("{NIC}/{name}");
    let table: &[(&str, String, &str, CheckState)] = &[
        ("port", format!("{PORT}/state"), "1: DOWN\n", CheckState::Fail),
        ("gid", format!("{PORT}/gid_attrs/types/3"), "IB/RoCE v1\n", CheckState::Warn),
        ("mtu", config("net/ens1f0np0/mtu"), "300\n", CheckState::Fail),
        ("mtu", config("net/ens1f0np0/mtu"), "\n", CheckState::Unknown),
        ("pfc", "dcb/ens1f0np0".to_owned(), "pfc\n", CheckState::Warn),
        ("traffic class", "dcb/ens1f0np0".to_owned(), "pfc 0\n", CheckState::Pass),
        ("counters", "ethtool/ens1f0np0".to_owned(), "NIC statistics:\n", CheckState::Warn),
        ("pcie", config("current_link_width"), "8\n", CheckState::Warn),
        ("pcie", config("current_link_width"), "4\n", CheckState::Fail),
        ("pcie", config("max_link_speed"), "Unknown\n", CheckState::Unknown),
        ("pcie errors", config("aer_dev_correctable"), "TOTAL_ERR_COR 0\n", CheckState::Pass),
        ("pcie errors", config("aer_dev_correctable"), "TOTAL_ERR_COR 11\n", CheckState::Warn),
        ("pcie errors", config("aer_dev_fatal"), "TOTAL_ERR_FATAL 1\n", CheckState::Warn),
        ("relaxed ordering", config("config"), "short", CheckState::Unknown),
        ("iommu", "sys/kernel/iommu_groups/7/type".to_owned(), "DMA\n", CheckState::Warn),
        (
            "memlock",
            "proc/self/limits".to_owned(),
            "Max locked memory  2147483648  unlimited bytes\n",
            CheckState::Warn,
        ),
        ("memlock", "proc/self/limits".to_owned(), "\n", CheckState::Unknown),
    ];
    for (name, file, text, expected) in table {
        let seen = examined("mlx5", |write| write(file, text));
        assert!(seen.checks.iter().all(|check| !check.evidence.is_empty()), "{file} {text}: {seen:#?}");
        assert_eq!(check(&seen, name).state, *expected, "{name} {file} {text}: {:?}", check(&seen, name));
    }
}

#[test]
fn the_narrowest_link_above_the_nic_counts_and_is_named() {
    for (width, expected) in [("16", CheckState::Pass), ("8", CheckState::Warn), ("4", CheckState::Fail)] {
        let seen = examined("mlx5", |write| {
            write("sys/devices/pci0000:3a/0000:3a:00.0/current_link_speed", "16.0 GT/s PCIe\n");
            write("sys/devices/pci0000:3a/0000:3a:00.0/current_link_width", width);
        });
        let pcie = check(&seen, "pcie");
        assert_eq!(pcie.state, expected, "{pcie:?}");
        assert_eq!(pcie.summary.contains("0000:3a:00.0"), expected != CheckState::Pass, "{pcie:?}");
    }
}

#[test]
fn a_device_of_conventional_pci_has_neither_ordering_nor_access_control() {
    let whole = "\0".repeat(256);
    let seen = examined("mlx5", |write| {
        write(&format!("{NIC}/config"), &whole);
        write("sys/devices/pci0000:3a/0000:3a:00.0/config", &whole);
    });
    let ordering = check(&seen, "relaxed ordering");
    assert!(ordering.state == CheckState::Unknown && ordering.fix.is_none(), "root would not help: {ordering:?}");
    assert_eq!(check(&seen, "acs").state, CheckState::Pass);
}

#[test]
fn the_iommu_is_passed_through_by_what_the_architecture_knows() {
    for (arch, expected) in [
        ("x86_64", "add iommu=pt to the"),
        ("aarch64", "add iommu.passthrough=1 to the"),
        ("", "add iommu=pt (on arm64 iommu.passthrough=1) to the"),
    ] {
        let seen = examined("bnxt", |write| write("proc/sys/kernel/arch", arch));
        let fix = check(&seen, "iommu").fix.clone().unwrap_or_default();
        assert!(fix.starts_with(expected), "{arch}: {fix}");
    }
}

#[test]
fn without_reports_of_errors_there_is_no_word_on_them() {
    let seen = examined("mlx5", |write| {
        for kind in ["correctable", "nonfatal", "fatal"] {
            write(&format!("{NIC}/aer_dev_{kind}"), "");
        }
    });
    let errors = check(&seen, "pcie errors");
    assert!(errors.state == CheckState::Unknown && !errors.evidence.is_empty(), "{errors:?}");
}

#[test]
fn a_process_that_may_lock_memory_is_not_limited() {
    let seen = examined("bnxt", |write| write("proc/self/status", "CapEff:\t0000000000004000\n"));
    assert_eq!(check(&seen, "memlock").state, CheckState::Pass);
}

/// The word on traffic class `class` if the interface has these settings, and the driver forces a class or not.
fn traffic_class(dcb: &str, forced: Option<&str>, class: u8) -> Check {
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("mlx5", root.path());
    std::fs::write(root.path().join("dcb/ens1f0np0"), dcb).expect("writable");
    if let Some(forced) = forced {
        let directory = root.path().join("sys/class/infiniband/mlx5_0/tc/1");
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("traffic_class"), forced).expect("writable");
    }
    check(&examine(&Machine::recorded(root.path()), None, None, class), "traffic class").clone()
}

#[test]
fn the_priority_of_the_given_or_forced_traffic_class_is_judged() {
    let mapped = "pfc 3\ndscp 26 3\n";
    for (forced, class, expected, dscp) in [
        (None, 0, CheckState::Warn, "DSCP 0 "),
        (None, 104, CheckState::Pass, "DSCP 26 "),
        (None, 106, CheckState::Pass, "DSCP 26 "),
        (None, 32, CheckState::Warn, "DSCP 8 "),
        (Some("Global tclass=106\n"), 0, CheckState::Pass, "DSCP 26 "),
        (Some("Global tclass=0\n"), 106, CheckState::Warn, "DSCP 0 "),
    ] {
        let seen = traffic_class(mapped, forced, class);
        assert!(seen.state == expected && seen.summary.contains(dscp), "{forced:?} {class}: {seen:?}");
    }
}

#[test]
fn a_lossless_class_is_suggested_and_never_that_dscp_0_be_one() {
    let (mapped, unmapped) = ("pfc 3\ndscp 8 0\ndscp 24 3\n", "pfc 4\n");
    for (dcb, forced, class, expected) in [
        (mapped, None, 0, "`tuning: {traffic_class: 96}` of the host"),
        (mapped, None, 34, "`tuning: {traffic_class: 98}` of the host"),
        (mapped, Some("Global tclass=0\n"), 0, "echo 96 > /sys/class/infiniband/mlx5_0/tc/1/traffic_class"),
        (unmapped, None, 0, "dcb app replace dev ens1f0np0 dscp-prio 26:4, then `tuning: {traffic_class: 104}`"),
        (unmapped, None, 40, "dcb app replace dev ens1f0np0 dscp-prio 10:4, then `tuning: {traffic_class: 40}`"),
    ] {
        let fix = traffic_class(dcb, forced, class).fix.unwrap_or_default();
        assert!(fix.starts_with(expected) && !fix.contains("dscp-prio 0:"), "{dcb:?} {class}: {fix}");
    }
}

#[test]
fn each_slave_of_a_bond_has_its_own_flow_control() {
    let seen = examined("mlx5+bond", |_| ());
    let pfc: Vec<(CheckState, &str)> = seen
        .checks
        .iter()
        .filter(|check| check.name == "pfc")
        .map(|check| (check.state, check.evidence[0].source.as_str()))
        .collect();
    assert_eq!(pfc, [(CheckState::Pass, "dcb ens1f0np0"), (CheckState::Warn, "dcb ens1f1np1")]);
    assert_eq!(check(&seen, "mtu").evidence[0].source, "/sys/class/net/bond0/mtu", "the bond has the address");
    assert_eq!(check(&seen, "counters").state, CheckState::Pass);
}

#[test]
fn no_device_another_device_and_no_such_port_are_bad() {
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("mlx5", root.path());
    let machine = Machine::recorded(root.path());
    let other = examine(&machine, Some("mlx5_9"), None, 0);
    let device = check(&other, "device");
    assert!(device.state == CheckState::Fail && device.evidence[0].value == "mlx5_0", "{device:?}");
    assert_eq!(check(&examine(&machine, None, Some(2), 0), "port").state, CheckState::Fail);
    let empty = tempfile::tempdir().expect("a directory");
    let seen = examine(&Machine::recorded(empty.path()), None, None, 0);
    assert_eq!(check(&seen, "device").state, CheckState::Fail);
    assert_eq!(check(&seen, "memlock").state, CheckState::Unknown, "what cannot be read is not fine");
}

#[test]
fn a_pair_is_compared_by_what_both_tell() {
    let (a, b) = (examined("mlx5", |_| ()), examined("bnxt", |_| ()));
    let found = compare(&a, &b);
    let of = |name: &str| found.iter().find(|check| check.name == name);
    let mtu = of("interface MTU").expect("both report it");
    assert!(mtu.state == CheckState::Warn && mtu.summary == "a has 9000, b has 1500", "{mtu:?}");
    assert_eq!(of("link speed").map(|check| check.state), Some(CheckState::Pass));
    assert!(compare(&a, &a).iter().all(|check| check.state == CheckState::Pass));
    assert_eq!(compare(&a, &Examination::default()), []);
}

#[test]
fn pcie_is_too_slow_for_a_port_of_infiniband_as_for_one_of_ethernet() {
    for (host, summary) in [
        ("ib-ndr-x8", "x8 at 16 GT/s carries 126 of the port's 400 Gbit/s"),
        ("ethernet-400-x16-gen4", "x16 at 16 GT/s carries 252 of the port's 400 Gbit/s"),
    ] {
        let seen = examined(&format!("mlx5+over/{host}"), |_| ());
        let pcie = check(&seen, "pcie");
        assert_eq!(pcie.state, CheckState::Fail, "{pcie:?}");
        assert!(pcie.summary.starts_with(summary), "{pcie:?}");
    }
    let rate = |rate: &str| {
        let seen = examined("mlx5+over/ib-ndr-x8", |write| write(&format!("{PORT}/rate"), rate));
        check(&seen, "pcie").clone()
    };
    assert_eq!(rate("100 Gb/sec (4X EDR)\n").state, CheckState::Warn, "enough for the port, less than the NIC can");
    let unknown = rate("\n");
    assert!(unknown.state == CheckState::Warn && !unknown.summary.contains("port's"), "{unknown:?}");
    let down = examined("mlx5+over/ib-ndr-x8", |write| write(&format!("{PORT}/state"), "1: DOWN\n"));
    assert!(!check(&down, "pcie").summary.contains("400"), "a port that is down has no rate: {down:#?}");
}

/// A second port on the card of `mlx5.host`, with a device of its own.
const SECOND_PORT: [(&str, &str); 5] = [
    ("sys/class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n"),
    ("sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "ens1f1np1\n"),
    ("sys/class/net/ens1f1np1/speed", "100000\n"),
    ("sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ens1f1np1/dev_port", "0\n"),
];

/// `mlx5.host` with a second port of these megabits behind a link of this width, both ports examined.
fn two_ports(width: &str, files: &[(&str, &str)]) -> Examination {
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("mlx5", root.path());
    let function = "../../devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1";
    let link = |target: &str, name: &str| {
        let name = root.path().join(name);
        std::fs::create_dir_all(name.parent().expect("below the root")).expect("a directory");
        std::os::unix::fs::symlink(target, name).expect("a link");
    };
    link(&format!("../{function}"), "sys/class/infiniband/mlx5_1/device");
    link(&format!("{function}/net/ens1f1np1"), "sys/class/net/ens1f1np1");
    link("../../../0000:3b:00.1", "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ens1f1np1/device");
    for (file, text) in SECOND_PORT.iter().rev().chain(files) {
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().expect("below the root")).expect("a directory");
        std::fs::write(file, text).expect("writable");
    }
    for file in ["current_link_width", "max_link_width"] {
        std::fs::write(root.path().join(NIC).join(file), width).expect("writable");
    }
    examine(&Machine::recorded(root.path()), Some("mlx5_0"), None, 0)
}

#[test]
fn two_ports_behind_one_slot_share_it() {
    let seen = two_ports("8", &[]);
    let pcie = check(&seen, "pcie");
    assert_eq!(pcie.state, CheckState::Warn, "{pcie:?}");
    assert!(pcie.summary.contains("ens1f0np0 and ens1f1np1 share x8 at 16 GT/s at 0000:3b:00.0"), "{pcie:?}");
    assert!(pcie.summary.contains("carry 200 Gbit/s together, more than its 126"), "{pcie:?}");
    assert!(pcie.fix.as_deref().is_some_and(|fix| fix.contains("another slot")), "{pcie:?}");
    assert_eq!(check(&two_ports("16", &[]), "pcie").state, CheckState::Pass, "252 are enough for 200");
    let down = [("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"), ("sys/class/net/ens1f1np1/speed", "-1\n")];
    assert_eq!(check(&two_ports("8", &down), "pcie").state, CheckState::Pass, "a port that is down takes nothing");
    let virtual_function = [("sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/physfn", "")];
    assert_eq!(
        check(&two_ports("8", &virtual_function), "pcie").state,
        CheckState::Pass,
        "a VF has the port of its parent"
    );
    assert_eq!(check(&two_ports("4", &[]), "pcie").state, CheckState::Fail, "one alone has too little");
}

/// A file, its text, and what is said of the bond.
type Case<'a> = (String, &'a str, CheckState, &'a str);

#[test]
fn a_bond_says_which_port_is_down_or_slower_or_left_out() {
    let slave = |name: &str| format!("sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ens1f1np1/{name}");
    let bond = |name: &str| format!("sys/devices/virtual/net/bond0/bonding/{name}");
    let recorded = examined("mlx5+bond+over/bond-slave-down", |_| ());
    let down = check(&recorded, "bond");
    assert!(down.state == CheckState::Fail && down.summary.contains("ens1f1np1 of bond0 is down"), "{down:?}");
    assert!(down.fix.as_deref().is_some_and(|fix| fix.starts_with("ip link set dev ens1f1np1 up")), "{down:?}");
    let two = |write: &dyn Fn(&str, &str)| {
        write(&bond("slaves"), "ens1f0np0 ens1f1np1\n");
        write(&bond("mode"), "802.3ad 4\n");
        for netdev in ["ens1f0np0", "ens1f1np1"] {
            write(&format!("sys/class/net/{netdev}/operstate"), "up\n");
            write(&format!("sys/class/net/{netdev}/mtu"), "9000\n");
        }
    };
    let cases: [Case<'_>; 11] = [
        (bond("ad_partner_mac"), "1c:34:da:00:00:01", CheckState::Pass, "all 2 ports of bond0 are up"),
        (bond("ad_partner_mac"), "", CheckState::Pass, "all 2 ports of bond0 are up"),
        (bond("ad_partner_mac"), "00:00:00:00:00:00", CheckState::Fail, "bond0 has no LACP partner"),
        (bond("ad_num_ports"), "1", CheckState::Fail, "only 1 of the 2 ports of bond0 are in its aggregate"),
        (slave("speed"), "25000", CheckState::Warn, "ens1f1np1 of bond0 is at 25 Gbit/s and another port at 100"),
        (slave("mtu"), "1500", CheckState::Warn, "ens1f1np1 has MTU 1500 and bond0 has 9000"),
        (slave("carrier"), "0", CheckState::Fail, "ens1f1np1 of bond0 is down"),
        (slave("operstate"), "lowerlayerdown", CheckState::Fail, "ens1f1np1 of bond0 is down"),
        (bond("slaves"), "", CheckState::Fail, "bond0 has no slave"),
        (
            "proc/net/bonding/bond0".to_owned(),
            "Bonding Mode: IEEE 802.3ad Dynamic link aggregation\n802.3ad info\nActive Aggregator Info:\n\tAggregator ID: 1\n\t\
             Partner Mac Address: 1c:34:da:00:00:01\n\nSlave Interface: ens1f0np0\nMII Status: up\nAggregator ID: 1\n\n\
             Slave Interface: ens1f1np1\nMII Status: up\nAggregator ID: 2\n",
            CheckState::Fail,
            "ens1f1np1 of bond0 is up but not in its aggregate",
        ),
        (
            "proc/net/bonding/bond0".to_owned(),
            "Slave Interface: ens1f0np0\nMII Status: up\nSlave Interface: ens1f1np1\nMII Status: down\n",
            CheckState::Fail,
            "ens1f1np1 of bond0 is down",
        ),
    ];
    for (file, text, state, summary) in cases {
        let seen = examined("mlx5+bond", |write| {
            two(write);
            write(&file, text);
        });
        let bond = check(&seen, "bond");
        assert!(bond.state == state && bond.summary.starts_with(summary), "{file} {text}: {bond:?}");
    }
    let out = examined("mlx5+bond", |write| {
        two(write);
        write(&slave("bonding_slave/ad_partner_oper_port_state"), "61\n");
    });
    assert_eq!(check(&out, "bond").state, CheckState::Pass, "{out:#?}");
    let out = examined("mlx5+bond", |write| {
        two(write);
        write(&slave("bonding_slave/ad_partner_oper_port_state"), "5\n");
    });
    assert!(check(&out, "bond").summary.contains("not in its aggregate"), "{out:#?}");
    assert!(examined("mlx5", |_| ()).checks.iter().all(|check| check.name != "bond"), "no bond, no line");
}

#[test]
fn a_bad_cable_is_told_by_its_counters_and_a_sound_one_passes() {
    let recorded = examined("mlx5+over/flapping-cable", |_| ());
    let cable = check(&recorded, "cable");
    assert_eq!(cable.state, CheckState::Warn, "{cable:?}");
    for word in ["link down 14 times", "40,211 symbol errors", "3,120 broken packets", "corrected bits", "lane 1"] {
        assert!(cable.summary.contains(word), "no {word}: {cable:?}");
    }
    let file = |name: &str| format!("{PORT}/counters/{name}");
    for (name, value, uptime, expected) in [
        ("link_downed", "2", "", CheckState::Pass),
        ("link_downed", "3", "", CheckState::Warn),
        ("link_downed", "3", "3000000.00 1.0", CheckState::Pass),
        // A counter that has stopped at its end has no value in a reading, and is the worst of all.
        ("link_downed", "255", "3000000.00 1.0", CheckState::Warn),
        ("symbol_error", "65535", "", CheckState::Warn),
        ("symbol_error", "10", "", CheckState::Pass),
        ("symbol_error", "40", "", CheckState::Warn),
        ("symbol_error", "40", "3600000.0 1.0", CheckState::Pass),
        ("link_error_recovery", "9", "", CheckState::Warn),
    ] {
        let seen = examined("mlx5", |write| {
            write(&file(name), value);
            write("proc/uptime", uptime);
        });
        let cable = check(&seen, "cable");
        assert_eq!(cable.state, expected, "{name} {value} {uptime}: {cable:?}");
    }
    let corrected = |bits: &str| {
        let ethtool = format!("NIC statistics:\n     rx_corrected_bits_phy: {bits}\n     link_down_events_phy: 0\n");
        let seen = examined("mlx5", |write| {
            write("ethtool/ens1f0np0", &ethtool);
            write("proc/uptime", "100000.00 1.0");
        });
        check(&seen, "cable").state
    };
    // In 100,000 s at 100 Gbit/s: 1e-8 of all bits, as usual with four levels, and 1e-4.
    assert_eq!((corrected("100000000"), corrected("1000000000000")), (CheckState::Pass, CheckState::Warn));
    assert_eq!(check(&examined("bnxt", |_| ()), "cable").state, CheckState::Unknown, "not counted is not fine");
}

#[test]
fn packets_sent_again_count_as_a_share_and_adaptive_routing_is_not_loss() {
    for (files, expected) in [
        (&[("hw_counters/packet_seq_err", "99")][..], CheckState::Pass),
        (&[("hw_counters/packet_seq_err", "5000")], CheckState::Warn),
        (&[("hw_counters/local_ack_timeout_err", "5000")], CheckState::Warn),
        (
            &[("hw_counters/local_ack_timeout_err", "5000"), ("counters/port_xmit_packets", "900000000000")],
            CheckState::Pass,
        ),
        (&[("hw_counters/out_of_sequence", "5000")], CheckState::Unknown),
        (&[("hw_counters/out_of_sequence", "5000"), ("hw_counters/packet_seq_err", "5000")], CheckState::Warn),
    ] {
        let seen =
            examined("mlx5", |write| files.iter().for_each(|(file, text)| write(&format!("{PORT}/{file}"), text)));
        let resent = check(&seen, "retransmissions");
        assert_eq!(resent.state, expected, "{files:?}: {resent:?}");
    }
}

#[test]
fn a_second_reading_tells_what_happens_now_from_what_was() {
    let quiet = again("mlx5+over/flapping-cable", 10.0, |_| ());
    assert!(check(&quiet, "cable").summary.contains("none in the last 10 s"), "{quiet:#?}");
    let growing = again("mlx5", 10.0, |write| {
        write(&format!("{PORT}/counters/symbol_error"), "5");
        write(&format!("{PORT}/counters/port_xmit_packets"), "2000000");
        write(&format!("{PORT}/hw_counters/packet_seq_err"), "400");
    });
    let cable = check(&growing, "cable");
    assert!(cable.state == CheckState::Warn && cable.summary.contains("5 symbol errors (0.5/s)"), "{cable:?}");
    let resent = check(&growing, "retransmissions");
    assert!(resent.state == CheckState::Warn && resent.summary.contains("400 retransmissions (40/s)"), "{resent:?}");
    assert_eq!(growing.rates.get("cable errors per second"), Some(&0.5));
    assert_eq!(growing.rates.get("retransmissions per second"), Some(&40.0));
    let old = again("mlx5", 10.0, |write| write(&format!("{PORT}/hw_counters/rx_read_requests"), "1"));
    assert_eq!(check(&old, "retransmissions").state, CheckState::Pass);
    let past = {
        let root = tempfile::tempdir().expect("a directory");
        unpack::unpack("mlx5", root.path());
        std::fs::write(root.path().join(PORT).join("hw_counters/packet_seq_err"), "90000").expect("writable");
        let machine = Machine::recorded(root.path());
        let before = examine(&machine, None, None, 0);
        let earlier = Earlier { counted: &before.counted, seconds: Some(10.0) };
        examine_since(&machine, None, None, 0, Some(earlier))
    };
    assert_eq!(check(&past, "retransmissions").state, CheckState::Pass, "a job of last week is over");
}

#[test]
fn hosts_are_compared_by_rates_and_never_by_totals() {
    let (sound, flapping) = (examined("mlx5", |_| ()), examined("mlx5+over/flapping-cable", |_| ()));
    let of_rates = |a: &Examination, b: &Examination| {
        let compared = compare(a, b).into_iter().filter(|check| check.name.contains("per second"));
        compared.map(|check| check.state).collect::<Vec<_>>()
    };
    assert_eq!(of_rates(&sound, &flapping), [], "only totals are known");
    let grow = |by: &str| again("mlx5", 10.0, |write| write(&format!("{PORT}/counters/symbol_error"), by));
    assert_eq!(of_rates(&grow("10"), &grow("500")), [CheckState::Warn, CheckState::Pass]);
    assert_eq!(of_rates(&grow("10"), &grow("15")), [CheckState::Pass, CheckState::Pass]);
    assert_eq!(of_rates(&grow("0"), &grow("0")), [CheckState::Pass, CheckState::Pass]);
}

#[test]
fn two_readings_of_one_start_of_a_host_are_as_far_apart_as_their_clocks() {
    let seen = |uptime: &str, boot: &str, errors: &str, earlier: Option<&Examination>| {
        let root = tempfile::tempdir().expect("a directory");
        unpack::unpack("mlx5", root.path());
        std::fs::create_dir_all(root.path().join("proc/sys/kernel/random")).expect("a directory");
        let files = [
            ("proc/uptime", uptime),
            ("proc/sys/kernel/random/boot_id", boot),
            (&*format!("{PORT}/counters/symbol_error"), errors),
        ];
        for (file, text) in files {
            std::fs::write(root.path().join(file), text).expect("writable");
        }
        let earlier = earlier.map(|earlier| Earlier { counted: &earlier.counted, seconds: None });
        examine_since(&Machine::recorded(root.path()), None, None, 0, earlier)
    };
    let first = seen("1000.5 9.0", "one", "1", None);
    let later = seen("1020.5 9.0", "one", "3", Some(&first));
    assert!(check(&later, "cable").summary.contains("; 2 symbol errors (0.1/s) in the last 20 s"), "{later:#?}");
    let started_again = seen("1020.5 9.0", "two", "3", Some(&first));
    assert!(!check(&started_again, "cable").summary.contains("in the last"), "{started_again:#?}");
}

#[test]
fn recordings_of_the_tools_are_read_as_they_were_printed() {
    let seen = examined("mlx5+over/dcb-show", |_| ());
    let pfc = check(&seen, "pfc");
    assert!(pfc.state == CheckState::Pass && pfc.summary == "lossless: priority 3", "{pfc:?}");
    assert!(check(&seen, "traffic class").fix.as_deref().is_some_and(|fix| fix.contains("104")), "DSCP 26 is mapped");
    let refused = examined("mlx5", |write| write("dcb/ens1f0np0", "Attribute read: Operation not supported\n"));
    assert_eq!(check(&refused, "pfc").state, CheckState::Unknown, "an error is no answer");
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("mlx5", root.path());
    std::fs::rename(root.path().join("dcb"), root.path().join("mlnx_qos")).expect("one folder");
    let text = "Priority trust state: dscp\ndscp2prio mapping:\n\tprio:4 dscp:34,\nPFC configuration:\n\
                \tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   0   1   0   0   0   \n";
    std::fs::write(root.path().join("mlnx_qos/ens1f0np0"), text).expect("writable");
    let seen = examine(&Machine::recorded(root.path()), None, None, 136);
    assert_eq!(check(&seen, "pfc").summary, "lossless: priority 4");
    assert_eq!(check(&seen, "traffic class").state, CheckState::Pass);
}

#[test]
fn relaxed_ordering_stays_off_behind_root_ports_that_the_kernel_lists() {
    let root = "sys/devices/pci0000:5d/0000:5d:00.0";
    for (vendor, device, expected) in [
        ("0x8086", "0x6f02", CheckState::Pass),
        ("0x8086", "0x2f0e", CheckState::Pass),
        ("0x1022", "0x1a01", CheckState::Pass),
        ("0x8086", "0x347a", CheckState::Warn),
        ("0x15b3", "0x6f02", CheckState::Warn),
    ] {
        let seen = examined("bnxt", |write| {
            write(&format!("{root}/vendor"), vendor);
            write(&format!("{root}/device"), device);
        });
        let ordering = check(&seen, "relaxed ordering");
        assert_eq!(ordering.state, expected, "{vendor} {device}: {ordering:?}");
        assert_eq!(ordering.fix.is_some(), expected == CheckState::Warn, "{ordering:?}");
    }
    let on = examined("mlx5", |write| {
        write("sys/devices/pci0000:3a/0000:3a:00.0/vendor", "0x8086");
        write("sys/devices/pci0000:3a/0000:3a:00.0/device", "0x6f04");
    });
    let ordering = check(&on, "relaxed ordering");
    assert!(ordering.state == CheckState::Warn, "{ordering:?}");
    assert!(ordering.fix.as_deref().is_some_and(|fix| fix.contains("CAP_EXP+8.w=0000:0010")), "{ordering:?}");
}

#[test]
fn a_small_read_request_is_told_with_the_command_that_raises_it() {
    let with = |high: u8| {
        let root = tempfile::tempdir().expect("a directory");
        unpack::unpack("mlx5", root.path());
        let path = root.path().join(NIC).join("config");
        let mut config = std::fs::read(&path).expect("recorded");
        config[0x69] = high;
        std::fs::write(&path, config).expect("writable");
        check(&examine(&Machine::recorded(root.path()), None, None, 0), "read request").clone()
    };
    for (high, expected, bytes) in [
        (0x09, CheckState::Warn, "128"),
        (0x19, CheckState::Warn, "256"),
        (0x29, CheckState::Pass, "512"),
        (0x59, CheckState::Pass, "4096"),
    ] {
        let seen = with(high);
        assert!(seen.state == expected && seen.summary.contains(bytes), "{high:x}: {seen:?}");
        let fix = seen.fix.unwrap_or_default();
        assert_eq!(
            fix.starts_with("setpci -s 0000:3b:00.0 CAP_EXP+8.w=5000:7000"),
            expected == CheckState::Warn,
            "{fix}"
        );
    }
    assert_eq!(with(0x79).state, CheckState::Unknown, "a reserved value");
}

#[test]
fn every_bridge_that_redirects_is_named() {
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("bnxt", root.path());
    let bridge = root.path().join("sys/devices/pci0000:5d/0000:5d:00.0");
    std::fs::copy(bridge.join("0000:5e:00.0/0000:5f:00.0/config"), bridge.join("config")).expect("a config");
    let seen = examine(&Machine::recorded(root.path()), None, None, 0);
    let acs = check(&seen, "acs");
    let fix = acs.fix.as_deref().unwrap_or_default();
    assert!(acs.summary.contains("0000:5d:00.0 and 1 more"), "{acs:?}");
    assert!(["0000:5d:00.0", "0000:5f:00.0"].iter().all(|bridge| fix.contains(bridge)), "{fix}");
}

/// `mlx5.host` as one of InfiniBand with an interface of `IPoIB`, changed by these files.
fn infiniband(files: &[(&str, &str)]) -> Examination {
    examined("mlx5", |write| {
        write(&format!("{PORT}/link_layer"), "InfiniBand\n");
        for (file, text) in files {
            write(file, text);
        }
    })
}

#[test]
fn a_port_of_infiniband_without_a_subnet_manager_has_a_sound_cable() {
    let state = format!("{PORT}/state");
    for (text, said, step) in [
        ("2: INIT\n", "no subnet manager has configured the port", "run a subnet manager (`sminfo`"),
        ("3: ARMED\n", "no subnet manager has configured the port", "run a subnet manager (`sminfo`"),
        ("1: DOWN\n", "no QP can be connected", "check the cable, and whether the switch's port"),
    ] {
        let port = check(&infiniband(&[(&state, text)]), "port").clone();
        assert!(port.state == CheckState::Fail && port.summary.contains(said), "{port:?}");
        assert!(port.fix.as_deref().is_some_and(|fix| fix.starts_with(step)), "{port:?}");
    }
    let ethernet = examined("mlx5", |write| write(&state, "1: DOWN\n"));
    assert!(check(&ethernet, "port").fix.as_deref().is_some_and(|fix| fix.starts_with("ip link set")), "{ethernet:?}");
}

#[test]
fn pcie_of_infiniband_is_judged_by_the_rate_of_the_port_and_no_slot_helps_a_nic_that_has_no_more() {
    let rate = format!("{PORT}/rate");
    let seen = infiniband(&[(&rate, "400 Gb/sec (4X NDR)\n")]);
    let pcie = check(&seen, "pcie");
    assert!(pcie.state == CheckState::Fail && pcie.summary.contains("of the port's 400"), "{pcie:?}");
    let sources: Vec<&str> = pcie.evidence.iter().map(|seen| seen.source.as_str()).collect();
    assert!(sources.contains(&&*format!("/{rate}")), "{sources:?}");
    assert!(sources.iter().all(|source| !source.ends_with("/speed")), "{sources:?}");
    let together = pcie.measured.iter().find(|value| value.name == "ports_together_bps").expect("it is measured");
    assert!((together.value - 4e11).abs() < 1.0, "{together:?}");
    assert!(pcie.summary.contains("all that the NIC can"), "{pcie:?}");
    assert!(pcie.fix.as_deref().is_some_and(|fix| fix.contains("no slot helps") && !fix.contains("move")), "{pcie:?}");
    let narrow = [(&*rate, "400 Gb/sec (4X NDR)\n"), (&*format!("{NIC}/max_link_speed"), "32.0 GT/s PCIe\n")];
    let narrow = infiniband(&narrow);
    assert!(check(&narrow, "pcie").fix.as_deref().is_some_and(|fix| fix.starts_with("move the NIC")), "{narrow:?}");
}

#[test]
fn a_port_with_one_lane_has_lost_the_others_unless_it_has_no_more() {
    let rate = format!("{PORT}/rate");
    for (text, expected) in [
        ("100 Gb/sec (1X NDR)\n", CheckState::Fail),
        ("100 Gb/sec (2X HDR)\n", CheckState::Pass),
        ("400 Gb/sec (4X NDR)\n", CheckState::Pass),
    ] {
        let port = check(&infiniband(&[(&rate, text)]), "port").clone();
        assert_eq!(port.state, expected, "{port:?}");
        assert_eq!(port.fix.is_some(), expected != CheckState::Pass, "{port:?}");
    }
    let ethernet = |rate_text: &str, megabits: &str, modes: &str| {
        let seen = examined("mlx5", |write| {
            write(&rate, rate_text);
            write(&format!("{NIC}/net/ens1f0np0/speed"), megabits);
            write("modes/ens1f0np0", modes);
        });
        check(&seen, "port").state
    };
    let (one, two) = ("50 Gb/sec (1X HDR)\n", "100000baseCR2/Full\n50000baseCR/Full\n");
    assert_eq!(ethernet(one, "50000", ""), CheckState::Warn, "HDR on one lane, and nobody says of which port");
    assert_eq!(ethernet(one, "50000", two), CheckState::Warn, "it could have twice as much");
    assert_eq!(ethernet(one, "50000", "50000baseCR/Full\n"), CheckState::Pass, "SFP56 has one lane");
    assert_eq!(ethernet("25 Gb/sec (1X EDR)\n", "25000", ""), CheckState::Pass, "SFP28 has one lane");
}

#[test]
fn what_the_port_dropped_and_pause_on_one_side_have_their_lines() {
    let seen = |lines: &str| {
        let text = format!("NIC statistics:\n     rx_prio3_pause_duration: 81726354\n{lines}");
        examined("mlx5", |write| write("ethtool/ens1f0np0", &text))
    };
    let sound = seen("     rx_discards_phy: 99\n     rx_out_of_buffer: 99\n     tx_pause_storm_error_events: 0\n");
    assert_eq!(check(&sound, "drops").state, CheckState::Pass, "{sound:?}");
    let counters = check(&sound, "counters");
    assert!(counters.state == CheckState::Warn && counters.summary.contains("received only"), "{counters:?}");
    assert!(!counters.summary.contains("no counter of pause"), "{counters:?}");
    for (line, words, step) in [
        ("rx_discards_phy: 55123", "55,123 packets without room", "find what takes packets too slowly"),
        ("rx_out_of_buffer: 98123", "98,123 without a posted buffer", "post more receive buffers"),
        ("tx_pause_storm_error_events: 4", "4 pause storms", "find what hangs on this host"),
    ] {
        let seen = seen(&format!("     {line}\n"));
        let drops = check(&seen, "drops");
        assert!(drops.state == CheckState::Warn && drops.summary.contains(words), "{drops:?}");
        assert!(drops.fix.as_deref().is_some_and(|fix| fix.contains(step)), "{drops:?}");
    }
    let old = again("mlx5", 10.0, |_| ());
    assert!(check(&old, "drops").summary.contains("none in the last 10 s"), "{old:?}");
}

#[test]
fn little_memory_is_told_in_a_unit_of_which_there_is_one() {
    for (bytes, said) in [("65536", "only 64 KiB"), ("8388608", "only 8 MiB"), ("2147483648", "only 2.0 GiB")] {
        let limits = format!("Max locked memory  {bytes}  {bytes} bytes\n");
        let seen = examined("mlx5", |write| write("proc/self/limits", &limits));
        assert!(check(&seen, "memlock").summary.starts_with(said), "{bytes}: {seen:?}");
    }
}
