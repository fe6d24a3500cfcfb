//! What the plots of a finding's conditions show: the symptom inside and outside of each bound. No drawing.

use kelpie_monitor::verdict::{LOW_SHARE, PAUSE_RATIO};
use kelpie_monitor::{Symptom, Verdict};
use kelpie_spaces::{Condition, Test};
use kelpie_store::Ended;
use kelpie_store::FindingRecord;

use super::plot::{Edge, Plot, Scale, Titled};
use crate::stored_campaign::{Point, StoredCampaign};
use crate::wording;

/// Conditions of one finding that are plotted. Source: our choice, because regions rarely have more with an order.
const MOST_EDGES: usize = 4;

/// One plot for each ordered condition that has measured workloads on both of its sides, and of these the first few.
pub(super) fn edges(stored: &StoredCampaign, record: &FindingRecord) -> Vec<Titled> {
    record.mfs.conditions.iter().filter_map(|condition| edge(stored, record, condition)).take(MOST_EDGES).collect()
}

fn edge(stored: &StoredCampaign, record: &FindingRecord, condition: &Condition) -> Option<Titled> {
    let Test::Range { min, max } = &condition.test else { return None };
    let others: Vec<&Condition> = record.mfs.conditions.iter().filter(|other| *other != condition).collect();
    let alike = stored.points.iter().filter(|point| others.iter().all(|other| other.holds(&point.workload)));
    let placed = |point: &Point| {
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
    let mut bounds: Vec<u64> = [min, max].into_iter().flatten().copied().collect();
    bounds.dedup();
    Some(Titled {
        slug: format!("finding-{}-{}", record.number, condition.feature.name().replace('_', "-")),
        title: wording::condition(condition),
        caption: format!(
            "The {} measured workloads that fulfil the other conditions, and {shown}. Crosses were \
             anomalous, with any symptom; circles were healthy. The upright lines are the condition.{}",
            points.len(),
            beyond(&points, inside)
        ),
        plot: Plot::Edge(Edge {
            feature: condition.feature,
            y_label: y_label.to_owned(),
            scale: Scale::of(record.symptom),
            points,
            bounds,
            limit,
        }),
    })
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
fn symptom_ratio(point: &Point, symptom: Symptom) -> Option<f64> {
    match symptom {
        Symptom::LowThroughput => point.utilisation,
        Symptom::HostFailure => None,
        Symptom::Pause => point.pause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::one_finding;

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
    fn a_pause_goes_by_the_largest_ratio() {
        let stored = one_finding();
        assert_eq!(symptom_ratio(&stored.points[1], Symptom::Pause), Some(0.2));
        assert_eq!(symptom_ratio(&stored.points[2], Symptom::Pause), None);
    }
}
