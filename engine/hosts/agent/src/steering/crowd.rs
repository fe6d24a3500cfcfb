//! What one program may take of what all programs of a host share: connections, and answers a second. No socket.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most connections of one program. Source: our choice, because the preloaded library has one, and one more after a
/// fork.
const MOST_CONNECTIONS: u32 = 16;
/// What one program may have of the answers of a second, as a divisor. Source: our choice: one that floods leaves half.
const SHARE: u32 = 2;
const SECOND: Duration = Duration::from_secs(1);

/// So many answers a second.
struct Pace {
    most: u32,
    second: Instant,
    count: u32,
}

impl Pace {
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

/// A program, by all of its connections.
struct Program {
    connections: u32,
    pace: Pace,
}

/// The programs that are connected.
pub struct Crowd {
    pace: Pace,
    programs: BTreeMap<String, Program>,
}

impl Crowd {
    /// Nobody yet; so many answers a second for all together.
    pub fn new(most_a_second: u32) -> Self {
        Self { pace: Pace::new(most_a_second, Instant::now()), programs: BTreeMap::new() }
    }

    /// Whether a program may have one connection more, which it has from then on.
    pub fn enters(&mut self, process: &str, now: Instant) -> bool {
        // A program that connects again at once goes on with the same second.
        self.programs.retain(|_, one| one.connections > 0 || now.duration_since(one.pace.second) < SECOND);
        let most = self.pace.most.div_ceil(SHARE);
        let new = || Program { connections: 0, pace: Pace::new(most, now) };
        let program = self.programs.entry(process.to_owned()).or_insert_with(new);
        let may = program.connections < MOST_CONNECTIONS;
        program.connections += u32::from(may);
        may
    }

    /// A connection has ended.
    pub fn leaves(&mut self, process: &str) {
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
        let (mut crowd, begin) = (Crowd::new(10), Instant::now());
        let allowed = |crowd: &mut Crowd, who: &str, now| (0..20).filter(|_| crowd.allows(who, now)).count();
        assert!(crowd.enters("7:1", begin) && crowd.enters("8:1", begin));
        assert_eq!(allowed(&mut crowd, "7:1", begin), 5);
        crowd.leaves("7:1");
        assert!(crowd.enters("7:1", begin));
        assert_eq!(allowed(&mut crowd, "7:1", begin), 0, "it came again at once");
        assert_eq!(allowed(&mut crowd, "8:1", begin), 5);
        let later = begin + SECOND;
        assert_eq!((allowed(&mut crowd, "8:1", later), allowed(&mut crowd, "7:1", later)), (5, 5));
        assert_eq!((0..100).filter(|_| crowd.enters("8:1", later)).count(), 15, "it had one");
        assert_eq!(allowed(&mut crowd, "9:1", later + SECOND), 0, "nobody knows it");
    }

    #[test]
    fn who_is_gone_takes_no_memory() {
        let (mut crowd, begin) = (Crowd::new(10), Instant::now());
        for number in 0..1000 {
            crowd.enters(&format!("{number}:1"), begin);
            crowd.leaves(&format!("{number}:1"));
        }
        crowd.enters("1:2", begin + SECOND);
        assert_eq!(crowd.programs.len(), 1);
    }
}
