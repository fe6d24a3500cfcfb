//! Bad input ends with exit status 2 and one clear message, and harms nothing that is stored.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::determinism::content;
use crate::support::{ANOMALY_1, Bench, HEALTHY, Ran, is_sqlite};

/// One message on stderr that begins with `error:`, or that is JSON of an error, and names all mistakes: it holds every
/// fragment. Nothing on stdout; exit status 2.
fn check(ran: &Ran, case: &str, fragments: &[&str]) {
    assert_eq!(ran.status, Some(2), "{case}: {ran:?}");
    assert_eq!(ran.stdout, "", "{case}");
    let message: Vec<&str> =
        ran.stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("{\"error\":")).collect();
    assert_eq!(message.len(), 1, "{case}: {}", ran.stderr);
    for fragment in fragments {
        assert!(ran.stderr.contains(fragment), "{case}: no `{fragment}` in {}", ran.stderr);
    }
    for noise in ["panicked", "RUST_BACKTRACE", "stack backtrace", "Some(", "Err("] {
        assert!(!ran.stderr.contains(noise), "{case}: {}", ran.stderr);
    }
}

#[test]
fn workload_files() {
    let bench = Bench::new();
    let uc_read = HEALTHY.replace("RC", "UC").replace("WRITE", "READ");
    let over_mtu = ANOMALY_1.replace("mtu: 2048", "mtu: 1024");
    let huge = vec![b' '; 17 << 20];
    let deep = format!("kelpie: workload/1\nflows: {}", "[".repeat(100_000));
    let table: &[(&str, &[u8], &[&str])] = &[
        (
            "unknown key",
            &HEALTHY.replace("qps:", "queue_pairs:").into_bytes(),
            &["w.yaml:6", "queue_pairs", "unknown key"],
        ),
        ("missing key", &HEALTHY.replace("    to: b\n", "").into_bytes(), &["w.yaml", "flows[0]", "to"]),
        ("no number", &HEALTHY.replace("qps: 8", "qps: many").into_bytes(), &["w.yaml:6", "flows[0].qps"]),
        ("zero", &HEALTHY.replace("qps: 8", "qps: 0").into_bytes(), &["w.yaml:6", "flows[0].qps", "0"]),
        (
            "beyond any number",
            &HEALTHY.replace("qps: 8", "qps: 99999999999999999999999").into_bytes(),
            &["w.yaml:6", "qps"],
        ),
        ("READ on UC", uc_read.as_bytes(), &["w.yaml:11", "op", "UC cannot READ"]),
        ("UD over the MTU", over_mtu.as_bytes(), &["w.yaml", "sge", "1024"]),
        (
            "batch over depth",
            &HEALTHY.replace("batch: {send: 1,", "batch: {send: 500,").into_bytes(),
            &["w.yaml:9", "batch.send", "128"],
        ),
        (
            "element over its MR",
            &HEALTHY.replace("mr_size: 4MiB", "mr_size: 4KiB").into_bytes(),
            &["w.yaml", "sge", "4KiB"],
        ),
        ("bad size", &HEALTHY.replace("64KiB", "64 potatoes").into_bytes(), &["w.yaml:11", "64 potatoes"]),
        ("bad device", &HEALTHY.replace("dram:0", "floppy:0").into_bytes(), &["w.yaml:13", "floppy:0", "dram:N"]),
        ("another format", &HEALTHY.replace("workload/1", "workload/9").into_bytes(), &["w.yaml:1", "workload/1"]),
        ("truncated", &HEALTHY.as_bytes()[..230], &["w.yaml"]),
        ("not UTF-8", b"kelpie: \xff\xfe", &["w.yaml", "UTF-8"]),
        ("zeros", &[0; 64], &["w.yaml"]),
        ("empty", b"", &["w.yaml:1", "empty"]),
        ("a list", b"- 1\n", &["w.yaml:1"]),
        ("deep nesting", deep.as_bytes(), &["w.yaml"]),
        ("huge", &huge, &["w.yaml", "16 MiB"]),
    ];
    for (case, content, fragments) in table {
        bench.write("w.yaml", content);
        check(&bench.run(&["measure", "w.yaml", "--subsystem", "sim:F"]), case, fragments);
    }
    check(&bench.run(&["measure", "gone.yaml", "--subsystem", "sim:F"]), "missing", &["gone.yaml", "No such file"]);
    check(&bench.run(&["measure", ".", "--subsystem", "sim:F"]), "a directory", &["directory"]);
}

#[test]
fn models_and_subsystems() {
    let bench = Bench::new();
    bench.write("w.yaml", HEALTHY);
    let model = bench.expect(0, &["subsystem", "show", "sim:F"]);
    let huge = vec![b'#'; 17 << 20];
    let table: &[(&str, &[u8], &[&str])] = &[
        (
            "zero rate",
            &model.replace("line_rate_gbps: 200.0", "line_rate_gbps: 0").into_bytes(),
            &["m.yaml:5", "port.line_rate_gbps", "outside 0.001 to"],
        ),
        ("negative rate", &model.replace("max_mpps: ", "max_mpps: -").into_bytes(), &["m.yaml:6", "port.max_mpps"]),
        (
            "not a number",
            &model.replace("line_rate_gbps: 200.0", "line_rate_gbps: .nan").into_bytes(),
            &["m.yaml:5", "port.line_rate_gbps"],
        ),
        ("unknown key", &model.replace("max_mpps:", "max_mqps:").into_bytes(), &["m.yaml:6", "port.max_mqps"]),
        ("unknown base", b"kelpie: model/2\nbase: m.yaml\n", &["m.yaml:2", "base", "A to H"]),
        (
            "mistake over a base",
            b"kelpie: model/2\nname: m\ndescription: m\nbase: F\nfetch: {send_misses: x}\n",
            &["m.yaml:5", "fetch.send_misses"],
        ),
        ("truncated", &model.as_bytes()[..model.len() / 2], &["m.yaml"]),
        ("not UTF-8", b"kelpie: \xff", &["m.yaml", "UTF-8"]),
        ("empty", b"", &["m.yaml"]),
        ("huge", &huge, &["m.yaml: longer than 1 MiB"]),
    ];
    for (case, content, fragments) in table {
        bench.write("m.yaml", content);
        check(&bench.run(&["measure", "w.yaml", "--subsystem", "sim:m.yaml"]), case, fragments);
        check(&bench.run(&["campaign", "run", "--subsystem", "sim:m.yaml", "--db", "k.db"]), case, fragments);
        assert!(!bench.path("k.db").exists(), "{case}: nothing is stored for a campaign that cannot begin");
    }
    for (case, subsystem, fragments) in [
        ("no such model", "sim:Q", &["`Q`", "sim:path.yaml"][..]),
        ("no model", "sim:", &["kelpie subsystem list"]),
        ("no such name", "nothing", &["no subsystem `nothing`", "sim:NAME"]),
        ("no such file", "sim:gone.yaml", &["gone.yaml"]),
        ("no such pair", "gone.yaml", &["gone.yaml"]),
        ("a workload as pair", "w.yaml", &["w.yaml"]),
        ("no lab", "lab", &["cargo xtask lab up"]),
    ] {
        check(&bench.run(&["measure", "w.yaml", "--subsystem", subsystem]), case, fragments);
    }
    for (case, change, fragments) in [
        ("unknown parameter", ["--set", "nic.nothing=1"], &["nic.nothing"][..]),
        ("parameter out of range", ["--set", "port.line_rate_gbps=0"], &["port.line_rate_gbps"]),
        ("parameter without value", ["--set", "port.line_rate_gbps"], &["path.to.key=value"]),
        ("unknown fix", ["--fix", "99"], &["99"]),
    ] {
        check(&bench.run(&[&["measure", "w.yaml", "--subsystem", "sim:F"], &change[..]].concat()), case, fragments);
    }
}

#[test]
fn spaces_and_arguments() {
    let bench = Bench::new();
    let table: &[(&str, &[u8], &[&str])] = &[
        ("reversed range", b"kelpie: space/1\nqps: {min: 9, max: 3}\n", &["s.yaml:2", "qps"]),
        ("unknown dimension", b"kelpie: space/1\nqpz: [1]\n", &["s.yaml:2", "qpz"]),
        ("no workload left", b"kelpie: space/1\nqp_type: [UD]\nopcode: [READ]\n", &["s.yaml"]),
        ("not UTF-8", b"\xff", &["s.yaml", "UTF-8"]),
        ("empty", b"", &["s.yaml"]),
    ];
    for (case, content, fragments) in table {
        bench.write("s.yaml", content);
        check(&bench.run(&["space", "check", "s.yaml"]), case, fragments);
        check(&bench.run(&["campaign", "run", "--subsystem", "sim:F", "--space", "s.yaml"]), case, fragments);
    }
    let run = ["campaign", "run", "--subsystem", "sim:F"];
    for (case, args, fragments) in [
        ("no budget", &["--budget", "0"][..], &["--budget"][..]),
        ("no unit", &["--time", "5"], &["30s, 5m or 1h30m"]),
        ("unknown algorithm", &["--algorithm", "magic"], &["'magic' for '--algorithm"]),
        ("unknown signal", &["--signal", "smoke"], &["'smoke' for '--signal"]),
        ("negative seed", &["--seed=-1"], &["--seed"]),
        ("unknown space", &["--space", "nowhere"], &["no space `nowhere`", "full"]),
    ] {
        check(&bench.run(&[&run[..], args].concat()), case, fragments);
    }
    check(&bench.run(&["frobnicate"]), "unknown command", &["frobnicate"]);
}

/// Short experiments, where it is of no matter what they measure.
const SHORT: &str = "sampling.max_events=20000";

/// A bench with a finished campaign in `k.db`.
fn with_campaign() -> (Bench, String) {
    let bench = Bench::new();
    bench.expect(0, &["campaign", "run", "--subsystem", "sim:F", "--set", SHORT, "--budget", "20", "--db", "k.db"]);
    let content = content(&bench, "k.db", "1");
    (bench, content)
}

#[test]
fn databases() {
    let (bench, _) = with_campaign();
    bench.write("text.db", HEALTHY.repeat(100));
    bench.write("empty.db", "");
    let mut cut = std::fs::read(bench.path("k.db")).expect("the database");
    cut.truncate(cut.len() / 2);
    bench.write("cut.db", &cut);
    cut.truncate(50);
    bench.write("stub.db", &cut);
    let missing = "kelpie campaign run";
    for (case, args, fragments) in [
        ("text", &["campaign", "run", "--subsystem", "sim:F", "--db", "text.db"][..], &["text.db", "not SQLite"][..]),
        ("text, read", &["campaign", "list", "--db", "text.db"], &["text.db", "not SQLite"]),
        ("header only", &["campaign", "list", "--db", "stub.db"], &["stub.db"]),
        (
            "half a file",
            &["campaign", "show", "1", "--db", "cut.db", "--json", "--experiments"],
            &["cut.db", "damaged"],
        ),
        ("a directory", &["campaign", "run", "--subsystem", "sim:F", "--db", "."], &["not a file"]),
        ("under a file", &["campaign", "run", "--subsystem", "sim:F", "--db", "text.db/k.db"], &["text.db/k.db"]),
        ("in /proc", &["campaign", "run", "--subsystem", "sim:F", "--db", "/proc/k.db"], &["/proc/k.db"]),
        ("missing", &["campaign", "list", "--db", "gone.db"], &["gone.db", missing]),
        ("missing, resumed", &["campaign", "resume", "--db", "gone.db"], &["gone.db", missing]),
        ("missing, checked", &["mfs", "list", "--db", "gone.db"], &["gone.db", missing]),
        ("empty", &["campaign", "list", "--db", "empty.db"], &["empty.db", missing]),
        ("no such campaign", &["campaign", "show", "7", "--db", "k.db"], &["no campaign 7", "kelpie campaign list"]),
        ("nothing to resume", &["campaign", "resume", "--db", "k.db"], &["kelpie campaign list"]),
        ("finished", &["campaign", "resume", "1", "--db", "k.db"], &["finished", "--budget"]),
        ("budget behind", &["campaign", "resume", "1", "--db", "k.db", "--budget", "5"], &["already has 20"]),
        ("no number", &["campaign", "show", "first", "--db", "k.db"], &["kelpie campaign list"]),
    ] {
        check(&bench.run(args), case, fragments);
    }
    assert!(!bench.path("gone.db").exists(), "looking does not create");
    bench.expect(0, &["campaign", "run", "--subsystem", "sim:F", "--budget", "1", "--db", "empty.db"]);
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let (bench, before) = with_campaign();
    let sql = "INSERT INTO _sqlx_migrations VALUES (9999, 'later', '2030-01-01', 1, x'00', 1)";
    sqlite(&bench, sql);
    let bytes = std::fs::read(bench.path("k.db")).expect("the database");
    for args in [
        &["campaign", "run", "--subsystem", "sim:F", "--db", "k.db"][..],
        &["campaign", "resume", "1", "--db", "k.db", "--budget", "30"],
        &["campaign", "show", "1", "--db", "k.db"],
        &["mfs", "list", "--db", "k.db"],
    ] {
        check(&bench.run(args), "newer", &["k.db", "newer Kelpie", "9999", "upgrade"]);
    }
    assert_eq!(std::fs::read(bench.path("k.db")).expect("the database"), bytes);
    sqlite(&bench, "DELETE FROM _sqlx_migrations WHERE version = 9999");
    assert_eq!(content(&bench, "k.db", "1"), before);
}

/// Runs a statement on `k.db` behind Kelpie's back.
fn sqlite(bench: &Bench, statement: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        use sqlx::{ConnectOptions, Connection};
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(bench.path("k.db"));
        let mut connection = options.connect().await.expect("a database");
        sqlx::query(statement).execute(&mut connection).await.expect("a statement");
        connection.close().await.expect("nothing is left in the log");
    });
}

/// A user who owns nothing, since root may write what is read-only.
const NOBODY: u32 = 65_534;

#[test]
fn a_read_only_database_can_be_read_but_not_written() {
    let (bench, before) = with_campaign();
    let binary = bench.path("kelpie");
    std::fs::copy(env!("CARGO_BIN_EXE_kelpie"), &binary).expect("room for a copy");
    let mode = |path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    for name in ["k.db-wal", "k.db-shm"] {
        let _ = std::fs::remove_file(bench.path(name));
    }
    mode(bench.path("kelpie"), 0o555);
    mode(bench.path("k.db"), 0o444);
    mode(bench.path("."), 0o555);
    let root = is_root();
    let run = |args: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(args).current_dir(bench.path(".")).env("HOME", "/nonexistent");
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        Ran::of(command.output().expect("the binary starts"))
    };
    for args in [
        &["campaign", "run", "--subsystem", "sim:F", "--db", "k.db"][..],
        &["campaign", "resume", "1", "--db", "k.db", "--budget", "30"],
    ] {
        check(&run(args), "read-only", &["k.db", "read-only"]);
    }
    check(&run(&["campaign", "run", "--subsystem", "sim:F", "--db", "new.db"]), "read-only folder", &["new.db"]);
    check(&run(&["campaign", "run", "--subsystem", "sim:F"]), "no home", &["/nonexistent"]);
    let shown = run(&["campaign", "show", "1", "--db", "k.db"]);
    assert_eq!(shown.status, Some(0), "reading needs no writing: {}", shown.stderr);
    mode(bench.path("."), 0o755);
    mode(bench.path("k.db"), 0o644);
    assert_eq!(content(&bench, "k.db", "1"), before);
}

/// Whether this process may do everything: who owns a file that it makes.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    let file = tempfile::tempfile().expect("a temporary file");
    file.metadata().expect("just made").uid() == 0
}

#[test]
fn a_disk_that_fills_up_stops_a_campaign_that_can_be_resumed() {
    let bench = Bench::new();
    // A file size limit stands in for a full disk; the store tests that SQLITE_FULL has an error of its own.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 600; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_kelpie")])
        .args(["campaign", "run", "--subsystem", "sim:F", "--set", SHORT])
        .args(["--budget", "400", "--seed", "2", "--db", "k.db"])
        .current_dir(bench.path("."));
    let ran = Ran::of(command.output().expect("sh is there"));
    check(&ran, "full", &["campaign 1 stopped", "kelpie campaign resume 1 --db k.db", "k.db", "stored"]);
    assert!(is_sqlite(&bench.path("k.db")));
    let stored = bench.json(0, &["campaign", "list", "--db", "k.db"])["campaigns"][0]["experiments"].as_u64();
    let stored = stored.expect("a count");
    assert!(stored > 0, "something was stored before");
    let goal = (stored + 5).to_string();
    bench.expect(0, &["campaign", "resume", "1", "--db", "k.db", "--budget", &goal]);
    let whole = ["campaign", "run", "--subsystem", "sim:F", "--set", SHORT, "--seed", "2", "--db", "whole.db"];
    bench.expect(0, &[&whole[..], &["--budget", &goal]].concat());
    assert_eq!(content(&bench, "k.db", "1"), content(&bench, "whole.db", "1"));
}

#[test]
fn a_copy_that_finds_no_room_is_named_and_not_its_source() {
    let (bench, before) = with_campaign();
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_kelpie")])
        .args(["campaign", "backup", "--db", "k.db", "--out", "copy.db"])
        .current_dir(bench.path("."));
    let ran = Ran::of(command.output().expect("sh is there"));
    check(&ran, "full", &["copy.db"]);
    assert!(!ran.stderr.contains("resume"), "{}", ran.stderr);
    let left = std::fs::read_dir(bench.path(".")).expect("a folder").filter_map(Result::ok);
    let left: Vec<_> = left.filter(|file| file.file_name().to_string_lossy().starts_with("copy.db")).collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(content(&bench, "k.db", "1"), before);
}

#[test]
fn errors_are_json_for_machines() {
    let bench = Bench::new();
    bench.write("w.yaml", HEALTHY.replace("qps:", "qbs:").replace("mtu: 4096", "mtu: 1500"));
    let ran = bench.run(&["measure", "w.yaml", "--subsystem", "sim:F", "--json"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    let document: serde_json::Value = serde_json::from_str(&ran.stderr).expect("one document");
    let error = &document["error"];
    assert_eq!(error.get("at_least"), None, "{document}");
    assert_eq!((&error["file"], &error["more"]), (&"w.yaml".into(), &0.into()), "{document}");
    let keys: Vec<&str> =
        error["mistakes"].as_array().expect("a list").iter().map(|one| one["key"].as_str().expect("a key")).collect();
    assert_eq!(keys, ["flows[0].qbs", "flows[0].mtu"]);
    assert!(error["message"].as_str().expect("text").contains("did you mean `qps`?"), "{document}");
    let ran = bench.run(&["measure", "none.yaml", "--subsystem", "sim:F", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.stderr).expect("one document");
    assert!(document["error"]["message"].as_str().expect("text").starts_with("none.yaml: "), "{document}");
}

/// Names that a stranger's database, file or agent may hold.
const STEERING: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}.yaml";

#[test]
fn nothing_that_others_wrote_steers_a_terminal() {
    let bench = Bench::new();
    bench.write(STEERING, crate::support::SMALL_SPACE);
    let run = ["campaign", "run", "--subsystem", "sim:F", "--space", STEERING, "--budget", "12", "--db", "k.db"];
    bench.expect(0, &["campaign", "run", "--subsystem", "sim:F", "--budget", "5", "--db", "other.db"]);
    for args in [
        &run[..],
        &["campaign", "show", "--db", "k.db"],
        &["campaign", "show", "--db", "k.db", "--json", "--experiments"],
        &["campaign", "list", "--db", "k.db"],
        &["campaign", "list", "--db", "k.db", "--json"],
        &["campaign", "show", "9", "--db", "k.db"],
        &["mfs", "list", "--db", "k.db"],
        &["diff", "1", "1", "--db", "k.db"],
        &["report", "--db", "k.db", "--out", "site"],
        &["measure", STEERING, "--subsystem", "sim:F"],
        &["measure", STEERING, "--subsystem", "sim:F", "--json"],
        &["space", "show", STEERING],
    ] {
        let ran = bench.run(args);
        for (what, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let steers = |c: &char| c.is_control() && !matches!(c, '\n' | '\t') || *c == '\u{202e}';
            assert_eq!(text.chars().find(steers), None, "{what} of {args:?}: {text:?}");
        }
    }
}
