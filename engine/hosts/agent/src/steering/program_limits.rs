//! What one program may take of what all programs of a host share: connections, and answers a second. No socket.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::runtime::most_files;

/// Most connections of one program. Source: our choice, because the preloaded library has one, and one more after a
/// fork.
const MOST_CONNECTIONS: u32 = 16;
/// Most connections of all programs, if the agent may open as many files. Source: our choice.
const MOST: usize = 1024;
/// Files for what is no program. Source: our choice: strangers and a controller at the agent's other door.
const OTHER_FILES: usize = 600;
/// What one program may have of the answers of a second, as a divisor. Source: our choice: one that floods leaves half.
const SHARE: u32 = 2;
const SECOND: Duration = Duration::from_secs(1);

/// So many answers a second.
struct AnswerRate {
    most: u32,
    second: Instant,
    count: u32,
}

impl AnswerRate {
    fn new(most: u32, now: Instant) -> Self {
        Self { most, second: now, count: 0 }
    }

    fn has_room(&mut self, now: Instant) -> bool {
        if now.duration_since(self.second) >= SECOND {
            (self.second, self.count) = (now, 0);
        }
        self.count < self.most
    }
}

/// A connection of a program.
#[derive(Debug)]
pub struct Place {
    process: String,
    sent_away: Arc<Notify>,
}

impl Place {
    /// Comes back once its place is another's.
    pub async fn sent_away(&self) {
        self.sent_away.notified().await;
    }
}

/// A program, by all of its connections.
struct ProgramUse {
    connections: u32,
    pace: AnswerRate,
}

/// The programs that are connected.
pub struct ProgramLimits {
    pace: AnswerRate,
    /// Most connections.
    most: usize,
    programs: BTreeMap<String, ProgramUse>,
    /// All connections, the one that has been silent the longest first.
    places: VecDeque<(String, Arc<Notify>)>,
}

impl ProgramLimits {
    /// Nobody yet; so many answers a second for all together.
    pub fn new(most_a_second: u32) -> Self {
        let most = most_files().saturating_sub(OTHER_FILES).clamp(64, MOST);
        Self {
            pace: AnswerRate::new(most_a_second, Instant::now()),
            most,
            programs: BTreeMap::new(),
            places: VecDeque::new(),
        }
    }

    /// A place for a program, if it may have one connection more. Where all are taken, that connection of a program
    /// with the most loses its place that has been silent the longest, so that silence keeps nobody out.
    pub fn enters(&mut self, process: &str, now: Instant) -> Option<Place> {
        // A program that connects again at once goes on with the same second.
        self.programs.retain(|_, one| one.connections > 0 || now.duration_since(one.pace.second) < SECOND);
        let most = self.pace.most.div_ceil(SHARE);
        let new = || ProgramUse { connections: 0, pace: AnswerRate::new(most, now) };
        let program = self.programs.entry(process.to_owned()).or_insert_with(new);
        if program.connections >= MOST_CONNECTIONS {
            return None;
        }
        if self.places.len() >= self.most {
            let count = |process: &String| self.programs.get(process).map_or(0, |one| one.connections);
            let most = self.places.iter().map(|(process, _)| count(process)).max();
            let crowded = self.places.iter().position(|(process, _)| Some(count(process)) == most);
            if let Some((process, sent_away)) = crowded.and_then(|place| self.places.remove(place)) {
                sent_away.notify_one();
                self.ends(&process);
            }
        }
        self.programs.entry(process.to_owned()).or_insert_with(new).connections += 1;
        let place = Place { process: process.to_owned(), sent_away: Arc::default() };
        self.places.push_back((place.process.clone(), Arc::clone(&place.sent_away)));
        Some(place)
    }

    /// Whose connection said something is not silent.
    pub fn speaks(&mut self, place: &Place) {
        if let Some(place) = self.take(place) {
            self.places.push_back(place);
        }
    }

    /// A connection has ended.
    pub fn leaves(&mut self, place: &Place) {
        if let Some((process, _)) = self.take(place) {
            self.ends(&process);
        }
    }

    fn take(&mut self, place: &Place) -> Option<(String, Arc<Notify>)> {
        let at = self.places.iter().position(|(_, one)| Arc::ptr_eq(one, &place.sent_away))?;
        self.places.remove(at)
    }

    fn ends(&mut self, process: &str) {
        if let Some(program) = self.programs.get_mut(process) {
            program.connections = program.connections.saturating_sub(1);
        }
    }

    /// Whether a program gets an answer now, which counts.
    pub fn allows(&mut self, process: &str, now: Instant) -> bool {
        let Some(program) = self.programs.get_mut(process) else { return false };
        let may = program.pace.has_room(now) && self.pace.has_room(now);
        program.pace.count += u32::from(may);
        self.pace.count += u32::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_program_takes_half_and_connections_bring_no_more() {
        let (mut crowd, begin) = (ProgramLimits::new(10), Instant::now());
        let allowed = |crowd: &mut ProgramLimits, who: &str, now| (0..20).filter(|_| crowd.allows(who, now)).count();
        let place = crowd.enters("7:1", begin).expect("it has none yet");
        crowd.enters("8:1", begin).expect("it has none yet");
        assert_eq!(allowed(&mut crowd, "7:1", begin), 5);
        crowd.leaves(&place);
        crowd.enters("7:1", begin).expect("it has none");
        assert_eq!(allowed(&mut crowd, "7:1", begin), 0, "it came again at once");
        assert_eq!(allowed(&mut crowd, "8:1", begin), 5);
        let later = begin + SECOND;
        assert_eq!((allowed(&mut crowd, "8:1", later), allowed(&mut crowd, "7:1", later)), (5, 5));
        assert_eq!((0..100).filter(|_| crowd.enters("8:1", later).is_some()).count(), 15, "it had one");
        assert_eq!(allowed(&mut crowd, "9:1", later + SECOND), 0, "nobody knows it");
    }

    #[test]
    fn who_is_gone_takes_no_memory() {
        let (mut crowd, begin) = (ProgramLimits::new(10), Instant::now());
        for number in 0..1000 {
            let place = crowd.enters(&format!("{number}:1"), begin).expect("there is room");
            crowd.leaves(&place);
        }
        crowd.enters("1:2", begin + SECOND);
        assert_eq!((crowd.programs.len(), crowd.places.len()), (1, 1));
    }

    #[test]
    fn programs_that_are_silent_keep_no_other_out_however_many_they_are() {
        let (mut crowd, begin) = (ProgramLimits::new(10), Instant::now());
        let mut silent = Vec::new();
        for number in 0..64 {
            silent.extend((0..16).map(|_| crowd.enters(&format!("{number}:1"), begin).expect("it has fewer than 16")));
        }
        let most = crowd.most;
        assert_eq!(crowd.places.len(), most.min(64 * 16));
        let honest: Vec<Place> =
            (100..200).map(|number| crowd.enters(&format!("{number}:1"), begin).expect("a place")).collect();
        for place in &honest {
            crowd.speaks(place);
        }
        assert_eq!(crowd.places.len(), most);
        let is_there = |place: &&Place| crowd.places.iter().any(|(_, one)| Arc::ptr_eq(one, &place.sent_away));
        assert_eq!(honest.iter().filter(is_there).count(), 100, "none of them was sent away");
        assert_eq!(silent.iter().filter(is_there).count(), most - 100);
        silent.iter().chain(&honest).for_each(|place| crowd.leaves(place));
        assert!(crowd.places.is_empty() && crowd.programs.values().all(|one| one.connections == 0));
    }
}
