//! What the doctor says of recorded hosts: a good one, one on which much is wrong, and what is missing or changed.

#[path = "../fixtures/unpack.rs"]
mod unpack;

use std::collections::BTreeSet;
use std::path::Path;

use kelpie_monitor::check::{Check, State};
use kelpie_monitor::checks::{CHECKS, CheckGroup, CheckKind, GAUGES};
use kelpie_monitor::doctor::{Examination, compare, examine};
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
        std::fs::write(root.path().join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    });
    examine(&Machine::recorded(root.path()), None, None, 0)
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
            "traffic class" | "pcie errors" => State::Warn,
            _ => State::Pass,
        };
        assert_eq!(check.state, expected, "{check:?}");
        assert!(!check.evidence.is_empty(), "{check:?}");
        assert!(!check.summary.is_empty() && !check.about.is_empty(), "{check:?}");
    }
    let checks: Vec<&str> = seen.checks.iter().map(|check| check.name.as_str()).collect();
    let expected = "memlock, cpu governor, port, gid, versions, mtu, pfc, traffic class, counters, pcie, pcie errors, \
                    relaxed ordering, acs, iommu, numa";
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
    let seen = [examined("mlx5", |_| ()), examined("bnxt", |_| ()), no_interface, dmi, of("/nowhere")];
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
        ("memlock", State::Fail, "Max locked memory: 8388608", "ulimit -l unlimited"),
        ("cpu governor", State::Warn, "powersave", "cpupower frequency-set -g performance"),
        ("gid", State::Warn, "RoCE v2", "ip address add"),
        ("mtu", State::Warn, "1500", "ip link set dev enp96s0 mtu 4200"),
        ("pfc", State::Warn, "pfc priorities []", "dcb pfc set dev enp96s0"),
        ("counters", State::Warn, "counters", ""),
        ("pcie", State::Fail, "8.0 GT/s PCIe", "slot"),
        ("pcie errors", State::Warn, "total 20", "reseat"),
        ("relaxed ordering", State::Warn, "0", "setpci -s 0000:60:00.0 CAP_EXP+8.w=0010:0010"),
        ("acs", State::Warn, "redirects", "setpci -s 0000:5f:00.0 ECAP_ACS+6.w=0000:000c"),
        ("iommu", State::Warn, "DMA-FQ", "iommu=pt"),
        ("numa", State::Warn, "-1", "BIOS"),
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
    let table: &[(&str, String, &str, State)] = &[
        ("port", format!("{PORT}/state"), "1: DOWN\n", State::Fail),
        ("gid", format!("{PORT}/gid_attrs/types/3"), "IB/RoCE v1\n", State::Warn),
        ("mtu", config("net/ens1f0np0/mtu"), "300\n", State::Fail),
        ("mtu", config("net/ens1f0np0/mtu"), "\n", State::Unknown),
        ("pfc", "dcb/ens1f0np0".to_owned(), "pfc\n", State::Warn),
        ("traffic class", "dcb/ens1f0np0".to_owned(), "pfc 0\n", State::Pass),
        ("counters", "ethtool/ens1f0np0".to_owned(), "NIC statistics:\n", State::Warn),
        ("pcie", config("current_link_width"), "8\n", State::Warn),
        ("pcie", config("current_link_width"), "4\n", State::Fail),
        ("pcie", config("max_link_speed"), "Unknown\n", State::Unknown),
        ("pcie errors", config("aer_dev_correctable"), "TOTAL_ERR_COR 0\n", State::Pass),
        ("pcie errors", config("aer_dev_fatal"), "TOTAL_ERR_FATAL 1\n", State::Warn),
        ("relaxed ordering", config("config"), "short", State::Unknown),
        ("iommu", "sys/kernel/iommu_groups/7/type".to_owned(), "DMA\n", State::Warn),
        ("memlock", "proc/self/limits".to_owned(), "Max locked memory  2147483648  unlimited bytes\n", State::Warn),
        ("memlock", "proc/self/limits".to_owned(), "\n", State::Unknown),
    ];
    for (name, file, text, expected) in table {
        let seen = examined("mlx5", |write| write(file, text));
        assert!(seen.checks.iter().all(|check| !check.evidence.is_empty()), "{file} {text}: {seen:#?}");
        assert_eq!(check(&seen, name).state, *expected, "{name} {file} {text}: {:?}", check(&seen, name));
    }
}

#[test]
fn the_narrowest_link_above_the_nic_counts_and_is_named() {
    for (width, expected) in [("16", State::Pass), ("8", State::Warn), ("4", State::Fail)] {
        let seen = examined("mlx5", |write| {
            write("sys/devices/pci0000:3a/0000:3a:00.0/current_link_speed", "16.0 GT/s PCIe\n");
            write("sys/devices/pci0000:3a/0000:3a:00.0/current_link_width", width);
        });
        let pcie = check(&seen, "pcie");
        assert_eq!(pcie.state, expected, "{pcie:?}");
        assert_eq!(pcie.summary.contains("0000:3a:00.0"), expected != State::Pass, "{pcie:?}");
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
    assert!(ordering.state == State::Unknown && ordering.fix.is_none(), "root would not help: {ordering:?}");
    assert_eq!(check(&seen, "acs").state, State::Pass);
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
    assert!(errors.state == State::Unknown && !errors.evidence.is_empty(), "{errors:?}");
}

#[test]
fn a_process_that_may_lock_memory_is_not_limited() {
    let seen = examined("bnxt", |write| write("proc/self/status", "CapEff:\t0000000000004000\n"));
    assert_eq!(check(&seen, "memlock").state, State::Pass);
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
        (None, 0, State::Warn, "DSCP 0 "),
        (None, 104, State::Pass, "DSCP 26 "),
        (None, 106, State::Pass, "DSCP 26 "),
        (None, 32, State::Warn, "DSCP 8 "),
        (Some("Global tclass=106\n"), 0, State::Pass, "DSCP 26 "),
        (Some("Global tclass=0\n"), 106, State::Warn, "DSCP 0 "),
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
    let pfc: Vec<(State, &str)> = seen
        .checks
        .iter()
        .filter(|check| check.name == "pfc")
        .map(|check| (check.state, check.evidence[0].source.as_str()))
        .collect();
    assert_eq!(pfc, [(State::Pass, "dcb ens1f0np0"), (State::Warn, "dcb ens1f1np1")]);
    assert_eq!(check(&seen, "mtu").evidence[0].source, "/sys/class/net/bond0/mtu", "the bond has the address");
    assert_eq!(check(&seen, "counters").state, State::Pass);
}

#[test]
fn no_device_another_device_and_no_such_port_are_bad() {
    let root = tempfile::tempdir().expect("a directory");
    unpack::unpack("mlx5", root.path());
    let machine = Machine::recorded(root.path());
    let other = examine(&machine, Some("mlx5_9"), None, 0);
    let device = check(&other, "device");
    assert!(device.state == State::Fail && device.evidence[0].value == "mlx5_0", "{device:?}");
    assert_eq!(check(&examine(&machine, None, Some(2), 0), "port").state, State::Fail);
    let empty = tempfile::tempdir().expect("a directory");
    let seen = examine(&Machine::recorded(empty.path()), None, None, 0);
    assert_eq!(check(&seen, "device").state, State::Fail);
    assert_eq!(check(&seen, "memlock").state, State::Unknown, "what cannot be read is not fine");
}

#[test]
fn a_pair_is_compared_by_what_both_tell() {
    let (a, b) = (examined("mlx5", |_| ()), examined("bnxt", |_| ()));
    let found = compare(&a, &b);
    let of = |name: &str| found.iter().find(|check| check.name == name);
    let mtu = of("interface MTU").expect("both report it");
    assert!(mtu.state == State::Warn && mtu.summary == "a has 9000, b has 1500", "{mtu:?}");
    assert_eq!(of("link speed").map(|check| check.state), Some(State::Pass));
    assert!(compare(&a, &a).iter().all(|check| check.state == State::Pass));
    assert_eq!(compare(&a, &Examination::default()), []);
}
