//! `kelpie host` and `kelpie job`: the published example, settings, noise, slow and hanging jobs, files with mistakes.

use serde_json::{Value, json};

use crate::doctor::unpack;
use crate::support::Bench;

/// A DGX A100 as Hostping's slides show it: four RNICs, each with two GPUs below a switch, two switches per socket.
fn a100() -> String {
    let mut nodes = vec!["cpu0: socket, mem0: memory, cpu1: socket, mem1: memory".to_owned()];
    let mut links = Vec::new();
    for (rnic, cpu) in [0, 0, 1, 1].into_iter().enumerate() {
        let (one, other) = (2 * rnic, 2 * rnic + 1);
        nodes.push(format!("rnic{rnic}: rnic, psw{rnic}: pcie_switch, gpu{one}: gpu, gpu{other}: gpu"));
        links.push(format!(
            "  - {{a: rnic{rnic}, b: psw{rnic}, gbps: 252}}\n  - {{a: psw{rnic}, b: cpu{cpu}, gbps: 252}}"
        ));
        links.extend([one, other].map(|gpu| format!("  - {{a: gpu{gpu}, b: psw{rnic}, gbps: 252}}")));
    }
    links.push("  - {a: mem0, b: cpu0}\n  - {a: mem1, b: cpu1}\n  - {a: cpu0, b: cpu1}\n".to_owned());
    format!("kelpie: topology/1\nhost:\n  nodes:\n    {{{}}}\n  links:\n{}", nodes.join(", "), links.join("\n"))
}

/// Source: Hostping (Liu et al., NSDI 2023), the slides' healthy bandwidths, mem0, mem1, gpu0 to gpu7. Units: Gbit/s.
const BANDWIDTH: [[f64; 10]; 4] = [
    [197.928, 195.544, 194.636, 194.499, 90.113, 90.024, 72.109, 71.847, 72.674, 72.746],
    [196.953, 193.309, 82.282, 81.827, 191.463, 190.159, 72.018, 71.912, 71.697, 71.731],
    [197.702, 198.136, 71.526, 71.397, 72.557, 72.333, 192.03, 191.36, 94.824, 94.67],
    [197.132, 198.141, 72.81, 72.406, 72.238, 72.349, 95.367, 95.185, 191.949, 192.3],
];
/// The same of latencies. Units: microseconds.
const LATENCY: [[f64; 10]; 4] = [
    [2.544, 2.52, 2.807, 2.826, 3.486, 3.466, 3.534, 3.562, 3.548, 3.559],
    [2.511, 2.584, 3.47, 3.483, 2.807, 2.815, 3.563, 3.541, 3.544, 3.554],
    [2.719, 2.719, 3.7, 3.717, 3.711, 3.699, 2.964, 2.969, 3.643, 3.64],
    [2.567, 2.514, 3.545, 3.555, 3.548, 3.553, 3.468, 3.489, 2.824, 2.817],
];

fn matrix(bandwidth: &[[f64; 10]; 4], latency: &[[f64; 10]; 4]) -> String {
    let rows: Vec<String> = (0..4).map(|rnic| format!("rnic{rnic}")).collect();
    let columns: Vec<String> =
        (0..2).map(|node| format!("mem{node}")).chain((0..8).map(|gpu| format!("gpu{gpu}"))).collect();
    json!({"kelpie": "matrix/1", "rows": rows, "columns": columns, "bandwidth_gbps": bandwidth, "latency_us": latency})
        .to_string()
}

/// The fault of the slides: what crosses the link of PCIe switch 0 to its root port has about 12 Gbit/s.
fn uplink_fault() -> [[f64; 10]; 4] {
    let mut cells = BANDWIDTH;
    cells[0] = [12.928, 12.544, 194.636, 194.499, 12.113, 12.024, 12.109, 11.847, 12.674, 12.746];
    for (row, [gpu0, gpu1]) in [(1, [12.282, 11.827]), (2, [11.526, 11.397]), (3, [12.81, 12.406])] {
        cells[row][2] = gpu0;
        cells[row][3] = gpu1;
    }
    cells
}

/// A folder with the topology and the slides' healthy matrix.
fn host() -> Bench {
    let bench = Bench::new();
    bench.write("t.yaml", a100());
    bench.write("healthy.json", matrix(&BANDWIDTH, &LATENCY));
    bench
}

fn diagnose(bench: &Bench, status: i32, words: &[&str]) -> Value {
    bench.json(status, &[&["host", "diagnose"], words, &["--topology", "t.yaml"]].concat())
}

fn links(found: &Value, state: &str) -> Vec<String> {
    let links = found["links"].as_object().expect("an object");
    links.iter().filter(|(_, known)| *known == state).map(|(name, _)| name.clone()).collect()
}

#[test]
fn the_published_example_has_the_published_answer() {
    let bench = host();
    bench.write("slow.json", matrix(&uplink_fault(), &LATENCY));
    for baseline in [&[][..], &["--baseline", "healthy.json"]] {
        let found = diagnose(&bench, 1, &[&["slow.json"], baseline].concat());
        assert_eq!(found["explanations"], json!([["psw0|cpu0"]]), "{found}");
        assert_eq!((links(&found, "abnormal"), links(&found, "undecided")), (vec!["psw0|cpu0".to_owned()], vec![]));
        assert_eq!(found["published"]["links"], found["links"]);
        assert_eq!((&found["misconfiguration"], &found["unexplained"]), (&json!([]), &json!([])));
        let abnormal = |row: &str| {
            let row = found["paths"][row].as_object().expect("an object");
            row.values().filter(|state| **state == "abnormal").count()
        };
        assert_eq!([abnormal("rnic0"), abnormal("rnic1"), abnormal("rnic2"), abnormal("rnic3")], [8, 2, 2, 2]);
        assert_eq!(
            (&found["paths"]["rnic0"]["gpu0"], &found["paths"]["rnic1"]["gpu7"]),
            (&json!("normal"), &json!("undecided"))
        );
        assert_eq!(found["causes"][0]["cause"], "root_port_or_uplink");
    }
    let words = bench.expect(1, &["host", "diagnose", "slow.json", "--topology", "t.yaml"]);
    assert!(words.starts_with("abnormal: 14 of 40 paths abnormal") && words.contains("slow: psw0|cpu0"), "{words}");
}

#[test]
fn a_healthy_host_is_healthy_with_and_without_a_baseline() {
    let bench = host();
    for baseline in [&[][..], &["--baseline", "healthy.json"]] {
        let found = diagnose(&bench, 0, &[&["healthy.json"], baseline].concat());
        assert_eq!((&found["verdict"], links(&found, "normal").len()), (&json!("healthy"), 19), "{found}");
    }
}

#[test]
fn what_the_topology_declares_is_a_reference() {
    let bench = Bench::new();
    bench.write(
        "t.yaml",
        "kelpie: topology/1\nhost:\n  nodes: {rnic0: rnic, cpu0: socket, cpu1: socket, mem0: memory, mem1: memory}\n  \
        links: [{a: rnic0, b: cpu0, gbps: 252}, {a: mem0, b: cpu0, gbps: 900}, {a: cpu0, b: cpu1, gbps: 600}, \
        {a: mem1, b: cpu1, gbps: 900}]\n",
    );
    let measured = |first: f64, second: f64| {
        json!({"kelpie": "matrix/1", "rows": ["rnic0"], "columns": ["mem0", "mem1"],
            "bandwidth_gbps": [[first, second]]})
        .to_string()
    };
    bench.write("slow.json", measured(12.1, 12.0));
    let words = bench.expect(1, &["host", "diagnose", "slow.json", "--topology", "t.yaml"]);
    assert!(words.contains("\n  rnic0|cpu0: 12 of 252 Gbit/s that the topology declares\n"), "{words}");
    bench.write("good.json", measured(197.0, 196.0));
    bench.expect(0, &["host", "diagnose", "good.json", "--topology", "t.yaml"]);
}

#[test]
fn no_list_of_what_cannot_be_excluded_is_empty() {
    let bench = Bench::new();
    bench.write(
        "t.yaml",
        "{kelpie: topology/1, host: {nodes: {r: rnic, c: socket, m: memory}, links: [{a: r, b: c}, {a: m, b: c}]}}",
    );
    for (name, gbps) in [("slow.json", 10.0), ("healthy.json", 190.0)] {
        let cells = json!({"kelpie": "matrix/1", "rows": ["r"], "columns": ["m"], "bandwidth_gbps": [[gbps]]});
        bench.write(name, cells.to_string());
    }
    let words = ["host", "diagnose", "slow.json", "--topology", "t.yaml", "--baseline", "healthy.json"];
    let words = bench.expect(1, &words);
    assert!(words.contains("cannot be ruled out: r|c and m|c\n") && !words.contains("one of \n"), "{words}");
}

#[test]
fn a_topology_of_another_program_is_read_and_nccls_is_written() {
    let bench = Bench::new();
    bench.write(
        "n.xml",
        r#"<system version="1"><cpu numaid="0"><pci busid="0000:17:00.0" class="0x020700" link_speed="32.0 GT/s PCIe"
        link_width="16"><nic><net name="mlx5_0" speed="400000"/></nic></pci></cpu></system>"#,
    );
    let yaml = bench.expect(0, &["host", "topology", "--from", "n.xml"]);
    assert!(yaml.contains("mlx5_0: rnic") && yaml.contains("# NCCL writes the best width"), "{yaml}");
    bench.write("t.yaml", yaml);
    let matrix = r#"{"kelpie":"matrix/1","rows":["mlx5_0"],"columns":["mem0"],"bandwidth_gbps":[[97.0]]}"#;
    bench.write("m.json", matrix);
    let words = bench.expect(1, &["host", "diagnose", "m.json", "--topology", "t.yaml"]);
    assert!(words.contains("97 of 400 Gbit/s that its port has"), "{words}");
    let xml = bench.expect(0, &["host", "topology", "--from", "n.xml", "--nccl"]);
    assert!(xml.contains(r#"link_speed="32.0 GT/s PCIe" link_width="16""#), "{xml}");
    bench.write("bad.txt", "hello");
    let ran = bench.run(&["host", "topology", "--from", "bad.txt"]);
    assert!(ran.status == Some(2) && ran.stderr.contains("bad.txt: neither NCCL's"), "{ran:?}");
}

#[test]
fn a_wrong_setting_is_told_from_a_narrow_link_by_latency() {
    let bench = host();
    let (mut bandwidth, mut latency) = (BANDWIDTH, LATENCY);
    for gpu in [2, 3] {
        bandwidth[0][gpu] = 90.0;
    }
    bench.write("narrow.json", matrix(&bandwidth, &latency));
    let found = diagnose(&bench, 1, &["narrow.json"]);
    assert_eq!(
        (&found["misconfiguration"], &found["explanations"]),
        (&json!([]), &json!([["gpu0|psw0", "gpu1|psw0"]]))
    );
    for gpu in [2, 3] {
        latency[0][gpu] = 3.48;
    }
    bench.write("acs.json", matrix(&bandwidth, &latency));
    let found = diagnose(&bench, 1, &["acs.json"]);
    assert_eq!((&found["misconfiguration"], &found["explanations"]), (&json!(["acs_or_ats:psw0"]), &json!([])));
    // All switches at once leave no sibling to compare with, but memory.
    for (rnic, (bandwidth, latency)) in bandwidth.iter_mut().zip(&mut latency).enumerate() {
        for gpu in [2 + 2 * rnic, 3 + 2 * rnic] {
            bandwidth[gpu] = 90.0;
            latency[gpu] = 3.48;
        }
    }
    bench.write("all.json", matrix(&bandwidth, &latency));
    let found = diagnose(&bench, 1, &["all.json"]);
    let all: Vec<String> = (0..4).map(|switch| format!("acs_or_ats:psw{switch}")).collect();
    assert_eq!((&found["misconfiguration"], &found["explanations"]), (&json!(all), &json!([])));
}

#[test]
fn a_busy_rnic_shows_what_is_abnormal_and_never_what_is_normal() {
    let bench = host();
    let mut cells = BANDWIDTH;
    for value in &mut cells[0] {
        *value *= 0.5;
    }
    bench.write("busy.json", matrix(&cells, &LATENCY));
    let found = diagnose(&bench, 2, &["busy.json", "--busy", "--baseline", "healthy.json"]);
    assert_eq!(
        (&found["verdict"], &found["paths"]["rnic0"]["mem0"]),
        (&json!("undecided"), &json!("undecided")),
        "{found}"
    );
    // Bursts of load look like one slow path once, and not five times.
    let names = ["0.json", "1.json", "2.json", "3.json", "4.json"];
    for (name, load) in names.iter().zip([0.5, 0.7, 0.4, 0.6, 0.8]) {
        let mut cells = BANDWIDTH;
        for value in &mut cells[0] {
            *value *= load;
        }
        cells[0][2] = 20.0;
        bench.write(name, matrix(&cells, &LATENCY));
    }
    diagnose(&bench, 2, &["0.json", "--busy", "--baseline", "healthy.json"]);
    let found = diagnose(&bench, 1, &[&names[..], &["--busy", "--baseline", "healthy.json"]].concat());
    assert_eq!(found["explanations"], json!([["gpu0|psw0"]]), "{found}");
    assert_eq!(links(&found, "normal"), Vec::<String>::new(), "busy paths certify nothing");
}

#[test]
fn noise_is_undecided_until_repeats_settle_it() {
    let bench = host();
    // A healthy host with noise of about 5 %: one path to a GPU, and one path alone, is 18 % below.
    let noisy = |phase: usize, low: f64| {
        let mut cells = BANDWIDTH;
        for (index, value) in cells.iter_mut().flatten().enumerate() {
            *value *= 1.0 + 0.05 * [-1.2, 0.7, 1.4, -0.4, 0.1, -1.5, 1.0][(index + phase) % 7];
        }
        cells[0][2] = BANDWIDTH[0][2] * low;
        matrix(&cells, &LATENCY)
    };
    bench.write("0.json", noisy(0, 0.82));
    let found = diagnose(&bench, 2, &["0.json", "--baseline", "healthy.json"]);
    assert_eq!(
        (&found["verdict"], &found["paths"]["rnic0"]["gpu0"]),
        (&json!("undecided"), &json!("undecided")),
        "{found}"
    );
    for (name, low) in [("1.json", 0.97), ("2.json", 1.01)] {
        bench.write(name, noisy(low as usize + 3, low));
    }
    let found = diagnose(&bench, 0, &["0.json", "1.json", "2.json", "--baseline", "healthy.json"]);
    assert_eq!(found["verdict"], "healthy", "{found}");
}

#[test]
fn mistakes_are_named_and_nothing_is_printed() {
    let bench = host();
    let good = matrix(&BANDWIDTH, &LATENCY);
    for (case, matrix, topology, expected) in [
        ("truncated", good[..300].to_owned(), a100(), "m.json:1:300: bandwidth_gbps[1]: this is no JSON: it ends"),
        ("another node", good.replace("gpu7", "gpu9"), a100(), "`gpu9` is no node of the topology"),
        ("a GPU as row", good.replace("\"rnic3\"", "\"gpu3\""), a100(), "row `gpu3` is no RNIC"),
        ("no bandwidth", good.replace("bandwidth_gbps", "completion_us"), a100(), "no key `bandwidth_gbps`"),
        ("no number", good.replace("197.928", "1e999"), a100(), ": bandwidth_gbps[0][0]: "),
        ("a hole", good.clone(), a100().replace("  - {a: mem0, b: cpu0}\n", ""), "no way from `rnic0` to `mem0`"),
        ("another kind", good.clone(), a100().replace("mem0: memory", "mem0: cupboard"), "m.yaml:4"),
        ("no topology", good.clone(), good.clone(), "this is format `matrix/1`; `topology/1` is needed here"),
        ("not UTF-8", "\u{0}".to_owned(), a100(), "m.json:1:1: this is no JSON"),
    ] {
        bench.write("m.json", matrix);
        bench.write("m.yaml", topology);
        let ran = bench.run(&["host", "diagnose", "m.json", "--topology", "m.yaml"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{case}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(expected), "{case}: {}", ran.stderr);
    }
}

/// Operations of a ring of eight ranks over 40 iterations, as CSV. `change` may alter the times (begin, end, entered)
/// of `(iteration, source)`.
fn ring(change: impl Fn(u64, u32, &mut [Option<f64>; 3])) -> String {
    let mut text = "iteration,source,destination,bytes,begin,end,entered\n".to_owned();
    for iteration in 0..40 {
        for source in 0..8 {
            let start = iteration as f64 * 10_000.0;
            let noise =
                1.0 + 0.01 * [-1.0, 0.6, 1.3, -0.2, -0.9, 0.4, 0.1][(iteration as usize * 3 + source as usize * 5) % 7];
            let mut times = [Some(start), Some(start + 1000.0 * noise), Some(start)];
            change(iteration, source, &mut times);
            let cells = times.map(|time| time.map_or_else(String::new, |time| format!("{time:.1}")));
            let row = [iteration.to_string(), source.to_string(), ((source + 1) % 8).to_string(), "1048576".to_owned()];
            text.push_str(&row.into_iter().chain(cells).collect::<Vec<_>>().join(","));
            text.push('\n');
        }
    }
    text
}

/// What `job diagnose` says: verdict, class, ranks, ambiguous connections, begin.
fn job(bench: &Bench, status: i32, text: &str) -> Value {
    bench.write("job.csv", text);
    let found = bench.json(status, &["job", "diagnose", "job.csv"]);
    let keys: Vec<&str> = found.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = "verdict class job host rank source destination connection ambiguous missing since_iteration \
                    times_slower evidence";
    assert_eq!(keys.join(" "), expected);
    json!([found["verdict"], found["class"], found["rank"], found["ambiguous"], found["since_iteration"]])
}

#[test]
fn a_ring_is_diagnosed_by_what_its_operations_took() {
    let bench = Bench::new();
    assert_eq!(job(&bench, 0, &ring(|_, _, _| {})), json!(["healthy", null, [], [], null]));
    // Rank 5 computes for 3 ms longer: its predecessor begins when it is there, the others wait for what it sends.
    let late = ring(|iteration, source, times| {
        if iteration >= 10 {
            let [begin, end, entered] = times;
            if source == 5 {
                *entered = entered.map(|time| time + 3000.0);
            }
            if source == 5 || source == 4 {
                *begin = begin.map(|time| time + 3000.0);
            }
            *end = end.map(|time| time + 3000.0);
        }
    });
    assert_eq!(job(&bench, 1, &late), json!(["slow", "non_communication", [5], [], 10]));
    // A connection that takes twice as long, and one that takes 8 % more, which no rule of 1.5 times sees.
    for (factor, since) in [(2.0, 20), (1.08, 20)] {
        let slow = ring(|iteration, source, times| {
            if iteration >= 20 && source == 2 {
                times[1] = times[0].zip(times[1]).map(|(begin, end)| begin + factor * (end - begin));
            }
        });
        assert_eq!(job(&bench, 1, &slow), json!(["slow", "communication", [], [[2, 3]], since]), "{factor}");
    }
    let absent = ring(|iteration, source, times| {
        if iteration == 39 {
            *times = if source == 6 { [None; 3] } else { [None, None, times[2]] };
        }
    });
    assert_eq!(job(&bench, 1, &absent), json!(["hang", "non_communication", [6], [], 39]));
    let stuck = ring(|iteration, source, times| {
        if iteration == 39 && source == 1 {
            *times = [None, None, times[2]];
        }
    });
    assert_eq!(job(&bench, 1, &stuck), json!(["hang", "communication", [1], [], 39]));
    let words = bench.expect(1, &["job", "diagnose", "job.csv"]);
    assert!(words.starts_with("hang, in communication, since iteration 39"), "{words}");
    // The job goes on, and nothing is open for long.
    bench.expect(0, &["job", "diagnose", "job.csv", "--now", "392000"]);
    bench.expect(1, &["job", "diagnose", "job.csv", "--now", "32000000"]);
}

#[test]
fn a_matrix_of_ranks_tells_cell_row_column_and_rank() {
    let bench = Bench::new();
    let matrix = |is_slow: &dyn Fn(usize, usize) -> bool| {
        let cell = |row: usize, column: usize| {
            (row != column)
                .then(|| if is_slow(row, column) { 190.0 } else { 100.0 + (row * 7 + column * 3) as f64 % 5.0 })
        };
        let cells: Vec<Vec<Option<f64>>> = (0..8).map(|row| (0..8).map(|column| cell(row, column)).collect()).collect();
        let names: Vec<String> = (0..8).map(|rank: u32| rank.to_string()).collect();
        json!({"kelpie": "matrix/1", "rows": names, "columns": names, "completion_us": cells}).to_string()
    };
    let places = |status: i32, text: String| {
        bench.write("m.json", text);
        let found = bench.json(status, &["job", "diagnose", "m.json"]);
        json!([found["rank"], found["source"], found["destination"], found["connection"], found["ambiguous"]])
    };
    assert_eq!(places(0, matrix(&|_, _| false)), json!([[], [], [], [], []]));
    assert_eq!(places(1, matrix(&|row, column| (row, column) == (3, 4))), json!([[], [], [], [[3, 4]], []]));
    assert_eq!(places(1, matrix(&|row, _| row == 0)), json!([[], [0], [], [], []]));
    assert_eq!(places(1, matrix(&|_, column| column == 2)), json!([[], [], [2], [], []]));
    assert_eq!(places(1, matrix(&|row, column| row == 6 || column == 6)), json!([[6], [], [], [], []]));
    // Two hosts give two cells, and two cells give no verdict.
    let two = r#"{"kelpie":"matrix/1","rows":["0","1"],"columns":["0","1"],"completion_us":[[null,100],[300,null]]}"#;
    assert_eq!(places(2, two.to_owned()), json!([[], [], [], [], []]));
}

#[test]
fn job_files_with_mistakes_and_truncated_ones() {
    let bench = Bench::new();
    let good = ring(|_, _, _| {});
    let cut = good[..good.len() - 20].to_owned();
    bench.write("cut.csv", &cut);
    let found = bench.json(0, &["job", "diagnose", "cut.csv"]);
    assert!(found["evidence"]["notes"].to_string().contains("ends within a record"), "{found}");
    for (text, expected) in [
        (String::new(), "job.csv: no operation in it"),
        (good.replacen("1048576", "many", 3), "job.csv:2: `bytes` is no number: many"),
        (good.replace("iteration,", "round,"), "job.csv:1: no column `iteration`"),
        ("{\"iteration\": true}".to_owned(), "job.csv:1: invalid type"),
    ] {
        bench.write("job.csv", text);
        let ran = bench.run(&["job", "diagnose", "job.csv"]);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

#[test]
fn the_inside_of_a_recorded_host_is_written_and_read_back() {
    let bench = Bench::new();
    unpack::unpack("mlx5", &bench.path("root"));
    let text = bench.expect(0, &["host", "topology", "--root", "root"]);
    assert!(text.starts_with("kelpie: topology/1\nhost:\n") && text.contains("mlx5_0: rnic"), "{text}");
    bench.write("t.yaml", text);
    let matrix = r#"{"kelpie":"matrix/1","rows":["mlx5_0"],"columns":["mem0"],"bandwidth_gbps":[[97.0]]}"#;
    bench.write("m.json", matrix);
    // A path without siblings is compared with its port, whose 100 Gbit/s the host's files say.
    let verdict = |status: i32, more: &[&str]| {
        let words = [&["host", "diagnose", "m.json", "--topology", "t.yaml"], more].concat();
        bench.json(status, &words)["verdict"].clone()
    };
    assert_eq!(verdict(0, &[]), "healthy");
    assert_eq!(verdict(0, &["--baseline", "m.json"]), "healthy");
    // The RNIC's own link is then read from the host's files.
    bench.write("slow.json", matrix.replace("97.0", "24.0"));
    let words = ["host", "diagnose", "slow.json", "--topology", "t.yaml", "--baseline", "m.json", "--root", "root"];
    let causes = bench.json(1, &words)["causes"].clone();
    let rnic = causes.as_array().and_then(|causes| causes.iter().find(|cause| cause["cause"] == "rnic_pcie_link"));
    let seen = &rnic.expect("its link may be it")["readings"][0]["seen"];
    assert!(seen.as_str().is_some_and(|seen| seen.starts_with('x') && seen.contains("at most x")), "{causes}");
    let readings = &bench.json(0, &["host", "topology", "--root", "root"])["readings"];
    assert!(
        readings.as_array().is_some_and(|readings| readings.iter().any(|one| one["check"] == "pcie_link")),
        "{readings}"
    );
    std::fs::create_dir(bench.path("empty")).expect("a folder");
    let ran = bench.run(&["host", "topology", "--root", "empty"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("empty: no RDMA device"), "{}", ran.stderr);
}
