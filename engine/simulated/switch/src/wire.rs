//! The wire behind a port: how long what leaves takes, and when the port has to look for more.

use kelpie_events::{Picos, Rate, Server};

/// Whether something may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// At once.
    Now,
    /// Not before this time, at which the port is to look again; it says so once.
    At(Picos),
    /// Not yet, and somebody looks again then.
    Awaited,
}

/// The sending side of a wire.
#[derive(Debug, Clone)]
pub struct Wire {
    server: Server,
    rate: Rate,
    /// When the port looks again; later than all time if it does not.
    due: Picos,
}

impl Wire {
    /// An idle wire.
    pub fn new(rate: Rate) -> Self {
        Self { server: Server::default(), rate, due: Picos::MAX }
    }

    /// Asks whether something may leave.
    #[inline]
    pub fn turn(&mut self, now: Picos) -> Turn {
        let free = self.server.free();
        if free <= now {
            return Turn::Now;
        }
        if free >= self.due {
            return Turn::Awaited;
        }
        self.due = free;
        Turn::At(free)
    }

    /// Whether the port looks again, as [`Turn::At`] asked.
    #[inline]
    pub fn is_awaited(&self) -> bool {
        self.due < Picos::MAX
    }

    /// The port looks, as [`Turn::At`] asked.
    #[inline]
    pub fn looks(&mut self) {
        self.due = Picos::MAX;
    }

    /// So many bytes leave, or do when what is on the wire has left; says when they have.
    #[inline]
    pub fn send(&mut self, now: Picos, bytes: u64) -> Picos {
        self.server.serve(now, self.rate.time(bytes))
    }

    /// Keeps the wire from taking anything before a time.
    #[inline]
    pub fn hold_until(&mut self, time: Picos) {
        self.server.hold_until(time);
    }

    /// Time for which something was on it, or will be.
    #[inline]
    pub fn busy(&self) -> Picos {
        self.server.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Picos {
        Picos::new(1000 * nanos)
    }

    #[test]
    fn a_busy_wire_asks_once_to_be_looked_at_when_it_is_free() {
        let mut wire = Wire::new(Rate::gbps(100.0));
        assert_eq!((wire.turn(at(0)), wire.is_awaited()), (Turn::Now, false));
        assert_eq!(wire.send(at(0), 1000), at(80));
        assert_eq!([wire.turn(at(10)), wire.turn(at(20))], [Turn::At(at(80)), Turn::Awaited]);
        assert!(wire.is_awaited());
        wire.looks();
        assert_eq!((wire.turn(at(80)), wire.is_awaited()), (Turn::Now, false));
        wire.send(at(80), 500);
        wire.hold_until(at(200));
        assert_eq!((wire.turn(at(81)), wire.busy()), (Turn::At(at(200)), at(120)), "a wire that is held is not busy");
    }
}
