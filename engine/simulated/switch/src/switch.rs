//! A switch: what comes in by a port takes room, waits at the port by which it leaves, and goes when the wire is free
//! and what is behind it listens. Which port that is, the simulation says.

use kelpie_events::{Picos, Rate};

use crate::buffer::{Arrival, BufferForm, SharedBuffer, Signal};
use crate::packet::Packet;
use crate::queue::EgressQueue;
use crate::spell::Spell;
use crate::wire::{Turn, Wire};

/// What lies around a switch. What it is told happens at the switch; when that is seen at the other end of a link is up
/// to the link.
pub trait Neighbours<P> {
    /// A packet begins to leave by a port, and so many bytes of its class wait there still.
    fn sent(&mut self, now: Picos, port: usize, packet: P, queued: u64);

    /// A frame leaves by a port that asks for silence in a class, or ends it.
    fn signal(&mut self, now: Picos, port: usize, class: usize, signal: Signal);

    /// [`Switch::leave`] of a port is due then.
    fn due(&mut self, time: Picos, port: usize);
}

/// A packet that waits, and the port by which it came.
#[derive(Debug, Clone)]
struct WaitingPacket<P> {
    packet: P,
    from: u32,
}

impl<P: Packet> Packet for WaitingPacket<P> {
    #[inline]
    fn bytes(&self) -> u64 {
        self.packet.bytes()
    }
}

/// A port, by which packets leave.
#[derive(Debug, Clone)]
struct EgressPort<P, const CLASSES: usize> {
    wire: Wire,
    queues: [EgressQueue<WaitingPacket<P>>; CLASSES],
    /// Whether what is behind the port asks for silence, and for how long it did.
    silences: [Spell; CLASSES],
}

impl<P: Packet, const CLASSES: usize> EgressPort<P, CLASSES> {
    fn new(rate: Rate) -> Self {
        let queues = std::array::from_fn(|_| EgressQueue::default());
        Self { wire: Wire::new(rate), queues, silences: [Spell::default(); CLASSES] }
    }

    /// The first class of which something waits that may leave.
    #[inline]
    fn ready(&self) -> Option<usize> {
        (0..CLASSES).find(|class| !self.queues[*class].is_empty() && !self.silences[*class].is_on())
    }
}

/// A switch whose ports serve so many classes, the first first. It forwards as soon as a packet begins to come in; one
/// that stores packets first is told of them when they are in.
#[derive(Debug, Clone)]
pub struct Switch<P, const CLASSES: usize = 1> {
    buffer: SharedBuffer,
    ports: Vec<EgressPort<P, CLASSES>>,
}

impl<P: Packet, const CLASSES: usize> Switch<P, CLASSES> {
    /// An empty one with ports of these rates. Panics if the buffer does not fit, as [`BufferForm::shared`] says.
    pub fn new(form: BufferForm, rates: &[Rate]) -> Self {
        let buffer = SharedBuffer::new(form, rates.len() * CLASSES);
        Self { buffer, ports: rates.iter().map(|rate| EgressPort::new(*rate)).collect() }
    }

    /// A packet comes in by a port and is to leave by another. Says whether there was room for it.
    #[inline]
    pub fn enter(&mut self, now: Picos, [from, to]: [usize; 2], packet: P, out: &mut impl Neighbours<P>) -> bool {
        let class = packet.class();
        let Arrival::Kept(signal) = self.buffer.arrive(now, from * CLASSES + class, packet.bytes()) else {
            return false;
        };
        if let Some(signal) = signal {
            out.signal(now, from, class, signal);
        }
        self.ports[to].queues[class].push(WaitingPacket { packet, from: from as u32 });
        self.kick(now, to, out);
        true
    }

    /// What is behind a port asks for silence in a class, or lets it go on.
    #[inline]
    pub fn hold(&mut self, now: Picos, port: usize, class: usize, signal: Signal, out: &mut impl Neighbours<P>) {
        self.ports[port].silences[class].set(now, signal == Signal::Pause);
        self.kick(now, port, out);
    }

    /// The wire of a port is free, as [`Neighbours::due`] was told.
    #[inline]
    pub fn leave(&mut self, now: Picos, port: usize, out: &mut impl Neighbours<P>) {
        self.ports[port].wire.looks();
        self.kick(now, port, out);
    }

    /// Sends what may be sent by a port.
    #[inline]
    fn kick(&mut self, now: Picos, number: usize, out: &mut impl Neighbours<P>) {
        let port = &mut self.ports[number];
        while let Some(class) = port.ready().filter(|_| !port.wire.is_awaited()) {
            match port.wire.turn(now) {
                Turn::Now => {}
                Turn::At(time) => return out.due(time, number),
                Turn::Awaited => return,
            }
            let Some(WaitingPacket { packet, from }) = port.queues[class].pop() else { return };
            port.wire.send(now, packet.bytes());
            if let Some(signal) = self.buffer.leave(now, from as usize * CLASSES + class, packet.bytes()) {
                out.signal(now, from as usize, class, signal);
            }
            out.sent(now, number, packet, port.queues[class].bytes());
        }
    }

    /// What it holds. Units: bytes.
    pub fn filled(&self) -> u64 {
        self.buffer.filled()
    }

    /// Packets that found no room.
    pub fn lost(&self) -> u64 {
        self.buffer.lost()
    }

    /// How long a port has asked for silence in a class.
    pub fn pausing(&self, now: Picos, port: usize, class: usize) -> Picos {
        self.buffer.pauses(port * CLASSES + class).total(now)
    }

    /// How long a port was asked for silence in a class.
    pub fn paused(&self, now: Picos, port: usize, class: usize) -> Picos {
        self.ports[port].silences[class].total(now)
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;
