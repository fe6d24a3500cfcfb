//! A host as files: sysfs and procfs below a root, of this machine or recorded. Their meaning is elsewhere.

mod files;
mod gid;
mod link;
mod pci;

pub use files::Machine;
pub use gid::{Gid, GidRank, gids};
pub use link::{PortLink, rdma_devices, speed};
pub use pci::{PciFunction, PcieRate, pci_path};
