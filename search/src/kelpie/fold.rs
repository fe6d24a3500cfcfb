//! Variants: findings that are one weakness seen twice. The simpler of the two stays.

use super::Search;
use super::open_finding::OpenFinding;
use super::signature::Signature;
use crate::oracle::Oracle;

/// Distance of signatures up to which two findings are of one weakness if the other has all factors of the simpler one,
/// and if they share one. Source: our choice; on two embedded and three drawn models 74 % of the variants by the first
/// have the limiting part of their finding, and 72 % by both, which leave 13 % fewer findings.
const COVERED: f64 = 0.7;
const SHARED: f64 = 0.5;

impl<O: Oracle> Search<'_, O> {
    /// Tells variants from other findings anew, and stores what changed.
    pub(super) fn fold(&mut self) -> Result<(), O::Error> {
        let signatures: Vec<Signature> = self.findings.iter().map(|known| self.signature(known)).collect();
        let mut order: Vec<usize> = (0..self.findings.len()).collect();
        // What was measured is no variant of what was not.
        order.sort_by_key(|index| (self.findings[*index].needed.is_none(), self.findings[*index].factors.len()));
        let mut firsts: Vec<usize> = Vec::new();
        let mut changed = Vec::new();
        for index in order {
            let known = &self.findings[index];
            let alike = firsts.iter().filter_map(|first| {
                let pair = [&signatures[*first], &signatures[index]];
                let distance = pair[0].distance(pair[1]);
                let most = most_apart(&self.findings[*first], known, pair)?;
                (distance <= most).then_some((distance, *first))
            });
            let variant_of = alike.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, first)| first);
            if variant_of.is_none() {
                firsts.push(index);
            }
            if known.variant_of != variant_of {
                changed.push((index, variant_of));
            }
        }
        for (index, variant_of) in changed {
            self.findings[index].variant_of = variant_of;
            self.store(index)?;
        }
        Ok(())
    }
}

/// How far apart the signatures of a finding and its variant may be; `None` if it can be none.
fn most_apart(first: &OpenFinding, other: &OpenFinding, [own, others]: [&Signature; 2]) -> Option<f64> {
    if first.says_as_much_as(other) {
        return Some(f64::INFINITY);
    }
    if first.symptom != other.symptom {
        // The stronger symptom, of which the other's further conditions keep a part away.
        let is_masked = first.symptom < other.symptom
            && first.needed.is_some()
            && first.contains(&other.witness)
            && own.is_in(&first.seen, &other.seen);
        return is_masked.then_some(f64::INFINITY);
    }
    if first.opposes(other) || !other.shares_words(first) {
        return None;
    }
    let covers = |one: &OpenFinding, other: &OpenFinding| one.covers(other.symptom, &other.witness);
    match (covers(first, other), covers(other, first)) {
        // Each holds the other.
        (true, true) if own.has_in_common(others) => return Some(f64::INFINITY),
        (true, _) => return Some(COVERED),
        _ => {}
    }
    let is_alike = first.shares_transport(other) && first.shares_factor(other) && first.shares_words(other);
    (is_alike && own.says_something() && others.says_something()).then_some(SHARED)
}
