//! What a qualification says of a fleet: in words, one line a node for machines, reasons for schedulers, and reports.

mod reason;
mod text;

pub use reason::{nhc_line, node_line, reason};
pub use text::text;
