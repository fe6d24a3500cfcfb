//! Traces of NCCL's example profiler: what its proxy sent to which peer, within which operation.
//!
//! Source: NCCL, `plugins/profiler/example/README.md`: events of the Chrome format, in the order of their nesting.

use std::collections::HashMap;

use serde::Deserialize;

use super::operation::Operation;
use super::record::{OperationRecord, Reporter, check};

/// Communicators and functions of which point-to-point operations are counted. Source: our choice.
const MAX_COUNTED: usize = 65_536;

/// An event; those of other programs lack some of this.
#[derive(Deserialize)]
struct Event {
    name: String,
    #[serde(rename = "cat")]
    category: String,
    #[serde(rename = "ph")]
    phase: String,
    id: u64,
    pid: u32,
    #[serde(rename = "ts")]
    at_us: f64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    #[serde(rename = "SeqNum")]
    number: Option<u64>,
    #[serde(rename = "CommHash")]
    communicator: Option<u64>,
    #[serde(rename = "Rank")]
    rank: Option<u32>,
    #[serde(rename = "Peer")]
    peer: Option<u32>,
    #[serde(rename = "transSize")]
    bytes: Option<u64>,
}

/// An operation of the communicator, within which the proxy sends.
#[derive(Debug, Clone)]
struct Within {
    communicator: u64,
    function: String,
    number: u64,
    rank: u32,
    process: u32,
}

/// A message that is on its way.
#[derive(Debug, Clone)]
struct Sending {
    id: u64,
    peer: u32,
    bytes: u64,
    begin: f64,
}

/// What is known of a trace so far.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    is_begun: bool,
    within: Option<Within>,
    sending: Option<Sending>,
    /// Operations so far, where the trace does not number them.
    counts: HashMap<(u64, String, u32), u64>,
}

impl Trace {
    /// Takes an event; nothing if it is none, and no record if none is complete with it.
    #[expect(clippy::option_option, reason = "no event, an event, an event that completes a record")]
    pub fn take(&mut self, text: &[u8]) -> Option<Option<OperationRecord>> {
        // The end of a list.
        if self.is_begun && text == b"{}" {
            return Some(None);
        }
        let event: Event = serde_json::from_slice(text).ok()?;
        self.is_begun = true;
        match (event.category.as_str(), event.phase.as_str(), event.name.as_str()) {
            ("COLL" | "P2P", "b", _) => self.within = self.operation(&event),
            ("COLL" | "P2P", "e", _) => self.within = None,
            ("PROXY", "b", "ProgressSend") => {
                let broken_off = self.finish();
                self.sending = event.args.peer.map(|peer| {
                    let bytes = event.args.bytes.unwrap_or(0);
                    Sending { id: event.id, peer, bytes, begin: event.at_us }
                });
                return Some(broken_off);
            }
            ("PROXY", "e", "ProgressSend") => {
                let sending = self.sending.take_if(|sending| sending.id == event.id);
                return Some(sending.and_then(|sending| {
                    // Each process has a clock of its own: only what an operation took is kept.
                    let took = event.at_us - sending.begin;
                    self.record(&sending, Some(took))
                }));
            }
            _ => {}
        }
        Some(None)
    }

    /// The message that is on its way when the trace ends.
    pub fn finish(&mut self) -> Option<OperationRecord> {
        let sending = self.sending.take()?;
        self.record(&sending, None)
    }

    fn operation(&mut self, event: &Event) -> Option<Within> {
        let (communicator, rank) = (event.args.communicator?, event.args.rank?);
        let number = event.args.number.or_else(|| {
            let key = (communicator, event.name.clone(), event.args.peer?);
            if self.counts.len() >= MAX_COUNTED && !self.counts.contains_key(&key) {
                return None;
            }
            let count = self.counts.entry(key).or_default();
            *count += 1;
            Some(*count - 1)
        })?;
        Some(Within { communicator, function: event.name.clone(), number, rank, process: event.pid })
    }

    fn record(&self, sending: &Sending, took: Option<f64>) -> Option<OperationRecord> {
        let within = self.within.as_ref()?;
        let operation = Operation {
            iteration: within.number,
            source: within.rank,
            destination: Some(sending.peer),
            bytes: sending.bytes,
            entered: None,
            begin: Some(0.0),
            end: took,
        };
        check(&operation).ok()?;
        Some(OperationRecord {
            communicator: Some(format!("{:#x}", within.communicator)),
            function: Some(within.function.clone()),
            ranks: None,
            reporter: Some(Reporter { rank: within.rank, host: None, process: Some(within.process) }),
            operation,
        })
    }
}
