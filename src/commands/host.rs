//! `kelpie host`: which links of a host are slow, in words and as JSON. The judging lives in `kelpie_diagnosis`.

pub mod matrix;
pub mod watch;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::discover::{discover, fill_in};
use kelpie_diagnosis::host::{HostQuestion, HostVerdict, diagnose as judge};
use kelpie_diagnosis::import::{import, to_nccl};
use kelpie_examine::files::read_file;
use kelpie_monitor::check::Check;
use kelpie_monitor::machine::Machine;
use kelpie_reports::for_operators::host::text;
use kelpie_text::clean;
use kelpie_topology::HostTopology;
use serde_json::json;

use crate::args::Common;
use crate::cli::{DiagnoseArgs, TopologyArgs};
use crate::exit;
use crate::output::{print, print_json};

/// Runs `kelpie host topology`.
pub fn topology(args: &TopologyArgs, common: Common) -> anyhow::Result<ExitCode> {
    let (topology, readings, devices) = found(args)?;
    if args.nccl {
        print(&to_nccl(&topology).map_err(|problem| anyhow::anyhow!("{problem}"))?)?;
        return Ok(exit::HEALTHY);
    }
    let yaml = topology.to_yaml();
    if common.json {
        print_json(&json!({"topology": yaml, "readings": readings, "devices": devices}))?;
        return Ok(exit::HEALTHY);
    }
    let mut text = yaml;
    for device in &devices {
        let _ = writeln!(text, "# {}", clean(device));
    }
    for reading in &readings {
        let fix = reading.fix.as_ref().map_or_else(String::new, |fix| format!(" -> {fix}"));
        let (state, about, name, summary) = (reading.state.name(), &reading.about, &reading.name, &reading.summary);
        let _ = writeln!(text, "# {state}: {about} {name}: {summary}{fix}");
    }
    print(&text)?;
    Ok(exit::HEALTHY)
}

/// The host that the arguments name, readings that bear on its links, and what its devices are.
fn found(args: &TopologyArgs) -> anyhow::Result<(HostTopology, Vec<Check>, Vec<String>)> {
    if let Some(name) = &args.subsystem {
        return Ok((matrix::by_name(name)?.topology, Vec::new(), Vec::new()));
    }
    if let Some(path) = &args.from {
        let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
        let found = import(&name, &read_file(path)?).map_err(|problem| anyhow::anyhow!("{problem}"))?;
        return Ok((found.topology, Vec::new(), found.notes));
    }
    let machine = args.root.as_ref().map_or_else(Machine::live, Machine::recorded);
    let found = discover(&machine).map_err(|problem| anyhow::anyhow!("{}: {problem}", machine.root().display()))?;
    Ok((found.topology, found.readings, found.devices))
}

/// Runs `kelpie host diagnose`.
pub fn diagnose(args: &DiagnoseArgs, common: Common) -> anyhow::Result<ExitCode> {
    let host = HostTopology::from_bytes(&args.topology.display().to_string(), &read_file(&args.topology)?)?;
    let matrices: Vec<Matrix> = args.matrices.iter().map(|path| read_matrix(path)).collect::<anyhow::Result<_>>()?;
    let baseline = args.baseline.as_deref().map(read_matrix).transpose()?;
    let (matrix, repeats) = matrices.split_first().context("name a matrix")?;
    let question = HostQuestion { host: &host, matrix, repeats, baseline: baseline.as_ref(), busy: args.busy };
    let mut found =
        judge(question).with_context(|| format!("{} on {}", args.matrices[0].display(), args.topology.display()))?;
    let machine = args.root.as_ref().map(Machine::recorded).or_else(|| args.live.then(Machine::live));
    if let Some(machine) = machine {
        fill_in(&mut found.causes, &machine);
    }
    if common.json { print_json(&found) } else { print(&text(&found)) }?;
    Ok(match found.verdict {
        HostVerdict::Healthy => exit::HEALTHY,
        HostVerdict::Abnormal => exit::anomalous(),
        HostVerdict::Undecided => exit::failed(),
    })
}

fn read_matrix(path: &Path) -> anyhow::Result<Matrix> {
    let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
    Ok(Matrix::from_bytes(&name, &read_file(path)?)?)
}
