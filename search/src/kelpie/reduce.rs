//! Which of the features in which two workloads differ matter: adaptive group testing. Features that probably do not
//! matter are moved together, so that a few experiments clear most of them.

use std::collections::BTreeMap;

use kelpie_spaces::{Feature, Workload};

use super::experiments::Experiments;
use super::factors::{TRADES, differing, moved, traded};
use crate::oracle::Oracle;

/// How often each feature was tested, and how often it mattered.
#[derive(Debug, Default)]
pub(super) struct Needs(pub(super) BTreeMap<Feature, [u32; 2]>);

impl Needs {
    /// How probable it is that a feature matters. Source: the mean of a Beta distribution that begins with one feature
    /// in four, which is our choice.
    fn of(&self, feature: Feature) -> f64 {
        let [needed, tested] = self.0.get(&feature).copied().unwrap_or_default();
        (f64::from(needed) + 0.5) / (f64::from(tested) + 2.0)
    }

    fn learn(&mut self, feature: Feature, is_needed: bool) {
        let row = self.0.entry(feature).or_default();
        row[0] += u32::from(is_needed);
        row[1] += 1;
    }
}

/// What a workload on the way shows.
pub(super) enum ReductionOutcome {
    /// What is reduced is still there.
    Holds,
    /// It is not.
    Gone,
    /// It is, and nothing more is to be learnt.
    Enough,
}

/// What is left of a way from one workload to another.
pub(super) struct Reduced {
    /// The workload nearest to the target that still holds.
    pub(super) workload: Workload,
    /// The features that have to stay.
    pub(super) needed: Vec<Feature>,
}

/// The same, with one feature more given up for each that another one makes up for.
pub(super) fn reduce_and_trade<'a, O: Oracle>(
    lab: &mut Experiments<'a, O>,
    needs: &mut Needs,
    from: &Workload,
    to: &Workload,
    mut ask: impl FnMut(&mut Experiments<'a, O>, &Workload) -> Result<ReductionOutcome, O::Error>,
) -> Result<Reduced, O::Error> {
    let mut enough = false;
    let mut reduced = reduce(lab, needs, from, to, |lab, workload| {
        let answer = ask(lab, workload)?;
        enough = matches!(answer, ReductionOutcome::Enough);
        Ok(answer)
    })?;
    for trade in TRADES {
        let Some(workload) = traded(lab.space, &reduced.workload, to, trade).filter(|_| !enough) else { continue };
        let answer = ask(lab, &workload)?;
        enough = matches!(answer, ReductionOutcome::Enough);
        if !matches!(answer, ReductionOutcome::Gone) {
            reduced.needed.retain(|feature| workload.feature(*feature) != to.feature(*feature));
            if !reduced.needed.contains(&trade.1) {
                reduced.needed.push(trade.1);
            }
            reduced.workload = workload;
        }
    }
    Ok(reduced)
}

/// Moves `from`, which holds, towards `to` in all features that can follow while it holds.
fn reduce<'a, O: Oracle>(
    lab: &mut Experiments<'a, O>,
    needs: &mut Needs,
    from: &Workload,
    to: &Workload,
    mut ask: impl FnMut(&mut Experiments<'a, O>, &Workload) -> Result<ReductionOutcome, O::Error>,
) -> Result<Reduced, O::Error> {
    let mut here = from.clone();
    let mut needed = Vec::new();
    let mut open = differing(from, to);
    while !open.is_empty() {
        open.sort_by(|a, b| needs.of(*a).total_cmp(&needs.of(*b)));
        let mut group = vec![open.remove(0)];
        let mut clear = 1.0 - needs.of(group[0]);
        while let Some(next) = open.first().filter(|next| clear * (1.0 - needs.of(**next)) >= 0.5) {
            clear *= 1.0 - needs.of(*next);
            group.push(open.remove(0));
        }
        // Halves the group until the feature that matters is alone.
        let mut is_guilty = false;
        while !group.is_empty() {
            if group.len() == 1 && is_guilty {
                needs.learn(group[0], true);
                needed.push(group[0]);
                break;
            }
            let half = if is_guilty { group.len() / 2 } else { group.len() };
            let rest = group.split_off(half);
            // What the rules hold back is no feature of its own.
            let Some(next) = moved(lab.space, &here, &group, to) else {
                group = rest;
                continue;
            };
            match ask(lab, &next)? {
                ReductionOutcome::Enough => return Ok(Reduced { workload: next, needed }),
                ReductionOutcome::Holds => {
                    here = next;
                    for feature in group {
                        needs.learn(feature, false);
                    }
                    group = rest;
                }
                ReductionOutcome::Gone => {
                    open.extend(rest);
                    is_guilty = true;
                }
            }
        }
        // What followed along needs no test of its own.
        open.retain(|feature| here.feature(*feature) != to.feature(*feature));
    }
    needed.retain(|feature| here.feature(*feature) != to.feature(*feature));
    Ok(Reduced { workload: here, needed })
}
