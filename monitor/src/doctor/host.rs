//! Checks of the whole host: pinned memory and processor clocks. Devices are in `port` and `nic_placement`.

use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::machine::Machine;

/// Memory below which many workloads cannot pin what they need. Units: bytes. Source: our choice, because 256 QPs with
/// one MR of 4 MiB each need as much.
const LITTLE_MEMORY: u64 = 1 << 30;

/// `CAP_IPC_LOCK`, which lifts the limit. Source: capabilities(7).
const CAP_IPC_LOCK: u64 = 1 << 14;

pub fn checks(machine: &Machine) -> Vec<Check> {
    let mut checks = vec![memlock(machine), governor(machine)];
    checks.extend(bios(machine));
    checks
}

/// What machine it is and what firmware it started with, as far as its tables say: no serial numbers.
///
/// Source: kernel `Documentation/ABI/testing/sysfs-firmware-dmi-tables` and `drivers/firmware/dmi-id.c`.
const DMI: [(CheckKind, &[&str]); 2] = [
    (CheckKind::SameMachine, &["sys_vendor", "product_name"]),
    (CheckKind::SameBios, &["bios_vendor", "bios_version", "bios_date"]),
];

/// What two hosts of one kind have in common, and what a BIOS update changes.
pub fn facts(machine: &Machine) -> impl Iterator<Item = (CheckKind, Option<String>)> {
    DMI.into_iter().map(|(kind, files)| {
        let words: Vec<String> = files.iter().filter_map(|file| machine.text(&dmi_file(file))).collect();
        (kind, (!words.is_empty()).then(|| words.join(" ")))
    })
}

fn dmi_file(name: &str) -> String {
    format!("sys/class/dmi/id/{name}")
}

/// The BIOS by itself, because a campaign on one host has no other to compare with; nothing if its tables are not
/// shown.
fn bios(machine: &Machine) -> Option<Check> {
    let (_, words) = facts(machine).find(|(kind, _)| *kind == CheckKind::SameBios)?;
    let files = DMI.iter().flat_map(|(_, files)| *files).map(|file| dmi_file(file));
    let check = Check::new(CheckKind::Bios, CheckState::Pass, words?);
    Some(files.filter(|file| machine.has(file)).fold(check, |check, file| check.file(machine, &file)))
}

/// Bytes in the largest unit of which there is one.
fn binary(bytes: u64) -> String {
    match bytes {
        bytes if bytes >> 30 > 0 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        bytes if bytes >> 20 > 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >> 10 > 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

fn memlock(machine: &Machine) -> Check {
    const LIMITS: &str = "proc/self/limits";
    const STATUS: &str = "proc/self/status";
    let line = |file: &str, start: &str| {
        let text = machine.text(file)?;
        text.lines().find_map(|line| line.strip_prefix(start)).map(|rest| rest.trim().to_owned())
    };
    let Some(limits) = line(LIMITS, "Max locked memory") else {
        return Check::new(CheckKind::Memlock, CheckState::Unknown, "the limit of locked memory is not reported")
            .file(machine, LIMITS);
    };
    let soft = limits.split_whitespace().next().unwrap_or_default().to_owned();
    let capabilities = line(STATUS, "CapEff:").unwrap_or_default();
    let may_lock = u64::from_str_radix(&capabilities, 16).is_ok_and(|bits| bits & CAP_IPC_LOCK != 0);
    let (state, summary) = match soft.parse::<u64>() {
        _ if soft == "unlimited" => (CheckState::Pass, "locked memory is not limited".to_owned()),
        _ if may_lock => {
            (CheckState::Pass, "locked memory is limited, but not for a process with CAP_IPC_LOCK".to_owned())
        }
        Ok(bytes) => {
            let state = if bytes < LITTLE_MEMORY { CheckState::Fail } else { CheckState::Warn };
            (state, format!("only {} may be locked, and memory regions are locked memory", binary(bytes)))
        }
        Err(_) => (CheckState::Unknown, format!("the limit of locked memory reads `{soft}`")),
    };
    let check = Check::new(CheckKind::Memlock, state, summary)
        .seen(format!("/{LIMITS}"), format!("Max locked memory: {limits}"));
    let check = if may_lock { check.seen(format!("/{STATUS}"), format!("CapEff: {capabilities}")) } else { check };
    let check = match soft.parse::<u64>() {
        Ok(bytes) => check.measured(Gauge::LockableMemory, bytes as f64, LITTLE_MEMORY as f64),
        Err(_) => check,
    };
    if state == CheckState::Pass { check } else { check.repair(Repair::RaiseMemlock, &[]) }
}

fn governor(machine: &Machine) -> Check {
    const CPUS: &str = "sys/devices/system/cpu";
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let governors: Vec<(String, String)> = machine
        .names(CPUS)
        .into_iter()
        .filter(is_cpu)
        .filter_map(|cpu| {
            let file = format!("{CPUS}/{cpu}/cpufreq/scaling_governor");
            machine.text(&file).map(|governor| (file, governor))
        })
        .collect();
    let Some((first, _)) = governors.first() else {
        let summary = "the governor of processor clocks is not reported (usual in a virtual machine)";
        return Check::new(CheckKind::Governor, CheckState::Unknown, summary)
            .seen(format!("/{CPUS}/cpu*/cpufreq"), "not there");
    };
    let others: Vec<&(String, String)> = governors.iter().filter(|(_, governor)| governor != "performance").collect();
    match others.first() {
        None => {
            let summary = format!("performance on all {} CPUs", governors.len());
            Check::new(CheckKind::Governor, CheckState::Pass, summary)
                .measured(Gauge::SlowCpus, 0.0, 0.0)
                .file(machine, first)
        }
        Some((file, governor)) => {
            let (count, all) = (others.len(), governors.len());
            let summary =
                format!("{count} of {all} CPUs are not at `performance`: posting slows down when they clock down");
            let check = Check::new(CheckKind::Governor, CheckState::Warn, summary).seen(format!("/{file}"), governor);
            check.measured(Gauge::SlowCpus, count as f64, 0.0).repair(Repair::SetGovernor, &[])
        }
    }
}
