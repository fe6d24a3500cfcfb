//! A verbs program does the same whether it is traced or not, on a libibverbs without a device that the tests build.

#![cfg(feature = "verbs")]

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use kelpie_trace::Process;

/// The program, its libibverbs and a folder for its records.
struct TracedProgram {
    folder: tempfile::TempDir,
}

fn build(arguments: &[&str], folder: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let mut command = Command::new("cc");
    command.args(["-O1", "-Wall", "-Wno-unused-parameter", "-pthread", "-I"]).arg(&sources);
    command.args(arguments).current_dir(&sources).env("OUT", folder);
    let output = command.output().expect("a C compiler, which Rust links with as well");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl TracedProgram {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let library = path("libibverbs.so.1");
        let shared = ["-shared", "-fPIC"];
        let named = ["-Wl,-soname,libibverbs.so.1", "-Wl,--version-script,fake_verbs.map"];
        build(&[&shared[..], &named, &["fake_verbs.c", "-o", &library]].concat(), folder.path());
        build(
            &[&shared[..], &["-Wl,--version-script,beside.map", "beside.c", "-o", &path("beside.so"), "-ldl"]].concat(),
            folder.path(),
        );
        build(&["program.c", &library, "-o", &path("program"), "-ldl"], folder.path());
        fs::create_dir(folder.path().join("records")).expect("it is new");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the program traced, by what `shell` makes of it: `$RUN` is the program, to be followed by what it shall do.
    fn run(&self, shell: &str, more: &[(&str, &str)]) -> ExitStatus {
        let preload = env::current_exe().expect("this test").with_file_name("libkelpie_preload.so");
        assert!(preload.is_file(), "{}", preload.display());
        let run = format!(
            "env LD_LIBRARY_PATH={} LD_PRELOAD={}:{} {}",
            self.folder.path().display(),
            preload.display(),
            self.path("beside.so").display(),
            self.path("program").display()
        );
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "bash", "-c", shell]).env("RUN", run);
        command.env("KELPIE_TRACE_DIR", self.path("records")).envs(more.iter().copied());
        command.status().expect("bash")
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.path("records")).expect("a folder");
        files.map(|file| file.expect("an entry").file_name().into_string().expect("a name")).collect()
    }

    /// The only record.
    fn record(&self) -> Process {
        let files = self.files();
        assert_eq!(files.len(), 1, "{files:?}");
        let file = File::open(self.path("records").join(&files[0])).expect("it is ours");
        kelpie_trace::process(&file).expect("a record")
    }
}

#[test]
fn a_chain_may_be_used_again_as_soon_as_it_is_posted() {
    for count in [3, 64, 65, 300] {
        let bench = TracedProgram::new();
        assert!(bench.run(&format!("$RUN send {count} 0"), &[]).success());
        let process = bench.record();
        let qp = &process.qps[0];
        assert_eq!((qp.requests, qp.batch_max, qp.ops[0].bytes.0), (count, count, 128 * count));
        assert_eq!((&qp.lkeys[..], &qp.rkeys[..]), (&[7][..], &[9][..]));
    }
    let bench = TracedProgram::new();
    assert!(bench.run("$RUN receive 70", &[]).success());
    assert_eq!(bench.record().qps[0].receives, 70);
}

#[test]
fn requests_that_are_refused_are_not_counted() {
    let bench = TracedProgram::new();
    let refused = bench.run("$RUN send 5 12", &[("FAKE_ROOM", "2")]);
    assert!(refused.success(), "{refused}");
    assert_eq!(bench.record().qps[0].requests, 2);
}

#[test]
fn two_threads_may_ask_for_the_extended_way_of_posting_at_once() {
    let bench = TracedProgram::new();
    let status = bench.run("$RUN threads", &[]);
    assert!(status.success(), "{status}");
    let process = bench.record();
    assert_eq!(process.qps.iter().map(|qp| qp.requests).sum::<u64>(), 16_000);
}

#[test]
fn another_preloaded_library_finds_what_comes_after_it() {
    let bench = TracedProgram::new();
    let status = bench.run("$RUN realpath", &[]);
    assert!(status.success(), "{status}");
}

#[test]
fn a_program_that_opens_libibverbs_by_itself_gets_ours() {
    let bench = TracedProgram::new();
    let status = bench.run("$RUN dlvsym", &[]);
    assert!(status.success() == cfg!(target_arch = "x86_64"), "{status}");
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_recording_and_not_the_program() {
    let bench = TracedProgram::new();
    let status = bench.run("ulimit -f 1000; $RUN many 5", &[]);
    assert!(status.success(), "{status}");
    let files = bench.files();
    assert!(files.len() == 1 && files[0].ends_with(".unrecorded-27"), "EFBIG: {files:?}");
}

/// On a file system of this size in a mount namespace of its own, `records` is kept in `kept` at the end.
fn on_a_small_file_system(bench: &TracedProgram, size: &str, what: &str) -> Option<ExitStatus> {
    let mount = format!("mount -t tmpfs -o size={size} none $KELPIE_TRACE_DIR");
    if !bench.run(&format!("unshare -rm bash -c '{mount}' 2>/dev/null"), &[]).success() {
        eprintln!("skipped: no file system can be mounted here");
        return None;
    }
    let shell =
        format!("{mount} && $RUN {what}; status=$?; cp --sparse=always -r $KELPIE_TRACE_DIR/. $KEPT; exit $status");
    fs::create_dir(bench.path("kept")).expect("it is new");
    let kept = bench.path("kept").display().to_string();
    let status = bench.run(&format!("unshare -rm bash -c '{shell}'"), &[("KEPT", &kept)]);
    fs::rename(bench.path("kept"), bench.path("records/kept")).expect("both are ours");
    Some(status)
}

#[test]
fn a_full_file_system_ends_the_recording_and_not_the_program() {
    let bench = TracedProgram::new();
    let Some(status) = on_a_small_file_system(&bench, "1m", "many 5") else { return };
    assert!(status.success(), "{status}");
    let names: Vec<_> = fs::read_dir(bench.path("records/kept"))
        .expect("a folder")
        .map(|file| file.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    assert!(names.len() == 1 && names[0].ends_with(".unrecorded-28"), "ENOSPC: {names:?}");
}

#[test]
fn qps_that_find_no_room_are_counted_and_the_others_are_kept() {
    let bench = TracedProgram::new();
    let Some(status) = on_a_small_file_system(&bench, "7m", "many 2000") else { return };
    assert!(status.success(), "{status}");
    let files: Vec<_> = fs::read_dir(bench.path("records/kept")).expect("a folder").collect();
    let file = files.into_iter().next().expect("one").expect("an entry");
    let process = kelpie_trace::process(&File::open(file.path()).expect("it is ours")).expect("a record");
    assert!((100..2000).contains(&process.qps.len()), "{}", process.qps.len());
    assert_eq!(process.qps.len() as u64 + process.unrecorded.qps, 2000);
    assert!(process.qps.iter().all(|qp| qp.requests == 1));
}
