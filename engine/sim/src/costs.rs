//! Model constants in the simulation's units. Their values and sources are in the model files.

use crate::model::{Model, Ordering};
use kelpie_events::{Ps, Rate, ns};

/// What each step costs on a model, and the sizes that bound it. Units: bytes and picoseconds.
#[derive(Debug)]
pub struct Costs {
    pub wire: Rate,
    pub pcie: Rate,
    pub interconnect: Rate,
    pub redirect_read: Rate,
    pub redirect_write: Rate,
    pub link: Ps,
    pub packet: Ps,
    /// A packet at the specified rate of one direction.
    pub transmit_packet: Ps,
    pub pcie_read: Ps,
    pub interconnect_latency: Ps,
    pub write_credit: Ps,
    pub barrier: Ps,
    pub strict: bool,
    pub reload: Ps,
    pub read_stream: Ps,
    pub read_page: Ps,
    pub read_refetch: Ps,
    pub restage: Ps,
    pub doorbell: Ps,
    pub wqe: Ps,
    pub poll: Ps,
    pub staging: u64,
    pub turns: u32,
    pub loopback_fill: u64,
    pub xoff: u64,
    pub xon: u64,
    pub switch_xoff: u64,
    pub switch_xon: u64,
}

impl Costs {
    pub fn new(model: &Model) -> Self {
        let bytes = |kib: f64| (kib * 1024.0) as u64;
        let pcie_read = ns(model.pcie.read_latency_ns);
        let pcie = Rate::gbps(model.pcie.gbps);
        Self {
            wire: Rate::gbps(model.port.line_rate_gbps),
            pcie,
            interconnect: Rate::gbps(model.host.interconnect_gbps),
            redirect_read: Rate::gbps(model.host.redirect_read_gbps),
            redirect_write: Rate::gbps(model.host.redirect_write_gbps),
            link: ns(model.port.link_delay_ns),
            packet: ns(model.shared_pipeline.packet_ns),
            transmit_packet: ns(1e3 / model.port.max_mpps),
            pcie_read,
            interconnect_latency: ns(model.host.interconnect_latency_ns),
            write_credit: pcie.time(bytes(model.pcie.write_credit_kib)),
            barrier: ns(model.pcie.barrier_ns),
            strict: model.pcie.ordering == Ordering::Strict,
            reload: pcie_read * u64::from(model.shared_pipeline.reload_reads),
            read_stream: ns(model.receive.read_stream_ns),
            read_page: ns(model.receive.read_page_ns),
            read_refetch: pcie_read / u64::from(model.receive.read_scatter_fetches),
            restage: ns(model.transmit.restage_ns),
            doorbell: ns(model.posting.doorbell_ns),
            wqe: ns(model.posting.wqe_ns),
            poll: ns(model.posting.poll_ns),
            staging: bytes(model.transmit.staging_kib),
            turns: model.transmit.processing_units * model.transmit.stages,
            loopback_fill: bytes(model.receive.loopback_kib),
            xoff: bytes(model.receive.xoff_kib),
            xon: bytes(model.receive.xon_kib),
            switch_xoff: bytes(model.switch.xoff_kib),
            switch_xon: bytes(model.switch.xon_kib),
        }
    }

    /// What posting a batch in one call takes the application.
    pub fn post(&self, batch: u64) -> Ps {
        self.doorbell + self.wqe * batch
    }
}
