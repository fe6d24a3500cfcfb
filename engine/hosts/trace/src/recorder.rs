//! Writes what happens into a record, on the data path of the traced program: no allocation, no lock, no system call.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use kelpie_spaces::Opcode;

use crate::record::{self, KEYS, MAGIC, MRS, QPS, RECENT, RecordTable, SHAPES, head, mr, qp, shape};

/// Places of a hash table that are looked at: a full one must not be walked on the data path.
const STEPS: usize = 16;

/// What a row of the table of QPs stands for: `enum ibv_qp_type`, or a shared receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QpRowKind {
    /// A queue pair of this `ibv_qp_type`.
    Qp(u32),
    /// A shared receive queue.
    Srq,
}

impl QpRowKind {
    const SRQ: u64 = 1 << 32;

    pub(crate) fn code(self) -> u64 {
        match self {
            QpRowKind::Qp(raw) => raw.into(),
            QpRowKind::Srq => Self::SRQ,
        }
    }

    pub(crate) fn from_code(code: u64) -> Self {
        u32::try_from(code).map_or(QpRowKind::Srq, QpRowKind::Qp)
    }
}

/// Queue depths as the program asked for them. Units: work requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueDepths {
    /// `max_send_wr`.
    pub send_depth: u32,
    /// `max_recv_wr`, or `max_wr` of a shared receive queue.
    pub recv_depth: u32,
}

/// A row of the table of QPs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpRow(pub usize);

impl QpRow {
    /// Where it lies in a record. Units: bytes.
    pub fn bytes(self) -> std::ops::Range<usize> {
        QPS.at(self.0, 0) * 8..QPS.at(self.0 + 1, 0) * 8
    }
}

/// The writer of one record.
///
/// Calls about one row may come from several threads; counts may then miss some, as adding up is not atomic: that would
/// cost the program more than all the rest.
#[derive(Debug, Clone, Copy)]
pub struct Recorder<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Recorder<'a> {
    /// Starts a record in words that are all zero; `None` if they are not [`record::WORDS`].
    pub fn start(words: &'a [AtomicU64], pid: u32) -> Option<Self> {
        if words.len() != record::WORDS {
            return None;
        }
        words[head::PID].store(pid.into(), Relaxed);
        words[head::MAGIC].store(MAGIC, Release);
        Some(Self { words })
    }

    /// Goes on with a record that was started; the words must be as many.
    pub fn resume(words: &'a [AtomicU64]) -> Self {
        assert_eq!(words.len(), record::WORDS, "a record has one length");
        Self { words }
    }

    /// A new QP or shared receive queue; `None` if the table is full.
    pub fn add(&self, kind: QpRowKind, number: u32, caps: QueueDepths, srq: Option<QpRow>) -> Option<QpRow> {
        self.add_backed(kind, number, caps, srq, |_| true)
    }

    /// As `add`; also `None` if the words of its row cannot be written, in which case none is.
    pub fn add_backed(
        &self,
        kind: QpRowKind,
        number: u32,
        caps: QueueDepths,
        srq: Option<QpRow>,
        is_backed: impl FnOnce(QpRow) -> bool,
    ) -> Option<QpRow> {
        let row = QpRow(self.words[head::QPS].fetch_add(1, Relaxed) as usize);
        if row.0 >= QPS.rows || !is_backed(row) {
            return None;
        }
        for (word, value) in [
            (qp::KIND, kind.code()),
            (qp::NUMBER, number.into()),
            (qp::SEND_DEPTH, caps.send_depth.into()),
            (qp::RECV_DEPTH, caps.recv_depth.into()),
            (qp::SRQ, srq.map_or(0, |srq| srq.0 as u64 + 1)),
            (qp::CREATED, self.event()),
        ] {
            self.put(row, word, value);
        }
        Some(row)
    }

    /// It was destroyed.
    pub fn ended(&self, row: QpRow) {
        self.put(row, qp::DESTROYED, self.event());
    }

    /// Its path MTU, in bytes.
    pub fn mtu(&self, row: QpRow, bytes: u32) {
        self.put(row, qp::MTU, bytes.into());
    }

    /// It is connected to this QP.
    pub fn peer(&self, row: QpRow, number: u32) {
        self.put(row, qp::PEER, number.into());
    }

    /// It is connected to a QP of its own port, or sent a datagram to one.
    pub fn loopback(&self, row: QpRow) {
        self.put(row, qp::LOOPBACK, self.get(row, qp::LOOPBACK) + 1);
    }

    /// An MR; `device` is a DRAM node, a GPU or unknown.
    pub fn mr(&self, lkey: u32, rkey: u32, length: u64, device: MrDevice) {
        let Some(at) = self.place(&MRS, mr::LKEY, u64::from(lkey) + 1, mix(0, lkey.into())) else {
            self.words[head::MRS_LOST].fetch_add(1, Relaxed);
            return;
        };
        let device = match device {
            MrDevice::Dram(node) => u64::from(node) + 1,
            MrDevice::Gpu(index) => mr::GPU + u64::from(index),
            MrDevice::Unknown => 0,
        };
        for (word, value) in [(mr::RKEY, rkey.into()), (mr::LENGTH, length), (mr::DEVICE, device)] {
            self.words[MRS.at(at, word)].store(value, Relaxed);
        }
    }

    /// One request is posted: its operation, `None` for what moves no message (a memory window, an invalidation), its
    /// elements as local key and length, and the key of the memory that it names at the peer.
    pub fn request(
        &self,
        row: QpRow,
        op: Option<Opcode>,
        elements: impl Iterator<Item = (u32, u32)> + Clone,
        rkey: Option<u32>,
        is_inline: bool,
    ) {
        let kind = op.map_or(record::OTHER, |op| op as usize);
        let (mut hash, mut bytes) = (mix(0, kind as u64), 0u64);
        for (lkey, length) in elements.clone() {
            hash = mix(hash, length.into());
            bytes += u64::from(length);
            if !is_inline {
                self.key(row, qp::LKEYS, lkey);
            }
        }
        if let Some(rkey) = rkey {
            self.key(row, qp::RKEYS, rkey);
        }
        if is_inline && bytes > self.get(row, qp::INLINE) {
            self.put(row, qp::INLINE, bytes);
        }
        let of_op = qp::OPS + qp::OP_WORDS * kind;
        let count = self.get(row, of_op);
        self.put(row, of_op, count + 1);
        self.put(row, of_op + 1, self.get(row, of_op + 1) + bytes);
        if count == 0 || bytes < self.get(row, of_op + 2) {
            self.put(row, of_op + 2, bytes);
        }
        if bytes > self.get(row, of_op + 3) {
            self.put(row, of_op + 3, bytes);
        }
        if op.is_none() {
            return;
        }
        if self.get(row, qp::LAST_HASH) != hash {
            let lengths = elements.map(|(_, length)| length);
            self.put(row, qp::LAST_SHAPE, self.shape(hash, kind as u64, lengths));
            self.put(row, qp::LAST_HASH, hash);
        }
        let number = self.get(row, qp::REQUESTS);
        self.put(row, qp::RECENT + number as usize % RECENT, self.get(row, qp::LAST_SHAPE));
        self.put(row, qp::REQUESTS, number + 1);
    }

    /// One post call ended that held this many requests. The clock is asked at the first and at every 64th call.
    pub fn posted(&self, row: QpRow, requests: u64, now: impl FnOnce() -> u64) {
        let calls = self.get(row, qp::CALLS);
        self.put(row, qp::CALLS, calls + 1);
        if requests > self.get(row, qp::BATCH_MAX) {
            self.put(row, qp::BATCH_MAX, requests);
        }
        if calls.is_multiple_of(64) {
            let now = now();
            if calls == 0 {
                self.put(row, qp::FIRST, now);
            }
            self.put(row, qp::LAST, now);
        }
    }

    /// One receive is posted: its elements as local key and length.
    pub fn receive(&self, row: QpRow, elements: impl Iterator<Item = (u32, u32)> + Clone) {
        let mut hash = mix(0, record::OPS as u64);
        for (lkey, length) in elements.clone() {
            hash = mix(hash, length.into());
            self.key(row, qp::RECV_KEYS, lkey);
        }
        if self.get(row, qp::LAST_RECV_HASH) != hash {
            let lengths = elements.map(|(_, length)| length);
            self.put(row, qp::RECV_SHAPE, self.shape(hash, record::OPS as u64, lengths));
            self.put(row, qp::LAST_RECV_HASH, hash);
        }
        self.put(row, qp::RECEIVES, self.get(row, qp::RECEIVES) + 1);
    }

    /// One post call of receives ended.
    pub fn posted_receives(&self, row: QpRow, receives: u64) {
        self.put(row, qp::RECV_CALLS, self.get(row, qp::RECV_CALLS) + 1);
        if receives > self.get(row, qp::RECV_BATCH_MAX) {
            self.put(row, qp::RECV_BATCH_MAX, receives);
        }
    }

    fn get(&self, row: QpRow, word: usize) -> u64 {
        self.words[QPS.at(row.0, word)].load(Relaxed)
    }

    fn put(&self, row: QpRow, word: usize, value: u64) {
        self.words[QPS.at(row.0, word)].store(value, Relaxed);
    }

    fn event(&self) -> u64 {
        self.words[head::EVENTS].fetch_add(1, Relaxed) + 1
    }

    /// Adds a key to a set of a QP.
    fn key(&self, row: QpRow, set: usize, key: u32) {
        let (wanted, start) = (u64::from(key) + 1, mix(0, key.into()) as usize);
        for turn in 0..STEPS {
            let word = set + (start + turn) % KEYS;
            match self.get(row, word) {
                held if held == wanted => return,
                0 => return self.put(row, word, wanted),
                _ => {}
            }
        }
        self.put(row, qp::KEYS_LOST, 1);
    }

    /// The number of a shape, plus one; 0 if there is no room for a new one.
    fn shape(&self, hash: u64, op: u64, lengths: impl Iterator<Item = u32>) -> u64 {
        let Some(at) = self.place(&SHAPES, shape::HASH, hash, hash) else {
            self.words[head::SHAPES_LOST].fetch_add(1, Relaxed);
            return 0;
        };
        let put = |word, value| self.words[SHAPES.at(at, word)].store(value, Relaxed);
        put(shape::OP, op);
        let mut count = 0;
        for length in lengths {
            if count < record::ELEMENTS {
                put(shape::SIZES + count, length.into());
            }
            count += 1;
        }
        put(shape::ELEMENTS, count as u64);
        at as u64 + 1
    }

    /// The row of a hash table that holds `wanted`, which is not zero, or takes it in now.
    fn place(&self, table: &RecordTable, word: usize, wanted: u64, hash: u64) -> Option<usize> {
        for turn in 0..STEPS {
            let at = (hash as usize).wrapping_add(turn) % table.rows;
            let place = &self.words[table.at(at, word)];
            let mut held = place.load(Relaxed);
            if held == 0 {
                held = place.compare_exchange(0, wanted, Relaxed, Relaxed).map_or_else(|other| other, |_| wanted);
            }
            if held == wanted {
                return Some(at);
            }
        }
        None
    }
}

/// Where an MR lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MrDevice {
    /// DRAM of this NUMA node.
    Dram(u8),
    /// Memory of this GPU.
    Gpu(u8),
    /// It could not be determined.
    Unknown,
}

/// One step of a multiplicative hash; never zero. Source of the constant: 2^64 over the golden ratio.
fn mix(hash: u64, value: u64) -> u64 {
    let product = (hash ^ value).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ (product >> 29)) | 1
}
