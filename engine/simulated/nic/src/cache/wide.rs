//! What a cache keeps beside its lines so that no set is searched as a whole: the order of their last use, and, of wide
//! sets, where each tag and each free place is.

/// No place.
const NONE: u32 = u32::MAX;

/// Tags of keys and of free places, a byte each.
const TAGS: usize = 256;

/// Places of each set in the order in which they were used last.
#[derive(Debug, Clone)]
pub(super) struct Recency {
    /// When each was used last, counted in lookups.
    used: Vec<u64>,
    /// The place that was used before it, and the one that was used after it.
    around: Vec<[u32; 2]>,
    /// Of each set, the place that was used last, and the one that was used least recently: a ring closed by the set.
    ends: Vec<[u32; 2]>,
    of_set: usize,
}

impl Recency {
    /// Of sets with so many places each, none of them used.
    pub fn new(sets: usize, of_set: usize) -> Self {
        Self {
            used: vec![0; sets * of_set],
            around: vec![[NONE; 2]; sets * of_set],
            ends: vec![[NONE; 2]; sets],
            of_set,
        }
    }

    /// A place is used now.
    pub fn used(&mut self, place: usize, now: u64) {
        self.forget(place);
        self.used[place] = now;
        let set = place / self.of_set;
        let [last, first] = self.ends[set];
        self.around[place] = [last, NONE];
        self.ends[set] = [place as u32, if first == NONE { place as u32 } else { first }];
        if let Some(around) = self.around.get_mut(last as usize) {
            around[1] = place as u32;
        }
    }

    /// A place holds nothing any more.
    pub fn forget(&mut self, place: usize) {
        let ends = &mut self.ends[place / self.of_set];
        let [before, after] = self.around[place];
        if before == NONE && after == NONE && ends[0] != place as u32 {
            return;
        }
        self.around[place] = [NONE; 2];
        match self.around.get_mut(before as usize) {
            Some(around) => around[1] = after,
            None => ends[1] = after,
        }
        match self.around.get_mut(after as usize) {
            Some(around) => around[0] = before,
            None => ends[0] = before,
        }
    }

    /// The first of the least recently used places of the set that begins at a place; one of it is in use.
    pub fn least(&self, set: usize) -> usize {
        let first = self.ends[set / self.of_set][1] as usize;
        let next = |place: &usize| Some(self.around[*place][1] as usize).filter(|next| *next != NONE as usize);
        let equal = std::iter::successors(Some(first), next).take_while(|place| self.used[*place] == self.used[first]);
        equal.min().expect("the least recent is one of them")
    }
}

/// Where the tags and the free places of wide sets are.
#[derive(Debug, Clone)]
pub(super) struct Wide {
    /// Of each set, the last place with each tag.
    heads: Vec<[u32; TAGS]>,
    /// Of each place, its tag and the next one with this tag.
    chained: Vec<(u8, u32)>,
    /// Of each set, a bit for each place that is free.
    free: Vec<u64>,
    of_set: usize,
}

impl Wide {
    /// Of empty sets with so many ways and places each; places beyond the ways are never free.
    pub fn new(sets: usize, ways: usize, of_set: usize) -> Self {
        let words = of_set.div_ceil(64);
        let free = |word: usize| match ways.saturating_sub(word % words * 64) {
            0 => 0,
            places => u64::MAX >> (64 - places.min(64)),
        };
        Self {
            heads: vec![[NONE; TAGS]; sets],
            chained: vec![(0, NONE); sets * of_set],
            free: (0..sets * words).map(free).collect(),
            of_set,
        }
    }

    /// A place holds a key of a tag from now on, in the place of what it may have held before.
    pub fn put(&mut self, place: usize, tag: u8) {
        self.remove(place);
        let (word, bit) = self.bit(place);
        self.free[word] &= !bit;
        let head = &mut self.heads[place / self.of_set][usize::from(tag)];
        self.chained[place] = (tag, std::mem::replace(head, place as u32));
    }

    /// A place holds nothing any more.
    pub fn remove(&mut self, place: usize) {
        let (word, bit) = self.bit(place);
        if self.free[word] & bit != 0 {
            return;
        }
        self.free[word] |= bit;
        let (tag, next) = self.chained[place];
        let head = &mut self.heads[place / self.of_set][usize::from(tag)];
        if *head == place as u32 {
            *head = next;
            return;
        }
        let mut at = *head as usize;
        while self.chained[at].1 != place as u32 {
            at = self.chained[at].1 as usize;
        }
        self.chained[at].1 = next;
    }

    /// The first free place of the set that begins at a place.
    pub fn free_place(&self, set: usize) -> Option<usize> {
        let (first, _) = self.bit(set);
        let words = self.free[first..first + self.of_set.div_ceil(64)].iter();
        let found = words.enumerate().find(|(_, word)| **word != 0);
        found.map(|(at, word)| set + 64 * at + word.trailing_zeros() as usize)
    }

    /// Places with a tag of the set that begins at a place.
    pub fn tagged(&self, set: usize, tag: u8) -> impl Iterator<Item = usize> {
        let mut at = self.heads[set / self.of_set][usize::from(tag)];
        std::iter::from_fn(move || {
            let place = at as usize;
            at = self.chained.get(place)?.1;
            Some(place)
        })
    }

    /// The word of a place and its bit there.
    fn bit(&self, place: usize) -> (usize, u64) {
        let (set, at) = (place / self.of_set, place % self.of_set);
        (set * self.of_set.div_ceil(64) + at / 64, 1 << (at % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recent_place_is_the_one_that_was_used_first_and_of_equals_the_lowest() {
        let mut recency = Recency::new(2, 8);
        for (place, now) in [(9, 1), (12, 2), (11, 2), (10, 3)] {
            recency.used(place, now);
        }
        assert_eq!(recency.least(8), 9);
        recency.used(9, 4);
        assert_eq!(recency.least(8), 11, "two were used at once");
        recency.forget(11);
        assert_eq!(recency.least(8), 12);
        recency.forget(12);
        recency.forget(12);
        assert_eq!(recency.least(8), 10);
    }

    #[test]
    fn places_are_found_by_tag_until_they_are_free() {
        let mut wide = Wide::new(2, 70, 72);
        assert_eq!(wide.free_place(72), Some(72));
        for place in 72..142 {
            wide.put(place, (place % 3) as u8);
        }
        assert_eq!(wide.free_place(72), None, "two places are no ways");
        assert_eq!(wide.free_place(0), Some(0));
        wide.remove(141);
        wide.remove(75);
        wide.put(76, 0);
        assert_eq!(wide.free_place(72), Some(75));
        let mut found: Vec<usize> = wide.tagged(72, 0).collect();
        found.sort_unstable();
        let expected: Vec<usize> = (72..142).filter(|place| place % 3 == 0 && ![75, 141].contains(place)).collect();
        assert_eq!(found, [&expected[..1], &[76], &expected[1..]].concat());
    }
}
