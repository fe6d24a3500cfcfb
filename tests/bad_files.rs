//! Files of every kind, broken in every way that files break: each is refused at once, within bounds, by a message that
//! names the file and what is wrong there.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Bench, HEALTHY, Ran};

/// A kind of file, with one that is right and the command that reads it as `FILE`.
struct FileKind {
    file: &'static str,
    good: String,
    command: &'static [&'static str],
    /// What the command exits with if the file is right.
    status: i32,
}

impl FileKind {
    fn is_yaml(&self) -> bool {
        Path::new(self.file).extension().is_some_and(|extension| extension == "yaml")
    }
}

const CLUSTER: &str = "kelpie: topology/1\ncluster:\n  hosts: 4\n  nics_per_host: 2\n  port_gbps: 200\n  nic_gbps: 362\n  \
                       leaves: 4\n  spines: 2\n  cables: 2\n  cable_gbps: 200\n";
const JOBS: &str = "kelpie: job/1\njobs:\n  - {name: train, hosts: [0, 2], collective: ring, qps_per_connection: 8}\n";
const HOST: &str = "kelpie: topology/1\nhost:\n  nodes: {cpu0: socket, mem0: memory, rnic0: rnic, psw0: pcie_switch}\n  \
                    links:\n  - {a: rnic0, b: psw0, gbps: 252}\n  - {a: psw0, b: cpu0, gbps: 252}\n  \
                    - {a: mem0, b: cpu0}\n";
const MATRIX: &str = "{\"kelpie\": \"matrix/1\", \"rows\": [\"rnic0\"],\n\"columns\": [\"mem0\"],\n\
                      \"bandwidth_gbps\": [[200.0]], \"latency_us\": [[2.0]]}\n";
const PROBLEM: &str = "{\"capacity_gbps\": {\"x\": 200}, \"cap_gbps\": 362, \"qps_per_connection\": 2,\n\
                       \"solver\": \"lockstep\", \"flows\": [{\"job\": 0, \"links\": [\"x\"]}]}\n";
const PORTS: &str = "kelpie: ports/1\ndirections:\n  - about: a to b\n    mode: hash\n    qps: []\n";

fn kinds(bench: &Bench) -> Vec<FileKind> {
    bench.write("cluster.yaml", CLUSTER);
    bench.write("jobs.yaml", JOBS);
    bench.write("host.yaml", HOST);
    bench.write("matrix.json", MATRIX);
    let kind = |file, good: &str, command, status| FileKind { file, good: good.to_owned(), command, status };
    let gate =
        &["campaign", "run", "-s", "sim:F", "--budget", "1", "--db", "k.db", "--gate", "--gate-baseline", "FILE"];
    vec![
        kind("w.yaml", HEALTHY, &["measure", "FILE", "-s", "sim:F"], 0),
        kind("s.yaml", "kelpie: space/1\nqps: {min: 1, max: 4}\n", &["space", "check", "FILE"], 0),
        kind("m.yaml", "kelpie: model/2\nname: m\ndescription: d\nbase: F\n", &["subsystem", "check", "sim:FILE"], 0),
        kind(
            "p.yaml",
            "kelpie: pair/1\nname: p\nhosts:\n  a: {agent: \"127.0.0.1:1\"}\n  b: {agent: \"127.0.0.1:2\"}\n",
            &["subsystem", "show", "FILE"],
            0,
        ),
        kind("b.yaml", "kelpie: baseline/1\naccepted: []\n", gate, 0),
        kind("c.yaml", CLUSTER, &["fabric", "rates", "FILE", "jobs.yaml"], 0),
        kind("j.yaml", JOBS, &["fabric", "rates", "cluster.yaml", "FILE"], 0),
        kind(
            "r.yaml",
            "kelpie: paths/1\nsteps:\n  - connect: {name: x, from: {host: 0}, to: {host: 2}, qps: 4}\n",
            &["paths", "plan", "FILE", "--topology", "cluster.yaml"],
            0,
        ),
        kind("po.yaml", PORTS, &["paths", "check", "FILE"], 2),
        kind(
            "t.yaml",
            HOST,
            &["host", "diagnose", "matrix.json", "--topology", "FILE", "--baseline", "matrix.json"],
            0,
        ),
        kind(
            "mx.json",
            MATRIX,
            &["host", "diagnose", "FILE", "--topology", "host.yaml", "--baseline", "matrix.json"],
            0,
        ),
        kind("pb.json", PROBLEM, &["fabric", "rates", "--problem", "FILE"], 0),
    ]
}

/// What stands where the file should be.
type FileBreaker = fn(&Path, &FileKind);

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::write(path, bytes).expect("the folder is writable");
}

/// Every way, with what the message says; `FILE` stands for the file's name.
const WAYS: &[(&str, FileBreaker, &[&str])] = &[
    ("missing", |_, _| (), &["FILE: No such file in /"]),
    ("a link to nothing", |path, _| symlink("nowhere", path).expect("a link"), &["FILE: a link to a file that is not"]),
    ("a link to itself", |path, _| symlink(path, path).expect("a link"), &["FILE", "symbolic links"]),
    ("a directory", |path, _| std::fs::create_dir(path).expect("a folder"), &["FILE: a directory; name a file"]),
    ("empty", |path, _| write(path, ""), &["FILE"]),
    ("a line and no more", |path, _| write(path, "\n"), &["FILE"]),
    ("without an end", |path, _| symlink("/dev/zero", path).expect("a link"), &["FILE: longer than ", "iB, the most"]),
    (
        "two gigabytes",
        |path, _| std::fs::File::create(path).and_then(|file| file.set_len(2 << 30)).expect("a sparse file"),
        &["FILE: longer than ", "iB, the most"],
    ),
    ("no UTF-8", |path, kind| write(path, [kind.good.as_bytes(), b"# \xff\xfe"].concat()), &["FILE"]),
    (
        "UTF-16",
        |path, kind| write(path, kind.good.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
        &["FILE"],
    ),
    ("a program", |path, _| write(path, std::fs::read("/bin/true").expect("a program")), &["FILE"]),
    ("a zero byte", |path, kind| write(path, kind.good.replacen(':', ":\0", 1).replacen(',', "\0,", 1)), &["FILE:1"]),
    ("deep nesting", |path, _| write(path, "[".repeat(60_000)), &["FILE"]),
    (
        "an alias bomb",
        |path, _| write(path, "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\nd: [*c,*c,*c]\n"),
        &["FILE"],
    ),
    ("a page of a web server", |path, _| write(path, "<html><body>404 Not Found</body></html>\n"), &["FILE"]),
    ("a list", |path, _| write(path, "- 1\n- 2\n"), &["FILE"]),
    ("another kind", |path, _| write(path, "kelpie: model/2\nname: m\n"), &["FILE"]),
    ("what steers a terminal", |path, _| write(path, "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m: \u{202e}\n"), &["FILE"]),
    ("one long line", |path, _| write(path, "x".repeat(60_000)), &["FILE"]),
    ("a tab for an indent", |path, _| write(path, "kelpie:\n\t- x\n"), &["FILE"]),
    (
        "the first third",
        |path, kind| write(path, &kind.good[..kind.good.find('\n').expect("two lines") + 4]),
        &["FILE"],
    ),
];

/// The parts of a message about YAML that do not hold for other formats.
const YAML: &[(&str, &[&str])] = &[
    ("empty", &["FILE:1:1: the document is empty; see docs/reference/files.md"]),
    ("no UTF-8", &["not UTF-8 text", "save the file as UTF-8"]),
    ("UTF-16", &["FILE:1:2: a control character; is the file UTF-8?"]),
    ("a program", &["not UTF-8 text"]),
    ("a zero byte", &["a control character; is the file UTF-8?"]),
    ("deep nesting", &["FILE:1:", "nested too deeply"]),
    ("an alias bomb", &["FILE:2:8: aliases (*name) are not accepted"]),
    ("a page of a web server", &["FILE:1:1: the document: this is no `", "such a file begins with `kelpie: "]),
    ("a list", &["such a file begins with `kelpie: "]),
    ("a tab for an indent", &["FILE:2:"]),
];

/// Longest time for a command. Source: our choice, many times what one takes, because tests share the processor.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a command that may use half a gigabyte of addresses, and no more.
fn run(bench: &Bench, args: &[&str]) -> Ran {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 900000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_kelpie")]).args(args);
    command.current_dir(bench.path("")).env("HOME", bench.path("")).env_remove("KELPIE_DB").env_remove("KELPIE_CONFIG");
    let start = Instant::now();
    let ran = Ran::of(command.stdin(std::process::Stdio::null()).output().expect("sh is there"));
    assert!(start.elapsed() < PATIENCE, "{args:?} took {:?}", start.elapsed());
    ran
}

/// What is wrong with a refusal, and nothing if it is as it should be.
fn complaints(ran: &Ran, file: &str, fragments: &[&str]) -> Option<String> {
    let message = ran.stderr.split_once("error: ").map_or("", |(_, message)| message);
    let fragments: Vec<String> = fragments.iter().map(|fragment| fragment.replace("FILE", file)).collect();
    let missing = fragments.iter().find(|fragment| !message.contains(*fragment));
    let noises = [
        "panicked",
        "Some(",
        "Err(",
        "struct ",
        "enum ",
        "variant",
        "untagged",
        "u64",
        "f64",
        "os error 21",
        "at line ",
    ];
    let noise = noises.iter().find(|noise| message.contains(**noise));
    let steers = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
    Some(
        match (missing, noise) {
            _ if (ran.status, ran.stdout.as_str()) != (Some(2), "") => format!("exit status {:?}", ran.status),
            _ if ran.stderr.matches("error: ").count() != 1 => "not one error".to_owned(),
            (Some(missing), _) => format!("no `{missing}`"),
            (None, Some(noise)) => format!("`{noise}`"),
            _ if message.contains(steers) => "control characters".to_owned(),
            _ if message.chars().count() > 3000 => "endless".to_owned(),
            _ => return None,
        } + " in "
            + &ran.stderr,
    )
}

/// Fails with every complaint at once.
fn none_of(complaints: &[String]) {
    assert!(complaints.is_empty(), "{} complaints\n{}", complaints.len(), complaints.join("\n"));
}

fn refused(ran: &Ran, case: &str, file: &str, fragments: &[&str]) -> Option<String> {
    complaints(ran, file, fragments).map(|complaint| format!("{case}: {complaint}"))
}

#[test]
fn broken_files_are_refused() {
    let bench = Bench::new();
    let (mut cases, mut wrong) = (0, Vec::new());
    for kind in kinds(&bench) {
        let command: Vec<String> = kind.command.iter().map(|word| word.replace("FILE", kind.file)).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let path = bench.path(kind.file);
        for (way, breaks, fragments) in WAYS {
            breaks(&path, &kind);
            let case = format!("{}, {way}", kind.file);
            let ran = run(&bench, &command);
            let more = YAML.iter().find(|(name, _)| kind.is_yaml() && name == way).map_or(&[][..], |(_, more)| more);
            wrong.extend(refused(&ran, &case, kind.file, &[fragments, more].concat()));
            if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir(&path).expect("it is empty");
            } else if path.symlink_metadata().is_ok() {
                std::fs::remove_file(&path).expect("it is ours");
            }
            cases += 1;
        }
        assert!(!bench.path("k.db").exists(), "nothing is stored for a file that is refused");
    }
    none_of(&wrong);
    assert!(cases > 240, "{cases}");
}

#[test]
fn other_ends_of_lines_and_a_mark_at_the_beginning_are_no_mistake() {
    let bench = Bench::new();
    for kind in kinds(&bench) {
        let command: Vec<String> = kind.command.iter().map(|word| word.replace("FILE", kind.file)).collect();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let path = bench.path(kind.file);
        write(&path, &kind.good);
        let expected = run(&bench, &command);
        let status = expected.status;
        // A campaign of one experiment may find an anomaly.
        assert!(status == Some(kind.status) || (kind.file == "b.yaml" && status == Some(1)), "{expected:?}");
        for (way, text) in [("CRLF", kind.good.replace('\n', "\r\n")), ("a mark", format!("\u{feff}{}", kind.good))] {
            write(&path, text);
            assert_eq!(run(&bench, &command).status, status, "{}, {way}", kind.file);
        }
    }
}

#[test]
fn a_pipe_that_nobody_writes_to_is_given_up_and_one_with_a_writer_is_read() {
    let bench = Bench::new();
    let kinds = kinds(&bench);
    let made = Command::new("mkfifo").args(kinds.iter().map(|kind| bench.path(kind.file))).status();
    assert!(made.expect("mkfifo is there").success());
    std::thread::scope(|scope| {
        for kind in &kinds {
            let bench = &bench;
            scope.spawn(move || {
                let command: Vec<String> = kind.command.iter().map(|word| word.replace("FILE", kind.file)).collect();
                let command: Vec<&str> = command.iter().map(String::as_str).collect();
                let expected = ["FILE: a pipe, and nobody wrote to it within 20 s"];
                let complaint = refused(&run(bench, &command), kind.file, kind.file, &expected);
                assert_eq!(complaint, None);
            });
        }
    });
    let script = "kelpie=$0; printf '%s' \"$1\" | \"$kelpie\" measure /dev/stdin -s sim:F && \
                  (sleep 0.3; printf '%s' \"$1\") > w.yaml & \"$0\" measure w.yaml -s sim:F";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_kelpie"), HEALTHY]).current_dir(bench.path(""));
    let ran = Ran::of(command.env("HOME", bench.path("")).output().expect("sh is there"));
    assert_eq!(ran.status, Some(0), "{ran:?}");
}

#[test]
fn values_that_no_workload_can_have_are_named() {
    let bench = Bench::new();
    let mut wrong = Vec::new();
    let values = [
        "-1",
        "0",
        "1.5",
        "1e309",
        ".inf",
        ".nan",
        "99999999999999999999999",
        "0x",
        "1_000",
        "8 QPs",
        "~",
        "\"\"",
        "[8]",
        "{a: 8}",
        "true",
        "eight",
        "\"8; rm -rf /\"",
        "8GiB",
        "-0",
        "٨",
    ];
    for value in values {
        bench.write("w.yaml", HEALTHY.replace("qps: 8", &format!("qps: {value}")));
        let ran = run(&bench, &["measure", "w.yaml", "-s", "sim:F"]);
        wrong.extend(refused(&ran, value, "w.yaml", &["FILE:6:10: flows[0].qps: "]));
    }
    for value in ["1500", "2kib", "-4096", "4096.0", "1e3", "[4096]", "~"] {
        bench.write("w.yaml", HEALTHY.replace("mtu: 4096", &format!("mtu: {value}")));
        let ran = run(&bench, &["measure", "w.yaml", "-s", "sim:F"]);
        wrong.extend(refused(&ran, value, "w.yaml", &["FILE:7:10: flows[0].mtu: "]));
    }
    for (dimension, value) in [
        ("qps", "{min: 0, max: 4}"),
        ("qps", "{min: 4, max: 1}"),
        ("qps", "{min: 1, max: 99999999}"),
        ("qps", "{least: 1}"),
        ("qps", "[]"),
        ("qps", "[1, 1, x]"),
        ("mtu", "{min: 1}"),
        ("opcode", "[FLY]"),
        ("opcode", "RC"),
        ("qp_type", "[XRC]"),
        ("message", "[64potatoes]"),
        ("memory_requester", "[\"floppy:0\"]"),
        ("loopback", "[maybe]"),
    ] {
        bench.write("s.yaml", format!("kelpie: space/1\n{dimension}: {value}\n"));
        wrong.extend(refused(&run(&bench, &["space", "check", "s.yaml"]), value, "s.yaml", &["FILE:2:", dimension]));
    }
    for value in ["-1", "0", "1e30", ".nan", ".inf", "\"200\"", "[200]", "~", "200Gbps", "1e-30"] {
        bench.write(
            "m.yaml",
            format!("kelpie: model/2\nname: m\ndescription: d\nbase: F\nport: {{line_rate_gbps: {value}}}\n"),
        );
        let ran = run(&bench, &["subsystem", "check", "sim:m.yaml"]);
        wrong.extend(refused(&ran, value, "m.yaml", &["FILE:5:", "port", "line_rate_gbps"]));
    }
    for value in ["-1", "0", "1e30", ".nan", "4.5", "\"4\"", "[4]", "~", "four"] {
        bench.write("c.yaml", CLUSTER.replace("leaves: 4", &format!("leaves: {value}")));
        bench.write("jobs.yaml", JOBS);
        let ran = run(&bench, &["fabric", "rates", "c.yaml", "jobs.yaml"]);
        wrong.extend(refused(&ran, value, "c.yaml", &["FILE:7:", "leaves"]));
    }
    none_of(&wrong);
}

#[test]
fn arguments_that_cannot_be_meant_are_named() {
    let bench = Bench::new();
    bench.write("w.yaml", HEALTHY);
    bench.expect(0, &["campaign", "run", "-s", "sim:F", "--budget", "3", "--db", "k.db"]);
    std::fs::create_dir(bench.path("there")).expect("a folder");
    bench.write("there/file", "x");
    let mut wrong = Vec::new();
    for (args, fragments) in [
        (&["measure", "w.yaml"][..], &["--subsystem"][..]),
        (&["measure", "w.yaml", "x.yaml", "-s", "sim:F"], &["x.yaml"]),
        (&["measure", "w.yaml", "-s", "sim:f"], &["`f`", "A to H"]),
        (&["measure", "w.yaml", "-s", "sim:F", "--latency"], &["--latency"]),
        (&["measure", "w.yaml", "-s", "sim:F", "--set", "port=1"], &["--set port=1", "group"]),
        (&["measure", "w.yaml", "-s", "sim:F", "--fix", "-1"], &["-1"]),
        (&["measure", "w.yaml", "-s", "sim:F", "-q", "-v"], &["--quiet", "--verbose"]),
        (&["measure", "w.yaml", "-s", "sim:F", "--seed", "1e3"], &["1e3", "--seed"]),
        (&["measure", "w.yaml", "-s", "sim:F", "--color", "blue"], &["blue", "never"]),
        (&["campaign", "run", "-s", "sim:F", "--budget", "-5"], &["-5", "--budget"]),
        (&["campaign", "run", "-s", "sim:F", "--budget", "1e9"], &["1e9", "--budget"]),
        (&["campaign", "run", "-s", "sim:F", "--time", "90"], &["30s, 5m or 1h30m"]),
        (&["campaign", "run", "-s", "sim:F", "--time", "0s"], &["less than a second"]),
        (&["campaign", "run", "-s", "sim:F", "--gate-severity", "0.3"], &["--gate"]),
        (&["campaign", "run", "-s", "sim:F", "--gate", "--gate-severity", "30"], &["0 to 1"]),
        (&["campaign", "run", "-s", "sim:F", "--algorithm", "koelpie"], &["koelpie", "kelpie"]),
        (&["campaign", "run", "-s", "sim:F", "--space", "ful"], &["did you mean `full`?"]),
        (&["campaign", "run", "-s", "sim:F", "--name", "\u{7}"], &["control characters"]),
        (&["campaign", "run", "-s", "sim:F", "--db", ""], &["--db"]),
        (&["campaign", "resume", "--seed", "3", "--db", "k.db"], &["--seed"]),
        (&["campaign", "resume", "1", "--budget", "2", "--db", "k.db"], &["already has 3"]),
        (&["campaign", "show", "0", "--db", "k.db"], &["kelpie campaign list"]),
        (&["campaign", "show", "99999999999999999999", "--db", "k.db"], &["kelpie campaign list"]),
        (&["campaign", "show", "2", "--db", "k.db"], &["no campaign 2"]),
        (&["campaign", "rm", "2", "--yes", "--db", "k.db"], &["no campaign 2"]),
        (&["campaign", "export", "--out", "there", "--db", "k.db"], &["there", "empty"]),
        (&["campaign", "export", "--format", "xlsx", "--out", "x", "--db", "k.db"], &["xlsx", "parquet"]),
        (&["campaign", "backup", "--out", "k.db", "--db", "k.db"], &["k.db"]),
        (&["campaign", "backup", "--out", "no/such/x.db", "--db", "k.db"], &["no/such/x.db"]),
        (&["campaign", "baseline", "--out", "w.yaml", "--db", "k.db"], &["w.yaml", "--force"]),
        (&["report", "--db", "k.db"], &["--out"]),
        (&["report", "--out", "w.yaml", "--db", "k.db"], &["w.yaml", "not a directory"]),
        (&["report", "--out", "there", "--db", "k.db"], &["there", "--force"]),
        (&["report", "--out", "there", "--force", "--db", "k.db"], &["`file`"]),
        (&["report", "--out", "/proc/site", "--db", "k.db"], &["/proc"]),
        (&["watch", "--listen", "nonsense", "--db", "k.db"], &["nonsense", "--listen"]),
        (&["watch", "--listen", "8.8.8.8:1", "--db", "k.db"], &["8.8.8.8:1", "loopback"]),
        (&["watch", "7", "--db", "k.db"], &["no campaign 7"]),
        (&["diff", "1", "--db", "k.db"], &["<B>"]),
        (&["diff", "1", "9", "--db", "k.db"], &["no campaign 9"]),
        (&["diff", "1", "1", "--db", "k.db", "--against", "gone.db"], &["gone.db"]),
        (&["mfs", "check", "w.yaml", "--measure", "sim:Z", "--db", "k.db"], &["`Z`"]),
        (&["space", "sample", "full", "-n", "0"], &["0", "--number"]),
        (&["space", "sample", "full", "-n", "1000000000"], &["--number"]),
        (&["space", "restrict", "full", "--only", "qps"], &["key=value"]),
        (&["space", "restrict", "full", "--only", "qbs=1"], &["did you mean `qps`?"]),
        (&["space", "restrict", "full", "--max", "mtu=banana"], &["--max: mtu: "]),
        (&["recipe", "export", "1.99", "--out", "r.tgz", "--db", "k.db"], &["no finding 99"]),
        (&["recipe", "export", "anomaly:99", "--out", "r.tgz"], &["99"]),
        (&["recipe", "replay", "w.yaml"], &["w.yaml"]),
        (&["trace", "--from", "there", "--", "true"], &["--from"]),
        (&["trace", "--out", "there", "--", "true"], &["there", "empty"]),
        (&["agent", "--listen", "0.0.0.0:7471"], &["--plain"]),
        (&["agent", "--plain", "--ca", "x"], &["--ca"]),
        (&["agent", "--identity", "x"], &["--ca"]),
        (&["agent", "--max-qps", "-1"], &["-1", "--max-qps"]),
        (&["agent", "cert"], &["--agent"]),
        (&["host", "diagnose", "--topology", "w.yaml"], &["MATRIX.json"]),
        (&["host", "diagnose", "x", "--topology", "w.yaml", "--live", "--root", "x"], &["--live", "--root"]),
        (&["fabric", "rates", "w.yaml"], &["JOBS.yaml"]),
        (&["fabric", "rates", "--problem", "x", "w.yaml", "w.yaml"], &["--problem"]),
        (&["paths", "plan", "w.yaml"], &["--topology"]),
        (&["doctor", "--against", "gone.json"], &["gone.json: No such file"]),
        (&["doctor", "--root", "there"], &["there", "neither sys nor proc"]),
        (&["schema", "pears"], &["pears", "pair"]),
        (&["generate"], &["--out"]),
        (&["generate", "--out", "w.yaml"], &["w.yaml"]),
        (&["calibrate", "gone.csv", "--out", "m.yaml"], &["gone.csv"]),
        (&["bench", "search", "--subsystem", "pair.yaml"], &["pair.yaml"]),
        (&["meassure", "w.yaml"], &["meassure", "measure"]),
        (&["--no-such-option"], &["--no-such-option"]),
    ] {
        wrong.extend(refused(&run(&bench, args), &args.join(" "), "", fragments));
    }
    none_of(&wrong);
}

#[test]
fn a_configuration_file_with_a_mistake_is_named_and_help_is_printed_all_the_same() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path(".config/kelpie")).expect("a folder");
    bench.write("w.yaml", HEALTHY);
    bench.write(".config/kelpie/config.yaml", "kelpie: config/1\nsubsystem: sim:F\n");
    bench.expect(0, &["measure", "w.yaml"]);
    bench.write(".config/kelpie/config.yaml", "kelpie: config/1\nsubsytem: sim:F\n");
    let ran = bench.run(&["measure", "w.yaml"]);
    let expected = ["FILE:2:1: subsytem: unknown key `subsytem`; did you mean `subsystem`?"];
    assert_eq!(refused(&ran, "config", "config.yaml", &expected), None);
    assert!(bench.expect(0, &["measure", "--help"]).contains("--subsystem"));
    bench.expect(0, &["--version"]);
}
