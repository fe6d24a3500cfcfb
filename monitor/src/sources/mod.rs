//! Where counters are read from: one trait, one file per source. Differences and rates live in `rates`.

mod dcb;
mod dcb_text;
mod ethtool;
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
pub use netdev::{NetdevSource, SPEED as LINK_SPEED};
pub use pcie::{LINK_MEGATRANSFERS, LINK_WIDTH, PcieSource};
pub use port::PortSources;
pub use rdma_netlink::RdmaNetlinkSource;
pub use scripted::ScriptedSource;
pub use source::{CounterSource, Reading, SourceError, without_slave};
pub use sysfs::SysfsSource;
