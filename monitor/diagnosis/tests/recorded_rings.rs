//! Rings of six ranks on two emulated hosts over Soft-RoCE, as `kelpie job run --agents` recorded them in the dual-port
//! lab.

use kelpie_diagnosis::job::{FaultClass, JobDiagnosis, JobQuestion, JobVerdict, diagnose, read};

fn judged(records: &str) -> JobDiagnosis {
    let jobs = read("recorded", records.as_bytes()).expect("it is a record").jobs;
    diagnose(JobQuestion::at_the_end(&jobs[0]))
}

#[test]
fn a_rank_that_comes_late_is_named_though_others_go_on_before_what_they_sent_has_arrived() {
    let found = judged(include_str!("recorded/late.csv"));
    assert_eq!((found.verdict, found.class), (JobVerdict::Slow, Some(FaultClass::NonCommunication)), "{found:?}");
    assert_eq!((found.rank, found.since_iteration), (vec![3], Some(8)));
}

#[test]
fn a_connection_that_becomes_slow_is_named_by_its_own_past_though_all_vary() {
    let found = judged(include_str!("recorded/link.csv"));
    assert_eq!((found.verdict, found.class), (JobVerdict::Slow, Some(FaultClass::Communication)), "{found:?}");
    assert_eq!((found.ambiguous, found.evidence.rule), (vec![(2, 3)], Some("history")));
}

#[test]
fn a_process_that_was_stopped_hangs_where_it_should_have_sent() {
    let found = judged(include_str!("recorded/stopped.csv"));
    assert_eq!((found.verdict, found.rank, found.connection), (JobVerdict::Hang, vec![4], vec![(4, 5)]));
}
