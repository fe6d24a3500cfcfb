//! Real verbs between the lab's two guests. All tests here are ignored unless somebody asks for them.
//! `xtask/scripts/lab-test.sh`, a part of `make test`, brings the lab up and runs them; then they fail if the lab is
//! missing.

mod agents;
mod bounds;
mod campaign;
mod capture;
mod counters;
mod latency;
mod shapes;
mod trace;
mod truth;
mod wider;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bench, Ran, in_guest};

/// How long a guest may be silent while it runs a command. Source: our choice, because the longest takes 18 s and a
/// machine that does something else at the same time may take five times as long.
const ANSWER: Duration = Duration::from_secs(90);

/// Tries of a workload that may fill a guest's memory.
const FLOODS: usize = 3;

/// The lab, for one test at a time: an agent serves one controller.
struct Lab {
    bench: Bench,
    dir: PathBuf,
    /// Whether the test killed a guest that is not back yet.
    has_killed: AtomicBool,
    _alone: File,
}

/// Runs a test in the lab, whose guests work when it begins. If it fails and a guest turns out to have stalled
/// meanwhile, which is the emulator's fault, the test is repeated, once.
fn in_lab(test: impl Fn(&Lab)) {
    let lab = Lab::up();
    lab.mend();
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(&lab))) else { return };
    if lab.has_killed.load(Relaxed) || lab.mend().is_empty() {
        resume_unwind(panic);
    }
    drop(lab);
    eprintln!("the test is repeated");
    test(&Lab::up());
}

impl Lab {
    /// The running lab, in `KELPIE_LAB_DIR` or `target/lab`.
    fn up() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let dir = std::env::var_os("KELPIE_LAB_DIR").map_or_else(|| root.join("target/lab"), PathBuf::from);
        assert!(
            dir.join("pair.yaml").is_file(),
            "the lab is not up: run `cargo xtask lab up`, or xtask/scripts/lab-test.sh"
        );
        let alone = File::create(dir.join("tests.lock")).expect("the lab's folder is writable");
        alone.lock().expect("a lock that waits for the other tests");
        Self { bench: Bench::with_lab(&dir), dir, has_killed: AtomicBool::new(false), _alone: alone }
    }

    /// Starts guests again that stalled; what it says of them, which is empty if both work.
    fn mend(&self) -> String {
        let said = self.xtask(&["mend"]);
        eprint!("{said}");
        said
    }

    /// Runs a command of `cargo xtask lab` on this lab; what it printed.
    fn xtask(&self, words: &[&str]) -> String {
        let xtask = Path::new(env!("CARGO_BIN_EXE_kelpie")).with_file_name("xtask");
        let output = Command::new(xtask).arg("lab").args(words).env("KELPIE_LAB_DIR", &self.dir).output();
        let output = output.expect("`lab up` built and ran xtask");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints UTF-8")
    }

    /// Measures; the verdict is the machine's affair, that it ran is ours.
    fn measure(&self, workload: &str, pair: &str) -> Value {
        let report = (0..FLOODS).find_map(|_| self.measure_in_all(workload, pair));
        report.expect("guests get CPU at times").0
    }

    /// As `measure`, and the log of what each end of each flow completed from start to drain; nothing if a guest's
    /// memory ran low.
    ///
    /// Unreliable traffic to a guest that gets no CPU fills its memory (`tests/guests/findings/unreliable-flood.yaml`),
    /// and its agent ends it.
    fn measure_in_all(&self, workload: &str, pair: &str) -> Option<(Value, String)> {
        let args = ["measure", self.bench.write("workload.yaml", workload), "--subsystem", pair, "--json"];
        let output = self.bench.command(&args).env("KELPIE_LOG", "kelpie_agent=debug").output();
        let ran = Ran::of(output.expect("the binary starts"));
        if ran.stderr.contains("memory ran low") {
            return None;
        }
        // Goodput that varies too much for a verdict ends with 2 as an error does, but after the report.
        let is_inconclusive = ran.status == Some(2) && ran.stdout.contains("\"verdict\": \"inconclusive\"");
        assert!(matches!(ran.status, Some(0 | 1)) || is_inconclusive, "{ran:?}");
        Some((ran.json(), ran.stderr))
    }

    /// A pair file of this lab with one sample of this length: samples that differ are measured again for a verdict.
    fn pair(&self, sample_ms: u32) -> &'static str {
        self.pair_with(&format!("{{warm_up_ms: 2000, sample_ms: {sample_ms}, samples: 1}}"))
    }

    /// A pair file of this lab with this session, and with bounds, so that nothing is calibrated.
    fn pair_with(&self, session: &str) -> &'static str {
        let text = std::fs::read_to_string(self.dir.join("pair.yaml")).expect("it was there");
        let (head, _) = text.split_once("session:").expect("the lab's pair file sets its session");
        let bounds = "bounds: {max_bps: 3e8, max_pps: 1e4}";
        self.bench.write("pair.yaml", format!("{head}session: {session}\n{bounds}\n"))
    }

    /// Runs a command in a guest and returns what it printed.
    fn in_guest(&self, guest: &str, command: &str) -> String {
        in_guest(&self.dir, guest, command, ANSWER)
    }

    /// QPs and MRs that the guest's device holds; one QP is the kernel's own.
    fn resources(&self, guest: &str) -> (u64, u64) {
        let text = self.in_guest(guest, "rdma resource");
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |name: &str| {
            let after = words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
            after.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
        };
        (number("qp"), number("mr"))
    }

    /// Waits until the guest's resources satisfy `done`.
    fn wait_for(&self, guest: &str, what: &str, done: impl Fn(u64, u64) -> bool) {
        let started = Instant::now();
        loop {
            let (qps, mrs) = self.resources(guest);
            if done(qps, mrs) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "{what} in guest {guest}: {qps} QPs, {mrs} MRs");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until the guest's agent, started again, listens. Its predecessor's connections have the same port.
    fn wait_agent(&self, guest: &str) {
        let started = Instant::now();
        while self.in_guest(guest, "grep -i ':1D2F 00000000:0000 0A ' /proc/net/tcp").is_empty() {
            assert!(started.elapsed() < Duration::from_secs(30), "the agent of {guest} is started again");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn is_clean(&self) {
        for guest in ["a", "b"] {
            self.wait_for(guest, "nothing is left", |qps, mrs| qps == 1 && mrs == 0);
        }
    }
}

/// 4 QPs, batch 8, a message of 4 KiB in two elements and one of 256 B: five packets at MTU 1024.
fn workload(op: &str) -> String {
    format!(
        "kelpie: workload/1\nflows:\n  - from: a\n    to: b\n    qp_type: RC\n    qps: 4\n    mtu: 1024\n    \
         wq_depth: {{send: 16, recv: 64}}\n    batch: {{send: 8, recv: 8}}\n    \
         pattern: [{{op: {op}, sge: [1KiB, 3KiB]}}, {{op: {op}, sge: [256B]}}]\n    memory:\n      \
         from: {{device: \"dram:0\", mrs: 3, mr_size: 16KiB}}\n      \
         to: {{device: \"dram:0\", mrs: 2, mr_size: 16KiB}}\n"
    )
}

/// What the direction from `a` to `b` added up to over all samples.
fn moved(report: &Value, rate: &str) -> f64 {
    let of = |sample: &Value| {
        let directions = sample["directions"].as_array().expect("directions");
        assert_eq!(directions.len(), 1, "{sample}");
        directions[0][rate].as_f64().expect(rate) * sample["seconds"].as_f64().expect("seconds")
    };
    report["samples"].as_array().expect("samples").iter().map(of).sum()
}
