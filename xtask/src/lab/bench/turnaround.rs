//! How long an experiment takes besides its traffic: within a campaign, and with everything set up anew.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::kelpie::{Kelpie, median};

/// Experiments of the campaign.
const EXPERIMENTS: &str = "30";

/// As little traffic as there can be.
const SESSION: &str = "{warm_up_ms: 0, sample_ms: 10, samples: 1, drain_ms: 500}";

/// Up to 64 QPs with 4 MRs each at both ends; messages that drain at once.
const SPACE: &str = "kelpie: space/1
memory_requester: [dram:0]
memory_responder: [dram:0]
mrs: {min: 1, max: 4}
mr_size: {min: 4KiB, max: 64KiB}
pinned_per_host: {min: 1B, max: 16MiB}
qp_type: [RC]
opcode: [SEND, WRITE]
mtu: [1024]
qps: {min: 1, max: 64}
total_qps: {min: 1, max: 64}
send_wq_depth: [16]
recv_wq_depth: [16]
send_batch: [1]
recv_batch: [1]
sge_count: [1]
requests: [1]
message: {min: 64B, max: 1KiB}
bidirectional: [false]
loopback: [false]
";

/// What the lab's device is asked for at the end.
const MANY_QPS: u32 = 2000;

/// Prints seconds per experiment both ways, and whether many QPs come up.
pub fn run(kelpie: &Kelpie) -> Result<()> {
    let pair = kelpie.pair(SESSION)?;
    let (of_campaign, workloads) = campaign(kelpie, &pair)?;
    println!(
        "seconds per experiment, {} workloads of up to 64 QPs and 256 MRs:\n  \
         within one campaign          {of_campaign:.3}",
        workloads.len()
    );
    let mut fresh = Vec::new();
    for workload in &workloads {
        let file = kelpie.write("workload.yaml", &workload.to_string())?;
        kelpie.restart_agents()?;
        let started = Instant::now();
        kelpie.measure(&file, &pair)?;
        fresh.push(started.elapsed().as_secs_f64());
    }
    let of_fresh = fresh.iter().sum::<f64>() / fresh.len() as f64;
    let middle = median(fresh).context("the campaign has experiments")?;
    println!("  new agents and controllers   {of_fresh:.3}, median {middle:.3}, without the agents' own start");
    println!("  ratio                        {:.2}", of_campaign / of_fresh);
    many(kelpie)
}

/// Mean seconds per experiment of a campaign, and its workloads.
fn campaign(kelpie: &Kelpie, pair: &Path) -> Result<(f64, Vec<Value>)> {
    let space = kelpie.write("space.yaml", SPACE)?;
    let database = kelpie.folder.join("turnaround.db");
    for name in ["turnaround.db", "turnaround.db-wal", "turnaround.db-shm"] {
        let _ = std::fs::remove_file(kelpie.folder.join(name));
    }
    let started = Instant::now();
    let words = ["campaign", "run", "--json", "--algorithm", "random", "--budget", EXPERIMENTS, "--db"];
    let run = kelpie.command(&words, &[&database, "--subsystem".as_ref(), pair, "--space".as_ref(), &space])?;
    let elapsed = started.elapsed().as_secs_f64();
    if !run.status.success() {
        bail!("the campaign failed: {}", String::from_utf8_lossy(&run.stderr).trim());
    }
    let shown = kelpie.command(&["campaign", "show", "--json", "--experiments", "--db"], &[&database])?;
    let shown: Value = serde_json::from_slice(&shown.stdout).context("kelpie printed no JSON")?;
    let log = shown["log"].as_array().with_context(|| format!("no log in {shown}"))?;
    let workloads: Vec<Value> = log.iter().map(|experiment| experiment["workload"].clone()).collect();
    Ok((elapsed / workloads.len().max(1) as f64, workloads))
}

/// One workload with many QPs: how long it takes, or what the device says.
fn many(kelpie: &Kelpie) -> Result<()> {
    let pair = kelpie.pair("{warm_up_ms: 500, sample_ms: 1000, samples: 1, drain_ms: 5000}")?;
    let workload = format!(
        "kelpie: workload/1\nflows:\n  - from: a\n    to: b\n    qp_type: RC\n    qps: {MANY_QPS}\n    mtu: 1024\n    \
         wq_depth: {{send: 1, recv: 1}}\n    batch: {{send: 1, recv: 1}}\n    pattern: [{{op: WRITE, sge: [64]}}]\n    \
         memory:\n      from: {{device: \"dram:0\", mrs: 1, mr_size: 4096}}\n      \
         to: {{device: \"dram:0\", mrs: 1, mr_size: 4096}}\n"
    );
    let file = kelpie.write("workload.yaml", &workload)?;
    let started = Instant::now();
    match kelpie.measure(&file, &pair) {
        Ok(report) => println!(
            "{MANY_QPS} QPs came up, carried traffic ({:.0} messages/s) and went down in {:.1} s",
            report["directions"][0]["messages_per_sec"].as_f64().unwrap_or(0.0),
            started.elapsed().as_secs_f64()
        ),
        Err(error) => println!("{MANY_QPS} QPs did not come up: {error:#}"),
    }
    Ok(())
}
