//! Records of a job with bytes changed, cut and doubled: readers refuse or accept, whole and in pieces, and never
//! panic.

use kelpie_diagnosis::job::{JobQuestion, RecordFollower, Window, diagnose, read};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const CSV: &str = "iteration,source,destination,bytes,begin,end,entered\n0,0,1,8,10,20.5,9\n0,1,0,8,10,21,9\n\
    1,0,1,8,30,40,29\n1,1,0,8,30,,29\n2,0,1,8,50,60,49\n";
const JSON: &str = r#"{"iteration":0,"source":0,"destination":1,"bytes":8,"begin":1,"end":2.5,"entered":0.5}
{"header":{"id":"0x7f","rank":2,"n_ranks":8},"coll_perf":{"coll":"AllReduce","coll_sn":14,"coll_msg_size_bytes":17,
"coll_exec_time_us":61974}}{"header":{"id":"a","rank":1},"p2p_perf":{"p2p":"Recv","p2p_sn":3,"p2p_peer":0,
"p2p_msg_size_bytes":8,"p2p_exec_time_us":5}}"#;

/// What is done to a text.
#[derive(Debug, Clone)]
enum Mutation {
    Set(usize, u8),
    Cut(usize),
    Remove(usize, usize),
    Double(usize, usize),
}

fn change() -> impl Strategy<Value = Mutation> {
    let likely = prop::sample::select(b"\n,.\"{}[]:-019eE \xff\x00".to_vec());
    prop_oneof![
        4 => (any::<usize>(), prop_oneof![likely, any::<u8>()]).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => any::<usize>().prop_map(Mutation::Cut),
        1 => (any::<usize>(), 1_usize..20).prop_map(|(at, count)| Mutation::Remove(at, count)),
        1 => (any::<usize>(), 1_usize..20).prop_map(|(at, count)| Mutation::Double(at, count)),
    ]
}

fn apply(mut bytes: Vec<u8>, changes: &[Mutation]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        let range = |at: usize, count: usize| at % length..(at % length + count).min(length);
        match *change {
            Mutation::Set(at, byte) => bytes[at % length] = byte,
            Mutation::Cut(at) => bytes.truncate(at % length),
            Mutation::Remove(at, count) => drop(bytes.drain(range(at, count))),
            Mutation::Double(at, count) => {
                let piece = bytes[range(at, count)].to_vec();
                bytes.splice(at % length..at % length, piece);
            }
        }
    }
    bytes
}

/// Whole and in pieces, and what is said has no control characters.
fn readers_refuse_or_accept(is_csv: bool, changes: &[Mutation], piece: usize) -> Result<(), TestCaseError> {
    let bytes = apply(if is_csv { CSV } else { JSON }.into(), changes);
    match read("job", &bytes) {
        Ok(read) => {
            for job in &read.jobs {
                diagnose(JobQuestion::at_the_end(job));
                diagnose(JobQuestion { now: Some(1e9), ..JobQuestion::at_the_end(job) });
            }
        }
        Err(error) => prop_assert!(!error.to_string().chars().any(char::is_control), "{}", error),
    }
    let (mut follower, mut window, mut said) = (RecordFollower::default(), Window::default(), Vec::new());
    for piece in bytes.chunks(piece) {
        let give = |one: Result<_, _>| match one {
            Ok(record) => drop(window.push(record, false)),
            Err(skipped) => said.push(skipped),
        };
        follower.take(piece, give);
    }
    prop_assert!(!said.iter().any(|skipped| skipped.problem.chars().any(char::is_control)), "{:?}", said);
    window.judge(0.0, 30e6);
    window.judge(30e6, 30e6);
    Ok(())
}

/// What a reader of whole files takes, one that follows takes as well.
fn pieces_are_read_as_the_whole(piece: usize, lines: usize) -> Result<(), TestCaseError> {
    let text: String = CSV.split_inclusive('\n').take(lines).collect();
    let whole = read("job", text.as_bytes()).map(|read| read.jobs[0].operations.clone()).unwrap_or_default();
    let (mut follower, mut taken) = (RecordFollower::default(), Vec::new());
    for piece in text.as_bytes().chunks(piece) {
        follower.take(piece, |one| taken.extend(one.ok().map(|record| record.operation)));
    }
    prop_assert_eq!(taken, whole);
    Ok(())
}

/// Draws so many cases.
fn all_hold(cases: u32) {
    let mut runner = TestRunner::new(ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() });
    let mutated = (any::<bool>(), prop::collection::vec(change(), 0..6), 1_usize..64);
    let readers = runner.run(&mutated, |(is_csv, changes, piece)| readers_refuse_or_accept(is_csv, &changes, piece));
    readers.unwrap_or_else(|error| panic!("{error}"));
    let pieces = runner.run(&(1_usize..80, 1_usize..6), |(piece, lines)| pieces_are_read_as_the_whole(piece, lines));
    pieces.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn readers_refuse_or_accept_and_pieces_are_read_as_the_whole() {
    all_hold(200);
}

/// More cases, by `make test-long`.
mod long {
    #[test]
    #[ignore = "long: make test-long runs it"]
    fn readers_refuse_or_accept_and_pieces_are_read_as_the_whole() {
        super::all_hold(4000);
    }
}
