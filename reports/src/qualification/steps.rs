//! What a qualification comes to in a scheduler: commands that can be pasted, and the nodes that are left alone.

use std::fmt::Write as _;

use kelpie_text::clean;
use serde::Serialize;

/// Nodes left alone that are shown. Source: our choice, a screen.
const SHOWN: usize = 20;

/// What is done to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAct {
    /// It may take jobs again.
    Resume,
    /// Jobs are kept from it.
    Drain,
    /// Nothing.
    Leave,
}

/// What is done to a node, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeStep {
    /// The node.
    pub node: String,
    /// What is done.
    pub act: NodeAct,
    /// The reason of a drain; else why, in words.
    pub why: String,
    /// The command that does it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Who drained it, if somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drained_by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drained_at: Option<String>,
    /// Whether it was done; absent if nobody tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_done: Option<bool>,
    /// Why it could not be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl NodeStep {
    /// One that nobody tried yet.
    pub fn new(node: &str, act: NodeAct, why: impl Into<String>) -> Self {
        let (node, why) = (node.to_owned(), why.into());
        Self { node, act, why, command: None, drained_by: None, drained_at: None, is_done: None, error: None }
    }
}

/// The steps as lines for a shell: what is no command is a comment.
pub fn steps(run: i64, steps: &[NodeStep]) -> String {
    let count = |act| steps.iter().filter(|step| step.act == act).count();
    let [resume, drain, leave] = [NodeAct::Resume, NodeAct::Drain, NodeAct::Leave].map(count);
    let is_tried = steps.iter().any(|step| step.is_done.is_some());
    let mut text = format!("# qualification {run}: {drain} to drain, {resume} to resume, {leave} left alone\n");
    let since = |step: &NodeStep| match (&step.drained_by, &step.drained_at) {
        (Some(by), Some(at)) => format!(", drained by {by} at {at}"),
        (Some(by), None) => format!(", drained by {by}"),
        _ => String::new(),
    };
    for step in steps.iter().filter(|step| step.act != NodeAct::Leave) {
        match (step.is_done, &step.error) {
            (Some(true), _) => text += "# done: ",
            (Some(false), error) => {
                let _ = writeln!(text, "# {}: not done: {}", step.node, clean(error.as_deref().unwrap_or_default()));
            }
            _ => {}
        }
        let _ = writeln!(text, "{}", clean(step.command.as_deref().unwrap_or_default()));
        if step.act == NodeAct::Resume {
            let _ = writeln!(text, "#   {}{}", clean(&step.why), clean(&since(step)));
        }
    }
    for step in steps.iter().filter(|step| step.act == NodeAct::Leave).take(SHOWN) {
        let _ = writeln!(text, "# {}: left alone: {}{}", step.node, clean(&step.why), clean(&since(step)));
    }
    if let Some(more) = leave.checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "# and {more} more left alone; --json has all");
    }
    if drain + resume > 0 && !is_tried {
        text += "# nothing was done: run the commands, or add --act\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_command_or_a_comment() {
        let mut drain = NodeStep::new("n1", NodeAct::Drain, "kelpie: run=7 check=pair");
        drain.command = Some("scontrol update NodeName=n1 State=DRAIN Reason=\"kelpie: run=7 check=pair\"".to_owned());
        let mut leave = NodeStep::new("n2", NodeAct::Leave, "another reason stands: bad\nfan");
        leave.drained_by = Some("root".to_owned());
        let text = steps(7, &[drain.clone(), leave.clone()]);
        let is_either = |line: &str| line.starts_with("# ") || line.starts_with("scontrol update ");
        assert!(text.lines().all(is_either), "{text}");
        assert!(text.contains("n2: left alone: another reason stands") && text.ends_with("add --act\n"), "{text}");
        drain.is_done = Some(true);
        let text = steps(7, &[drain, leave]);
        assert!(text.lines().all(|line| line.starts_with('#')), "what was done is not pasted: {text}");
    }
}
