//! The domains of the parameters of a model. Reading and changing them is in `load`.

use crate::model::Model;

/// A parameter outside of its domain.
#[derive(Debug)]
pub struct Refused {
    /// Path of the parameter.
    pub path: &'static str,
    /// Its value and the rule that it breaks.
    pub rule: String,
}

fn refuse(path: &'static str, value: impl std::fmt::Display, rule: &str) -> Result<(), Refused> {
    Err(Refused { path, rule: format!("{value} {rule}") })
}

/// Checks that every parameter is in its domain.
///
/// # Errors
/// The first that is not.
pub fn check(model: &Model) -> Result<(), Refused> {
    if model.kelpie != "model/1" {
        return refuse("kelpie", &model.kelpie, "is not model/1, the only version this Kelpie reads");
    }
    check_rates_and_times(model)?;
    check_counts(model)?;
    check_relations(model)
}

fn check_rates_and_times(model: &Model) -> Result<(), Refused> {
    let Model { port, switch, posting, transmit, shared_pipeline, receive, pcie, host, sampling, .. } = model;
    let positive = [
        ("port.line_rate_gbps", port.line_rate_gbps),
        ("port.max_mpps", port.max_mpps),
        ("switch.xoff_kib", switch.xoff_kib),
        ("switch.xon_kib", switch.xon_kib),
        ("transmit.staging_kib", transmit.staging_kib),
        ("transmit.retained_kib", transmit.retained_kib),
        ("shared_pipeline.packet_ns", shared_pipeline.packet_ns),
        ("receive.xoff_kib", receive.xoff_kib),
        ("receive.xon_kib", receive.xon_kib),
        ("receive.loopback_kib", receive.loopback_kib),
        ("pcie.gbps", pcie.gbps),
        ("pcie.write_credit_kib", pcie.write_credit_kib),
        ("host.interconnect_gbps", host.interconnect_gbps),
        ("host.redirect_read_gbps", host.redirect_read_gbps),
        ("host.redirect_write_gbps", host.redirect_write_gbps),
        ("sampling.sample_us", sampling.sample_us),
    ];
    for (path, value) in positive {
        if !(value > 0.0 && value < 1e9) {
            return refuse(path, value, "must be above zero and below 1e9");
        }
    }
    let times = [
        ("port.link_delay_ns", port.link_delay_ns),
        ("posting.doorbell_ns", posting.doorbell_ns),
        ("posting.wqe_ns", posting.wqe_ns),
        ("posting.poll_ns", posting.poll_ns),
        ("transmit.restage_ns", transmit.restage_ns),
        ("receive.read_stream_ns", receive.read_stream_ns),
        ("receive.read_page_ns", receive.read_page_ns),
        ("pcie.read_latency_ns", pcie.read_latency_ns),
        ("pcie.barrier_ns", pcie.barrier_ns),
        ("host.interconnect_latency_ns", host.interconnect_latency_ns),
    ];
    for (path, value) in times {
        if !(0.0..1e9).contains(&value) {
            return refuse(path, value, "must be a time from 0 to below 1e9 ns");
        }
    }
    if !(0.0..=1.0).contains(&sampling.noise) {
        return refuse("sampling.noise", sampling.noise, "must be from 0 to 1");
    }
    Ok(())
}

fn check_counts(model: &Model) -> Result<(), Refused> {
    let Model { posting, transmit, shared_pipeline, receive, receive_wqe, icm, pcie, sampling, .. } = model;
    let counts = [
        ("posting.cores", posting.cores, 4096),
        ("posting.signal_divisor", posting.signal_divisor, 1 << 20),
        ("transmit.processing_units", transmit.processing_units, 4096),
        ("transmit.stages", transmit.stages, 4096),
        ("transmit.turn_mtus", transmit.turn_mtus, 1024),
        ("transmit.chain_divisor", transmit.chain_divisor, 1 << 20),
        ("transmit.lookup_group", transmit.lookup_group, 1 << 20),
        ("transmit.max_reads", transmit.max_reads, 1024),
        ("transmit.send_credits", transmit.send_credits, 1 << 24),
        ("receive.read_scatter_fetches", receive.read_scatter_fetches, 4096),
        ("receive_wqe.run_ahead.RC", receive_wqe.run_ahead.rc, 1 << 20),
        ("receive_wqe.run_ahead.UC", receive_wqe.run_ahead.uc, 1 << 20),
        ("receive_wqe.run_ahead.UD", receive_wqe.run_ahead.ud, 1 << 20),
        ("receive_wqe.fetch_wqes.RC", receive_wqe.fetch_wqes.rc, 1 << 20),
        ("receive_wqe.fetch_wqes.UC", receive_wqe.fetch_wqes.uc, 1 << 20),
        ("receive_wqe.fetch_wqes.UD", receive_wqe.fetch_wqes.ud, 1 << 20),
        ("receive_wqe.fetches.RC", receive_wqe.fetches.rc, 256),
        ("receive_wqe.fetches.UC", receive_wqe.fetches.uc, 256),
        ("receive_wqe.fetches.UD", receive_wqe.fetches.ud, 256),
        ("icm.misses", icm.misses, 256),
        ("icm.receive_misses", icm.receive_misses, 4096),
        ("icm.key_reads", icm.key_reads, 256),
        ("icm.doorbell_reads", icm.doorbell_reads, 256),
        ("icm.chain_reads", icm.chain_reads, 256),
        ("sampling.samples", sampling.samples, 100),
        ("sampling.warm_up_max", sampling.warm_up_max, 1000),
    ];
    for (path, value, most) in counts {
        if value == 0 || value > most {
            return refuse(path, value, "must be above zero and within what a NIC could have");
        }
    }
    let may_be_zero = [
        ("shared_pipeline.reload_reads", shared_pipeline.reload_reads.into(), 256),
        ("receive.read_pages_ahead", receive.read_pages_ahead, 1 << 20),
        ("receive_wqe.blocks.RC", receive_wqe.blocks.rc.into(), 4096),
        ("receive_wqe.blocks.UC", receive_wqe.blocks.uc.into(), 4096),
        ("receive_wqe.blocks.UD", receive_wqe.blocks.ud.into(), 4096),
        ("receive_wqe.blocking_reads.RC", receive_wqe.blocking_reads.rc.into(), 256),
        ("receive_wqe.blocking_reads.UC", receive_wqe.blocking_reads.uc.into(), 256),
        ("receive_wqe.blocking_reads.UD", receive_wqe.blocking_reads.ud.into(), 256),
        ("pcie.tlp_overhead_bytes", pcie.tlp_overhead_bytes, 4096),
    ];
    for (path, value, most) in may_be_zero {
        if value > most {
            return refuse(path, value, "must be within what a NIC could have");
        }
    }
    Ok(())
}

/// Checks the parameters whose domain is not a range of its own.
fn check_relations(model: &Model) -> Result<(), Refused> {
    let Model { port, switch, receive, pcie, host, sampling, .. } = model;
    let payloads =
        [("pcie.max_payload_bytes", pcie.max_payload_bytes), ("pcie.max_completion_bytes", pcie.max_completion_bytes)];
    for (path, value) in payloads {
        if value < 64 {
            return refuse(path, value, "must be at least 64");
        }
    }
    if sampling.max_events < 1000 || sampling.max_events > 1 << 32 {
        return refuse("sampling.max_events", sampling.max_events, "must be from 1,000 to 2^32");
    }
    if receive.xon_kib > receive.xoff_kib {
        return refuse("receive.xon_kib", receive.xon_kib, "must not be above xoff_kib");
    }
    if switch.xon_kib > switch.xoff_kib {
        return refuse("switch.xon_kib", switch.xon_kib, "must not be above xoff_kib");
    }
    if host.dram.is_empty() || host.dram.len() > 64 || host.gpus.len() > 64 {
        return refuse("host.dram", host.dram.len(), "must list 1 to 64 NUMA nodes, and at most 64 GPUs");
    }
    if port.force_mtu.is_some_and(|mtu| kelpie_spaces::Mtu::try_from(mtu).is_err()) {
        return refuse("port.force_mtu", format!("{:?}", port.force_mtu), "must be a path MTU or null");
    }
    Ok(())
}
