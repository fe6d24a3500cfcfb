//! What an anomaly needs, each condition measured at its witness: from where on, and with which words.

use std::collections::BTreeSet;
use std::iter;
use std::rc::Rc;

use kelpie_monitor::Symptom;
use kelpie_spaces::{Condition, Feature, FeatureValue, Region, Space, Test, Workload};

use super::experiments::{Experiments, SearchExperiment, keeps, shows};
use super::factors::{FOLLOWERS, candidates, differing, moved};
use super::signature::Signature;
use crate::finding::{Cure, TriedTransport};
use crate::oracle::{Oracle, Purpose};

/// A workload that shows an anomaly, of which is asked what it needs.
pub(super) struct Witness<'l, 'a, O: Oracle> {
    pub(super) lab: &'l mut Experiments<'a, O>,
    pub(super) symptom: Symptom,
    pub(super) workload: Workload,
    /// What it shows.
    pub(super) seen: Rc<SearchExperiment>,
    /// Plain traffic of its transport.
    pub(super) plain: Workload,
}

/// What a witness needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Needed {
    /// One for each factor that can be broken alone.
    pub(super) cures: Vec<Cure>,
    /// What was tried, the witness's own first.
    pub(super) transports: Vec<TriedTransport>,
}

impl Needed {
    /// Its conditions.
    pub(super) fn region(&self) -> Region {
        let mut conditions = transport_conditions(&self.transports);
        conditions.extend(self.cures.iter().map(|cure| cure.condition.clone()));
        conditions.sort();
        Region { conditions }
    }
}

impl<O: Oracle> Witness<'_, '_, O> {
    /// Whether a workload still shows the anomaly; `None` if there is no verdict.
    pub(super) fn shows(&mut self, workload: &Workload) -> Result<Option<bool>, O::Error> {
        let seen = self.lab.look(workload, Purpose::Mfs)?;
        Ok(shows(self.symptom, &self.seen, &seen))
    }

    /// Becomes simpler as long as it does not need some factor; the factors that are left.
    pub(super) fn settle(&mut self, mut factors: Vec<Feature>) -> Result<Vec<Feature>, O::Error> {
        while let Some(simpler) = self.simpler(&factors)? {
            self.take(simpler)?;
            let left = differing(&self.workload, &self.plain);
            factors.retain(|factor| left.contains(factor));
        }
        Ok(factors)
    }

    /// Becomes another workload.
    pub(super) fn take(&mut self, workload: Workload) -> Result<(), O::Error> {
        self.seen = self.lab.look(&workload, Purpose::Mfs)?;
        self.workload = workload;
        Ok(())
    }

    /// The witness without a factor that it does not need.
    fn simpler(&mut self, factors: &[Feature]) -> Result<Option<Workload>, O::Error> {
        for factor in factors {
            let Some(without) = moved(self.lab.space, &self.workload, &[*factor], &self.plain) else { continue };
            let seen = self.lab.look(&without, Purpose::Mfs)?;
            if keeps(self.symptom, &self.seen, &seen) {
                return Ok(Some(without));
            }
        }
        Ok(None)
    }

    /// What the witness needs of these features, and with which transports and operations.
    pub(super) fn needs(&mut self, factors: &[Feature]) -> Result<Needed, O::Error> {
        let mut signature = Signature::default();
        let mut open = Vec::new();
        for factor in factors {
            // What the rules hold back nobody can break alone.
            let Some(without) = moved(self.lab.space, &self.workload, &[*factor], &self.plain) else { continue };
            if self.shows(&without)? == Some(false) {
                let cured = self.lab.look(&without, Purpose::Mfs)?;
                signature.add(&self.seen, &cured);
                open.push(*factor);
            }
        }
        // A space without the plain word has no traffic to go back to, and plain traffic may be what shows it, but
        // other words may do.
        let is_plain = factors.is_empty();
        let has_others = |feature: &Feature| is_plain && !feature.is_ordered() || lacks_plain(self.lab.space, *feature);
        open.extend(candidates().filter(|feature| !factors.contains(feature) && has_others(feature)));
        let mut cures = Vec::new();
        for factor in open {
            let (test, sides) = match (self.workload.feature(factor), self.plain.feature(factor)) {
                (FeatureValue::Number(own), FeatureValue::Number(plain)) => self.range(factor, own, plain)?,
                (own, _) => self.words(factor, &own, &signature)?,
            };
            // What shows at every value is cured by what the rules move with it.
            if !sides.is_empty() {
                cures.push(Cure { condition: Condition { feature: factor, test }, cured: Some(true), sides });
            }
        }
        leave_out_followers(&mut cures);
        let transports = self.transports(&cures, &signature)?;
        Ok(Needed { cures, transports })
    }

    /// Whether a workload still shows the anomaly, by the same counters; `None` if there is no verdict.
    fn shows_by(&mut self, workload: &Workload, signature: &Signature) -> Result<Option<bool>, O::Error> {
        let seen = self.lab.look(workload, Purpose::Mfs)?;
        Ok(shows(self.symptom, &self.seen, &seen).map(|is_there| is_there && signature.is_in(&self.seen, &seen)))
    }

    /// The bounds of a number, towards plain traffic and away from it.
    fn range(&mut self, factor: Feature, own: u64, plain: u64) -> Result<(Test, Vec<[Workload; 2]>), O::Error> {
        let values = self.lab.space.feature_values(factor);
        let values: BTreeSet<u64> = values.iter().filter_map(FeatureValue::number).collect();
        let above: Vec<u64> = values.range(own + 1..).copied().collect();
        let below: Vec<u64> = values.range(..own).rev().copied().collect();
        let (towards, away) = if plain > own { (above, below) } else { (below, above) };
        // What lies beyond plain traffic is no way back to it.
        let towards = towards.into_iter().filter(|value| value.abs_diff(own) <= plain.abs_diff(own)).collect();
        let (mut sides, mut bounds) = (Vec::new(), [None; 2]);
        let [lower, upper] = if plain > own { [away, towards] } else { [towards, away] };
        for (bound, values) in bounds.iter_mut().zip([lower, upper]) {
            if let Some((at, side)) = self.bound(factor, values, own)? {
                *bound = Some(at);
                sides.push(side);
            }
        }
        let [min, max] = bounds;
        Ok((Test::Range { min, max }, sides))
    }

    /// The last of some values, from the witness's own on, at which the symptom shows, with the workloads there and at
    /// the next one; nothing if it shows at all.
    fn bound(&mut self, factor: Feature, values: Vec<u64>, own: u64) -> Result<Option<(u64, [Workload; 2])>, O::Error> {
        let at = |workload: &Workload, value: u64| {
            let changed = self.lab.space.with_feature(workload, factor, &FeatureValue::Number(value))?;
            (changed.feature(factor) == FeatureValue::Number(value)).then_some((value, changed))
        };
        let own = (own, self.workload.clone());
        let mut points: Vec<_> =
            iter::once(own).chain(values.into_iter().filter_map(|value| at(&self.workload, value))).collect();
        // What has no verdict is no bound: the one before it is asked.
        while points.len() > 1 && self.shows(&points[points.len() - 1].1)?.is_none() {
            points.pop();
        }
        let last = points.len() - 1;
        if self.shows(&points[last].1)? != Some(false) {
            return Ok(None);
        }
        let mut inside = 0;
        loop {
            let outside = self.bisect(&mut points, inside)?;
            // Beyond the bound the symptom may show again.
            let middle = outside.midpoint(points.len() - 1);
            if self.shows(&points[middle].1)? != Some(true) {
                let [(at, shows), (_, gone)] = [&points[outside - 1], &points[outside]];
                return Ok(Some((*at, [shows.clone(), gone.clone()])));
            }
            inside = middle;
        }
    }

    /// The first point without the symptom behind this one, which has it, if there is one border; the last has it not.
    /// What has no verdict is removed.
    fn bisect(&mut self, points: &mut Vec<(u64, Workload)>, mut inside: usize) -> Result<usize, O::Error> {
        let mut outside = points.len() - 1;
        while inside + 1 < outside {
            let middle = inside.midpoint(outside);
            match self.shows(&points[middle].1)? {
                Some(true) => inside = middle,
                Some(false) => outside = middle,
                None => {
                    points.remove(middle);
                    outside -= 1;
                }
            }
        }
        Ok(outside)
    }

    /// The words with which the symptom shows.
    fn words(
        &mut self,
        factor: Feature,
        own: &FeatureValue,
        signature: &Signature,
    ) -> Result<(Test, Vec<[Workload; 2]>), O::Error> {
        let mut shown = vec![own.to_string()];
        let mut sides = Vec::new();
        for word in self.lab.space.feature_values(factor) {
            let changed = self.lab.space.with_feature(&self.workload, factor, &word);
            let Some(changed) = changed.filter(|_| word != *own) else { continue };
            match self.shows_by(&changed, signature)? {
                Some(true) => shown.push(word.to_string()),
                Some(false) => sides.push([self.workload.clone(), changed]),
                None => {}
            }
        }
        Ok((Test::In(shown), sides))
    }

    /// Tries the witness with each transport and operation that keeps its conditions.
    fn transports(&mut self, cures: &[Cure], signature: &Signature) -> Result<Vec<TriedTransport>, O::Error> {
        let region = Region { conditions: cures.iter().map(|cure| cure.condition.clone()).collect() };
        let own = TriedTransport::FEATURES.map(|feature| self.workload.feature(feature));
        let mut tried = vec![TriedTransport { qp_type: own[0].to_string(), opcode: own[1].to_string(), shows: true }];
        for qp_type in self.lab.space.feature_values(Feature::QpType) {
            for opcode in self.lab.space.feature_values(Feature::Opcode) {
                let changed = with_transport(self.lab.space, &self.workload, &qp_type, &opcode);
                let kept = changed.filter(|changed| region.contains(changed));
                if let Some(changed) = kept.filter(|_| [&qp_type, &opcode] != own.each_ref())
                    && let Some(shows) = self.shows_by(&changed, signature)?
                {
                    tried.push(TriedTransport { qp_type: qp_type.to_string(), opcode: opcode.to_string(), shows });
                }
            }
        }
        Ok(tried)
    }
}

/// Leaves out conditions that only follow others: what breaks one of them is what breaks another.
fn leave_out_followers(cures: &mut Vec<Cure>) {
    for follower in FOLLOWERS {
        let gone = |cure: &Cure| cure.sides.iter().map(|[_, gone]| gone.clone()).collect::<BTreeSet<Workload>>();
        let (own, others): (Vec<&Cure>, Vec<&Cure>) = cures.iter().partition(|cure| cure.condition.feature == follower);
        let Some(own) = own.first().map(|own| gone(own)) else { continue };
        if others.iter().any(|other| !gone(other).is_disjoint(&own)) {
            cures.retain(|cure| cure.condition.feature != follower);
        }
    }
}

/// Whether a space has words of a feature, but not the plain one.
fn lacks_plain(space: &Space, feature: Feature) -> bool {
    let values = space.feature_values(feature);
    !feature.is_ordered() && values.len() > 1 && feature.plain().is_some_and(|plain| !values.contains(&plain))
}

/// A workload with another transport and operation, in the order in which the rules admit them.
fn with_transport(
    space: &Space,
    workload: &Workload,
    qp_type: &FeatureValue,
    opcode: &FeatureValue,
) -> Option<Workload> {
    let pairs = [(Feature::QpType, qp_type), (Feature::Opcode, opcode)];
    let set = |pairs: [(Feature, &FeatureValue); 2]| {
        let changed = pairs
            .iter()
            .try_fold(workload.clone(), |here, (feature, value)| space.with_feature(&here, *feature, value))?;
        pairs.iter().all(|(feature, value)| changed.feature(*feature) == **value).then_some(changed)
    };
    set(pairs).or_else(|| set([pairs[1], pairs[0]]))
}

/// Reads a word of what was tried.
type TransportWord = fn(&TriedTransport) -> &String;

/// The weakest conditions on transport and operation that leave out all that was tried and does not show the symptom:
/// on the operation alone, on the transport alone, or on both, whichever holds for most of what shows it.
fn transport_conditions(tried: &[TriedTransport]) -> Vec<Condition> {
    let Some(own) = tried.first().filter(|_| tried.iter().any(|transport| !transport.shows)) else { return Vec::new() };
    let always = |word: TransportWord, among: &dyn Fn(&TriedTransport) -> bool| -> Vec<String> {
        let words: BTreeSet<&String> = tried.iter().map(word).collect();
        let shows =
            |one: &&String| tried.iter().filter(|other| among(other) && word(other) == *one).all(|one| one.shows);
        words.into_iter().filter(shows).cloned().collect()
    };
    let [qp_type, opcode]: [TransportWord; 2] = [|one| &one.qp_type, |one| &one.opcode];
    let condition = |feature: Feature, words: Vec<String>| Condition { feature, test: Test::In(words) };
    let with_own = always(opcode, &|other| other.qp_type == own.qp_type);
    let with_own: Vec<String> = with_own.into_iter().filter(|opcode| has_tried(tried, &own.qp_type, opcode)).collect();
    let types = always(qp_type, &|other| with_own.contains(&other.opcode));
    let types = types.into_iter().filter(|one| with_own.iter().any(|opcode| has_tried(tried, one, opcode))).collect();
    let forms = [
        vec![condition(Feature::Opcode, with_own), condition(Feature::QpType, types)],
        vec![condition(Feature::QpType, always(qp_type, &|_| true))],
        vec![condition(Feature::Opcode, always(opcode, &|_| true))],
    ];
    let holds = |conditions: &[Condition], one: &TriedTransport| {
        let word = |feature| {
            FeatureValue::Category(if feature == Feature::QpType { &one.qp_type } else { &one.opcode }.clone())
        };
        conditions.iter().all(|condition| condition.admits(&word(condition.feature)))
    };
    let holding = |form: &Vec<Condition>| tried.iter().filter(|one| holds(form, one)).count();
    // Of forms that hold for as many the last one: a single condition, on the operation if it can be.
    let forms = forms.into_iter().filter(|form| holds(form, own));
    forms.max_by_key(holding).expect("the first form holds for the witness's own")
}

fn has_tried(tried: &[TriedTransport], qp_type: &str, opcode: &str) -> bool {
    tried.iter().any(|one| one.qp_type == qp_type && one.opcode == opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `RC WRITE+` shows the symptom, `UC SEND-` does not.
    fn tried(text: &str) -> Vec<TriedTransport> {
        let one = |word: &str| {
            let (qp_type, opcode) = word.split_once('_').expect("a type and an operation");
            let shows = opcode.ends_with('+');
            TriedTransport {
                qp_type: qp_type.to_owned(),
                opcode: opcode.trim_end_matches(['+', '-']).to_owned(),
                shows,
            }
        };
        text.split(' ').map(one).collect()
    }

    #[test]
    fn the_weakest_conditions_leave_out_what_does_not_show() {
        for (text, expected) in [
            ("RC_WRITE+ RC_SEND+ UC_SEND+", ""),
            ("RC_READ+ RC_SEND- UC_SEND- UC_WRITE-", "opcode is READ"),
            ("RC_SEND+ UC_SEND+ UD_SEND+ RC_WRITE-", "opcode is SEND"),
            ("UD_SEND+ RC_SEND- RC_WRITE-", "qp_type is UD"),
            ("RC_WRITE+ RC_SEND+ RC_READ+ UC_SEND- UC_WRITE-", "qp_type is RC"),
            ("UD_SEND+ UC_SEND+ RC_SEND- UC_WRITE- RC_WRITE-", "qp_type is UC or UD and opcode is SEND"),
            ("UD_SEND+ RC_READ+ RC_SEND+ RC_WRITE+ UC_WRITE-", "qp_type is RC or UD"),
            ("RC_SEND+ RC_WRITE- UC_SEND+ UD_SEND-", "qp_type is RC or UC and opcode is SEND"),
            ("RC_WRITE+ RC_SEND+ RC_READ- UC_SEND- UC_WRITE-", "qp_type is RC and opcode is SEND or WRITE"),
        ] {
            let mut conditions = transport_conditions(&tried(text));
            conditions.sort();
            let said = if conditions.is_empty() { String::new() } else { Region { conditions }.to_string() };
            assert_eq!(said, expected, "{text}");
        }
    }
}
