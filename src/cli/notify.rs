//! The options that say who hears of events.

use clap::Args;
use kelpie_examine::outbox::Hearers;

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

impl NotifyArgs {
    /// Who hears of events.
    pub fn hearers(&self) -> Hearers {
        Hearers { command: self.exec.clone(), webhook: self.webhook.clone() }
    }
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
