//! Which weaknesses a subsystem is known to have: those that many random points and the paper's triggers show.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_engine::{MeasureError, Subsystem};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::known as paper;
use serde::{Deserialize, Serialize};

use super::shown::{Judged, Shown};
use super::weakness::Weakness;

/// How often a weakness was shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    #[serde(flatten)]
    pub weakness: Weakness,
    /// Random points that show it.
    pub points: u64,
    /// The paper's anomalies whose trigger shows it.
    pub triggers: Vec<u32>,
}

/// What is known of a subsystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    /// Its name.
    pub subsystem: String,
    /// Random points.
    pub points: u64,
    /// What they show, by symptom and part.
    pub weaknesses: Vec<Count>,
}

impl Known {
    /// What these points and the triggers show.
    ///
    /// # Errors
    /// The subsystem could not be measured.
    pub fn of(subsystem: &SimSubsystem, points: &[Judged]) -> Result<Self, MeasureError> {
        let mut weaknesses: BTreeMap<Weakness, (u64, Vec<u32>)> = BTreeMap::new();
        for judged in points {
            if let Judged::Anomalous(weakness) = judged {
                weaknesses.entry(weakness.clone()).or_default().0 += 1;
            }
        }
        let mut copy = subsystem.clone();
        for anomaly in paper::anomalies() {
            let shown = Shown::measure(&mut copy, &anomaly.trigger.workload())?;
            if let Judged::Anomalous(weakness) = shown.judged() {
                weaknesses.entry(weakness).or_default().1.push(anomaly.id);
            }
        }
        let count = |(weakness, (points, triggers))| Count { weakness, points, triggers };
        let weaknesses = weaknesses.into_iter().map(count).collect();
        Ok(Self { subsystem: subsystem.name().to_owned(), points: points.len() as u64, weaknesses })
    }

    /// Of these weaknesses the share that is among them. Units: 0 to 1; `None` if nothing is known.
    pub fn share(&self, found: &BTreeSet<&Weakness>) -> Option<f64> {
        let held = self.weaknesses.iter().filter(|count| found.contains(&count.weakness)).count();
        (!self.weaknesses.is_empty()).then(|| held as f64 / self.weaknesses.len() as f64)
    }
}
