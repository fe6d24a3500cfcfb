//! Units on agents: who is asked when. A host does one unit at a time, in their order; a host that hangs costs its own
//! units only; what is over is handed to the journal before the next is begun.

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use kelpie_agent::Security;
use kelpie_agent::client::{AgentClient, ClientError};
use kelpie_agent::pair::controller_name;
use kelpie_agent::wire::WireError;
use kelpie_criteria::{HostFailure, NOT_ASKED, Outcome, Unit};
use kelpie_engine::chain;
use kelpie_engine::verbs_host::Port;
use tokio::time::Instant;

use crate::command::CommandCheck;
use crate::inventory::Inventory;
use crate::measure::measure;
use crate::plan::{FleetCheck, Plan, PlannedUnit};
use crate::traffic::SampleTimes;

/// Units that are done at once at most. Source: our choice: 2,000 hosts in pairs.
pub const MOST_AT_ONCE: usize = 1024;
/// Longest answer of an agent. Units: bytes. Source: our choice; readings of hundreds of counters are shorter, and
/// thousands of agents that all send as much as they can fit into memory.
pub const LONGEST_ANSWER: usize = 64 << 10;
/// Times in a row that a host fails before it is asked no more. Source: our choice; a connection may be lost once.
const STRIKES: u32 = 2;
/// How soon an agent is asked again whose last controller is leaving, and how often. Source: our choice; together as
/// long as a step may take.
const LEAVING: Duration = Duration::from_millis(250);
const LEAVING_TRIES: u32 = 16;
/// How often it is looked whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Where a host is.
#[derive(Debug, Default)]
struct HostSlot {
    client: Option<AgentClient>,
    /// Whether its agent ever answered us.
    is_known: bool,
    strikes: u32,
    /// Why it is asked no more, and whether that is a fault of the host.
    gone: Option<(String, bool)>,
    queue: VecDeque<usize>,
    is_busy: bool,
}

/// What all units share.
#[derive(Debug)]
struct Shared {
    security: Security,
    controller: String,
    addresses: Vec<String>,
    names: Vec<String>,
    times: SampleTimes,
    commands: Vec<CommandCheck>,
}

/// How far units are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanProgress {
    /// Units that are over.
    pub done: usize,
    /// All.
    pub all: usize,
    /// Hosts that are asked no more.
    pub gone: usize,
}

/// Hosts of an inventory, connected as far as they were asked.
#[derive(Debug)]
pub struct Scan {
    shared: Arc<Shared>,
    ports: Vec<BTreeMap<u32, Port>>,
    slots: Vec<HostSlot>,
    at_once: usize,
}

/// Who hears what is over, and says whether to go on.
pub trait Journal {
    /// Why it cannot be kept.
    type Error;

    /// Keeps units that are over; what it returned from is not lost.
    ///
    /// # Errors
    /// The units cannot be kept, and nothing more is begun.
    fn keep(&mut self, units: Vec<Unit>) -> Result<(), Self::Error>;

    /// Hears how far it is.
    fn progress(&mut self, progress: ScanProgress);

    /// Whether nothing more is to be begun.
    fn stops(&mut self) -> bool;
}

/// A host that failed.
struct Failed {
    /// Its place among the unit's hosts.
    place: usize,
    /// Whether that is a fault of it.
    is_fault: bool,
    /// How often it may not fail again.
    strikes: u32,
}

/// What comes back of a unit.
struct UnitEnd {
    number: usize,
    clients: Vec<Option<AgentClient>>,
    are_known: Vec<bool>,
    outcome: Outcome,
    failed: Option<Failed>,
    seconds: f64,
}

impl Scan {
    /// Nobody is connected yet; so many units are done at once at most.
    pub fn new(inventory: &Inventory, plan: &Plan, times: SampleTimes, at_once: usize) -> Self {
        let shared = Shared {
            security: inventory.security(),
            controller: controller_name(),
            addresses: inventory.hosts.iter().map(crate::inventory::InventoryHost::address).collect(),
            names: inventory.hosts.iter().map(|host| host.name.clone()).collect(),
            times,
            commands: plan.commands.clone(),
        };
        Self {
            shared: Arc::new(shared),
            ports: inventory.hosts.iter().map(|host| host.ports().into_iter().collect()).collect(),
            slots: inventory.hosts.iter().map(|_| HostSlot::default()).collect(),
            at_once: at_once.clamp(1, MOST_AT_ONCE),
        }
    }

    /// Does units; comes back when all are over, or when those that were begun are over and it is to stop.
    ///
    /// # Errors
    /// The journal's.
    pub async fn run<J: Journal>(&mut self, units: Vec<PlannedUnit>, journal: &mut J) -> Result<(), J::Error> {
        for (number, unit) in units.iter().enumerate() {
            unit.hosts.iter().for_each(|host| self.slots[*host].queue.push_back(number));
        }
        let mut fresh: VecDeque<usize> = (0..self.slots.len()).collect();
        let shared = Arc::clone(&self.shared);
        let (mut running, mut done) = (FuturesUnordered::new(), 0);
        let mut is_stopped = false;
        loop {
            let mut over = Vec::new();
            while !is_stopped && running.len() < self.at_once {
                let Some(host) = fresh.pop_front() else { break };
                let Some(number) = self.ready(host, &units) else { continue };
                let unit = &units[number];
                if let Some(skipped) = self.skipped(unit) {
                    unit.hosts.iter().for_each(|host| _ = self.slots[*host].queue.pop_front());
                    fresh.extend(unit.hosts.iter().copied());
                    over.push(Unit { key: unit.key.clone(), outcome: skipped, seconds: 0.0 });
                } else {
                    running.push(self.begin(number, unit, &shared));
                }
            }
            let progress = |done: usize, gone: usize| ScanProgress { done, all: units.len(), gone };
            if !over.is_empty() {
                done += over.len();
                journal.keep(over)?;
                journal.progress(progress(done, self.gone()));
                continue;
            }
            if running.is_empty() {
                self.slots.iter_mut().for_each(|slot| slot.queue.clear());
                return Ok(());
            }
            tokio::select! {
                ended = running.next() => {
                    let mut ended = ended;
                    while let Some(end) = ended {
                        let unit = &units[end.number];
                        fresh.extend(unit.hosts.iter().copied());
                        over.push(self.end(unit, end));
                        ended = running.next().now_or_never().flatten();
                    }
                    done += over.len();
                    journal.keep(over)?;
                    journal.progress(progress(done, self.gone()));
                }
                () = tokio::time::sleep(LOOK) => {}
            }
            is_stopped = is_stopped || journal.stops();
        }
    }

    fn gone(&self) -> usize {
        self.slots.iter().filter(|slot| slot.gone.is_some()).count()
    }

    /// The host's next unit, if it is the next of all its hosts and none is at work.
    fn ready(&self, host: usize, units: &[PlannedUnit]) -> Option<usize> {
        let number = *self.slots[host].queue.front()?;
        let is_next = |host: &usize| !self.slots[*host].is_busy && self.slots[*host].queue.front() == Some(&number);
        units[number].hosts.iter().all(is_next).then_some(number)
    }

    /// What is said of a unit one of whose hosts is asked no more.
    fn skipped(&self, unit: &PlannedUnit) -> Option<Outcome> {
        unit.hosts.iter().find_map(|host| {
            let (reason, is_fault) = self.slots[*host].gone.as_ref()?;
            let failure = HostFailure { host: self.shared.names[*host].clone(), reason: reason.clone() };
            Some(if *is_fault { Outcome::Skipped(failure) } else { Outcome::Unsupported(failure) })
        })
    }

    fn begin<'s>(
        &mut self,
        number: usize,
        unit: &'s PlannedUnit,
        shared: &'s Shared,
    ) -> impl Future<Output = UnitEnd> + use<'s> {
        let (mut clients, mut are_known) = (Vec::new(), Vec::new());
        let mut ports = Vec::new();
        for host in &unit.hosts {
            let slot = &mut self.slots[*host];
            (slot.is_busy, _) = (true, slot.queue.pop_front());
            clients.push(slot.client.take());
            are_known.push(slot.is_known);
            ports.push(self.ports[*host][&unit.rail].clone());
        }
        async move {
            let started = Instant::now();
            let (outcome, failed) = shared.unit(unit, &mut clients, &mut are_known, &ports).await;
            UnitEnd { number, clients, are_known, outcome, failed, seconds: started.elapsed().as_secs_f64() }
        }
    }

    fn end(&mut self, unit: &PlannedUnit, end: UnitEnd) -> Unit {
        for ((place, host), client) in unit.hosts.iter().enumerate().zip(end.clients) {
            let slot = &mut self.slots[*host];
            (slot.client, slot.is_known, slot.is_busy) = (client, end.are_known[place], false);
            match &end.failed {
                Some(failed) if failed.place == place => {
                    slot.strikes += failed.strikes;
                    // Who is not to be asked says so the next time too.
                    if (slot.strikes >= STRIKES || !failed.is_fault) && !keeps_on(&end.outcome) {
                        slot.gone = Some((reason(&end.outcome), failed.is_fault));
                    }
                }
                // Nothing is known of the other hosts.
                Some(_) => {}
                None => slot.strikes = 0,
            }
        }
        Unit { key: unit.key.clone(), outcome: end.outcome, seconds: end.seconds }
    }
}

/// Whether a host that cannot do this may do another check.
fn keeps_on(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unsupported(_)) && !outcome.is_not_asked()
}

fn reason(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(failure) | Outcome::Skipped(failure) | Outcome::Unsupported(failure) => failure.reason.clone(),
        Outcome::Values(_) => String::new(),
    }
}

impl Shared {
    /// Does a unit, connecting whoever is not connected. Clients that are of no further use are dropped.
    async fn unit(
        &self,
        unit: &PlannedUnit,
        clients: &mut [Option<AgentClient>],
        are_known: &mut [bool],
        ports: &[Port],
    ) -> (Outcome, Option<Failed>) {
        if let FleetCheck::Command(place) = unit.check {
            return (self.command(place, unit).await, None);
        }
        let mut is_old: Vec<bool> = clients.iter().map(Option::is_some).collect();
        loop {
            if let Err((place, error)) = self.connect(unit, clients).await {
                let is_fault = is_fault(&error, are_known[place]);
                return self.not_connected(unit, place, &error, is_fault);
            }
            are_known.fill(true);
            let ready: Vec<&AgentClient> = clients.iter().flatten().collect();
            match measure(unit, &ready, ports, self.times, &self.names).await {
                Ok(values) => return (Outcome::Values(values), None),
                Err(failure) => {
                    let place = failure.end;
                    if !failure.keeps_connection() {
                        clients[place] = None;
                        // An idle connection may have ended since its last use; that alone is no failure.
                        if std::mem::take(&mut is_old[place]) {
                            continue;
                        }
                    }
                    let reason = format!("did not {}: {}", failure.step, chain(&failure.error));
                    let said = HostFailure { host: self.names[unit.hosts[place]].clone(), reason };
                    let is_fault = !failure.is_unsupported();
                    let outcome = if is_fault { Outcome::Failed(said) } else { Outcome::Unsupported(said) };
                    // Who hangs is not waited for again.
                    let strikes = if failure.is_late() { STRIKES } else { 1 };
                    return (outcome, Some(Failed { place, is_fault, strikes }));
                }
            }
        }
    }

    /// A program that fails says that nothing was measured. Its host may do all else.
    async fn command(&self, place: usize, unit: &PlannedUnit) -> Outcome {
        let host = unit.hosts[0];
        let address = self.addresses[host].rsplit_once(':').map_or("", |(address, _)| address);
        match self.commands[place].run(&self.names[host], address).await {
            Ok(values) => Outcome::Values(values),
            Err(reason) => Outcome::Unsupported(HostFailure { host: self.names[host].clone(), reason }),
        }
    }

    async fn connect(
        &self,
        unit: &PlannedUnit,
        clients: &mut [Option<AgentClient>],
    ) -> Result<(), (usize, ClientError)> {
        let connecting = unit.hosts.iter().zip(clients.iter_mut()).map(|(host, client)| async move {
            if client.is_none() {
                let address = &self.addresses[*host];
                let connect = || AgentClient::connect_for(address, &self.security, &self.controller, LONGEST_ANSWER);
                let mut tries = 0;
                *client = loop {
                    match connect().await {
                        // A controller that was killed just now is still on its way out.
                        Err(ClientError::Busy { leaving: true, .. }) if tries < LEAVING_TRIES => tries += 1,
                        connected => break Some(connected?),
                    }
                    tokio::time::sleep(LEAVING).await;
                };
            }
            Ok(())
        });
        let connected = futures_util::future::join_all(connecting).await;
        let failed = connected.into_iter().enumerate().find_map(|(place, done)| Some((place, done.err()?)));
        failed.map_or(Ok(()), Err)
    }

    fn not_connected(
        &self,
        unit: &PlannedUnit,
        place: usize,
        error: &ClientError,
        is_fault: bool,
    ) -> (Outcome, Option<Failed>) {
        let host = self.names[unit.hosts[place]].clone();
        let outcome = if is_fault {
            Outcome::Failed(HostFailure { host, reason: format!("no agent: {}", words(error)) })
        } else {
            Outcome::Unsupported(HostFailure { host, reason: format!("{NOT_ASKED}{}", words(error)) })
        };
        (outcome, Some(Failed { place, is_fault, strikes: 1 }))
    }
}

/// Whether an agent that does not let itself be connected to is a fault of its host. One that serves somebody else,
/// that wants other certificates or that we cannot trust says nothing of it; who answered before and is silent now is
/// ending.
fn is_fault(error: &ClientError, is_known: bool) -> bool {
    match error {
        ClientError::Connect { .. } => true,
        ClientError::Wire { source, .. } => is_known || matches!(source, WireError::Deadline(_)),
        ClientError::Silent { .. } | ClientError::Unwelcome { .. } => is_known,
        ClientError::Tls { source, .. } => source.kind() == ErrorKind::TimedOut,
        _ => false,
    }
}

/// Why an agent of an inventory could not be asked, and what to look at.
pub fn words(error: &ClientError) -> String {
    let trust = "compare `tls` of the inventory with --ca and --identity of the agent";
    match error {
        // Its words name another file.
        ClientError::Silent { address } => {
            format!("the agent at {address} closed the connection without a word: if it has certificates, {trust}")
        }
        ClientError::Insecure { address } => format!(
            "{address} is another machine: name certificates under `tls` in the inventory (`kelpie agent cert` makes \
             them), or write `plain: true` if the network between is trusted"
        ),
        ClientError::Tls { source, .. } if source.kind() != ErrorKind::TimedOut => format!("{}: {trust}", chain(error)),
        ClientError::Wire { source, .. } if !matches!(source, WireError::Deadline(_)) => {
            format!("{}: {trust}, or see whether something else listens there", chain(error))
        }
        _ => chain(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_wants_other_certificates_says_nothing_of_its_host() {
        let address = "n1:7471".to_owned();
        let io = |kind: ErrorKind| std::io::Error::new(kind, "why");
        let wire = |source: WireError| ClientError::Wire { address: address.clone(), source };
        let tls = |kind: ErrorKind| ClientError::Tls { address: address.clone(), source: io(kind) };
        let silent = ClientError::Silent { address: address.clone() };
        let alert = wire(WireError::Io(io(ErrorKind::InvalidData)));
        for error in [&silent, &alert, &wire(WireError::TooLong(4096)), &tls(ErrorKind::InvalidData)] {
            assert!(!is_fault(error, false), "{error}");
            assert!(words(error).contains("`tls` of the inventory"), "{error}");
        }
        assert!(is_fault(&silent, true), "its agent answered before");
        // A host that hangs accepts connections still.
        let late = [wire(WireError::Deadline(Duration::from_secs(5))), tls(ErrorKind::TimedOut)];
        let refused = ClientError::Connect { address, source: io(ErrorKind::ConnectionRefused) };
        assert!(late.iter().chain([&refused]).all(|error| is_fault(error, false)));
    }
}
