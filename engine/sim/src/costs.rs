//! Model constants in the simulation's units. Their values and sources are in the model files.

use kelpie_events::{Picos, Rate};

use crate::model::{Model, Ordering};

/// What each step costs on a model, and the sizes that bound it. Units: bytes and picoseconds.
#[derive(Debug)]
pub struct Costs {
    pub wire: Rate,
    pub pcie: Rate,
    pub interconnect: Rate,
    pub redirect_read: Rate,
    pub redirect_write: Rate,
    pub link: Picos,
    pub packet: Picos,
    /// A packet at the specified rate of one direction.
    pub transmit_packet: Picos,
    pub pcie_read: Picos,
    pub interconnect_latency: Picos,
    pub write_credit: Picos,
    pub barrier: Picos,
    pub strict: bool,
    pub reload: Picos,
    pub read_stream: Picos,
    pub read_page: Picos,
    pub read_refetch: Picos,
    pub restage: Picos,
    pub doorbell: Picos,
    pub wqe: Picos,
    pub poll: Picos,
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
        let pcie_read = Picos::from_nanos(model.pcie.read_latency_ns);
        let pcie = Rate::gbps(model.pcie.gbps);
        Self {
            wire: Rate::gbps(model.port.line_rate_gbps),
            pcie,
            interconnect: Rate::gbps(model.host.interconnect_gbps),
            redirect_read: Rate::gbps(model.host.redirect_read_gbps),
            redirect_write: Rate::gbps(model.host.redirect_write_gbps),
            link: Picos::from_nanos(model.port.link_delay_ns),
            packet: Picos::from_nanos(model.shared_pipeline.packet_ns),
            transmit_packet: Picos::from_nanos(1e3 / model.port.max_mpps),
            pcie_read,
            interconnect_latency: Picos::from_nanos(model.host.interconnect_latency_ns),
            write_credit: pcie.time(bytes(model.pcie.write_credit_kib)),
            barrier: Picos::from_nanos(model.pcie.barrier_ns),
            strict: model.pcie.ordering == Ordering::Strict,
            reload: pcie_read * u64::from(model.shared_pipeline.reload_reads),
            read_stream: Picos::from_nanos(model.receive.read_stream_ns),
            read_page: Picos::from_nanos(model.receive.read_page_ns),
            read_refetch: pcie_read / u64::from(model.receive.read_scatter_fetches),
            restage: Picos::from_nanos(model.transmit.restage_ns),
            doorbell: Picos::from_nanos(model.posting.doorbell_ns),
            wqe: Picos::from_nanos(model.posting.wqe_ns),
            poll: Picos::from_nanos(model.posting.poll_ns),
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
    pub fn post(&self, batch: u64) -> Picos {
        self.doorbell + self.wqe * batch
    }
}
