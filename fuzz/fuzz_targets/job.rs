//! The readers of a job's operations over arbitrary bytes, and the diagnosis of whatever they accept.

#![no_main]

use kelpie_diagnosis::job::{Question, diagnose, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match read("job", bytes) {
        Ok(jobs) => {
            for job in &jobs {
                for now in [None, Some(1e9)] {
                    diagnose(Question { now, ..Question::at_the_end(job) });
                }
            }
        }
        Err(error) => assert!(!error.to_string().chars().any(char::is_control), "{error}"),
    }
});
