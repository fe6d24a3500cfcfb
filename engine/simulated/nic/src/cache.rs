//! A set-associative cache of lines of host memory, which says what is held, what is on its way and what is missing.
//! Fetching a missing line is up to whoever asked.

mod block;
mod wide;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg32;

use block::{ABSENT, BLOCK, Block, COMING, EMPTY, FREE, tagged};
use wide::{Recency, Wide};

/// The caches of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    /// Contexts.
    Context,
    /// Regions and translations.
    Translation,
    /// Send WQEs.
    Send,
    /// Receive WQEs.
    Receive,
    /// Receive WQEs of long chains.
    Chain,
    /// Send WQEs of READs on their way, for the lists that their responses need.
    Scatter,
    /// Lists of the pages of long receive rings.
    RingPage,
}

/// A line. Units: bytes. Source: the cache line of hosts, by which PCIe reads come back.
pub const LINE: u64 = 64;

/// Blocks of a set that are searched one after the other. Source: measured; a line of the processor's cache each.
const SEARCHED: usize = 4;

/// Lines that are looked for together. Source: measured; those of a fetch and of a context.
const TOGETHER: usize = 8;

/// Multiplier of Fibonacci hashing, 2^64 divided by the golden ratio. Source: Knuth, TAOCP 3, section 6.4.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Names a line: what kind of thing, which of them, which line of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// Line `line` of thing `object` of a kind, which is below 7.
    #[inline]
    pub const fn new(kind: u8, object: u32, line: u32) -> Self {
        debug_assert!(kind < 7 && object < 1 << 28 && line < 1 << 24);
        Self((kind as u64) << 56 | (object as u64) << 24 | line as u64)
    }

    /// The same in 32, 16 and 7 bits: of the object, the highest four are zero.
    #[inline]
    const fn parts(self) -> (u32, u16, u8) {
        let high = self.0 >> 48;
        (self.0 as u32, (self.0 >> 32) as u16, (high >> 8 << 4 | high & 0xf) as u8)
    }

    /// The line `further` lines behind.
    #[inline]
    #[must_use]
    pub const fn plus(self, further: u32) -> Self {
        Self(self.0 + further as u64)
    }
}

/// Which line of a full set goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// The one that was not used for longest.
    LeastRecent,
    /// Any, by a seeded generator.
    Random,
}

/// The form of a cache.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    /// What it holds. Units: bytes; rounded down to whole sets, of which there is at least one.
    pub bytes: u64,
    /// Lines of a set, at least 1.
    pub ways: u32,
    /// Which line goes.
    pub replacement: Replacement,
}

impl Geometry {
    fn ways(self) -> usize {
        self.ways.max(1) as usize
    }

    fn sets(self) -> u64 {
        (self.bytes / LINE / self.ways() as u64).max(1)
    }

    /// Lines that it has room for.
    pub fn lines(self) -> usize {
        self.sets() as usize * self.ways()
    }
}

/// What a cache says of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It is there.
    Held,
    /// Somebody else asked for it: it comes with the read of this number.
    Coming(u32),
    /// It has to be fetched.
    Missing,
}

/// How often each answer was given, and how many lines went for others. Units: lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// [`Lookup::Held`].
    pub hits: u64,
    /// [`Lookup::Coming`].
    pub merged: u64,
    /// [`Lookup::Missing`].
    pub misses: u64,
    /// Lines that made room.
    pub evicted: u64,
}

/// The set of a key: its first block, and the tag by which the key is looked for.
#[derive(Debug, Clone, Copy, Default)]
struct Set {
    block: usize,
    tag: u8,
}

/// A cache. Shape: `sets` times `ways` lines, each set in whole blocks.
#[derive(Debug, Clone)]
pub struct Cache {
    blocks: Vec<Block>,
    /// The read with which a line on its way comes.
    reads: Vec<u32>,
    /// The order in which lines were used last, if the least recent goes.
    recency: Option<Recency>,
    /// Where keys and free places are, of sets too wide to be searched.
    wide: Option<Wide>,
    sets: u64,
    ways: usize,
    set_blocks: usize,
    random: Pcg32,
    lookups: u64,
    counts: CacheCounts,
}

impl Cache {
    /// An empty cache; equal seeds give equal answers.
    pub fn new(geometry: Geometry, seed: u64) -> Self {
        let (ways, sets) = (geometry.ways(), geometry.sets());
        let set_blocks = ways.div_ceil(BLOCK);
        let places = sets as usize * set_blocks * BLOCK;
        // The last block of a set may have fewer places.
        let last = ways - (set_blocks - 1) * BLOCK;
        let absent = (last..BLOCK).fold(0, |word, at| word | u64::from(ABSENT) << (8 * at));
        let block = |block: usize| {
            let tags = if block % set_blocks + 1 == set_blocks { absent } else { 0 };
            Block { tags, low: [0; BLOCK], middle: [0; BLOCK], high: [EMPTY; BLOCK] }
        };
        Self {
            blocks: (0..sets as usize * set_blocks).map(block).collect(),
            reads: vec![0; places],
            recency: (geometry.replacement == Replacement::LeastRecent)
                .then(|| Recency::new(sets as usize, set_blocks * BLOCK)),
            wide: (set_blocks > SEARCHED).then(|| Wide::new(sets as usize, ways, set_blocks * BLOCK)),
            sets,
            ways,
            set_blocks,
            random: Pcg32::seed_from_u64(seed),
            lookups: 0,
            counts: CacheCounts::default(),
        }
    }

    /// Lines that it has room for.
    pub fn lines(&self) -> usize {
        self.sets as usize * self.ways
    }

    /// What was answered so far.
    pub fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Lines that made room so far, by which a line that was there is known to be there still; none if use decides
    /// which line goes, because then each use has to be seen.
    #[inline]
    pub(crate) fn evicted(&self) -> Option<u64> {
        self.recency.is_none().then_some(self.counts.evicted)
    }

    /// Counts lookups of lines that are known to be there.
    #[inline]
    pub(crate) fn hit(&mut self, lines: u32) {
        self.counts.hits += u64::from(lines);
    }

    /// Lets the processor fetch what lookups of these lines need, so that it does so for all at once.
    #[inline]
    pub(crate) fn approach(&self, key: Key, lines: impl Iterator<Item = u32>) {
        let tags = lines.map(|line| self.blocks[self.set(key.plus(line)).block].tags);
        std::hint::black_box(tags.fold(0, |all, tags| all ^ tags));
    }

    /// Looks a line up.
    #[inline]
    pub fn look_up(&mut self, key: Key) -> Lookup {
        self.lookups += 1;
        let Some(place) = self.place(self.set(key), key) else {
            self.counts.misses += 1;
            return Lookup::Missing;
        };
        self.used(place);
        if self.blocks[place / BLOCK].high[place % BLOCK] & COMING == 0 {
            self.counts.hits += 1;
            Lookup::Held
        } else {
            self.counts.merged += 1;
            Lookup::Coming(self.reads[place])
        }
    }

    /// Makes room for a line that comes with a read, and that was missing when it was looked up.
    pub fn bring(&mut self, key: Key, read: u32) {
        self.bring_into(self.set(key), key, read);
    }

    #[inline]
    fn bring_into(&mut self, set: Set, key: Key, read: u32) {
        debug_assert!(self.place(set, key).is_none(), "the line is missing");
        let place = self.make_room_in(set);
        self.blocks[place / BLOCK].put(place % BLOCK, key, true);
        self.reads[place] = read;
    }

    /// Uses a line that is there already, and makes room for it if it is not here.
    #[inline]
    pub fn keep(&mut self, key: Key) {
        self.keep_in(self.set(key), key);
    }

    /// The same for lines that follow each other.
    #[inline]
    pub fn keep_all(&mut self, key: Key, lines: u32) {
        for (key, count) in chunks(key, lines) {
            let sets = self.sets(key, count);
            (0..count).zip(sets).for_each(|(line, set)| self.keep_in(set, key.plus(line)));
        }
    }

    #[inline]
    fn keep_in(&mut self, set: Set, key: Key) {
        self.lookups += 1;
        if let Some(place) = self.place(set, key) {
            self.used(place);
            self.blocks[place / BLOCK].high[place % BLOCK] &= !COMING;
        } else {
            let place = self.make_room_in(set);
            self.blocks[place / BLOCK].put(place % BLOCK, key, false);
        }
    }

    /// Puts a line that is there already into a free place of its set, if there is one.
    pub fn keep_if_free(&mut self, key: Key) {
        let set = self.set(key);
        if self.free_place(set).is_some() && self.place(set, key).is_none() {
            self.lookups += 1;
            let place = self.make_room_in(set);
            self.blocks[place / BLOCK].put(place % BLOCK, key, false);
        }
    }

    /// A line has come with a read, if no other took its room meanwhile.
    pub fn arrived(&mut self, key: Key, read: u32) {
        if let Some(place) = self.place(self.set(key), key)
            && self.reads[place] == read
        {
            self.blocks[place / BLOCK].high[place % BLOCK] &= !COMING;
        }
    }

    /// Lines that may be here are no longer what memory holds, and come with a read.
    pub fn bring_anew(&mut self, key: Key, lines: u32, read: u32) {
        self.lookups += u64::from(lines);
        self.counts.misses += u64::from(lines);
        let mut sets = [Set::default(); TOGETHER];
        for (key, lines) in chunks(key, lines) {
            sets = self.sets(key, lines);
            (0..lines).zip(sets).for_each(|(line, set)| self.forget_in(set, key.plus(line)));
        }
        for (key, of_chunk) in chunks(key, lines) {
            if lines > of_chunk {
                sets = self.sets(key, of_chunk);
            }
            (0..of_chunk).zip(sets).for_each(|(line, set)| self.bring_into(set, key.plus(line), read));
        }
    }

    /// The sets of lines that follow each other, at most [`TOGETHER`]. Lets the processor fetch what looking for them
    /// needs, so that it does so for all at once.
    #[inline]
    fn sets(&self, key: Key, lines: u32) -> [Set; TOGETHER] {
        let mut sets = [Set::default(); TOGETHER];
        let mut all = 0;
        for (line, set) in (0..lines).zip(&mut sets) {
            *set = self.set(key.plus(line));
            all ^= self.blocks[set.block].tags;
        }
        std::hint::black_box(all);
        sets
    }

    /// A line is no longer what memory holds.
    pub fn forget(&mut self, key: Key) {
        self.forget_in(self.set(key), key);
    }

    #[inline]
    fn forget_in(&mut self, set: Set, key: Key) {
        if let Some(place) = self.place(set, key) {
            let block = &mut self.blocks[place / BLOCK];
            block.high[place % BLOCK] = EMPTY;
            block.tag(place % BLOCK, FREE);
            if let Some(recency) = &mut self.recency {
                recency.forget(place);
            }
            if let Some(wide) = &mut self.wide {
                wide.remove(place);
            }
        }
    }

    /// Notes that the line at a place is used.
    #[inline]
    fn used(&mut self, place: usize) {
        if let Some(recency) = &mut self.recency {
            recency.used(place, self.lookups);
        }
    }

    /// A place of a set for a line that it does not hold: a free one, or that of a line which goes.
    #[inline]
    fn make_room_in(&mut self, set: Set) -> usize {
        let place = self.free_place(set).unwrap_or_else(|| set.block * BLOCK + self.way_that_goes(set));
        self.blocks[place / BLOCK].tag(place % BLOCK, set.tag);
        if let Some(wide) = &mut self.wide {
            wide.put(place, set.tag);
        }
        self.used(place);
        place
    }

    /// The first free place of a set.
    #[inline]
    fn free_place(&self, set: Set) -> Option<usize> {
        if let Some(wide) = &self.wide {
            return wide.free_place(set.block * BLOCK);
        }
        let blocks = &self.blocks[set.block..set.block + self.set_blocks];
        let found = blocks.iter().enumerate().find_map(|(at, block)| Some((at, tagged(block.tags, FREE).next()?)));
        found.map(|(block, at)| (set.block + block) * BLOCK + at)
    }

    /// Which line of a full set goes.
    fn way_that_goes(&mut self, set: Set) -> usize {
        self.counts.evicted += 1;
        let first = set.block * BLOCK;
        match &self.recency {
            Some(recency) => recency.least(first) - first,
            None => ((u64::from(self.random.next_u32()) * self.ways as u64) >> 32) as usize,
        }
    }

    /// Where a set holds a line, on its way or not.
    #[expect(clippy::inline_always, reason = "lookups are most of the work: a call costs 3 % of all instructions")]
    #[inline(always)]
    fn place(&self, set: Set, key: Key) -> Option<usize> {
        let parts = key.parts();
        if self.wide.is_some() {
            return self.wide_place(set, key);
        }
        let blocks = &self.blocks[set.block..set.block + self.set_blocks];
        let found = blocks.iter().enumerate().find_map(|(at, block)| {
            let place = tagged(block.tags, set.tag).find(|place| block.holds(*place, parts))?;
            Some((at, place))
        });
        found.map(|(block, at)| (set.block + block) * BLOCK + at)
    }

    /// The same of a wide set.
    #[inline(never)]
    fn wide_place(&self, set: Set, key: Key) -> Option<usize> {
        let parts = key.parts();
        let holds = |place: &usize| self.blocks[*place / BLOCK].holds(*place % BLOCK, parts);
        self.wide.as_ref()?.tagged(set.block * BLOCK, set.tag).find(holds)
    }

    /// The set that a key belongs to.
    #[inline]
    fn set(&self, key: Key) -> Set {
        // The upper half of a product is a hash scaled to the number of sets, which need not be a power of two.
        let hash = key.0.wrapping_mul(SPREAD);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(SPREAD);
        let set = ((u128::from(hash) * u128::from(self.sets)) >> 64) as usize;
        Set { block: set * self.set_blocks, tag: (hash as u8).clamp(FREE + 1, ABSENT - 1) }
    }
}

/// Lines that follow each other, so many together: the first of each chunk, and how many.
#[inline]
fn chunks(key: Key, lines: u32) -> impl Iterator<Item = (Key, u32)> {
    (0..lines).step_by(TOGETHER).map(move |first| (key.plus(first), (lines - first).min(TOGETHER as u32)))
}

#[cfg(test)]
mod tests;
