//! `kelpie fabric run`, `compare`, `flows` and `topology`: fabrics at the level of packets.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kelpie_agent::ranks::{AgentRanks, RanksFile};
use kelpie_examine::files::{read_file_up_to, replace};
use kelpie_fabric::answer::ProgramAnswer;
use kelpie_fabric::experiment::{Experiment, read_graph};
use kelpie_fabric::packet_settings::{set, settings};
use kelpie_fabric::peer::{FlowsAnswer, Peer, PeerRun};
use kelpie_packets::{MessageTimes, Settings};
use kelpie_spaces::document::utf8;
use kelpie_topology::{Fabric, FabricCable, FabricGraph};
use serde_json::json;

use crate::args::Common;
use crate::cli::fabric::{CompareArgs, Detail, FlowsArgs, PeerName, RunArgs, ScenarioArgs, TopologyArgs};
use crate::exit;
use crate::output::{note, print, print_json};

/// Most of a file of flows. Source: our choice, sixteen million flows.
const MOST_BYTES: u64 = 1 << 30;
/// A run that is to take longer, or more memory, says so before it begins.
const LONG_SECONDS: f64 = 10.0;
const MUCH_MEMORY: f64 = 2e9;

fn text(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.display().to_string();
    let bytes = read_file_up_to(path, MOST_BYTES)?;
    let text = utf8(&name, &bytes)?.to_owned();
    Ok((name, text))
}

/// Simulates a job, and says what came of it; a job that never ends exits with 1.
pub fn run(args: &RunArgs, common: Common) -> anyhow::Result<ExitCode> {
    let experiment = experiment(&args.scenario)?;
    let settings = chosen(&args.scenario, &experiment, &args.cc, None, common)?;
    let (answer, times) = answer(&experiment, args.level, &settings, args.scenario.threads)?;
    if let Some(path) = &args.transfers {
        replace(path, |out| Ok(experiment.write_transfers(&times, out)?))
            .with_context(|| path.display().to_string())?;
    }
    if common.json { print_json(&answer) } else { print(&answer.text()) }?;
    Ok(if answer.unfinished > 0 { exit::anomalous() } else { exit::HEALTHY })
}

/// The same job with several settings or levels.
pub fn compare(args: &CompareArgs, common: Common) -> anyhow::Result<ExitCode> {
    let experiment = experiment(&args.scenario)?;
    let mut variants: Vec<Option<&String>> = args.variant.iter().map(Some).collect();
    variants.extend(args.variant.is_empty().then_some(None));
    let mut answers: Vec<(String, ProgramAnswer)> = Vec::new();
    for detail in &args.levels {
        // Only packets have congestion control and other settings.
        let [ccs, sets] = [args.cc.len(), variants.len()].map(|all| if *detail == Detail::Packets { all } else { 1 });
        for cc in &args.cc[..ccs] {
            for variant in &variants[..sets] {
                let settings = chosen(&args.scenario, &experiment, cc, *variant, common)?;
                let detail_name = format!("{detail:?}").to_lowercase();
                let named = *detail == Detail::Packets;
                let cc_name = (named && (args.cc.len() > 1 || args.variant.is_empty())).then_some(cc);
                let parts = [(args.levels.len() > 1).then_some(&detail_name), cc_name, variant.filter(|_| named)];
                let name: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
                answers.push((name.join(" "), answer(&experiment, *detail, &settings, args.scenario.threads)?.0));
            }
        }
    }
    if let Some(path) = &args.agents {
        let file = RanksFile::from_bytes(path, &read_file_up_to(path, MOST_BYTES)?)?;
        let (pause, patience) = (Duration::ZERO, Duration::from_secs(30));
        let mut ranks = AgentRanks { file, pause, late: Vec::new(), patience, qps: 1, balance: None, say: note };
        let answer = experiment.on_ranks(&mut ranks).with_context(|| path.display().to_string())?;
        answers.push(("hosts".to_owned(), answer));
    }
    if common.json {
        let rows: Vec<_> = answers.iter().map(|(name, answer)| json!({"variant": name, "answer": answer})).collect();
        print_json(&json!({"variants": rows}))?;
    } else {
        print(&kelpie_fabric::side_by_side(&answers))?;
    }
    let is_open = answers.iter().any(|(_, answer)| answer.unfinished > 0);
    Ok(if is_open { exit::anomalous() } else { exit::HEALTHY })
}

/// Flows from files of another simulator.
pub fn flows(args: &FlowsArgs, common: Common) -> anyhow::Result<ExitCode> {
    let peer = if args.peer == PeerName::Simai { Peer::SimAi } else { Peer::Hpcc };
    let (topology, flows, config) = (text(&args.topology)?, text(&args.flows)?, text(&args.config)?);
    let mut run = PeerRun::read(peer, [&topology.0, &topology.1], [&flows.0, &flows.1], [&config.0, &config.1])?;
    run.settings.seed = common.seed_or_default();
    let answer = FlowsAnswer::of(&run, args.threads.into()).with_context(|| topology.0.clone())?;
    if common.json { print_json(&answer) } else { print(&answer.text()) }?;
    Ok(if answer.completions().len() < answer.flows.len() { exit::anomalous() } else { exit::HEALTHY })
}

/// A template as a file.
pub fn topology(args: &TopologyArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut yaml =
        format!("kelpie: {}\nfabric:\n  template: {}\n  gpus: {}\n", Fabric::FORMAT, args.template, args.gpus);
    for assignment in &args.set {
        let (name, value) =
            assignment.split_once('=').with_context(|| format!("--set {assignment}: write NAME=VALUE"))?;
        let _ = writeln!(yaml, "  {name}: {value}");
    }
    let fabric = Fabric::from_yaml("the template", &yaml)?;
    let graph = FabricGraph::of(&fabric);
    if common.json {
        let names = graph.names();
        let name = |end: u32| names[end as usize].as_str();
        let link =
            |cable: &FabricCable| json!({"link": cable.ends.map(name), "gbps": cable.gbps, "delay_ns": cable.delay_ns});
        let links: Vec<_> = graph.cables.iter().map(link).collect();
        print_json(&json!({"fabric": fabric, "nodes": names, "links": links}))?;
    } else {
        print(&if args.links { graph.links_text() } else { fabric.to_yaml() })?;
    }
    Ok(exit::HEALTHY)
}

fn experiment(args: &ScenarioArgs) -> anyhow::Result<Experiment> {
    let (name, topology) = text(&args.topology)?;
    let graph = read_graph(&name, &topology)?;
    let (name, job) = text(&args.job)?;
    Ok(Experiment::new(graph, &name, &job)?)
}

fn chosen(
    args: &ScenarioArgs,
    experiment: &Experiment,
    cc: &str,
    variant: Option<&String>,
    common: Common,
) -> anyhow::Result<Settings> {
    let mut chosen = match &args.config {
        Some(config) => {
            let (name, config) = text(config)?;
            kelpie_fabric::peer::settings(Peer::SimAi, &name, &config)?
        }
        None => settings(experiment.network(), cc).map_err(|rule| anyhow!("--cc: {rule}"))?,
    };
    chosen.seed = common.seed_or_default();
    for assignment in args.set.iter().chain(variant) {
        set(&mut chosen, assignment).map_err(|rule| anyhow!("--set {rule}"))?;
    }
    Ok(chosen)
}

fn answer(
    experiment: &Experiment,
    detail: Detail,
    settings: &Settings,
    threads: u8,
) -> anyhow::Result<(ProgramAnswer, Vec<MessageTimes>)> {
    if detail == Detail::Packets {
        let estimate = experiment.estimate(settings)?;
        if estimate.seconds > LONG_SECONDS || estimate.memory > MUCH_MEMORY {
            note(&format!(
                "{}hop-packets to simulate: about {} and {}B of memory",
                crate::output::si(estimate.hop_packets),
                crate::output::time((estimate.seconds * 1e9) as u64),
                crate::output::si(estimate.memory)
            ));
        }
    }
    Ok(match detail {
        Detail::Packets => experiment.by_packets(settings, threads.into())?,
        Detail::Flows => experiment.by_flows(settings)?,
        Detail::Analytic => (experiment.by_formulas(), Vec::new()),
    })
}
