//! What a qualification comes to in Slurm: nodes that are out are drained, and nodes that are in are taken back if a
//! qualification drained them. Nodes of somebody else are left alone, and so is every node of which nobody can say.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use kelpie_criteria::{FleetState, FleetVerdict, NodeFault, NodeQualification};
use kelpie_engine::chain;
use kelpie_examine::job::scheduler::{MARK, Scheduler, Step};
use kelpie_examine::program::output_up_to;
use kelpie_reports::qualification::{NodeAct, NodeStep, reason, run_of_reason};
use kelpie_store::{QualificationId, Store, StoredQualification};

use crate::import::slurm::SlurmNode;
use crate::plan::Plan;
use crate::qualification::{QualificationDocument, read, verdict_so_far};

/// How long Slurm may take to list its nodes. Source: our choice.
const LIMIT: Duration = Duration::from_secs(30);
/// Longest list. Units: bytes. Source: our choice; a node has some 1.2 KiB.
const LONGEST: u64 = 64 << 20;
/// Share of the nodes that are drained at most. Units: percent. Source: our choice; more than that at once is a fault
/// of the fabric or of the measurement, at which a person should look first.
const DRAINED_AT_MOST: usize = 5;
/// States of nodes that run jobs as soon as they are not drained; `$` behind one is a maintenance reservation. All
/// others have troubles that are not ours.
const SOUND: [&str; 11] = [
    "idle",
    "allocated",
    "mixed",
    "completing",
    "drain",
    "reserved",
    "maintenance",
    "planned",
    "cloud",
    "dynamic_norm",
    "dynamic_future",
];

/// A qualification to be applied.
#[derive(Debug)]
pub struct Applied {
    /// Its number.
    pub run: i64,
    /// What is said of the nodes.
    pub verdict: FleetVerdict,
    /// Its plan.
    pub plan: Plan,
    /// When it began. Units: s since 1970.
    pub began: i64,
    /// The qualifications before it in its store that ended.
    pub earlier: BTreeMap<i64, EarlierRun>,
}

/// A qualification before.
#[derive(Debug)]
pub struct EarlierRun {
    /// Its plan.
    pub plan: Plan,
    /// The nodes that were out: numbers of runs are those of a store, and another store may have drained a node.
    pub out: BTreeSet<String>,
}

impl Applied {
    /// Reads one of the store; the latest if none is named.
    ///
    /// # Errors
    /// There is none, or the store cannot be read.
    pub fn read(store: &mut Store, id: Option<QualificationId>) -> anyhow::Result<Self> {
        let all = store.qualifications()?;
        let stored = match id {
            Some(id) => {
                all.iter().find(|stored| stored.id == id).with_context(|| format!("there is no qualification {id}"))?
            }
            None => all.last().context("no qualification yet: `kelpie qualify run` makes one")?,
        };
        let (document, units) = read(store, stored.id)?;
        let verdict = match &stored.ended {
            Some(verdict) => serde_json::from_str(verdict)?,
            None => verdict_so_far(&document, &units)?,
        };
        // One of another version has no plan that can be compared.
        let run_of = |stored: &StoredQualification| {
            let plan = serde_json::from_str::<QualificationDocument>(&stored.document).ok()?.plan;
            let verdict: FleetVerdict = serde_json::from_str(stored.ended.as_deref()?).ok()?;
            let out = verdict.nodes.into_iter().filter(|(_, node)| node.state == FleetState::Out);
            Some((stored.id.0, EarlierRun { plan, out: out.map(|(name, _)| name).collect() }))
        };
        let earlier = all.iter().filter(|other| other.id.0 < stored.id.0).filter_map(run_of).collect();
        Ok(Self { run: stored.id.0, verdict, plan: document.plan, began: stored.began, earlier })
    }

    /// What is to be done: what is taken back first, then drains, the worst first, then what is left alone and why.
    pub fn steps(&self, nodes: &[SlurmNode], drain_at_most: Option<usize>) -> Vec<NodeStep> {
        let known: BTreeMap<&str, &SlurmNode> = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut judged: Vec<(&String, &NodeQualification)> = self.verdict.nodes.iter().collect();
        judged.sort_by(|one, other| badness(one.1).total_cmp(&badness(other.1)));
        let mut steps: Vec<NodeStep> = judged
            .into_iter()
            .filter_map(|(name, node)| self.step(name, node, known.get(name.as_str()).copied()))
            .collect();
        // Those that were drained before count, so that runs one after the other drain no more than one.
        let ours = |node: &&&SlurmNode| node.is_drained() && node.reason.starts_with(MARK);
        let mine = self.verdict.nodes.keys().filter_map(|name| known.get(name.as_str())).filter(ours).count();
        let resumed = steps.iter().filter(|step| step.act == NodeAct::Resume).count();
        let most = drain_at_most.unwrap_or_else(|| (self.verdict.nodes.len() * DRAINED_AT_MOST / 100).max(1));
        let mut free = most.saturating_sub(mine.saturating_sub(resumed));
        for step in steps.iter_mut().filter(|step| step.act == NodeAct::Drain) {
            if free == 0 {
                let reason = &step.why;
                let why = format!(
                    "it is out ({reason}), and Kelpie keeps jobs from {most} nodes at most: look at the cause of so many, or give --drain-at-most"
                );
                *step = NodeStep::new(&step.node, NodeAct::Leave, why);
            } else {
                free -= 1;
            }
        }
        steps.sort_by_key(|step| step.act);
        steps
    }

    fn step(&self, name: &str, node: &NodeQualification, known: Option<&SlurmNode>) -> Option<NodeStep> {
        let leave = |why: String| Some(NodeStep::new(name, NodeAct::Leave, why));
        let Some(slurm) = known else { return leave("Slurm has no node of this name".to_owned()) };
        let step = match node.state {
            FleetState::Unknown => leave(format!("nobody can say of it: {}", node.unsure.join("; "))),
            FleetState::Out => self.drain(name, node, slurm),
            FleetState::In if !slurm.is_drained() => None,
            FleetState::In => self.resume(name, slurm),
        };
        let words = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        step.map(|step| NodeStep {
            drained_by: words(&slurm.reason_by).filter(|_| slurm.is_drained()),
            drained_at: Some(slurm.reason_at).filter(|at| *at > 0 && slurm.is_drained()).map(time),
            ..step
        })
    }

    fn drain(&self, name: &str, node: &NodeQualification, slurm: &SlurmNode) -> Option<NodeStep> {
        let leave = |why: String| Some(NodeStep::new(name, NodeAct::Leave, why));
        if slurm.is_drained() {
            return leave(format!("it is out, and drained already: {}", slurm.reason));
        }
        if !slurm.reason.is_empty() {
            return leave(format!("it is out, and another reason stands: {}", slurm.reason));
        }
        Some(drain_step(name, reason(self.run, node)?))
    }

    fn resume(&self, name: &str, slurm: &SlurmNode) -> Option<NodeStep> {
        let leave = |why: String| Some(NodeStep::new(name, NodeAct::Leave, why));
        let reason = &slurm.reason;
        if !reason.starts_with(MARK) {
            return leave(format!("it is in, and somebody else drained it: {reason}"));
        }
        let Some(drained) = run_of_reason(reason) else {
            return leave(format!("it is in, and its reason is of no qualification: {reason}"));
        };
        if let Some(other) = slurm.states.iter().find(|state| !SOUND.contains(&state.trim_end_matches('$'))) {
            return leave(format!("it is in, and Slurm calls it {other}"));
        }
        if let Some(refused) = Scheduler::Slurm.refuses(name) {
            return leave(refused);
        }
        let earlier = self.earlier.get(&drained).filter(|run| run.out.contains(name)).map(|run| &run.plan);
        // What drained it is older than what speaks for it.
        if earlier.is_none() && (slurm.reason_at == 0 || (self.began as u64) < slurm.reason_at) {
            return leave(format!("it is in, and was drained after this qualification began: {reason}"));
        }
        let full = Plan::named("full").ok()?;
        if !self.plan.covers(&full) && !earlier.is_some_and(|plan| self.plan.covers(plan)) {
            let (mine, missing) = (self.plan.words(), earlier.unwrap_or(&full).words());
            return leave(format!(
                "it is in by plan {mine}, which is less than {missing} that speaks for it: {reason}"
            ));
        }
        Some(NodeStep {
            command: Some(lines(&Scheduler::Slurm.resume(name))),
            ..NodeStep::new(name, NodeAct::Resume, format!("in by plan {}; was: {reason}", self.plan.words()))
        })
    }
}

/// How bad a node is that is out: who did not do its part is worst.
fn badness(node: &NodeQualification) -> f64 {
    node.faults.first().map_or(-1.0, NodeFault::goodness)
}

/// Drains a node for this reason; leaves it alone if Slurm would take its name for others.
pub(crate) fn drain_step(node: &str, reason: String) -> NodeStep {
    if let Some(refused) = Scheduler::Slurm.refuses(node) {
        return NodeStep::new(node, NodeAct::Leave, refused);
    }
    let command = lines(&Scheduler::Slurm.drain(node, without_mark(&reason)));
    NodeStep { command: Some(command), ..NodeStep::new(node, NodeAct::Drain, reason) }
}

/// Steps as a line for a shell.
fn lines(steps: &[Step]) -> String {
    steps.iter().map(Step::line).collect::<Vec<_>>().join(" && ")
}

/// The words behind the mark, which the scheduler puts before them.
fn without_mark(reason: &str) -> &str {
    reason.strip_prefix(MARK).unwrap_or(reason).trim_start()
}

fn time(seconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

/// Does the steps; each node is looked at once more right before.
pub fn act(steps: &mut [NodeStep]) {
    for step in steps {
        let done = match step.act {
            NodeAct::Drain => Scheduler::Slurm.act_drain(&step.node, without_mark(&step.why)),
            NodeAct::Resume => Scheduler::Slurm.act_resume(&step.node),
            NodeAct::Leave => continue,
        };
        step.is_done = Some(done.is_ok());
        step.error = done.err().map(|error| chain(&*error));
    }
}

/// The nodes of this host's Slurm; one of them if it is named.
///
/// # Errors
/// `scontrol` is not there, or Slurm does not answer.
pub fn slurm_nodes(node: Option<&str>) -> anyhow::Result<Vec<SlurmNode>> {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "node"]).args(node).env("SLURM_TIME_FORMAT", "%s");
    let text = output_up_to(command, LONGEST, LIMIT);
    let text =
        text.context("scontrol show node: run this where Slurm's commands work, with SLURM_CONF if they need it")?;
    Ok(text.lines().filter_map(of_line).collect())
}

/// A node as `scontrol --oneliner show node` writes it, with times in seconds.
fn of_line(line: &str) -> Option<SlurmNode> {
    let (fixed, rest) = line.split_once(" Reason=").unwrap_or((line, ""));
    let key = |key: &str| fixed.split_whitespace().find_map(|word| word.strip_prefix(key)).unwrap_or_default();
    let name = key("NodeName=");
    // Reason=words [user@time], behind which other keys may come.
    let mut bracket = None;
    for (at, _) in rest.match_indices(" [") {
        let inside = rest[at + 2..].split(']').next().unwrap_or_default();
        let by = inside.rsplit_once('@').and_then(|(by, time)| Some((by, time.parse::<u64>().ok()?)));
        if let Some(by) = by.filter(|(by, _)| !by.contains(' ')) {
            bracket = Some((at, by));
            break;
        }
    }
    let (reason, by, at) = match bracket {
        Some((end, (by, at))) => (&rest[..end], by, at),
        None => (rest, "", 0),
    };
    let states = key("State=").split('+').map(str::to_lowercase).filter(|state| !state.is_empty());
    Some(SlurmNode {
        name: Some(name.to_owned()).filter(|name| !name.is_empty())?,
        address: key("NodeAddr=").to_owned(),
        states: states.collect(),
        partitions: key("Partitions=").split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        reason: reason.trim().to_owned(),
        reason_by: by.to_owned(),
        reason_at: at,
    })
}

#[cfg(test)]
mod tests {
    use kelpie_criteria::{MeasuredFault, NodeFault};

    use super::*;

    fn node(state: FleetState) -> NodeQualification {
        let measured = MeasuredFault {
            metric: "pair_bandwidth.leaf".to_owned(),
            got: 98.0,
            want: 392.0,
            unit: "Gb/s".to_owned(),
            similarity: 0.25,
        };
        let fault = NodeFault {
            check: "pair".to_owned(),
            component: String::new(),
            measured: Some(measured),
            detail: String::new(),
        };
        let faults = if state == FleetState::Out { vec![fault] } else { Vec::new() };
        NodeQualification { state, faults, unsure: vec!["slow once".to_owned()], values: 3 }
    }

    fn applied(plan: &str, states: &[(&str, FleetState)]) -> Applied {
        let nodes = states.iter().map(|(name, state)| ((*name).to_owned(), node(*state))).collect();
        let plan_of = |name: &str| Plan::named(name).expect("known");
        let out: BTreeSet<String> = ["n0", "n1", "n2", "n9"].map(str::to_owned).into();
        let before = |plan: &str| EarlierRun { plan: plan_of(plan), out: out.clone() };
        Applied {
            run: 9,
            verdict: FleetVerdict { nodes, ..FleetVerdict::default() },
            plan: plan_of(plan),
            began: 2000,
            earlier: [(7, before("quick")), (8, before("full"))].into(),
        }
    }

    fn slurm(name: &str, state: &str, reason: &str, at: u64) -> SlurmNode {
        let states = state.split('+').map(str::to_owned).collect();
        SlurmNode { name: name.to_owned(), states, reason: reason.to_owned(), reason_at: at, ..SlurmNode::default() }
    }

    use FleetState::{In, Out, Unknown};

    /// What is done to one node of that state.
    fn act_of(plan: &str, state: FleetState, node: &SlurmNode) -> Option<NodeAct> {
        applied(plan, &[(&node.name, state)]).steps(std::slice::from_ref(node), None).first().map(|step| step.act)
    }

    #[test]
    fn only_a_node_that_is_out_sound_and_nobodys_is_drained() {
        for (state, slurm_state, reason, expected) in [
            (Out, "idle", "", Some(NodeAct::Drain)),
            (Out, "allocated", "", Some(NodeAct::Drain)),
            (Out, "idle+drain", "bad fan", Some(NodeAct::Leave)),
            (Out, "idle+drain", "kelpie: run=7 check=pair", Some(NodeAct::Leave)),
            (Out, "down", "Not responding", Some(NodeAct::Leave)),
            (Unknown, "idle", "", Some(NodeAct::Leave)),
            (Unknown, "idle+drain", "kelpie: run=7 check=pair", Some(NodeAct::Leave)),
            (In, "idle", "", None),
        ] {
            let act = act_of("full", state, &slurm("n1", slurm_state, reason, 1000));
            assert_eq!(act, expected, "{state:?} {slurm_state} {reason}");
        }
    }

    #[test]
    fn only_what_a_qualification_drained_is_taken_back_by_a_later_one_of_no_less() {
        for (plan, slurm_state, reason, at, expected) in [
            // Run 7 was quick, run 8 full.
            ("quick", "idle+drain", "kelpie: run=7 check=pair", 1000, NodeAct::Resume),
            ("quick", "idle+drain", "kelpie: run=8 check=pair", 1000, NodeAct::Leave),
            ("loopback_write", "idle+drain", "kelpie: run=7 check=loopback_write", 1000, NodeAct::Leave),
            ("full", "mixed+drain", "kelpie: run=8 check=incast_3", 1000, NodeAct::Resume),
            // Drained by hand of this store's run after this one began: the evidence is older than this.
            ("full", "idle+drain", "kelpie: run=8 check=pair", 3000, NodeAct::Resume),
            // Of another store: newer than this one, as old as can be told, older.
            ("full", "idle+drain", "kelpie: run=90 check=pair", 3000, NodeAct::Leave),
            ("full", "idle+drain", "kelpie: run=90 check=pair", 0, NodeAct::Leave),
            ("full", "idle+drain", "kelpie: run=90 check=pair", 1000, NodeAct::Resume),
            ("quick", "idle+drain", "kelpie: run=90 check=pair", 1000, NodeAct::Leave),
            // Of no qualification.
            ("full", "idle+drain", "kelpie: health check=link: down", 1000, NodeAct::Leave),
            ("full", "idle+drain", "kelpie: rank 3 is slow", 1000, NodeAct::Leave),
            ("full", "idle+drain", "NHC: kelpie: run=7", 1000, NodeAct::Leave),
            ("full", "idle+drain", "", 1000, NodeAct::Leave),
            // Of Slurm, too.
            ("full", "down+drain", "kelpie: run=8 check=pair", 1000, NodeAct::Leave),
            ("full", "idle*+drain", "kelpie: run=8 check=pair", 1000, NodeAct::Leave),
            ("full", "idle+drain+reboot_requested", "kelpie: run=8 check=pair", 1000, NodeAct::Leave),
        ] {
            let act = act_of(plan, In, &slurm("n1", slurm_state, reason, at));
            assert_eq!(act, Some(expected), "{plan} {slurm_state} {reason} {at}");
        }
    }

    #[test]
    fn a_run_of_another_store_is_not_taken_for_that_of_the_same_number() {
        // Run 7 of this store did not call n5 out.
        for (at, expected) in [(3000, NodeAct::Leave), (1000, NodeAct::Leave)] {
            let act = act_of("quick", In, &slurm("n5", "idle+drain", "kelpie: run=7 check=pair", at));
            assert_eq!(act, Some(expected), "{at}");
        }
        let full = act_of("full", In, &slurm("n5", "idle+drain", "kelpie: run=7 check=pair", 1000));
        assert_eq!(full, Some(NodeAct::Resume));
    }

    #[test]
    fn no_more_nodes_are_drained_than_may_be_and_those_of_before_count() {
        let names: Vec<String> = (0..40).map(|node| format!("n{node}")).collect();
        let states: Vec<(&str, FleetState)> =
            names.iter().enumerate().map(|(nth, name)| (name.as_str(), if nth < 5 { Out } else { In })).collect();
        let applied = applied("quick", &states);
        let nodes: Vec<SlurmNode> = names.iter().map(|name| slurm(name, "idle", "", 0)).collect();
        let drained = |nodes: &[SlurmNode], most| {
            applied.steps(nodes, most).iter().filter(|step| step.act == NodeAct::Drain).count()
        };
        assert_eq!([drained(&nodes, None), drained(&nodes, Some(4)), drained(&nodes, Some(9))], [2, 4, 5]);
        let mut before = nodes.clone();
        before[0] = slurm("n0", "idle+drain", "kelpie: run=7 check=pair", 1);
        before[9] = slurm("n9", "idle+drain", "kelpie: run=7 check=pair", 1);
        // n9 is taken back, n0 is not.
        let steps = applied.steps(&before, None);
        assert_eq!((steps[0].node.as_str(), steps[0].act), ("n9", NodeAct::Resume));
        assert_eq!(drained(&before, None), 1);
    }

    #[test]
    fn steps_can_be_pasted_and_say_who_and_when() {
        let applied = applied("quick", &[("n1", Out), ("n2", In), ("n3", In), ("ALL", Out), ("n5", Out)]);
        let by_root = |name: &str, reason: &str| SlurmNode {
            reason_by: "root".to_owned(),
            ..slurm(name, "idle+drain", reason, 1000)
        };
        let nodes = [
            slurm("n1", "idle", "", 0),
            by_root("n2", "kelpie: run=7 check=pair"),
            by_root("n3", "bad fan"),
            slurm("ALL", "idle", "", 0),
        ];
        let steps = applied.steps(&nodes, Some(9));
        let commands: Vec<&str> = steps.iter().filter_map(|step| step.command.as_deref()).collect();
        let reason = "kelpie: run=9 check=pair metric=pair_bandwidth.leaf got=98.0 want=392 Gb/s";
        let drain = format!("scontrol update NodeName=n1 State=DRAIN Reason=\"{reason}\"");
        assert_eq!(commands, ["scontrol update NodeName=n2 State=RESUME", &drain]);
        let left = |name: &str| steps.iter().find(|step| step.node == name).expect("left");
        assert_eq!(left("n3").drained_by.as_deref(), Some("root"));
        assert_eq!(left("n3").drained_at.as_deref(), Some("1970-01-01T00:16:40Z"));
        assert!(left("ALL").why.contains("a keyword of Slurm"), "{}", left("ALL").why);
        assert!(left("n5").why.contains("Slurm has no node"), "{}", left("n5").why);
    }

    #[test]
    fn a_line_of_scontrol_has_reason_who_and_when_whatever_comes_behind() {
        let line = "NodeName=node2 Arch=x86_64 NodeAddr=127.0.77.2 OS=Linux 6.18 #1 SMP @0  State=IDLE+DRAIN Weight=1 \
            Partitions=a,b  ExtSensorsTemp=n/s Reason=kelpie: run=7 got=98.0 [odd] Gb/s [root@1795968344] Comment=a [x@1] Extra=y";
        let node = of_line(line).expect("a node");
        assert_eq!((node.name.as_str(), node.address.as_str(), node.is_drained()), ("node2", "127.0.77.2", true));
        assert_eq!(node.reason, "kelpie: run=7 got=98.0 [odd] Gb/s");
        assert_eq!((node.reason_by.as_str(), node.reason_at, node.partitions.len()), ("root", 1_795_968_344, 2));
        let bare = of_line("NodeName=n1 State=IDLE").expect("a node");
        assert_eq!((bare.reason.as_str(), bare.states), ("", vec!["idle".to_owned()]));
        assert_eq!(of_line("No nodes in the system"), None);
    }
}
