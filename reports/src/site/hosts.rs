//! The hosts of a campaign in its report: the checks from before it began. Simulated hosts show nothing.

use kelpie_monitor::{Check, CheckState};
use maud::{Markup, html};

use super::page::wide;

/// The section about the hosts; nothing if there are no checks.
pub(super) fn section(checks: &[Check]) -> Markup {
    if checks.is_empty() {
        return html! {};
    }
    let table = html! {
        table.sortable {
            caption #hosts-caption { "The checks of the hosts before the campaign began, with the evidence." }
            thead {
                tr {
                    th scope="col" { "About" }
                    th scope="col" { "Check" }
                    th scope="col" data-number { "State" }
                    th scope="col" { "What it is" }
                    th scope="col" { "What mends it" }
                }
            }
            tbody { @for check in checks { (row(check)) } }
        }
    };
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    html! {
        section aria-labelledby="hosts" {
            h2 #hosts { "Hosts" }
            p {
                (checks.len()) " checks of the hosts: " (count(CheckState::Fail)) " failed, "
                (count(CheckState::Warn)) " warned, " (count(CheckState::Unknown)) " could not be made."
            }
            (wide("hosts-caption", &table))
        }
    }
}

fn row(check: &Check) -> Markup {
    let (class, word) = match check.state {
        CheckState::Pass => ("badge calm", "pass"),
        CheckState::Warn => ("badge", "warn"),
        CheckState::Fail => ("badge alarm", "fail"),
        CheckState::Unknown => ("badge", "unknown"),
        CheckState::NotApplicable => ("badge", "not applicable"),
    };
    html! {
        tr {
            th scope="row" { (check.about) }
            td { (check.name) }
            td data-value=(check.state as u8) { span class=(class) { (word) } }
            td {
                (check.summary)
                ul.cell { @for seen in &check.evidence { li { code { (seen.source) } ": " (seen.value) } } }
            }
            td { (check.fix.as_deref().unwrap_or("–")) }
        }
    }
}
