//! Arguments of `kelpie trace`. What it does lives in `commands::trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Where to write; a new or an empty directory
    #[arg(long, short = 'o', value_name = "DIR", default_value = "trace")]
    pub out: PathBuf,
    /// Run nothing, and read the record in this directory
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Directory with the record of the program at the other end
    #[arg(long, value_name = "DIR")]
    pub peer: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "from", conflicts_with = "from")]
    pub command: Vec<OsString>,
}
