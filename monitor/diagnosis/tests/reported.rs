//! Jobs in the shape of what operators report, each with its right answer.

use std::io::Read as _;

use kelpie_diagnosis::job::{
    FaultClass, JobDiagnosis, JobQuestion, JobVerdict, RecordFollower, Window, diagnose, read,
};

/// What is said of each communicator and function.
fn all(name: &str) -> Vec<JobDiagnosis> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name);
    let mut bytes = std::fs::read(&path).expect("a recorded job");
    if path.extension().is_some_and(|ending| ending == "gz") {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
    }
    let jobs = read(name, &bytes).expect("it keeps the rules").jobs;
    jobs.iter().map(|job| diagnose(JobQuestion::at_the_end(job))).collect()
}

fn asked(name: &str) -> JobDiagnosis {
    all(name).remove(0)
}

#[test]
fn what_inspector_writes_today_is_read_and_a_healthy_job_is_healthy() {
    let found = all("inspector-v4.3.jsonl.gz");
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].verdict, found[0].evidence.iterations), (JobVerdict::Healthy, 64), "{found:?}");
}

#[test]
fn a_late_rank_is_named_though_a_communicator_has_several_functions() {
    let found = all("inspector-fsdp.jsonl.gz");
    let slow: Vec<&JobDiagnosis> = found.iter().filter(|one| one.verdict == JobVerdict::Slow).collect();
    assert!(!slow.is_empty(), "{found:?}");
    for one in &slow {
        assert_eq!((one.class, &one.rank[..]), (Some(FaultClass::NonCommunication), &[5][..]), "{one:?}");
        assert!(one.evidence.function.is_some() && one.whereabouts.contains_key(&5), "{one:?}");
    }
}

#[test]
fn a_job_that_becomes_ten_times_slower_as_a_whole_is_slow() {
    let found = asked("all-slow.csv");
    assert_eq!((found.verdict, found.job, found.rank.len()), (JobVerdict::Slow, true, 0), "{found:?}");
    assert!(found.times_slower.is_some_and(|times| (9.0..11.0).contains(&times)), "{found:?}");
    assert_eq!(found.since_iteration, Some(30), "{found:?}");
}

#[test]
fn who_watches_hears_that_the_whole_job_became_slow() {
    let text = std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/all-slow.csv"));
    let mut window = Window::default();
    RecordFollower::default().take(&text.expect("a recorded job"), |one| {
        window.push(one.expect("it keeps the rules"), false);
    });
    let found = window.judge(0.0, f64::INFINITY);
    assert_eq!((found.verdict, found.job), (JobVerdict::Slow, true), "{found:?}");
}

#[test]
fn of_two_ranks_the_connection_that_became_slow_is_named() {
    let found = asked("two-ranks.csv");
    assert_eq!(
        (found.verdict, &found.connection[..], found.since_iteration),
        (JobVerdict::Slow, &[(0, 1)][..], Some(40))
    );
    assert!(!found.job && found.rank.is_empty() && found.ambiguous.is_empty(), "{found:?}");
}

#[test]
fn a_rank_whose_sizes_differ_is_named_and_no_slow_part() {
    let found = asked("sizes.csv");
    assert_eq!(
        (found.verdict, found.class, &found.rank[..]),
        (JobVerdict::Hang, Some(FaultClass::NonCommunication), &[2][..])
    );
    assert!(found.evidence.sizes.is_some_and(|(most, other)| most != other), "{found:?}");
}

#[test]
fn a_rank_that_comes_late_to_a_barrier_without_records_is_named() {
    let found = asked("barrier.csv");
    assert_eq!(
        (found.verdict, found.class, &found.rank[..]),
        (JobVerdict::Slow, Some(FaultClass::NonCommunication), &[5][..])
    );
}

#[test]
fn a_job_without_times_is_not_called_healthy() {
    let found = asked("nothing.csv");
    assert_eq!(found.verdict, JobVerdict::Undecided, "{found:?}");
    assert!(found.evidence.notes.iter().any(|note| note.contains("nothing was measured")), "{found:?}");
}
