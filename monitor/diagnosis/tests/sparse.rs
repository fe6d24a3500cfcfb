//! Hangs of jobs in which not every rank takes part in every iteration: nobody is blamed for staying away as usual.

use kelpie_diagnosis::job::{FaultClass, JobDiagnosis, JobOperations, JobQuestion, JobVerdict, Operation, diagnose};

/// A message of an iteration: from, to, and how far it got: 0 nobody came, 1 came, 2 began, 3 is complete.
fn message(iteration: u64, source: u32, destination: u32, state: u8) -> Operation {
    let start = iteration as f64 * 1000.0;
    Operation {
        iteration,
        source,
        destination: Some(destination),
        bytes: 8,
        entered: (state > 0).then_some(start),
        begin: (state > 1).then_some(start + 1.0),
        end: (state > 2).then_some(start + 100.0),
    }
}

/// A ring of these ranks, of which those that are named got no further than that, and those with `None` have no record.
fn ring(iteration: u64, ranks: &[u32], but: &[(u32, Option<u8>)]) -> Vec<Operation> {
    let next = |place: usize| ranks[(place + 1) % ranks.len()];
    let state = |rank: u32| but.iter().find(|(who, _)| *who == rank).map_or(Some(3), |(_, state)| *state);
    (0..ranks.len()).filter_map(|at| Some(message(iteration, ranks[at], next(at), state(ranks[at])?))).collect()
}

fn judged(operations: Vec<Operation>) -> JobDiagnosis {
    diagnose(JobQuestion::at_the_end(&JobOperations { operations, ..JobOperations::default() }))
}

const LOW: [u32; 4] = [0, 1, 2, 3];
const HIGH: [u32; 4] = [4, 5, 6, 7];

/// Two groups take turns, and every tenth iteration is of all.
fn turns(iterations: u64) -> Vec<Operation> {
    let all = [LOW, HIGH].concat();
    let ranks = |iteration: u64| match iteration {
        _ if iteration % 10 == 9 => &all[..],
        _ if iteration.is_multiple_of(2) => &LOW[..],
        _ => &HIGH[..],
    };
    (0..iterations).flat_map(|iteration| ring(iteration, ranks(iteration), &[])).collect()
}

#[test]
fn who_has_no_turn_is_not_blamed_and_who_had_one_is() {
    // It is the turn of the upper ones, of whom the last did not come; the lower ones stayed away as usual.
    let mut job = turns(21);
    job.extend(ring(21, &HIGH, &[(4, Some(1)), (5, Some(1)), (6, Some(1)), (7, None)]));
    let found = judged(job);
    assert_eq!(
        (found.verdict, found.class, found.rank),
        (JobVerdict::Hang, Some(FaultClass::NonCommunication), vec![7])
    );
    // All of them came, and a message does not move.
    let mut job = turns(21);
    job.extend(ring(21, &HIGH, &[(5, Some(2)), (6, Some(1))]));
    let found = judged(job);
    assert_eq!((found.class, found.rank, found.connection), (Some(FaultClass::Communication), vec![5], vec![(5, 6)]));
    // The turn of all.
    let mut job = turns(29);
    job.extend(ring(29, &[LOW, HIGH].concat(), &[(2, None), (1, Some(1)), (3, Some(1))]));
    let found = judged(job);
    assert_eq!((found.class, found.rank), (Some(FaultClass::NonCommunication), vec![2]));
}

#[test]
fn a_group_that_was_never_seen_is_judged_by_who_is_waited_for_or_not_at_all() {
    // Nobody ever sent from 1 to 3; 3 is waited for, and always sent when it received.
    let mut job = turns(21);
    job.extend([message(21, 1, 3, 1)]);
    let found = judged(job);
    assert_eq!(
        (found.verdict, found.class, found.rank),
        (JobVerdict::Hang, Some(FaultClass::NonCommunication), vec![3])
    );
    // 9 only receives, so that it never shows that it came.
    let to_9 = |iteration: u64, state| message(iteration, 1, 9, state);
    let mut job: Vec<Operation> =
        (0..20).flat_map(|iteration| [to_9(iteration, 3), message(iteration, 0, 1, 3)]).collect();
    job.extend([to_9(20, 1), message(20, 0, 1, 3)]);
    let found = judged(job);
    assert_eq!((found.verdict, found.class, &found.rank[..]), (JobVerdict::Hang, None, &[][..]));
    assert_eq!(found.connection, [(1, 9)]);
    assert!(found.evidence.notes.iter().any(|note| note.contains("may not have come")), "{:?}", found.evidence.notes);
}

#[test]
fn ranks_that_send_more_than_others_are_not_behind() {
    // A tree: 0 sends to 1 and 2 and both answer; of the last iteration, 1 has not answered, because it got nothing.
    let tree = |iteration, of_0: [u8; 2], answers: [u8; 2]| {
        let [left, right] = of_0;
        let mut all = vec![message(iteration, 0, 1, left), message(iteration, 0, 2, right)];
        all.extend([message(iteration, 1, 0, answers[0]), message(iteration, 2, 0, answers[1])]);
        all
    };
    let mut job: Vec<Operation> = (0..20).flat_map(|iteration| tree(iteration, [3, 3], [3, 3])).collect();
    job.extend(tree(20, [2, 3], [1, 3]));
    let found = judged(job);
    assert_eq!((found.class, found.rank, found.connection), (Some(FaultClass::Communication), vec![0], vec![(0, 1)]));
}
