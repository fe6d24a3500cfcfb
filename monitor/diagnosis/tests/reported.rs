//! Jobs in the shape of what operators report, each with its right answer.

use kelpie_diagnosis::job::{Class, Diagnosis, Question, Verdict, diagnose, read};

fn asked(name: &str) -> Diagnosis {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let jobs = read(name, &std::fs::read(path).expect("a recorded job")).expect("it keeps the rules");
    diagnose(Question::at_the_end(&jobs[0]))
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
