//! Jobs in the shape of what operators report, each with its right answer.

use std::io::Read as _;

use kelpie_diagnosis::job::{Class, Diagnosis, Question, Verdict, diagnose, read};

/// What is said of each communicator and function.
fn all(name: &str) -> Vec<Diagnosis> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let mut bytes = std::fs::read(path).expect("a recorded job");
    if name.ends_with(".gz") {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
    }
    let jobs = read(name, &bytes).expect("it keeps the rules").jobs;
    jobs.iter().map(|job| diagnose(Question::at_the_end(job))).collect()
}

fn asked(name: &str) -> Diagnosis {
    all(name).remove(0)
}

#[test]
fn what_inspector_writes_today_is_read_and_a_healthy_job_is_healthy() {
    let found = all("inspector-v43.jsonl.gz");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].verdict, found[0].evidence.iterations), (Verdict::Healthy, 64), "{found:?}");
}

#[test]
fn a_late_rank_is_named_though_a_communicator_has_several_functions() {
    let found = all("fsdp-late.jsonl.gz");
    let slow: Vec<&Diagnosis> = found.iter().filter(|one| one.verdict == Verdict::Slow).collect();
    assert!(!slow.is_empty(), "{found:?}");
    for one in &slow {
        assert_eq!((one.class, &one.rank[..]), (Some(Class::NonCommunication), &[5][..]), "{one:?}");
        assert!(one.evidence.function.is_some() && one.whereabouts.contains_key(&5), "{one:?}");
    }
}

#[test]
fn a_job_that_becomes_ten_times_slower_as_a_whole_is_slow() {
    let found = asked("all-slow.csv");
    assert_eq!((found.verdict, found.job, found.rank.len()), (Verdict::Slow, true, 0), "{found:?}");
    assert!(found.times_slower.is_some_and(|times| (9.0..11.0).contains(&times)), "{found:?}");
    assert_eq!(found.since_iteration, Some(30), "{found:?}");
}

#[test]
fn of_two_ranks_the_connection_that_became_slow_is_named() {
    let found = asked("two-ranks.csv");
    assert_eq!((found.verdict, &found.connection[..], found.since_iteration), (Verdict::Slow, &[(0, 1)][..], Some(40)));
    assert!(!found.job && found.rank.is_empty() && found.ambiguous.is_empty(), "{found:?}");
}

#[test]
fn a_rank_whose_sizes_differ_is_named_and_no_slow_part() {
    let found = asked("sizes.csv");
    assert_eq!((found.verdict, found.class, &found.rank[..]), (Verdict::Hang, Some(Class::NonCommunication), &[2][..]));
    assert!(found.evidence.notes.iter().any(|note| note.starts_with("sizes differ")), "{found:?}");
}

#[test]
fn a_rank_that_comes_late_to_a_barrier_without_records_is_named() {
    let found = asked("barrier.csv");
    assert_eq!((found.verdict, found.class, &found.rank[..]), (Verdict::Slow, Some(Class::NonCommunication), &[5][..]));
}

#[test]
fn a_job_without_times_is_not_called_healthy() {
    let found = asked("nothing.csv");
    assert_eq!(found.verdict, Verdict::Undecided, "{found:?}");
    assert!(found.evidence.notes.iter().any(|note| note.contains("nothing was measured")), "{found:?}");
}
