//! Paths between the dual-port lab's two hosts, on real verbs. All tests here are ignored unless somebody asks for
//! them. `xtask/scripts/lab-test.sh` brings that lab up and runs them; then they fail if it is missing.

mod balance;
mod checks;
mod fleet;
mod hosts;
mod probing;
mod ranks;
mod ring;
mod steering;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Bench, Ran, in_guest};

/// How long a guest may be silent while it runs a command.
const ANSWER: Duration = Duration::from_mins(2);

/// The leaf's interfaces: the host at the other end, and its side.
const LEAF: [(&str, char, &str); 4] =
    [("eth0", 'a', "left"), ("eth1", 'a', "right"), ("eth2", 'b', "left"), ("eth3", 'b', "right")];

/// The dual-port lab, for one test at a time.
struct DualPortLab {
    bench: Bench,
    /// The folder of all labs, and that of this one.
    common: PathBuf,
    dir: PathBuf,
    _alone: File,
}

impl DualPortLab {
    fn up() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let common = std::env::var_os("KELPIE_LAB_DIR").map_or_else(|| root.join("target/lab"), PathBuf::from);
        let dir = common.join("dual");
        assert!(dir.join("pair.yaml").is_file(), "the lab is not up: run `cargo xtask lab up --dual-port`");
        let alone = File::create(dir.join("tests.lock")).expect("the lab's folder is writable");
        alone.lock().expect("a lock that waits for the other tests");
        let lab = Self { bench: Bench::with_lab(&common), common, dir, _alone: alone };
        lab.xtask(&["mend", "--dual-port"]);
        // Whatever a test before this one left behind.
        for (_, host, side) in LEAF {
            lab.at_port(host, side, &["clear"]);
        }
        lab
    }

    fn xtask(&self, words: &[&str]) -> String {
        let xtask = Path::new(env!("CARGO_BIN_EXE_kelpie")).with_file_name("xtask");
        let output = Command::new(xtask).arg("lab").args(words).env("KELPIE_LAB_DIR", &self.common).output();
        let output = output.expect("`lab up` built and ran xtask");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it prints UTF-8")
    }

    /// Loss or another capacity at what the leaf sends by the port to this host and side.
    fn at_port(&self, host: char, side: &str, options: &[&str]) {
        let port = format!("{host}-{side}");
        self.xtask(&[&["netem", "--dual-port", port.as_str()], options].concat());
    }

    /// Runs a command in a guest and returns what it printed.
    fn in_guest(&self, guest: &str, command: &str) -> String {
        in_guest(&self.dir, guest, command, ANSWER)
    }

    /// Probes so many source ports; the catalog's file and what it holds. It is faulty or it is not.
    fn probe(&self, ports: u32, is_faulty: bool) -> (PathBuf, Value) {
        let file = self.dir.join(format!("share/catalog-{ports}-{is_faulty}.yaml"));
        let (ports, name) = (ports.to_string(), file.display().to_string());
        let args =
            ["paths", "probe", "--subsystem", "dual-lab", "--ports", &ports, "--no-latency", "--out", &name, "--json"];
        let ran = Ran::of(self.bench.command(&args).output().expect("the binary starts"));
        assert_eq!(ran.status, Some(i32::from(is_faulty)), "{ran:?}");
        (file, ran.json()["measured"].clone())
    }

    /// A catalog without faults. It holds for as long as the leaf runs, whose hash has a seed of its own.
    fn catalog(&self) -> PathBuf {
        let boot = self.in_guest("leaf", "cat /proc/sys/kernel/random/boot_id");
        let known = self.dir.join(format!("share/catalog-{}.yaml", boot.trim()));
        if !known.exists() {
            fs::rename(self.probe(28, false).0, &known).expect("both are ours");
        }
        known
    }

    /// The checks of a workload, by name.
    fn check(&self, status: i32, args: &[&str]) -> BTreeMap<String, Value> {
        let args = [&["paths", "check", "--subsystem", "dual-lab", "--json"], args].concat();
        let ran = Ran::of(self.bench.command(&args).output().expect("the binary starts"));
        assert_eq!(ran.status, Some(status), "{ran:?}");
        let document = ran.json();
        let checks = document["checks"].as_array().expect("checks");
        checks.iter().map(|check| (check["name"].as_str().expect("a name").to_owned(), check.clone())).collect()
    }

    /// Copies what is deployed to the guests' memory, where it does not change while it runs.
    fn copy_programs(&self) {
        let copy = "mkdir -p /run/steered && cp -u /run/lab/kelpie /run/lab/libkelpie_preload.so /run/steered/";
        self.in_guest("a", copy);
        self.in_guest("b", copy);
    }
}

fn state(checks: &BTreeMap<String, Value>, name: &str) -> String {
    checks[name]["state"].as_str().expect("a state").to_owned()
}

/// Source ports from host `a` that leave and arrive so.
fn leading(catalog: &Value, leaves: &str, arrives: &str) -> Vec<u64> {
    let paths = catalog["directions"][0]["paths"].as_array().expect("paths");
    let fits = |path: &&Value| path["leaves"] == leaves && path["arrives"] == arrives;
    paths.iter().filter(fits).map(|path| path["source_port"].as_u64().expect("a port")).collect()
}

/// YAML of a catalog as JSON.
fn serde_yaml_to_json(text: &str) -> Value {
    serde_yaml::from_str(text).expect("a catalog")
}
