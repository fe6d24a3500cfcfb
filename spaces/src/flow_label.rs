//! The UDP source port of RoCEv2 and the flow label that asks for it. Pure functions.

/// First UDP source port that RoCEv2 derives from a flow label. Source: kernel `include/rdma/ib_verbs.h`,
/// `IB_ROCE_UDP_ENCAP_VALID_PORT_MIN`.
pub const FIRST_PORT: u16 = 0xC000;
/// Ports that a flow label can name.
pub const PORTS: u16 = 0x4000;

/// The source port of RoCEv2 for a flow label; label 0 stands for none.
///
/// Source: kernel `include/rdma/ib_verbs.h`, `rdma_flow_label_to_udp_sport`.
pub fn port_of_label(label: u32) -> u16 {
    FIRST_PORT | ((label & 0x3fff) ^ ((label & 0xf_c000) >> 14)) as u16
}

/// The label that a pair of QP numbers gives, if the application sets none.
///
/// Source: kernel `include/rdma/ib_verbs.h`, `rdma_calc_flow_label`.
pub fn label_of_qps(local: u32, remote: u32) -> u32 {
    let product = u64::from(local) * u64::from(remote);
    let folded = product ^ (product >> 20) ^ (product >> 40);
    (folded & 0xf_ffff) as u32
}

/// A label that gives this source port. Port 49152 needs one that is not 0, because 0 stands for none.
pub fn label_of_port(port: u16) -> u32 {
    match u32::from(port & 0x3fff) {
        // Source: `port_of_label`, whose two parts cancel out here.
        0 => 0x4001,
        label => label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_are_those_of_the_kernel() {
        for (label, port) in [
            (1, 49153),
            (2, 49154),
            (16_383, 65_535),
            (16_384, 49_153),
            (74_565, 58_177),
            (1_048_575, 65_472),
            (703_710, 64_756),
        ] {
            assert_eq!(port_of_label(label), port, "{label}");
        }
        for (local, remote, label) in [
            (17, 18, 306),
            (6699, 15_437, 651_917),
            (11_686, 11_686, 247_590),
            (16_777_215, 16_777_215, 1_048_350),
            (72, 73, 5256),
        ] {
            assert_eq!(label_of_qps(local, remote), label, "{local} {remote}");
        }
        for port in FIRST_PORT..=u16::MAX {
            assert_eq!(port_of_label(label_of_port(port)), port);
            assert_ne!(label_of_port(port), 0);
        }
    }
}
