//! How schedulers keep jobs from a host, and take it back: commands that are printed, and run if somebody says so.

use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::program::{output, run};
use anyhow::{Context as _, bail};
use serde_json::json;

/// How long a command may take. Source: our choice.
const LIMIT: Duration = Duration::from_secs(10);
/// What reasons of Kelpie begin with: those of others are left alone.
pub const MARK: &str = "kelpie:";
/// Type of the condition of a node. True is bad, as the types of node-problem-detector are.
const CONDITION: &str = "KelpieDegraded";

/// A scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// Slurm, by `scontrol`.
    Slurm,
    /// Kubernetes, by `kubectl`.
    Kubernetes,
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step(Vec<String>);

impl Step {
    fn of(words: &[&str]) -> Self {
        Self(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// The step as a line for a shell.
    pub fn line(&self) -> String {
        let is_of =
            |word: &str, more: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || more.contains(letter));
        let quoted = |word: &String| match word.split_once('=') {
            _ if is_of(word, "-_./=") => word.clone(),
            Some((key, value)) if is_of(key, "") && is_of(value, "-_./=:, ") => format!("{key}=\"{value}\""),
            _ => format!("'{}'", word.replace('\'', "'\\''")),
        };
        self.0.iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.0[0]);
        command.args(&self.0[1..]);
        command
    }

    fn run(&self) -> anyhow::Result<()> {
        run(self.command(), "", LIMIT).with_context(|| self.0[0].clone())
    }
}

impl Scheduler {
    /// Why a host cannot be named to the scheduler, if so: Slurm takes `ALL`, lists and ranges for more than one node.
    pub fn refuses(self, host: &str) -> Option<String> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let is_word = !host.is_empty() && !host.starts_with('-') && host.chars().all(is_name);
        let why = match self {
            _ if !is_word => "no name of one node",
            Self::Slurm if host.eq_ignore_ascii_case("all") || host.eq_ignore_ascii_case("default") => {
                "a keyword of Slurm and no name of one node"
            }
            _ => return None,
        };
        Some(format!("host `{}` is {why}: keep jobs from it by hand", host.escape_debug()))
    }

    /// What keeps jobs from a host, and why in a few words.
    pub fn drain(self, host: &str, why: &str) -> Vec<Step> {
        match self {
            Self::Slurm => {
                let (name, reason) = (format!("NodeName={host}"), format!("Reason={MARK} {why}"));
                vec![Step::of(&["scontrol", "update", &name, "State=DRAIN", &reason])]
            }
            Self::Kubernetes => {
                vec![
                    Step::of(&["kubectl", "cordon", host]),
                    condition(host, "True", "Diagnosed", &format!("{MARK} {why}")),
                ]
            }
        }
    }

    /// What takes it back.
    pub fn resume(self, host: &str) -> Vec<Step> {
        match self {
            Self::Slurm => vec![Step::of(&["scontrol", "update", &format!("NodeName={host}"), "State=RESUME"])],
            Self::Kubernetes => {
                let message = format!("{MARK} the job is well again");
                vec![condition(host, "False", "Recovered", &message), Step::of(&["kubectl", "uncordon", host])]
            }
        }
    }

    /// Runs what keeps jobs from a host, unless somebody else did so before: their reason stays.
    ///
    /// # Errors
    /// Somebody else keeps jobs from it, or the scheduler does not answer or refuses.
    pub fn act_drain(self, host: &str, why: &str) -> anyhow::Result<()> {
        if let Some(other) = self.reason(host)?.filter(|reason| !reason.starts_with(MARK)) {
            bail!("it is already, for another reason: {}", other.chars().take(120).collect::<String>());
        }
        self.drain(host, why).iter().try_for_each(Step::run)
    }

    /// Runs what takes a host back, if Kelpie kept jobs from it.
    ///
    /// # Errors
    /// Kelpie did not keep jobs from it, or the scheduler does not answer or refuses.
    pub fn act_resume(self, host: &str) -> anyhow::Result<()> {
        match self.reason(host)? {
            Some(reason) if reason.starts_with(MARK) => self.resume(host).iter().try_for_each(Step::run),
            Some(reason) => bail!("another reason was given: {}", reason.chars().take(120).collect::<String>()),
            None => bail!("nobody drained it"),
        }
    }

    /// Why jobs are kept from a host, if they are.
    fn reason(self, host: &str) -> anyhow::Result<Option<String>> {
        match self {
            Self::Slurm => {
                let show = Step::of(&["scontrol", "--oneliner", "show", "node", host]);
                let text = output(show.command(), LIMIT).context("scontrol show node")?;
                // Reason=words of any number [user@time]
                let reason = text.split_once(" Reason=").map(|(_, reason)| reason.trim());
                Ok(reason.filter(|reason| !reason.is_empty()).map(str::to_owned))
            }
            Self::Kubernetes => {
                let path = format!(
                    "jsonpath={{.spec.unschedulable}}{{\"\\n\"}}{{.status.conditions[?(@.type==\"{CONDITION}\")].status}}\
                     {{\"\\n\"}}{{.status.conditions[?(@.type==\"{CONDITION}\")].message}}"
                );
                let text = output(Step::of(&["kubectl", "get", "node", host, "-o", &path]).command(), LIMIT)
                    .context("kubectl get node")?;
                let mut lines = text.lines();
                Ok(match (lines.next(), lines.next(), lines.next()) {
                    (Some("true"), Some("True"), Some(message)) => Some(message.to_owned()),
                    (Some("true"), ..) => Some("cordoned by somebody else".to_owned()),
                    _ => None,
                })
            }
        }
    }
}

fn condition(host: &str, status: &str, reason: &str, message: &str) -> Step {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let condition = json!({
        "type": CONDITION, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let patch = json!({"status": {"conditions": [condition]}}).to_string();
    Step::of(&["kubectl", "patch", "node", host, "--subresource=status", "--type=strategic", "--patch", &patch])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_named_and_never_all() {
        for host in ["ALL", "all", "DEFAULT", "n[1-64]", "n1,n2", "", "-n", "n1 State=DOWN", "n;reboot"] {
            assert!(Scheduler::Slurm.refuses(host).is_some(), "{host}");
        }
        for host in ["n1", "gpu-07.rack-2", "allegro", "all-1"] {
            assert_eq!(Scheduler::Slurm.refuses(host), None, "{host}");
        }
        assert_eq!(Scheduler::Kubernetes.refuses("all"), None);
        assert!(Scheduler::Kubernetes.refuses("n1;x").is_some());
    }

    #[test]
    fn lines_are_safe_for_a_shell() {
        let step = Step::of(&["scontrol", "update", "NodeName=n1", "Reason=kelpie: it's $(slow)"]);
        assert_eq!(step.line(), "scontrol update NodeName=n1 'Reason=kelpie: it'\\''s $(slow)'");
        assert_eq!(Step::of(&["scontrol", "Reason=kelpie: slow"]).line(), "scontrol Reason=\"kelpie: slow\"");
    }
}
