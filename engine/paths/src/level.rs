//! A level colouring: edges between senders and receivers get colours so that at each end any two colours differ by at
//! most one edge. What ends, edges and colours stand for lives in `planner`.
//!
//! Source: de Werra, Equitable colorations of graphs, RIRO 5 (1971): every bipartite multigraph has such a colouring
//! with any number of colours, and chains of two colours that change places lead from one to the next.

use std::collections::BTreeSet;

/// No edge.
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct ColouredEdge {
    ends: [u32; 2],
    /// [`ABSENT`] for one that is not there.
    color: u32,
    /// Its places in the lists of both ends.
    places: [u32; 2],
    /// The last chain that it was part of.
    chain: u32,
}

const NO_EDGE: ColouredEdge = ColouredEdge { ends: [0; 2], color: ABSENT, places: [0; 2], chain: 0 };

/// The colouring. Ends are numbered from 0, senders before receivers; edges have the numbers that their owner gives.
#[derive(Debug)]
pub struct Level {
    senders: u32,
    colors: u32,
    /// Per end and color.
    counts: Vec<u32>,
    members: Vec<Vec<u32>>,
    allowed: Vec<bool>,
    edges: Vec<ColouredEdge>,
    /// Colors that an edge may not have, a bit each of the first 8.
    barred: Vec<u8>,
    chain: u32,
    /// Ends that could not be made level, because what failed leaves some edges no choice.
    uneven: BTreeSet<u32>,
}

impl Level {
    pub fn new(senders: u32, receivers: u32, colors: u32) -> Self {
        let cells = (senders + receivers) as usize * colors as usize;
        Self {
            senders,
            colors,
            counts: vec![0; cells],
            members: vec![Vec::new(); cells],
            allowed: vec![true; cells],
            edges: Vec::new(),
            barred: Vec::new(),
            chain: 0,
            uneven: BTreeSet::new(),
        }
    }

    /// The end that receives, by its number among receivers.
    pub fn receiver(&self, number: u32) -> u32 {
        self.senders + number
    }

    fn cell(&self, end: u32, color: u32) -> usize {
        end as usize * self.colors as usize + color as usize
    }

    pub fn count(&self, end: u32, color: u32) -> u32 {
        self.counts[self.cell(end, color)]
    }

    pub fn is_allowed(&self, end: u32, color: u32) -> bool {
        self.allowed[self.cell(end, color)]
    }

    /// Bars an edge, which is removed, from a color.
    pub fn bar(&mut self, edge: u32, color: u32) {
        self.remove(edge);
        if self.barred.len() <= edge as usize {
            self.barred.resize(edge as usize + 1, 0);
        }
        self.barred[edge as usize] |= 1 << color;
    }

    /// An edge may have each color again.
    pub fn unbar(&mut self, edge: u32) {
        if let Some(barred) = self.barred.get_mut(edge as usize) {
            *barred = 0;
        }
        if let Some(edge) = self.edges.get(edge as usize).filter(|edge| edge.color != ABSENT) {
            self.uneven.extend(edge.ends);
        }
    }

    fn is_barred(&self, edge: u32, color: u32) -> bool {
        color < 8 && self.barred.get(edge as usize).is_some_and(|barred| barred >> color & 1 == 1)
    }

    pub fn color(&self, edge: u32) -> Option<u32> {
        self.edges.get(edge as usize).map(|edge| edge.color).filter(|color| *color != ABSENT)
    }

    /// Adds an edge with the color that its ends have least of, those after `from_color` first; none if none is
    /// allowed at both.
    pub fn add(&mut self, edge: u32, ends: [u32; 2], from_color: u32) -> Option<u32> {
        let [here, there] = ends.map(|end| self.cell(end, 0));
        let mut best: Option<((u32, u32), u32)> = None;
        for step in 0..self.colors {
            let color =
                if from_color + step < self.colors { from_color + step } else { from_color + step - self.colors };
            let (a, b) = (here + color as usize, there + color as usize);
            if self.allowed[a] && self.allowed[b] && !self.is_barred(edge, color) {
                let load = (self.counts[a], self.counts[b]);
                if best.is_none_or(|(least, _)| load < least) {
                    best = Some((load, color));
                }
            }
        }
        let (_, color) = best?;
        if self.edges.len() <= edge as usize {
            self.edges.resize(edge as usize + 1, NO_EDGE);
        }
        self.edges[edge as usize] = ColouredEdge { ends, ..NO_EDGE };
        self.put(edge, color);
        Some(color)
    }

    fn put(&mut self, edge: u32, color: u32) {
        let ends = self.edges[edge as usize].ends;
        for (nth, end) in ends.into_iter().enumerate() {
            let cell = self.cell(end, color);
            self.edges[edge as usize].places[nth] = self.members[cell].len() as u32;
            self.members[cell].push(edge);
            self.counts[cell] += 1;
        }
        self.edges[edge as usize].color = color;
    }

    fn take(&mut self, edge: u32) {
        let ColouredEdge { ends, color, places, .. } = self.edges[edge as usize];
        for (nth, end) in ends.into_iter().enumerate() {
            let (cell, place) = (self.cell(end, color), places[nth] as usize);
            self.members[cell].swap_remove(place);
            if let Some(moved) = self.members[cell].get(place) {
                self.edges[*moved as usize].places[nth] = place as u32;
            }
            self.counts[cell] -= 1;
        }
        self.edges[edge as usize].color = ABSENT;
    }

    /// Removes an edge if it is there; its ends.
    pub fn remove(&mut self, edge: u32) -> Option<[u32; 2]> {
        self.color(edge)?;
        self.take(edge);
        Some(self.edges[edge as usize].ends)
    }

    /// Allows or forbids a color at an end; the edges that have to leave it.
    pub fn allow(&mut self, end: u32, color: u32, allowed: bool) -> Vec<u32> {
        let cell = self.cell(end, color);
        self.allowed[cell] = allowed;
        self.uneven.insert(end);
        if allowed { Vec::new() } else { self.members[cell].clone() }
    }

    /// Makes ends level again, and all that were left uneven; adds the edges whose color changed to `moved`.
    pub fn settle(&mut self, ends: &[u32], moved: &mut Vec<u32>) {
        for end in ends {
            self.make_level(*end, moved);
        }
        // A change at one end may open a way for another. It ends, because each change levels its end, and none that
        // levels a receiver unlevels a sender. Senders come first in the set.
        let mut before = usize::MAX;
        while !self.uneven.is_empty() && before != moved.len() {
            before = moved.len();
            for end in std::mem::take(&mut self.uneven) {
                self.make_level(end, moved);
            }
        }
    }

    fn make_level(&mut self, end: u32, moved: &mut Vec<u32>) {
        while let Some((least, most)) = self.extremes(end) {
            if !self.improve(end, least, most, moved) {
                self.uneven.insert(end);
                return;
            }
        }
    }

    /// The least and the largest count of an end, if they differ by more than one.
    fn extremes(&self, end: u32) -> Option<(u32, u32)> {
        let begin = self.cell(end, 0);
        let (mut least, mut most) = (u32::MAX, 0);
        for cell in begin..begin + self.colors as usize {
            if self.allowed[cell] {
                least = least.min(self.counts[cell]);
                most = most.max(self.counts[cell]);
            }
        }
        (least < most && most - least > 1).then_some((least, most))
    }

    /// Moves one edge's worth from a color of an end to one that has at least two fewer.
    fn improve(&mut self, end: u32, least: u32, most: u32, moved: &mut Vec<u32>) -> bool {
        let mut pairs = Vec::new();
        for (give, take) in (0..self.colors).flat_map(|give| (0..self.colors).map(move |take| (give, take))) {
            let [from, to] = [give, take].map(|color| self.count(end, color));
            if self.is_allowed(end, take) && from >= to + 2 {
                // The most uneven first.
                pairs.push(((most - from) + (to - least.min(to)), give, take));
            }
        }
        pairs.sort_unstable();
        for (_, give, take) in &pairs {
            if self.chain(end, *give, *take, moved) {
                return true;
            }
        }
        // What has failed leaves no chain. A sender's links come first, even if a receiver becomes uneven by it.
        if end >= self.senders {
            return false;
        }
        self.chain += 1;
        let movable = pairs.iter().find_map(|(_, give, take)| Some((self.movable(end, *give, *take)?, *take)));
        let Some((edge, take)) = movable else { return false };
        self.recolor(edge, take);
        moved.push(edge);
        self.uneven.insert(self.edges[edge as usize].ends[1]);
        true
    }

    fn recolor(&mut self, edge: u32, color: u32) {
        self.take(edge);
        self.put(edge, color);
    }

    /// An edge of a color of an end that may have another one, and is not in the present chain; best one whose other
    /// end can do with that.
    fn movable(&self, end: u32, give: u32, take: u32) -> Option<u32> {
        let nth = usize::from(end >= self.senders);
        let mut found = None;
        for edge in &self.members[self.cell(end, give)] {
            let state = &self.edges[*edge as usize];
            let other = state.ends[1 - nth];
            if state.chain == self.chain || !self.is_allowed(other, take) || self.is_barred(*edge, take) {
                continue;
            }
            if self.count(other, give) > self.count(other, take) {
                return Some(*edge);
            }
            found = found.or(Some(*edge));
        }
        found
    }

    /// Changes the colors of a chain of edges that begins at `end` with `give`; nothing if it would end badly.
    fn chain(&mut self, end: u32, give: u32, take: u32, moved: &mut Vec<u32>) -> bool {
        self.chain += 1;
        let begin = moved.len();
        let (mut at, mut give, mut take) = (end, give, take);
        loop {
            let edge = self.is_allowed(at, take).then(|| self.movable(at, give, take)).flatten();
            let Some(edge) = edge else {
                for edge in moved.drain(begin..).rev().collect::<Vec<_>>() {
                    let color = self.edges[edge as usize].color;
                    let before = if color == give { take } else { give };
                    self.recolor(edge, before);
                }
                return false;
            };
            self.recolor(edge, take);
            self.edges[edge as usize].chain = self.chain;
            moved.push(edge);
            let nth = usize::from(at >= self.senders);
            at = self.edges[edge as usize].ends[1 - nth];
            if self.count(at, take) <= self.count(at, give) + 1 {
                return true;
            }
            (give, take) = (take, give);
        }
    }
}
