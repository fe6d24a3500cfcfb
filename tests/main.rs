//! The integration tests, one binary: the real `kelpie` run as a user runs it.

mod agents;
mod bad_files;
mod bad_input;
mod bench;
mod calibrate;
mod cli;
mod determinism;
mod diagnosis;
mod diff;
mod doctor;
mod gate;
mod golden;
mod jobs;
mod lab;
mod large;
mod latency;
mod paths;
mod recipes;
mod report;
mod resume;
mod schemas;
mod search_on_f;
mod stories;
mod support;
mod trace;
mod watch;
