//! `kelpie job run` and `job pairs`: jobs that Kelpie runs itself, as records of their operations. What is simulated
//! lives in `kelpie_fabric`, what is measured in the agents.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context as _, bail};
use kelpie_agent::PairFile;
use kelpie_agent::ranks::{AgentRanks, DelayedRank, RanksFile};
use kelpie_collectives::rounds::{RankCluster as _, Rounds, Transfer};
use kelpie_diagnosis::job::Operation;
use kelpie_engine::MeasureError;
use kelpie_examine::files::read_file;
use kelpie_examine::subsystem::OpenedSubsystem;
use kelpie_examine::subsystem::{SubsystemKind, kind};
use kelpie_fabric::{InjectedFault, SimulatedRanks};
use kelpie_paths::catalog::Catalog;
use kelpie_spaces::document::utf8;
use kelpie_spaces::{Host, Workload};

use super::records::Records;
use crate::args::{Common, SubsystemArgs};
use crate::cli::{JobCollective, PairsArgs, RunJobArgs};
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::note;
use crate::stop;

/// Runs `kelpie job run`.
pub fn run(args: &RunJobArgs, common: Common) -> anyhow::Result<ExitCode> {
    let mut records = Records::new(common.json);
    let mut written = Ok(());
    let mut give = |transfer: Transfer| {
        if written.is_ok() {
            written = records.write(&operation(&transfer));
        }
    };
    match (&args.agents, &args.topology) {
        (Some(agents), _) => on_agents(agents, args, &mut give)?,
        (None, Some(topology)) => simulated(topology, args, common, &mut give)?,
        (None, None) => bail!("name a cluster with --topology, or agents with --agents"),
    }
    written?;
    records.flush()?;
    Ok(exit::HEALTHY)
}

fn from_iteration(args: &RunJobArgs) -> u32 {
    args.from_iteration.unwrap_or(args.iterations / 2)
}

fn simulated(topology: &Path, args: &RunJobArgs, common: Common, give: &mut dyn FnMut(Transfer)) -> anyhow::Result<()> {
    let cluster = read_cluster(topology)?;
    let ranks = args.ranks.unwrap_or_else(|| cluster.ranks());
    let job = match args.collective {
        JobCollective::Ring => Rounds::ring_all_reduce(ranks, args.size, args.iterations),
        JobCollective::Pairs => Rounds::all_pairs(ranks, args.size, args.iterations),
    };
    let mut simulated = SimulatedRanks {
        cluster: &cluster,
        is_planned: args.is_planned,
        noise: args.noise,
        faults: args.fault.clone(),
        from_iteration: from_iteration(args),
        seed: common.seed_or_default(),
    };
    simulated.run(&job, give).with_context(|| topology.display().to_string())
}

fn on_agents(path: &Path, args: &RunJobArgs, give: &mut dyn FnMut(Transfer)) -> anyhow::Result<()> {
    if args.collective != JobCollective::Ring {
        bail!("agents run rings: leave out --collective");
    }
    let file = RanksFile::from_bytes(path, &read_file(path)?)?;
    let ranks = file.ranks.len() as u32;
    let late = args.fault.iter().map(|fault| match *fault {
        InjectedFault::Delay { rank, by_us } if rank < ranks => {
            Ok(DelayedRank { rank, by_us: by_us as u64, from_iteration: from_iteration(args) })
        }
        InjectedFault::Delay { rank, .. } => bail!("fault: no rank {rank}; there are {ranks}, counted from 0"),
        _ => bail!("of the faults, agents know `delay:RANK:TIME`; cause others where they happen (tc, kill -STOP)"),
    });
    let late = late.collect::<anyhow::Result<_>>()?;
    let job = Rounds::ring_all_reduce(ranks, args.size, args.iterations);
    let balance = args.balance.as_deref().map(read_catalog).transpose()?;
    if balance.is_some() && args.qps < 2 {
        bail!("--balance moves single QPs of a message: add --qps 8, say");
    }
    let (pause, patience, qps) = (args.pause, args.patience, args.qps);
    let mut agents = AgentRanks { file, pause, late, patience, qps, balance, say: note };
    agents.run(&job, give).with_context(|| path.display().to_string())
}

fn read_catalog(path: &Path) -> anyhow::Result<Catalog> {
    let name = path.display().to_string();
    Ok(Catalog::from_yaml(&name, utf8(&name, &read_file(path)?)?)?)
}

fn operation(transfer: &Transfer) -> Operation {
    let Transfer { iteration, from, to, bytes, entered, begin, end, .. } = *transfer;
    let iteration = u64::from(iteration);
    Operation { iteration, source: from, destination: Some(to), bytes, entered, begin, end }
}

/// Two hosts that can be measured, and their ranks.
struct RankedPair {
    opened: OpenedSubsystem,
    ranks: [u32; 2],
}

/// Runs `kelpie job pairs`.
pub fn pairs(args: &PairsArgs, common: Common) -> anyhow::Result<ExitCode> {
    let (mut pairs, names) = open(&args.subsystems)?;
    for (rank, name) in names.iter().enumerate() {
        note(&format!("rank {rank}: {name}"));
    }
    let stop = stop::on_signals("stopping after this pair; interrupt again to stop now")?;
    let mut records = Records::new(common.json);
    let begin = Instant::now();
    let ways = [(Host::A, Host::B), (Host::B, Host::A)];
    let workloads = ways.map(|(from, to)| workload(from, to, args.size));
    for iteration in 0..args.rounds {
        for pair in &mut pairs {
            for ((from, to), workload) in ways.iter().zip(&workloads) {
                if stop.load(Ordering::Relaxed) {
                    records.flush()?;
                    return Ok(exit::failed());
                }
                let rank = |host: Host| pair.ranks[usize::from(host == Host::B)];
                let at = begin.elapsed().as_secs_f64() * 1e6;
                let measured = pair.opened.subsystem().measure(workload);
                let measured = match measured {
                    Ok(measured) => measured,
                    Err(error @ MeasureError::Unsupported { .. }) => return Err(error.into()),
                    // An agent that is away says nothing of the hosts' connection.
                    Err(error) => {
                        let error = kelpie_engine::chain(&error);
                        note(&format!("warning: round {iteration}, rank {} to {}: {error}", rank(*from), rank(*to)));
                        continue;
                    }
                };
                let mean = measured.mean();
                let rates = mean.iter().flat_map(|mean| &mean.directions);
                let rates = rates.into_iter().find(|rates| rates.from == *from && rates.to == *to);
                let per_second = rates.map_or(0.0, |rates| rates.messages_per_sec);
                // One message at a time: what one takes is what all take, by their number.
                let end = (per_second > 0.0).then(|| at + 1e6 / per_second);
                let (source, destination) = (rank(*from), Some(rank(*to)));
                let iteration = u64::from(iteration);
                let (begin, entered) = (Some(at), None);
                records.write(&Operation { iteration, source, destination, bytes: args.size, entered, begin, end })?;
                records.flush()?;
            }
        }
    }
    Ok(exit::HEALTHY)
}

/// Opens pairs; each agent is a rank, in the order in which they are named first.
fn open(subsystems: &[String]) -> anyhow::Result<(Vec<RankedPair>, Vec<String>)> {
    let mut names: Vec<String> = Vec::new();
    let mut rank = |name: String| {
        let known = names.iter().position(|one| *one == name);
        known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        }) as u32
    };
    let mut pairs = Vec::new();
    for subsystem in subsystems {
        let ranks = match kind(subsystem)? {
            SubsystemKind::Simulated(_) => ["a", "b"].map(|host| rank(format!("{subsystem} {host}"))),
            SubsystemKind::Pair(path) => {
                let hosts = PairFile::read(&path)?.hosts;
                [hosts.a.agent, hosts.b.agent].map(&mut rank)
            }
        };
        let one = SubsystemArgs { subsystem: subsystem.clone(), set: Vec::new(), fix: Vec::new() };
        pairs.push(RankedPair { opened: one.open()?, ranks });
    }
    Ok((pairs, names))
}

/// WRITEs of one size, one at a time.
fn workload(from: Host, to: Host, bytes: u64) -> Workload {
    let text = format!(
        "kelpie: workload/1\nflows:\n  - from: {from}\n    to: {to}\n    qp_type: RC\n    qps: 1\n    mtu: 4096\n    \
         wq_depth: {{send: 1, recv: 1}}\n    batch: {{send: 1, recv: 1}}\n    pattern: [{{op: WRITE, sge: [{bytes}]}}]\n    \
         memory:\n      from: {{device: \"dram:0\", mrs: 1, mr_size: {bytes}}}\n      \
         to: {{device: \"dram:0\", mrs: 1, mr_size: {bytes}}}\n"
    );
    kelpie_spaces::workload_from_bytes("pairs", text.as_bytes()).expect("a workload that keeps the rules")
}
