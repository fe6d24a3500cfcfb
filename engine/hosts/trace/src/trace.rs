//! A record, read: plain values of what each process did. What follows from them is in `derive`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use kelpie_spaces::{Bytes, Depths, Device, Opcode, QpType, Request};
use serde::{Deserialize, Serialize};

use crate::record::{self, MAGIC, MRS, QPS, SHAPES, head, mr, qp, shape};
use crate::recorder::QpRowKind;

/// Source: `enum ibv_qp_type` in `infiniband/verbs.h`.
const RC: u32 = 2;
const UC: u32 = 3;
const UD: u32 = 4;

/// Everything that was recorded of a command, format `trace/1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Format tag, always [`Trace::FORMAT`].
    pub kelpie: String,
    /// Name of the program, without its arguments.
    pub program: String,
    /// The processes that opened an RDMA device.
    pub processes: Vec<Process>,
}

impl Trace {
    /// The format tag of this version.
    pub const FORMAT: &'static str = "trace/1";

    /// Whether its lists are as long as a record can make them: a file may come from anyone.
    pub fn is_bounded(&self) -> bool {
        let qps = || self.processes.iter().flat_map(|process| &process.qps);
        let keys = |qp: &TracedQp| [&qp.lkeys, &qp.recv_keys, &qp.rkeys].iter().all(|keys| keys.len() <= record::KEYS);
        let shapes = self.processes.iter().flat_map(|process| &process.shapes);
        qps().all(|qp| qp.recent.len() <= record::RECENT && qp.recv_sge.len() <= record::ELEMENTS && keys(qp))
            && shapes.into_iter().all(|shape| shape.sge.len() <= record::ELEMENTS)
    }
}

/// What one process did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u64,
    /// Every QP.
    pub qps: Vec<TracedQp>,
    /// The requests that its QPs posted, each once.
    pub shapes: Vec<Request>,
    /// MRs by local key.
    pub mrs: BTreeMap<u32, TracedMr>,
    /// What found no place in the record.
    pub unrecorded: Unrecorded,
}

/// What found no place in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unrecorded {
    /// QPs.
    pub qps: u64,
    /// MRs.
    pub mrs: u64,
    /// Requests whose shape was one too many.
    pub shapes: u64,
}

impl Process {
    /// The latest requests of a QP, oldest first, as far as their shapes are known.
    pub fn recent<'t>(&'t self, qp: &'t TracedQp) -> impl Iterator<Item = &'t Request> {
        qp.recent.iter().filter_map(|place| self.shapes.get(*place as usize))
    }
}

/// A registered memory region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedMr {
    /// Key that peers use.
    pub rkey: u32,
    /// Length.
    pub length: Bytes,
    /// Where it lies; absent if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
}

/// A queue pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracedQp {
    /// `enum ibv_qp_type`.
    pub raw_type: u32,
    /// Its transport, if Kelpie knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qp_type: Option<QpType>,
    /// QP number.
    pub number: u32,
    /// When it was created and destroyed, on a clock that ticks at each such event; 0 is never.
    pub lifetime: [u64; 2],
    /// Path MTU; of UD the port's. Units: bytes; 0 if the QP was never ready.
    pub mtu: u64,
    /// Whether it talks to its own port, of datagrams with most.
    pub loopback: bool,
    /// As asked for; the receive queue may be a shared one.
    pub wq_depth: Depths,
    /// Post calls of requests.
    pub calls: u64,
    /// Requests.
    pub requests: u64,
    /// Most requests of a call.
    pub batch_max: u64,
    /// Post calls of receives, those of its shared receive queue if it has one.
    pub recv_calls: u64,
    /// Receives.
    pub receives: u64,
    /// Most receives of a call.
    pub recv_batch_max: u64,
    /// Longest message that was posted inline.
    pub inline: Bytes,
    /// From its first to its last post. Units: nanoseconds.
    pub active_ns: u64,
    /// Messages by operation.
    pub ops: Vec<OpCount>,
    /// The latest requests, oldest first, as places in `shapes`.
    pub recent: Vec<u32>,
    /// Elements of the latest receive.
    pub recv_sge: Vec<Bytes>,
    /// Number of the QP that it is connected to; 0 for none.
    pub peer: u32,
    /// Keys of the MRs that it sends from.
    pub lkeys: Vec<u32>,
    /// Keys of the MRs that it receives into.
    pub recv_keys: Vec<u32>,
    /// Keys of the peer's MRs.
    pub rkeys: Vec<u32>,
    /// Whether it used more keys than found place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keys_lost: bool,
}

/// Messages of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpCount {
    /// The operation; absent for what moves no message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<Opcode>,
    /// How many.
    pub messages: u64,
    /// Their sum.
    pub bytes: Bytes,
    /// The shortest.
    pub min: Bytes,
    /// The longest.
    pub max: Bytes,
}

/// A file that is no record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("cannot be read")]
    Io(#[from] io::Error),
    /// Another length.
    #[error("{0} bytes; a record of this version has {expected}", expected = record::WORDS * 8)]
    Length(u64),
    /// Another program's, or another version's.
    #[error("it does not begin as a record of this version does")]
    Magic,
}

/// Reads the record of a process, which may still run. Whatever is in the file, the result is bounded by its length.
///
/// # Errors
/// If it cannot be read or is no record.
pub fn process(file: &File) -> Result<Process, ReadError> {
    let length = file.metadata()?.len();
    if length != record::WORDS as u64 * 8 {
        return Err(ReadError::Length(length));
    }
    let read = |words: Range<usize>| {
        let mut bytes = vec![0; words.len() * 8];
        file.read_exact_at(&mut bytes, words.start as u64 * 8).map(|()| bytes)
    };
    // The rows behind the last QP are a hole of a hundred megabytes.
    let head = Words { front: read(0..head::WORDS)?, back: Vec::new() };
    if head.get(head::MAGIC) != MAGIC {
        return Err(ReadError::Magic);
    }
    let asked = head.get(head::QPS);
    let rows = asked.min(QPS.rows as u64) as usize;
    let words = Words { front: read(0..QPS.at(rows, 0))?, back: read(MRS.at(0, 0)..record::WORDS)? };
    // A row for which there was no room was not written.
    let is_kept = |row: &usize| words.get(QPS.at(*row, qp::CREATED)) > 0;
    let kept = (0..rows).filter(is_kept).count();
    let unrecorded =
        Unrecorded { qps: asked - kept as u64, mrs: words.get(head::MRS_LOST), shapes: words.get(head::SHAPES_LOST) };
    let (shapes, places) = words.requests();
    Ok(Process {
        pid: words.get(head::PID),
        qps: (0..rows).filter(is_kept).filter_map(|row| words.qp(row, &places)).collect(),
        shapes,
        mrs: (0..MRS.rows).filter_map(|row| words.mr(row)).collect(),
        unrecorded,
    })
}

/// The words of a record: those up to the last QP, and those behind the table of QPs. All others are zero.
struct Words {
    front: Vec<u8>,
    back: Vec<u8>,
}

impl Words {
    fn get(&self, word: usize) -> u64 {
        let (part, word) = match word.checked_sub(MRS.at(0, 0)) {
            Some(behind) => (&self.back, behind),
            None => (&self.front, word),
        };
        let bytes = part.get(word * 8..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn mr(&self, row: usize) -> Option<(u32, TracedMr)> {
        let get = |word| self.get(MRS.at(row, word));
        let lkey = u32::try_from(get(mr::LKEY).checked_sub(1)?).ok()?;
        let device = match get(mr::DEVICE) {
            0 => None,
            code if code < mr::GPU => Some(Device::Dram((code - 1) as u8)),
            code => Some(Device::Gpu((code - mr::GPU) as u8)),
        };
        Some((lkey, TracedMr { rkey: get(mr::RKEY) as u32, length: Bytes(get(mr::LENGTH)), device }))
    }

    fn qp(&self, row: usize, places: &BTreeMap<u64, u32>) -> Option<TracedQp> {
        let get = |word| self.get(QPS.at(row, word));
        let QpRowKind::Qp(raw_type) = QpRowKind::from_code(get(qp::KIND)) else { return None };
        // Its receives are counted where they are posted.
        let queue = match get(qp::SRQ) {
            0 => row,
            srq => (srq - 1).min(QPS.rows as u64 - 1) as usize,
        };
        let received = |word| self.get(QPS.at(queue, word));
        Some(TracedQp {
            raw_type,
            qp_type: match raw_type {
                RC => Some(QpType::Rc),
                UC => Some(QpType::Uc),
                UD => Some(QpType::Ud),
                _ => None,
            },
            number: get(qp::NUMBER) as u32,
            lifetime: [get(qp::CREATED), get(qp::DESTROYED)],
            mtu: get(qp::MTU),
            // A datagram QP may have one peer on its own port among many.
            loopback: get(qp::LOOPBACK) > if raw_type == UD { get(qp::REQUESTS) / 2 } else { 0 },
            wq_depth: Depths { send: get(qp::SEND_DEPTH) as u32, recv: received(qp::RECV_DEPTH) as u32 },
            calls: get(qp::CALLS),
            requests: get(qp::REQUESTS),
            batch_max: get(qp::BATCH_MAX),
            recv_calls: received(qp::RECV_CALLS),
            receives: received(qp::RECEIVES),
            recv_batch_max: received(qp::RECV_BATCH_MAX),
            inline: Bytes(get(qp::INLINE)),
            active_ns: get(qp::LAST).saturating_sub(get(qp::FIRST)),
            ops: (0..record::OPS).filter_map(|op| self.op(row, op)).collect(),
            recent: self.recent(row, places),
            recv_sge: self.shape(received(qp::RECV_SHAPE)).map_or_else(Vec::new, |(_, sizes)| sizes),
            peer: get(qp::PEER) as u32,
            lkeys: self.keys(row, qp::LKEYS),
            recv_keys: self.keys(queue, qp::RECV_KEYS),
            rkeys: self.keys(row, qp::RKEYS),
            keys_lost: get(qp::KEYS_LOST) > 0 || received(qp::KEYS_LOST) > 0,
        })
    }

    fn op(&self, row: usize, op: usize) -> Option<OpCount> {
        let [messages, bytes, min, max] =
            [0, 1, 2, 3].map(|word| self.get(QPS.at(row, qp::OPS + qp::OP_WORDS * op + word)));
        let count = OpCount {
            op: Opcode::ALL.get(op).copied(),
            messages,
            bytes: Bytes(bytes),
            min: Bytes(min),
            max: Bytes(max),
        };
        (messages > 0).then_some(count)
    }

    /// Every shape of a request, and which of them a number in the record, plus one, stands for.
    fn requests(&self) -> (Vec<Request>, BTreeMap<u64, u32>) {
        let (mut requests, mut places) = (Vec::new(), BTreeMap::new());
        for id in 1..=SHAPES.rows as u64 {
            if self.get(SHAPES.at(id as usize - 1, shape::HASH)) == 0 {
                continue;
            }
            let Some((op, sge)) = self.shape(id) else { continue };
            if let Some(op) = Opcode::ALL.get(op) {
                places.insert(id, requests.len() as u32);
                requests.push(Request { op: *op, sge });
            }
        }
        (requests, places)
    }

    fn recent(&self, row: usize, places: &BTreeMap<u64, u32>) -> Vec<u32> {
        let posted = self.get(QPS.at(row, qp::REQUESTS));
        let first = posted.saturating_sub(record::RECENT as u64);
        let id = |number: u64| self.get(QPS.at(row, qp::RECENT + number as usize % record::RECENT));
        (first..posted).filter_map(|number| places.get(&id(number)).copied()).collect()
    }

    /// The operation and sizes of a shape, named by its number plus one.
    fn shape(&self, id: u64) -> Option<(usize, Vec<Bytes>)> {
        let row = id.checked_sub(1).filter(|row| *row < SHAPES.rows as u64)? as usize;
        let get = |word| self.get(SHAPES.at(row, word));
        let kept = get(shape::ELEMENTS).min(record::ELEMENTS as u64) as usize;
        Some((get(shape::OP) as usize, (0..kept).map(|element| Bytes(get(shape::SIZES + element))).collect()))
    }

    fn keys(&self, row: usize, set: usize) -> Vec<u32> {
        let mut keys: Vec<u32> = (0..record::KEYS)
            .filter_map(|place| u32::try_from(self.get(QPS.at(row, set + place)).checked_sub(1)?).ok())
            .collect();
        keys.sort_unstable();
        keys
    }
}
