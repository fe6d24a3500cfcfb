//! The readers of a job's operations over arbitrary bytes, whole and in pieces, and the diagnosis of what they accept.

#![no_main]

use kelpie_diagnosis::job::{RecordFollower, JobQuestion, Window, diagnose, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match read("job", bytes) {
        Ok(read) => {
            for job in &read.jobs {
                for now in [None, Some(1e9)] {
                    diagnose(JobQuestion { now, ..JobQuestion::at_the_end(job) });
                }
            }
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error}"),
    }
    let (mut follower, mut window) = (RecordFollower::default(), Window::default());
    for piece in bytes.chunks(7) {
        let give = |one: Result<_, _>| {
            if let Ok(record) = one {
                window.push(record, false);
            }
        };
        follower.take(piece, give);
    }
    window.judge(0.0, 30e6);
    window.judge(30e6, 30e6);
});
