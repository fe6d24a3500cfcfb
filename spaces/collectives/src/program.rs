//! Programs as `job/1`: what the GPUs of a job do, step by step, in groups that hold tensors, experts, data and stages.

use kelpie_spaces::{Bytes, DocumentError, read_tagged};
use serde::{Deserialize, Serialize};

use crate::algorithms::{add, chosen, most_transfers};
use crate::dag::{Dag, DagBuilder};
use crate::group::{Group, GroupAlgorithm, GroupOp};

/// Most programs, flows and failures of a file. Source: our choice.
const MOST: usize = 1 << 16;
/// Most transfers of all. Source: our choice: they take 3 GB.
const MOST_TRANSFERS: u64 = 24 << 20;
/// Latest time. Units: µs. Source: our choice, an hour.
const MOST_MICROS: f64 = 3.6e9;

/// Which GPUs act together. Numbers of GPUs count tensor groups first, then experts, data, stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// All GPUs of the program.
    #[default]
    All,
    /// Those that share a layer's tensors.
    Tensor,
    /// Those that share experts.
    Expert,
    /// Those with the same parameters.
    Data,
    /// Those with the same experts.
    ExpertData,
}

/// An algorithm by name, or the one that a table chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum AlgorithmName {
    /// By operation, size and hosts.
    #[default]
    Auto,
    /// Rings.
    Ring,
    /// Two trees.
    Tree,
    /// The switch of a host reduces.
    Nvls,
    /// Inside of hosts, between them, inside.
    Hierarchical,
    /// Each to each.
    Direct,
    /// Each to each by the rail of the receiver.
    Pxn,
}

/// What GPUs do in a step: one of the operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// All have the sum of all; the size of the sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_reduce: Option<Bytes>,
    /// All have the parts of all; the size of all parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_gather: Option<Bytes>,
    /// Each has a part of the sum; the size of the sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduce_scatter: Option<Bytes>,
    /// Each sends another part to each; the size of all parts of a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_to_all: Option<Bytes>,
    /// Each stage sends to the next; the size for each GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<Bytes>,
    /// Work without network. Units: µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_us: Option<f64>,
    /// Which GPUs act together.
    #[serde(default)]
    pub group: GroupKind,
    /// How.
    #[serde(default)]
    pub algorithm: AlgorithmName,
    /// Connections of each pair of a ring; as many as GPUs of the group on a host if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u16>,
}

/// What each GPU of a job does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// A name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The first of its GPUs, and how many; all if they are absent.
    #[serde(default)]
    pub first_gpu: u32,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// GPUs of a tensor group.
    #[serde(default = "one")]
    pub tensor: u32,
    /// Tensor groups of an expert group.
    #[serde(default = "one")]
    pub expert: u32,
    /// Stages.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// When it begins. Units: µs.
    #[serde(default)]
    pub start_us: f64,
    /// How often it does its steps.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Time that a GPU takes to begin a transfer. Units: µs.
    #[serde(default)]
    pub send_us: f64,
    /// What it does.
    pub steps: Vec<Step>,
}

fn one() -> u32 {
    1
}

/// A message beside all programs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SingleFlow {
    /// GPU that sends.
    pub from: u32,
    /// GPU that receives.
    pub to: u32,
    /// Size.
    pub bytes: Bytes,
    /// Units: µs.
    #[serde(default)]
    pub start_us: f64,
}

/// A cable that fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CableFailure {
    /// Names of the nodes at its ends, such as `leaf0` and `spine3`.
    pub link: [String; 2],
    /// When. Units: µs.
    pub at_us: f64,
    /// When it works again, if it does. Units: µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired_at_us: Option<f64>,
    /// How long it takes until switches send around it. Units: µs.
    #[serde(default)]
    pub detected_after_us: f64,
}

/// What runs on a fabric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Programs {
    /// Jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Program>,
    /// Messages beside them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<SingleFlow>,
    /// What fails meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CableFailure>,
}

/// What rules a program breaks: key and rule.
type Broken = Vec<(String, String)>;

impl Programs {
    /// Tag of the format.
    pub const FORMAT: &'static str = "job/1";

    /// Reads programs for a fabric of so many GPUs from YAML, and what they come to.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake; `file` stands for the file.
    pub fn from_yaml(file: &str, text: &str, gpus: u32, gpus_per_host: u32) -> Result<(Self, Dag), DocumentError> {
        let (document, programs) = read_tagged::<Self>(file, text, Self::FORMAT)?;
        document.refuse_all(programs.broken_rules(gpus).into_iter())?;
        let dag = programs.dag(gpus, gpus_per_host).map_err(|(key, rule)| document.refuse(&key, &rule))?;
        Ok((programs, dag))
    }

    fn broken_rules(&self, gpus: u32) -> Broken {
        let mut broken = Vec::new();
        let mut require = |kept: bool, key: String, rule: &str| {
            if !kept {
                broken.push((key, rule.to_owned()));
            }
        };
        let is_time = |micros: f64| (0.0..=MOST_MICROS).contains(&micros);
        let few = self.programs.len().max(self.flows.len()).max(self.failures.len()) <= MOST;
        let some = !self.programs.is_empty() || !self.flows.is_empty();
        require(few && some, "programs".to_owned(), "write at least one program or flow, and at most 65536 of each");
        for (place, program) in self.programs.iter().enumerate() {
            let key = |name: &str| format!("programs[{place}].{name}");
            let (first, count) = (u64::from(program.first_gpu), u64::from(program.count(gpus)));
            let fits = count >= 1 && first + count <= u64::from(gpus);
            require(fits, key("gpus"), &format!("the fabric has {gpus} GPUs"));
            let split = u64::from(program.tensor) * u64::from(program.expert) * u64::from(program.pipeline);
            let divides = split > 0 && count.is_multiple_of(split);
            require(divides, key("tensor"), "tensor times expert times pipeline divides the GPUs");
            require(is_time(program.start_us), key("start_us"), TIME);
            require(is_time(program.send_us), key("send_us"), TIME);
            require((1..=1_000_000).contains(&program.iterations), key("iterations"), "write 1 to 1000000");
            require(!program.steps.is_empty(), key("steps"), "write at least one");
            for (number, step) in program.steps.iter().enumerate() {
                let key = format!("programs[{place}].steps[{number}]");
                let rule = "write one of all_reduce, all_gather, reduce_scatter, all_to_all, send and compute_us";
                require(step.operations() == 1, key.clone(), rule);
                require(step.compute_us.is_none_or(is_time), format!("{key}.compute_us"), TIME);
                require(
                    step.channels.is_none_or(|c| (1..=64).contains(&c)),
                    format!("{key}.channels"),
                    "write 1 to 64",
                );
                let sends = step.send.is_none() || program.pipeline > 1;
                require(sends, format!("{key}.send"), "a program that sends has a `pipeline` of at least 2");
            }
        }
        for (place, flow) in self.flows.iter().enumerate() {
            let fits = flow.from < gpus && flow.to < gpus && flow.from != flow.to && is_time(flow.start_us);
            require(fits, format!("flows[{place}]"), &format!("write two different GPUs below {gpus} and a time"));
        }
        for (place, failure) in self.failures.iter().enumerate() {
            let repaired = failure.repaired_at_us.is_none_or(|at| is_time(at) && at > failure.at_us);
            let times = is_time(failure.at_us) && is_time(failure.detected_after_us) && repaired;
            require(times, format!("failures[{place}]"), "write times from 0, and a repair after the failure");
        }
        broken
    }

    /// The transfers.
    ///
    /// # Errors
    /// The key of what cannot be, and why.
    pub fn dag(&self, gpus: u32, gpus_per_host: u32) -> Result<Dag, (String, String)> {
        let places = gpus + gpus.div_ceil(gpus_per_host);
        let mut builder = DagBuilder::new(places, 0);
        for (job, program) in self.programs.iter().enumerate() {
            let all = program.all(gpus);
            builder.begin_job(job as u16, &all, nanos(program.start_us));
            builder.send_takes(nanos(program.send_us));
            for _ in 0..program.iterations {
                for (number, step) in program.steps.iter().enumerate() {
                    let wrong = |rule: String| (format!("programs[{job}].steps[{number}]"), rule);
                    program.add(step, &mut builder, &all, gpus, gpus_per_host).map_err(wrong)?;
                    builder.end_step();
                }
            }
        }
        let job = self.programs.len() as u16;
        builder.send_takes(0);
        for flow in &self.flows {
            builder.begin_job(job, &[flow.from], nanos(flow.start_us));
            let ready = builder.ready(flow.from);
            builder.transfer([flow.from, flow.to], 0, flow.bytes.0, &ready);
            builder.end_step();
        }
        Ok(builder.finish())
    }
}

impl Program {
    fn count(&self, gpus: u32) -> u32 {
        self.gpus.unwrap_or_else(|| gpus.saturating_sub(self.first_gpu))
    }

    /// Adds a step for all GPUs.
    fn add(
        &self,
        step: &Step,
        builder: &mut DagBuilder,
        all: &[u32],
        cluster: u32,
        gpus_per_host: u32,
    ) -> Result<(), String> {
        room(builder, all.len() as u64)?;
        if let Some(micros) = step.compute_us {
            for gpu in all {
                builder.work(*gpu, nanos(micros));
            }
        }
        let stage = all.len() / self.pipeline as usize;
        if let Some(bytes) = step.send {
            for (from, to) in all.iter().zip(&all[stage..]) {
                let ready = builder.ready(*from);
                let task = builder.transfer([*from, *to], 0, bytes.0, &ready);
                builder.ends(task);
            }
        }
        let Some((op, bytes)) = step.group_op() else { return Ok(()) };
        for gpus in self.groups(step.group, all, stage) {
            let group = Group { gpus, gpus_per_host, cluster };
            let algorithm = match step.algorithm {
                AlgorithmName::Auto => chosen(op, &group, bytes.0),
                AlgorithmName::Ring => GroupAlgorithm::Ring,
                AlgorithmName::Tree => GroupAlgorithm::Tree,
                AlgorithmName::Nvls => GroupAlgorithm::Nvls,
                AlgorithmName::Hierarchical => GroupAlgorithm::Hierarchical,
                AlgorithmName::Direct => GroupAlgorithm::Direct,
                AlgorithmName::Pxn => GroupAlgorithm::Pxn,
            };
            let channels =
                step.channels.unwrap_or_else(|| group.hosts().iter().map(|host| host.len()).max().unwrap_or(1) as u16);
            room(builder, most_transfers(&group, op, algorithm, channels))?;
            add(builder, &group, op, algorithm, bytes.0, channels).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Its GPUs on a fabric of so many.
    pub fn all(&self, gpus: u32) -> Vec<u32> {
        (self.first_gpu..self.first_gpu + self.count(gpus)).collect()
    }

    /// The groups of a kind among its GPUs.
    pub fn groups_of(&self, kind: GroupKind, all: &[u32]) -> Vec<Vec<u32>> {
        self.groups(kind, all, all.len() / self.pipeline as usize)
    }

    /// The groups of a kind: GPUs whose places differ in one way only.
    fn groups(&self, kind: GroupKind, all: &[u32], stage: usize) -> Vec<Vec<u32>> {
        let (tensor, expert) = (self.tensor as usize, (self.tensor * self.expert) as usize);
        // How far apart the members of a group are, and how many they are.
        let (apart, members) = match kind {
            GroupKind::All => return vec![all.to_vec()],
            GroupKind::Tensor => (1, tensor),
            GroupKind::Expert => (tensor, expert / tensor),
            GroupKind::Data => (tensor, stage / tensor),
            GroupKind::ExpertData => (expert, stage / expert),
        };
        let is_first = |place: &usize| ((place % stage) / apart).is_multiple_of(members);
        (0..all.len()).filter(is_first).map(|first| (0..members).map(|n| all[first + n * apart]).collect()).collect()
    }
}

/// Whether so many more transfers are few enough.
fn room(builder: &DagBuilder, more: u64) -> Result<(), String> {
    let all = builder.transfers().saturating_add(more);
    let rule = || format!("up to {all} transfers with this step; at most {MOST_TRANSFERS} are simulated");
    if all > MOST_TRANSFERS { Err(rule()) } else { Ok(()) }
}

impl Step {
    fn operations(&self) -> usize {
        let sizes = [&self.all_reduce, &self.all_gather, &self.reduce_scatter, &self.all_to_all, &self.send];
        sizes.iter().filter(|size| size.is_some()).count() + usize::from(self.compute_us.is_some())
    }

    /// What it does, in words, such as `all_reduce 64MiB data`.
    pub fn words(&self) -> String {
        let group = match self.group {
            GroupKind::All => "",
            GroupKind::Tensor => " tensor",
            GroupKind::Expert => " expert",
            GroupKind::Data => " data",
            GroupKind::ExpertData => " expert-data",
        };
        let (word, bytes) = match (self.group_op(), self.send, self.compute_us) {
            (Some((GroupOp::AllReduce, bytes)), ..) => ("all_reduce", bytes),
            (Some((GroupOp::AllGather, bytes)), ..) => ("all_gather", bytes),
            (Some((GroupOp::ReduceScatter, bytes)), ..) => ("reduce_scatter", bytes),
            (Some((GroupOp::AllToAll, bytes)), ..) => ("all_to_all", bytes),
            (None, Some(bytes), _) => ("send", bytes),
            (None, None, micros) => return format!("compute {} µs", micros.unwrap_or(0.0)),
        };
        format!("{word} {bytes}{group}")
    }

    /// What a group does, and the size.
    pub fn group_op(&self) -> Option<(GroupOp, Bytes)> {
        let ops = [
            (GroupOp::AllReduce, self.all_reduce),
            (GroupOp::AllGather, self.all_gather),
            (GroupOp::ReduceScatter, self.reduce_scatter),
            (GroupOp::AllToAll, self.all_to_all),
        ];
        ops.into_iter().find_map(|(op, bytes)| Some((op, bytes?)))
    }
}

const TIME: &str = "write µs from 0 to 3600000000";

fn nanos(micros: f64) -> u64 {
    (micros * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::dag::Wait;

    fn dag(steps: &str, gpus: u32) -> Dag {
        let text = format!("kelpie: job/1\nprograms:\n- {{steps: [{steps}]}}\n");
        Programs::from_yaml("j", &text, gpus, 8).expect("valid").1
    }

    /// What each GPU has of each other's data when all is done, if every transfer carries all that its sender has: an
    /// all-reduce has to bring everything everywhere.
    fn spread(dag: &Dag, places: usize, gpus: u32) -> Vec<usize> {
        let mut waits: HashMap<u32, Vec<(u32, Wait)>> = HashMap::new();
        for (cause, wait, effect) in &dag.waits {
            assert!(cause < effect, "what is waited for stands before");
            let at = |task: u32| dag.connections[dag.tasks[task as usize].connection as usize];
            let where_it_happens = if *wait == Wait::Received { at(*cause).to } else { at(*cause).from };
            assert_eq!(where_it_happens, at(*effect).from, "a GPU waits for what happens at it");
            waits.entry(*effect).or_default().push((*cause, *wait));
        }
        // A transfer carries what the transfers that it waits for brought, and what its sender began with.
        let mut carried: Vec<std::collections::BTreeSet<u32>> = Vec::new();
        let mut has: Vec<std::collections::BTreeSet<u32>> = (0..places as u32).map(|gpu| [gpu].into()).collect();
        for (number, task) in dag.tasks.iter().enumerate() {
            let connection = dag.connections[task.connection as usize];
            let mut all: std::collections::BTreeSet<u32> = [connection.from].into();
            for (cause, _) in waits.get(&(number as u32)).into_iter().flatten() {
                all.extend(&carried[*cause as usize]);
            }
            has[connection.to as usize].extend(&all);
            carried.push(all);
        }
        has.iter().take(gpus as usize).map(|of| of.iter().filter(|one| **one < gpus).count()).collect()
    }

    #[test]
    fn an_all_reduce_brings_everything_everywhere_by_every_algorithm() {
        for (algorithm, gpus) in [
            ("ring", 8),
            ("ring", 24),
            ("tree", 16),
            ("tree", 40),
            ("tree", 8),
            ("nvls", 8),
            ("nvls", 24),
            ("hierarchical", 24),
        ] {
            let dag = dag(&format!("{{all_reduce: 1000003, algorithm: {algorithm}}}"), gpus);
            assert_eq!(spread(&dag, gpus as usize + 8, gpus), vec![gpus as usize; gpus as usize], "{algorithm} {gpus}");
        }
    }

    #[test]
    fn a_ring_moves_what_it_has_to_and_keeps_remainders() {
        let dag = dag("{all_reduce: 64511, algorithm: ring}", 64);
        assert_eq!(dag.tasks.len(), 64 * 8 * 126, "as in SimAI: 64,512 transfers");
        let bytes: u64 = dag.tasks.iter().map(|task| task.bytes).sum();
        assert_eq!(bytes, 2 * 63 * 64511, "each byte goes round twice, less one hop each");
    }

    #[test]
    fn all_to_all_sends_each_part_once_and_pxn_keeps_rails_apart() {
        let direct = dag("{all_to_all: 1600}", 16);
        assert_eq!(direct.tasks.iter().map(|task| task.bytes).sum::<u64>(), 16 * 1500);
        let pxn = dag("{all_to_all: 1600, algorithm: pxn}", 16);
        for task in &pxn.tasks {
            let Connection { from, to, .. } = pxn.connections[task.connection as usize];
            assert!(from / 8 == to / 8 || from % 8 == to % 8, "{from} to {to} crosses rails");
        }
        assert_eq!(pxn.tasks.len(), 16 * (15 + 7));
    }
    use crate::dag::Connection;

    #[test]
    fn groups_of_each_kind_are_disjoint_and_complete() {
        let text = "kelpie: job/1\nprograms:\n- {tensor: 4, expert: 2, pipeline: 2, steps: [{compute_us: 1}]}\n";
        let (programs, _) = Programs::from_yaml("j", text, 32, 8).expect("valid");
        let all: Vec<u32> = (0..32).collect();
        for (kind, members, second) in [
            (GroupKind::Tensor, 4, 1),
            (GroupKind::Expert, 2, 4),
            (GroupKind::Data, 4, 4),
            (GroupKind::ExpertData, 2, 8),
        ] {
            let groups = programs.programs[0].groups(kind, &all, 16);
            let mut seen: Vec<u32> = groups.iter().flatten().copied().collect();
            seen.sort_unstable();
            assert_eq!((seen, groups[0].len(), groups[0][1]), (all.clone(), members, second), "{kind:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (body, expected) in [
            ("programs: [{gpus: 99, steps: [{compute_us: 1}]}]", "programs[0].gpus: the fabric has 16 GPUs"),
            ("programs: [{tensor: 3, steps: [{compute_us: 1}]}]", "programs[0].tensor"),
            ("programs: [{steps: [{compute_us: 1, send: 1}]}]", "programs[0].steps[0]: write one of"),
            ("programs: [{steps: [{all_to_all: 1, algorithm: nvls}]}]", "programs[0].steps[0]: this algorithm"),
            ("programs: [{steps: [{all_reduce: 1, algorithm: turing}]}]", "turing"),
            ("flows: [{from: 1, to: 1, bytes: 1}]", "flows[0]: write two different GPUs"),
            ("programs: []", "programs: write at least one"),
        ] {
            let error =
                Programs::from_yaml("j", &format!("kelpie: job/1\n{body}\n"), 16, 8).expect_err(body).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
