//! What a RoCEv2 packet carries on the wire beside its payload, header by header. Units: bytes.

/// Preamble and start of frame. Source: IEEE 802.3, clause 3.2.
pub const PREAMBLE: u64 = 8;
/// Least gap between two frames. Source: IEEE 802.3, clause 4.4.2.
pub const INTERPACKET_GAP: u64 = 12;
/// Addresses and type of an Ethernet frame. Source: IEEE 802.3, clause 3.2.
pub const ETHERNET: u64 = 14;
/// Frame check sequence. Source: IEEE 802.3, clause 3.2.
pub const FCS: u64 = 4;
/// IPv4 header without options. Source: RFC 791, section 3.1.
pub const IPV4: u64 = 20;
/// UDP header. Source: RFC 768.
pub const UDP: u64 = 8;
/// Base transport header. Source: IBTA volume 1, section 9.2.
pub const BTH: u64 = 12;
/// Invariant CRC. Source: IBTA volume 1, section 7.8.1 and annex A17.
pub const ICRC: u64 = 4;

/// RETH of a WRITE's first packet and of a READ request. Source: IBTA volume 1, section 9.3.
pub const RETH: u64 = 16;
/// `AtomicETH` of an atomic request. Source: IBTA volume 1, section 9.3.
pub const ATOMIC_ETH: u64 = 28;
/// AETH of an acknowledgement or READ response. Source: IBTA volume 1, section 9.3.
pub const AETH: u64 = 4;
/// DETH of a datagram. Source: IBTA volume 1, section 9.3.
pub const DETH: u64 = 8;

/// What every packet adds to its payload on the wire; RETH, AETH and DETH come on top where a packet has them.
///
/// Source: IBTA volume 1, annex A17 (`RoCEv2`) names the headers and their order.
pub const PACKET_OVERHEAD: u64 = PREAMBLE + INTERPACKET_GAP + ETHERNET + FCS + IPV4 + UDP + BTH + ICRC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdicts_page_names_the_same_figures() {
        let page = include_str!("../../docs/reference/verdict.md");
        for figure in [format!("with {PACKET_OVERHEAD} bytes"), format!("to {} (RETH)", PACKET_OVERHEAD + RETH)] {
            assert!(page.contains(&figure), "docs/reference/verdict.md should say `{figure}`");
        }
    }
}
