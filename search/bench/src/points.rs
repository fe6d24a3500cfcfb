//! Random points of a space, measured once for all that is judged by them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use kelpie_engine::Subsystem;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Space, Workload};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::archive::Archive;
use super::cores::on_all_cores;
use super::shown::{Judged, Shown};

/// Points that are drawn with one seed and stored together. Source: our choice, half a minute of a core.
const CHUNK: u64 = 1000;
/// Added to a chunk's number for its seed. Source: our choice, so that no campaign draws the same points.
const SEED: u64 = 1 << 40;

/// What random points showed, by the subsystem's name.
pub type Points = BTreeMap<String, Vec<Judged>>;

/// Some random points of one subsystem.
struct Chunk<'s> {
    subsystem: &'s SimSubsystem,
    number: u64,
    points: u64,
}

/// The numbers of the chunks of so many points, each with its points.
fn chunks(points: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..points.div_ceil(CHUNK)).map(move |number| (number, CHUNK.min(points - number * CHUNK)))
}

/// The workloads of so many points.
pub fn workloads(space: &Space, points: u64) -> impl Iterator<Item = Workload> {
    chunks(points).flat_map(move |(number, points)| {
        let mut random = Pcg64::seed_from_u64(SEED + number);
        (0..points).map(move |_| space.sample(&mut random))
    })
}

impl Chunk<'_> {
    fn key(&self) -> String {
        format!("points {} {} {}", self.subsystem.name(), self.number, self.points)
    }

    /// `None` if `stop` ended it.
    fn run(
        &self,
        space: &Space,
        stop: &AtomicBool,
        measured: &(dyn Fn() + Sync),
    ) -> anyhow::Result<Option<Vec<Judged>>> {
        let mut subsystem = self.subsystem.clone();
        let mut random = Pcg64::seed_from_u64(SEED + self.number);
        let mut judged = Vec::new();
        for _ in 0..self.points {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let shown = Shown::measure(&mut subsystem, &space.sample(&mut random)).with_context(|| self.key())?;
            measured();
            judged.push(shown.judged());
        }
        Ok(Some(judged))
    }
}

/// Measures so many random points on every subsystem, or takes them from the archive; `None` if `stop` ended it.
///
/// # Errors
/// A subsystem could not be measured, or something not be stored.
pub fn points(
    space: &Space,
    subsystems: &[SimSubsystem],
    count: u64,
    archive: &Archive,
    stop: &AtomicBool,
    measured: &(dyn Fn() + Sync),
) -> anyhow::Result<Option<Points>> {
    let of = |subsystem| chunks(count).map(move |(number, points)| Chunk { subsystem, number, points });
    let chunks: Vec<Chunk> = subsystems.iter().flat_map(of).collect();
    let all = on_all_cores(&chunks, |chunk| archive.once(&chunk.key(), |_| true, || chunk.run(space, stop, measured)))?;
    let mut points = Points::new();
    for (chunk, judged) in chunks.iter().zip(all) {
        let Some(judged) = judged else { return Ok(None) };
        points.entry(chunk.subsystem.name().to_owned()).or_default().extend(judged);
    }
    Ok(Some(points))
}

/// The first so many points of each subsystem.
pub fn first(points: &Points, count: u64) -> Points {
    let first = |judged: &[Judged]| judged[..judged.len().min(count as usize)].to_vec();
    points.iter().map(|(name, judged)| (name.clone(), first(judged))).collect()
}
