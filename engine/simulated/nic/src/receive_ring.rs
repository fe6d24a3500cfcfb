//! Receive WQEs on a NIC: what is read ahead of use, what is read again, what is forgotten once it was used.
//!
//! A NIC reads a ring in the order in which it is used, some lines ahead. It knows the pages of short rings; of a
//! longer one it looks the page up for each read that it makes ahead. What a doorbell announces as a long chain is read
//! at once into room of its own, of which each queue has so much.

use rand::RngExt;

use crate::cache::{Cached, Key, LINE, Lookup};
use crate::config::WhenBusy;
use crate::held::{ReceiveStep, Waiter, class, kind};
use crate::nic::Nic;
use crate::qp::Connection;

/// Receives whose addresses one line of a page list leads to: of eight pages of 4 KiB, 64 B for each. Source: our
/// choice, as translations.
const LISTED: u64 = 8 * 4096 / 64;

/// Lines of a ring that are read ahead of use at most because doorbells announce many. Source: our choice, 2 KiB.
const MOST_AHEAD: u64 = 32;

/// Where a receive WQE is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whereabouts {
    /// On the NIC.
    Here,
    /// On its way.
    Coming,
    /// Its read waits for others.
    Awaited,
    /// Nobody has asked for it yet.
    Unknown,
    /// It was here, and another took its room.
    Lost,
}

impl Nic {
    /// The driver posted receives.
    pub(crate) fn receives(&mut self, qp: u32, posted: u64) {
        self.announced(qp, posted);
        if self.qps[qp as usize].is_chain {
            let [_, end] = receive_lines(&self.qps[qp as usize].connection, 0, posted);
            self.bring_chain(qp, end, |nic, key, lines| {
                nic.need_anew(Cached::Chain, key, lines, None);
            });
        } else {
            self.read_receives_ahead(qp);
        }
    }

    /// Notes that receives were announced: a long chain has room of its own, if there is any left.
    fn announced(&mut self, qp: u32, posted: u64) {
        let state = &mut self.qps[qp as usize];
        let count = posted - state.receives;
        (state.receives, state.receives_announced) = (posted, count);
        let is_long = count > u64::from(self.config.chain);
        if is_long && !state.is_chain && self.chains < self.config.most_chains() {
            state.is_chain = true;
            self.chains += 1;
        } else if !is_long && state.is_chain {
            // What was kept aside is read again in its order.
            let [next, _] = receive_lines(&state.connection, state.receive_next, state.receive_next);
            let used = state.receive_next;
            (state.is_chain, state.receives_asked) = (false, next);
            self.covers(qp, used);
            self.chains -= 1;
        }
    }

    /// Brings the lines of a chain up to one, a fetch at a time; what its queue has no room for goes, the oldest first.
    fn bring_chain(&mut self, qp: u32, end: u64, mut bring: impl FnMut(&mut Self, Key, u32)) {
        let state = &mut self.qps[qp as usize];
        let [first, lines] = [state.receives_asked, ring_lines(&state.connection)];
        let room = u64::from(self.config.chain_lines);
        state.receives_asked = end;
        let posted = state.receives;
        self.covers(qp, posted);
        let mut line = first;
        while line < end {
            let count = (end - line).min(u64::from(self.config.fetch_lines).min(room)).min(lines - line % lines);
            let gone = if lines > room { (line + count).saturating_sub(room) } else { 0 };
            for old in gone.saturating_sub(count)..gone {
                self.caches[Cached::Chain as usize].forget(ring_key(qp, old, lines));
            }
            bring(self, ring_key(qp, line, lines), count as u32);
            line += count;
        }
    }

    /// Asks for receive WQEs ahead of their use, as far as they are posted and the queue has room.
    pub(crate) fn read_receives_ahead(&mut self, qp: u32) {
        while let Some([from, end]) = self.next_receives(qp) {
            if !self.look_page_up(qp, from) {
                break;
            }
            self.ask_for_receives(qp, from, end);
        }
    }

    /// Lines of a ring to be asked for next, if there is room for them; none while a page is looked up.
    fn next_receives(&self, qp: u32) -> Option<[u64; 2]> {
        let state = &self.qps[qp as usize];
        let connection = &state.connection;
        let [next, _] = receive_lines(connection, state.receive_next, state.receive_next);
        let [_, posted] = receive_lines(connection, 0, state.receives);
        let from = state.receives_asked.max(next);
        if state.receives_covered >= state.receives || state.page_read.is_some() || state.is_chain {
            return None;
        }
        // What lies behind a whole round is where the next receive is.
        let end = posted.min(from + self.lines_of_fetch(qp)).min(next + ring_lines(connection));
        let has_room = from < end && (end - next <= self.receive_window(qp) || from == next);
        has_room.then_some([from, end])
    }

    /// Lines that are read ahead of use: so many as two doorbells announce, within bounds, and two WQEs at least.
    fn receive_window(&self, qp: u32) -> u64 {
        let entry = u64::from(self.qps[qp as usize].connection.receive_entry);
        let least = u64::from(self.config.receive_ahead).max(2 * (entry.div_ceil(LINE) + 1));
        (2 * self.announced_lines(qp)).clamp(least, least.max(MOST_AHEAD))
    }

    /// Lines that a read ahead of use brings: if the page is looked up for it, those of what a doorbell announces.
    fn lines_of_fetch(&self, qp: u32) -> u64 {
        let most = self.receive_window(qp) / 2;
        if self.knows_pages(qp) {
            return most.min(self.config.fetch_lines.into());
        }
        self.announced_lines(qp).clamp(1, most)
    }

    fn announced_lines(&self, qp: u32) -> u64 {
        let state = &self.qps[qp as usize];
        receive_lines(&state.connection, 0, state.receives_announced)[1]
    }

    fn knows_pages(&self, qp: u32) -> bool {
        self.qps[qp as usize].connection.receive_slots <= self.config.inline_receives
    }

    /// Says whether the page of a line is known, and looks it up if not.
    fn look_page_up(&mut self, qp: u32, line: u64) -> bool {
        if self.knows_pages(qp) {
            return true;
        }
        let key = page_key(&self.qps[qp as usize].connection, qp, line);
        let read = match self.caches[Cached::RingPage as usize].look_up(key) {
            Lookup::Held => return true,
            Lookup::Coming(read) => read,
            Lookup::Missing => self.fetch(Cached::RingPage, key, 1, Some(Waiter::Ring(qp))),
        };
        self.reads.wait(read, Waiter::Ring(qp));
        self.qps[qp as usize].page_read = Some(read);
        false
    }

    /// The page that a queue waited for is known.
    pub(crate) fn has_ring_page(&mut self, qp: u32) {
        self.qps[qp as usize].page_read = None;
        if let Some([from, end]) = self.next_receives(qp) {
            self.ask_for_receives(qp, from, end);
        }
        self.read_receives_ahead(qp);
    }

    /// Asks for lines of a ring. What lies here of the last round through it is not what the driver wrote since.
    fn ask_for_receives(&mut self, qp: u32, from: u64, end: u64) {
        let state = &mut self.qps[qp as usize];
        let lines = ring_lines(&state.connection);
        // A line that is not posted in whole is read again when its rest is.
        let entry = u64::from(state.connection.receive_entry);
        let is_whole = end * LINE <= state.receives * entry;
        state.receives_asked = if is_whole { end } else { end - 1 };
        let covered = state.receives.min(end * LINE / entry);
        self.covers(qp, covered);
        let mut line = from;
        while line < end {
            let count = (end - line).min(lines - line % lines).min(64) as u32;
            self.need_anew(Cached::Receive, ring_key(qp, line, lines), count, None);
            line += u64::from(count);
        }
    }

    /// What was read, or is being read, of a queue goes up to here.
    fn covers(&mut self, qp: u32, receives: u64) {
        let covered = std::mem::replace(&mut self.qps[qp as usize].receives_covered, receives);
        self.note_ahead(qp, receives.cast_signed() - covered.cast_signed());
    }

    /// Notes that so many more receives of a queue are read ahead of use, if its pages are looked up.
    #[inline]
    pub(crate) fn note_ahead(&mut self, qp: u32, more: i64) {
        if !self.knows_pages(qp) {
            self.receives_ahead += more;
        }
    }

    fn whereabouts(&mut self, qp: u32, line: u64) -> Whereabouts {
        let state = &self.qps[qp as usize];
        let covered = state.receives_covered * u64::from(state.connection.receive_entry);
        let cached = state.receive_cache();
        let key = ring_key(qp, line, ring_lines(&state.connection));
        match self.caches[cached as usize].look_up(key) {
            Lookup::Held => Whereabouts::Here,
            Lookup::Coming(read) if self.reads.has_begun(read) => Whereabouts::Coming,
            Lookup::Coming(_) => Whereabouts::Awaited,
            Lookup::Missing if line * LINE < covered => Whereabouts::Lost,
            Lookup::Missing => Whereabouts::Unknown,
        }
    }

    /// Whether a message is refused because its receive WQE is not here and cannot be fetched at once.
    pub(crate) fn refuses_for(&mut self, qp: u32, index: u64) -> bool {
        if self.config.when_busy == WhenBusy::Wait || self.qps[qp as usize].is_chain {
            return false;
        }
        let [from, end] = receive_lines(&self.qps[qp as usize].connection, index, index + 1);
        (from..end).any(|line| match self.whereabouts(qp, line) {
            Whereabouts::Here | Whereabouts::Coming => false,
            Whereabouts::Awaited | Whereabouts::Unknown => true,
            Whereabouts::Lost => self.reads.is_busy(class::RECEIVE_WQE),
        })
    }

    /// Needs the receive WQEs of a burst.
    pub(crate) fn need_receives(&mut self, id: u32) -> u32 {
        let held = &self.held[id as usize];
        let (qp, first, used) = (held.burst.to, held.receive, held.burst.pieces().len() as u64);
        let state = &self.qps[qp as usize];
        let (cached, page_read) = (state.receive_cache(), state.page_read);
        let [from, end] = receive_lines(&state.connection, first, first + used);
        let lines = ring_lines(&state.connection);
        let [_, posted] = receive_lines(&state.connection, 0, state.receives);
        let mut waits = 0;
        let mut line = from;
        while line < end {
            let mut count = 1;
            match (self.whereabouts(qp, line), page_read) {
                (Whereabouts::Here, _) => {}
                (Whereabouts::Unknown, Some(page)) => {
                    // Where it lies is not known yet, so that it is looked for again.
                    self.held[id as usize].step = ReceiveStep::Receives;
                    self.reads.wait(page, Waiter::Job(id));
                    self.held[id as usize].cause = Cached::RingPage.cause();
                    waits += 1;
                    break;
                }
                _ => {
                    // A line that is missing comes with those behind it.
                    count = u64::from(self.config.demand_lines).min(lines - line % lines).min(posted - line);
                    waits += self.need(cached, ring_key(qp, line, lines), count as u32, Some(Waiter::Job(id)));
                }
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
            self.caches[cached as usize].forget(ring_key(qp, line, lines));
        }
    }

    /// A queue of which so many receives at a time were announced is in use: what it has read ahead, some lines more or
    /// less, is here; one read at most if it is behind.
    pub(crate) fn recall_receives(&mut self, qp: u32, batch: u64, used: u64, is_behind: bool) {
        let state = &mut self.qps[qp as usize];
        let (posted, connection) = (state.receives, state.connection);
        state.receives = posted - batch.min(posted);
        self.announced(qp, posted);
        let lines = ring_lines(&connection);
        let [next, _] = receive_lines(&connection, used, used);
        let [_, posted] = receive_lines(&connection, 0, posted);
        if self.qps[qp as usize].is_chain {
            self.qps[qp as usize].receives_asked = next;
            self.bring_chain(qp, posted, |nic, key, lines| nic.caches[Cached::Chain as usize].keep_all(key, lines));
            return;
        }
        let most = self.receive_window(qp);
        // A queue whose page is looked up may be at any point between two lookups.
        let fetch = self.lines_of_fetch(qp);
        let [least, most] = match (is_behind, self.knows_pages(qp)) {
            (true, _) => [0, fetch],
            (false, true) => [most - fetch, most],
            (false, false) => [fetch, most],
        };
        let end = posted.min(next + self.random.random_range(least..=most));
        let state = &mut self.qps[qp as usize];
        state.receives_asked = end;
        let covered = state.receives.min(end * LINE / u64::from(connection.receive_entry));
        self.covers(qp, covered);
        (next..end).for_each(|line| self.caches[Cached::Receive as usize].keep(ring_key(qp, line, lines)));
        if !self.knows_pages(qp) && !is_behind {
            self.caches[Cached::RingPage as usize].keep(page_key(&connection, qp, end.saturating_sub(1)));
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

/// A line of a ring of so many.
fn ring_key(qp: u32, line: u64, lines: u64) -> Key {
    Key::new(kind::RECEIVE, qp, (line % lines) as u32)
}

/// The line of a queue's page list that leads to a line of its ring.
fn page_key(connection: &Connection, qp: u32, line: u64) -> Key {
    let slot = line % ring_lines(connection) * LINE / u64::from(connection.receive_entry);
    Key::new(kind::RING_PAGE, qp, (slot / LISTED) as u32)
}
