//! The domains of the parameters of a model. Reading and changing them is in `load`.

use crate::model::Model;

/// A parameter outside of its domain.
#[derive(Debug)]
pub struct Refused {
    /// Path of the parameter.
    pub path: String,
    /// Its value and the rule that it breaks.
    pub rule: String,
}

/// What was refused so far.
#[derive(Debug, Default)]
struct Checked(Vec<Refused>);

impl Checked {
    fn refuse(&mut self, path: impl Into<String>, value: impl std::fmt::Display, rule: &str) {
        self.0.push(Refused { path: path.into(), rule: format!("{value} {rule}") });
    }
}

/// The parameters that are not in their domain.
pub fn check(model: &Model) -> Vec<Refused> {
    let mut checked = Checked::default();
    if model.kelpie == "model/2" {
        check_rates(model, &mut checked);
        check_times(model, &mut checked);
        check_caches(model, &mut checked);
        check_counts(model, &mut checked);
        check_relations(model, &mut checked);
    } else {
        checked.refuse("kelpie", &model.kelpie, "is not model/2, the only version this Kelpie reads");
    }
    checked.0
}

/// Rates, sizes and times between which any real one lies, whatever its unit. Source: our choice.
const LIKELY: std::ops::RangeInclusive<f64> = 1e-3..=1e9;

fn check_rates(model: &Model, checked: &mut Checked) {
    let Model { port, switch, processing, receive, pcie, host, sampling, .. } = model;
    let positive = [
        ("port.line_rate_gbps", port.line_rate_gbps),
        ("port.max_mpps", port.max_mpps),
        ("switch.xoff_kib", switch.xoff_kib),
        ("switch.xon_kib", switch.xon_kib),
        ("processing.staging_kib", processing.staging_kib),
        ("receive.xoff_kib", receive.xoff_kib),
        ("receive.xon_kib", receive.xon_kib),
        ("receive.capacity_kib", receive.capacity_kib),
        ("receive.loopback_kib", receive.loopback_kib),
        ("pcie.gbps", pcie.gbps),
        ("pcie.write_credit_kib", pcie.write_credit_kib),
        ("host.memory_gbps", host.memory_gbps),
        ("host.interconnect_gbps", host.interconnect_gbps),
        ("host.remote_memory_gbps", host.remote_memory_gbps),
        ("host.redirect_read_gbps", host.redirect_read_gbps),
        ("host.redirect_write_gbps", host.redirect_write_gbps),
        ("sampling.sample_us", sampling.sample_us),
    ];
    let optional = [
        ("bond.trunk_gbps", model.bond.as_ref().map(|bond| bond.trunk_gbps)),
        ("processing.packet_memory_kib", processing.packet_memory_kib),
    ];
    let optional = optional.into_iter().filter_map(|(path, value)| Some((path, value?)));
    for (path, value) in positive.into_iter().chain(optional) {
        if !LIKELY.contains(&value) {
            checked.refuse(path, format!("{value:?}"), "is outside 0.001 to 1e9");
        }
    }
    if !(sampling.precision > 0.0 && sampling.precision <= 1.0) {
        checked.refuse("sampling.precision", sampling.precision, "must be above 0 and at most 1");
    }
    if !(0.0..=1.0).contains(&sampling.noise) {
        checked.refuse("sampling.noise", sampling.noise, "must be from 0 to 1");
    }
}

fn check_times(model: &Model, checked: &mut Checked) {
    let Model { port, posting, processing, receive, control, pcie, host, .. } = model;
    let times = [
        ("port.link_delay_ns", port.link_delay_ns),
        ("posting.doorbell_ns", posting.doorbell_ns),
        ("posting.wqe_ns", posting.wqe_ns),
        ("posting.poll_ns", posting.poll_ns),
        ("processing.wqe_ns", processing.wqe_ns),
        ("processing.segment_ns", processing.segment_ns),
        ("processing.packet_ns", processing.packet_ns),
        ("processing.receive_packet_ns", processing.receive_packet_ns),
        ("processing.receive_message_ns", processing.receive_message_ns),
        ("processing.response_packet_ns", processing.response_packet_ns),
        ("processing.pipeline_packet_ns", processing.pipeline_packet_ns),
        ("processing.response_kib_ns", processing.response_kib_ns),
        ("processing.pipeline_kib_ns", processing.pipeline_kib_ns),
        ("processing.pipeline_switch_ns", processing.pipeline_switch_ns),
        ("receive.rnr_timer_us", receive.rnr_timer_us),
        ("control.firmware_us", control.firmware_us),
        ("control.hold_us", control.hold_us),
        ("pcie.link_latency_ns", pcie.link_latency_ns),
        ("host.memory_latency_ns", host.memory_latency_ns),
        ("host.partial_line_ns", host.partial_line_ns.unwrap_or(0.0)),
        ("host.interconnect_latency_ns", host.interconnect_latency_ns),
    ];
    let sleep = pcie
        .sleep
        .as_ref()
        .map(|sleep| [("pcie.sleep.after_us", sleep.after_us), ("pcie.sleep.wake_us", sleep.wake_us)]);
    if !(control.ack_timeout_us >= 4.096 && control.ack_timeout_us < 1e9) {
        checked.refuse("control.ack_timeout_us", control.ack_timeout_us, "must be from 4.096 to below 1e9");
    }
    for (path, value) in times.into_iter().chain(sleep.into_iter().flatten()) {
        if !(0.0..1e9).contains(&value) {
            checked.refuse(path, value, "must be a time from 0 to below 1e9");
        }
    }
}

/// What a cache of a NIC may hold at most. Units: KiB. Source: our choice, a gigabyte, far more than any has.
const MOST_KIB: f64 = 1_048_576.0;

fn check_caches(model: &Model, checked: &mut Checked) {
    let caches = &model.caches;
    let forms = [
        ("caches.contexts", caches.contexts),
        ("caches.translations", caches.translations),
        ("caches.send_wqes", caches.send_wqes),
        ("caches.receive_wqes", caches.receive_wqes),
        ("caches.receive_chains", caches.receive_chains),
        ("caches.read_lists", caches.read_lists),
        ("caches.ring_pages", caches.ring_pages),
    ];
    for (path, form) in forms {
        if !(form.kib > 0.0 && form.kib <= MOST_KIB) {
            checked.refuse(
                format!("{path}.kib"),
                form.kib,
                "KiB: a cache must hold something, and at most 1,048,576 KiB",
            );
        }
        if form.ways == 0 || form.ways > 1024 {
            checked.refuse(format!("{path}.ways"), form.ways, "ways: a set must have 1 to 1,024 lines");
        }
    }
}

fn check_counts(model: &Model, checked: &mut Checked) {
    let Model { posting, processing, caches, fetch, receive, pcie, sampling, .. } = model;
    let counts = [
        ("posting.cores", posting.cores, 4096),
        ("posting.signal_divisor", posting.signal_divisor, 1 << 20),
        ("processing.units", processing.units, 4096),
        ("processing.slots", processing.slots, 4096),
        ("processing.turn_packets", processing.turn_packets, 1 << 20),
        ("processing.pipeline_states", processing.pipeline_states, 64),
        ("processing.max_reads", processing.max_reads, 1024),
        ("caches.context_tables", caches.context_tables, 64),
        ("caches.context_lines", caches.context_lines, 64),
        ("caches.receive_entry_bytes.RC", caches.receive_entry_bytes.rc, 4096),
        ("caches.receive_entry_bytes.UC", caches.receive_entry_bytes.uc, 4096),
        ("caches.receive_entry_bytes.UD", caches.receive_entry_bytes.ud, 4096),
        ("fetch.wqe_lines", fetch.wqe_lines, 64),
        ("fetch.send_ahead_lines", fetch.send_ahead_lines, 1 << 20),
        ("fetch.receive_ahead_lines", fetch.receive_ahead_lines, 1 << 16),
        ("fetch.inline_receives", fetch.inline_receives, u32::MAX),
        ("fetch.chain_wqes", fetch.chain_wqes, u32::MAX),
        ("fetch.chain_lines", fetch.chain_lines, 1 << 20),
        ("fetch.read_list_lines", fetch.read_list_lines, 64),
        ("fetch.chain_misses", fetch.chain_misses, 1 << 20),
        ("fetch.ring_page_misses", fetch.ring_page_misses, 1 << 20),
        ("fetch.receive_demand_lines", fetch.receive_demand_lines, 64),
        ("fetch.send_misses", fetch.send_misses, 1 << 20),
        ("fetch.translation_misses", fetch.translation_misses.unwrap_or(1), 1 << 20),
        ("fetch.receive_misses", fetch.receive_misses, 1 << 20),
        ("fetch.receive_wqe_misses", fetch.receive_wqe_misses, 1 << 20),
        ("fetch.read_list_misses", fetch.read_list_misses, 1 << 20),
        ("receive.slots", receive.slots, 1 << 20),
        ("pcie.tags", pcie.tags, 1 << 20),
        ("sampling.samples", sampling.samples, 100),
    ];
    for (path, value, most) in counts {
        if value == 0 || value > most {
            checked.refuse(path, value, "must be above zero and within what a NIC could have");
        }
    }
    if pcie.tlp_overhead_bytes > 4096 {
        checked.refuse("pcie.tlp_overhead_bytes", pcie.tlp_overhead_bytes, "must be within what a NIC could have");
    }
}

/// Checks the parameters whose domain is not a range of its own.
fn check_relations(model: &Model, checked: &mut Checked) {
    let Model { port, switch, receive, pcie, host, sampling, .. } = model;
    let payloads = [
        ("pcie.max_payload_bytes", pcie.max_payload_bytes),
        ("pcie.max_read_request_bytes", pcie.max_read_request_bytes),
    ];
    for (path, value) in payloads {
        if !(64..=1 << 20).contains(&value) {
            checked.refuse(path, value, "must be from 64 to 1,048,576");
        }
    }
    if sampling.max_events < 1000 || sampling.max_events > 1 << 32 {
        checked.refuse("sampling.max_events", sampling.max_events, "must be from 1,000 to 2^32");
    }
    if receive.xon_kib > receive.xoff_kib {
        checked.refuse("receive.xon_kib", receive.xon_kib, "must not be above xoff_kib");
    }
    if receive.xoff_kib > receive.capacity_kib {
        checked.refuse("receive.xoff_kib", receive.xoff_kib, "must not be above capacity_kib");
    }
    if switch.xon_kib > switch.xoff_kib {
        checked.refuse("switch.xon_kib", switch.xon_kib, "must not be above xoff_kib");
    }
    if host.dram.is_empty() || host.dram.len() > 64 || host.gpus.len() > 64 {
        checked.refuse("host.dram", host.dram.len(), "must list 1 to 64 NUMA nodes, and at most 64 GPUs");
    }
    if port.force_mtu.is_some_and(|mtu| kelpie_spaces::Mtu::try_from(mtu).is_err()) {
        checked.refuse("port.force_mtu", format!("{:?}", port.force_mtu), "must be a path MTU or null");
    }
}
