//! The doctor as a check of a fleet: each host examines itself through its agent, and a host of which a check fails is
//! out. No traffic.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kelpie_agent::client::{AgentClient, ClientError};
use kelpie_agent::pair::controller_name;
use kelpie_criteria::{Better, Criterion, Direction, HostFailure, NOT_ASKED, Norm, Outcome, Unit, UnitKey, UnitValue};
use kelpie_engine::chain;
use kelpie_engine::verbs_host::Port;
use kelpie_monitor::check::{Check, CheckState};
use kelpie_monitor::checks::CheckKind;
use tokio::time::{Instant, timeout};

use crate::inventory::{Inventory, InventoryHost};
use crate::plan::{DOCTOR, Plan};
use crate::scan::{Journal, LONGEST_ANSWER, ScanProgress};

/// How long an agent may take, connected, for all of its ports. Source: our choice; it reads some hundred files.
const LIMIT: Duration = Duration::from_secs(10);
/// What the reasons of hosts begin with whose agents did not answer: another answer may follow.
const NO_AGENT: &str = "no agent: ";

/// What a healthy host measures by the doctor and by a campaign: one, if nothing is wrong.
pub fn criterion() -> Criterion {
    Criterion {
        criterion: vec![1.0],
        defects: Vec::new(),
        repeatability: 1.0,
        alpha: 0.5,
        norm: Norm::default(),
        floor: None,
        direction: Direction { unit: UNIT.to_owned(), better: Better::Higher },
    }
}

const UNIT: &str = "share";

/// The unit of a host.
pub fn key(host: &InventoryHost) -> UnitKey {
    UnitKey { check: DOCTOR.to_owned(), hosts: vec![host.name.clone()], component: String::new() }
}

/// Units with those behind in which a check without traffic of its own failed: a host that answers all else is no
/// healthier for that.
pub fn last(plan: &Plan, units: &[Unit]) -> Vec<Unit> {
    let is_ill = |unit: &&Unit| {
        let check = &unit.key.check;
        (check == DOCTOR || plan.campaigns.iter().any(|campaign| campaign.name == *check))
            && matches!(&unit.outcome, Outcome::Failed(failure) if !failure.reason.starts_with(NO_AGENT))
    };
    let (ill, others): (Vec<&Unit>, Vec<&Unit>) = units.iter().partition(is_ill);
    others.into_iter().chain(ill).cloned().collect()
}

/// Asks these hosts, so many at once at most; comes back when all were asked, or, if it is to stop, those that were
/// begun.
///
/// # Errors
/// The journal's.
pub async fn run<J: Journal>(
    inventory: &Inventory,
    hosts: Vec<&InventoryHost>,
    at_once: usize,
    journal: &mut J,
) -> Result<(), J::Error> {
    let (all, mut done) = (hosts.len(), 0);
    let (mut waiting, mut running) = (hosts.into_iter(), FuturesUnordered::new());
    loop {
        while running.len() < at_once && !journal.stops() {
            let Some(host) = waiting.next() else { break };
            running.push(async move {
                let started = Instant::now();
                let outcome = ask(inventory, host).await;
                Unit { key: key(host), outcome, seconds: started.elapsed().as_secs_f64() }
            });
        }
        let Some(unit) = running.next().await else { return Ok(()) };
        done += 1;
        journal.keep(vec![unit])?;
        journal.progress(ScanProgress { done, all, gone: 0 });
    }
}

async fn ask(inventory: &Inventory, host: &InventoryHost) -> Outcome {
    let failure = |reason: String| HostFailure { host: host.name.clone(), reason };
    let (security, name, address) = (inventory.security(), controller_name(), host.address());
    let client = match AgentClient::connect_for(&address, &security, &name, LONGEST_ANSWER).await {
        Ok(client) => client,
        Err(error @ (ClientError::Connect { .. } | ClientError::Wire { .. } | ClientError::Silent { .. })) => {
            return Outcome::Failed(failure(format!("{NO_AGENT}{}", chain(&error))));
        }
        // An agent that serves somebody else, or that we cannot trust, says nothing of its host.
        Err(error) => return Outcome::Unsupported(failure(format!("{NOT_ASKED}{}", chain(&error)))),
    };
    let asking = async {
        let mut checks = Vec::new();
        for (_, port) in host.ports() {
            let device = Some(client.inspect(port.clone()).await?.device);
            checks.extend(client.examine(Port { device, ..port }).await?.checks);
        }
        Ok::<_, ClientError>(checks)
    };
    match timeout(LIMIT, asking).await {
        Ok(Ok(checks)) => outcome(&host.name, checks),
        Ok(Err(error)) => Outcome::Failed(failure(format!("did not examine itself: {}", chain(&error)))),
        Err(_) => Outcome::Failed(failure(format!("{NO_AGENT}no examination within {} s", LIMIT.as_secs()))),
    }
}

/// What the checks of a host come to.
fn outcome(host: &str, mut checks: Vec<Check>) -> Outcome {
    // Each port tells of its host.
    let mut seen = BTreeSet::new();
    checks.retain(|check| seen.insert((check.about.clone(), check.name.clone())));
    let failure = |reason: String| HostFailure { host: host.to_owned(), reason };
    let mut failed = checks.iter().filter(|check| check.state == CheckState::Fail);
    if let Some(hidden) = failed.clone().find(|check| check.name == CheckKind::Device.name()) {
        let reason = format!("its agent has the device, and its files have not: {}", hidden.summary);
        return Outcome::Unsupported(failure(reason));
    }
    if let Some(Check { about, name, summary, fix, .. }) = failed.next() {
        let more = failed.count();
        let more = if more > 0 { format!("; {more} more fail") } else { String::new() };
        let step = fix.as_ref().map_or(String::new(), |fix| format!("; to repair it: {fix}"));
        return Outcome::Failed(failure(format!("{about}: {name}: {summary}{more}{step}")));
    }
    if !checks.iter().any(|check| check.state == CheckState::Pass) {
        return Outcome::Unsupported(failure("nothing of it could be examined".to_owned()));
    }
    Outcome::Values(vec![UnitValue {
        metric: DOCTOR.to_owned(),
        unit: UNIT.to_owned(),
        better: Better::Higher,
        from: host.to_owned(),
        to: None,
        samples: vec![1.0],
    }])
}

#[cfg(test)]
mod tests {
    use kelpie_criteria::{Criteria, FleetState, LearnOptions};

    use super::*;
    use crate::qualification::{QualificationDocument, verdict_so_far};

    fn check(kind: CheckKind, state: CheckState) -> Check {
        Check::new(kind, state, "the words of it").about("mlx5_0 port 1")
    }

    fn unit(check: &str, host: &str, outcome: Outcome) -> Unit {
        let key = UnitKey { check: check.to_owned(), hosts: vec![host.to_owned()], component: String::new() };
        Unit { key, outcome, seconds: 1.0 }
    }

    #[test]
    fn a_host_of_which_a_check_fails_is_out_though_it_answers_and_others_are_in_or_unknown() {
        let text = b"kelpie: inventory/1\nhosts: [{name: a}, {name: b}, {name: c}]\n";
        let inventory = Inventory::from_bytes(std::path::Path::new("x.yaml"), text).expect("a good file");
        let plan = Plan::named("doctor,loopback_write").expect("known");
        let document = QualificationDocument::new(inventory, plan, Criteria::default(), LearnOptions::default());
        let pass = || check(CheckKind::Mtu, CheckState::Pass);
        let loopback = |host: &str| {
            let value = UnitValue {
                metric: "loopback_write".to_owned(),
                unit: "Gb/s".to_owned(),
                better: Better::Higher,
                from: host.to_owned(),
                to: None,
                samples: vec![100.0],
            };
            unit("loopback_write", host, Outcome::Values(vec![value]))
        };
        let ill = vec![pass(), check(CheckKind::Port, CheckState::Fail), check(CheckKind::Pfc, CheckState::Fail)];
        let unseen = vec![check(CheckKind::Mtu, CheckState::Unknown)];
        let doctor = |host: &str, checks: Vec<Check>| unit(DOCTOR, host, outcome(host, checks));
        let mut units = vec![doctor("a", ill), doctor("b", vec![pass(), pass()]), doctor("c", unseen)];
        units.extend(["a", "b", "c"].map(loopback));
        let verdict = verdict_so_far(&document, &units).expect("a verdict");
        let states: Vec<FleetState> = verdict.nodes.values().map(|node| node.state).collect();
        assert_eq!(states, [FleetState::Out, FleetState::In, FleetState::Unknown]);
        let fault = &verdict.nodes["a"].faults[0];
        let words = "mlx5_0 port 1: port: the words of it; 1 more fail";
        assert_eq!((fault.check.as_str(), fault.detail.as_str()), (DOCTOR, words));
        assert_eq!(verdict.nodes["c"].unsure, ["cannot do doctor: nothing of it could be examined"]);
    }

    #[test]
    fn two_healthy_hosts_need_no_third_to_be_compared_with() {
        let text = b"kelpie: inventory/1\nhosts: [{name: a}, {name: b}]\n";
        let inventory = Inventory::from_bytes(std::path::Path::new("x.yaml"), text).expect("a good file");
        let plan = Plan::named("doctor").expect("known");
        let document = QualificationDocument::new(inventory, plan, Criteria::default(), LearnOptions::default());
        let well = |host: &str| unit(DOCTOR, host, outcome(host, vec![check(CheckKind::Mtu, CheckState::Pass)]));
        let verdict = verdict_so_far(&document, &[well("a"), well("b")]).expect("a verdict");
        assert_eq!(verdict.count(FleetState::In), 2, "{verdict:?}");
        // Nobody asked the second one.
        let verdict = verdict_so_far(&document, &[well("a")]).expect("a verdict");
        assert_eq!((verdict.count(FleetState::In), verdict.count(FleetState::Unknown)), (1, 1));
    }
}
