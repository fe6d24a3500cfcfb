//! The layout of a record: 64-bit words of a file that the traced process maps, so its end loses none.

/// First word of a record that is complete enough to be read. Its last byte is the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"kelpieT1");

/// A table of equal rows.
pub struct RecordTable {
    first: usize,
    stride: usize,
    /// How many there are.
    pub rows: usize,
}

impl RecordTable {
    const fn after(end: usize, stride: usize, rows: usize) -> Self {
        Self { first: end, stride, rows }
    }

    const fn end(&self) -> usize {
        self.first + self.stride * self.rows
    }

    /// The word of a row.
    pub const fn at(&self, row: usize, word: usize) -> usize {
        self.first + self.stride * row + word
    }
}

/// Words of the head.
pub mod head {
    pub const MAGIC: usize = 0;
    pub const PID: usize = 1;
    /// Counts creations and ends; their order shows what lived at the same time.
    pub const EVENTS: usize = 2;
    /// Rows of the table of QPs that were asked for; may be more than there are.
    pub const QPS: usize = 3;
    pub const MRS_LOST: usize = 4;
    pub const SHAPES_LOST: usize = 5;
    pub const WORDS: usize = 512;
}

/// Words of a QP, or of a shared receive queue.
pub mod qp {
    pub const KIND: usize = 0;
    pub const NUMBER: usize = 1;
    pub const CREATED: usize = 2;
    /// 0 while it lives.
    pub const DESTROYED: usize = 3;
    /// Units: bytes; 0 before it is known.
    pub const MTU: usize = 4;
    /// Connections to its own port, or datagrams.
    pub const LOOPBACK: usize = 5;
    pub const SEND_DEPTH: usize = 6;
    pub const RECV_DEPTH: usize = 7;
    /// Row of its shared receive queue, plus one.
    pub const SRQ: usize = 8;
    pub const CALLS: usize = 9;
    pub const BATCH_MAX: usize = 10;
    pub const RECV_CALLS: usize = 11;
    pub const RECV_BATCH_MAX: usize = 12;
    pub const RECEIVES: usize = 13;
    /// Shape of the last receive, plus one.
    pub const RECV_SHAPE: usize = 14;
    pub const INLINE: usize = 15;
    /// Of `CLOCK_MONOTONIC`. Units: nanoseconds.
    pub const FIRST: usize = 16;
    pub const LAST: usize = 17;
    pub const REQUESTS: usize = 18;
    pub const LAST_HASH: usize = 19;
    pub const LAST_SHAPE: usize = 20;
    pub const KEYS_LOST: usize = 21;
    pub const LAST_RECV_HASH: usize = 22;
    /// Number of the QP that it is connected to.
    pub const PEER: usize = 23;
    /// For each operation: messages, bytes, shortest, longest.
    pub const OPS: usize = 24;
    pub const OP_WORDS: usize = 4;
    /// Shapes of the latest requests, plus one; 0 is a shape that found no place.
    pub const RECENT: usize = OPS + OP_WORDS * super::OPS;
    /// Keys of the MRs that it sends from, plus one.
    pub const LKEYS: usize = RECENT + super::RECENT;
    /// Keys of remote MRs, plus one.
    pub const RKEYS: usize = LKEYS + super::KEYS;
    /// Keys of the MRs that it receives into, plus one.
    pub const RECV_KEYS: usize = RKEYS + super::KEYS;
    pub const WORDS: usize = RECV_KEYS + super::KEYS;
}

/// Words of an MR.
pub mod mr {
    /// Plus one.
    pub const LKEY: usize = 0;
    pub const RKEY: usize = 1;
    /// Units: bytes.
    pub const LENGTH: usize = 2;
    /// A NUMA node plus one, [`GPU`] plus a GPU's number, 0 if it is unknown.
    pub const DEVICE: usize = 3;
    pub const WORDS: usize = 4;
    pub const GPU: u64 = 1 << 8;
}

/// Words of a shape: what is posted again and again.
pub mod shape {
    pub const HASH: usize = 0;
    pub const OP: usize = 1;
    /// How many elements it has, which may be more than are kept.
    pub const ELEMENTS: usize = 2;
    pub const SIZES: usize = 3;
    pub const WORDS: usize = SIZES + super::ELEMENTS;
}

/// Place of operations that Kelpie does not have, behind those that it has.
pub const OTHER: usize = kelpie_spaces::Opcode::ALL.len();
/// Kinds of operations that are counted apart.
pub const OPS: usize = OTHER + 1;
/// Latest requests of a QP that are kept. Source: our choice, because it shows a request vector of 16 several times.
pub const RECENT: usize = 128;
/// Different keys of a QP that are kept. Source: our choice, because a QP that goes round more MRs is rare.
pub const KEYS: usize = 128;
/// Elements of a scatter-gather list that are kept. Source: our choice, above the `max_sge` of 30 that mlx5 devices
/// report.
pub const ELEMENTS: usize = 32;

/// Source: our choice, because the paper's most is 20,000 and a row is rarely touched as a whole.
pub const QPS: RecordTable = RecordTable::after(head::WORDS, qp::WORDS, 1 << 15);
/// A hash table by local key. Source: our choice, because the paper's most is 200,000 on all hosts of a bed.
pub const MRS: RecordTable = RecordTable::after(QPS.end(), mr::WORDS, 1 << 17);
/// A hash table by shape. Source: our choice, because a program with more shapes than that has random sizes.
pub const SHAPES: RecordTable = RecordTable::after(MRS.end(), shape::WORDS, 1 << 11);

/// QPs and shared receive queues that a record has rows for.
pub const ROWS: usize = QPS.rows;

/// The parts of a record that any process may write, whatever it does. Units: bytes.
pub fn always_used() -> [std::ops::Range<usize>; 2] {
    [0..head::WORDS * 8, MRS.at(0, 0) * 8..WORDS * 8]
}

/// Length of a record; nearly all of it is never written and takes no space. Units: 64-bit words.
pub const WORDS: usize = SHAPES.end();
