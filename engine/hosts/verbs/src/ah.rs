//! How packets find a peer: the attributes of an address, and the address handles (AH) that datagrams name.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use kelpie_engine::verbs_host::Tuning;
use kelpie_spaces::flow_label::label_of_port;
use rdma_sys::{ibv_ah, ibv_ah_attr, ibv_gid, ibv_global_route, ud_t};

use crate::error::VerbsError;
use crate::pd::Pd;

/// A GID's first half names its subnet. Source: IBTA volume 1, section 4.1.1.
const SUBNET_PREFIX: usize = 8;

/// The port a QP uses, and how its packets are to be marked.
#[derive(Debug, Clone, Copy)]
pub struct LocalPort {
    /// Port number.
    pub port: u8,
    /// GID index.
    pub gid_index: u8,
    /// GID.
    pub gid: [u8; 16],
    /// Marks.
    pub tuning: Tuning,
}

impl LocalPort {
    /// The same, with packets from this source port, if there is one.
    #[must_use]
    pub fn with_source_port(&self, source_port: Option<u16>) -> Self {
        let mut port = *self;
        port.tuning.udp_source_port = source_port.or(port.tuning.udp_source_port);
        port
    }
}

/// The port of a peer.
#[derive(Debug, Clone, Copy)]
pub struct RemotePort {
    /// GID.
    pub gid: [u8; 16],
    /// LID; 0 on Ethernet.
    pub lid: u16,
    /// Whether packets to it need a global route.
    pub needs_grh: bool,
}

/// The address of `remote` as seen from `local`. Within an InfiniBand subnet the LID is mostly enough; else the GID
/// leads.
pub fn address(local: &LocalPort, remote: &RemotePort) -> ibv_ah_attr {
    let is_global = remote.lid == 0 || remote.needs_grh || remote.gid[..SUBNET_PREFIX] != local.gid[..SUBNET_PREFIX];
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: remote.gid },
            flow_label: local.tuning.udp_source_port.map_or(0, label_of_port),
            sgid_index: local.gid_index,
            hop_limit: local.tuning.hop_limit,
            traffic_class: local.tuning.traffic_class,
        },
        dlid: remote.lid,
        sl: local.tuning.service_level,
        src_path_bits: 0,
        static_rate: 0,
        is_global: u8::from(is_global),
        port_num: local.port,
    }
}

/// `ibv_ah`.
pub struct Ah {
    raw: NonNull<ibv_ah>,
    pd: Arc<Pd>,
}

// SAFETY: libibverbs is thread-safe for all calls on an address handle.
unsafe impl Send for Ah {}

impl Ah {
    /// Creates one.
    pub fn new(pd: &Arc<Pd>, local: &LocalPort, remote: &RemotePort) -> Result<Self, VerbsError> {
        let mut attributes = address(local, remote);
        let create = &pd.context().library().create_ah;
        // SAFETY: the domain exists; the attributes live through the call.
        let raw = NonNull::new(unsafe { (create.run)(pd.raw(), &raw mut attributes) });
        let raw = raw.ok_or_else(|| VerbsError::last_os_error(create.verb, pd.context().name()))?;
        Ok(Self { raw, pd: Arc::clone(pd) })
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: destroyed once; nothing is posted to it any more.
        let status = unsafe { (self.pd.context().library().destroy_ah.run)(self.raw.as_ptr()) };
        if status != 0 {
            tracing::warn!(error = %io::Error::from_raw_os_error(status.abs()), "ibv_destroy_ah failed");
        }
    }
}

/// Where a QP's datagrams go.
pub struct DatagramTarget {
    /// Its way.
    pub ah: Ah,
    /// Number of the QP.
    pub qpn: u32,
    /// What the QP wants to see in each datagram.
    pub qkey: u32,
}

impl DatagramTarget {
    /// As a work request names it.
    pub fn named(&self) -> ud_t {
        ud_t { ah: self.ah.raw.as_ptr(), remote_qpn: self.qpn, remote_qkey: self.qkey }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gid_leads_on_ethernet_and_between_subnets() {
        let gid = |subnet: u8| [0xfe, 0x80, 0, 0, 0, 0, 0, subnet, 0, 0, 0, 0, 0, 0, 0, 1];
        let local =
            LocalPort { port: 2, gid_index: 3, gid: gid(1), tuning: Tuning { service_level: 5, ..Tuning::default() } };
        for (subnet, lid, needs_grh, is_global) in
            [(1, 0, false, 1), (1, 7, false, 0), (2, 7, false, 1), (1, 7, true, 1)]
        {
            let found = address(&local, &RemotePort { gid: gid(subnet), lid, needs_grh });
            assert_eq!(
                (found.is_global, found.dlid, found.sl, found.port_num),
                (is_global, lid, 5, 2),
                "{subnet} {lid}"
            );
        }
    }
}
