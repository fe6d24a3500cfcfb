//! The memory of a host: DRAM of its sockets and memory of GPUs, and what lies between them and the root complex of the
//! NIC. All times come from what is queued.

use std::collections::VecDeque;

use kelpie_events::{Picos, Rate, Server};

use crate::cache::LINE;

/// One memory.
#[derive(Debug, Clone, Copy)]
pub struct MemoryUnit {
    /// What it reads and writes together.
    pub rate: Rate,
    /// From a request that it gets to its answer, with nothing queued.
    pub latency: Picos,
    /// What a write takes longer that covers a line in part, because the line is read first.
    pub partial: Picos,
    /// The way that ends at it, one of the memory's [`MemoryPath`]s; none: right behind the root complex.
    pub way: Option<usize>,
}

/// A way from the root complex to a memory, such as the interconnect of two sockets: full duplex.
#[derive(Debug, Clone, Copy)]
pub struct MemoryPath {
    /// From the root complex.
    pub away: Rate,
    /// To the root complex.
    pub back: Rate,
    /// From one end to the other.
    pub latency: Picos,
    /// The way that lies between the root complex and this one, if one does.
    pub behind: Option<usize>,
    /// The way whose lanes it uses, in the opposite directions: traffic that turns back on it.
    pub turns: Option<usize>,
    /// Share of both directions that others use, below 1.
    pub load: f64,
}

impl MemoryPath {
    /// A way of its own that begins at the root complex, and that nobody else uses.
    pub fn new(away: Rate, back: Rate, latency: Picos) -> Self {
        Self { away, back, latency, behind: None, turns: None, load: 0.0 }
    }
}

/// Spans of time in which a direction of a way is taken that are remembered. Source: our choice, more than there are
/// reads on their way.
const MOST_TAKEN: usize = 256;

/// A direction of a way.
#[derive(Debug, Clone)]
enum PathLane {
    /// What comes first is served first: all that uses it comes to it in the order of time.
    Ordered(Server),
    /// What others leave free is used: near and far places share it, and a read of a far one takes it far ahead.
    Shared {
        /// When it is taken, in order, and apart from each other.
        taken: VecDeque<[Picos; 2]>,
        /// Until when the traffic of others is on it.
        loaded: Picos,
    },
}

impl PathLane {
    fn new(is_shared: bool) -> Self {
        if is_shared {
            Self::Shared { taken: VecDeque::new(), loaded: Picos::ZERO }
        } else {
            Self::Ordered(Server::default())
        }
    }

    /// Serves for `span` what comes at `now`, beside what others use; says when it is done.
    fn serve(&mut self, now: Picos, span: Picos, load: f64) -> Picos {
        match self {
            Self::Ordered(server) => server.serve(now, span),
            Self::Shared { taken, loaded } => {
                if load > 0.0 && now > *loaded {
                    let others = Picos::new(((now - *loaded).count() as f64 * load) as u64);
                    take(taken, *loaded, others);
                    *loaded = now;
                }
                take(taken, now, span)
            }
        }
    }
}

/// Takes the first free `span` from `now` on; says when it ends.
fn take(taken: &mut VecDeque<[Picos; 2]>, now: Picos, span: Picos) -> Picos {
    let mut begin = now;
    let mut at = taken.partition_point(|[_, end]| *end <= now);
    while let Some([from, until]) = taken.get(at).filter(|[from, _]| *from < begin + span) {
        debug_assert!(from < until, "nothing takes no time");
        begin = *until;
        at += 1;
    }
    let end = begin + span;
    if span == Picos::ZERO {
        return end;
    }
    let touches_before = at > 0 && taken[at - 1][1] == begin;
    let touches_behind = taken.get(at).is_some_and(|[from, _]| *from == end);
    match (touches_before, touches_behind) {
        (true, true) => {
            taken[at - 1][1] = taken[at][1];
            taken.remove(at);
        }
        (true, false) => taken[at - 1][1] = end,
        (false, true) => taken[at][0] = begin,
        (false, false) => taken.insert(at, [begin, end]),
    }
    if taken.len() > MOST_TAKEN {
        taken.pop_front();
    }
    end
}

/// A way with what is on it: from the root complex, and to it.
#[derive(Debug, Clone)]
struct Span {
    way: MemoryPath,
    away: PathLane,
    back: PathLane,
}

/// A host's memory.
#[derive(Debug, Clone)]
pub struct Memory {
    places: Vec<(MemoryUnit, Server)>,
    ways: Vec<Span>,
    /// Per place, the ways to it, from the root complex on.
    routes: Vec<Vec<usize>>,
    /// Lines that were written in part and so had to be read first.
    partial_lines: u64,
}

impl Memory {
    /// Memory at rest. Every place lies behind one of the ways, or none; a way lies behind one before it in the list.
    pub fn new(places: &[MemoryUnit], ways: &[MemoryPath]) -> Self {
        debug_assert!(places.iter().all(|place| place.way.is_none_or(|way| way < ways.len())));
        debug_assert!(ways.iter().enumerate().all(|(index, way)| way.behind.is_none_or(|behind| behind < index)));
        let is_shared = ways.iter().any(|way| way.behind.is_some() || way.load > 0.0);
        let route = |place: &MemoryUnit| {
            let mut route: Vec<usize> = std::iter::successors(place.way, |way| ways[*way].behind).collect();
            route.reverse();
            route
        };
        Self {
            places: places.iter().map(|place| (*place, Server::default())).collect(),
            ways: ways
                .iter()
                .map(|way| Span { way: *way, away: PathLane::new(is_shared), back: PathLane::new(is_shared) })
                .collect(),
            routes: places.iter().map(route).collect(),
            partial_lines: 0,
        }
    }

    /// Reads for a request that is at the root complex, and is answered after `earliest`; says when the first line of
    /// the answer is there, and the last.
    ///
    /// Requests come to a place in the order in which they come to the root complex, so that claims in that order are
    /// claims in the order of time. A request that waits at the root complex holds up no other.
    pub fn read(&mut self, now: Picos, earliest: Picos, place: usize, bytes: u64) -> [Picos; 2] {
        let (rate, latency) = self.of(place);
        let there = self.routes[place].iter().fold(now, |time, way| time + self.ways[*way].way.latency);
        let span = rate.time(bytes);
        let served = self.places[place].1.serve(there, span).max(earliest) + latency;
        let mut data = [rate.time(bytes.min(LINE)) + served.saturating_sub(span), served];
        for hop in (0..self.routes[place].len()).rev() {
            let way = self.routes[place][hop];
            let last = self.back(way, data[1], bytes);
            data = [last.saturating_sub(self.back_rate(way).time(bytes.saturating_sub(LINE))), last];
        }
        data
    }

    /// Takes a write that is at the root complex; says when memory has it.
    ///
    /// A line that is written in part is read first, because memory keeps whole lines.
    pub fn write(&mut self, now: Picos, place: usize, address: u64, bytes: u64) -> Picos {
        let (rate, latency) = (self.places[place].0.rate, self.places[place].0.partial);
        let mut there = now;
        for hop in 0..self.routes[place].len() {
            there = self.away(self.routes[place][hop], there, bytes);
        }
        let partial = partial_lines(address, bytes);
        self.partial_lines += partial;
        let done = self.places[place].1.serve(there, rate.time(bytes + partial * LINE));
        if partial > 0 { done + latency } else { done }
    }

    /// `bytes` leave the near end of a way; when they are at the other end.
    fn away(&mut self, way: usize, now: Picos, bytes: u64) -> Picos {
        let MemoryPath { turns, latency, .. } = self.ways[way].way;
        let span = &mut self.ways[turns.unwrap_or(way)];
        let (lane, rate) =
            if turns.is_some() { (&mut span.back, span.way.back) } else { (&mut span.away, span.way.away) };
        lane.serve(now, rate.time(bytes), span.way.load) + latency
    }

    /// `bytes` leave the far end of a way; when they are at the near end.
    fn back(&mut self, way: usize, now: Picos, bytes: u64) -> Picos {
        let MemoryPath { turns, latency, .. } = self.ways[way].way;
        let rate = self.back_rate(way);
        let span = &mut self.ways[turns.unwrap_or(way)];
        let lane = if turns.is_some() { &mut span.away } else { &mut span.back };
        lane.serve(now, rate.time(bytes), span.way.load) + latency
    }

    fn back_rate(&self, way: usize) -> Rate {
        match self.ways[way].way.turns {
            Some(turned) => self.ways[turned].way.away,
            None => self.ways[way].way.back,
        }
    }

    fn of(&self, place: usize) -> (Rate, Picos) {
        let place = self.places[place].0;
        (place.rate, place.latency)
    }

    /// Lines that were written in part so far.
    pub fn partial_lines(&self) -> u64 {
        self.partial_lines
    }
}

/// Lines of which a write covers a part and not all: none, its first, its last, or both.
fn partial_lines(address: u64, bytes: u64) -> u64 {
    let end = address + bytes;
    let (first, last) = (address / LINE, end.saturating_sub(1) / LINE);
    let (begins_inside, ends_inside) = (!address.is_multiple_of(LINE), !end.is_multiple_of(LINE));
    if bytes == 0 {
        0
    } else if first == last {
        u64::from(begins_inside || ends_inside)
    } else {
        u64::from(begins_inside) + u64::from(ends_inside)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOCAL: usize = 0;
    const FAR: usize = 1;

    fn nanos(nanos: u64) -> Picos {
        Picos::new(nanos * 1000)
    }

    /// Two sockets, 100 ns apart.
    fn memory() -> Memory {
        let near = MemoryUnit { rate: Rate::gbps(800.0), latency: nanos(90), partial: nanos(90), way: None };
        let way = MemoryPath::new(Rate::gbps(166.0), Rate::gbps(166.0), nanos(100));
        Memory::new(&[near, MemoryUnit { way: Some(0), ..near }], &[way])
    }

    #[test]
    fn far_memory_takes_two_hops_more_and_no_more_than_its_way_carries() {
        let [_, near] = memory().read(Picos::ZERO, Picos::ZERO, LOCAL, 64);
        let [_, far] = memory().read(Picos::ZERO, Picos::ZERO, FAR, 64);
        assert_eq!(far - near, nanos(200) + Rate::gbps(166.0).time(64));
        let mut memory = memory();
        let [_, last] = (0..10_000).map(|_| memory.read(Picos::ZERO, Picos::ZERO, FAR, 512)).max().expect("answers");
        let gbps = 10_000.0 * 512.0 * 8.0 / last.as_seconds() / 1e9;
        assert!((gbps / 166.0 - 1.0).abs() < 0.01, "{gbps} Gbit/s");
    }

    #[test]
    fn the_first_line_of_an_answer_is_there_before_the_last() {
        let [first, last] = memory().read(Picos::ZERO, Picos::ZERO, LOCAL, 4096);
        assert_eq!(last - first, Rate::gbps(800.0).time(4096 - 64));
        let [first, last] = memory().read(Picos::ZERO, Picos::ZERO, FAR, 4096);
        assert_eq!(last - first, Rate::gbps(166.0).time(4096 - 64));
    }

    #[test]
    fn a_way_is_full_duplex_and_a_place_is_not() {
        let mut memory = memory();
        let [_, read] = memory.read(Picos::ZERO, Picos::ZERO, FAR, 1 << 20);
        let written = memory.write(Picos::ZERO, FAR, 0, 1 << 20);
        let one = Rate::gbps(166.0).time(1 << 20);
        assert!(read < one + one / 2 && written < one + one / 2, "the way carries both at once");
        let mut memory = Memory::new(
            &[MemoryUnit { rate: Rate::gbps(100.0), latency: nanos(90), partial: nanos(90), way: None }],
            &[],
        );
        memory.read(Picos::ZERO, Picos::ZERO, LOCAL, 1 << 20);
        assert!(memory.write(Picos::ZERO, LOCAL, 0, 1 << 20) >= Rate::gbps(100.0).time(2 << 20));
    }

    #[test]
    fn ways_behind_each_other_add_their_latencies_and_the_narrowest_limits() {
        let [wide, narrow] = [400.0, 50.0].map(|gbps| MemoryPath::new(Rate::gbps(gbps), Rate::gbps(gbps), nanos(100)));
        let place = MemoryUnit { rate: Rate::gbps(800.0), latency: nanos(90), partial: nanos(90), way: Some(1) };
        let rate = |ways: &[MemoryPath], away: bool| {
            let mut memory = Memory::new(&[place], ways);
            let once = |memory: &mut Memory| {
                if away {
                    memory.write(Picos::ZERO, 0, 0, 4096)
                } else {
                    memory.read(Picos::ZERO, Picos::ZERO, 0, 4096)[1]
                }
            };
            let last = (0..1000).map(|_| once(&mut memory)).max().expect("answers");
            1000.0 * 4096.0 * 8.0 / last.as_seconds() / 1e9
        };
        for away in [false, true] {
            let gbps = rate(&[wide, MemoryPath { behind: Some(0), ..narrow }], away);
            assert!((gbps / 50.0 - 1.0).abs() < 0.02, "{away}: {gbps}");
            // Both passes of a way that traffic turns back on share it in one direction each.
            let gbps = rate(&[wide, MemoryPath { behind: Some(0), turns: Some(0), ..wide }], away);
            assert!((gbps / 400.0 - 1.0).abs() < 0.02, "{away}: {gbps}");
        }
        let mut memory = Memory::new(&[place], &[wide, MemoryPath { behind: Some(0), ..wide }]);
        let [_, far] = memory.read(Picos::ZERO, Picos::ZERO, 0, 64);
        let [_, near] = Memory::new(&[MemoryUnit { way: None, ..place }], &[]).read(Picos::ZERO, Picos::ZERO, 0, 64);
        assert_eq!(far - near, nanos(400) + Rate::gbps(400.0).time(64) * 2);
    }

    #[test]
    fn what_is_far_leaves_what_is_near_the_time_before() {
        let far = MemoryUnit { rate: Rate::gbps(800.0), latency: nanos(2000), partial: nanos(2000), way: Some(1) };
        let near = MemoryUnit { latency: nanos(90), partial: nanos(90), way: Some(0), ..far };
        let way = MemoryPath::new(Rate::gbps(100.0), Rate::gbps(100.0), nanos(100));
        let mut memory = Memory::new(&[near, far], &[way, MemoryPath { behind: Some(0), ..way }]);
        let alone = memory.clone().read(Picos::ZERO, Picos::ZERO, 0, 4096);
        memory.read(Picos::ZERO, Picos::ZERO, 1, 4096);
        assert_eq!(memory.read(Picos::ZERO, Picos::ZERO, 0, 4096), alone);
    }

    #[test]
    fn others_leave_a_way_the_rest_of_its_rate() {
        let mut memory = Memory::new(
            &[MemoryUnit { rate: Rate::gbps(8000.0), latency: nanos(90), partial: nanos(90), way: Some(0) }],
            &[MemoryPath { load: 0.75, ..MemoryPath::new(Rate::gbps(400.0), Rate::gbps(400.0), nanos(100)) }],
        );
        let mut now = Picos::ZERO;
        for _ in 0..1000 {
            [_, now] = memory.read(now, Picos::ZERO, 0, 1 << 20);
        }
        let gbps = 1000.0 * 8.0 * (1u64 << 20) as f64 / now.as_seconds() / 1e9;
        assert!((95.0..101.0).contains(&gbps), "{gbps} Gbit/s of 100");
    }

    #[test]
    fn a_line_that_is_written_in_part_is_read_first() {
        for (address, bytes, partial) in [
            (0, 64, 0),
            (0, 128, 0),
            (0, 1, 1),
            (8, 16, 1),
            (32, 64, 2),
            (32, 32, 1),
            (64, 96, 1),
            (1, 4096, 2),
            (5, 0, 0),
        ] {
            let mut memory = memory();
            let done = memory.write(Picos::ZERO, LOCAL, address, bytes);
            assert_eq!(memory.partial_lines(), partial, "{bytes} B at {address}");
            assert_eq!(done >= nanos(90), partial > 0, "{bytes} B at {address}");
        }
    }

    proptest! {
        #[test]
        fn a_shared_lane_serves_each_span_once_and_none_beside_another(
            work in proptest::collection::vec((0u64..2000, 0u64..50), 1..200)
        ) {
            let mut taken = VecDeque::new();
            let mut spans = Vec::new();
            for (now, span) in &work {
                let end = take(&mut taken, Picos::new(*now), Picos::new(*span));
                let begin = end - Picos::new(*span);
                prop_assert!(begin >= Picos::new(*now));
                let is_beside = |[from, until]: &[Picos; 2]| *from < end && begin < *until;
                prop_assert!(*span == 0 || !spans.iter().any(is_beside), "{begin:?} to {end:?}");
                if *span > 0 {
                    spans.push([begin, end]);
                }
            }
            let all: u64 = work.iter().map(|(_, span)| span).sum();
            let kept: u64 = taken.iter().map(|[from, until]| (*until - *from).count()).sum();
            prop_assert_eq!(all, kept);
            prop_assert!(taken.iter().zip(taken.iter().skip(1)).all(|(one, next)| one[1] < next[0]));
        }

        #[test]
        fn a_write_covers_each_line_in_whole_or_in_part(address in 0u64..1000, bytes in 1u64..1000) {
            let lines = (address..address + bytes).map(|byte| byte / LINE);
            let mut covered = std::collections::BTreeMap::new();
            lines.for_each(|line| *covered.entry(line).or_insert(0) += 1);
            let expected = covered.values().filter(|bytes| **bytes < LINE).count() as u64;
            prop_assert_eq!(partial_lines(address, bytes), expected);
        }
    }
}
