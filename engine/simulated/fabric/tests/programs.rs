//! Programs on fabrics, from files to answers.

use kelpie_fabric::answer::ProgramAnswer;
use kelpie_fabric::experiment::{Experiment, FabricError, read_graph};
use kelpie_fabric::packet_settings::{ALGORITHMS, set, settings};

fn experiment(fabric: &str, job: &str) -> Result<Experiment, FabricError> {
    let graph = read_graph("f", &format!("kelpie: topology/1\nfabric: {fabric}\n"))?;
    Experiment::new(graph, "j", job)
}

fn packets(fabric: &str, job: &str, cc: &str, changes: &[&str]) -> ProgramAnswer {
    let experiment = experiment(fabric, &format!("kelpie: job/1\n{job}\n")).expect("valid");
    let mut settings = settings(experiment.network(), cc).expect("known");
    for change in changes {
        set(&mut settings, change).expect("valid");
    }
    experiment.by_packets(&settings, 1).expect("a network").0
}

const HOSTS: &str = "{template: spectrum-x, gpus: 16}";

#[test]
fn every_congestion_control_fills_an_empty_way_inside_of_a_host_and_outside() {
    for cc in ALGORITHMS {
        for (to, least) in [(1, 29.0), (8, 209.0)] {
            let job = format!("flows: [{{from: 0, to: {to}, bytes: 10MiB}}]");
            let took = packets(HOSTS, &job, cc, &[]).flows.expect("a flow").most_us;
            assert!((least..1.25 * least).contains(&took), "{cc}: {took} µs to gpu{to}");
        }
    }
}

#[test]
fn a_job_ends_when_its_last_gpu_does_whatever_its_last_step_is() {
    let job = "programs: [{gpus: 8, tensor: 8, steps: [{compute_us: 100}, {all_reduce: 1MiB, group: data}]}]";
    let end = packets(HOSTS, job, "dcqcn", &[]).jobs[0].end_us;
    assert_eq!(end, Some(100.0));
}

#[test]
fn what_never_ends_has_a_reason() {
    let failed = "flows: [{from: 0, to: 8, bytes: 10MiB}]\nfailures: [{link: [gpu8, leaf0], at_us: 50}]";
    let answer = packets(HOSTS, failed, "dcqcn", &["retries=1"]);
    let reasons = answer.network.expect("packets").unfinished_because;
    assert_eq!((answer.unfinished, reasons.get("gave_up")), (1, Some(&1)), "{reasons:?}");
    let short = "flows: [{from: 0, to: 8, bytes: 10MiB}]";
    let reasons = packets(HOSTS, short, "dcqcn", &["end_us=50"]).network.expect("packets").unfinished_because;
    assert_eq!(reasons.get("out_of_time"), Some(&1), "{reasons:?}");
    let shares = packets(HOSTS, failed, "dcqcn", &["retries=1"]).network.expect("packets").hot_links;
    assert!(shares.iter().all(|hot| hot.use_share <= 1.0), "{shares:?}");
}

#[test]
fn levels_agree_where_nothing_is_shared() {
    let job = "kelpie: job/1\nprograms: [{steps: [{all_to_all: 16MiB}]}]\n";
    let experiment = experiment(HOSTS, job).expect("valid");
    let settings = settings(experiment.network(), "none").expect("known");
    let packets = experiment.by_packets(&settings, 1).expect("a network").0.end_us;
    let flows = experiment.by_flows(&settings).expect("a network").0.end_us;
    let formulas = experiment.by_formulas().end_us;
    for other in [flows, formulas] {
        assert!((0.8..1.1).contains(&(other / packets)), "packets {packets}, flows {flows}, formulas {formulas}");
    }
}

#[test]
fn files_of_other_tools_run_and_what_is_too_much_is_refused_before_it_is_made() {
    let aicb = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 16\n1\n\
                layer -1 1000 ALLREDUCE 1048576 1 NONE 0 1 ALLREDUCE 1048576 1\n";
    let goal = "num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\nl1: recv 8b from 0\n}\n";
    for job in [aicb, goal] {
        let experiment = experiment(HOSTS, job).expect("valid");
        let settings = settings(experiment.network(), "dcqcn").expect("known");
        let answer = experiment.by_packets(&settings, 1).expect("a network").0;
        assert!(answer.unfinished == 0 && answer.end_us > 0.04, "{answer:?}");
    }
    let large = "kelpie: job/1\nprograms: [{steps: [{all_reduce: 16MiB, algorithm: ring}]}]\n";
    let error = experiment("{template: spectrum-x, gpus: 65536}", large).err().expect("too much").to_string();
    assert!(error.contains("transfers with this step; at most"), "{error}");
}
