//! Two hosts side by side: what should be the same on both. Each host by itself is elsewhere.

use super::Examination;
use crate::check::{Check, State};
use crate::checks::CheckKind;

/// A check for every fact that both hosts reported: the same, or different.
pub fn compare(a: &Examination, b: &Examination) -> Vec<Check> {
    let both = a.facts.iter().filter_map(|(name, of_a)| Some((name, of_a, b.facts.get(name)?)));
    both.map(|(name, of_a, of_b)| {
        // Another version of Kelpie may report a fact that this one does not know.
        let kind = CheckKind::of_fact(name).unwrap_or(CheckKind::SameOther);
        let check = if of_a == of_b {
            Check::new(kind, State::Pass, format!("{of_a} on both"))
        } else {
            let check = Check::new(kind, State::Warn, format!("a has {of_a}, b has {of_b}"));
            kind.row().repairs.iter().fold(check, |check, repair| check.repair(*repair, &[]))
        };
        Check { name: name.clone(), ..check }.about("pair").seen("host a", of_a).seen("host b", of_b)
    })
    .collect()
}
