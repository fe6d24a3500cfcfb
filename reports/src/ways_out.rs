//! Ways out of an anomaly: changes of a workload with what is known of each, or with what measuring them shows.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_spaces::advice::{ManualChange, changes, changes_after};
use kelpie_spaces::{Condition, Feature, FeatureValue, Workload};
use serde::Serialize;

use crate::answer::{Adviser, Answer};
use crate::subsystem_history::StoredFinding;

/// Ways that are measured at most. Source: our choice; on real hosts they take some minutes.
const MEASURED: usize = 12;
/// Ways that are told. Source: our choice, because more are not read.
const TOLD: usize = 5;
/// First changes that are tried together with a second one. Source: our choice, because it bounds the time to seconds.
const FIRST_OF_TWO: usize = 8;
/// Where the probability that a changed workload is still anomalous ends at most, if the change is likely to help.
///
/// Source: our choice, because nine of ten are to help. The best of hundreds of estimates is too good by chance; with
/// this limit 94 % helped, see `docs/explained/answers.md`.
const HELPS: f64 = 0.1;

/// How well a way out is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WayOutState {
    /// Measured, and it helps.
    MeasuredHealthy,
    /// Not measured.
    Estimated,
    /// Measured, and it does not help.
    MeasuredAnomalous,
}

/// A change with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct WayOut {
    /// The change.
    pub change: ManualChange,
    /// How well it is known.
    pub state: WayOutState,
    /// The probability that the changed workload is still anomalous: 90 % lie between.
    pub probability: [f64; 2],
    /// Whether it was measured just now, with a verdict or without.
    pub was_tried: bool,
}

impl WayOut {
    /// Whether it was measured to help, or is likely to.
    pub fn helps(&self) -> bool {
        match self.state {
            WayOutState::MeasuredHealthy => true,
            WayOutState::Estimated => !self.was_tried && self.probability[1] <= HELPS,
            WayOutState::MeasuredAnomalous => false,
        }
    }

    /// The features that it sets.
    fn features(&self) -> BTreeSet<Feature> {
        self.change.to.iter().map(|(feature, _)| *feature).collect()
    }

    /// Where it leads from a workload: the words that it sets, and which numbers it makes smaller or larger.
    fn heading(&self, from: &Workload) -> BTreeSet<(Feature, Heading)> {
        let heading = |(feature, value): &(Feature, FeatureValue)| match value {
            FeatureValue::Category(word) => (*feature, Heading::Word(word.clone())),
            FeatureValue::Number(number) if from.feature(*feature).number() < Some(*number) => {
                (*feature, Heading::More)
            }
            FeatureValue::Number(_) => (*feature, Heading::Less),
        };
        self.change.to.iter().map(heading).collect()
    }

    /// What is known to help, then what is likely to, then the others by their probability in tenths, of equal ones the
    /// cheapest first. What nothing is known of counts as one half.
    fn rank(&self) -> (WayOutState, bool, usize, usize) {
        let helps = self.helps();
        let tenths = if helps { 0 } else { (self.probability.iter().sum::<f64>() / 2.0 * 10.0) as usize };
        let cost = self.change.cost;
        (
            self.state,
            !helps,
            tenths,
            if self.state == WayOutState::MeasuredAnomalous { usize::MAX - cost } else { cost },
        )
    }

    /// Takes in what measuring it showed, if it showed something.
    fn become_tried(&mut self, is_anomalous: Option<bool>) {
        self.was_tried = true;
        if let Some(is_anomalous) = is_anomalous {
            self.state = if is_anomalous { WayOutState::MeasuredAnomalous } else { WayOutState::MeasuredHealthy };
            self.probability = [f64::from(u8::from(is_anomalous)); 2];
        }
    }
}

/// Where a change of a feature leads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Heading {
    Less,
    More,
    Word(String),
}

/// A subsystem that can be measured now.
pub trait LiveSubsystem {
    /// Why measuring failed.
    type Error;

    /// Whether a workload is anomalous; `None` if that cannot be told.
    ///
    /// # Errors
    /// It could not be measured.
    fn is_anomalous(&mut self, workload: &Workload) -> Result<Option<bool>, Self::Error>;

    /// What an anomalous workload needs to be one, in its simplest form: each of these conditions was measured.
    ///
    /// # Errors
    /// It could not be measured.
    fn needs(&mut self, workload: &Workload) -> Result<Vec<Condition>, Self::Error>;
}

impl Adviser<'_> {
    /// Ways out of an anomalous workload, as far as experiments tell: what was measured to help first, then what is
    /// likely to help, of each the cheapest first. Two changes together are proposed where no single one helps.
    pub fn ways_out(&self, workload: &Workload) -> Vec<WayOut> {
        let mut ways = self.single(workload);
        if !ways.iter().any(WayOut::helps) {
            ways.extend(self.double(workload, &ways));
            ways.sort_by_key(WayOut::rank);
        }
        let mut ways = told(workload, ways);
        ways.truncate(TOLD);
        ways
    }

    /// As `ways_out`, but measured: what cured findings that hold the workload, then the most promising and cheapest,
    /// a bounded number, until one helps. If none does, the workload itself is reduced, and what it needs is broken.
    ///
    /// # Errors
    /// Those of `probe`.
    pub fn measured_ways_out<P: LiveSubsystem>(
        &self,
        workload: &Workload,
        probe: &mut P,
    ) -> Result<Vec<WayOut>, P::Error> {
        let is_found = |ways: &[WayOut]| ways.iter().any(|way| way.state == WayOutState::MeasuredHealthy);
        let mut ways = self.single(workload);
        let cured = self.findings(workload).into_iter().flat_map(StoredFinding::cured).collect();
        let mut asked = break_each(&cured, &mut ways, MEASURED, probe)?;
        ways.sort_by_key(WayOut::rank);
        let promising = ways.iter().filter(|way| way.helps()).count();
        asked += try_out(&mut ways[..promising], MEASURED.saturating_sub(asked), probe)?;
        if !is_found(&ways) {
            let mut both = self.double(workload, &ways);
            try_out(&mut both, MEASURED.saturating_sub(asked), probe)?;
            ways.extend(both);
        }
        if !is_found(&ways) {
            let needed = probe.needs(workload)?.into_iter().collect();
            break_each(&needed, &mut ways, MEASURED, probe)?;
        }
        Ok(told(workload, ways))
    }

    /// The single changes of which something is known, in order.
    fn single(&self, workload: &Workload) -> Vec<WayOut> {
        let Some(space) = self.space(workload) else { return Vec::new() };
        let known = |change: ManualChange| {
            let (state, probability) = self.known_of(&change.workload, 1.0)?;
            Some(WayOut { change, state, probability, was_tried: false })
        };
        let mut ways: Vec<WayOut> = changes(&space, workload).into_iter().filter_map(known).collect();
        ways.sort_by_key(WayOut::rank);
        ways
    }

    /// Two changes together that are known or likely to help, the cheapest first. The first of them is one that
    /// promises most, or the cheapest that leaves a finding: if several findings hold the workload, no single change
    /// may leave all.
    fn double(&self, workload: &Workload, single: &[WayOut]) -> Vec<WayOut> {
        let Some(space) = self.space(workload) else { return Vec::new() };
        let mut least: Vec<&WayOut> = single.iter().collect();
        least.sort_by(|a, b| a.probability[1].total_cmp(&b.probability[1]));
        least.truncate(FIRST_OF_TWO);
        let all = changes(&space, workload);
        let leaving = self.findings(workload).into_iter();
        let leaving = leaving.filter_map(|kept| all.iter().find(|change| !kept.holds(&change.workload)));
        let firsts: BTreeMap<&Workload, &ManualChange> =
            least.iter().map(|way| &way.change).chain(leaving).map(|first| (&first.workload, first)).collect();
        let mut both: Vec<ManualChange> =
            firsts.values().flat_map(|first| changes_after(&space, workload, first)).collect();
        both.sort_by_key(|change| change.cost);
        // Two changes come up in either order.
        let mut seen = BTreeSet::new();
        let is_new: Vec<bool> = both.iter().map(|change| seen.insert(&change.workload)).collect();
        let both = both.into_iter().zip(is_new).filter_map(|(change, is_new)| is_new.then_some(change));
        let known = |change: ManualChange| {
            let (state, probability) = self.known_of(&change.workload, HELPS)?;
            Some(WayOut { change, state, probability, was_tried: false })
        };
        let mut ways: Vec<WayOut> = both.filter_map(known).filter(WayOut::helps).take(MEASURED).collect();
        ways.sort_by_key(WayOut::rank);
        ways
    }

    /// What is known of a changed workload, if its probability ends at `most` at most. A finding that holds it has the
    /// last word over estimates.
    fn known_of(&self, changed: &Workload, most: f64) -> Option<(WayOutState, [f64; 2])> {
        if let Some(measured) = self.known.measured.get(changed) {
            let healthy = (WayOutState::MeasuredHealthy, [0.0; 2]);
            return Some(if measured.is_anomalous { (WayOutState::MeasuredAnomalous, [1.0; 2]) } else { healthy });
        }
        if self.findings(changed).iter().any(|kept| kept.says_likely()) {
            return None;
        }
        let probability = self.estimate(changed).map_or([0.0, 1.0], |estimate| {
            let probability = estimate.probability;
            [probability.low, probability.high]
        });
        (probability[1] <= most).then_some((WayOutState::Estimated, probability))
    }
}

/// Measures the cheapest change that breaks each condition, at most so many; says how many.
fn break_each<P: LiveSubsystem>(
    conditions: &BTreeSet<Condition>,
    ways: &mut [WayOut],
    most: usize,
    probe: &mut P,
) -> Result<usize, P::Error> {
    let mut asked = 0;
    for condition in conditions {
        let breaks = |way: &&mut WayOut| {
            way.features() == BTreeSet::from([condition.feature]) && !condition.holds(&way.change.workload)
        };
        let cheapest = ways.iter_mut().filter(breaks).min_by_key(|way| way.change.cost);
        if let Some(way) = cheapest.filter(|way| way.state == WayOutState::Estimated && !way.was_tried && asked < most)
        {
            way.become_tried(probe.is_anomalous(&way.change.workload)?);
            asked += 1;
        }
    }
    Ok(asked)
}

/// Measures ways in order until one helps, at most so many; says how many.
fn try_out<P: LiveSubsystem>(ways: &mut [WayOut], most: usize, probe: &mut P) -> Result<usize, P::Error> {
    let mut asked = 0;
    for way in ways {
        if way.state == WayOutState::MeasuredHealthy || asked == most {
            break;
        }
        if way.state == WayOutState::Estimated && !way.was_tried {
            asked += 1;
            way.become_tried(probe.is_anomalous(&way.change.workload)?);
            if way.state == WayOutState::MeasuredHealthy {
                break;
            }
        }
    }
    Ok(asked)
}

/// In order: those that just were measured; of those that had been, and of estimated ones, the first that leads the
/// same way, because the second would say little more.
fn told(from: &Workload, mut ways: Vec<WayOut>) -> Vec<WayOut> {
    // Of what is unlike all that was measured nothing can be told.
    ways.retain(|way| way.probability[1] < 1.0 || way.state != WayOutState::Estimated);
    ways.sort_by_key(WayOut::rank);
    let (mut estimated, mut stored) = (TOLD, MEASURED);
    let mut told = BTreeSet::new();
    ways.retain(|way| {
        if way.was_tried {
            return true;
        }
        let left = if way.state == WayOutState::Estimated { &mut estimated } else { &mut stored };
        let is_told = *left > 0 && told.insert((way.state, way.heading(from)));
        *left -= usize::from(is_told);
        is_told
    });
    ways
}

impl Answer {
    /// Whether ways out are worth looking for.
    pub fn wants_ways_out(self) -> bool {
        matches!(self, Answer::Anomalous | Answer::Likely)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::rc::Rc;

    use kelpie_spaces::{Region, Space, Test};
    use kelpie_store::CampaignId;

    use crate::subsystem_history::{StoredExperiment, StoredFinding, SubsystemHistory};
    use crate::testing::{finding, workload};

    const SPACE: &str = "\
kelpie: space/1
qp_type: [RC]
opcode: [WRITE]
mtu: [256, 512, 1024, 2048, 4096]
qps: {min: 1, max: 64}
mrs: [1]
requests: [1]
sge_count: [1]
message: [2KiB]
memory_requester: [\"dram:0\"]
memory_responder: [\"dram:0\"]
bidirectional: [false]
loopback: [false]
";

    /// Every count of QPs at every MTU but `left_out`, as the rule says.
    fn known(left_out: &[Workload], is_anomalous: impl Fn(u32, u64) -> bool) -> SubsystemHistory {
        let mut known = SubsystemHistory::nothing("sim:F");
        known.spaces.push(Rc::new(Space::from_yaml("test", SPACE).expect("a space")));
        for qps in 1..=64 {
            for mtu in [256, 512, 1024, 2048, 4096] {
                let is_anomalous = is_anomalous(qps, mtu);
                let measured = StoredExperiment { campaign: CampaignId(1), number: 1, is_anomalous, is_aimed: false };
                known.measured.insert(workload(qps, mtu), measured);
            }
        }
        known.measured.retain(|workload, _| !left_out.contains(workload));
        known
    }

    /// A subsystem that does as the function says, and needs this.
    struct Answers<F> {
        is_anomalous: F,
        asked: Vec<Workload>,
        needs: Vec<Condition>,
    }

    impl<F: Fn(&Workload) -> Option<bool>> LiveSubsystem for Answers<F> {
        type Error = Infallible;

        fn is_anomalous(&mut self, workload: &Workload) -> Result<Option<bool>, Infallible> {
            self.asked.push(workload.clone());
            Ok((self.is_anomalous)(workload))
        }

        fn needs(&mut self, _: &Workload) -> Result<Vec<Condition>, Infallible> {
            Ok(self.needs.clone())
        }
    }

    /// The ways out, and the workloads that were measured for them.
    fn measured(
        adviser: &Adviser<'_>,
        from: &Workload,
        is_anomalous: impl Fn(&Workload) -> Option<bool>,
    ) -> (Vec<WayOut>, Vec<Workload>) {
        let many = Condition { feature: Feature::Qps, test: Test::Range { min: Some(17), max: None } };
        let mut probe = Answers { is_anomalous, asked: Vec::new(), needs: vec![many] };
        let ways = adviser.measured_ways_out(from, &mut probe).expect("it never fails");
        (ways, probe.asked)
    }

    #[test]
    fn what_was_measured_healthy_stands_first_and_needs_no_measuring() {
        let known = known(&[], |qps, _| qps > 16);
        let adviser = Adviser::new(&known);
        let ways = adviser.ways_out(&workload(24, 4096));
        assert_eq!(
            (ways[0].state, ways[0].change.words.as_str()),
            (WayOutState::MeasuredHealthy, "use at most 16 QPs in a flow")
        );
        let headings: BTreeSet<_> = ways.iter().map(|way| (way.state, way.heading(&workload(24, 4096)))).collect();
        assert_eq!(headings.len(), ways.len(), "a second way to fewer QPs says little more: {ways:?}");
        let (ways, asked) = measured(&adviser, &workload(24, 4096), |_| panic!("the store knows it"));
        assert!(ways[0].state == WayOutState::MeasuredHealthy && asked.is_empty(), "{asked:?}");
    }

    #[test]
    fn estimates_are_never_called_measured_and_measuring_is_bounded() {
        // Of the steps below 16 nothing is stored.
        let mtus = [256, 512, 1024, 2048, 4096];
        let of_step = |qps: u32| mtus.map(|mtu| workload(qps, mtu));
        let steps: Vec<Workload> = [1, 2, 3, 4, 6, 8, 12, 16].into_iter().flat_map(of_step).collect();
        let known = known(&steps, |qps, _| qps > 20);
        let adviser = Adviser::new(&known);
        let from = workload(24, 4096);
        let ways = adviser.ways_out(&from);
        assert!(!ways.is_empty() && ways.iter().all(|way| way.state != WayOutState::MeasuredHealthy), "{ways:?}");
        // Whatever is measured, it ends, and all of it is told.
        let (ways, asked) = measured(&adviser, &from, |_| Some(true));
        let anomalous: BTreeSet<&Workload> = ways
            .iter()
            .filter(|way| way.state == WayOutState::MeasuredAnomalous)
            .map(|way| &way.change.workload)
            .collect();
        assert!((1..=MEASURED).contains(&asked.len()), "{asked:?}");
        assert!(asked.iter().all(|workload| anomalous.contains(workload)), "{asked:?}, {ways:?}");
        assert!(ways.iter().all(|way| way.state != WayOutState::Estimated || way.probability[1] < 1.0), "{ways:?}");
        // What has no verdict is not measured twice.
        let (ways, mut asked) = measured(&adviser, &from, |_| None);
        assert!((1..=MEASURED).contains(&asked.len()), "{asked:?}");
        assert!(
            ways.iter().all(|way| !asked.contains(&way.change.workload) || way.state == WayOutState::Estimated),
            "{ways:?}"
        );
        let measured = asked.len();
        asked.sort();
        asked.dedup();
        assert_eq!(asked.len(), measured, "{asked:?}");
    }

    #[test]
    fn of_what_does_not_help_the_farthest_is_told() {
        let known = known(&[], |_, _| true);
        let words: Vec<String> =
            Adviser::new(&known).ways_out(&workload(24, 1024)).into_iter().map(|way| way.change.words).collect();
        for expected in ["use at most 1 QP in a flow", "use at least 64 QPs in a flow"] {
            assert!(words.iter().any(|words| words == expected), "{expected}: {words:?}");
        }
    }

    #[test]
    fn where_no_estimate_helps_the_workload_itself_is_reduced_and_what_it_needs_is_broken() {
        // Nothing that is stored hints at the MTU.
        let known = known(&[], |_, _| true);
        let from = workload(24, 256);
        let needed = Condition { feature: Feature::Mtu, test: Test::Range { min: None, max: Some(1024) } };
        let is_anomalous = |workload: &Workload| Some(needed.holds(workload));
        let mut probe = Answers { is_anomalous, asked: Vec::new(), needs: Vec::new() };
        // All of it was measured before, and that is right.
        assert!(Adviser::new(&known).measured_ways_out(&from, &mut probe).unwrap().iter().all(|way| !way.helps()));
        let mut known = known;
        known.measured.retain(|workload, _| workload.flows[0].mtu.bytes() == 256);
        let mut probe = Answers { needs: vec![needed.clone()], ..probe };
        let ways = Adviser::new(&known).measured_ways_out(&from, &mut probe).unwrap();
        let first = ways.first().expect("one helps");
        assert_eq!(
            (first.state, first.change.workload.flows[0].mtu.bytes()),
            (WayOutState::MeasuredHealthy, 2048),
            "{ways:?}"
        );
    }

    #[test]
    fn who_lies_in_two_findings_gets_two_changes() {
        // Many QPs are anomalous, and so are small MTUs.
        let from = workload(24, 256);
        let mut known = known(std::slice::from_ref(&from), |qps, mtu| qps > 16 || mtu < 1024);
        known.measured.retain(|workload, _| {
            let (qps, mtu) = (workload.flows[0].qps, workload.flows[0].mtu.bytes());
            qps != 24 && (qps > 16 || mtu >= 1024)
        });
        let space = Rc::clone(&known.spaces[0]);
        let kept = |feature, min, max| {
            let mut finding = finding(1, 1, from.clone());
            finding.mfs = Region { conditions: vec![Condition { feature, test: Test::Range { min, max } }] };
            StoredFinding { campaign: CampaignId(1), subsystem: "sim:F".to_owned(), space: Rc::clone(&space), finding }
        };
        known.findings = vec![kept(Feature::Qps, Some(17), None), kept(Feature::Mtu, None, Some(512))];
        let ways = Adviser::new(&known).ways_out(&from);
        assert!(ways[0].change.to.len() == 2 && ways[0].helps(), "{ways:?}");
        let workloads: BTreeSet<&Workload> = ways.iter().map(|way| &way.change.workload).collect();
        assert_eq!(workloads.len(), ways.len(), "one of each: {ways:?}");
    }
}
