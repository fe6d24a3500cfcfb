//! What a model says, in the terms of the parts: a NIC, its host, the driver, the applications, the switch.

use kelpie_engine::MeasureError;
use kelpie_events::{Picos, Rate};
use kelpie_nic::cache::{Geometry, Replacement};
use kelpie_nic::command::CommandTimes;
use kelpie_nic::config::{Config, Misses, PacketTime, ReceiveTimes, SendTimes, WhenBusy};
use kelpie_nic::memory::{Place, Way};
use kelpie_nic::packet::Headers;
use kelpie_nic::path::Order;
use kelpie_nic::pcie;
use kelpie_nic::units::Form;
use kelpie_spaces::{Device, headers};
use kelpie_switch::{BufferForm, Threshold};

use crate::model::{self, CacheForm, Gpu, Model};
use crate::network::Cables;

/// Time for which the packet rate may exceed the specified one, as long as its mean does not.
///
/// Source: our choice, a queue of some dozens of descriptors before the packet scheduler.
const PACKET_RATE_SLACK: Picos = Picos::new(2_000_000);

/// The interconnect of the sockets, and the turn at the root complex, among the ways of a host.
const INTERCONNECT: usize = 0;
const REDIRECT: usize = 1;

/// How the NIC reaches a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
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
    pub fn reaches(&self) -> Vec<Reach> {
        let host = &self.host;
        let is_near = |socket: u32| socket == 0 || host.nic_per_socket;
        let of_node = |socket: u32| if is_near(socket) { Reach::Local } else { Reach::Interconnect };
        let of_gpu = |gpu: &Gpu| match (gpu.beside_nic && !host.acs_redirect, is_near(gpu.socket)) {
            (true, _) => Reach::Local,
            (false, true) => Reach::Redirected,
            (false, false) => Reach::Interconnect,
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
    pub fn nic(&self) -> Config {
        let Model { port, processing, caches, fetch, receive, .. } = self;
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
            caches: [
                caches.contexts,
                caches.translations,
                caches.send_wqes,
                caches.receive_wqes,
                caches.receive_chains,
                caches.read_lists,
                caches.ring_pages,
            ]
            .map(geometry),
            context_tables: caches.context_tables,
            context_lines: caches.context_lines,
            pushed_lines: fetch.pushed_lines,
            fetch_lines: fetch.wqe_lines,
            send_ahead: fetch.send_ahead_lines,
            receive_ahead: fetch.receive_ahead_lines,
            inline_receives: fetch.inline_receives,
            chain: fetch.chain_wqes,
            chain_lines: fetch.chain_lines,
            list_lines: fetch.read_list_lines,
            demand_lines: fetch.receive_demand_lines,
            misses: Misses {
                send: fetch.send_misses,
                translation: fetch.translation_misses.unwrap_or(fetch.send_misses),
                receive: fetch.receive_misses,
                receive_wqe: fetch.receive_wqe_misses,
                scatter: fetch.read_list_misses,
                ring_page: fetch.ring_page_misses,
                chain: fetch.chain_misses,
            },
            when_busy: match fetch.when_busy {
                model::WhenBusy::Wait => WhenBusy::Wait,
                model::WhenBusy::Refuse => WhenBusy::Refuse,
            },
            units: Form { units: processing.units, slots: processing.slots },
            pipeline: PacketTime { packet: ns(processing.pipeline_packet_ns), kib: ns(processing.pipeline_kib_ns) },
            pipeline_states: (processing.pipeline_states, ns(processing.pipeline_switch_ns)),
            commands: CommandTimes {
                firmware: ns(self.control.firmware_us * 1e3),
                hold: ns(self.control.hold_us * 1e3),
            },
            receive_slots: receive.slots,
            send_times: SendTimes {
                wqe: ns(processing.wqe_ns),
                segment: ns(processing.segment_ns),
                packet: ns(processing.packet_ns),
            },
            receive_times: ReceiveTimes {
                packet: ns(processing.receive_packet_ns),
                response: PacketTime { packet: ns(processing.response_packet_ns), kib: ns(processing.response_kib_ns) },
                message: ns(processing.receive_message_ns),
            },
            quantum: processing.turn_packets,
            staging: kib(processing.staging_kib),
            packet_memory: processing.packet_memory_kib.map_or(u64::MAX, kib),
            ports: if self.bond.is_some() { 2 } else { 1 },
            wire: Rate::gbps(port.line_rate_gbps),
            packet: ns(1e3 / port.max_mpps),
            packet_slack: PACKET_RATE_SLACK,
            buffer: BufferForm {
                capacity: kib(receive.capacity_kib),
                threshold: Threshold::Fixed { xoff: kib(receive.xoff_kib), xon: kib(receive.xon_kib) },
            },
            loopback_room: kib(receive.loopback_kib),
            not_ready_timer: ns(receive.rnr_timer_us * 1e3),
            ack_timeout: Some(ns(self.control.ack_timeout_us * 1e3)),
            headers: Headers {
                each: headers::PACKET_OVERHEAD,
                reth: headers::RETH,
                atomic: headers::ATOMIC_ETH,
                aeth: headers::AETH,
                datagram: headers::DETH,
            },
        }
    }

    /// The cables and switches between the hosts.
    pub fn cables(&self) -> Cables {
        Cables {
            port: Rate::gbps(self.port.line_rate_gbps),
            trunk: self.bond.as_ref().map(|bond| Rate::gbps(bond.trunk_gbps)),
            link: Picos::from_nanos(self.port.link_delay_ns),
            xoff: kib(self.switch.xoff_kib),
            xon: kib(self.switch.xon_kib),
        }
    }

    fn link(&self) -> pcie::Config {
        let pcie = &self.pcie;
        pcie::Config {
            rate: Rate::gbps(pcie.gbps),
            latency: Picos::from_nanos(pcie.link_latency_ns),
            overhead: pcie.tlp_overhead_bytes,
            max_payload: pcie.max_payload_bytes,
            max_read_request: pcie.max_read_request_bytes,
            tags: pcie.tags,
            write_credits: kib(pcie.write_credit_kib),
            sleep: pcie.sleep.as_ref().map(|sleep| pcie::Sleep {
                after: Picos::from_nanos(sleep.after_us * 1e3),
                wake: Picos::from_nanos(sleep.wake_us * 1e3),
            }),
        }
    }

    fn places(&self) -> Vec<Place> {
        let host = &self.host;
        let partial = Picos::from_nanos(host.partial_line_ns.unwrap_or(host.memory_latency_ns));
        let place = |reach: &Reach| {
            let (rate, way) = match reach {
                Reach::Local => (host.memory_gbps, None),
                Reach::Interconnect => (host.remote_memory_gbps, Some(INTERCONNECT)),
                Reach::Redirected => (host.memory_gbps, Some(REDIRECT)),
            };
            Place { rate: Rate::gbps(rate), latency: Picos::from_nanos(host.memory_latency_ns), partial, way }
        };
        self.reaches().iter().map(place).collect()
    }

    fn ways(&self) -> Vec<Way> {
        let host = &self.host;
        let interconnect = Rate::gbps(host.interconnect_gbps);
        let latency = Picos::from_nanos(host.interconnect_latency_ns);
        let (away, back) = (Rate::gbps(host.redirect_write_gbps), Rate::gbps(host.redirect_read_gbps));
        vec![Way::new(interconnect, interconnect, latency), Way::new(away, back, Picos::ZERO)]
    }
}

fn geometry(form: CacheForm) -> Geometry {
    let replacement = match form.replacement {
        model::Replacement::LeastRecent => Replacement::LeastRecent,
        model::Replacement::Random => Replacement::Random,
    };
    Geometry { bytes: kib(form.kib), ways: form.ways, replacement }
}
