//! Dumps of `PyTorch`'s flight recorder, of groups of ranks that hang or are well.

use std::collections::BTreeMap;

use kelpie_diagnosis::job::{
    Cause, FaultClass, JobDiagnosis, JobOperations, JobQuestion, JobVerdict, Reader, causes, diagnose,
};
use serde_json::{Value, json};

/// A collective: group, number, function, elements, state.
type Called<'c> = (&'c str, u64, &'c str, &'c [u64], &'c str);

const REDUCE: &str = "nccl:all_reduce";
const GROUPS: [(&str, &[u32]); 4] =
    [("tp0", &[0, 1, 2, 3]), ("tp1", &[4, 5, 6, 7]), ("dp0", &[0, 4]), ("dp1", &[1, 5])];

fn dump(called: &[Called<'_>]) -> String {
    let mut groups: BTreeMap<&str, Value> = GROUPS
        .iter()
        .map(|(name, ranks)| (*name, json!({"name": name, "desc": "", "ranks": format!("{ranks:?}")})))
        .collect();
    groups.insert("0", json!({"name": "0", "desc": "", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"}));
    let entry = |(group, number, function, sizes, state): &Called<'_>| {
        let types = vec!["Float"; sizes.len()];
        let sizes: Vec<[u64; 1]> = sizes.iter().map(|size| [*size]).collect();
        let mut entry = json!({
            "process_group": [group, ""], "collective_seq_id": number, "profiling_name": function, "is_p2p": false,
            "input_sizes": sizes, "input_dtypes": types, "state": state,
        });
        if *state == "completed" {
            entry["duration_ms"] = json!(2.0 + 0.01 * (number * 7 % 5) as f64);
        }
        entry
    };
    let entries: Vec<Value> = called.iter().map(entry).collect();
    json!({"version": "2.5", "pg_config": groups, "entries": entries}).to_string()
}

/// What is found of dumps, by group.
fn found<'c>(ranks: impl IntoIterator<Item = (u32, Vec<Called<'c>>)>) -> Vec<(JobOperations, JobDiagnosis)> {
    let mut reader = Reader::default();
    for (rank, called) in ranks {
        reader.add(&format!("nccl_trace_rank_{rank}"), dump(&called).as_bytes()).expect("a dump");
    }
    let jobs = reader.finish().expect("collectives").jobs;
    jobs.into_iter()
        .map(|job| {
            let found = diagnose(JobQuestion::at_the_end(&job));
            (job, found)
        })
        .collect()
}

/// What is found of the group of all ranks, in which each completes 39 collectives and then has `last`.
fn of_all<'c>(
    function: &'c str,
    sizes: impl Fn(u32) -> &'c [u64],
    last: impl Fn(u32) -> Vec<Called<'c>>,
) -> JobDiagnosis {
    let ranks = (0..8).map(|rank| {
        let mut called: Vec<Called<'_>> =
            (1..40).map(|number| ("0", number, function, sizes(rank), "completed")).collect();
        called.extend(last(rank));
        (rank, called)
    });
    found(ranks).remove(0).1
}

#[test]
fn a_rank_that_calls_another_collective_is_named_with_both() {
    let of_name = |other: &'static str| {
        of_all(REDUCE, |_| &[1024], |rank| vec![("0", 40, if rank == 5 { other } else { REDUCE }, &[1024], "started")])
    };
    let answer = of_name("nccl:_all_gather_base");
    assert_eq!(
        (answer.verdict, answer.class, answer.rank),
        (JobVerdict::Hang, Some(FaultClass::NonCommunication), vec![5])
    );
    assert_eq!(answer.since_iteration, Some(40));
    assert_eq!(answer.evidence.functions, Some(("all_reduce".to_owned(), "all_gather".to_owned())));
    // Both ways of PyTorch end in one collective of NCCL.
    let same = of_all(
        "nccl:all_gather",
        |_| &[1024],
        |rank| {
            let function = if rank == 5 { "nccl:_all_gather_base" } else { "nccl:all_gather" };
            vec![("0", 40, function, &[1024], "completed")]
        },
    );
    assert_eq!((same.verdict, same.rank), (JobVerdict::Healthy, vec![]));
}

#[test]
fn sizes_that_lawfully_differ_are_no_finding_and_accuse_nobody() {
    let scatter = |rank: u32| -> &[u64] { if rank == 0 { &[64; 8] } else { &[] } };
    assert_eq!(of_all("nccl:scatter", scatter, |_| vec![]).verdict, JobVerdict::Healthy);
    let experts = |rank: u32| -> &[u64] { if rank == 2 { &[100] } else { &[500] } };
    assert_eq!(of_all("nccl:all_to_all", experts, |_| vec![]).verdict, JobVerdict::Healthy);
    assert_eq!(of_all(REDUCE, experts, |_| vec![]).verdict, JobVerdict::Mismatch);
    let absent = of_all("nccl:scatter", scatter, |rank| {
        if rank == 6 { vec![] } else { vec![("0", 40, "nccl:scatter", scatter(rank), "started")] }
    });
    assert_eq!((absent.verdict, absent.rank), (JobVerdict::Hang, vec![6]));
}

#[test]
fn who_has_not_begun_or_left_no_dump_outranks_those_that_wait() {
    let busy = of_all(
        REDUCE,
        |_| &[1024],
        |rank| vec![("0", 40, REDUCE, &[1024], if rank == 3 { "scheduled" } else { "started" })],
    );
    assert_eq!((busy.verdict, busy.class, busy.rank), (JobVerdict::Hang, Some(FaultClass::NonCommunication), vec![3]));
    let ranks = (0..8).filter(|rank| *rank != 4).map(|rank| {
        let done = (1..40).map(|number| ("0", number, REDUCE, &[1024][..], "completed"));
        (rank, done.chain([("0", 40, REDUCE, &[1024][..], "started")]).collect())
    });
    let died = found(ranks).remove(0).1;
    assert_eq!((died.verdict, died.class, died.rank, died.missing), (JobVerdict::Hang, None, vec![4], vec![4]));
}

#[test]
fn ranks_call_ahead_and_the_first_that_is_stuck_counts() {
    // All call up to 45, but rank 2 waits for what it called and rank 6 never came to 40.
    let answer = of_all(
        REDUCE,
        |_| &[1024],
        |rank| match rank {
            6 => vec![],
            2 => vec![("0", 40, REDUCE, &[1024], "started")],
            _ => (40..46).map(|number| ("0", number, REDUCE, &[1024][..], "started")).collect(),
        },
    );
    assert_eq!((answer.since_iteration, answer.rank), (Some(40), vec![6]));
}

/// What a rank of a job called whose rank 5 stops within its tensor-parallel group.
fn of_cascade(rank: u32) -> Vec<Called<'static>> {
    let tensor = if rank < 4 { "tp0" } else { "tp1" };
    let data = ["dp0", "dp1"].get(rank as usize % 4).copied();
    let mut called: Vec<Called<'_>> = Vec::new();
    for number in 1..=20 {
        called.push((tensor, number, REDUCE, &[64], "completed"));
        called.extend(data.map(|data| (data, number, REDUCE, &[4096][..], "completed")));
    }
    match rank {
        5 => {}
        0..=3 => {
            called.push((tensor, 21, REDUCE, &[64], "completed"));
            called.extend(data.map(|data| (data, 21, REDUCE, &[4096][..], "started")));
        }
        _ => called.push((tensor, 21, REDUCE, &[64], "started")),
    }
    called
}

#[test]
fn groups_know_their_ranks_and_victims_name_their_cause() {
    let well = found((0..8).map(|rank| {
        let tensor = if rank < 4 { "tp0" } else { "tp1" };
        (rank, (1..40).map(|number| (tensor, number, REDUCE, &[64][..], "completed")).collect())
    }));
    for (job, answer) in &well {
        assert_eq!((answer.verdict, &answer.missing), (JobVerdict::Healthy, &vec![]), "{:?}", job.communicator);
    }
    let stuck = found((0..8).map(|rank| (rank, of_cascade(rank))));
    let place =
        |name: &str| stuck.iter().position(|(job, _)| job.communicator.as_deref() == Some(name)).expect("a group");
    let all: Vec<_> = stuck.iter().map(|(job, found)| (job, found)).collect();
    let causes = causes(&all);
    assert_eq!(stuck[place("tp1")].1.rank, [5]);
    let of = |name: &str| causes[place(name)];
    assert_eq!((of("tp0"), of("tp1")), (Cause::Own, Cause::Own));
    let by_tensor = Cause::Other(place("tp1"));
    assert_eq!((of("dp0"), of("dp1")), (by_tensor, by_tensor));
}

#[test]
fn groups_that_wait_for_each_other_are_a_circle() {
    // Ranks 0 and 4 share two groups, and call them in different orders.
    let called = |rank: u32| {
        let mut called: Vec<Called<'_>> = Vec::new();
        for number in 1..=20 {
            called.push(("0", number, REDUCE, &[64], "completed"));
            called.push(("dp0", number, REDUCE, &[64], "completed"));
        }
        called.push((if rank == 0 { "0" } else { "dp0" }, 21, REDUCE, &[64], "started"));
        (rank, called)
    };
    let stuck = found([0, 4].map(called));
    let all: Vec<_> = stuck.iter().map(|(job, found)| (job, found)).collect();
    assert_eq!(causes(&all), [Cause::Circle, Cause::Circle]);
}
