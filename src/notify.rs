//! Where events go besides stdout: to a command, to a webhook. What an event says is elsewhere.

use std::collections::VecDeque;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use kelpie_examine::program::run;
use serde::{Deserialize, Serialize};

/// How long a command may take. Source: our choice, because an event is to be out within 10 s.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// How long a webhook may take, all together. Source: as above.
const WEBHOOK_LIMIT: Duration = Duration::from_secs(5);
/// Between tries. Source: our choice.
const RETRY: Duration = Duration::from_secs(5);
/// Tries before an event is given up. Source: our choice; an hour of a receiver that is down.
const TRIES: u32 = 720;
/// Events that wait at most; the oldest is given up first. Source: our choice.
const WAITING: usize = 64;

/// Who is to hear of events.
#[derive(Debug, Clone, Args)]
pub struct NotifyArgs {
    /// Run this with `sh -c` for each event, which is its stdin as JSON; it has 10 s
    #[arg(long, value_name = "COMMAND")]
    pub exec: Option<String>,
    /// Post each event to this address as JSON
    #[arg(long, value_name = "URL", value_parser = parse_url)]
    pub webhook: Option<String>,
}

fn parse_url(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http", host)) if !host.is_empty() && !host.starts_with('/') => Ok(text.to_owned()),
        Some(("https", _)) => {
            let instead = "--exec 'curl --fail --silent --data @- https://...'";
            Err(format!("this build has no TLS towards webhooks; write {instead}, or name an http:// address"))
        }
        _ => Err("write http://host:port/path".to_owned()),
    }
}

/// An event that did not get everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    event: String,
    for_command: bool,
    for_webhook: bool,
    tries: u32,
}

/// Delivers events, in their order, and again while nobody takes them.
#[derive(Debug)]
pub struct Outbox {
    to: NotifyArgs,
    waiting: VecDeque<Waiting>,
    next_try: Instant,
    client: ureq::Agent,
}

impl Outbox {
    /// An outbox with what waited before.
    pub fn new(to: NotifyArgs, waiting: Vec<Waiting>) -> Self {
        let client = ureq::Agent::config_builder().timeout_global(Some(WEBHOOK_LIMIT)).max_redirects(0).build();
        Self { to, waiting: waiting.into(), next_try: Instant::now(), client: client.into() }
    }

    /// What was not delivered yet.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waiting.iter().cloned().collect()
    }

    /// Takes an event, as JSON. Returns what is given up for it.
    pub fn push(&mut self, event: String) -> Option<String> {
        let (for_command, for_webhook) = (self.to.exec.is_some(), self.to.webhook.is_some());
        if for_command || for_webhook {
            self.waiting.push_back(Waiting { event, for_command, for_webhook, tries: 0 });
            self.next_try = Instant::now();
        }
        (self.waiting.len() > WAITING).then(|| {
            self.waiting.pop_front();
            format!("more than {WAITING} events wait for whoever is to hear of them; the oldest is given up")
        })
    }

    /// Delivers what can be delivered now. Returns what went wrong.
    pub fn flush(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        if Instant::now() < self.next_try {
            return problems;
        }
        while let Some(first) = self.waiting.front_mut() {
            if first.for_webhook {
                let url = self.to.webhook.as_deref().expect("it waits for one");
                match post(&self.client, url, &first.event) {
                    Ok(()) => first.for_webhook = false,
                    Err(error) => problems.push(format!("webhook: {error:#}")),
                }
            }
            if std::mem::take(&mut first.for_command) {
                // A command that ran and failed is not run again: half of its work may be done.
                let command = self.to.exec.as_deref().expect("it waits for one");
                if let Err(error) = run(shell(command), &first.event, COMMAND_LIMIT) {
                    problems.push(format!("--exec: {error:#}"));
                }
            }
            first.tries += 1;
            if first.for_webhook && first.tries < TRIES {
                self.next_try = Instant::now() + RETRY;
                return problems;
            }
            self.waiting.pop_front();
        }
        problems
    }
}

fn post(client: &ureq::Agent, url: &str, event: &str) -> anyhow::Result<()> {
    client.post(url).header("content-type", "application/json").send(event)?;
    Ok(())
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    shell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_http() {
        assert!(parse_url("http://127.0.0.1:9/x").is_ok());
        for (text, rule) in [("https://a/b", "--exec"), ("ftp://a", "write http://"), ("http:///a", "write http://")] {
            assert!(parse_url(text).expect_err(text).contains(rule));
        }
    }
}
