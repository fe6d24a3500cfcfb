//! Text that people read on a terminal: nothing in it steers the terminal, columns line up, numbers have units. It
//! prints nothing.

pub mod plain;
pub mod safe;
pub mod table;
pub mod words;

pub use plain::{plain, steers};
pub use safe::{clean, clean_json, outgoing};
pub use table::{Table, width};
pub use words::{natural, percent, plural, quoted, si, time, wrapped};
