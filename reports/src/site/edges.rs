//! What the plots of a finding's conditions show: the symptom inside and outside of each bound. No drawing.

use std::collections::HashSet;

use kelpie_monitor::verdict::{LOW_SHARE, PAUSE_RATIO};
use kelpie_monitor::{Symptom, Verdict};
use kelpie_spaces::{Condition, Feature, Test};
use kelpie_store::Ended;
use kelpie_store::FindingRecord;

use super::plot::{Edge, Plot, Scale, Titled};
use crate::stored_campaign::{ExperimentSummary, StoredCampaign};
use crate::wording;

/// Conditions of one finding that are plotted. Source: our choice, because regions rarely have more with an order.
const MOST_EDGES: usize = 4;

/// Marks from which on those that nearly cover one another are drawn as one. Source: our choice, because a plot of more
/// takes a megabyte, and a browser seconds.
const MOST_MARKS: usize = 500;
/// Steps of a share, or of a decade of it, within which marks nearly cover one another. Source: our choice, two pixels.
const STEPS: f64 = 100.0;

/// One plot for each ordered condition that has measured workloads on both of its sides, and of these the first few.
pub(super) fn edges(stored: &StoredCampaign, record: &FindingRecord) -> Vec<Titled> {
    let conditions = record.region_by_need().conditions;
    conditions.iter().filter_map(|condition| edge(stored, record, condition)).take(MOST_EDGES).collect()
}

fn edge(stored: &StoredCampaign, record: &FindingRecord, condition: &Condition) -> Option<Titled> {
    let Test::Range { min, max } = &condition.test else { return None };
    let bisected = bisected(record, condition);
    let alike = stored.fulfilling(record.mfs.conditions.iter().filter(|other| *other != condition));
    // Workloads that differ in more say what other features do.
    let is_on_the_way = |point: &&ExperimentSummary| {
        bisected
            .as_ref()
            .is_none_or(|moved| record.workload.differing(&point.workload).iter().all(|one| moved.contains(one)))
    };
    let alike = alike.filter(is_on_the_way);
    let is_bisected = bisected.is_some();
    let placed = |point: &ExperimentSummary| {
        let value = point.workload.feature(condition.feature).number()?;
        Some((value, symptom_ratio(point, record.symptom)?, point.ended == Ended::Judged(Verdict::Anomalous)))
    };
    let points: Vec<(u64, f64, bool)> = alike.filter(|point| point.is_conclusive()).filter_map(placed).collect();
    let inside = |value: &u64| min.is_none_or(|min| *value >= min) && max.is_none_or(|max| *value <= max);
    let inside_count = points.iter().filter(|(value, ..)| inside(value)).count();
    if inside_count == 0 || inside_count == points.len() {
        return None;
    }
    let (y_label, limit) = match record.symptom {
        Symptom::Pause => ("share of the time", (PAUSE_RATIO, wording::percent(PAUSE_RATIO))),
        Symptom::LowThroughput => ("share of the port", (LOW_SHARE, format!("{:.0} %", LOW_SHARE * 100.0))),
        Symptom::HostFailure => return None,
    };
    let shown = match record.symptom {
        Symptom::Pause => "the largest of their pause ratios",
        _ => "the use of the port by their slowest direction",
    };
    let scale = Scale::of(record.symptom);
    let marks = apart(&points, scale);
    let mut bounds: Vec<u64> = [min, max].into_iter().flatten().copied().collect();
    bounds.dedup();
    Some(Titled {
        slug: format!("finding-{}-{}", record.number, condition.feature.name().replace('_', "-")),
        title: wording::condition(condition),
        caption: format!(
            "The {} measured workloads that {}, and {shown}. Crosses were \
             anomalous, with any symptom; circles were healthy. The upright lines are the condition.{}{}",
            points.len(),
            if is_bisected { "differ from the finding's in nothing else" } else { "fulfil the other conditions" },
            covered(points.len(), marks.len()),
            beyond(&points, inside)
        ),
        plot: Plot::Edge(Edge {
            feature: condition.feature,
            y_label: y_label.to_owned(),
            scale,
            points: marks,
            bounds,
            limit,
        }),
    })
}

/// The features that move along a bound that was measured, on the finding's own workload; `None` if it was not.
fn bisected(record: &FindingRecord, condition: &Condition) -> Option<Vec<Feature>> {
    let cure = record.evidence()?.cures.into_iter().find(|cure| cure.condition == *condition)?;
    let moved = cure.sides.iter().flatten().flat_map(|side| record.workload.differing(side)).collect::<Vec<_>>();
    (!cure.sides.is_empty()).then_some(moved)
}

/// The marks to draw: of many that nearly cover one another the first.
fn apart(points: &[(u64, f64, bool)], scale: Scale) -> Vec<(u64, f64, bool)> {
    if points.len() <= MOST_MARKS {
        return points.to_vec();
    }
    let mut covered = HashSet::new();
    let is_new = |(value, share, is_anomalous): &&(u64, f64, bool)| {
        covered.insert((*value, (scale.place(*share) * STEPS).round() as i64, *is_anomalous))
    };
    points.iter().filter(is_new).copied().collect()
}

/// What the caption says of marks that are not drawn.
fn covered(points: usize, marks: usize) -> String {
    if points == marks {
        return String::new();
    }
    format!(" {marks} of them are drawn: one mark stands for all that it would nearly cover.")
}

/// Why workloads beyond the condition may be anomalous, and those within it healthy, if there are such.
fn beyond(points: &[(u64, f64, bool)], inside: impl Fn(&u64) -> bool) -> String {
    let count = |within: bool, anomalous: bool| {
        points.iter().filter(|(value, _, is)| inside(value) == within && *is == anomalous).count()
    };
    let be = |count: usize| if count == 1 { "is" } else { "are" };
    let (outside, healthy) = (count(false, true), count(true, false));
    let outside = (outside > 0).then(|| {
        format!(
            " {outside} beyond the condition {} anomalous too: the condition is what this finding claims, and what lies \
             beyond it belongs to other findings, or is not explained.",
            be(outside)
        )
    });
    let healthy = (healthy > 0)
        .then(|| format!(" {healthy} within it {} healthy, which is why the confidence is below 1.", be(healthy)));
    [outside, healthy].into_iter().flatten().collect()
}

/// What the symptom goes by.
fn symptom_ratio(point: &ExperimentSummary, symptom: Symptom) -> Option<f64> {
    match symptom {
        Symptom::LowThroughput => point.utilisation,
        Symptom::HostFailure => None,
        Symptom::Pause => point.pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{measured, one_finding, sample, workload};

    #[test]
    fn both_sides_of_a_bound_are_shown_and_one_side_is_not_enough() {
        let mut stored = one_finding();
        let plots = edges(&stored, &stored.findings[0]);
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].slug, "finding-1-qps");
        let Plot::Edge(edge) = &plots[0].plot else { panic!("an edge") };
        let places: Vec<(u64, bool)> = edge.points.iter().map(|(value, _, anomalous)| (*value, *anomalous)).collect();
        assert_eq!(places, [(1, false), (4, true), (2, false)], "neither inconclusive nor unsupported ones");
        assert_eq!(edge.bounds, [3]);
        stored.points.truncate(1);
        assert!(edges(&stored, &stored.findings[0]).is_empty());
    }

    #[test]
    fn marks_that_cover_one_another_are_one_and_the_caption_says_so() {
        let few: Vec<(u64, f64, bool)> = (0..400).map(|_| (4, 0.5, true)).collect();
        assert_eq!(apart(&few, Scale::Linear), few, "few are drawn as they are");
        let at = |number: u32| f64::from(number % 50) / 50.0;
        let many: Vec<(u64, f64, bool)> =
            (0..60_000).map(|number| (1 << (number % 3), at(number), number.is_multiple_of(2))).collect();
        let marks = apart(&many, Scale::Linear);
        assert_eq!(marks.len(), 150, "3 values, 50 shares, and the verdict of each share");
        for one in &many {
            assert!(marks.iter().any(|mark| mark.0 == one.0 && mark.2 == one.2 && (mark.1 - one.1).abs() < 0.011));
        }
        let mut stored = one_finding();
        for number in 0..700 {
            stored.take(measured(6 + number, workload(8, 4096), sample(0.2, None), vec![Symptom::LowThroughput]));
        }
        let plots = edges(&stored, &stored.findings[0]);
        let Plot::Edge(edge) = &plots[0].plot else { panic!("an edge") };
        assert_eq!(edge.points.len(), 4);
        assert!(plots[0].caption.contains("The 703 measured workloads"), "{}", plots[0].caption);
        assert!(plots[0].caption.contains(" 4 of them are drawn"), "{}", plots[0].caption);
    }

    #[test]
    fn a_pause_goes_by_the_largest_ratio() {
        let stored = one_finding();
        assert_eq!(symptom_ratio(&stored.points[1], Symptom::Pause), Some(0.2));
        assert_eq!(symptom_ratio(&stored.points[2], Symptom::Pause), None);
    }
}
