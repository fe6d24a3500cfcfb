//! How long the archive of a recipe may be.

/// Longest archive. Units: bytes. Source: our choice, because the three entries at their largest do not get longer
/// packed.
pub(super) const MAX_ARCHIVE: u64 = 2 << 20;
/// Most that an archive may unpack to. Units: bytes. Source: our choice, because it holds the three entries at their
/// largest and tar's padding.
pub(super) const MAX_UNPACKED: u64 = 2 << 20;
/// Most entries. Source: our choice, because those beyond the three are refused for their names anyway.
pub(super) const MAX_ENTRIES: usize = 8;
