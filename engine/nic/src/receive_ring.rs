//! Receive WQEs on a NIC: what comes when they are posted, what is read again, what is forgotten once it was used.

use crate::cache::{Cached, Key, LINE, Lookup};
use crate::held::{Waiter, kind};
use crate::nic::Nic;
use crate::qp::Connection;

impl Nic {
    /// The driver posted receives: they are asked for, a chain that is longer than others aside.
    pub(crate) fn receives(&mut self, qp: u32, posted: u64) {
        let from = self.qps[qp as usize].receives;
        self.qps[qp as usize].receives = posted;
        // What lies on the NIC of the last round through the ring is not what the driver wrote since.
        self.announced(qp, from, posted, |nic, cached, key, lines| {
            nic.need_anew(cached, key, lines, None);
        });
    }

    /// Lines of a receive ring.
    pub fn receive_ring_lines(&self, qp: u32) -> u64 {
        ring_lines(&self.qps[qp as usize].connection)
    }

    /// Receives from one on to another were announced together; `bring` gets their lines, a fetch at a time.
    pub(crate) fn announced(
        &mut self,
        qp: u32,
        from: u64,
        to: u64,
        mut bring: impl FnMut(&mut Self, Cached, Key, u32),
    ) {
        let is_chain = self.is_chain(to - from);
        let state = &mut self.qps[qp as usize];
        state.is_chain = is_chain;
        let cached = state.receive_cache();
        let [mut line, end] = receive_lines(&state.connection, from, to);
        let lines = ring_lines(&state.connection);
        while line < end {
            let count = (end - line).min(u64::from(self.config.fetch_lines)).min(lines - line % lines) as u32;
            let key = Key::new(kind::RECEIVE, qp, (line % lines) as u32);
            bring(self, cached, key, count);
            line += u64::from(count);
        }
    }

    /// Needs the receive WQEs of a burst.
    pub(crate) fn need_receives(&mut self, id: u32) -> u32 {
        let held = &self.held[id as usize];
        let (qp, first, used) = (held.burst.to, held.receive, held.burst.pieces().len() as u64);
        let state = &self.qps[qp as usize];
        let cached = state.receive_cache();
        let [from, end] = receive_lines(&state.connection, first, first + used);
        let lines = ring_lines(&state.connection);
        let mut waits = 0;
        let mut line = from;
        while line < end {
            let key = Key::new(kind::RECEIVE, qp, (line % lines) as u32);
            let is_there = self.caches[cached as usize].look_up(key) == Lookup::Held;
            // A line that is missing comes with those behind it.
            let count = if is_there { 1 } else { u64::from(self.config.demand_lines).min(lines - line % lines) };
            if !is_there {
                waits += self.need(cached, key, count as u32, Some(Waiter::Job(id)));
            }
            line += count;
        }
        self.tally.receive_wqe_misses += u64::from(waits > 0);
        waits
    }

    /// Receives from one on to another were used: nobody needs the lines again that held nothing behind them.
    pub(crate) fn forget_receives(&mut self, qp: u32, from: u64, to: u64) {
        let state = &self.qps[qp as usize];
        let cached = state.receive_cache();
        let entry = u64::from(state.connection.receive_entry);
        let lines = ring_lines(&state.connection);
        for line in from * entry / LINE..to * entry / LINE {
            self.caches[cached as usize].forget(Key::new(kind::RECEIVE, qp, (line % lines) as u32));
        }
    }
}

/// Lines of the receive ring that hold receives from one on to another: the first, and one behind the last.
pub(crate) fn receive_lines(connection: &Connection, from: u64, to: u64) -> [u64; 2] {
    let entry = u64::from(connection.receive_entry);
    [from * entry / LINE, (to * entry).div_ceil(LINE)]
}

/// Lines of the receive ring.
pub(crate) fn ring_lines(connection: &Connection) -> u64 {
    receive_lines(connection, 0, connection.receive_slots.into())[1]
}
