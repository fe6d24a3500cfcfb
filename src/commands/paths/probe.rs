//! `kelpie paths probe`: measures the catalog of a pair, and shows it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use kelpie_agent::PairSubsystem;
use kelpie_diagnosis::ports::Mode;
use kelpie_examine::files::read_file;
use kelpie_examine::ground::{Hosts, mode, must_have_paths};
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_paths::catalog::{Catalog, CatalogDirection, LagPort, SourcePortPath as Found};
use kelpie_paths::probe::{Depth, lag_ports, probe};
use kelpie_reports::folder;
use kelpie_spaces::document::utf8;
use kelpie_spaces::flow_label::{FIRST_PORT, PORTS};
use kelpie_topology::PortSide;
use serde_json::json;

use crate::args::Common;
use crate::cli::paths::ProbeArgs;
use crate::exit;
use crate::inputs::open_subsystem;
use crate::output::{Table, note, plural, print, print_json, si};
use crate::stop;

/// Step from one probed source port to the next. Source: our choice, 2^14 over the golden ratio and odd, because hashes
/// of bonds and switches fold bytes: all ports that are a multiple of 257 apart left by one port.
const STEP: u32 = 0x1e37;

/// Runs the command.
pub fn run(args: &ProbeArgs, common: Common) -> anyhow::Result<ExitCode> {
    let stop = stop::on_signals("stopping after this traffic; interrupt again to stop now")?;
    let mut subsystem = pair(&args.subsystem)?;
    let name = args.subsystem.clone();
    let mut hosts = Hosts::new(&mut subsystem, &stop, &note)?;
    let ends = hosts.ends().to_vec();
    let ports = source_ports(args.ports);
    if let Some(path) = &args.verify {
        let catalog = read(path)?;
        let mut changes = catalog.changes(&ends);
        // Which LAG port leads where is not to be read anywhere; a moment of traffic shows it.
        if changes.is_empty() {
            changes = catalog.lag_changes(&lag_ports(&mut hosts, [&ports, &ports])?);
        }
        return verify(path, &changes, common);
    }
    must_have_paths(&ends)?;
    for end in ends.iter().filter(|end| mode(end) == Mode::QueueAffinity) {
        note(&format!(
            "host {}: {} deals QPs out to its ports by queue affinity; source ports change only where they arrive, and \
             LAG ports by which port they leave",
            end.host, end.device
        ));
    }
    let depth = Depth { loss: true, latency: !args.no_latency, throughput: true };
    let directions = probe(&mut hosts, [&ports, &ports], depth)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let measured = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(now.as_secs())).to_string();
    let catalog = Catalog { subsystem: name, measured, measured_unix_s: now.as_secs(), ends, directions };
    // A link that went down meanwhile leaves paths that are half of one and half of another.
    let changes = catalog.changes(&hosts.ends_now()?);
    if !changes.is_empty() {
        bail!("the hosts changed while they were probed: {}; probe again", changes.join("; "));
    }
    folder::write_file(&args.out, catalog.to_yaml().as_bytes(), true)
        .with_context(|| args.out.display().to_string())?;
    if common.json {
        print_json(&json!({"catalog": args.out, "measured": catalog}))?;
    } else {
        print(&text(&catalog))?;
        print(&format!("{}\n", args.out.display()))?;
    }
    let is_faulty = catalog.directions.iter().flat_map(|one| &one.paths).any(|path| path.fault.is_some());
    Ok(if is_faulty { exit::anomalous() } else { exit::HEALTHY })
}

/// The pair that a name stands for.
pub fn pair(name: &str) -> anyhow::Result<PairSubsystem> {
    match open_subsystem(name)? {
        OpenedSubsystem::Pair { subsystem, .. } => Ok(*subsystem),
        OpenedSubsystem::Simulated(_) => bail!("{name} is simulated; paths are probed between real hosts"),
    }
}

/// Reads a catalog.
pub fn read(path: &Path) -> anyhow::Result<Catalog> {
    let name = path.display().to_string();
    Ok(Catalog::from_yaml(&name, utf8(&name, &read_file(path)?)?)?)
}

/// So many source ports, in order.
fn source_ports(count: u16) -> Vec<u16> {
    let port = |place: u16| FIRST_PORT + (u32::from(place) * STEP % u32::from(PORTS)) as u16;
    let mut ports: Vec<u16> = (0..count).map(port).collect();
    ports.sort_unstable();
    ports
}

fn verify(path: &Path, changes: &[String], common: Common) -> anyhow::Result<ExitCode> {
    if common.json {
        print_json(&json!({"catalog": path, "stale": !changes.is_empty(), "changes": changes}))?;
    } else if changes.is_empty() {
        print(&format!("{} fits both hosts\n", path.display()))?;
    } else {
        print(&format!("{} is stale, probe again:\n  {}\n", path.display(), changes.join("\n  ")))?;
    }
    Ok(if changes.is_empty() { exit::HEALTHY } else { exit::anomalous() })
}

/// A word for a side that may be unknown.
fn word(side: Option<PortSide>) -> &'static str {
    side.map_or("unknown", PortSide::name)
}

fn text(catalog: &Catalog) -> String {
    let mut text = String::new();
    for end in &catalog.ends {
        let ports: Vec<&str> = end.ports.iter().map(|port| port.name.as_str()).collect();
        let _ = writeln!(
            text,
            "host {}: {}, bond {} by {}; left and right: {}",
            end.host,
            end.device,
            end.mode,
            end.policy,
            ports.join(", ")
        );
    }
    for CatalogDirection { from, lag, .. } in &catalog.directions {
        let Some(lag) = lag else { continue };
        for LagPort { port, active, leaves } in &lag.ports {
            let _ = write!(text, "LAG port {port} of host {from} leaves by {}", word(*leaves));
            let _ = if active == port { writeln!(text) } else { writeln!(text, "; the device says by port {active}") };
        }
        if let Some(reason) = &lag.refused {
            let _ = writeln!(text, "not applicable: QPs of host {from} cannot be put on a LAG port: {reason}");
        }
    }
    let mut table = Table::new(
        &["from", "leaves", "arrives", "source ports", "lost", "goodput", "latency", "groups", "such as"],
        &[3, 4, 5, 6, 7],
    );
    for direction in &catalog.directions {
        rows(direction, &mut table);
    }
    text.push_str(&table.render(""));
    for direction in &catalog.directions {
        let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
        for fault in direction.paths.iter().filter_map(|path| path.fault.as_deref()) {
            *faults.entry(fault).or_default() += 1;
        }
        for (fault, count) in faults {
            let _ = writeln!(text, "faulty from {}: {}: {fault}", direction.from, plural(count, "source port"));
        }
    }
    text
}

fn rows(direction: &CatalogDirection, table: &mut Table) {
    let mut ways: BTreeMap<(Option<PortSide>, Option<PortSide>), Vec<&Found>> = BTreeMap::new();
    for path in &direction.paths {
        ways.entry((path.leaves, path.arrives)).or_default().push(path);
    }
    for ((leaves, arrives), paths) in ways {
        let (sent, received) = paths.iter().fold((0, 0), |sum, path| (sum.0 + path.sent, sum.1 + path.received));
        let way = direction.ways.iter().find(|way| [Some(way.leaves), Some(way.arrives)] == [leaves, arrives]);
        let mut latencies: Vec<f64> = paths.iter().filter_map(|path| path.latency_us).collect();
        latencies.sort_by(f64::total_cmp);
        let mut groups: Vec<u32> = paths.iter().filter_map(|path| path.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let lost = if sent == 0 { 0.0 } else { 100.0 * (sent - received) as f64 / sent as f64 };
        let unknown = || "-".to_owned();
        table.row(vec![
            direction.from.to_string(),
            word(leaves).to_owned(),
            word(arrives).to_owned(),
            paths.len().to_string(),
            format!("{lost:.2} %"),
            way.map_or_else(unknown, |way| format!("{}b/s", si(way.bps))),
            latencies.get(latencies.len() / 2).map_or_else(unknown, |latency| format!("{latency:.0} us")),
            if groups.is_empty() { unknown() } else { groups.iter().map(u32::to_string).collect::<Vec<_>>().join(" ") },
            paths.iter().take(3).map(|path| path.source_port.to_string()).collect::<Vec<_>>().join(" "),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_ports_are_said_with_what_the_device_says_or_why_there_are_none() {
        let text_of_file = include_str!("../../../engine/examine/tests/dealt.yaml");
        let mut catalog = Catalog::from_yaml("dealt.yaml", text_of_file).expect("a good file");
        let lag = catalog.directions[0].lag.as_mut().expect("it deals QPs out");
        lag.ports[1].active = 1;
        let said = text(&catalog);
        assert!(said.contains("LAG port 1 of host a leaves by left\n"), "{said}");
        assert!(said.contains("LAG port 2 of host a leaves by right; the device says by port 1\n"), "{said}");
        lag_refused(&mut catalog);
        let said = text(&catalog);
        assert!(said.contains("not applicable: QPs of host a cannot be put on a LAG port: no such call\n"), "{said}");
    }

    fn lag_refused(catalog: &mut Catalog) {
        catalog.directions[0].lag =
            Some(kelpie_paths::catalog::Lag { ports: Vec::new(), refused: Some("no such call".to_owned()) });
    }

    #[test]
    fn source_ports_are_all_different() {
        for count in [2, 64, 1024] {
            let mut ports = source_ports(count);
            ports.dedup();
            assert!(ports.len() == usize::from(count) && ports[0] >= FIRST_PORT);
        }
    }
}
