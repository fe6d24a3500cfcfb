//! Drives hosts to learn something of them: which path a source port takes, what both ports of a bond move, what
//! loopback shows of a host's inside. Rules and verdicts live in `kelpie_diagnosis` and `kelpie_paths`.

pub mod files;
pub mod ground;
pub mod host;
pub mod job;
pub mod outbox;
pub mod ports;
pub mod program;
pub mod simulated;
pub mod simulated_host;
pub mod subsystem;
pub mod tail;

/// Hears what is being done, such as `loss: 64 source ports for 9 s`.
pub type Say<'s> = &'s dyn Fn(&str);
