//! A finding's region, read from all experiments: trees that learnt from them say how likely random workloads around the
//! witness are anomalous, and slices are peeled off the box around them until what is left is.
//!
//! Source: Friedman and Fisher 1999, "Bump hunting in high-dimensional data" (peeling and pasting); Arzamasov and Böhm
//! 2021, "REDS: Rule Extraction for Discovering Scenarios" (peeling what a metamodel labels).

use std::collections::BTreeMap;

use kelpie_belief::Model;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};
use rand_pcg::Pcg64;

/// Random workloads of the space that are labelled for all regions. Source: our choice; of a region that holds an eighth of the
/// space there are enough among them.
const OWN: usize = 2000;
/// Random workloads that are labelled for one region, at least. Source: our choice; a share of 10 % is then known to 2 points.
const POOL: usize = 250;
/// Pools one after the other, each of what is left of the one before. Source: our choice.
const ROUNDS: usize = 3;
/// Part of the pool that a peel takes away at least. Source: Friedman and Fisher 1999, who advise 5 to 10 %.
const PEEL: f64 = 0.06;
/// Share of a region that may be healthy, by the trees. Source: our choice; regions of model F that were read so have 4 to 6 %
/// healthy inside.
const HEALTHY: f64 = 0.06;
/// The same as a part of the space's own healthy share, if that is less. Source: our choice, because a region says something
/// only if it is far purer than the space.
const PURER: f64 = 0.2;
/// Workloads of the pool that a region has to hold. Source: our choice.
const LEAST: usize = 15;

/// The value of each feature as a number; of a word its place among the space's words.
type Row = [u64; Feature::COUNT];

/// What one feature may be.
#[derive(Debug, Clone, PartialEq)]
enum Side {
    /// At least, at most.
    Numbers(u64, u64),
    /// Not these words.
    Without(Vec<u64>),
}

impl Side {
    fn admits(&self, value: u64) -> bool {
        match self {
            Self::Numbers(low, high) => (*low..=*high).contains(&value),
            Self::Without(words) => !words.contains(&value),
        }
    }
}

/// Labelled workloads.
struct Pool<'a> {
    space: &'a Space,
    /// Of each feature the words that the space has.
    words: Vec<Vec<FeatureValue>>,
    /// How likely each workload is anomalous.
    rows: Vec<(Row, f64)>,
    witness: Row,
    /// How likely workloads are to be, in the mean.
    pure: f64,
}

/// What regions are read from.
pub(super) struct Evidence<'a> {
    space: &'a Space,
    model: &'a Model,
    /// Whether each workload was anomalous.
    measured: BTreeMap<&'a Workload, bool>,
    /// Random workloads of the space, and how likely each is anomalous.
    own: Vec<(Workload, f64)>,
    /// Probability that a workload of a region is anomalous, in the mean.
    pure: f64,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(
        space: &'a Space,
        model: &'a Model,
        measured: BTreeMap<&'a Workload, bool>,
        rng: &mut Pcg64,
    ) -> Self {
        let mut evidence = Self { space, model, measured, own: Vec::new(), pure: 1.0 - HEALTHY };
        evidence.own = (0..OWN).map(|_| evidence.labelled(space.sample(rng))).collect();
        let healthy = evidence.own.iter().map(|(_, likely)| 1.0 - likely).sum::<f64>() / OWN as f64;
        evidence.pure = 1.0 - HEALTHY.min(PURER * healthy);
        evidence
    }

    fn labelled(&self, workload: Workload) -> (Workload, f64) {
        let likely = self.model.of(&workload).probability.middle;
        (workload, likely)
    }

    /// Random workloads of a region.
    fn random(&self, region: &Region, rng: &mut Pcg64) -> Vec<(Workload, f64)> {
        let mut random: Vec<_> = self.own.iter().filter(|(workload, _)| region.contains(workload)).cloned().collect();
        let missing = POOL.saturating_sub(random.len());
        // If one cannot be drawn, others take as long.
        let others = (0..missing).map_while(|_| self.space.sample_within(region, rng));
        random.extend(others.map(|workload| self.labelled(workload)));
        random
    }
}

/// A large region around the witness, within `hull`, of which workloads are anomalous, with the share that is; `None` if
/// none shows.
pub(super) fn read(
    evidence: &Evidence<'_>,
    hull: &Region,
    witness: &Workload,
    rng: &mut Pcg64,
) -> Option<(Region, f64)> {
    let Evidence { space, measured, pure, .. } = evidence;
    let mut region = hull.clone();
    for round in 0..=ROUNDS {
        let mut pool = Pool::new(space, witness, *pure);
        pool.add(evidence.random(&region, rng).iter().map(|(workload, likely)| (workload, *likely)));
        let inside = measured.iter().filter(|(workload, _)| region.contains(workload));
        pool.add(inside.map(|(workload, is_anomalous)| (*workload, f64::from(u8::from(*is_anomalous)))));
        let whole = pool.whole();
        let (share, _) = pool.mean(&whole)?;
        if share >= *pure || round == ROUNDS {
            return Some((reached(region, hull, measured, witness), share));
        }
        let pasted = pool.paste(pool.peel(whole.clone())?, &whole);
        for (at, feature) in Feature::ALL.into_iter().enumerate().filter(|(at, _)| pasted[*at] != whole[*at]) {
            let old = region.conditions.iter().position(|condition| condition.feature == feature);
            let old = old.map(|at| region.conditions.remove(at).test);
            region.conditions.push(Condition { feature, test: pool.test(at, &pasted[at], &whole[at], old.as_ref()) });
        }
        region.conditions.sort();
    }
    None
}

/// The region with each bound that was cut no farther out than an anomaly was measured: what lies between the last one and
/// the bound is a guess of the trees.
fn reached(mut region: Region, hull: &Region, measured: &BTreeMap<&Workload, bool>, witness: &Workload) -> Region {
    let seen: Vec<&Workload> = measured
        .iter()
        .filter(|(workload, is_anomalous)| **is_anomalous && region.contains(workload))
        .map(|(workload, _)| *workload)
        .chain([witness])
        .collect();
    for condition in region.conditions.iter_mut().filter(|condition| !hull.conditions.contains(condition)) {
        let values = seen.iter().filter_map(|workload| workload.feature(condition.feature).number());
        if let (Test::Range { min, max }, (Some(least), Some(most))) =
            (&mut condition.test, (values.clone().min(), values.max()))
        {
            (*min, *max) = (min.map(|min| min.max(least)), max.map(|max| max.min(most)));
        }
    }
    region
}

impl<'a> Pool<'a> {
    fn new(space: &'a Space, witness: &Workload, pure: f64) -> Self {
        let words = |feature: Feature| {
            if feature.is_ordered() { Vec::new() } else { space.feature_values(feature) }
        };
        let words = Feature::ALL.into_iter().map(words).collect();
        let mut pool = Self { space, words, rows: Vec::new(), witness: [0; Feature::COUNT], pure };
        pool.witness = pool.row(witness);
        pool
    }

    fn row(&self, workload: &Workload) -> Row {
        std::array::from_fn(|at| match workload.feature(Feature::ALL[at]) {
            FeatureValue::Number(number) => number,
            word @ FeatureValue::Category(_) => {
                let words = &self.words[at];
                words.iter().position(|other| *other == word).unwrap_or(words.len()) as u64
            }
        })
    }

    fn add<'w>(&mut self, workloads: impl Iterator<Item = (&'w Workload, f64)>) {
        let rows: Vec<(Row, f64)> = workloads.map(|(workload, likely)| (self.row(workload), likely)).collect();
        self.rows.extend(rows);
    }

    /// What the pool spans.
    fn whole(&self) -> Vec<Side> {
        let side = |at: usize| {
            if !Feature::ALL[at].is_ordered() {
                return Side::Without(Vec::new());
            }
            let numbers = || self.rows.iter().map(|(row, _)| row[at]).chain([self.witness[at]]);
            Side::Numbers(numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
        };
        (0..Feature::COUNT).map(side).collect()
    }

    fn inside<'p>(&'p self, sides: &'p [Side]) -> impl Iterator<Item = &'p (Row, f64)> {
        self.rows.iter().filter(move |(row, _)| row.iter().zip(sides).all(|(value, side)| side.admits(*value)))
    }

    /// How likely a workload inside is anomalous, and how many there are.
    fn mean(&self, sides: &[Side]) -> Option<(f64, usize)> {
        mean(self.inside(sides).map(|(_, likely)| *likely))
    }

    /// Peels off the whole what gains most for each workload that goes, until the rest is anomalous.
    fn peel(&self, mut sides: Vec<Side>) -> Option<Vec<Side>> {
        let mut inside: Vec<&(Row, f64)> = self.rows.iter().collect();
        loop {
            let (now, count) = mean(inside.iter().map(|(_, likely)| *likely))?;
            if now >= self.pure {
                return Some(sides);
            }
            let mut best: Option<(f64, usize, Side)> = None;
            for (at, side) in sides.iter().enumerate() {
                for cut in self.cuts(at, side, &inside) {
                    let left = inside.iter().filter(|(row, _)| cut.admits(row[at])).map(|(_, likely)| *likely);
                    let Some((then, left)) = mean(left).filter(|(_, left)| (LEAST..count).contains(left)) else {
                        continue;
                    };
                    let gain = (then - now) / (count - left) as f64;
                    if gain > 0.0 && best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                        best = Some((gain, at, cut));
                    }
                }
            }
            let (_, at, cut) = best?;
            inside.retain(|(row, _)| cut.admits(row[at]));
            sides[at] = cut;
        }
    }

    /// The cuts of one feature that keep the witness: a word less, or an end of the range with the least part that a peel
    /// takes, or more if workloads share the value there.
    fn cuts(&self, at: usize, side: &Side, inside: &[&(Row, f64)]) -> Vec<Side> {
        let witness = self.witness[at];
        let mut values: Vec<u64> = inside.iter().map(|(row, _)| row[at]).collect();
        values.sort_unstable();
        let mut cuts = Vec::new();
        match side {
            Side::Numbers(low, high) => {
                let least = ((values.len() as f64 * PEEL).ceil() as usize).clamp(1, values.len());
                let above = values.partition_point(|value| *value <= values[least - 1]);
                cuts.extend(values.get(above).map(|next| Side::Numbers((*next).min(witness), *high)));
                let below = values.partition_point(|value| *value < values[values.len() - least]);
                cuts.extend(below.checked_sub(1).map(|last| Side::Numbers(*low, values[last].max(witness))));
            }
            Side::Without(words) => {
                values.dedup();
                values.retain(|word| *word != witness);
                cuts.extend(values.iter().map(|word| Side::Without([&words[..], &[*word]].concat())));
            }
        }
        cuts.retain(|cut| cut != side);
        cuts
    }

    /// Gives up each bound that purity does not need, the least needed first.
    fn paste(&self, mut sides: Vec<Side>, whole: &[Side]) -> Vec<Side> {
        loop {
            let mut best: Option<(usize, usize, Side)> = None;
            for at in 0..sides.len() {
                for wider in looser(&sides[at], &whole[at]) {
                    let before = std::mem::replace(&mut sides[at], wider);
                    let pure = self.mean(&sides).filter(|(mean, _)| *mean >= self.pure);
                    let wider = std::mem::replace(&mut sides[at], before);
                    if let Some((_, count)) = pure.filter(|(_, count)| best.as_ref().is_none_or(|best| *count > best.0))
                    {
                        best = Some((count, at, wider));
                    }
                }
            }
            let Some((_, at, wider)) = best else { return sides };
            sides[at] = wider;
        }
    }

    /// A cut as a test, together with what was tested before.
    fn test(&self, at: usize, side: &Side, whole: &Side, old: Option<&Test>) -> Test {
        if let (Side::Numbers(low, high), Side::Numbers(least, most)) = (side, whole) {
            let (min, max) = match old {
                Some(Test::Range { min, max }) => (*min, *max),
                _ => (None, None),
            };
            return Test::Range {
                min: if low > least { Some(*low) } else { min },
                max: if high < most { Some(*high) } else { max },
            };
        }
        let feature = Feature::ALL[at];
        let is_old = |value: &FeatureValue| match old {
            Some(test) => Condition { feature, test: test.clone() }.admits(value),
            None => true,
        };
        let values = self.space.feature_values(feature).into_iter().enumerate();
        let kept = values.filter(|(word, value)| side.admits(*word as u64) && is_old(value));
        Test::In(kept.filter_map(|(_, value)| value.into_word()).collect())
    }
}

fn mean(likely: impl Iterator<Item = f64>) -> Option<(f64, usize)> {
    let (sum, count) = likely.fold((0.0, 0), |(sum, count), likely| (sum + likely, count + 1));
    (count > 0).then(|| (sum / count as f64, count))
}

/// What a feature may be if one of its bounds is given up.
fn looser(side: &Side, whole: &Side) -> Vec<Side> {
    match (side, whole) {
        (Side::Numbers(low, high), Side::Numbers(least, most)) => {
            let below = (low > least).then_some(Side::Numbers(*least, *high));
            let above = (high < most).then_some(Side::Numbers(*low, *most));
            below.into_iter().chain(above).collect()
        }
        (Side::Without(words), _) => {
            (0..words.len()).map(|word| Side::Without([&words[..word], &words[word + 1..]].concat())).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::closed_form::{Weakness, at_least, at_most, one_of};

    #[test]
    fn a_region_is_read_from_random_points() {
        let space = Space::catalog("full").expect("in the catalog");
        let conditions =
            [one_of(Feature::Opcode, &["SEND"]), at_least(Feature::TotalQps, 64), at_most(Feature::MessageMax, 8192)];
        let weakness = Weakness::new(kelpie_monitor::Symptom::Pause, &conditions);
        let mut rng = Pcg64::seed_from_u64(1);
        let points: Vec<Workload> = (0..600).map(|_| space.sample(&mut rng)).collect();
        let measured: BTreeMap<&Workload, bool> = points.iter().map(|point| (point, weakness.holds(point))).collect();
        let model = Model::learn(&measured).expect("there are points");
        let witness = points.iter().find(|point| weakness.holds(point)).expect("some hold");
        let evidence = Evidence::new(&space, &model, measured, &mut rng);
        let (region, share) = read(&evidence, &Region::default(), witness, &mut rng).expect("it shows clearly");
        assert!(region.contains(witness) && share >= evidence.pure, "{share}: {region}");
        let inside: Vec<Workload> = (0..300).filter_map(|_| space.sample_in(&region, &mut rng)).collect();
        let healthy = inside.iter().filter(|point| !weakness.holds(point)).count();
        assert!(healthy * 10 <= inside.len(), "{healthy} of {} in {region}", inside.len());
        let fresh: Vec<Workload> = (0..2000).map(|_| space.sample(&mut rng)).filter(|w| weakness.holds(w)).collect();
        let held = fresh.iter().filter(|point| region.contains(point)).count();
        assert!(held * 2 >= fresh.len(), "{held} of {} in {region}", fresh.len());
    }

    #[test]
    fn nothing_is_read_where_nothing_is_anomalous() {
        let space = Space::catalog("full").expect("in the catalog");
        let mut rng = Pcg64::seed_from_u64(2);
        let points: Vec<Workload> = (0..200).map(|_| space.sample(&mut rng)).collect();
        let measured = points.iter().map(|point| (point, false)).collect();
        let model = Model::learn(&measured).expect("there are points");
        let evidence = Evidence::new(&space, &model, measured, &mut rng);
        assert_eq!(read(&evidence, &Region::default(), &points[0], &mut rng), None);
    }
}
