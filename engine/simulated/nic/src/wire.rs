//! Both ends of the wire: what leaves when, pauses, and what comes into the receive buffer.

use kelpie_events::Picos;
use kelpie_switch::{Arrival, Signal, Turn};

use crate::nic::{Event, Nic, Outside};
use crate::packet::{Burst, PacketKind};
use crate::port::Answer;
use crate::qp::Stage;
use crate::sequence;
use crate::waits::{Cause, Side};

impl Nic {
    /// The neighbour at a port asks for silence, or lets it go on.
    pub fn paused(&mut self, now: Picos, port: u8, signal: Signal, out: &mut impl Outside) {
        self.ports[usize::from(port)].silence.set(now, signal == Signal::Pause);
        self.kick_egress(now, port, out);
    }

    /// Lets the wire of a port look for something to send once it may.
    pub(crate) fn kick_egress(&mut self, now: Picos, number: u8, out: &mut impl Outside) {
        let is_gathered = |burst: &u32| self.held[*burst as usize].reads == 0;
        let port = &mut self.ports[usize::from(number)];
        if port.silence.is_on() || (port.answers.is_empty() && !port.out.front().is_some_and(is_gathered)) {
            return;
        }
        match port.wire.turn(now) {
            Turn::Now => self.egress(now, number, out),
            Turn::At(time) => out.at(time, Event::Egress(number)),
            Turn::Awaited => {}
        }
    }

    /// The wire is free and takes a burst. Answers go first, but take turns with what else may go: a NIC that receives
    /// much would have no time to send, and those that wait meanwhile are answered together.
    fn egress(&mut self, now: Picos, number: u8, out: &mut impl Outside) {
        let port = &mut self.ports[usize::from(number)];
        let id = if !port.answers.is_empty() && !port.has_answered {
            None
        } else {
            port.out.pop_front_if(|id| self.held[*id as usize].reads == 0)
        };
        port.has_answered = id.is_none();
        let burst = match id {
            Some(id) => self.held[id as usize].burst,
            None => match port.answers.pop_front() {
                Some(answer) => self.answer(answer),
                None => return,
            },
        };
        let paced = self.packet_rate.serve(now, self.config.packet * burst.packets);
        let wire = &mut self.ports[usize::from(number)].wire;
        let sent = wire.send(now, burst.wire);
        wire.hold_until(paced.saturating_sub(self.config.packet_slack).max(sent));
        self.tally.packets += burst.packets;
        out.sent(now, burst);
        if let Some(id) = id {
            self.has_left(now, id, out);
        }
        self.kick_egress(now, number, out);
    }

    /// Lets the way back into the own buffer look for something.
    pub(crate) fn kick_loopback(&mut self, now: Picos, out: &mut impl Outside) {
        let is_gathered = |burst: &u32| self.held[*burst as usize].reads == 0;
        let has_some = !self.loop_answers.is_empty() || self.out_loop.front().is_some_and(is_gathered);
        if has_some && !self.loopback_is_due {
            self.loopback_is_due = true;
            out.at(now, Event::Loopback);
        }
    }

    /// Bursts for the own NIC enter its receive buffer as long as it has room for them.
    pub(crate) fn loopback(&mut self, now: Picos, out: &mut impl Outside) {
        self.loopback_is_due = false;
        while let Some(answer) = self.loop_answers.pop_front() {
            let burst = self.answer(answer);
            self.enter(burst);
        }
        loop {
            let (held, looped, room) = (&self.held, self.looped, self.config.loopback_room);
            let fits = |id: &mut u32| {
                let held = &held[*id as usize];
                held.reads == 0 && (looped == 0 || looped + held.burst.wire <= room)
            };
            let Some(id) = self.out_loop.pop_front_if(fits) else { break };
            let burst = self.held[id as usize].burst;
            self.tally.packets += burst.packets;
            self.enter(burst);
            self.has_left(now, id, out);
        }
    }

    /// A burst has left: its room is free, and what needs no acknowledgement is complete.
    fn has_left(&mut self, now: Picos, id: u32, out: &mut impl Outside) {
        let held = &self.held[id as usize];
        let (burst, from) = (held.burst, held.from);
        out.waited(Side::Send, Cause::Wire, from, now - held.since);
        self.watch(now, from, &burst, out);
        self.ports[usize::from(burst.ports.leave)].staged -= burst.payload;
        self.let_go(id);
        self.give_room(now, burst.ports.leave, out);
        if burst.kind == PacketKind::ReadResponse {
            self.has_responded(now, from, burst.number + burst.numbers, out);
        }
        if !burst.is_reliable {
            self.answered(now, from, sequence::ReceiverResponse::Ack(burst.number + burst.numbers), out);
        }
    }

    /// Gives the room of a port to those that wait for it, in the order in which they came.
    fn give_room(&mut self, now: Picos, port: u8, out: &mut impl Outside) {
        let room = self.staging_room();
        let port = &mut self.ports[usize::from(port)];
        while let Some(qp) = port.no_room.front().copied() {
            let state = &mut self.qps[qp as usize];
            let payload = self.held[state.planned as usize].burst.payload;
            if !port.stages(payload, room) {
                break;
            }
            port.no_room.pop_front();
            port.staged += payload;
            state.stage = Stage::Issue;
            // What waits for the wire is counted with what is on its way there.
            if state.wait.cause == Cause::Room {
                out.waited(Side::Send, state.wait.cause, qp, now - state.wait.since);
            }
            self.turns.push(qp);
        }
    }

    /// A READ response has left, up to a number. If it is the last, what arrived behind its request is acknowledged,
    /// because no acknowledgement could speak for that before.
    fn has_responded(&mut self, now: Picos, qp: u32, end: u64, out: &mut impl Outside) {
        let state = &mut self.qps[qp as usize];
        state.responses -= 1;
        if state.responses == 0 && state.owed.is_empty() && state.receiver.expected() > end {
            self.acknowledge(now, qp, out);
        }
    }

    /// An answer as it goes now: an acknowledgement speaks for all that has arrived.
    fn answer(&mut self, answer: Answer) -> Burst {
        match answer {
            Answer::Burst(burst) => burst,
            Answer::Ack(qp) => {
                let state = &mut self.qps[qp as usize];
                state.ack_waits = false;
                // What was read is acknowledged by its response.
                let number = state.owed.front().map_or(state.receiver.expected(), |owed| owed.number);
                let connection = state.connection;
                let headers = &self.config.headers;
                Burst::answer(PacketKind::Ack, connection.peer, connection.is_loopback, number, headers)
                    .by(connection.ports)
            }
        }
    }

    /// Sends an answer on behalf of a QP.
    pub(crate) fn reply(&mut self, now: Picos, qp: u32, answer: Answer, out: &mut impl Outside) {
        let connection = &self.qps[qp as usize].connection;
        let port = connection.ports.leave;
        if connection.is_loopback {
            self.loop_answers.push_back(answer);
            self.kick_loopback(now, out);
        } else {
            self.ports[usize::from(port)].answers.push_back(answer);
            self.kick_egress(now, port, out);
        }
    }

    /// A burst arrives from the wire.
    pub fn arrive(&mut self, now: Picos, burst: Burst, out: &mut impl Outside) {
        let port = burst.ports.arrive;
        match self.ports[usize::from(port)].buffer.arrive(now, 0, burst.wire) {
            Arrival::Lost => self.tally.lost += burst.packets,
            Arrival::Kept(signal) => {
                if let Some(signal) = signal {
                    out.pause(now, port, signal);
                }
                self.enqueue(burst);
            }
        }
        self.settle(now, out);
    }

    /// A burst of this NIC comes back into it.
    fn enter(&mut self, burst: Burst) {
        self.looped += burst.wire;
        self.enqueue(burst);
    }

    fn enqueue(&mut self, burst: Burst) {
        let id = self.hold(burst, u32::MAX);
        self.held[id as usize].room = burst.wire;
        self.arrivals.push_back(id);
        self.dispatch();
    }

    /// A burst has left the receive buffer.
    pub(crate) fn leave_buffer(&mut self, now: Picos, id: u32, out: &mut impl Outside) {
        let held = &self.held[id as usize];
        let (room, is_loopback, port) = (held.room, held.burst.is_loopback, held.burst.ports.arrive);
        if is_loopback {
            self.looped -= room;
            self.kick_loopback(now, out);
        } else if let Some(signal) = self.ports[usize::from(port)].buffer.leave(now, 0, room) {
            out.pause(now, port, signal);
        }
        self.let_go(id);
    }
}
