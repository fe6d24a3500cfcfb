//! What a model says, in the terms of the parts: a NIC, its host, the driver, the applications, the switch.

use kelpie_engine::MeasureError;
use kelpie_events::{Picos, Rate};
use kelpie_nic::cache::{Geometry, Replacement};
use kelpie_nic::command::CommandTimes;
use kelpie_nic::config::{Config, Misses, PacketTime, ReceiveTimes, SendTimes, WhenBusy};
use kelpie_nic::memory::{MemoryPath, MemoryUnit};
use kelpie_nic::packet::Headers;
use kelpie_nic::path::Order;
use kelpie_nic::pcie;
use kelpie_nic::units::UnitsConfig;
use kelpie_spaces::{Device, Host, headers};
use kelpie_switch::{BufferForm, Threshold};

use crate::model::{self, CacheForm, Gpu, Model};
use crate::network::Cables;
use crate::pair_models::PairModels;

/// Time for which the packet rate may exceed the specified one, as long as its mean does not.
///
/// Source: our choice, a queue of some dozens of descriptors before the packet scheduler.
const PACKET_RATE_SLACK: Picos = Picos::new(2_000_000);

/// The interconnect of the sockets, and the turn at the root complex, among the ways of a host.
const INTERCONNECT: usize = 0;
const REDIRECT: usize = 1;

/// How the NIC reaches a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryReach {
    /// Memory of the NIC's own socket, or a GPU beside the NIC.
    Local,
    /// Across the socket interconnect.
    Interconnect,
    /// Peer-to-peer turned back at the root complex.
    Redirected,
}

fn kib(kib: f64) -> u64 {
    (kib * 1024.0) as u64
}

impl Model {
    /// How the NIC reaches each memory: NUMA nodes first, then GPUs.
    pub fn reaches(&self) -> Vec<MemoryReach> {
        let host = &self.host;
        let is_near = |socket: u32| socket == 0 || host.nic_per_socket;
        let of_node = |socket: u32| if is_near(socket) { MemoryReach::Local } else { MemoryReach::Interconnect };
        let of_gpu = |gpu: &Gpu| match (gpu.beside_nic && !host.acs_redirect, is_near(gpu.socket)) {
            (true, _) => MemoryReach::Local,
            (false, true) => MemoryReach::Redirected,
            (false, false) => MemoryReach::Interconnect,
        };
        host.dram.iter().map(|node| of_node(node.socket)).chain(host.gpus.iter().map(of_gpu)).collect()
    }

    /// The number of a memory device.
    ///
    /// # Errors
    /// When the hosts have none such.
    pub fn place(&self, device: Device) -> Result<usize, MeasureError> {
        let nodes = self.host.dram.len();
        let (index, have, first) = match device {
            Device::Dram(node) => (usize::from(node), nodes, 0),
            Device::Gpu(gpu) => (usize::from(gpu), self.host.gpus.len(), nodes),
        };
        if index < have {
            return Ok(first + index);
        }
        let name = &self.name;
        let reason = format!("the hosts of {name} have no {device} (they have {have} of that kind)");
        Err(MeasureError::Unsupported { reason })
    }

    /// The NIC of each host.
    #[expect(clippy::too_many_lines, reason = "a line for each parameter and each part, and no branch")]
    pub fn nic(&self) -> Config {
        // Each parameter is named, so that the compiler asks a new one for its part.
        let model::Port { line_rate_gbps, max_mpps, link_delay_ns: _, force_mtu: _ } = self.port;
        let model::Processing {
            units,
            slots,
            turn_packets,
            wqe_ns,
            segment_ns,
            packet_ns,
            receive_packet_ns,
            receive_message_ns,
            response_packet_ns,
            response_kib_ns,
            pipeline_packet_ns,
            pipeline_kib_ns,
            pipeline_states,
            pipeline_switch_ns,
            staging_kib,
            packet_memory_kib,
            max_reads: _, // of each connection
        } = self.processing;
        let model::Caches {
            contexts,
            translations,
            send_wqes,
            receive_wqes,
            receive_chains,
            read_lists,
            ring_pages,
            context_tables,
            context_lines,
            receive_entry_bytes: _, // of each connection
        } = self.caches;
        let model::Fetch {
            pushed_lines,
            wqe_lines,
            send_ahead_lines,
            receive_ahead_lines,
            inline_receives,
            chain_wqes,
            chain_lines,
            receive_demand_lines,
            read_list_lines,
            send_misses,
            translation_misses,
            receive_misses,
            receive_wqe_misses,
            chain_misses,
            ring_page_misses,
            read_list_misses,
            when_busy,
        } = self.fetch;
        let model::Receive { xoff_kib, xon_kib, capacity_kib, loopback_kib, slots: receive_slots, rnr_timer_us } =
            self.receive;
        let model::Control { firmware_us, hold_us, ack_timeout_us } = self.control;
        let ns = Picos::from_nanos;
        Config {
            link: self.link(),
            places: self.places(),
            ways: self.ways(),
            home: 0,
            order: match self.pcie.ordering {
                model::Ordering::Strict => Order::Strict,
                model::Ordering::Relaxed => Order::Relaxed,
            },
            caches: [contexts, translations, send_wqes, receive_wqes, receive_chains, read_lists, ring_pages]
                .map(geometry),
            context_tables,
            context_lines,
            pushed_lines,
            fetch_lines: wqe_lines,
            send_ahead: send_ahead_lines,
            receive_ahead: receive_ahead_lines,
            inline_receives,
            chain: chain_wqes,
            chain_lines,
            list_lines: read_list_lines,
            demand_lines: receive_demand_lines,
            misses: Misses {
                send: send_misses,
                translation: translation_misses.unwrap_or(send_misses),
                receive: receive_misses,
                receive_wqe: receive_wqe_misses,
                scatter: read_list_misses,
                ring_page: ring_page_misses,
                chain: chain_misses,
            },
            when_busy: match when_busy {
                model::WhenBusy::Wait => WhenBusy::Wait,
                model::WhenBusy::Refuse => WhenBusy::Refuse,
            },
            units: UnitsConfig { units, slots },
            pipeline: PacketTime { packet: ns(pipeline_packet_ns), kib: ns(pipeline_kib_ns) },
            pipeline_states: (pipeline_states, ns(pipeline_switch_ns)),
            commands: CommandTimes { firmware: ns(firmware_us * 1e3), hold: ns(hold_us * 1e3) },
            receive_slots,
            send_times: SendTimes { wqe: ns(wqe_ns), segment: ns(segment_ns), packet: ns(packet_ns) },
            receive_times: ReceiveTimes {
                packet: ns(receive_packet_ns),
                response: PacketTime { packet: ns(response_packet_ns), kib: ns(response_kib_ns) },
                message: ns(receive_message_ns),
            },
            quantum: turn_packets,
            staging: kib(staging_kib),
            packet_memory: packet_memory_kib.map_or(u64::MAX, kib),
            ports: if self.bond.is_some() { 2 } else { 1 },
            wire: Rate::gbps(line_rate_gbps),
            packet: ns(1e3 / max_mpps),
            packet_slack: PACKET_RATE_SLACK,
            buffer: BufferForm {
                capacity: kib(capacity_kib),
                threshold: Threshold::Fixed { xoff: kib(xoff_kib), xon: kib(xon_kib) },
            },
            loopback_room: kib(loopback_kib),
            not_ready_timer: ns(rnr_timer_us * 1e3),
            ack_timeout: Some(ns(ack_timeout_us * 1e3)),
            headers: Headers {
                each: headers::PACKET_OVERHEAD,
                reth: headers::RETH,
                atomic: headers::ATOMIC_ETH,
                aeth: headers::AETH,
                datagram: headers::DETH,
            },
        }
    }

    fn link(&self) -> pcie::PcieConfig {
        let model::Pcie {
            gbps,
            link_latency_ns,
            tlp_overhead_bytes: overhead,
            max_payload_bytes: max_payload,
            max_read_request_bytes: max_read_request,
            tags,
            write_credit_kib,
            ordering: _, // of the way to memory
            ref sleep,
        } = self.pcie;
        pcie::PcieConfig {
            rate: Rate::gbps(gbps),
            latency: Picos::from_nanos(link_latency_ns),
            overhead,
            max_payload,
            max_read_request,
            tags,
            write_credits: kib(write_credit_kib),
            sleep: sleep.as_ref().map(|model::Sleep { after_us, wake_us }| pcie::LinkSleep {
                after: Picos::from_nanos(after_us * 1e3),
                wake: Picos::from_nanos(wake_us * 1e3),
            }),
        }
    }

    fn places(&self) -> Vec<MemoryUnit> {
        let model::HostTopology {
            dram: _, // for how they are reached
            gpus: _,
            nic_per_socket: _,
            acs_redirect: _,
            memory_gbps,
            memory_latency_ns,
            partial_line_ns,
            remote_memory_gbps,
            interconnect_gbps: _, // for the ways
            interconnect_latency_ns: _,
            redirect_read_gbps: _,
            redirect_write_gbps: _,
        } = self.host;
        let partial = Picos::from_nanos(partial_line_ns.unwrap_or(memory_latency_ns));
        let place = |reach: &MemoryReach| {
            let (rate, way) = match reach {
                MemoryReach::Local => (memory_gbps, None),
                MemoryReach::Interconnect => (remote_memory_gbps, Some(INTERCONNECT)),
                MemoryReach::Redirected => (memory_gbps, Some(REDIRECT)),
            };
            MemoryUnit { rate: Rate::gbps(rate), latency: Picos::from_nanos(memory_latency_ns), partial, way }
        };
        self.reaches().iter().map(place).collect()
    }

    fn ways(&self) -> Vec<MemoryPath> {
        let host = &self.host;
        let interconnect = Rate::gbps(host.interconnect_gbps);
        let latency = Picos::from_nanos(host.interconnect_latency_ns);
        let (away, back) = (Rate::gbps(host.redirect_write_gbps), Rate::gbps(host.redirect_read_gbps));
        vec![MemoryPath::new(interconnect, interconnect, latency), MemoryPath::new(away, back, Picos::ZERO)]
    }
}

impl PairModels<'_> {
    /// The cables and switches between the hosts.
    pub fn cables(self) -> Cables {
        let common = self.common();
        let model::Switch { xoff_kib, xon_kib } = common.switch;
        Cables {
            ports: Host::BOTH.map(|host| Rate::gbps(self.of(host).port.line_rate_gbps)),
            trunk: common.bond.as_ref().map(|bond| Rate::gbps(bond.trunk_gbps)),
            link: Picos::from_nanos(common.port.link_delay_ns),
            xoff: kib(xoff_kib),
            xon: kib(xon_kib),
        }
    }
}

fn geometry(form: CacheForm) -> Geometry {
    let replacement = match form.replacement {
        model::Replacement::LeastRecent => Replacement::LeastRecent,
        model::Replacement::Random => Replacement::Random,
    };
    Geometry { bytes: kib(form.kib), ways: form.ways, replacement }
}
