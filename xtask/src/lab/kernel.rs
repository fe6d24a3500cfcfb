//! The kernel that guests start with. Where each kind of it comes from is in the files of this folder.

mod pack;
mod stock;
mod user_mode;

use anyhow::Result;

use super::machine::Machine;
use super::place::Lab;
pub use pack::Kernel;

/// The versions that a lab can run.
pub const VERSIONS: [&str; 2] = user_mode::VERSIONS;

/// The kernel of this version, or the default one, for guests of the lab's kind.
pub fn prepare(lab: &Lab, version: Option<&str>) -> Result<Kernel> {
    match lab.machine {
        Machine::UserMode => user_mode::prepare(lab, version),
        // Of Debian 12 itself.
        Machine::Emulated => stock::prepare(lab, version.unwrap_or("6.1")),
    }
}
