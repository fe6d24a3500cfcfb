//! Traces in GOAL (text): of each rank what it computes, sends and receives, and what waits for what.
//!
//! Source: Hoefler, Siebert and Lumsdaine, Group Operation Assembly Language, ICPP 2009; the text form as the tools of
//! `LogGOPSim` and ATLAHS write it.

use std::collections::HashMap;

use kelpie_collectives::dag::{Connection, Dag, DagEvent, DagTask, Wait};

use crate::peer::PeerError;

/// Most ranks and most operations. Source: our choice.
const MOST_RANKS: u32 = 65_536;
const MOST_OPERATIONS: usize = 16 << 20;

/// Longest time of a calc, and largest message. Source: our choice. Units: ns, bytes.
const MOST_NANOS: u64 = 3_600_000_000_000;
const MOST_BYTES: u64 = 1 << 40;

/// An operation of a rank.
#[derive(Debug, Clone, Copy)]
enum Operation {
    /// So many ns.
    Calc(u64),
    /// A message: bytes, the other rank, tag.
    Send(u64, u32, u32),
    /// The same.
    Recv(u32, u32),
}

/// A rank while it is read.
#[derive(Default)]
struct Rank<'t> {
    /// Operations with their lines.
    operations: Vec<(usize, Operation)>,
    labels: HashMap<&'t str, usize>,
    /// What waits for what; and whether for its begin only.
    waits: Vec<(usize, usize, bool)>,
}

/// Reads a trace for a fabric of so many GPUs.
///
/// # Errors
/// Names the line of what is not understood, does not match, or does not fit.
pub fn read(file: &str, text: &str, gpus: u32) -> Result<Dag, PeerError> {
    let wrong = |line: usize, rule: &str| PeerError { file: file.to_owned(), line, rule: rule.to_owned() };
    let mut ranks: Vec<Rank<'_>> = Vec::new();
    let (mut current, mut operations) = (None, 0);
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.split("//").next().unwrap_or_default().trim();
        let words: Vec<&str> = text.split_whitespace().collect();
        match (words.as_slice(), current) {
            ([], _) => {}
            (["num_ranks", count], None) => {
                let most = gpus.min(MOST_RANKS);
                let count = count.parse().ok().filter(|count| (1..=most).contains(count));
                let count: u32 = count
                    .ok_or_else(|| wrong(line, &format!("num_ranks: write 1 to {most}, the GPUs of the fabric")))?;
                ranks.resize_with(count as usize, Rank::default);
            }
            (["rank", number, "{"], None) => {
                let number = number.parse().ok().filter(|number: &usize| *number < ranks.len());
                current = Some(number.ok_or_else(|| wrong(line, "a rank below num_ranks should stand here"))?);
            }
            (["}"], Some(_)) => current = None,
            ([label, "requires" | "irequires", other], Some(rank)) => {
                let rank = &mut ranks[rank];
                let at = |name: &str| rank.labels.get(name).copied();
                let pair = at(label).zip(at(other)).ok_or_else(|| wrong(line, "a label that no line above has"))?;
                rank.waits.push((pair.0, pair.1, words[1] == "irequires"));
            }
            ([label, rest @ ..], Some(rank)) if label.ends_with(':') => {
                let operation = operation(rest, ranks.len() as u32, rank as u32).ok_or_else(|| {
                    wrong(line, "calc NS, send BYTESb to RANK tag N or recv BYTESb from RANK tag N should stand here")
                })?;
                operations += 1;
                if operations > MOST_OPERATIONS {
                    return Err(wrong(line, &format!("more than {MOST_OPERATIONS} operations until here")));
                }
                let rank = &mut ranks[rank];
                if rank.labels.insert(&label[..label.len() - 1], rank.operations.len()).is_some() {
                    return Err(wrong(line, "a label that a line above has already"));
                }
                rank.operations.push((line, operation));
            }
            _ => return Err(wrong(line, "num_ranks N, rank N {, an operation, A requires B or } should stand here")),
        }
    }
    if current.is_some() {
        return Err(wrong(text.lines().count(), "the file ends within a rank: } should stand here"));
    }
    let mut draft = Draft { ranks: &ranks, dag: Dag::default(), connections: HashMap::new(), tasks: HashMap::new() };
    draft.tasks().map_err(|line| wrong(line, "no send matches this recv, or no recv this send"))?;
    draft.waits();
    Ok(draft.dag)
}

fn operation(words: &[&str], ranks: u32, own: u32) -> Option<Operation> {
    let other = |word: &str| word.parse().ok().filter(|other: &u32| *other < ranks && *other != own);
    let tag = |words: &[&str]| match words {
        ["tag", tag, ..] => tag.parse().ok(),
        _ => Some(0),
    };
    match words {
        ["calc", nanos, ..] => Some(Operation::Calc(nanos.parse().ok().filter(|nanos| *nanos <= MOST_NANOS)?)),
        ["send", bytes, "to", to, rest @ ..] => Some(Operation::Send(
            bytes.strip_suffix('b')?.parse().ok().filter(|bytes| *bytes <= MOST_BYTES)?,
            other(to)?,
            tag(rest)?,
        )),
        ["recv", bytes, "from", from, rest @ ..] => {
            bytes.strip_suffix('b')?.parse::<u64>().ok()?;
            Some(Operation::Recv(other(from)?, tag(rest)?))
        }
        _ => None,
    }
}

/// The graph while it is drawn.
struct Draft<'r, 't> {
    ranks: &'r [Rank<'t>],
    dag: Dag,
    connections: HashMap<Connection, u32>,
    /// The task of each operation but a recv, and the transfer that a recv gets; by rank and place.
    tasks: HashMap<(usize, usize), u32>,
}

impl Draft<'_, '_> {
    fn task(&mut self, from: u32, to: u32, bytes: u64, delay_ns: u64) -> u32 {
        let connection = Connection { from, to, channel: 0 };
        let number = *self.connections.entry(connection).or_insert_with(|| {
            self.dag.connections.push(connection);
            self.dag.connections.len() as u32 - 1
        });
        self.dag.tasks.push(DagTask { connection: number, job: 0, step: 0, bytes, delay_ns });
        self.dag.tasks.len() as u32 - 1
    }

    /// A task for each operation; the n-th recv of a pair and tag gets the n-th send. The line of what does not match
    /// is the error.
    fn tasks(&mut self) -> Result<(), usize> {
        let mut sent: HashMap<(u32, u32, u32), std::collections::VecDeque<(usize, u32)>> = HashMap::new();
        let ranks = self.ranks;
        for (rank, of) in ranks.iter().enumerate() {
            for (place, (line, operation)) in of.operations.iter().enumerate() {
                let own = rank as u32;
                let task = match *operation {
                    Operation::Calc(nanos) => self.task(own, own, 0, nanos),
                    Operation::Send(bytes, to, tag) => {
                        let task = self.task(own, to, bytes, 0);
                        sent.entry((own, to, tag)).or_default().push_back((*line, task));
                        task
                    }
                    Operation::Recv(..) => continue,
                };
                self.tasks.insert((rank, place), task);
            }
        }
        for (rank, of) in ranks.iter().enumerate() {
            for (place, (line, operation)) in of.operations.iter().enumerate() {
                if let Operation::Recv(from, tag) = *operation {
                    let matching =
                        sent.get_mut(&(from, rank as u32, tag)).and_then(std::collections::VecDeque::pop_front);
                    self.tasks.insert((rank, place), matching.ok_or(*line)?.1);
                }
            }
        }
        match sent.values().flatten().map(|(line, _)| *line).min() {
            Some(line) => Err(line),
            None => Ok(()),
        }
    }

    /// Who waits for what. A recv that itself waits has arrived when both have happened.
    fn waits(&mut self) {
        let ranks = self.ranks;
        for (rank, of) in ranks.iter().enumerate() {
            let mut after: HashMap<usize, Vec<(usize, bool)>> = HashMap::new();
            of.waits.iter().for_each(|(effect, cause, begin)| after.entry(*effect).or_default().push((*cause, *begin)));
            // A recv with waits stands for a join of its own, which is made before anybody waits for it.
            let mut joins: HashMap<usize, u32> = HashMap::new();
            for place in after.keys() {
                if matches!(of.operations[*place].1, Operation::Recv(..)) {
                    let join = self.task(rank as u32, rank as u32, 0, 0);
                    self.dag.waits.push((self.tasks[&(rank, *place)], Wait::Received, join));
                    joins.insert(*place, join);
                }
            }
            let mut places: Vec<usize> = after.keys().copied().collect();
            places.sort_unstable();
            for place in places {
                let effect = joins.get(&place).copied().unwrap_or(self.tasks[&(rank, place)]);
                for (cause, begin) in &after[&place] {
                    let events = self.events(rank, *cause, *begin, &after, &joins);
                    self.dag.waits.extend(events.into_iter().map(|(task, wait)| (task, wait, effect)));
                }
            }
        }
    }

    /// What has to happen until an operation is done; or has begun, which is when all that it waits for has happened.
    fn events(
        &self,
        rank: usize,
        place: usize,
        begin: bool,
        after: &HashMap<usize, Vec<(usize, bool)>>,
        joins: &HashMap<usize, u32>,
    ) -> Vec<DagEvent> {
        if begin {
            let before = after.get(&place).into_iter().flatten();
            return before.flat_map(|(cause, begin)| self.events(rank, *cause, *begin, after, joins)).collect();
        }
        if let Some(join) = joins.get(&place) {
            return vec![(*join, Wait::Received)];
        }
        let wait = if matches!(self.ranks[rank].operations[place].1, Operation::Send(..)) {
            Wait::Sent
        } else {
            Wait::Received
        };
        vec![(self.tasks[&(rank, place)], wait)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "num_ranks 2\n\nrank 0 {\nl1: calc 100 cpu 0\nl2: send 8b to 1 tag 7\nl2 requires l1\n}\n\
                         rank 1 {\nl1: recv 8b from 0 tag 7\nl2: calc 50\nl2 requires l1\n}\n";

    #[test]
    fn a_trace_becomes_transfers_that_wait() {
        let dag = read("g", TRACE, 4).expect("valid");
        let ends = |task: &DagTask| dag.connections[task.connection as usize];
        let tasks: Vec<_> =
            dag.tasks.iter().map(|task| (ends(task).from, ends(task).to, task.bytes, task.delay_ns)).collect();
        assert_eq!(tasks, [(0, 0, 0, 100), (0, 1, 8, 0), (1, 1, 0, 50)]);
        assert_eq!(dag.waits, [(0, Wait::Received, 1), (1, Wait::Received, 2)]);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, expected) in [
            (TRACE.replace("tag 7\nl2 req", "tag 8\nl2 req"), "g:9: no send matches this recv"),
            (TRACE.replace("to 1", "to 0"), "g:5: calc NS, send"),
            (
                TRACE.replace("l2 requires l1\n}\nrank", "l2 requires l9\n}\nrank"),
                "g:6: a label that no line above has",
            ),
            (TRACE.replace("num_ranks 2", "num_ranks 9"), "g:1: num_ranks: write 1 to 4"),
            (TRACE.replace("l2: calc", "l1: calc"), "g:10: a label that a line above has already"),
            (TRACE.replace("calc 50", "sleep 50"), "g:10: calc NS"),
        ] {
            let error = read("g", &text, 4).expect_err(&text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
