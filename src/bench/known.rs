//! Which weaknesses a subsystem is known to have: those that many random points and the paper's triggers show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use kelpie_engine::Subsystem;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, known as paper};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::archive::Archive;
use super::cores::on_all_cores;
use super::record::Weakness;
use super::shown::Shown;

/// Points that are drawn with one seed and stored together. Source: our choice, half a minute of a core.
const CHUNK: u64 = 1000;
/// Added to a chunk's number for its seed. Source: our choice, so that no campaign draws the same points.
const SEED: u64 = 1 << 40;

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
    pub subsystem: String,
    /// Random points.
    pub points: u64,
    pub weaknesses: Vec<Count>,
}

/// Some random points of one subsystem.
struct Chunk<'s> {
    subsystem: &'s SimSubsystem,
    number: u64,
    points: u64,
}

impl Chunk<'_> {
    fn key(&self) -> String {
        format!("known {} {} {}", self.subsystem.name(), self.number, self.points)
    }

    /// Each weakness that they show, with how often; `None` if `stop` ended it.
    fn run(
        &self,
        space: &Space,
        stop: &AtomicBool,
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Option<Vec<(Weakness, u64)>>> {
        let mut subsystem = self.subsystem.clone();
        let mut random = Pcg64::seed_from_u64(SEED + self.number);
        let mut counts = BTreeMap::new();
        for _ in 0..self.points {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let shown = Shown::measure(&mut subsystem, &space.sample(&mut random)).with_context(|| self.key())?;
            measured();
            if let Some(symptom) = shown.symptom() {
                *counts.entry(Weakness::split(symptom, &shown.limiting).0).or_insert(0) += 1;
            }
        }
        Ok(Some(counts.into_iter().collect()))
    }
}

/// Measures `points` random points and the triggers on every subsystem, or takes them from the archive; `None` if `stop`
/// ended it.
///
/// # Errors
/// A subsystem could not be measured, or something not be stored.
pub fn known(
    space: &Space,
    subsystems: &[SimSubsystem],
    points: u64,
    archive: &Archive,
    stop: &AtomicBool,
    measured: &(dyn Fn() + Sync),
) -> anyhow::Result<Option<Vec<Known>>> {
    let chunks = |subsystem| {
        (0..points.div_ceil(CHUNK)).map(move |number| Chunk {
            subsystem,
            number,
            points: CHUNK.min(points - number * CHUNK),
        })
    };
    let chunks: Vec<Chunk> = subsystems.iter().flat_map(chunks).collect();
    let counts = on_all_cores(&chunks, |chunk| archive.once(&chunk.key(), || chunk.run(space, stop, measured)))?;
    if counts.iter().any(Option::is_none) {
        return Ok(None);
    }
    let mut all = Vec::new();
    for subsystem in subsystems {
        let mut weaknesses: BTreeMap<Weakness, (u64, Vec<u32>)> = BTreeMap::new();
        let own = chunks.iter().zip(&counts).filter(|(chunk, _)| chunk.subsystem.name() == subsystem.name());
        for (weakness, count) in own.flat_map(|(_, counts)| counts.iter().flatten()) {
            weaknesses.entry(weakness.clone()).or_default().0 += count;
        }
        let mut copy = subsystem.clone();
        for anomaly in paper::anomalies() {
            let shown = Shown::measure(&mut copy, &anomaly.trigger.workload())?;
            if let Some(symptom) = shown.symptom() {
                weaknesses.entry(Weakness::split(symptom, &shown.limiting).0).or_default().1.push(anomaly.id);
            }
        }
        let count = |(weakness, (points, triggers))| Count { weakness, points, triggers };
        let weaknesses = weaknesses.into_iter().map(count).collect();
        all.push(Known { subsystem: subsystem.name().to_owned(), points, weaknesses });
    }
    Ok(Some(all))
}

impl Known {
    /// Of these weaknesses the share that is among them. Units: 0 to 1; `None` if nothing is known.
    pub fn share(&self, found: &BTreeSet<&Weakness>) -> Option<f64> {
        let held = self.weaknesses.iter().filter(|count| found.contains(&count.weakness)).count();
        (!self.weaknesses.is_empty()).then(|| held as f64 / self.weaknesses.len() as f64)
    }
}
