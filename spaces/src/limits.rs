//! The largest accepted sizes of a workload. The rules between its fields are in `constraints`.

use crate::units::Bytes;

/// Most flows of a workload. Source: our choice, because the coexistence cases of the paper need two.
pub const MAX_FLOWS: usize = 64;
/// Most requests of a vector. Source: our choice, because the paper's n (processing units times stages) stays far
/// below.
pub const MAX_PATTERN: usize = 1024;
/// Most elements of a scatter-gather list. Source: our choice, because it is twice the `max_sge` of 30 that mlx5
/// devices report.
pub const MAX_SGE: usize = 64;
/// Most QPs of a NIC. Source: our choice, three times the 20 K of Collie section 4, dimension 3.
pub const MAX_QPS: u64 = 1 << 16;
/// Most MRs of a host. Source: our choice, five times the 200 K of Collie section 4, dimension 2.
pub const MAX_MRS: u64 = 1 << 20;
/// Most bytes pinned on a host. Source: our choice, eight times the 2 TB of the largest server in Collie, table 1.
pub const MAX_PINNED: Bytes = Bytes(16 << 40);
/// Deepest work queue. Source: our choice, twice the `max_qp_wr` of 32,768 that mlx5 devices report.
pub const MAX_DEPTH: u32 = 1 << 16;
/// Longest message. Source: IBTA volume 1, chapter 9: 2^31 bytes.
pub const MAX_MESSAGE: Bytes = Bytes(1 << 31);

/// Most inline data. Source: our choice, four times the 1 KiB that mlx5 devices take at most.
pub const MAX_INLINE: Bytes = Bytes(4 << 10);

/// Most QPs or MRs that an end makes. Units: per second. Source: our choice, ten times what one thread gets out of a
/// kernel driver, which takes some 10 us for each.
pub const MAX_MADE_PER_SEC: u32 = 1_000_000;

/// Most packets that a path loses, of a million. Source: our choice, half of them, beyond which nothing is called a
/// path.
pub const MAX_LOSS_PPM: u32 = 500_000;

/// Longest delay of a path, one way. Units: ns. Source: our choice, 100 ms, as between continents.
pub const MAX_PATH_DELAY_NS: u32 = 100_000_000;
