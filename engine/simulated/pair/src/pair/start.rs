//! How an experiment begins: as applications and NICs that have been at work for long leave each other.

use kelpie_events::Picos;
use kelpie_nic::nic::Nic;
use kelpie_spaces::Host;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use super::{NicView, PairEvent, SimulatedPair};
use crate::pair_models::PairModels;
use crate::rings::SendPosition;

/// Applications with empty queues begin within this time of each other. Source: our choice, some round trips.
const START: Picos = Picos::new(10_000_000);
/// Rounds of the request vector that lie behind each QP, at least. Source: our choice, more than are gone through
/// again.
const ROUNDS: u64 = 1 << 18;
/// Times all that is used, and times what a cache holds, that are looked up at most before all begins, if the cache
/// does not hold all with ease. Source: measured; with three and four times, verdicts and rates are no nearer to those
/// of experiments many times as long, because what the caches are filled with before is near already.
const REPLAYED: [u64; 2] = [1, 2];

/// How the queues of a flow are after long work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queues {
    /// Send queues are empty: their applications cannot keep them full.
    pub are_empty: bool,
    /// NICs have read few receives ahead of use: they cannot keep up with it.
    pub are_behind: bool,
}

/// A requester, in the order of turns.
#[derive(Debug, Clone, Copy)]
struct RequesterTurn {
    host: Host,
    qp: u32,
    /// Its flow, and its number in it.
    flow: usize,
    number: u32,
    peer: u32,
    place: SendPosition,
    /// Packets and messages of one of its turns at most.
    most: [u64; 2],
    /// Turns that are gone through before all begins, in all and for each kind of cache.
    replayed: u64,
    replayed_for: [u64; KINDS],
    /// Where what is gone through begins.
    from: SendPosition,
    /// Whether it has a slot of its unit when all begins.
    has_slot: bool,
}

/// Kinds of caches that are filled by going through turns.
const KINDS: usize = 2;
/// Contexts.
const CONTEXTS: usize = 0;
/// Translations.
const TRANSLATIONS: usize = 1;

impl SimulatedPair {
    /// Brings all to where it is after long work. Queues of flows are as said.
    pub(super) fn begin(&mut self, models: PairModels<'_>, queues: &[Queues]) {
        let seed = models.common().sampling.seed;
        let mut random = Pcg32::seed_from_u64(seed);
        let mut turns = self.turns(models, queues);
        turns.shuffle(&mut random);
        self.give_slots(&mut turns, models);
        self.fill_caches(&turns);
        self.plan_replay(&mut turns);
        self.replay(&turns);
        self.replay_begun(&turns, &mut random);
        for turn in &turns {
            self.begin_requester(turn, queues[turn.flow], &mut random);
        }
        for turn in &turns {
            self.nics[turn.host.index()].recall_message(turn.qp);
        }
        for host in self.around.rings.hosts() {
            self.nics[host.index()].begin(&mut NicView { host, around: &mut self.around });
        }
    }

    /// All requesters, each somewhere in its vector.
    fn turns(&self, models: PairModels<'_>, queues: &[Queues]) -> Vec<RequesterTurn> {
        let seed = models.common().sampling.seed;
        let rings = &self.around.rings;
        let hosts = rings.hosts();
        let mut turns = Vec::new();
        for host in hosts {
            let turn_packets = models.of(host).processing.turn_packets;
            for (qp, (flow, number, is_requester)) in rings.qps[host.index()].iter().enumerate() {
                if !is_requester {
                    continue;
                }
                let (flow, of_flow) = (*flow as usize, &rings.flows[*flow as usize]);
                // What one QP draws does not depend on the others.
                let stream = (qp as u64) << 1 | u64::from(host != hosts[0]);
                let mut random = Pcg32::new(seed, stream);
                let round = random.random_range(ROUNDS..2 * ROUNDS);
                let mut place = of_flow.place(round, &mut random);
                if queues[flow].are_empty {
                    place = of_flow.batch_of(place);
                }
                turns.push(RequesterTurn {
                    host,
                    qp: qp as u32,
                    flow,
                    number: *number,
                    peer: rings.connections[host.index()][qp].peer,
                    place,
                    most: of_flow.most_of_turn(turn_packets, models.max_reads()),
                    replayed: 0,
                    replayed_for: [0; KINDS],
                    from: place,
                    has_slot: false,
                });
            }
        }
        turns
    }

    /// Gives the slots of units to the first QPs. The others wait for their turn; if turns end because all that was
    /// posted is sent, they are at the beginning of a batch.
    fn give_slots(&self, turns: &mut [RequesterTurn], models: PairModels<'_>) {
        let mut slots = Host::BOTH.map(|host| {
            let processing = &models.of(host).processing;
            vec![processing.slots; processing.units as usize]
        });
        for turn in turns {
            let host = turn.host.index();
            let free = &mut slots[host][self.nics[host].unit(turn.qp)];
            turn.has_slot = *free > 0;
            *free -= u32::from(turn.has_slot);
            let flow = &self.around.rings.flows[turn.flow];
            if !turn.has_slot && flow.ends_turns_empty(turn.most) {
                turn.place = flow.batch_of(turn.place);
            }
        }
    }

    /// Fills the caches of contexts and translations with what is used now; what was used long ago fills what is left,
    /// if it may be used again.
    fn fill_caches(&mut self, turns: &[RequesterTurn]) {
        let rings = &self.around.rings;
        let rooms = self.nics.each_ref().map(Nic::room);
        // Of more than there is room for, any fill it.
        let most = |lines: [usize; 2]| 4 * lines[0].max(lines[1]) as u64;
        let mut contexts = most(rooms.each_ref().map(|room| room.contexts));
        let mut translations = most(rooms.each_ref().map(|room| room.translations));
        for turn in turns {
            let flow = &rings.flows[turn.flow];
            if contexts > 0 {
                for (host, qp, of_requester) in [(flow.from, turn.qp, true), (flow.to, turn.peer, false)] {
                    let nic = &mut self.nics[host.index()];
                    contexts = contexts.saturating_sub(nic.context_lines().into());
                    nic.recall_context(qp, of_requester);
                }
            }
            if translations > 0 {
                for (host, segment) in flow.in_use(turn.number, turn.place.message) {
                    let lines = self.nics[host.index()].recall_segment(segment);
                    translations = translations.saturating_sub(lines.into());
                }
            }
        }
        for host in rings.hosts() {
            let (nic, lines) = (&mut self.nics[host.index()], &rings.lines[host.index()]);
            let all: u64 = lines.iter().map(|lines| u64::from(*lines)).sum();
            if all <= 2 * rooms[host.index()].translations as u64 {
                for (region, lines) in lines.iter().enumerate() {
                    (0..*lines).for_each(|line| nic.remember_translation(region as u32, line));
                }
            }
        }
    }

    /// Says how many turns are gone through before all begins: for each cache as many as it needs to be as it stays,
    /// and none if it holds all that is used.
    fn plan_replay(&self, turns: &mut [RequesterTurn]) {
        let rings = &self.around.rings;
        let context = self.nics.each_ref().map(|nic| u64::from(nic.context_lines()));
        // Of contexts and translations: what is used by host, and what all QPs look up in a turn of each.
        let (mut used, mut lookups) = ([[0; 2]; KINDS], [0; KINDS]);
        for turn in turns.iter() {
            let flow = &rings.flows[turn.flow];
            let [local, remote, lines] = flow.translations();
            let messages = flow.messages_of_turn(turn.most);
            let of_ends = [[flow.from, flow.to].map(|host| context[host.index()]), [local, remote]];
            for (used, [from, to]) in used.iter_mut().zip(of_ends) {
                used[flow.from.index()] += from;
                used[flow.to.index()] += to;
            }
            let of_turn = [of_ends[CONTEXTS].iter().sum(), lines * messages];
            lookups.iter_mut().zip(of_turn).for_each(|(lookups, of_turn)| *lookups += of_turn);
        }
        let rooms = self.nics.each_ref().map(|nic| {
            let room = nic.room();
            [room.contexts, room.translations].map(|lines| lines as u64)
        });
        let [rounds, times] = REPLAYED;
        let lacks = |used: u64, room: u64| if 2 * used > room { (rounds * used).min(times * room) } else { 0 };
        let count = turns.len() as u64;
        // Both hosts look up about equally much.
        let wanted = |cache: usize| {
            let of_hosts = used[cache].into_iter().zip(&rooms).map(|(used, rooms)| lacks(used, rooms[cache]));
            2 * of_hosts.max().unwrap_or(0)
        };
        let turns_for = |cache: usize| (wanted(cache) * count).div_ceil(lookups[cache].max(1));
        let all = [turns_for(CONTEXTS), turns_for(TRANSLATIONS)];
        for (at, turn) in turns.iter_mut().enumerate() {
            let flow = &rings.flows[turn.flow];
            turn.replayed_for = all.map(|all| all / count + u64::from(at as u64 >= count - all % count));
            turn.replayed = turn.replayed_for.into_iter().max().unwrap_or(0);
            turn.from = flow.turns_before(turn.place, turn.most, turn.replayed);
        }
    }

    /// Goes through the last turns of all QPs without time: only what the caches hold changes.
    fn replay(&mut self, turns: &[RequesterTurn]) {
        let rounds = turns.iter().map(|turn| turn.replayed).max().unwrap_or(0);
        let mut places: Vec<SendPosition> = turns.iter().map(|turn| turn.from).collect();
        for round in (0..rounds).rev() {
            for (turn, place) in turns.iter().zip(&mut places).filter(|(turn, _)| turn.replayed > round) {
                let lacking = turn.replayed_for.map(|replayed| replayed > round);
                *place = self.replay_turn(turn, *place, turn.most, lacking);
            }
        }
    }

    /// QPs that have a slot when all begins are somewhere in their turn, so that its first part is behind them.
    fn replay_begun(&mut self, turns: &[RequesterTurn], random: &mut Pcg32) {
        for turn in turns.iter().filter(|turn| turn.has_slot) {
            let flow = &self.around.rings.flows[turn.flow];
            let packets = flow.packets_of(flow.messages_of_turn(turn.most)).min(turn.most[0]);
            let left = random.random_range(1..=packets);
            self.nics[turn.host.index()].begin_turn_with(turn.qp, left as u32);
            let most = [packets - left, turn.most[1]];
            let from = flow.turns_before(turn.place, most, 1);
            self.replay_turn(turn, from, most, [true; KINDS]);
        }
    }

    /// Goes through a turn of at most so many packets and messages, from a place on and not beyond that of the QP; says
    /// where it ends.
    fn replay_turn(
        &mut self,
        turn: &RequesterTurn,
        from: SendPosition,
        [packets, messages]: [u64; 2],
        lacking: [bool; KINDS],
    ) -> SendPosition {
        let flow = &self.around.rings.flows[turn.flow];
        let [requester, responder] = [flow.from.index(), flow.to.index()];
        if lacking[CONTEXTS] {
            self.nics[requester].recall_context(turn.qp, true);
            self.nics[responder].recall_context(turn.peer, false);
        }
        let (mut at, mut left) = (from, packets);
        for _ in 0..messages {
            let end = if at.message == turn.place.message { turn.place.packets[0] } else { at.packets[1] };
            let sent = left.min(end.saturating_sub(at.packets[0]));
            if at.message > turn.place.message || sent == 0 {
                break;
            }
            self.replay_packets(turn, at, sent, lacking);
            left -= sent;
            at = self.around.rings.flows[turn.flow].after(at, sent);
        }
        if lacking[CONTEXTS] {
            self.nics[requester].recall_context(turn.qp, true);
        }
        at
    }

    /// Goes through so many packets of a message.
    fn replay_packets(&mut self, turn: &RequesterTurn, at: SendPosition, packets: u64, lacking: [bool; KINDS]) {
        let flow = &self.around.rings.flows[turn.flow];
        let [requester, responder] = [flow.from.index(), flow.to.index()];
        let receive = flow.is_send(at.message).then(|| flow.sends_before(at.message));
        let part = flow.part(at, packets);
        if lacking[TRANSLATIONS] {
            let nic = &mut self.nics[requester];
            flow.portions(turn.number, at.message, part.clone(), |segment| _ = nic.recall_segment(segment));
        }
        let nic = &mut self.nics[responder];
        match receive {
            Some(index) if lacking[TRANSLATIONS] => {
                flow.receive_portions(turn.number, index, part, |segment| _ = nic.recall_segment(segment));
            }
            None if lacking[TRANSLATIONS] => {
                nic.recall_segment(flow.remote_segment(turn.number, at.message).part(part));
            }
            _ => {}
        }
    }

    /// Queues of a QP and what is on its way.
    fn begin_requester(&mut self, turn: &RequesterTurn, queues: Queues, random: &mut Pcg32) {
        let Queues { are_empty, are_behind } = queues;
        let around = &mut self.around;
        let flow = &around.rings.flows[turn.flow];
        let [requester, responder] = [flow.from.index(), flow.to.index()];
        let (message, [sent, packets]) = (turn.place.message, turn.place.packets);
        let seen = message - message % flow.signal;
        let posted = if are_empty { seen } else { seen + flow.depth / flow.batch * flow.batch };
        let used = flow.sends_before(message);
        let receives = used / flow.receive_batch * flow.receive_batch + flow.receive_depth;
        let (filled, reads_next) = (flow.filled(turn.place), flow.reads_next(message));
        let messages = flow.messages_of_turn(turn.most);
        let ends_empty = flow.ends_turns_empty(turn.most) && !turn.has_slot;
        let pause = Picos::from_nanos(flow.interarrival_ns.into());
        let app = &mut around.apps[requester][turn.qp as usize];
        (app.posted, app.seen, app.has_filled) = (posted, seen, !are_empty);
        let app = &mut around.apps[responder][turn.peer as usize];
        (app.used, app.receives) = (used, receives);
        if are_empty {
            let phase = Picos::new(random.random_range(0..START.max(pause).count()));
            around.events.at(phase, PairEvent::Seen(turn.host, turn.qp, (seen - 1) as u32));
        }
        let of_message = if reads_next { [0, packets] } else { [sent, packets] };
        self.nics[requester].begin_requester(turn.qp, message, of_message, posted, ends_empty, flow.batch);
        let nic = &mut self.nics[responder];
        let batch = if flow.sends { flow.receive_batch } else { 0 };
        nic.begin_responder(turn.peer, [used, receives, batch], filled, of_message[0], are_behind);
        // Where requests and responses take turns on the same units, one in two requesters waits for its turn while
        // READs of a turn have come back.
        let shares = around.rings.flows.iter().any(|other| other.reads && other.from == flow.to);
        let back = if shares && random.random() { messages } else { 0 };
        if reads_next && !are_empty {
            let view = NicView { host: turn.host, around: &mut self.around };
            let reads = self.nics[requester].begin_reads(turn.qp, [sent, back], &view);
            self.nics[responder].begin_owing(turn.peer, &reads, sent);
        }
    }
}

#[cfg(test)]
#[path = "conservation_tests.rs"]
mod conservation;

#[cfg(test)]
#[path = "occupancy_tests.rs"]
mod occupancy;
