//! Taking the readings that C4P's checks judge, between real hosts. The rules live in `kelpie_diagnosis`.

use std::ops::ControlFlow;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use kelpie_agent::PairSubsystem;
use kelpie_agent::pair::rounds::{Look, RoundResult, TrafficRound};
use kelpie_diagnosis::ports::{EndReading, Failover, Mode, PortReading, QpReading, Readings};
use kelpie_engine::bond::{Bond, BondMember};
use kelpie_monitor::pause::host_pause;
use kelpie_monitor::sources::{LINK_SPEED, Reading};
use kelpie_monitor::{Check, rates::rates as rates_of};
use kelpie_paths::catalog::{Catalog, CatalogDirection, CatalogEnd, QpPort, SourcePortPath};
use kelpie_paths::probe::{Depth, lag_ports, look};
use kelpie_spaces::flow_label::{FIRST_PORT, label_of_qps, port_of_label};
use kelpie_spaces::{Bytes, Depths, Flow, Host, Opcode, Request, Workload};

use crate::Say;
use crate::ground::{Hosts, by_port, mode, rates};

/// Traffic settles before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long traffic is measured after that.
const MEASURED: Duration = Duration::from_secs(3);

/// Pause between looks. A gap of a failover is known to within this.
const LOOKS: Duration = Duration::from_millis(100);

/// How long outstanding requests may take to complete.
const DRAIN: Duration = Duration::from_secs(5);

/// Traffic runs so long before a port goes down, while it is down and after it is up again.
const BEFORE_DOWN: Duration = Duration::from_secs(2);
const WHILE_DOWN: Duration = Duration::from_secs(8);
const AFTER_UP: Duration = Duration::from_secs(5);

/// Longest traffic of a failover, whatever the commands take.
const LONGEST: Duration = Duration::from_mins(3);

/// Where QPs get their source ports.
#[derive(Debug, Clone)]
pub enum Choice {
    /// From their numbers, as the device has it.
    Own,
    /// These, in turn.
    Given(Vec<u16>),
    /// As a catalog plans.
    Planned(Box<Catalog>),
}

/// Least bytes of a request that fills a port. Source: our choice, the size of the plain traffic.
const LARGE: u64 = 16 << 10;

/// Whether a workload can fill a port: large requests without pauses.
pub fn fills_ports(workload: &Workload) -> bool {
    let bytes = |request: &Request| request.sge.iter().map(|part| part.0).sum::<u64>();
    let is_large = |flow: &Flow| flow.interarrival_ns == 0 && flow.pattern.iter().all(|one| bytes(one) >= LARGE);
    workload.flows.iter().all(is_large)
}

/// Commands that take a port down, and up again.
#[derive(Debug, Clone)]
pub struct CableCommands {
    /// Down.
    pub down: String,
    /// Up.
    pub up: String,
}

/// Eight QPs from one host to the other, which fill two ports.
pub fn plain() -> Workload {
    let mut flow = Flow::plain(Host::A, Host::B);
    flow.pattern = vec![Request { op: Opcode::Write, sge: vec![Bytes(16 << 10)] }];
    flow.wq_depth = Depths { send: 4, recv: 1 };
    Workload::new(vec![flow])
}

/// The same, each way.
pub fn plain_both_ways() -> Workload {
    let one = plain().flows.remove(0);
    Workload::new(vec![one.clone(), one.mirrored()])
}

/// All checks of a workload between these hosts.
///
/// # Errors
/// A host does not answer, the catalog is stale, or the workload does not fit.
pub fn checks(
    subsystem: &mut PairSubsystem,
    workload: &Workload,
    choice: &Choice,
    cable: Option<&CableCommands>,
    stop: &AtomicBool,
    say: Say<'_>,
) -> anyhow::Result<Vec<Check>> {
    let mut hosts = Hosts::new(subsystem, stop, say)?;
    let ends = hosts.ends();
    if let Choice::Planned(catalog) = choice {
        let changes = catalog.changes(ends);
        if !changes.is_empty() {
            bail!("the catalog is stale, probe again: {}", changes.join("; "));
        }
    }
    must_send(workload)?;
    let mut readings: Vec<Readings> = Host::BOTH
        .into_iter()
        .filter(|from| workload.flows.iter().any(|flow| flow.from == *from && !flow.is_loopback()))
        .map(|from| Readings { fills_ports: fills_ports(workload), ..unread(from, ends) })
        .collect();
    let bonds = hosts.bonds()?;
    for reading in &mut readings {
        let from = from(reading);
        reading.sender = Some(nic(bonds.get(from), None));
        reading.receiver = Some(nic(bonds.get(from.peer()), None));
    }
    if readings.iter().any(|one| matches!(one.mode, Mode::Hash | Mode::QueueAffinity)) {
        read(&mut hosts, workload, choice, cable, &mut readings)?;
    }
    Ok(readings.iter().flat_map(kelpie_diagnosis::ports::checks).collect())
}

/// Refuses what the other host's ports would show.
///
/// # Errors
/// A flow READs.
pub fn must_send(workload: &Workload) -> anyhow::Result<()> {
    let Some(flow) = workload.flows.iter().find(|flow| !flow.pattern.iter().all(|one| is_sent(one.op))) else {
        return Ok(());
    };
    let (from, to) = (flow.from, flow.to);
    bail!("the flow from {from} to {to} READs, so its data comes from the other host: check a WRITE from {to} instead")
}

fn is_sent(op: Opcode) -> bool {
    !matches!(op, Opcode::Read | Opcode::FetchAdd | Opcode::CmpSwap)
}

fn unread(from: Host, ends: &[CatalogEnd]) -> Readings {
    let own = ends.iter().find(|end| end.host == from).expect("both hosts have said what they are");
    let down = ends.iter().flat_map(|end| end.down.iter().map(move |port| format!("{port} of host {}", end.host)));
    Readings {
        about: about(from),
        mode: mode(own),
        sender: None,
        receiver: None,
        fills_ports: true,
        qps: Vec::new(),
        sent_bytes: None,
        received_bytes: None,
        alone_bps: None,
        together_bps: None,
        failover: None,
        down: Some(down.collect()),
        lag_refused: None,
    }
}

/// What the checks of a direction are about.
pub fn about(from: Host) -> String {
    format!("{from} to {}", from.peer())
}

/// The sender of what was read.
fn from(reading: &Readings) -> Host {
    Host::BOTH.into_iter().find(|host| about(*host) == reading.about).expect("it was made of a host")
}

fn read(
    hosts: &mut Hosts<'_>,
    workload: &Workload,
    choice: &Choice,
    cable: Option<&CableCommands>,
    readings: &mut [Readings],
) -> anyhow::Result<()> {
    let chosen = chosen(workload, choice)?;
    if !matches!(choice, Choice::Planned(_)) {
        let lag = lag_ports(hosts, [&[FIRST_PORT], &[FIRST_PORT]])?;
        for reading in readings.iter_mut() {
            reading.lag_refused = lag[from(reading).index()].as_ref().and_then(|lag| lag.refused.clone());
        }
    }
    hosts.say("traffic as it is");
    let mut on = |_: Duration, _: &[u64]| ControlFlow::Continue(());
    let moved = hosts.round(&round(workload, &chosen), &mut on)?;
    must_be_put(workload, &moved)?;
    let used = ports_in_use(&moved, &chosen);
    let distinct = Host::BOTH.map(|host| {
        let own = workload.flows.iter().zip(&used).filter(|(flow, _)| flow.from == host);
        let mut ports: Vec<QpPort> = own.flat_map(|(_, ports)| ports.iter().copied()).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    });
    let found = look(hosts, [&distinct[0], &distinct[1]], Depth { loss: true, latency: false, throughput: false })?;
    hosts.say("one path alone");
    let one_path = alone(workload, &used, &found);
    let alone = hosts.round(&round(workload, &one_path), &mut on)?;
    let failed = cable.map(|cable| fail_over(hosts, workload, &chosen, cable)).transpose()?.flatten();
    let (sent, received) = (by_port(&moved, 0), by_port(&moved, 1));
    let (together, alone) = (rates(&moved, WARM_UP), rates(&alone, WARM_UP));
    for reading in readings {
        let from = from(reading);
        let (host, peer) = (usize::from(from == Host::B), usize::from(from == Host::A));
        let own: Vec<usize> = (0..workload.flows.len()).filter(|flow| workload.flows[*flow].from == from).collect();
        let rate = |rates: &[f64]| own.iter().map(|flow| rates[*flow]).sum();
        let bond = |host| nic(moved.before.get(host), Some((moved.after.get(host), round_seconds(&moved))));
        (reading.sender, reading.receiver) = (Some(bond(from)), Some(bond(from.peer())));
        reading.sent_bytes = Some([0, 1].map(|port| sent[host][port].bytes));
        reading.received_bytes = Some([0, 1].map(|port| received[peer][port].bytes));
        // QPs that the device deals out are on both ports, whatever their source port is.
        let is_one =
            reading.mode != Mode::QueueAffinity || own.iter().all(|flow| one_path[*flow][0].lag_port.is_some());
        (reading.alone_bps, reading.together_bps) = (is_one.then(|| rate(&alone)), Some(rate(&together)));
        reading.failover = failed;
        let ports = own.iter().flat_map(|flow| used[*flow].iter().copied());
        reading.qps = ports.map(|port| qp(port, &found[host])).collect();
    }
    Ok(())
}

/// What a bond's ports are, and what they counted until `after`, so many seconds later.
fn nic(bond: &Bond, after: Option<(&Bond, f64)>) -> EndReading {
    let port = |(place, member): (usize, &BondMember)| {
        let later = after.and_then(|(after, seconds)| Some((after.members.get(place)?, seconds)));
        let errors = later.map(|(later, _)| later.errors.saturating_sub(member.errors));
        let paused = later.and_then(|(later, seconds)| {
            let speed = later.speed_megabits.map(|speed| (LINK_SPEED.to_owned(), speed));
            let with_speed = |pause: &Reading| pause.clone().into_iter().chain(speed.clone()).collect();
            let ratios = host_pause(&rates_of(&with_speed(&member.pause), &with_speed(&later.pause), seconds))?.ratios;
            Some(ratios.tx.max(ratios.rx))
        });
        let bps = |megabits: Option<u64>| megabits.map(|megabits| megabits as f64 * 1e6);
        let now = later.map_or(member, |(later, _)| later);
        // A driver may leave the mode out that it runs.
        let at_least_now = |fastest: Option<u64>| fastest.map(|fastest| fastest.max(now.speed_megabits.unwrap_or(0)));
        PortReading {
            name: Some(now.name.clone()),
            speed_bps: bps(now.speed_megabits),
            capable_bps: bps(at_least_now(now.fastest_megabits)),
            agreed_bps: bps(at_least_now(now.agreed_megabits)),
            is_virtual: now.is_speedless,
            errors,
            paused,
            mtu: now.mtu,
            lacp_partner: now.lacp_partner.clone(),
        }
    };
    let ports = bond.members.iter().take(2).enumerate().map(port).collect();
    EndReading { pcie_bps: bond.pcie_bps, lacp: Some(bond.mode == "802.3ad"), ports }
}

/// How long the counters of both bonds ran, at least. Units: seconds.
fn round_seconds(moved: &RoundResult) -> f64 {
    moved.looks.last().map_or(0.0, |look| look.at.as_secs_f64())
}

fn round(workload: &Workload, chosen: &[Vec<QpPort>]) -> TrafficRound {
    TrafficRound {
        workload: workload.clone(),
        ports: chosen.to_vec(),
        lasts: WARM_UP + MEASURED,
        looks: LOOKS,
        latency: false,
        watches_ports: false,
        drain: DRAIN,
    }
}

/// Refuses traffic whose QPs are not on the LAG ports of the plan.
fn must_be_put(workload: &Workload, moved: &RoundResult) -> anyhow::Result<()> {
    for (flow, moved) in workload.flows.iter().zip(&moved.flows) {
        if let Some(Err(reason)) = &moved.lag {
            bail!("host {}: its QPs could not be put on the plan's LAG ports: {reason}; probe again", flow.from);
        }
    }
    Ok(())
}

/// Ports of each flow's QPs; none leaves them to the device.
fn chosen(workload: &Workload, choice: &Choice) -> anyhow::Result<Vec<Vec<QpPort>>> {
    let mut next = [0, 0];
    let mut of_flow = |flow: &Flow| -> anyhow::Result<Vec<QpPort>> {
        let first = &mut next[usize::from(flow.from == Host::B)];
        let all: Vec<QpPort> = match choice {
            Choice::Own => return Ok(Vec::new()),
            Choice::Given(ports) => ports.iter().copied().map(QpPort::hashed).collect(),
            Choice::Planned(catalog) => {
                let all: Vec<QpPort> =
                    catalog.plan(flow.from, *first + flow.qps as usize).into_iter().map(SourcePortPath::port).collect();
                if all.is_empty() {
                    bail!(no_plan(catalog, flow.from));
                }
                all
            }
        };
        let ports = (*first..*first + flow.qps as usize).map(|place| all[place % all.len()]).collect();
        *first += flow.qps as usize;
        Ok(ports)
    };
    workload.flows.iter().map(&mut of_flow).collect()
}

fn no_plan(catalog: &Catalog, from: Host) -> String {
    match catalog.lag(from).and_then(|lag| lag.refused.as_deref()) {
        Some(reason) => format!(
            "not applicable: host {from}'s device deals QPs out to its ports by queue affinity, and the catalog says that \
             none can be put on a LAG port: {reason}"
        ),
        None => format!("the catalog has no path from host {from} that is straight and without fault"),
    }
}

/// The source ports that QPs had: those that were chosen, else those that follow from their numbers.
fn ports_in_use(moved: &RoundResult, chosen: &[Vec<QpPort>]) -> Vec<Vec<QpPort>> {
    let own = |(local, remote): &(u32, u32)| QpPort::hashed(port_of_label(label_of_qps(*local, *remote)));
    let flows = moved.flows.iter().zip(chosen);
    flows
        .map(|(flow, chosen)| if chosen.is_empty() { flow.qps.iter().map(own).collect() } else { chosen.clone() })
        .collect()
}

/// One path a host for all of its QPs: one that nothing is wrong with, if there is any.
fn alone(workload: &Workload, used: &[Vec<QpPort>], found: &[CatalogDirection]) -> Vec<Vec<QpPort>> {
    let sound = Host::BOTH.map(|host| {
        let paths = &found[usize::from(host == Host::B)].paths;
        paths.iter().find(|path| path.fault.is_none()).or(paths.first()).map(SourcePortPath::port)
    });
    let of_flow = |(flow, used): (&Flow, &Vec<QpPort>)| {
        sound[usize::from(flow.from == Host::B)].or(used.first().copied()).into_iter().collect()
    };
    workload.flows.iter().zip(used).map(of_flow).collect()
}

fn qp(own: QpPort, direction: &CatalogDirection) -> QpReading {
    let path = direction.paths.iter().find(|path| path.port() == own);
    let loss = path.filter(|path| path.sent > 0).map(|path| (path.sent - path.received) as f64 / path.sent as f64);
    QpReading {
        source_port: Some(own.source_port),
        leaves: path.and_then(|path| path.leaves),
        arrives: path.and_then(|path| path.arrives),
        loss,
    }
}

/// Takes a port down during traffic, and up again; none if no port of the hosts went down.
fn fail_over(
    hosts: &mut Hosts<'_>,
    workload: &Workload,
    chosen: &[Vec<QpPort>],
    cable: &CableCommands,
) -> anyhow::Result<Option<Failover>> {
    hosts.say("a port goes down during traffic");
    let round = TrafficRound { lasts: LONGEST, watches_ports: true, ..round(workload, chosen) };
    let up_since = Mutex::new(None::<Instant>);
    let pulling = thread::scope(|scope| {
        let puller = scope.spawn(|| -> anyhow::Result<Instant> {
            thread::sleep(BEFORE_DOWN);
            let begun = Instant::now();
            let done = shell(&cable.down).and_then(|()| {
                thread::sleep(WHILE_DOWN);
                shell(&cable.up)
            });
            *locked(&up_since) = Some(Instant::now());
            done.map(|()| begun)
        });
        let mut looks: Vec<(Instant, u64)> = Vec::new();
        let moved = hosts.round(&round, &mut |_, bytes| {
            looks.push((Instant::now(), bytes.iter().sum()));
            let is_over = locked(&up_since).is_some_and(|up| up.elapsed() >= AFTER_UP);
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let begun = puller.join().expect("it does not panic");
        Ok::<_, anyhow::Error>((moved?, begun?, looks))
    });
    let (moved, begun, looks) = pulling?;
    let is_up = locked(&up_since).unwrap_or(begun);
    let gap_ms = gap(&looks, begun, is_up);
    let came_back = came_back(&moved);
    Ok(Some(Failover { gap_ms, came_back }))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shell(command: &str) -> anyhow::Result<()> {
    let output = Command::new("sh").args(["-c", command]).output().with_context(|| format!("run `{command}`"))?;
    if !output.status.success() {
        bail!("`{command}` ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The longest time without progress from when a port began to go down until it was up again; none if traffic had not
/// gone on by then. Units: milliseconds.
fn gap(looks: &[(Instant, u64)], begun: Instant, is_up: Instant) -> Option<u64> {
    let mut longest = Duration::ZERO;
    let mut still = begun;
    for pair in looks.windows(2) {
        let [(_, before), (at, bytes)] = pair else { continue };
        if *at < begun || *at > is_up {
            continue;
        }
        if bytes > before {
            longest = longest.max(at.saturating_duration_since(still));
            still = *at;
        }
    }
    // What never went on has no last moment of rest.
    let rest = is_up.saturating_duration_since(still);
    (rest < WHILE_DOWN / 2).then_some(longest.max(rest).as_millis() as u64)
}

/// Whether each port that was seen down had traffic after it was up again; unknown if none was seen down.
fn came_back(moved: &RoundResult) -> Option<bool> {
    let mut answer = None;
    for host in Host::BOTH {
        for port in 0..moved.before.get(host).members.len().min(2) {
            let at = |look: &Look| {
                let member = look.bonds.as_ref().and_then(|bonds| bonds.get(host).members.get(port));
                member.map(|member| (member.is_up, member.bytes[0] + member.bytes[1]))
            };
            let seen: Vec<(bool, u64)> = moved.looks.iter().filter_map(at).collect();
            let Some(last_down) = seen.iter().rposition(|(is_up, _)| !is_up) else { continue };
            let grew = seen[last_down..].windows(2).any(|pair| pair[1].0 && pair[1].1 > pair[0].1);
            answer = Some(answer.unwrap_or(true) && grew);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use kelpie_agent::pair::rounds::FlowMoved;
    use kelpie_monitor::PerHost;

    use super::*;

    /// A host a that deals QPs out to its ports, and a host b that hashes.
    fn dealt() -> Catalog {
        Catalog::from_yaml("dealt.yaml", include_str!("../tests/dealt.yaml")).expect("a good file")
    }

    #[test]
    fn traffic_on_a_plan_is_put_on_the_lag_ports_of_the_catalog() {
        let choice = Choice::Planned(Box::new(dealt()));
        let workload = plain_both_ways();
        let chosen = chosen(&workload, &choice).expect("there are paths");
        let round = round(&workload, &chosen);
        let put = |source_port, lag_port| QpPort { source_port, lag_port };
        let put_there = [put(50_000, Some(1)), put(50_001, Some(2))].repeat(4);
        let hashed = [put(50_000, None), put(50_001, None)].repeat(4);
        assert_eq!(round.ports, [put_there, hashed]);
        let mut refused = dealt();
        refused.directions[0].lag.as_mut().expect("it deals QPs out").refused = Some("no such call".to_owned());
        refused.directions[0].paths.iter_mut().for_each(|path| path.leaves = None);
        let error = super::chosen(&workload, &Choice::Planned(Box::new(refused))).expect_err("nothing to plan");
        let said = error.to_string();
        assert!(said.starts_with("not applicable: host a's device") && said.ends_with("no such call"), "{said}");
    }

    #[test]
    fn traffic_whose_qps_are_not_where_the_plan_has_them_is_not_judged() {
        let bond = || kelpie_engine::bond::Bond {
            device: String::new(),
            netdev: String::new(),
            gid: String::new(),
            mode: String::new(),
            policy: String::new(),
            selection: String::new(),
            members: Vec::new(),
            pcie_bps: None,
        };
        let bonds = || PerHost { a: bond(), b: bond() };
        let moved = |lag| RoundResult {
            flows: vec![FlowMoved { lag, ..FlowMoved::default() }],
            before: bonds(),
            after: bonds(),
            looks: Vec::new(),
            events: Vec::new(),
        };
        for lag in [None, Some(Ok(vec![1, 2]))] {
            must_be_put(&plain(), &moved(lag)).expect("as planned");
        }
        let error = must_be_put(&plain(), &moved(Some(Err("no such call".to_owned())))).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "host a: its QPs could not be put on the plan's LAG ports: no such call; probe again"
        );
    }

    #[test]
    fn what_ports_counted_is_of_the_time_between_two_looks() {
        let counted = |errors, micros| BondMember {
            name: "eth0".to_owned(),
            mac: String::new(),
            is_up: true,
            bytes: [0; 2],
            packets: [0; 2],
            speed_megabits: Some(100_000),
            fastest_megabits: Some(200_000),
            agreed_megabits: Some(100_000),
            is_speedless: false,
            mtu: Some(9000),
            errors,
            pause: ["tx", "rx"].map(|way| (format!("ethtool.{way}_prio3_pause_duration"), micros)).into(),
            lacp_partner: None,
        };
        let bond = |member| Bond {
            device: String::new(),
            netdev: String::new(),
            gid: String::new(),
            mode: "802.3ad".to_owned(),
            policy: String::new(),
            selection: String::new(),
            members: vec![member],
            pcie_bps: Some(126e9),
        };
        let (before, after) = (bond(counted(7, 1_000_000)), bond(counted(9, 1_500_000)));
        let read = nic(&before, Some((&after, 2.0)));
        let port = &read.ports[0];
        assert_eq!((port.errors, port.paused), (Some(2), Some(0.25)));
        assert_eq!((port.speed_bps, port.capable_bps, port.agreed_bps), (Some(1e11), Some(2e11), Some(1e11)));
        assert_eq!(read.pcie_bps, Some(126e9));
        let unmoved = nic(&before, None);
        assert_eq!((unmoved.ports[0].errors, unmoved.ports[0].paused, unmoved.lacp), (None, None, Some(true)));
    }

    #[test]
    fn a_gap_is_the_longest_rest_while_a_port_was_down_and_one_that_never_ended_is_none() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let is_up = at(9000);
        let looks = |moments: &[(u64, u64)]| moments.iter().map(|(ms, bytes)| (at(*ms), *bytes)).collect::<Vec<_>>();
        let steady: Vec<(u64, u64)> = (0..100).map(|look| (100 * look, 5 * look)).collect();
        assert_eq!(gap(&looks(&steady), begun, is_up), Some(100));
        let halted: Vec<(u64, u64)> = (0..100).map(|look| (100 * look, if look < 30 { 5 } else { 5 * look })).collect();
        assert_eq!(gap(&looks(&halted), begun, is_up), Some(3000));
        let dead: Vec<(u64, u64)> = (0..100).map(|look| (100 * look, if look < 10 { look } else { 9 })).collect();
        assert_eq!(gap(&looks(&dead), begun, is_up), None);
    }
}
