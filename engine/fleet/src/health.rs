//! The health of one node, as Slurm's `HealthCheckProgram` asks for it every so often: the checks of its host, and a
//! drain if one fails and no other reason stands. A node is never taken back here.

use kelpie_engine::chain;
use kelpie_monitor::check::CheckState;
use kelpie_monitor::doctor::examine_since;
use kelpie_monitor::machine::Machine;
use kelpie_reports::qualification::{NodeAct, NodeStep, health_reason};
use serde::Serialize;

use crate::apply::{act, drain_step, slurm_nodes};
use crate::import::slurm::SlurmNode;

/// What is said of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeHealth {
    /// The node.
    pub node: String,
    /// The worst state of a check.
    pub state: CheckState,
    /// Checks that pass.
    pub passed: usize,
    /// Checks that were not possible.
    pub unknown: usize,
    /// What is done if a check fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<NodeStep>,
}

impl NodeHealth {
    /// Whether a check fails.
    pub fn is_failed(&self) -> bool {
        self.state == CheckState::Fail
    }

    /// Whether anything can be said.
    pub fn is_known(&self) -> bool {
        self.is_failed() || self.passed > 0
    }

    /// A line for people and for other watchers of nodes.
    pub fn text(&self) -> String {
        let Self { node, passed, unknown, step, .. } = self;
        let Some(step) = step else {
            let known = if self.is_known() { "no check fails" } else { "nobody can say" };
            return format!("{node}: {known}, {passed} pass, {unknown} unknown\n");
        };
        let NodeStep { why, command, error, .. } = step;
        match (step.act, step.is_done) {
            (NodeAct::Drain, Some(true)) => format!("{node}: drained: {why}\n"),
            (NodeAct::Drain, Some(false)) => {
                format!("{node}: {why}\n{node}: not drained: {}\n", error.as_deref().unwrap_or_default())
            }
            (NodeAct::Drain, None) => format!("{node}: {why}\n{}\n", command.as_deref().unwrap_or_default()),
            _ => format!("{node}: left alone: {why}\n"),
        }
    }
}

/// Examines a host, and drains its node if it is to act, a check fails and nobody else keeps jobs from it.
pub fn examine_node(machine: &Machine, node: Option<&str>, act: bool) -> NodeHealth {
    let seen = examine_since(machine, None, None, 0, None);
    let short = || seen.host.trim().split('.').next().unwrap_or_default().to_owned();
    let node = node.map_or_else(short, str::to_owned);
    let count = |state| seen.checks.iter().filter(|check| check.state == state).count();
    // Of neither, nothing was looked at.
    let is_host = machine.has("sys") || machine.has("proc");
    let reason = health_reason(&seen.checks).filter(|_| is_host);
    let step = reason.map(|reason| if act { acted(&node, reason) } else { drain_step(&node, reason) });
    NodeHealth {
        state: seen.checks.iter().map(|check| check.state).max().filter(|_| is_host).unwrap_or(CheckState::Unknown),
        passed: count(CheckState::Pass),
        unknown: count(CheckState::Unknown),
        node,
        step,
    }
}

fn acted(node: &str, reason: String) -> NodeStep {
    let step = drain_step(node, reason);
    if step.act == NodeAct::Leave {
        return step;
    }
    let known = match slurm_nodes(Some(node)) {
        Ok(nodes) => nodes.into_iter().find(|known| known.name == node),
        Err(error) => return NodeStep { is_done: Some(false), error: Some(chain(&*error)), ..step },
    };
    if let Some(why) = known.as_ref().map_or(Some("Slurm has no node of this name".to_owned()), stands) {
        let why = format!("{}: {why}", step.why);
        return NodeStep { command: None, act: NodeAct::Leave, why, ..step };
    }
    let mut steps = [step];
    act(&mut steps);
    let [step] = steps;
    step
}

/// Why it is left as it is: jobs are kept from it already, or somebody has a word to say.
fn stands(node: &SlurmNode) -> Option<String> {
    if node.is_drained() {
        return Some(format!("it is drained already: {}", node.reason));
    }
    (!node.reason.is_empty()).then(|| format!("another reason stands: {}", node.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_of_which_nothing_can_be_read_is_neither_well_nor_drained() {
        let folder = tempfile::tempdir().expect("a folder");
        let health = examine_node(&Machine::recorded(folder.path()), Some("n1"), true);
        assert_eq!((health.is_failed(), health.step.is_none(), health.node.as_str()), (false, true, "n1"));
    }

    #[test]
    fn a_node_that_somebody_drained_or_spoke_of_stands() {
        let node = |states: &str, reason: &str| SlurmNode {
            states: vec![states.to_owned()],
            reason: reason.to_owned(),
            ..SlurmNode::default()
        };
        assert_eq!(stands(&node("idle", "")), None);
        assert!(stands(&node("drain", "NHC: x")).is_some_and(|why| why.contains("NHC: x")));
        assert!(stands(&node("down", "Not responding")).is_some());
        assert!(stands(&node("drain", "kelpie: health check=link: down")).is_some());
    }
}
