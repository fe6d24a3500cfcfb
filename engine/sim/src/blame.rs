//! What the time of a receive engine goes to, by cause and flow. Which part limits a run is in `explain`.

use kelpie_events::Picos;

/// A part that can hold the receive engine up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    PacketProcessing,
    PcieWrite,
    ReadResponse,
    ReadScatterCache,
    RequestContextCache,
    ReceiveWqeCache,
    ContextCache,
    TranslationCache,
    SocketInterconnect,
    PeerToPeerRedirect,
}

/// Every cause with its name, in the order of their numbers.
pub const CAUSES: [(Cause, &str); 10] = [
    (Cause::PacketProcessing, "packet_processing"),
    (Cause::PcieWrite, "pcie_write"),
    (Cause::ReadResponse, "read_response_processing"),
    (Cause::ReadScatterCache, "read_scatter_cache"),
    (Cause::RequestContextCache, "request_context_cache"),
    (Cause::ReceiveWqeCache, "receive_wqe_cache"),
    (Cause::ContextCache, "qp_context_cache"),
    (Cause::TranslationCache, "translation_cache"),
    (Cause::SocketInterconnect, "socket_interconnect"),
    (Cause::PeerToPeerRedirect, "peer_to_peer_redirect"),
];

/// Time of the receive engine of one host by cause and flow.
#[derive(Debug, Clone, Default)]
pub struct Blame {
    spent: Vec<[Picos; CAUSES.len()]>,
}

impl Blame {
    pub fn new(flows: usize) -> Self {
        Self { spent: vec![[Picos::ZERO; CAUSES.len()]; flows] }
    }

    pub fn add(&mut self, flow: u32, cause: Cause, span: Picos) {
        self.spent[flow as usize][cause as usize] += span;
    }

    /// What was spent on the cause of this number.
    pub fn spent(&self, flow: usize, cause: usize) -> Picos {
        self.spent[flow][cause]
    }
}
