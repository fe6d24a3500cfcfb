//! A finding's region, read from all experiments: trees that learnt from them say how likely random workloads around the
//! witness are anomalous, and slices are peeled off the box around them until what is left is.
//!
//! Source: Friedman and Fisher 1999, "Bump hunting in high-dimensional data" (peeling and pasting); Arzamasov and Böhm
//! 2021, "REDS: Rule Extraction for Discovering Scenarios" (peeling what a metamodel labels).

use std::rc::Rc;

use kelpie_belief::Model;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Test, Workload};
use rand_pcg::Pcg64;

use super::drawn::{Drawn, Inside, Point, Row};
use crate::discovery::Believed;

/// Random workloads that are labelled for one region, at least. Source: our choice; a share of 10 % is then known to 2 points.
const POOL: usize = 250;
/// Pools one after the other, each of what is left of the one before. Source: our choice.
const ROUNDS: usize = 3;
/// Part of the pool that a peel takes away at least. Source: Friedman and Fisher 1999, who advise 5 to 10 %.
const PEEL: f64 = 0.06;
/// Share of a region that may be healthy, by the trees. Source: our choice; of the regions of 24 campaigns on model F 3 to 6 %
/// were healthy in the median with 0.09 to 0.105, and 82 to 88 % of random anomalies lay in them.
const HEALTHY: f64 = 0.1;
/// The same as a part of the space's own healthy share, if that is less. Source: our choice, because a region says something
/// only if it is far purer than the space.
const PURER: f64 = 0.22;
/// What an anomalous workload is worth that lies in other regions too. Source: our choice, because regions that hold what no
/// other holds explain more together.
const SHARED: f64 = 0.1;
/// What any workload is worth besides. Source: our choice, so that a cut that loses nothing is not infinitely good.
const ANY: f64 = 0.02;
/// Part of the worth of a new region that an old one needs to be kept. Source: our choice, because what was measured inside
/// the old one still counts.
const KEPT: f64 = 0.8;
/// Workloads of the pool that a region has to hold. Source: our choice.
const LEAST: usize = 15;
/// Random points that the word of the trees is worth, at most; no more than were measured inside. Source: our choice; a
/// region that was never sampled then states about two thirds.
const BELIEF: f64 = 10.0;
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

/// What it is worth to have a workload inside.
fn worth(point: &Point, others: &[Inside<'_>]) -> f64 {
    let is_shared = others.iter().any(|region| region.holds(point));
    ANY + point.likely * if is_shared { SHARED } else { 1.0 }
}

/// A point of a pool, and what it is worth.
struct Labelled {
    point: Rc<Point>,
    worth: f64,
}

/// Labelled workloads.
struct Pool<'a> {
    /// Of each feature, as of [`Evidence`].
    words: &'a [Vec<FeatureValue>],
    rows: Vec<Labelled>,
    witness: Row,
    /// How likely workloads are to be, in the mean.
    pure: f64,
}

/// What regions are read from: what trees say of random workloads.
pub(super) struct Evidence<'a> {
    drawn: Rc<Drawn<'a>>,
    model: Rc<Model>,
    /// Random workloads of the space.
    own: Vec<Rc<Point>>,
    /// Probability that a workload of a region is anomalous, in the mean.
    pub(super) pure: f64,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(drawn: Rc<Drawn<'a>>, model: Rc<Model>) -> Self {
        let own = drawn.own.iter().map(|(workload, row)| {
            let likely = model.of(workload).probability.middle;
            Rc::new(Point { workload: Rc::clone(workload), row: *row, likely })
        });
        let own: Vec<Rc<Point>> = own.collect();
        let healthy = own.iter().map(|point| 1.0 - point.likely).sum::<f64>() / own.len() as f64;
        Self { drawn, model, own, pure: 1.0 - HEALTHY.min(PURER * healthy) }
    }

    fn point(&self, workload: Workload) -> Rc<Point> {
        let likely = self.model.of(&workload).probability.middle;
        Rc::new(Point { row: self.drawn.row(&workload), workload: Rc::new(workload), likely })
    }

    /// What trees say of a region; `None` if no workload of it can be drawn.
    pub(super) fn of(&self, region: &Region, measured: &[(&Workload, bool)], rng: &mut Pcg64) -> Option<Believed> {
        let random = self.random(region, rng);
        let share = random.iter().map(|point| point.likely).sum::<f64>() / random.len() as f64;
        let inside = measured.iter().filter(|(workload, _)| region.contains(workload)).count();
        (!random.is_empty()).then_some(Believed { share, worth: BELIEF.min(inside as f64) })
    }

    /// Whether a region holds so little of the space that trees hardly know it.
    pub(super) fn is_small(&self, region: &Region) -> bool {
        self.inside(region).take(LEAST).count() < LEAST
    }

    /// Whether a region is worth nearly as much as another.
    pub(super) fn is_worth_as_much(&self, region: &Region, other: &Region, others: &[&Region]) -> bool {
        let others = self.drawn.all(others);
        let worth = |region: &Region| -> f64 { self.inside(region).map(|point| worth(point, &others)).sum() };
        worth(region) >= KEPT * worth(other)
    }

    /// Those of the space's random workloads that lie in a region.
    fn inside(&self, region: &Region) -> impl Iterator<Item = &Rc<Point>> {
        let region = self.drawn.inside(region);
        self.own.iter().filter(move |point| region.holds(point))
    }

    /// Random workloads of a region.
    fn random(&self, region: &Region, rng: &mut Pcg64) -> Vec<Rc<Point>> {
        let mut random: Vec<_> = self.inside(region).cloned().collect();
        let missing = POOL.saturating_sub(random.len());
        let others = self.drawn.space.samples_within(region, rng).take(missing);
        random.extend(others.map(|workload| self.point(workload)));
        random
    }
}

/// A large region around the witness, within `hull`, of which workloads are anomalous, with the share that is; `None` if
/// no workload of it can be drawn.
pub(super) fn read(
    evidence: &Evidence<'_>,
    hull: &Region,
    witness: &Workload,
    measured: &[(&Workload, bool)],
    others: &[&Region],
    rng: &mut Pcg64,
) -> Option<(Region, f64)> {
    let pure = evidence.pure;
    let mut region = hull.clone();
    for round in 0..=ROUNDS {
        let pool = Pool::new(evidence, witness, evidence.random(&region, rng), others);
        let whole = pool.whole();
        let share = pool.sum(&whole).mean()?;
        if share >= pure || round == ROUNDS {
            return Some((reached(region, hull, measured, witness), share));
        }
        let pasted = pool.paste(pool.peel(whole.clone()), &whole);
        for (at, feature) in Feature::ALL.into_iter().enumerate().filter(|(at, _)| pasted[*at] != whole[*at]) {
            let old = region.condition(feature).map(|condition| &condition.test);
            let test = pool.test(at, &pasted[at], &whole[at], old, witness);
            region.set(Condition { feature, test });
        }
    }
    None
}

/// The witness, and the anomalies that were measured inside a region.
pub(super) fn anomalies<'w>(
    region: &Region,
    measured: &[(&'w Workload, bool)],
    witness: &'w Workload,
) -> Vec<&'w Workload> {
    let inside = measured.iter().filter(|(workload, is_anomalous)| *is_anomalous && region.contains(workload));
    inside.map(|(workload, _)| *workload).chain([witness]).collect()
}

/// The region with each bound that was cut no farther out than an anomaly was measured: what lies between the last one and
/// the bound is a guess of the trees.
fn reached(mut region: Region, hull: &Region, measured: &[(&Workload, bool)], witness: &Workload) -> Region {
    let seen = anomalies(&region, measured, witness);
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
    fn new(evidence: &'a Evidence<'_>, witness: &Workload, random: Vec<Rc<Point>>, others: &[&Region]) -> Self {
        let others = evidence.drawn.all(others);
        let label = |point: Rc<Point>| Labelled { worth: worth(&point, &others), point };
        Self {
            words: &evidence.drawn.words,
            rows: random.into_iter().map(label).collect(),
            witness: evidence.drawn.row(witness),
            pure: evidence.pure,
        }
    }

    /// What the pool spans.
    fn whole(&self) -> Vec<Side> {
        let side = |at: usize| {
            if !Feature::ALL[at].is_ordered() {
                return Side::Without(Vec::new());
            }
            let numbers = || self.rows.iter().map(|one| one.point.row[at]).chain([self.witness[at]]);
            Side::Numbers(numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
        };
        (0..Feature::COUNT).map(side).collect()
    }

    fn inside<'p>(&'p self, sides: &'p [Side]) -> impl Iterator<Item = &'p Labelled> {
        self.rows.iter().filter(move |one| one.point.row.iter().zip(sides).all(|(value, side)| side.admits(*value)))
    }

    /// What is inside.
    fn sum(&self, sides: &[Side]) -> Sum {
        self.inside(sides).collect()
    }

    /// Peels off the whole what gains most for what goes, until the rest is anomalous, or nothing gains more.
    fn peel(&self, mut sides: Vec<Side>) -> Vec<Side> {
        let mut inside: Vec<&Labelled> = self.rows.iter().collect();
        loop {
            let now: Sum = inside.iter().copied().collect();
            let Some(mean) = now.mean().filter(|mean| *mean < self.pure) else { return sides };
            let mut best: Option<(f64, usize, Side)> = None;
            for (at, side) in sides.iter().enumerate() {
                for cut in self.cuts(at, side, &inside) {
                    let then: Sum = inside.iter().copied().filter(|one| cut.admits(one.point.row[at])).collect();
                    if !(LEAST..now.count).contains(&then.count) {
                        continue;
                    }
                    let gain = (then.mean().unwrap_or(0.0) - mean) / (now.worth - then.worth);
                    if gain > 0.0 && best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                        best = Some((gain, at, cut));
                    }
                }
            }
            let Some((_, at, cut)) = best else { return sides };
            inside.retain(|one| cut.admits(one.point.row[at]));
            sides[at] = cut;
        }
    }

    /// The cuts of one feature that keep the witness: a word less, or an end of the range with the least part that a peel
    /// takes, or more if workloads share the value there.
    fn cuts(&self, at: usize, side: &Side, inside: &[&Labelled]) -> Vec<Side> {
        let witness = self.witness[at];
        let mut values: Vec<u64> = inside.iter().map(|one| one.point.row[at]).collect();
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

    /// Gives up each bound that purity does not need, first the one that keeps most away.
    fn paste(&self, mut sides: Vec<Side>, whole: &[Side]) -> Vec<Side> {
        let pure = self.sum(&sides).mean().map_or(self.pure, |mean| mean.min(self.pure));
        loop {
            let mut best: Option<(f64, usize, Side)> = None;
            for at in 0..sides.len() {
                for wider in looser(&sides[at], &whole[at]) {
                    let before = std::mem::replace(&mut sides[at], wider);
                    let sum = self.sum(&sides);
                    let wider = std::mem::replace(&mut sides[at], before);
                    let is_pure = sum.mean().is_some_and(|mean| mean >= pure);
                    if is_pure && best.as_ref().is_none_or(|best| sum.worth > best.0) {
                        best = Some((sum.worth, at, wider));
                    }
                }
            }
            let Some((_, at, wider)) = best else { return sides };
            sides[at] = wider;
        }
    }

    /// A cut as a test, together with what was tested before.
    fn test(&self, at: usize, side: &Side, whole: &Side, old: Option<&Test>, witness: &Workload) -> Test {
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
        // Those first by which rows are numbered; the witness may join several that no random workload does.
        let words = self.words[at].iter().enumerate();
        let kept = words.filter(|(word, value)| side.admits(*word as u64) && is_old(value)).map(|(_, value)| value);
        let mut kept: Vec<FeatureValue> = kept.cloned().collect();
        let own = witness.feature(feature);
        if !kept.contains(&own) {
            kept.push(own);
        }
        Test::In(kept.into_iter().filter_map(FeatureValue::into_word).collect())
    }
}

/// Several workloads of a pool.
#[derive(Default)]
struct Sum {
    count: usize,
    likely: f64,
    worth: f64,
}

impl Sum {
    /// How likely one of them is anomalous.
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.likely / self.count as f64)
    }
}

impl<'p> FromIterator<&'p Labelled> for Sum {
    fn from_iter<I: IntoIterator<Item = &'p Labelled>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), |sum, one| Self {
            count: sum.count + 1,
            likely: sum.likely + one.point.likely,
            worth: sum.worth + one.worth,
        })
    }
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
    use std::collections::BTreeMap;

    use kelpie_belief::Outcome;
    use kelpie_spaces::Space;
    use rand::SeedableRng;

    use super::*;
    use crate::closed_form::{Weakness, at_least, at_most, one_of};

    fn learnt<'w>(measured: &[(&'w Workload, bool)]) -> BTreeMap<&'w Workload, Outcome> {
        let outcome = |is_anomalous: bool| Outcome { is_anomalous, is_aimed: false };
        measured.iter().map(|(workload, is_anomalous)| (*workload, outcome(*is_anomalous))).collect()
    }

    #[test]
    fn a_region_is_read_from_random_points() {
        let space = Space::catalog("full").expect("in the catalog");
        let conditions =
            [one_of(Feature::Opcode, &["SEND"]), at_least(Feature::TotalQps, 64), at_most(Feature::MessageMax, 8192)];
        let weakness = Weakness::new(kelpie_monitor::Symptom::Pause, &conditions);
        let mut rng = Pcg64::seed_from_u64(1);
        let points: Vec<Workload> = (0..600).map(|_| space.sample(&mut rng)).collect();
        let measured: Vec<(&Workload, bool)> = points.iter().map(|point| (point, weakness.holds(point))).collect();
        let model = Model::learn(&learnt(&measured)).expect("there are points");
        let witness = points.iter().find(|point| weakness.holds(point)).expect("some hold");
        let evidence = Evidence::new(Rc::new(Drawn::of(&space)), Rc::new(model));
        let (region, share) =
            read(&evidence, &Region::default(), witness, &measured, &[], &mut rng).expect("it shows clearly");
        assert!(region.contains(witness) && share >= evidence.pure, "{share}: {region}");
        let inside: Vec<Workload> = (0..300).filter_map(|_| space.sample_in(&region, &mut rng)).collect();
        let healthy = inside.iter().filter(|point| !weakness.holds(point)).count();
        assert!(healthy * 10 <= inside.len(), "{healthy} of {} in {region}", inside.len());
        let fresh: Vec<Workload> = (0..2000).map(|_| space.sample(&mut rng)).filter(|w| weakness.holds(w)).collect();
        let held = fresh.iter().filter(|point| region.contains(point)).count();
        assert!(held * 2 >= fresh.len(), "{held} of {} in {region}", fresh.len());
    }

    #[test]
    fn a_region_has_words_that_workloads_join_of_several() {
        let space = Space::catalog("rpc-library").expect("in the catalog");
        let mut rng = Pcg64::seed_from_u64(5);
        let points: Vec<Workload> = (0..600).map(|_| space.sample(&mut rng)).collect();
        let is_mixed = |point: &Workload| point.feature(Feature::Opcode).to_string().contains('+');
        let measured: Vec<(&Workload, bool)> = points.iter().map(|point| (point, is_mixed(point))).collect();
        let model = Model::learn(&learnt(&measured)).expect("there are points");
        let witness = points.iter().find(|point| is_mixed(point)).expect("some are");
        let evidence = Evidence::new(Rc::new(Drawn::of(&space)), Rc::new(model));
        let (region, _) =
            read(&evidence, &Region::default(), witness, &measured, &[], &mut rng).expect("it shows clearly");
        assert!(region.condition(Feature::Opcode).is_some(), "{region}");
        let held = points.iter().filter(|point| is_mixed(point) && region.contains(point)).count();
        assert!(
            region.contains(witness) && held * 2 > points.iter().filter(|point| is_mixed(point)).count(),
            "{region}"
        );
    }

    #[test]
    fn what_nothing_supports_is_hardly_believed() {
        let space = Space::catalog("full").expect("in the catalog");
        let mut rng = Pcg64::seed_from_u64(2);
        let points: Vec<Workload> = (0..200).map(|_| space.sample(&mut rng)).collect();
        let measured: Vec<(&Workload, bool)> = points.iter().map(|point| (point, false)).collect();
        let model = Model::learn(&learnt(&measured)).expect("there are points");
        let evidence = Evidence::new(Rc::new(Drawn::of(&space)), Rc::new(model));
        let (_, share) =
            read(&evidence, &Region::default(), &points[0], &measured, &[], &mut rng).expect("points can be drawn");
        assert!(share < 0.1, "{share}");
    }

    #[test]
    fn a_region_prefers_what_no_other_holds() {
        let space = Space::catalog("full").expect("in the catalog");
        let mut rng = Pcg64::seed_from_u64(3);
        // Two weaknesses that many workloads show at once; the other region holds all of the second one.
        let few = Weakness::new(kelpie_monitor::Symptom::Pause, &[at_most(Feature::TotalQps, 16)]);
        let short = Weakness::new(kelpie_monitor::Symptom::Pause, &[at_most(Feature::MessageMax, 1024)]);
        let points: Vec<Workload> = (0..600).map(|_| space.sample(&mut rng)).collect();
        let measured: Vec<(&Workload, bool)> =
            points.iter().map(|point| (point, few.holds(point) || short.holds(point))).collect();
        let model = Model::learn(&learnt(&measured)).expect("there are points");
        let witness = points.iter().find(|point| few.holds(point) && short.holds(point)).expect("some show both");
        let evidence = Evidence::new(Rc::new(Drawn::of(&space)), Rc::new(model));
        let other = Region { conditions: vec![at_most(Feature::MessageMax, 1024)] };
        let (region, _) =
            read(&evidence, &Region::default(), witness, &measured, &[&other], &mut rng).expect("it shows clearly");
        let fresh: Vec<Workload> = (0..2000).map(|_| space.sample(&mut rng)).collect();
        let held = |is: &dyn Fn(&Workload) -> bool| {
            let all: Vec<&Workload> = fresh.iter().filter(|point| is(point)).collect();
            all.iter().filter(|point| region.contains(point)).count() as f64 / all.len() as f64
        };
        let (own, shared) = (held(&|w| few.holds(w) && !short.holds(w)), held(&|w| short.holds(w) && !few.holds(w)));
        assert!(own > 0.5 && own > 2.0 * shared, "{own} and {shared} in {region}");
    }
}
