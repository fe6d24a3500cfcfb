//! The files of other simulators, with the completion times that these have. Source: `SimAI` v1.6 with its pauses
//! mended, and HPCC's simulator, run with these files.

use kelpie_collectives::program::Programs;
use kelpie_fabric::carried::{QpUse, network, traffic};
use kelpie_fabric::peer::{FlowsAnswer, Peer, PeerRun, settings};
use kelpie_topology::{Fabric, FabricGraph};

fn file(name: &str) -> String {
    let path = format!("{}/tests/peers/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).expect("a file of the tests")
}

/// A topology as HPCC's simulator has it: without what `SimAI`'s has in its first line beside.
fn of_hpcc(topology: &str) -> String {
    let (first, rest) = topology.split_once('\n').expect("lines");
    let words: Vec<&str> = first.split(' ').collect();
    format!("{} {} {}\n{rest}", words[0], words[3], words[4])
}

fn answer(peer: Peer, case: &str, config: &str, seed: u64) -> FlowsAnswer {
    let topology = file(&format!("{case}.topo"));
    let topology = if peer == Peer::Hpcc { of_hpcc(&topology) } else { topology };
    let (flows, config) = (file(&format!("{case}.flow")), file(&format!("{config}.conf")));
    let mut run = PeerRun::read(peer, ["topology", &topology], ["flows", &flows], ["config", &config]).expect("valid");
    run.settings.seed = seed;
    let answer = FlowsAnswer::of(&run, 1).expect("a network");
    assert_eq!(answer.completions().len(), answer.flows.len(), "{case}: all flows end");
    answer
}

/// Mean and largest completion time. Units: µs.
fn mean_and_most(answer: &FlowsAnswer) -> [f64; 2] {
    let times = answer.completions();
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64 / 1e3;
    [mean, times.last().map_or(0.0, |most| *most as f64 / 1e3)]
}

#[test]
fn completion_times_are_those_of_the_other_simulators() {
    use Peer::{Hpcc, SimAi};
    // Case, configuration, whose; mean and largest completion in µs; tolerance: 0.5 % where nothing is random, else 5
    // %.
    for (case, config, peer, expected, tolerance) in [
        ("single", "simai", SimAi, [844.092, 844.092], 0.005),
        ("single", "simai", Hpcc, [834.091, 834.091], 0.005),
        ("incast", "simai", SimAi, [675.8, 676.1], 0.005),
        ("incast", "simai", Hpcc, [667.8, 668.1], 0.005),
        ("incast", "dctcp", SimAi, [675.8, 676.1], 0.005),
        ("incast", "dctcp", Hpcc, [667.8, 668.1], 0.005),
        ("incast", "dcqcn", SimAi, [1115.6, 1130.9], 0.05),
        ("incast", "dcqcn", Hpcc, [1093.1, 1110.6], 0.05),
        ("incast", "hpcc", SimAi, [714.5, 749.6], 0.05),
        ("incast", "hpcc", Hpcc, [695.1, 748.6], 0.05),
        ("incast", "small-buffer", SimAi, [947.8, 1022.0], 0.07),
        ("incast", "small-buffer", Hpcc, [921.6, 1027.6], 0.07),
    ] {
        // Marks are random.
        let seeds = if tolerance > 0.01 { 8 } else { 1 };
        let all: Vec<[f64; 2]> = (0..seeds).map(|seed| mean_and_most(&answer(peer, case, config, seed))).collect();
        for (place, expected) in expected.iter().enumerate() {
            let seen = all.iter().map(|one| one[place]).sum::<f64>() / f64::from(seeds as u32);
            assert!((seen / expected - 1.0).abs() < tolerance, "{case} {config} {peer:?}: {seen} not {expected}");
        }
    }
}

#[test]
fn a_permutation_on_a_fat_tree_takes_their_ways() {
    for (peer, expected) in [(Peer::SimAi, [2256.1, 3885.8]), (Peer::Hpcc, [2250.7, 3862.8])] {
        let seen = mean_and_most(&answer(peer, "fattree", "hpcc", 1));
        for (seen, expected) in seen.iter().zip(expected) {
            assert!((seen / expected - 1.0).abs() < 0.05, "{peer:?}: {seen} not {expected}");
        }
    }
}

#[test]
fn a_small_buffer_pauses_as_often_as_theirs() {
    // 106 and 93 pauses there. Marks are random: the mean of some seeds, within a quarter.
    let seeds = 8;
    for (peer, expected) in [(Peer::SimAi, 106.0), (Peer::Hpcc, 93.0)] {
        let pauses = (0..seeds).map(|seed| answer(peer, "incast", "small-buffer", seed).pfc_pauses as f64);
        let mean = pauses.sum::<f64>() / seeds as f64;
        assert!((mean / expected - 1.0).abs() < 0.25, "{peer:?}: {mean} pauses, not {expected}");
    }
    let queue = answer(Peer::SimAi, "incast", "dcqcn", 1).max_queue_bytes as f64;
    assert!((queue / 2_125e3 - 1.0).abs() < 0.1, "a queue of {queue} bytes");
}

/// Bus bandwidth of a job that `SimAI`'s documentation has. Units: GiB/s.
fn busbw(fabric: &str, job: &str, gpus: f64, bytes: u64) -> f64 {
    let fabric = Fabric::from_yaml("fabric", &format!("kelpie: topology/1\nfabric: {fabric}\n")).expect("valid");
    let graph = FabricGraph::of(&fabric);
    let job = format!("kelpie: job/1\nprograms: [{job}]\n");
    let (_, dag) = Programs::from_yaml("job", &job, graph.gpus(), graph.gpus_per_host).expect("valid");
    let config = file("simai.conf").replace("PACKET_PAYLOAD_SIZE 1000", "PACKET_PAYLOAD_SIZE 9000");
    let settings = settings(Peer::SimAi, "config", &config).expect("valid");
    let traffic = traffic(&dag, QpUse::PerTransfer);
    let outcome = kelpie_packets::run(&network(&graph), &settings, &traffic, &[], 1).expect("a network");
    let last = outcome.messages.iter().map(|message| message.done.expect("all end")).max().unwrap_or(0);
    bytes as f64 / f64::from(1 << 30) * 2.0 * (gpus - 1.0) / gpus / (last as f64 / 1e9)
}

#[test]
fn bus_bandwidths_are_those_that_simai_publishes() {
    let (small, large) = (16 << 20, 64 << 20);
    for (bytes, nvls, ring) in [(small, 148.88, 141.84), (large, 197.38, 160.60)] {
        let job = format!("{{send_us: 12, steps: [{{all_reduce: {bytes}, algorithm: nvls}}]}}");
        let seen = busbw("{template: spectrum-x, gpus: 8, nvlink_gbps: 1360}", &job, 8.0, bytes);
        assert!((seen / nvls - 1.0).abs() < 0.01, "NVLS, {bytes}: {seen} not {nvls}");
        let job = format!("{{send_us: 2, steps: [{{all_reduce: {bytes}, algorithm: ring}}]}}");
        let seen = busbw("{template: spectrum-x, gpus: 8, nvlink_gbps: 1440}", &job, 8.0, bytes);
        assert!((seen / ring - 1.0).abs() < 0.01, "ring, {bytes}: {seen} not {ring}");
    }
    let job = format!(
        "{{send_us: 2, tensor: 8, steps: [{{all_reduce: {small}, algorithm: ring, group: data, channels: 1}}]}}"
    );
    let seen = busbw("{template: spectrum-x, gpus: 256}", &job, 32.0, small);
    assert!((seen / 33.10 - 1.0).abs() < 0.01, "Spectrum-X: {seen} not 33.10");
}

#[test]
fn what_is_not_understood_is_named_with_its_line() {
    let read = |topology: &str, flows: &str, config: &str| {
        PeerRun::read(Peer::Hpcc, ["t", topology], ["f", flows], ["c", config]).expect_err("a mistake").to_string()
    };
    let (topology, flows, config) = (of_hpcc(&file("single.topo")), file("single.flow"), file("hpcc.conf"));
    for (error, expected) in [
        (read("3 1 2\n2\n0 2 100Gbp 1000ns 0\n", &flows, &config), "t:3: `100Gbp` should be a rate"),
        (read("3 1 2\n2\n0 2 100Gbps 1000ns 0\n", &flows, &config), "the file ends where a link's source should stand"),
        (read("3 1 2\n9\n", &flows, &config), "t:2: a switch is 9; it should be below 3"),
        (read(&topology, "1\n0 2 3 100 1000 2.0\n", &config), "f:2: a flow leads from a host"),
        (read(&topology, &flows, "CC_MODE 99\n"), "c:1: CC_MODE 99 is not simulated"),
        (read(&topology, &flows, "RATE_AI fast\n"), "c:1: `fast` is no value of RATE_AI"),
        (read(&topology, &flows, &format!("{config}\nSPEED 3\n")), "unknown key `SPEED`"),
        (read(&topology, &flows, &config.replace("MULTI_RATE 0", "MULTI_RATE 1")), "MULTI_RATE is not simulated"),
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_rate_without_thresholds_and_a_buffer_without_room_are_errors() {
    let run = |topology: String, config: String| {
        let (flows, config) = (file("single.flow"), config);
        let run = PeerRun::read(Peer::SimAi, ["t", &topology], ["f", &flows], ["c", &config]).expect("readable");
        FlowsAnswer::of(&run, 1).expect_err("no network").to_string()
    };
    let (topology, config) = (file("single.topo"), file("simai.conf"));
    let error = run(topology.replace("100Gbps", "800Gbps"), config.clone());
    assert!(error.contains("links of 800 Gbit/s have no thresholds for ECN"), "{error}");
    let error = run(topology.replace("1000ns", "1ms"), config.replace("BUFFER_SIZE 32", "BUFFER_SIZE 1"));
    assert!(error.contains("buffer of 1048576 bytes is too small for PFC"), "{error}");
}
