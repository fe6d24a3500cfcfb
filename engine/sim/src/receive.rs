//! The receive engine: packets in order, lookups, delivery by DMA, acknowledgements. Receive WQEs are in `receive_wqe`.

use kelpie_events::Picos;
use kelpie_spaces::headers::{AETH, PACKET_OVERHEAD};
use kelpie_spaces::{Host, Opcode, QpType};

use crate::blame::Cause;
use crate::caches::{fetch, pressure};
use crate::event::Event;
use crate::model::ReloadAt;
use crate::receive_wqe::Supply;
use crate::resolved::{Path, ResolvedRequest};
use crate::transmit::credits;
use crate::world::{Burst, Carries, Outcome, Qp, World};

/// A page of host memory as translations see it. Units: bytes.
const PAGE: u64 = 4096;
/// A completion queue entry. Units: bytes. Source: mlx5, 64-byte CQEs.
const CQE: u64 = 64;

/// What a burst holds of one message.
struct Piece {
    wr: u64,
    request: ResolvedRequest,
    offset: u64,
    bytes: u64,
}

impl World<'_> {
    /// Takes the next burst from the receive buffer when the engine is idle.
    pub fn receive_next(&mut self, at: Host) {
        let host = self.hosts.get_mut(at);
        if host.receiving.is_some() {
            return;
        }
        let Some(burst) = host.buffer.pop_front() else { return };
        let mut outcome = Outcome::default();
        self.count_wire(&burst);
        let done = match burst.carries {
            Carries::Ack => {
                outcome.complete = burst.messages;
                self.process_packets(at, &burst)
            }
            Carries::ReadRequest => {
                outcome.reads = burst.messages as u32;
                self.process_packets(at, &burst)
            }
            Carries::Request | Carries::ReadResponse => self.process_data(at, &burst, &mut outcome),
        };
        self.hosts.get_mut(at).receiving = Some((burst, outcome));
        self.events.at(done, Event::Received(at));
    }

    /// A burst is through: its effects happen, the next begins.
    pub fn received(&mut self, at: Host) {
        let Some((burst, outcome)) = self.hosts.get_mut(at).receiving.take() else { return };
        if outcome.acknowledge > 0 {
            self.acknowledge(&burst, outcome.acknowledge, outcome.acknowledge_at);
        }
        if outcome.complete > 0 {
            let flow = self.flow_of(burst.qp);
            let (from, op) = (flow.from, flow.request(burst.wr).op);
            let sends = credits(flow.qp_type, op, outcome.complete);
            if burst.carries == Carries::ReadResponse {
                let state = &mut self.qps[burst.qp as usize];
                state.reads_in_flight -= outcome.complete as u32;
            }
            self.return_credits(from, sends);
            self.complete(burst.qp, outcome.complete);
            self.queue_requester(burst.qp);
            self.start_turns(from);
        }
        if outcome.reads > 0 {
            self.qps[burst.qp as usize].reads_owed += outcome.reads;
            self.queue_responder(burst.qp);
            self.start_turns(at);
        }
        self.drain_buffer(at, &burst);
        self.receive_next(at);
    }

    /// One pass of a packet through the shared pipeline, longer by `extra` for `cause`.
    fn pass(&mut self, at: Host, flow: u32, now: Picos, extra: Picos, cause: Cause) -> Picos {
        let span = self.costs.packet + extra;
        let host = self.hosts.get_mut(at);
        let done = host.shared.serve(self.now, span).max(now + span);
        host.blame.add(flow, Cause::PacketProcessing, done - now - extra);
        host.blame.add(flow, cause, extra);
        host.counts.rxs_no_slow_path_credits += (done - now - extra - self.costs.packet).as_micros();
        host.receive_busy += done - now;
        done
    }

    fn stall(&mut self, at: Host, flow: u32, now: Picos, until: Picos, cause: Cause) -> Picos {
        if until > now {
            let host = self.hosts.get_mut(at);
            host.blame.add(flow, cause, until - now);
            host.receive_busy += until - now;
        }
        until.max(now)
    }

    /// Packets without payload.
    fn process_packets(&mut self, at: Host, burst: &Burst) -> Picos {
        let flow = self.qps[burst.qp as usize].flow;
        let mut now = self.stall(at, flow, self.now, burst.context, Cause::ContextCache);
        for _ in 0..burst.packets {
            now = self.pass(at, flow, now, Picos::ZERO, Cause::PacketProcessing);
        }
        now
    }

    /// Looks the responder's context up as a burst arrives that begins a request; says when it is on the NIC.
    pub fn arriving_context(&mut self, at: Host, burst: &Burst) -> Picos {
        let begins = burst.offset == 0 && matches!(burst.carries, Carries::Request | Carries::ReadRequest);
        if !begins {
            return self.now;
        }
        let (now, qps) = (self.now, u64::from(self.flow_of(burst.qp).qps));
        let host = self.hosts.get_mut(at);
        host.counts.icm_cache_miss += pressure(qps, self.model.icm.context_lines);
        let held = host.contexts.touch(2 * burst.qp as usize + 1, 1);
        fetch(&mut host.receive_lookups, now, self.costs.pcie_read, u32::from(!held), &mut host.counts.icm_cache_miss)
    }

    /// Messages, or pieces of them, one by one.
    fn process_data(&mut self, at: Host, burst: &Burst, outcome: &mut Outcome) -> Picos {
        let flow_index = self.qps[burst.qp as usize].flow;
        let flow = &self.workload.flows[flow_index as usize];
        let response = burst.carries == Carries::ReadResponse;
        if flow.retains_message && !response {
            self.hosts.get_mut(at).retained.touch(2 * burst.qp as usize + 1, flow.mtu);
        }
        let mut now = self.stall(at, flow_index, self.now, burst.context, Cause::ContextCache);
        let (mut wr, mut offset, mut left) = (burst.wr, burst.offset, burst.payload);
        let (mut arrived, mut parked) = (burst.ready, Picos::ZERO);
        while left > 0 {
            let request = *self.workload.flows[flow_index as usize].request(wr);
            let piece = Piece { wr, request, offset, bytes: (request.bytes - offset).min(left) };
            let extra = self.look_up(at, burst, &piece, &mut now, &mut parked);
            now = self.deliver(at, burst, &piece, extra, now, &mut arrived);
            left -= piece.bytes;
            if offset + piece.bytes == request.bytes {
                self.finish_message(at, burst, request.op, outcome);
                (wr, offset) = (wr + 1, 0);
            } else {
                offset += piece.bytes;
            }
        }
        outcome.acknowledge_at = parked.max(now);
        now
    }

    /// Looks up what a piece of a message needs, waiting or parking if it must; says what its first packet costs
    /// more.
    fn look_up(
        &mut self,
        at: Host,
        burst: &Burst,
        piece: &Piece,
        now: &mut Picos,
        parked: &mut Picos,
    ) -> (Picos, Cause) {
        let flow_index = self.qps[burst.qp as usize].flow;
        let flow = &self.workload.flows[flow_index as usize];
        let (first, several) = (piece.offset == 0, piece.request.bytes > flow.mtu);
        let reliable = flow.qp_type == QpType::Rc;
        match piece.request.op {
            Opcode::Read => return (self.scatter_lookup(at), Cause::ReadScatterCache),
            Opcode::Write => {
                if first {
                    *now = self.translate_target(at, burst.qp, piece.wr, *now);
                }
                if reliable {
                    return (self.request_context(at, first, several), Cause::RequestContextCache);
                }
            }
            Opcode::Send if first => match self.take_receive(at, burst.qp, *now, several) {
                Supply::At(ready) => *now = self.stall(at, flow_index, *now, ready, Cause::ReceiveWqeCache),
                Supply::Aside(ready) => *parked = ready.max(*parked),
                Supply::Dropped => self.qps[burst.qp as usize].dropping = true,
            },
            // A resolved workload has no other operation.
            _ => {}
        }
        (Picos::ZERO, Cause::PacketProcessing)
    }

    /// Takes the packets of a piece of a message through the pipeline to memory, the first at an `extra` cost.
    fn deliver(
        &mut self,
        at: Host,
        burst: &Burst,
        piece: &Piece,
        mut extra: (Picos, Cause),
        mut now: Picos,
        arrived: &mut Picos,
    ) -> Picos {
        let Qp { flow: flow_index, dropping, .. } = self.qps[burst.qp as usize];
        let flow = &self.workload.flows[flow_index as usize];
        let response = burst.carries == Carries::ReadResponse;
        let (mtu, path) = (flow.mtu, if response { flow.from_path } else { flow.to_path });
        let streams = response && piece.request.bytes > mtu;
        let per_packet = self.costs.wire.time(burst.wire) / burst.packets.max(1);
        let (mut from, end) = (piece.offset, piece.offset + piece.bytes);
        while from < end {
            let bytes = (end - from).min(mtu);
            now = now.max(*arrived);
            *arrived += per_packet;
            now = self.pass(at, flow_index, now, extra.0, extra.1);
            extra.0 = Picos::ZERO;
            if streams && from > 0 {
                now = self.stall(at, flow_index, now, now + self.stream(from, bytes), Cause::ReadResponse);
            }
            if dropping {
                self.uncount(burst, bytes);
            } else {
                let (until, cause) = self.dma_write(at, path, bytes, piece.request.bytes);
                let held = until.saturating_sub(now);
                now = self.stall(at, flow_index, now, until, cause);
                self.hosts.get_mut(at).counts.pcie_internal_back_pressure += held.as_micros();
            }
            from += bytes;
        }
        now
    }

    /// What a packet in the midst of a long READ response costs more, `from` bytes into its message.
    fn stream(&self, from: u64, bytes: u64) -> Picos {
        let pages = if from >= self.model.receive.read_pages_ahead * PAGE {
            (from + bytes).div_ceil(PAGE) - from.div_ceil(PAGE)
        } else {
            0
        };
        self.costs.read_stream.saturating_sub(self.costs.packet) + self.costs.read_page * pages
    }

    /// The last packet of a message is through.
    fn finish_message(&mut self, at: Host, burst: &Burst, op: Opcode, outcome: &mut Outcome) {
        let reliable = self.flow_of(burst.qp).qp_type == QpType::Rc;
        let dropped = std::mem::take(&mut self.qps[burst.qp as usize].dropping);
        if !dropped {
            if op == Opcode::Send {
                self.dma_write(at, Path::Local, CQE, CQE);
            }
            self.traffic[burst.from.index()][at.index()].messages += 1;
        }
        if burst.carries == Carries::ReadResponse {
            outcome.complete += 1;
        } else if reliable {
            outcome.acknowledge += 1;
        }
    }

    /// Sends one acknowledgement for all messages that ended in a burst.
    fn acknowledge(&mut self, burst: &Burst, messages: u64, at: Picos) {
        let (from, to) = (burst.to, burst.from);
        let ack = Burst {
            carries: Carries::Ack,
            from,
            to,
            payload: 0,
            packets: 1,
            wire: PACKET_OVERHEAD + AETH,
            messages,
            ready: at.max(self.now),
            ..*burst
        };
        let host = self.hosts.get_mut(from);
        if from == to {
            host.out_loop.push_back(ack);
            self.kick_loopback(from);
        } else {
            // In order of readiness: what waits aside must not hold up what does not.
            let place = host.out_acks.partition_point(|other| other.ready <= ack.ready);
            host.out_acks.insert(place, ack);
            self.kick_egress(from);
        }
    }

    /// Cost of finding the scatter list for a READ response when posted READs overflow its cache.
    fn scatter_lookup(&mut self, at: Host) -> Picos {
        let capacity = self.model.receive.read_scatter_blocks;
        let host = self.hosts.get_mut(at);
        host.counts.wqe_refetch += pressure(host.locked_reads, capacity);
        if host.locked_reads <= capacity {
            return Picos::ZERO;
        }
        host.counts.wqe_refetch += 1.0;
        self.costs.read_refetch
    }

    /// Cost of the request context that an RC WRITE needs, when send WQEs of the other direction leave no room for it.
    fn request_context(&mut self, at: Host, first: bool, several: bool) -> Picos {
        let shared = &self.model.shared_pipeline;
        let host = self.hosts.get_mut(at);
        let needed = match shared.reload_at {
            ReloadAt::ModeSwitch => host.streaming != several,
            ReloadAt::Message => first,
        };
        host.streaming = several;
        if !needed || shared.request_context_partitioned {
            return Picos::ZERO;
        }
        host.counts.wqe_refetch += pressure(host.locked, shared.request_context_blocks);
        if host.locked <= shared.request_context_blocks {
            return Picos::ZERO;
        }
        host.counts.wqe_refetch += 1.0;
        self.costs.reload
    }

    /// The translation of a WRITE's target.
    fn translate_target(&mut self, at: Host, qp: u32, wr: u64, now: Picos) -> Picos {
        let flow_index = self.qps[qp as usize].flow;
        let flow = &self.workload.flows[flow_index as usize];
        let entry = flow.target(qp - flow.first_qp, wr);
        let host = self.hosts.get_mut(at);
        host.counts.l0_mtt_miss += pressure(u64::from(flow.qps) * flow.mrs_to, self.model.icm.translations);
        let (held, read) = (host.translations.touch(entry, 1), self.costs.pcie_read);
        // The lookup begins when the burst arrives and overlaps with what the engine does for packets before it.
        let ready = fetch(&mut host.receive_lookups, self.now, read, u32::from(!held), &mut host.counts.l0_mtt_miss);
        self.stall(at, flow_index, now, ready, Cause::TranslationCache)
    }

    /// Takes a dropped packet out of what was delivered.
    fn uncount(&mut self, burst: &Burst, bytes: u64) {
        let traffic = &mut self.traffic[burst.from.index()][burst.to.index()];
        traffic.wire_bytes -= burst.wire / burst.packets;
        traffic.packets -= 1;
        traffic.payload_bytes -= bytes;
    }

    fn count_wire(&mut self, burst: &Burst) {
        let traffic = &mut self.traffic[burst.from.index()][burst.to.index()];
        traffic.wire_bytes += burst.wire;
        traffic.packets += burst.packets;
        traffic.payload_bytes += burst.payload;
    }
}
