//! Two campaigns side by side: what is fixed, remains, has other bounds, or is new. The caller measures.

use std::fmt;

use kelpie_monitor::{Assessment, Symptom, Verdict};
use kelpie_spaces::{Condition, Workload};
use serde::Serialize;

use kelpie_store::FindingRecord;

/// Which of two campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CampaignSide {
    /// The first, the older one.
    A,
    /// The second, the newer one.
    B,
}

/// What a finding's workload shows on the subsystem of the other campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeated {
    /// The finding's symptom.
    Anomalous,
    /// Not that symptom.
    Healthy,
    /// Inconclusive, or that subsystem cannot run it.
    Unknown,
    /// It was not tried.
    NotMeasured,
}

impl Repeated {
    /// Compares what was measured with the symptom of a finding.
    pub fn of(assessment: &Assessment, symptom: Symptom) -> Self {
        match assessment.verdict {
            _ if assessment.symptoms.contains(&symptom) => Self::Anomalous,
            Verdict::Inconclusive => Self::Unknown,
            Verdict::Healthy | Verdict::Anomalous => Self::Healthy,
        }
    }
}

/// What became of a finding between two campaigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Not on the older subsystem.
    New,
    /// Shown on both, under other conditions.
    Changed,
    /// Shown on both.
    Remains,
    /// Not on the newer subsystem.
    Fixed,
    /// Only one campaign found it, and nobody measured it on the other's subsystem.
    Doubtful,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Fate::New => "new",
            Fate::Changed => "changed",
            Fate::Remains => "remains",
            Fate::Fixed => "fixed",
            Fate::Doubtful => "doubtful",
        })
    }
}

/// One finding, or two that are the same weakness.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// What became of it.
    pub fate: Fate,
    /// Where it was found; of both the newer.
    pub side: CampaignSide,
    /// Its number there.
    pub finding: u64,
    /// The number of its counterpart in the other campaign.
    pub counterpart: Option<u64>,
    /// What its workload shows on the other subsystem.
    pub repeated: Repeated,
    /// Conditions of the older finding that the newer does not have.
    pub lost: Vec<Condition>,
    /// Conditions of the newer finding that the older does not have.
    pub gained: Vec<Condition>,
}

/// Compares the findings of the older campaign `a` with those of the newer `b`.
///
/// Two findings are the same weakness if they have the same symptom and either region holds the other's workload. What
/// only one campaign found is decided by `repeat`, which measures a finding's workload on the subsystem of that side;
/// if it is healthy there although the other finding's workload lies in its region, the bounds have changed.
///
/// # Errors
/// What `repeat` returns.
pub fn compare<E>(
    a: &[FindingRecord],
    b: &[FindingRecord],
    mut repeat: impl FnMut(CampaignSide, &FindingRecord) -> Result<Repeated, E>,
) -> Result<Vec<Compared>, E> {
    let mut all = Vec::new();
    for newer in b {
        let older = counterpart(newer, a);
        let repeated = repeat(CampaignSide::A, newer)?;
        all.push(judge(CampaignSide::B, newer, older, repeated));
    }
    for older in a {
        let newer = counterpart(older, b);
        // A pair is listed once, from the newer side, unless that side has another counterpart.
        if newer.is_some_and(|newer| counterpart(newer, a).is_some_and(|back| back.number == older.number)) {
            continue;
        }
        let repeated = repeat(CampaignSide::B, older)?;
        all.push(judge(CampaignSide::A, older, newer, repeated));
    }
    all.sort_by_key(|compared| (compared.fate, compared.side, compared.finding));
    Ok(all)
}

/// Whether two findings, of any campaigns, are the same weakness.
pub fn is_one_weakness(one: &FindingRecord, other: &FindingRecord) -> bool {
    let holds = |region: &FindingRecord, workload: &Workload| region.mfs.contains(workload);
    one.symptom == other.symptom && (holds(one, &other.workload) || holds(other, &one.workload))
}

/// The finding of the other campaign that is the same weakness; equal conditions before overlapping ones, of those the
/// one with the same workload, and of those the one with the same number.
fn counterpart<'f>(finding: &FindingRecord, others: &'f [FindingRecord]) -> Option<&'f FindingRecord> {
    others.iter().filter(|other| is_one_weakness(other, finding)).min_by_key(|other| {
        (other.mfs != finding.mfs, other.workload != finding.workload, other.number != finding.number)
    })
}

fn judge(
    side: CampaignSide,
    finding: &FindingRecord,
    counterpart: Option<&FindingRecord>,
    repeated: Repeated,
) -> Compared {
    let only_in = |left: Option<&FindingRecord>, right: Option<&FindingRecord>| match (left, right) {
        (Some(left), Some(right)) => {
            let missing = |condition: &&Condition| !right.mfs.conditions.contains(condition);
            left.mfs.conditions.iter().filter(missing).cloned().collect()
        }
        _ => Vec::new(),
    };
    let (older, newer) = match side {
        CampaignSide::A => (Some(finding), counterpart),
        CampaignSide::B => (counterpart, Some(finding)),
    };
    let (lost, gained): (Vec<Condition>, Vec<Condition>) = (only_in(older, newer), only_in(newer, older));
    let fate = match (counterpart, repeated) {
        (Some(other), Repeated::Healthy) if finding.mfs.contains(&other.workload) => Fate::Changed,
        (Some(_), Repeated::Anomalous | Repeated::Unknown | Repeated::NotMeasured)
            if lost.is_empty() && gained.is_empty() =>
        {
            Fate::Remains
        }
        (Some(_), Repeated::Anomalous | Repeated::Unknown | Repeated::NotMeasured) => Fate::Changed,
        (None, Repeated::Anomalous) => Fate::Remains,
        (_, Repeated::Healthy) if side == CampaignSide::A => Fate::Fixed,
        (_, Repeated::Healthy) => Fate::New,
        (None, Repeated::Unknown | Repeated::NotMeasured) => Fate::Doubtful,
    };
    Compared {
        fate,
        side,
        finding: finding.number,
        counterpart: counterpart.map(|other| other.number),
        repeated,
        lost,
        gained,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use kelpie_monitor::Inconclusive;
    use kelpie_spaces::{Feature, Region, Space, Test};
    use rand::SeedableRng;

    use super::*;

    fn batches(min: u64) -> Condition {
        Condition { feature: Feature::SendBatch, test: Test::Range { min: Some(min), max: None } }
    }

    fn word(feature: Feature, word: &str) -> Condition {
        Condition { feature, test: Test::In(vec![word.to_owned()]) }
    }

    fn finding(number: u64, symptom: Symptom, conditions: &[Condition]) -> FindingRecord {
        let mfs = Region { conditions: conditions.to_vec() };
        let mut rng = rand_pcg::Pcg64::seed_from_u64(number);
        let workload = Space::catalog("full").expect("in the catalog").sample_in(&mfs, &mut rng).expect("not empty");
        let evidence = serde_json::Value::Null;
        FindingRecord { number, symptom, found_at: 1, experiments_for_mfs: 1, confidence: 0.9, mfs, workload, evidence }
    }

    fn fates(
        a: &[FindingRecord],
        b: &[FindingRecord],
        repeated: Repeated,
    ) -> Vec<(Fate, CampaignSide, u64, Option<u64>)> {
        let compared = compare(a, b, |_, _| Ok::<_, Infallible>(repeated)).expect("it cannot fail");
        compared.into_iter().map(|one| (one.fate, one.side, one.finding, one.counterpart)).collect()
    }

    #[test]
    fn a_repetition_goes_by_the_findings_own_symptom() {
        for (assessment, expected) in [
            (Assessment::of_symptoms(vec![Symptom::Pause, Symptom::LowThroughput]), Repeated::Anomalous),
            (Assessment::of_symptoms(vec![Symptom::LowThroughput]), Repeated::Healthy),
            (Assessment::of_symptoms(Vec::new()), Repeated::Healthy),
            (Assessment::of_nothing(Inconclusive::NoSamples), Repeated::Unknown),
        ] {
            assert_eq!(Repeated::of(&assessment, Symptom::Pause), expected, "{assessment:?}");
        }
    }

    #[test]
    fn equal_campaigns_keep_every_finding() {
        let findings = [
            finding(1, Symptom::Pause, &[word(Feature::Opcode, "READ"), batches(32)]),
            finding(2, Symptom::LowThroughput, &[word(Feature::Opcode, "WRITE"), batches(32)]),
        ];
        let expected = [(Fate::Remains, CampaignSide::B, 1, Some(1)), (Fate::Remains, CampaignSide::B, 2, Some(2))];
        for repeated in [Repeated::Anomalous, Repeated::NotMeasured, Repeated::Unknown] {
            assert_eq!(fates(&findings, &findings, repeated), expected, "{repeated:?}");
        }
    }

    #[test]
    fn findings_with_equal_conditions_are_told_by_their_workloads() {
        let reads = [word(Feature::Opcode, "READ")];
        let second = finding(2, Symptom::Pause, &reads);
        let twin = FindingRecord { number: 3, ..second.clone() };
        let findings = [finding(1, Symptom::Pause, &reads), second, twin];
        let expected = [1, 2, 3].map(|number| (Fate::Remains, CampaignSide::B, number, Some(number)));
        assert_eq!(fates(&findings, &findings, Repeated::Anomalous), expected);
    }

    #[test]
    fn what_one_campaign_found_is_decided_by_measuring() {
        let reads = finding(1, Symptom::Pause, &[word(Feature::Opcode, "READ"), batches(32)]);
        let writes = finding(1, Symptom::Pause, &[word(Feature::Opcode, "WRITE"), batches(32)]);
        for (repeated, of_reads, of_writes) in [
            (Repeated::Healthy, Fate::Fixed, Fate::New),
            (Repeated::Anomalous, Fate::Remains, Fate::Remains),
            (Repeated::Unknown, Fate::Doubtful, Fate::Doubtful),
            (Repeated::NotMeasured, Fate::Doubtful, Fate::Doubtful),
        ] {
            let found = fates(std::slice::from_ref(&reads), std::slice::from_ref(&writes), repeated);
            assert_eq!(found.len(), 2, "{repeated:?}");
            assert!(found.contains(&(of_reads, CampaignSide::A, 1, None)), "{repeated:?}: {found:?}");
            assert!(found.contains(&(of_writes, CampaignSide::B, 1, None)), "{repeated:?}: {found:?}");
        }
    }

    #[test]
    fn other_bounds_are_a_change_and_say_which() {
        let older = finding(1, Symptom::Pause, &[word(Feature::Opcode, "READ"), batches(32)]);
        let newer = finding(4, Symptom::Pause, &[word(Feature::Opcode, "READ"), batches(64)]);
        let compared =
            compare(&[older], &[newer], |_, _| Ok::<_, Infallible>(Repeated::Anomalous)).expect("it cannot fail");
        assert_eq!(compared.len(), 1);
        assert_eq!((compared[0].fate, compared[0].finding, compared[0].counterpart), (Fate::Changed, 4, Some(1)));
        assert_eq!((&compared[0].lost, &compared[0].gained), (&vec![batches(32)], &vec![batches(64)]));
    }

    #[test]
    fn another_symptom_is_another_weakness() {
        let pause = finding(1, Symptom::Pause, &[word(Feature::Opcode, "READ")]);
        let low = finding(1, Symptom::LowThroughput, &[word(Feature::Opcode, "READ")]);
        let found = fates(&[pause], &[low], Repeated::Healthy);
        assert_eq!(found, [(Fate::New, CampaignSide::B, 1, None), (Fate::Fixed, CampaignSide::A, 1, None)]);
    }
}
