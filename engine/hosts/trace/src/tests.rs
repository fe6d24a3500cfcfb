//! From what a program posts to what Kelpie says of it.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kelpie_spaces::{Bytes, Device, Host, Opcode, QpType, Workload};
use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64;

use crate::{
    MrDevice, Process, QpRow, QpRowKind, QueueDepths, ReadError, Recorder, Trace, Unsaid, WORDS, derive, process,
};

const RC: QpRowKind = QpRowKind::Qp(2);
const UD: QpRowKind = QpRowKind::Qp(4);
const DEPTH: QueueDepths = QueueDepths { send_depth: 128, recv_depth: 256 };

/// A traced process in the making.
struct FakeProcess(Vec<AtomicU64>);

impl FakeProcess {
    fn new() -> Self {
        let words: Vec<AtomicU64> = std::iter::repeat_with(|| AtomicU64::new(0)).take(WORDS).collect();
        Recorder::start(&words, 7).expect("as many as a record has");
        Self(words)
    }

    fn recorder(&self) -> Recorder<'_> {
        Recorder::resume(&self.0)
    }

    fn read(&self) -> Result<Process, ReadError> {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        file.write_all(&bytes).expect("it is written");
        process(&file)
    }

    fn trace(&self) -> Trace {
        let processes = vec![self.read().expect("a record")];
        Trace { kelpie: Trace::FORMAT.to_owned(), program: "app".to_owned(), processes }
    }
}

/// A connected QP.
fn qp(recorder: Recorder<'_>, kind: QpRowKind, [number, peer]: [u32; 2]) -> QpRow {
    let row = recorder.add(kind, number, DEPTH, None).expect("there is room");
    recorder.mtu(row, 1024);
    recorder.peer(row, peer);
    row
}

/// Posts batches of these messages, all from the MR with this key and to that key.
fn post(
    recorder: Recorder<'_>,
    row: QpRow,
    batches: usize,
    op: Option<Opcode>,
    batch: &[&[u32]],
    keys: (u32, Option<u32>),
) {
    for turn in 0..batches {
        for elements in batch {
            recorder.request(row, op, elements.iter().map(|length| (keys.0, *length)), keys.1, false);
        }
        recorder.posted(row, batch.len() as u64, || turn as u64 * 1000);
    }
}

fn receive(recorder: Recorder<'_>, row: QpRow, calls: usize, batch: u64, elements: &[u32], lkey: u32) {
    for _ in 0..calls {
        for _ in 0..batch {
            recorder.receive(row, elements.iter().map(|length| (lkey, *length)));
        }
        recorder.posted_receives(row, batch);
    }
}

/// The traced process, its peer if that was traced too; flows in short, and words that some note has.
fn check(own: &FakeProcess, peer: Option<&FakeProcess>, flows: &[&str], notes: &[&str]) -> Workload {
    let peer = peer.map(FakeProcess::trace);
    let derived = derive(&own.trace(), peer.as_ref()).expect("a workload");
    let short: Vec<String> = derived
        .workload
        .flows
        .iter()
        .map(|flow| {
            let pattern: Vec<String> = flow
                .pattern
                .iter()
                .map(|request| {
                    let sizes: Vec<String> = request.sge.iter().map(Bytes::to_string).collect();
                    format!("{} {}", request.op, sizes.join("+"))
                })
                .collect();
            let memory =
                |memory: &kelpie_spaces::Memory| format!("{}x{}@{}", memory.mrs, memory.mr_size, memory.device);
            format!(
                "{}{} {}x{} mtu {} depth {}/{} batch {}/{} [{}] {} {}",
                flow.from,
                flow.to,
                flow.qps,
                flow.qp_type,
                flow.mtu.bytes(),
                flow.wq_depth.send,
                flow.wq_depth.recv,
                flow.batch.send,
                flow.batch.recv,
                pattern.join(", "),
                memory(&flow.memory.from),
                memory(&flow.memory.to)
            )
        })
        .collect();
    assert_eq!(short, flows, "{:?}", derived.notes);
    for words in notes {
        assert!(derived.notes.iter().any(|note| note.contains(words)), "{words}: {:?}", derived.notes);
    }
    derived.workload
}

#[test]
fn equal_qps_are_one_flow_and_share_their_mr() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 4 << 20, MrDevice::Dram(1));
    for number in 1..=4 {
        let row = qp(recorder, RC, [number, number + 100]);
        post(recorder, row, 50, Some(Opcode::Write), &[&[65536], &[65536]], (5, Some(77)));
    }
    let flow = "ab 4xRC mtu 1024 depth 128/256 batch 2/1 [WRITE 64KiB] 1x1MiB@dram:1 1x1MiB@dram:1";
    check(&traced, None, &[flow], &["other end was not traced"]);
}

#[test]
fn the_peers_side_is_the_peers_own() {
    let (own, peer) = (FakeProcess::new(), FakeProcess::new());
    let (here, there) = (own.recorder(), peer.recorder());
    here.mr(5, 6, 1 << 20, MrDevice::Dram(0));
    there.mr(8, 9, 2 << 20, MrDevice::Gpu(3));
    there.mr(10, 11, 8 << 20, MrDevice::Dram(0));
    let (row, answer) = (qp(here, RC, [1, 2]), qp(there, RC, [2, 1]));
    post(here, row, 8, Some(Opcode::Write), &[&[4096]], (5, Some(9)));
    receive(there, answer, 4, 8, &[4096], 10);
    let flow = "ab 1xRC mtu 1024 depth 128/256 batch 1/8 [WRITE 4KiB] 1x1MiB@dram:0 1x2MiB@gpu:3";
    check(&own, Some(&peer), &[flow], &[]);

    let row = qp(here, RC, [3, 4]);
    let answer = qp(there, RC, [4, 3]);
    post(here, row, 9, Some(Opcode::Send), &[&[100], &[4000]], (5, None));
    receive(there, answer, 4, 8, &[2048, 2048], 10);
    let send = "ab 1xRC mtu 1024 depth 128/256 batch 2/8 [SEND 100B, SEND 4000B] 1x512KiB@dram:0 1x4MiB@dram:0";
    let workload = check(&own, Some(&peer), &[send, &flow.replace("1x1MiB@dram:0", "1x512KiB@dram:0")], &[]);
    assert_eq!(workload.flows[0].recv_sge, [Bytes(2048), Bytes(2048)]);

    // The other way round, the peer's program is a flow of its own.
    post(there, answer, 8, Some(Opcode::Send), &[&[64]], (10, None));
    let back = "ba 1xRC mtu 1024 depth 128/256 batch 1/1 [SEND 64B] 1x8MiB@dram:0 1x8MiB@dram:0";
    let flows = check(&own, Some(&peer), &[send, &flow.replace("1x1MiB@dram:0", "1x512KiB@dram:0"), back], &[]).flows;
    assert_eq!((flows[2].from, flows[2].to), (Host::B, Host::A));
}

#[test]
fn datagrams_that_come_in_are_taken_to_be_like_those_sent() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 8192, MrDevice::Unknown);
    let row = recorder.add(UD, 9, QueueDepths { send_depth: 1, recv_depth: 500 }, None).expect("there is room");
    recorder.mtu(row, 4096);
    receive(recorder, row, 1, 500, &[1064], 5);
    post(recorder, row, 1000, Some(Opcode::Send), &[&[1024]], (5, None));
    let flow = "1xUD mtu 4096 depth 1/500 batch 1/500 [SEND 1KiB] 1x8KiB@dram:0 1x8KiB@dram:0";
    check(&traced, None, &[&format!("ab {flow}")], &[]);
    receive(recorder, row, 1, 499, &[1064], 5);
    let both = [format!("ab {flow}").replace("/500 [", "/499 ["), format!("ba {flow}").replace("/500 [", "/499 [")];
    check(&traced, None, &[&both[0], &both[1]], &["messages came in"]);
}

#[test]
fn a_shared_receive_queue_counts_for_its_qps() {
    let (own, peer) = (FakeProcess::new(), FakeProcess::new());
    let (here, there) = (own.recorder(), peer.recorder());
    here.mr(5, 6, 1 << 20, MrDevice::Dram(0));
    there.mr(8, 9, 1 << 20, MrDevice::Dram(0));
    let srq = there.add(QpRowKind::Srq, 0, QueueDepths { send_depth: 0, recv_depth: 1024 }, None);
    receive(there, srq.expect("there is room"), 16, 64, &[4096], 8);
    for number in 1..=2 {
        let row = qp(here, RC, [number, number + 100]);
        post(here, row, 4, Some(Opcode::SendWithImm), &[&[512]], (5, None));
        let answer =
            there.add(RC, number + 100, QueueDepths { send_depth: 1, recv_depth: 0 }, srq).expect("there is room");
        there.peer(answer, number);
    }
    let flow = "ab 2xRC mtu 1024 depth 128/1024 batch 1/64 [SEND_WITH_IMM 512B] 1x512KiB@dram:0 1x512KiB@dram:0";
    check(&own, Some(&peer), &[flow], &[]);
}

#[test]
fn only_what_lives_at_the_same_time_is_counted() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 16, MrDevice::Dram(0));
    for number in 1..=10 {
        let row = qp(recorder, RC, [number, 100]);
        post(recorder, row, 2, Some(Opcode::Read), &[&[4096]], (5, Some(9)));
        if number > 1 {
            recorder.ended(row);
        }
    }
    let derived = derive(&traced.trace(), None).expect("a workload");
    assert_eq!((derived.workload.flows.len(), derived.workload.flows[0].qps), (1, 2));
    assert_eq!(derived.seen[0].messages, 20);
}

#[test]
fn mrs_that_take_turns_are_counted_at_both_ends() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    let row = qp(recorder, RC, [1, 2]);
    for key in 0..6 {
        recorder.mr(key, key + 50, 64 << 10, MrDevice::Dram(0));
        post(recorder, row, 2, Some(Opcode::Write), &[&[512]], (key, Some(1000 + key % 3)));
    }
    let flow = "ab 1xRC mtu 1024 depth 128/256 batch 1/1 [WRITE 512B] 6x64KiB@dram:0 3x64KiB@dram:0";
    check(&traced, None, &[flow], &[]);
}

#[test]
fn more_mrs_than_are_counted_are_noted() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    let row = qp(recorder, RC, [1, 2]);
    for key in 0..1000 {
        recorder.mr(key, key, 4096, MrDevice::Dram(0));
        post(recorder, row, 1, Some(Opcode::Write), &[&[512]], (key, Some(9)));
    }
    let derived = derive(&traced.trace(), None).expect("a workload");
    let mrs = derived.workload.flows[0].memory.from.mrs;
    assert!((100..=128).contains(&mrs), "{mrs}");
    assert!(derived.notes.iter().any(|note| note.contains("more MRs than are counted")), "{:?}", derived.notes);
}

#[test]
fn what_a_workload_cannot_say_is_noted() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 16, MrDevice::Dram(0));
    let row = qp(recorder, RC, [1, 2]);
    post(recorder, row, 4, None, &[&[]], (5, None));
    post(recorder, row, 1, Some(Opcode::WriteWithImm), &[&[]], (5, Some(9)));
    recorder.request(row, Some(Opcode::Write), std::iter::once((0, 40)), Some(9), true);
    post(recorder, row, 200, Some(Opcode::Write), &[&[64, 0]], (5, Some(9)));
    let strange = qp(recorder, QpRowKind::Qp(9), [3, 4]);
    post(recorder, strange, 3, Some(Opcode::Write), &[&[64]], (5, Some(9)));
    let early = recorder.add(RC, 5, DEPTH, None).expect("there is room");
    post(recorder, early, 3, Some(Opcode::Write), &[&[64]], (5, Some(9)));
    let flow = "ab 1xRC mtu 1024 depth 128/256 batch 1/1 [WRITE 64B] 1x21845B@dram:0 1x21845B@dram:0";
    let notes = ["move no message", "neither RC, UC nor UD", "connected before", "up to 40B are posted inline"];
    check(&traced, None, &[flow], &notes);
}

#[test]
fn sizes_at_random_become_the_most_frequent_and_a_range() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 20, MrDevice::Dram(0));
    let row = qp(recorder, RC, [1, 2]);
    let mut random = Pcg64::seed_from_u64(1);
    for _ in 0..5000 {
        let size: u32 = random.random_range(1..=100_000);
        post(recorder, row, 1, Some(Opcode::Write), &[&[size]], (5, Some(9)));
    }
    let derived = derive(&traced.trace(), None).expect("a workload");
    assert_eq!(derived.workload.flows[0].pattern.len(), 16);
    let yaml = derived.space.to_yaml();
    assert!(yaml.lines().any(|line| line.starts_with("message: {min: ") && line.len() < 50), "{yaml}");
    assert!(derived.notes.iter().any(|note| note.contains("do not repeat in order")), "{:?}", derived.notes);
    assert!(derived.notes.iter().any(|note| note.contains("found no place")), "{:?}", derived.notes);
}

#[test]
fn the_space_holds_the_workload_and_nothing_else_of_its_kind() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 20, MrDevice::Dram(0));
    for number in 1..=2 {
        let row = qp(recorder, RC, [number, 2]);
        post(recorder, row, 20, Some(Opcode::Read), &[&[4096], &[128, 128]], (5, Some(9)));
        post(recorder, row, 64, Some(Opcode::Read), &[&[4096]], (5, Some(9)));
    }
    let derived = derive(&traced.trace(), None).expect("a workload");
    assert!(derived.space.contains(&derived.workload));
    let yaml = derived.space.to_yaml();
    for line in [
        "qp_type: [RC]",
        "opcode: [READ]",
        "mtu: [1024]",
        "qps: [2]",
        "send_wq_depth: [128]",
        "send_batch: {min: 1, max: 2}",
        "message: {min: 256B, max: 4KiB}",
        "bidirectional: [false]",
        "loopback: [false]",
        "memory_requester: [dram:0]",
    ] {
        assert!(yaml.lines().any(|held| held == line), "{line}\n{yaml}");
    }
}

#[test]
fn loopback_is_a_flow_of_its_own_host() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 16, MrDevice::Dram(0));
    recorder.mr(7, 8, 1 << 18, MrDevice::Dram(1));
    let (row, other) = (qp(recorder, RC, [1, 2]), qp(recorder, RC, [2, 1]));
    for row in [row, other] {
        recorder.loopback(row);
    }
    post(recorder, row, 20, Some(Opcode::Write), &[&[2048]], (5, Some(8)));
    let flow = "aa 1xRC mtu 1024 depth 128/256 batch 1/1 [WRITE 2KiB] 1x64KiB@dram:0 1x256KiB@dram:1";
    check(&traced, None, &[flow], &[]);
}

#[test]
fn who_only_answers_is_told_to_trace_the_other_end() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    let row = qp(recorder, RC, [1, 2]);
    assert!(matches!(derive(&traced.trace(), None), Err(Unsaid::OnlyAnswered(""))));
    receive(recorder, row, 1, 4, &[64], 5);
    let error = derive(&traced.trace(), None).expect_err("it only received");
    assert!(error.to_string().contains("only receives"), "{error}");
    let nothing = Trace { processes: Vec::new(), ..traced.trace() };
    assert!(matches!(derive(&nothing, None), Err(Unsaid::NoDevice)));
}

#[test]
fn a_trace_reads_back_as_it_was_written() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 20, MrDevice::Gpu(1));
    let row = qp(recorder, RC, [1, 2]);
    post(recorder, row, 70, Some(Opcode::FetchAdd), &[&[8]], (5, Some(9)));
    let trace = traced.trace();
    let process = &trace.processes[0];
    let qp = &process.qps[0];
    assert_eq!((qp.qp_type, qp.mtu, qp.calls, qp.requests, qp.active_ns), (Some(QpType::Rc), 1024, 70, 70, 64_000));
    assert_eq!((qp.ops[0].op, qp.ops[0].messages, qp.ops[0].bytes), (Some(Opcode::FetchAdd), 70, Bytes(560)));
    assert_eq!(process.mrs[&5].device, Some(Device::Gpu(1)));
    let json = serde_json::to_string(&trace).expect("JSON");
    assert_eq!(serde_json::from_str::<Trace>(&json).expect("the same"), trace);
}

#[test]
fn no_file_makes_reading_fail_otherwise_than_with_a_reason() {
    let mut short = tempfile::tempfile().expect("a temporary file");
    short.write_all(b"kelpieT1").expect("it is written");
    assert!(matches!(process(&short), Err(ReadError::Length(8))));
    let traced = FakeProcess::new();
    let mut random = Pcg64::seed_from_u64(2);
    // Everything but the first word, which says what it is.
    for word in &traced.0[1..200_000] {
        let value: u64 = random.random();
        word.store(value >> random.random_range(0..64u32), Relaxed);
    }
    let damaged = traced.trace();
    let _ = derive(&damaged, Some(&damaged));
    traced.0[0].store(1, Relaxed);
    assert!(matches!(traced.read(), Err(ReadError::Magic)));
}

#[test]
fn one_datagram_to_its_own_port_does_not_make_a_qp_loopback() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 8192, MrDevice::Dram(0));
    let row = qp(recorder, UD, [1, 0]);
    recorder.loopback(row);
    post(recorder, row, 10, Some(Opcode::Send), &[&[1024]], (5, None));
    let derived = derive(&traced.trace(), None).expect("a workload");
    assert_eq!(derived.workload.flows[0].to, Host::B);
    (0..9).for_each(|_| recorder.loopback(row));
    assert_eq!(derive(&traced.trace(), None).expect("a workload").workload.flows[0].to, Host::A);
}

#[test]
fn an_mr_is_shared_by_those_that_live_at_the_same_time() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 20, MrDevice::Dram(0));
    recorder.mr(7, 8, u64::MAX, MrDevice::Dram(0));
    for number in 1..=10 {
        let row = qp(recorder, RC, [number, 100]);
        post(recorder, row, 2, Some(Opcode::Write), &[&[4096]], (5, Some(9)));
        recorder.request(row, Some(Opcode::Write), std::iter::once((7, 4096)), Some(9), false);
        recorder.ended(row);
    }
    let flow = "ab 1xRC mtu 1024 depth 128/256 batch 1/1 [WRITE 4KiB] 1x1MiB@dram:0 1x1MiB@dram:0";
    check(&traced, None, &[flow], &[]);
}

#[test]
fn shapes_that_found_no_place_leave_the_bounds_of_their_sizes() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    recorder.mr(5, 6, 1 << 20, MrDevice::Dram(0));
    let row = qp(recorder, RC, [1, 2]);
    for size in 1..=3000 {
        post(recorder, row, 1, Some(Opcode::Write), &[&[size]], (5, Some(9)));
    }
    let late = qp(recorder, RC, [3, 4]);
    for size in 4001..=4300 {
        post(recorder, late, 1, Some(Opcode::Write), &[&[size]], (5, Some(9)));
    }
    let mut trace = traced.trace();
    // Hashing decides which shapes find a place; here none of the second QP's.
    trace.processes[0].qps[1].recent.clear();
    let derived = derive(&trace, None).expect("a workload");
    let sizes: Vec<u64> = derived.workload.flows[0].pattern.iter().map(|request| request.message().0).collect();
    assert!(sizes.contains(&4001) && sizes.contains(&4300), "{sizes:?}");
}

#[test]
fn who_posted_only_what_no_workload_says_is_told_why() {
    let traced = FakeProcess::new();
    let recorder = traced.recorder();
    let strange = qp(recorder, QpRowKind::Qp(9), [3, 4]);
    post(recorder, strange, 3, Some(Opcode::Write), &[&[64]], (5, Some(9)));
    let error = derive(&traced.trace(), None).expect_err("XRC is no transport of a workload").to_string();
    assert!(error.contains("neither RC, UC nor UD"), "{error}");
}
