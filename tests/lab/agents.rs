//! What dies or is missing: errors name the host, the others clean up, the next experiment runs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{in_lab, moved, workload};
use crate::support::Ran;

#[test]
#[ignore = "needs the lab"]
fn the_death_of_an_agent_names_its_host_and_the_next_experiment_runs() {
    in_lab(|lab| {
        let pair = lab.pair(5000);
        lab.is_clean();
        let file = lab.bench.write("workload.yaml", workload("WRITE"));
        let mut command = lab.bench.command(&["measure", file, "--subsystem", pair]);
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        lab.wait_for("b", "traffic", |qps, _| qps == 5);
        lab.in_guest("b", "sleep 1; kill -9 $(cat /run/agent.pid)");
        let killed = Instant::now();
        let ran = Ran::of(running.wait_with_output().expect("it ends"));
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("host b"), "{ran:?}");
        assert!(killed.elapsed() < Duration::from_secs(10), "within seconds, not {:?}", killed.elapsed());
        lab.wait_for("a", "the survivor tears down", |qps, mrs| qps == 1 && mrs == 0);
        lab.wait_agent("b");
        let report = lab.measure(&workload("WRITE"), lab.pair(2000));
        assert!(moved(&report, "messages_per_sec") > 100.0, "{report}");
        lab.is_clean();
    });
}

#[test]
#[ignore = "needs the lab"]
fn the_death_of_the_controller_leaves_nothing_on_the_hosts() {
    in_lab(|lab| {
        let pair = lab.pair(5000);
        let file = lab.bench.write("workload.yaml", workload("SEND"));
        let mut controller =
            lab.bench.command(&["measure", file, "--subsystem", pair]).spawn().expect("the binary starts");
        lab.wait_for("a", "traffic", |qps, _| qps == 5);
        controller.kill().expect("it runs");
        controller.wait().expect("it was ours");
        let killed = Instant::now();
        lab.is_clean();
        assert!(killed.elapsed() < Duration::from_secs(10), "within seconds, not {:?}", killed.elapsed());
    });
}

#[test]
#[ignore = "needs the lab"]
fn what_a_guest_does_not_have_is_said_with_its_host() {
    in_lab(|lab| {
        let gpu = workload("WRITE").replacen("dram:0", "gpu:0", 1);
        let ran = lab.bench.run(&["measure", lab.bench.write("gpu.yaml", &gpu), "--subsystem", lab.pair(500)]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("host a: gpu:0"), "{ran:?}");
        let missing =
            std::fs::read_to_string(lab.bench.path("pair.yaml")).expect("just written").replace("rxe0", "mlx5_7");
        let ran = lab.bench.run(&["measure", "gpu.yaml", "--subsystem", lab.bench.write("missing.yaml", &missing)]);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("no RDMA device mlx5_7; this host has: rxe0"), "{ran:?}");
    });
}
