//! Two hosts side by side: what should be the same on both. Each host by itself is elsewhere.

use super::Examination;
use crate::check::{Check, CheckState};
use crate::checks::CheckKind;

/// A check for every fact that both hosts reported: the same, or different.
pub fn compare(a: &Examination, b: &Examination) -> Vec<Check> {
    let both = a.facts.iter().filter_map(|(name, of_a)| Some((name, of_a, b.facts.get(name)?)));
    both.map(|(name, of_a, of_b)| {
        // Another version of Kelpie may report a fact that this one does not know.
        let kind = CheckKind::of_fact(name).unwrap_or(CheckKind::SameOther);
        let check = if of_a == of_b {
            Check::new(kind, CheckState::Pass, format!("{of_a} on both"))
        } else {
            let check = Check::new(kind, CheckState::Warn, format!("a has {of_a}, b has {of_b}"));
            kind.row().repairs.iter().fold(check, |check, repair| check.repair(*repair, &[]))
        };
        Check { name: name.clone(), ..check }.about("pair").seen("host a", of_a).seen("host b", of_b)
    })
    .chain(rates(a, b))
    .collect()
}

/// How much more one host may count than the other. Source: our choice, because errors come in bursts.
const MUCH_MORE: f64 = 2.0;

/// A check for every rate that both hosts have. Totals are not compared: a host that was started earlier counts more.
fn rates<'a>(a: &'a Examination, b: &'a Examination) -> impl Iterator<Item = Check> + 'a {
    let both = a.rates.iter().filter_map(|(name, of_a)| Some((name, *of_a, *b.rates.get(name)?)));
    both.filter_map(|(name, of_a, of_b)| {
        let kind = CheckKind::of_fact(name)?;
        let is_much_more = of_a.max(of_b) > MUCH_MORE * of_a.min(of_b);
        let check = if is_much_more {
            let (worse, more, less) = if of_a > of_b { ("a", of_a, of_b) } else { ("b", of_b, of_a) };
            let check =
                Check::new(kind, CheckState::Warn, format!("{worse} counts {more:.3}/s, the other {less:.3}/s"));
            kind.row().repairs.iter().fold(check, |check, repair| check.repair(*repair, &[]))
        } else {
            Check::new(kind, CheckState::Pass, format!("a counts {of_a:.3}/s, b counts {of_b:.3}/s"))
        };
        Some(check.about("pair").seen("host a", format!("{of_a}/s")).seen("host b", format!("{of_b}/s")))
    })
}
