//! The receive engine: packets in order, lookups, delivery by DMA, acknowledgements. Receive WQEs are in `receive_wqe`.

use kelpie_spaces::{Host, Opcode, QpType};

use crate::explain::Cause;
use crate::model::ReloadAt;
use crate::plan::{AETH, PACKET_OVERHEAD};
use crate::receive_wqe::Supply;
use crate::time::{Event, Ps};
use crate::transmit::{flow_sends, pressure};
use crate::world::{Burst, Carries, Outcome, World};

/// A page of host memory as translations see it. Units: bytes.
const PAGE: u64 = 4096;
/// A completion queue entry. Units: bytes. Source: mlx5, 64-byte CQEs.
const CQE: u64 = 64;

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
        self.events.at(done, Event::Received(at as u32));
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
            let sends = flow_sends(flow.qp_type, op, outcome.complete);
            if burst.carries == Carries::ReadResponse {
                let state = &mut self.qps[burst.qp as usize];
                state.reads_in_flight -= outcome.complete as u32;
            }
            self.return_credits(from, u64::from(sends));
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
    fn pass(&mut self, at: Host, flow: u32, now: Ps, extra: Ps, cause: Cause) -> Ps {
        let span = self.costs.packet + extra;
        let host = self.hosts.get_mut(at);
        let done = host.shared.serve(self.now, span).max(now + span);
        host.blame.add(flow, Cause::PacketProcessing, done - now - extra);
        host.blame.add(flow, cause, extra);
        host.counts.rxs_no_slow_path_credits += (done - now - extra - self.costs.packet) as f64 / 1e6;
        host.receive_busy += done - now;
        done
    }

    fn stall(&mut self, at: Host, flow: u32, now: Ps, until: Ps, cause: Cause) -> Ps {
        if until > now {
            let host = self.hosts.get_mut(at);
            host.blame.add(flow, cause, until - now);
            host.receive_busy += until - now;
        }
        until.max(now)
    }

    /// Packets without payload.
    fn process_packets(&mut self, at: Host, burst: &Burst) -> Ps {
        let flow = self.qps[burst.qp as usize].flow;
        let mut now = self.stall(at, flow, self.now, burst.context, Cause::ContextCache);
        for _ in 0..burst.packets {
            now = self.pass(at, flow, now, 0, Cause::PacketProcessing);
        }
        now
    }

    /// Looks the responder's context up as a burst arrives that begins a request; says when it is on the NIC.
    pub fn arriving_context(&mut self, at: Host, burst: &Burst) -> Ps {
        let begins = burst.offset == 0 && matches!(burst.carries, Carries::Request | Carries::ReadRequest);
        if !begins {
            return self.now;
        }
        let (now, qps) = (self.now, u64::from(self.flow_of(burst.qp).qps));
        let host = self.hosts.get_mut(at);
        host.counts.icm_cache_miss += pressure(qps, self.model.icm.context_lines);
        if host.contexts.touch(2 * burst.qp as usize + 1, 1) {
            return now;
        }
        host.counts.icm_cache_miss += 1.0;
        host.receive_lookups.serve(now, self.costs.pcie_read)
    }

    /// Packets with payload, one by one.
    fn process_data(&mut self, at: Host, burst: &Burst, outcome: &mut Outcome) -> Ps {
        let flow_index = self.qps[burst.qp as usize].flow;
        let flow = &self.plan.flows[flow_index as usize];
        let response = burst.carries == Carries::ReadResponse;
        let path = if response { flow.from_path } else { flow.to_path };
        let (mtu, qp_type) = (flow.mtu, flow.qp_type);
        let retained = !response && flow.retains_message();
        let mut now = self.stall(at, flow_index, self.now, burst.context, Cause::ContextCache);
        let (mut wr, mut offset, mut left, mut arrived) = (burst.wr, burst.offset, burst.payload, burst.ready);
        let per_packet = self.costs.wire_time(burst.wire) / burst.packets.max(1);
        let mut parked = 0;
        if retained {
            self.hosts.get_mut(at).retained.touch(2 * burst.qp as usize + 1, mtu);
        }
        while left > 0 {
            let flow = &self.plan.flows[flow_index as usize];
            let request = *flow.request(wr);
            if response && request.op != Opcode::Read {
                wr += 1;
                continue;
            }
            let piece = (request.bytes - offset).min(left);
            let (first, last) = (offset == 0, offset + piece == request.bytes);
            let several = request.bytes > mtu;
            let mut extra = (0, Cause::PacketProcessing);
            if response {
                extra = (self.scatter_lookup(at), Cause::ReadScatterCache);
            } else if request.op == Opcode::Write {
                if first {
                    now = self.translate_target(at, burst.qp, wr, now);
                }
                if qp_type == QpType::Rc {
                    extra = (self.request_context(at, first, several), Cause::RequestContextCache);
                }
            } else if first {
                match self.take_receive(at, burst.qp, now, several) {
                    Supply::At(ready) => now = self.stall(at, flow_index, now, ready, Cause::ReceiveWqeCache),
                    Supply::Aside(ready) => parked = parked.max(ready),
                    Supply::Dropped => self.qps[burst.qp as usize].dropping = true,
                }
            }
            let dropping = self.qps[burst.qp as usize].dropping;
            let mut done = 0;
            while done < piece {
                let bytes = (piece - done).min(mtu);
                now = now.max(arrived);
                arrived += per_packet;
                now = self.pass(at, flow_index, now, extra.0, extra.1);
                extra.0 = 0;
                if response && several && offset + done > 0 {
                    let pages = (offset + done + bytes).div_ceil(PAGE) - (offset + done).div_ceil(PAGE);
                    let beyond = if offset + done >= self.model.receive.read_pages_ahead * PAGE { pages } else { 0 };
                    let stream =
                        self.costs.read_stream.saturating_sub(self.costs.packet) + self.costs.read_page * beyond;
                    now = self.stall(at, flow_index, now, now + stream, Cause::ReadResponse);
                }
                if dropping {
                    self.uncount(burst, bytes);
                } else {
                    let (until, cause) = self.dma_write(at, path, bytes, request.bytes);
                    let held = until.saturating_sub(now);
                    now = self.stall(at, flow_index, now, until, cause);
                    self.hosts.get_mut(at).counts.pcie_internal_back_pressure += held as f64 / 1e6;
                }
                done += bytes;
            }
            if last {
                self.finish_message(at, burst, request.op, dropping, outcome);
                (wr, offset) = (wr + 1, 0);
            } else {
                offset += piece;
            }
            left -= piece;
        }
        outcome.acknowledge_at = parked.max(now);
        now
    }

    /// The last packet of a message is through.
    fn finish_message(&mut self, at: Host, burst: &Burst, op: Opcode, dropped: bool, outcome: &mut Outcome) {
        let flow = &self.plan.flows[self.qps[burst.qp as usize].flow as usize];
        let (from, reliable) = (burst.from, flow.qp_type == QpType::Rc);
        if op == Opcode::Send {
            self.qps[burst.qp as usize].dropping = false;
            if !dropped {
                self.dma_write(at, crate::plan::Path::Local, CQE, CQE);
            }
        }
        if !dropped {
            self.traffic[from.index()][at.index()].messages += 1;
        }
        if burst.carries == Carries::ReadResponse {
            outcome.complete += 1;
        } else if reliable {
            outcome.acknowledge += 1;
        }
    }

    /// Sends one acknowledgement for all messages that ended in a burst.
    fn acknowledge(&mut self, burst: &Burst, messages: u64, at: Ps) {
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
            turn: false,
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
    fn scatter_lookup(&mut self, at: Host) -> Ps {
        let capacity = self.model.receive.read_scatter_blocks;
        let host = self.hosts.get_mut(at);
        host.counts.wqe_refetch += pressure(host.locked_reads, capacity);
        if host.locked_reads <= capacity {
            return 0;
        }
        host.counts.wqe_refetch += 1.0;
        self.costs.read_refetch
    }

    /// Cost of the request context that an RC WRITE needs, when send WQEs of the other direction leave no room for it.
    fn request_context(&mut self, at: Host, first: bool, several: bool) -> Ps {
        let shared = &self.model.shared_pipeline;
        let host = self.hosts.get_mut(at);
        let needed = match shared.reload_at {
            ReloadAt::ModeSwitch => host.streaming != several,
            ReloadAt::Message => first,
        };
        host.streaming = several;
        if !needed || shared.request_context_partitioned {
            return 0;
        }
        host.counts.wqe_refetch += pressure(host.locked, shared.request_context_blocks);
        if host.locked <= shared.request_context_blocks {
            return 0;
        }
        host.counts.wqe_refetch += 1.0;
        self.costs.reload
    }

    /// The translation of a WRITE's target.
    fn translate_target(&mut self, at: Host, qp: u32, wr: u64, now: Ps) -> Ps {
        let flow_index = self.qps[qp as usize].flow;
        let flow = &self.plan.flows[flow_index as usize];
        let entry = flow.target(qp - flow.first_qp, wr);
        let host = self.hosts.get_mut(at);
        host.counts.l0_mtt_miss += pressure(u64::from(flow.qps) * flow.mrs_to, self.model.icm.translations);
        if host.translations.touch(entry, 1) {
            return now;
        }
        host.counts.l0_mtt_miss += 1.0;
        // The lookup begins when the burst arrives and overlaps with what the engine does for packets before it.
        let ready = host.receive_lookups.serve(self.now, self.costs.pcie_read);
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
