//! Vectors that mix short and long messages or elements, which NICs handle by different parts. Making a mix is in
//! `edit`.

use crate::units::Bytes;
use crate::workload::Flow;

/// A message (or scatter-gather element) of at most this size is short in a mix.
///
/// Units: bytes. Source: our choice, because every mix in Collie's appendix A (9, 10, 12) has one of 1 KiB or less.
pub const MIX_SHORT: Bytes = Bytes(1 << 10);

/// A message (or scatter-gather element) of at least this size is long in a mix.
///
/// Units: bytes. Source: our choice, because every mix in Collie's appendix A (9, 10, 12) has one of 64 KiB.
pub const MIX_LONG: Bytes = Bytes(64 << 10);

impl Flow {
    /// Whether the request vector holds a short and a long element or message ([`MIX_SHORT`], [`MIX_LONG`]).
    pub fn is_mixed(&self) -> bool {
        let mut sizes = self.pattern.iter().flat_map(|request| &request.sge).copied();
        let short = sizes.any(|size| size <= MIX_SHORT);
        short && self.pattern.iter().any(|request| request.sge.iter().any(|size| *size >= MIX_LONG))
    }
}
