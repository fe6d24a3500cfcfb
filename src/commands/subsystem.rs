//! `kelpie subsystem`: which simulated subsystems there are, what one is, whether it can be measured; new ones.

use std::io::ErrorKind;
use std::process::ExitCode;

use kelpie_calibration::generated_model;
use kelpie_examine::subsystem::{SubsystemKind, kind, load_simulated, pair_source};
use kelpie_reports::folder::write_file;
use kelpie_sim::SimSubsystem;
use kelpie_sim::host::{self, SimHost, SimulatedHostError};
use kelpie_topology::host::NodeKind;
use serde_json::json;

use crate::args::Common;
use crate::cli::{GenerateArgs, NamedSubsystem, SubsystemCommand};
use crate::exit;
use crate::inputs::open_subsystem;
use crate::output::{Table, print, print_json, si};

/// Runs the command.
pub fn run(command: &SubsystemCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        SubsystemCommand::List => list(common)?,
        SubsystemCommand::Show(args) => show(args, common)?,
        SubsystemCommand::Check(args) => check(args, common)?,
        SubsystemCommand::Generate(args) => generate(args, common)?,
    }
    Ok(exit::HEALTHY)
}

fn list(common: Common) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for model in SimSubsystem::names().into_iter().chain(SimSubsystem::other_names()) {
        rows.push((format!("sim:{model}"), load_simulated(model)?.port()));
    }
    let hosts = host::names().map(|name| {
        let host = SimHost::load(name)?;
        let rnics = host.topology().nodes().iter().filter(|node| node.kind == NodeKind::Rnic).count();
        Ok((format!("sim:{name}"), rnics))
    });
    let hosts = hosts.into_iter().collect::<Result<Vec<_>, SimulatedHostError>>()?;
    if common.json {
        let row = |(name, bounds): &(String, kelpie_monitor::Bounds)| {
            let bounds = json!({"max_bps": bounds.max_bps, "max_pps": bounds.max_pps});
            json!({"subsystem": name, "bounds": bounds})
        };
        let hosts = hosts.iter().map(|(name, rnics)| json!({"subsystem": name, "rnics": rnics}));
        return print_json(&json!({
            "subsystems": rows.iter().map(row).collect::<Vec<_>>(), "hosts": hosts.collect::<Vec<_>>(),
        }));
    }
    let mut table = Table::new(&["subsystem", "line rate", "packets"], &[1, 2]);
    for (name, bounds) in rows {
        table.row(vec![name, format!("{}bit/s", si(bounds.max_bps)), format!("{}/s", si(bounds.max_pps))]);
    }
    let mut inside = Table::new(&["host, for `kelpie host`", "RNICs"], &[1]);
    for (name, rnics) in hosts {
        inside.row(vec![name, rnics.to_string()]);
    }
    print(&format!("{}\n{}", table.render(""), inside.render("")))
}

fn show(args: &NamedSubsystem, common: Common) -> anyhow::Result<()> {
    let text = match kind(&args.subsystem)? {
        SubsystemKind::Simulated(model) => load_simulated(model)?.yaml(),
        SubsystemKind::Pair(path) => pair_source(&path)?,
    };
    if common.json { print_json(&json!({"subsystem": args.subsystem, "yaml": text})) } else { print(&text) }
}

fn check(args: &NamedSubsystem, common: Common) -> anyhow::Result<()> {
    let bounds = open_subsystem(&args.subsystem)?.subsystem().bounds();
    if common.json {
        return print_json(&json!({
            "subsystem": args.subsystem, "ready": true,
            "bounds": bounds,
        }));
    }
    print(&format!("{}: ready, {}bit/s and {}packets/s\n", args.subsystem, si(bounds.max_bps), si(bounds.max_pps)))?;
    // JSON is YAML too, so that it can go into the pair file as it is.
    if matches!(kind(&args.subsystem)?, SubsystemKind::Pair(_)) {
        print(&format!("bounds: {}\n", json!(bounds)))
    } else {
        Ok(())
    }
}

fn generate(args: &GenerateArgs, common: Common) -> anyhow::Result<()> {
    let seed = common.seed_or_default();
    let yaml = generated_model::model(seed);
    if let Some(path) = &args.out {
        write_file(path, yaml.as_bytes(), false).map_err(|error| {
            let is_taken = error.kind() == ErrorKind::AlreadyExists;
            let hint = if is_taken { " (remove it, or name another file with --out)" } else { "" };
            anyhow::anyhow!(error).context(format!("{}{hint}", path.display()))
        })?;
    }
    match (&args.out, common.json) {
        (_, true) => print_json(&json!({"seed": seed, "out": args.out, "yaml": yaml})),
        (Some(_), false) => Ok(()),
        (None, false) => print(&yaml),
    }
}
