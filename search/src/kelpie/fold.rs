//! Variants: findings that are one weakness seen twice. The simpler of the two stays.

use super::Search;
use super::factors::TRANSPORT;
use super::known::Known;
use super::signature::Signature;
use crate::oracle::Oracle;

/// Distance of signatures up to which findings are of one weakness. Source: our choice.
const ALIKE: f64 = 0.7;

impl<O: Oracle> Search<'_, O> {
    /// Tells variants from other findings anew, and stores what changed.
    pub(super) fn fold(&mut self) -> Result<(), O::Error> {
        let signatures: Vec<Signature> = self.findings.iter().map(|known| self.signature(known)).collect();
        let mut order: Vec<usize> = (0..self.findings.len()).collect();
        order.sort_by_key(|index| self.findings[*index].factors.len());
        let mut firsts: Vec<usize> = Vec::new();
        let mut changed = Vec::new();
        for index in order {
            let known = &self.findings[index];
            let distance = |first: &usize| signatures[*first].distance(&signatures[index]);
            let alike = firsts
                .iter()
                .filter(|first| covers(&self.findings[**first], known))
                .map(|first| (distance(first), *first));
            let nearest = alike.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(distance, _)| *distance <= ALIKE);
            let variant_of = nearest.map(|(_, first)| first);
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

/// Whether the other shows the same symptom with all factors of this one away from plain, and with a transport of this one.
fn covers(first: &Known, other: &Known) -> bool {
    let is_transport = || {
        let mut conditions = first.region.conditions.iter().filter(|condition| TRANSPORT.contains(&condition.feature));
        conditions.all(|condition| condition.holds(&other.witness))
    };
    first.symptom == other.symptom && first.level(&other.witness) > 0.0 && is_transport()
}
