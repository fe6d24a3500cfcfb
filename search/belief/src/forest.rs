//! A forest of extremely randomised trees over rows of numbers, with two outcomes. It knows nothing of workloads.
//!
//! Source: Geurts, Ernst and Wehenkel 2006, "Extremely randomized trees"; each tree grows from a random part of the
//! rows, so that the others test it (Breiman 2001, out-of-bag estimates). Crates were tried first: smartcore 0.7,
//! linfa-ensemble 0.8, biosphere 0.4 and randomforest 0.2 tell neither the rows in a leaf nor, for extremely randomised
//! trees, what they say of rows that they have not seen.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Trees. Source: our choice, because a score is then known to about 3 %.
const TREES: u64 = 200;
/// Share of the rows from which a tree grows. Source: Breiman 2001, the share of rows in a bootstrap sample.
const GROWN_FROM: f64 = 0.632;
/// Rows from which a tree grows at most. Source: our choice, that share of 20,000 experiments, because more of them
/// make all trees together better anyway, and one that grew from all of 100,000 would take five times as long and as
/// much memory.
const MOST_GROWN_FROM: usize = 12_640;

/// Rows as columns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<Vec<f32>>,
    pub(crate) outcomes: Vec<bool>,
}

#[derive(Debug)]
pub(crate) struct Forest(Vec<Tree>);

impl Forest {
    /// Grows the trees and tells of each row what those trees say that have not seen it.
    pub(crate) fn grow(rows: &Rows) -> (Self, Vec<Option<f64>>) {
        let count = rows.outcomes.len();
        let mut unseen = vec![(0.0, 0_u32); count];
        let mut order: Vec<u32> = (0..count as u32).collect();
        let grown_from = grown_from(count);
        let trees = (0..TREES).map(|seed| {
            let mut rng = Pcg64::seed_from_u64(seed);
            order.shuffle(&mut rng);
            let (seen, others) = order.split_at(grown_from);
            let tree = Tree::grow(rows, seen.to_vec(), &mut rng);
            for row in others {
                let said = &mut unseen[*row as usize];
                said.0 += tree.share(|column| rows.columns[column][*row as usize]);
                said.1 += 1;
            }
            tree
        });
        let forest = Self(trees.collect());
        let mean = |(sum, trees): (f64, u32)| (trees > 0).then(|| sum / f64::from(trees));
        (forest, unseen.into_iter().map(mean).collect())
    }

    /// The mean share of anomalous rows in the leaves that hold this row. Shape: 0 to 1.
    pub(crate) fn score(&self, row: &[f32]) -> f64 {
        self.0.iter().map(|tree| tree.share(|column| row[column])).sum::<f64>() / self.0.len() as f64
    }
}

fn grown_from(rows: usize) -> usize {
    ((rows as f64 * GROWN_FROM).ceil() as usize).min(rows).min(MOST_GROWN_FROM)
}

#[derive(Debug)]
struct Tree(Vec<TreeNode>);

#[derive(Debug)]
enum TreeNode {
    Leaf {
        share: f64,
    },
    /// Rows below `cut` go to the next node, the others to `above`.
    Cut {
        column: usize,
        cut: f32,
        above: usize,
    },
}

impl Tree {
    fn grow(rows: &Rows, mut seen: Vec<u32>, rng: &mut Pcg64) -> Self {
        let mut nodes = Vec::new();
        grow_from(rows, &mut seen, &mut nodes, rng);
        Self(nodes)
    }

    fn share(&self, value: impl Fn(usize) -> f32) -> f64 {
        let mut at = 0;
        loop {
            match self.0[at] {
                TreeNode::Leaf { share } => return share,
                TreeNode::Cut { column, cut, above } => at = if value(column) < cut { at + 1 } else { above },
            }
        }
    }
}

/// Appends the tree of these rows. Its depth is logarithmic in the mean, because cuts are uniform between extremes.
fn grow_from(rows: &Rows, seen: &mut [u32], nodes: &mut Vec<TreeNode>, rng: &mut Pcg64) {
    let anomalous = seen.iter().filter(|row| rows.outcomes[**row as usize]).count();
    let best = if anomalous == 0 || anomalous == seen.len() { None } else { best_cut(rows, seen, anomalous, rng) };
    let Some((column, cut)) = best else {
        nodes.push(TreeNode::Leaf { share: anomalous as f64 / seen.len() as f64 });
        return;
    };
    let values = &rows.columns[column];
    let mut below = 0;
    for index in 0..seen.len() {
        if values[seen[index] as usize] < cut {
            seen.swap(below, index);
            below += 1;
        }
    }
    let (below, above) = seen.split_at_mut(below);
    let at = nodes.len();
    nodes.push(TreeNode::Cut { column, cut, above: 0 });
    grow_from(rows, below, nodes, rng);
    let next = nodes.len();
    nodes[at] = TreeNode::Cut { column, cut, above: next };
    grow_from(rows, above, nodes, rng);
}

/// Of one random cut in each column that differs the one that parts the outcomes best (Gini). All columns are tried,
/// because on model F fewer find fewer safe workloads; of equal ones a random one wins.
fn best_cut(rows: &Rows, seen: &[u32], anomalous: usize, rng: &mut Pcg64) -> Option<(usize, f32)> {
    let mut columns: Vec<usize> = (0..rows.columns.len()).collect();
    columns.shuffle(rng);
    let mut best: Option<(f64, usize, f32)> = None;
    for column in columns {
        let values = &rows.columns[column];
        let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
        for row in seen {
            let value = values[*row as usize];
            low = low.min(value);
            high = high.max(value);
        }
        if low >= high {
            continue;
        }
        // In (low, high]: what is at `low` lies below it, what is at `high` does not.
        let cut = high - rng.random::<f32>() * (high - low);
        let cut = if cut > low { cut } else { high };
        let (mut below, mut bad_below) = (0_usize, 0_usize);
        for row in seen {
            let is_below = values[*row as usize] < cut;
            below += usize::from(is_below);
            bad_below += usize::from(is_below && rows.outcomes[*row as usize]);
        }
        let impurity = mixed(below, bad_below) + mixed(seen.len() - below, anomalous - bad_below);
        if best.is_none_or(|(least, ..)| impurity < least) {
            best = Some((impurity, column, cut));
        }
    }
    best.map(|(_, column, cut)| (column, cut))
}

/// Gini impurity times the number of rows.
fn mixed(count: usize, anomalous: usize) -> f64 {
    let bad = anomalous as f64;
    if count == 0 { 0.0 } else { bad * (count as f64 - bad) / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anomalous where the first of three columns is above 0.5 and the second below 0.7.
    fn rows(count: usize) -> Rows {
        let mut rng = Pcg64::seed_from_u64(7);
        let mut rows = Rows { columns: vec![Vec::new(); 3], outcomes: Vec::new() };
        for _ in 0..count {
            let row: [f32; 3] = std::array::from_fn(|_| rng.random());
            for (column, value) in rows.columns.iter_mut().zip(row) {
                column.push(value);
            }
            rows.outcomes.push(row[0] > 0.5 && row[1] < 0.7);
        }
        rows
    }

    #[test]
    fn a_conjunction_is_learnt() {
        let (forest, _) = Forest::grow(&rows(400));
        for (row, expected) in [([0.8, 0.3, 0.1], true), ([0.2, 0.3, 0.9], false), ([0.9, 0.9, 0.5], false)] {
            let score = forest.score(&row);
            assert!(if expected { score > 0.85 } else { score < 0.15 }, "{row:?}: {score}");
        }
    }

    #[test]
    fn what_a_tree_costs_has_an_end() {
        assert_eq!([1, 1000, 20_000, 100_000].map(grown_from), [1, 632, 12_640, 12_640]);
    }

    #[test]
    fn rows_are_judged_by_trees_that_have_not_seen_them() {
        let mut rows = rows(300);
        // Coins have no rule: a forest that judged what it grew from would be right about each of them.
        let mut rng = Pcg64::seed_from_u64(8);
        rows.outcomes.iter_mut().for_each(|outcome| *outcome = rng.random_bool(0.5));
        let (forest, unseen) = Forest::grow(&rows);
        let right = |score: f64, row: usize| (score > 0.5) == rows.outcomes[row];
        let seen = |row: usize| forest.score(&rows.columns.iter().map(|column| column[row]).collect::<Vec<_>>());
        let count = |is_right: &dyn Fn(usize) -> bool| (0..300).filter(|row| is_right(*row)).count();
        assert!(count(&|row| right(seen(row), row)) > 290);
        assert!(count(&|row| right(unseen[row].expect("200 trees"), row)) < 190);
    }
}
