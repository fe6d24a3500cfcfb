//! `kelpie paths check`: C4P's checks on readings of both ports, taken now or before. The rules live in
//! `kelpie_diagnosis`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use console::Term;
use kelpie_diagnosis::ports::{EndReading, Readings, checks, contradictions, is_known};
use kelpie_examine::files::read_file;
use kelpie_examine::ports::{self, CableCommands, Choice};
use kelpie_examine::simulated;
use kelpie_examine::subsystem::{SubsystemKind, kind, load_simulated};
use kelpie_monitor::check::{Check, CheckState};
use kelpie_spaces::document::utf8;
use kelpie_spaces::read_tagged_with_null;
use serde::Deserialize;
use serde_json::{Value, json};

use super::probe;
use crate::args::Common;
use crate::cli::paths::CheckArgs;
use crate::commands::doctor;
use crate::exit;
use crate::inputs::read_workload;
use crate::output::{note, print, print_json};
use crate::stop;

/// Most directions, and most QPs of one. Source: our choice.
const MOST: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadingsFile {
    directions: Vec<Readings>,
}

/// Runs the command.
pub fn run(args: &CheckArgs, common: Common) -> anyhow::Result<ExitCode> {
    let checks = match (&args.subsystem, &args.file) {
        (Some(subsystem), workload) => of_hosts(args, subsystem, workload.as_deref())?,
        (None, Some(readings)) => of_readings(readings)?,
        (None, None) => bail!("name readings, or hosts with --subsystem"),
    };
    if common.json {
        print_json(&json!({"checks": checks.iter().map(row).collect::<Vec<_>>()}))?;
    } else {
        let terminal = Term::stdout();
        let width = terminal.is_term().then(|| usize::from(terminal.size().1));
        print(&text(&checks, common.verbose > 0, width))?;
    }
    let fails = checks.iter().any(|check| check.state == CheckState::Fail);
    Ok(match (fails, is_known(&checks)) {
        (true, _) => exit::anomalous(),
        (false, true) => exit::HEALTHY,
        (false, false) => exit::failed(),
    })
}

fn of_hosts(args: &CheckArgs, subsystem: &str, workload: Option<&Path>) -> anyhow::Result<Vec<Check>> {
    let stop = stop::on_signals("stopping after this traffic; interrupt again to stop now")?;
    let workload = workload.map_or_else(|| Ok(ports::plain()), read_workload)?;
    if let SubsystemKind::Simulated(name) = kind(subsystem)? {
        if args.plan.is_some() || !args.source_ports.is_empty() || args.port_down.is_some() {
            bail!(
                "--plan, --source-ports and --port-down are for real hosts; of {subsystem} a workload's flows say \
                 `ports: hashed`, `one`, `crossed` or `planned`"
            );
        }
        return simulated::checks(&load_simulated(name)?, &workload);
    }
    let choice = match (&args.plan, &args.source_ports[..]) {
        (Some(catalog), _) => Choice::Planned(Box::new(probe::read(catalog)?)),
        (None, []) => Choice::Own,
        (None, ports) => Choice::Given(ports.to_vec()),
    };
    let cable = args.port_down.clone().zip(args.port_up.clone()).map(|(down, up)| CableCommands { down, up });
    ports::checks(&mut probe::pair(subsystem)?, &workload, &choice, cable.as_ref(), &stop, &note)
}

fn of_readings(path: &Path) -> anyhow::Result<Vec<Check>> {
    let name = path.display().to_string();
    let bytes = read_file(path)?;
    let (document, file) = read_tagged_with_null::<ReadingsFile>(&name, utf8(&name, &bytes)?, "ports/1")?;
    if file.directions.is_empty() || file.directions.len() > MOST {
        bail!(document.refuse("directions", &format!("write 1 to {MOST} directions")));
    }
    for (place, readings) in file.directions.iter().enumerate() {
        let key = |key: &str| format!("directions[{place}].{key}");
        if readings.qps.len() > MOST {
            bail!(document.refuse(&key("qps"), &format!("write at most {MOST} QPs")));
        }
        if let Some(qp) = readings.qps.iter().position(|qp| qp.loss.is_some_and(|loss| !(0.0..=1.0).contains(&loss))) {
            bail!(document.refuse(&key(&format!("qps[{qp}].loss")), &"write a share from 0 to 1"));
        }
        for (name, value) in rates(readings) {
            if !(0.0..=1e15).contains(&value) {
                bail!(document.refuse(&key(&name), &"write bits/s from 0 to 1e15"));
            }
        }
        for (name, end) in ends(readings) {
            if let Some(port) =
                end.ports.iter().position(|port| port.paused.is_some_and(|share| !(0.0..=1.0).contains(&share)))
            {
                bail!(document.refuse(&key(&format!("{name}.ports[{port}].paused")), &"write a share from 0 to 1"));
            }
        }
        document.refuse_all(contradictions(readings).into_iter().map(|(name, rule)| (key(&name), rule)))?;
    }
    Ok(file.directions.iter().flat_map(checks).collect())
}

/// The NICs that were looked at, by key.
fn ends(readings: &Readings) -> impl Iterator<Item = (&'static str, &EndReading)> {
    [("sender", &readings.sender), ("receiver", &readings.receiver)]
        .into_iter()
        .filter_map(|(name, end)| Some((name, end.as_ref()?)))
}

/// All rates, by key.
fn rates(readings: &Readings) -> Vec<(String, f64)> {
    let mut rates =
        vec![("alone_bps".to_owned(), readings.alone_bps), ("together_bps".to_owned(), readings.together_bps)];
    for (name, end) in ends(readings) {
        rates.push((format!("{name}.pcie_bps"), end.pcie_bps));
        for (place, port) in end.ports.iter().enumerate() {
            rates.push((format!("{name}.ports[{place}].speed_bps"), port.speed_bps));
            rates.push((format!("{name}.ports[{place}].capable_bps"), port.capable_bps));
            rates.push((format!("{name}.ports[{place}].agreed_bps"), port.agreed_bps));
        }
    }
    rates.into_iter().filter_map(|(name, rate)| Some((name, rate?))).collect()
}

fn row(check: &Check) -> Value {
    let mut row = json!({
        "name": check.name, "state": check.state, "about": check.about, "summary": check.summary,
        "evidence": check.evidence, "fix": check.fix,
    });
    if !check.measured.is_empty() {
        row["measured"] = json!(check.measured);
    }
    row
}

fn text(checks: &[Check], verbose: bool, width: Option<usize>) -> String {
    let mut text = String::new();
    let mut sorted: Vec<&Check> = checks.iter().collect();
    doctor::worst_first(&mut sorted);
    let mut about = "";
    for check in sorted {
        if check.about != about {
            about = &check.about;
            let gap = if text.is_empty() { "" } else { "\n" };
            // Checks speak of the sender and the receiver; the heading says which hosts these are.
            let roles = about
                .split_once(" to ")
                .map_or_else(String::new, |(sender, receiver)| format!(" (sender {sender}, receiver {receiver})"));
            let _ = writeln!(text, "{gap}{about}{roles}");
        }
        doctor::show(&mut text, check, verbose, width);
    }
    text
}

#[cfg(test)]
mod tests {
    use kelpie_monitor::checks::CheckKind;

    use super::*;

    #[test]
    fn what_fails_comes_first_with_the_hosts_and_what_passes_is_short() {
        let pass =
            Check::new(CheckKind::Links, CheckState::Pass, "all ports are up").seen("ports that are down", "none");
        let fail =
            Check::new(CheckKind::Speed, CheckState::Fail, "slow").seen("speed", "sender left (eth0) 100 Gbit/s");
        let checks = [pass.about("a to b"), fail.about("a to b")];
        let shown = text(&checks, false, None);
        let shown = console::strip_ansi_codes(&shown);
        assert!(shown.starts_with("a to b (sender a, receiver b)\n  fail  speed"), "{shown}");
        assert!(shown.contains("100 Gbit/s") && !shown.contains("ports that are down"), "{shown}");
        assert!(text(&checks, true, None).contains("ports that are down"));
    }

    #[test]
    fn a_check_that_measured_nothing_does_not_say_what() {
        let check = Check::new(CheckKind::Port, CheckState::Unknown, "nothing was sent");
        assert_eq!(row(&check).get("measured"), None);
    }
}
