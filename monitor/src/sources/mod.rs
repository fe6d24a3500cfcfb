//! Where counters are read from: one trait, one file per source. Differences and rates live in `rates`.

mod dcb;
mod ethtool;
mod link_modes;
mod netdev;
mod netlink;
mod pcie;
mod port;
mod rdma_netlink;
mod scripted;
mod source;
mod sysfs;

pub use dcb::Dcb;
pub use ethtool::{EthtoolSource, PREFIX as ETHTOOL_PREFIX};
pub use link_modes::{LinkSpeeds, link_speeds};
pub use netdev::SPEED as LINK_SPEED;
pub use pcie::{LINK_MEGATRANSFERS, LINK_WIDTH};
pub use port::PortSources;
pub use scripted::ScriptedSource;
pub use source::{CounterSource, Reading, SourceError, without_slave};

// Not for other crates, so that the compiler warns of a source that no port opens.
use netdev::NetdevSource;
pub(crate) use pcie::PcieSource;
use rdma_netlink::RdmaNetlinkSource;
use sysfs::SysfsSource;
