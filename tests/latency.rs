//! Message latency from the command line to the store, over agents of this process with a host that has no device.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kelpie_agent::server::{AgentConfig, serve};
use kelpie_agent::{Limits, Security};
use kelpie_engine::latency::Took;
use kelpie_engine::plan::{GroupPlan, HostPlan};
use kelpie_engine::verbs_host::{
    CompletedWork, GroupCount, GroupEndpoint, GroupLatency, HostError, HostReading, Port, PortReport, VerbsHost,
};
use serde_json::{Value, json};

use crate::support::{Bench, HEALTHY, SMALL_SPACE};

/// What the requests of each requester took between two readings: three in four took 20 us.
const TOOK: [Took; 2] = [Took(20_000, 75), Took(1_500_000, 25)];

/// Traffic at a steady rate, which takes what [`TOOK`] says if it is timed.
struct SteadyHost {
    plan: Option<HostPlan>,
    started: Instant,
    runs: Arc<AtomicUsize>,
}

impl VerbsHost for SteadyHost {
    fn inspect(&mut self, _port: &Port) -> Result<PortReport, HostError> {
        Ok(PortReport { device: "steady0".to_owned(), gid_index: 1, active_mtu: 4096 })
    }

    fn set_up(&mut self, _port: &Port, plan: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        self.plan = Some(plan.clone());
        let endpoint = |group: &GroupPlan| GroupEndpoint {
            id: group.id,
            gid: [0; 16],
            lid: 0,
            needs_grh: false,
            reads: 16,
            qps: Vec::new(),
        };
        Ok(plan.groups.iter().map(endpoint).collect())
    }

    fn connect(&mut self, _peers: &[GroupEndpoint]) -> Result<(), HostError> {
        Ok(())
    }

    fn start(&mut self) -> Result<(), HostError> {
        self.started = Instant::now();
        self.runs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        let plan = self.plan.as_ref().ok_or_else(|| HostError::Failed("nothing is set up".to_owned()))?;
        let at_nanos = u64::try_from(self.started.elapsed().as_nanos()).expect("short");
        let messages = at_nanos / 20_000;
        let count = CompletedWork { messages, bytes: messages * 64, packets: messages };
        let counts = |group: &GroupPlan| {
            let by_op = group.ops().into_iter().map(|op| (op, count)).collect();
            GroupCount { id: group.id, by_op }
        };
        let latency = |group: &GroupPlan| {
            let send = group.send.as_ref().filter(|send| send.latency)?;
            Some(GroupLatency { id: group.id, by_op: [(send.requests[0].op, TOOK.to_vec())].into() })
        };
        Ok(HostReading {
            at_nanos,
            groups: plan.groups.iter().map(counts).collect(),
            queue_full_nanos: at_nanos,
            latency: plan.groups.iter().filter_map(latency).collect(),
            ..HostReading::default()
        })
    }

    fn stop(&mut self, _drain: Duration) -> Result<HostReading, HostError> {
        self.sample()
    }

    fn recycle(&mut self) {
        self.plan = None;
    }

    fn tear_down(&mut self) {
        self.plan = None;
    }
}

/// Starts an agent that lives as long as the tests, and counts its runs; where it listens.
fn agent(runs: &Arc<AtomicUsize>) -> String {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let config =
        AgentConfig { name: "steady".to_owned(), security: Security::Loopback, limits: Limits::default(), door: None };
    let host = SteadyHost { plan: None, started: Instant::now(), runs: Arc::clone(runs) };
    std::thread::spawn(move || serve(address, config, Box::new(host)));
    let started = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(started.elapsed() < Duration::from_secs(20), "no agent on {address}");
        std::thread::sleep(Duration::from_millis(10));
    }
    address.to_string()
}

/// Two agents and the files of a pair: `plain.yaml`, `timed.yaml` whose session asks for latency, and `bare.yaml`
/// without bounds.
fn bench() -> Bench {
    counting().0
}

/// That, with the runs of both agents.
fn counting() -> (Bench, Arc<AtomicUsize>) {
    let (bench, runs) = (Bench::new(), Arc::default());
    let (a, b) = (agent(&runs), agent(&runs));
    let bounds = "bounds: {max_bps: 1e9, max_pps: 5e4}\n";
    for (name, bounds, more) in
        [("plain.yaml", bounds, ""), ("timed.yaml", bounds, ", latency: true"), ("bare.yaml", "", "")]
    {
        let pair = format!(
            "kelpie: pair/1\nname: steady\nhosts:\n  a: {{agent: \"{a}\"}}\n  b: {{agent: \"{b}\"}}\n\
             {bounds}session: {{warm_up_ms: 100, sample_ms: 20, drain_ms: 10{more}}}\n"
        );
        bench.write(name, pair);
    }
    bench.write("workload.yaml", HEALTHY);
    (bench, runs)
}

/// What four samples add up to, and neither the warm-up nor what came after.
fn is_that_of_four_samples(latency: &Value) {
    let near = |key: &str, nanos: u64| {
        let seen = latency[key].as_u64().unwrap_or_else(|| panic!("no {key} in {latency}"));
        assert!(seen.abs_diff(nanos) * 1000 <= nanos, "{key}: {seen}, not {nanos}");
    };
    assert_eq!(latency["count"], 4 * 100, "{latency}");
    for (key, nanos) in
        [("p50", 20_000), ("p90", 1_500_000), ("p99", 1_500_000), ("p999", 1_500_000), ("max", 1_500_000)]
    {
        near(key, nanos);
    }
    assert_eq!(latency.as_object().map(serde_json::Map::len), Some(6), "{latency}");
}

#[test]
fn latency_of_a_pair_is_measured_where_the_flag_or_the_session_says_so() {
    let bench = bench();
    let measure = ["measure", "workload.yaml", "--subsystem"];
    let plain = bench.json(0, &[&measure[..], &["plain.yaml"]].concat());
    assert_eq!(plain["directions"][0].get("latency_ns"), None, "absent where nobody asked: {plain}");
    for more in [&["plain.yaml", "--latency"][..], &["timed.yaml"], &["timed.yaml", "--latency"]] {
        let report = bench.json(0, &[&measure[..], more].concat());
        let [way] = &report["directions"].as_array().expect("directions")[..] else { panic!("one flow: {report}") };
        assert_eq!((&way["from"], &way["to"]), (&json!("a"), &json!("b")));
        is_that_of_four_samples(&way["latency_ns"]);
    }
    let text = bench.expect(0, &[&measure[..], &["timed.yaml"]].concat());
    let line = text.lines().skip_while(|line| !line.contains("p99.9")).nth(1).unwrap_or_else(|| panic!("{text}"));
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["a -> b", "20.0 us", "1.5 ms", "1.5 ms", "1.5 ms", "1.5 ms", "400"], "{text}");
    let text = bench.expect(0, &[&measure[..], &["plain.yaml"]].concat());
    assert!(!text.contains("p99.9"), "{text}");
}

#[test]
fn a_campaign_stores_latency_with_its_experiments() {
    let bench = bench();
    bench.write("space.yaml", SMALL_SPACE);
    for (pair, is_timed) in [("plain.yaml", false), ("timed.yaml", true)] {
        let database = format!("{pair}.db");
        let run = ["campaign", "run", "--subsystem", pair, "--space", "space.yaml", "--budget", "2", "--db", &database];
        bench.expect(0, &run);
        let shown = bench.json(0, &["campaign", "show", "--experiments", "--db", &database]);
        let measurement = &shown["log"][0]["measurement"];
        assert_eq!(measurement["samples"].as_array().map(Vec::len), Some(4), "{shown}");
        assert_eq!(measurement.get("latency").is_some(), is_timed, "{measurement}");
        if is_timed {
            is_that_of_four_samples(&measurement["latency"][0]["latency_ns"]);
        }
    }
}

#[test]
fn bounds_are_calibrated_once_for_a_campaign() {
    let (bench, runs) = counting();
    bench.write("space.yaml", SMALL_SPACE);
    let run = ["campaign", "run", "--subsystem", "bare.yaml", "--space", "space.yaml", "--budget", "2", "--db", "k.db"];
    let ran = bench.run(&run);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("bare.yaml has no `bounds`: they are calibrated by simple traffic"), "{ran:?}");
    // Each run is one of both agents.
    let calibrated = 2 * 28;
    let before = runs.load(Ordering::Relaxed);
    assert!(before > calibrated, "{before}");
    bench.expect(0, &["campaign", "resume", "1", "--budget", "4", "--db", "k.db"]);
    let more = runs.load(Ordering::Relaxed) - before;
    assert!((1..calibrated).contains(&more), "{more} after {before}");
}

#[test]
fn a_campaign_stores_what_the_agents_said_of_their_hosts() {
    let bench = bench();
    bench.write("space.yaml", SMALL_SPACE);
    for (subsystem, is_real) in [("plain.yaml", true), ("sim:F", false)] {
        let database = format!("{is_real}.db");
        let run =
            ["campaign", "run", "--subsystem", subsystem, "--space", "space.yaml", "--budget", "2", "--db", &database];
        let ran = bench.json(0, &run);
        let checks = ran["checks"].as_array().unwrap_or_else(|| panic!("no list: {ran}"));
        assert_eq!(!checks.is_empty(), is_real, "{ran}");
        assert_eq!(bench.json(0, &["campaign", "show", "--db", &database])["checks"], ran["checks"]);
        let out = format!("{is_real}-report");
        bench.expect(0, &["report", "--db", &database, "--out", &out]);
        let index = std::fs::read_to_string(bench.path(&out).join("index.html")).expect("a page");
        assert_eq!(index.contains("checks of the hosts"), is_real);
        for host in ["host a", "host b"].iter().filter(|_| is_real) {
            let find = |name: &str| checks.iter().find(|check| check["about"] == *host && check["check"] == name);
            // No agent of this test has a device, and that keeps nobody from measuring.
            assert_eq!(find("device").map(|check| &check["state"]), Some(&json!("fail")), "{ran}");
            assert!(find("memlock").is_some(), "{ran}");
        }
    }
}

#[test]
fn a_simulated_subsystem_has_no_latency_and_says_so() {
    let bench = Bench::new();
    bench.write("workload.yaml", HEALTHY);
    let ran = bench.run(&["measure", "workload.yaml", "--subsystem", "sim:F", "--latency"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("sim:F simulates rates and knows no time of a single request"), "{ran:?}");
}
