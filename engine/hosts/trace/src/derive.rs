//! From what a program did to the workload and the space that say the same, and what they do not say.

use kelpie_spaces::constraints::{self, MAX_FLOWS, MAX_INLINE};
use kelpie_spaces::{Flow, Host, Space, SpaceError, Violation, Workload};

use crate::class::{self, QpClass, QpClassKey};
use crate::ends::TracedProcesses;
use crate::space;
use crate::trace::{Trace, TracedQp};

/// A program in Kelpie's words.
#[derive(Debug)]
pub struct Derived {
    /// What it does all the time, host `a` being the traced one.
    pub workload: Workload,
    /// What was seen of each flow of the workload.
    pub seen: Vec<ObservedTraffic>,
    /// Everything it did, dimension by dimension.
    pub space: Space,
    /// What workload and space do not say, or had to guess.
    pub notes: Vec<String>,
}

/// How much of a flow was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedTraffic {
    /// Messages posted.
    pub messages: u64,
    /// Their sum. Units: bytes.
    pub bytes: u64,
    /// The longest time from first to last post of a QP. Units: nanoseconds.
    pub active_ns: u64,
    /// Whether it was concluded from receives alone.
    pub is_guessed: bool,
}

/// Why there is nothing to say.
#[derive(Debug, thiserror::Error)]
pub enum Unsaid {
    /// Nothing was recorded.
    #[error(
        "no process opened an RDMA device through libibverbs: a statically linked or setuid program cannot be traced, \
         nor one that ends before it uses RDMA"
    )]
    NoDevice,
    /// The other end does the work.
    #[error("it posted no message{0}: trace the program at the other end, and give this one as its --peer")]
    OnlyAnswered(&'static str),
    /// It posted, but nothing that a workload can say.
    #[error("it posted requests, but none that a workload can say: {0}")]
    Inexpressible(String),
    /// What was derived is no workload.
    #[error("what was recorded makes no workload")]
    Workload(#[from] Violation),
    /// What was derived is no space.
    #[error("what was recorded makes no space")]
    Space(#[from] SpaceError),
}

/// Says what was recorded on host `a`, and with it the record of the program at the other end.
///
/// # Errors
/// If no message was posted, or none that a workload can say.
pub fn derive(own: &Trace, peer: Option<&Trace>) -> Result<Derived, Unsaid> {
    if own.processes.is_empty() {
        return Err(Unsaid::NoDevice);
    }
    let (own_ends, peer_ends) = (TracedProcesses::of(own), peer.map(TracedProcesses::of));
    let mut classes: Vec<(QpClassKey, QpClass<'_, '_>)> =
        class::classes(&own_ends, Host::A, peer_ends.as_ref()).into_iter().collect();
    let mut notes = notes(own);
    if classes.is_empty() {
        let posted = |qp: &TracedQp| qp.requests > 0 || !qp.ops.is_empty();
        if own.processes.iter().flat_map(|process| &process.qps).any(posted) {
            notes.push("requests without payload are nothing that a workload can say".to_owned());
            return Err(Unsaid::Inexpressible(notes.join("; ")));
        }
        let received = own.processes.iter().flat_map(|process| &process.qps).any(|qp| qp.receives > 0);
        return Err(Unsaid::OnlyAnswered(if received { ", only receives" } else { "" }));
    }
    if let Some(peers) = &peer_ends {
        classes.extend(class::classes(peers, Host::B, Some(&own_ends)));
    }
    let mut flows: Vec<(Flow, ObservedTraffic)> =
        classes.iter().map(|(key, class)| (class.flow(key), seen(class))).collect();
    flows.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.bytes));
    if classes.iter().any(|(_, class)| class.has_unseen_peers()) {
        notes.push(
            "the other end was not traced: its memory, receive queue and receives are taken to be like this end's \
             (see --peer)"
                .to_owned(),
        );
        guess_answers(&classes, &mut flows, &mut notes);
    }
    if flows.len() > MAX_FLOWS {
        notes.push(format!(
            "{} kinds of traffic were seen; the workload holds the {MAX_FLOWS} with most bytes",
            flows.len()
        ));
        flows.truncate(MAX_FLOWS);
    }
    for (key, class) in &classes {
        notes.extend(class.note(key));
    }
    let (mut flows, seen): (Vec<Flow>, Vec<ObservedTraffic>) = flows.into_iter().unzip();
    for flow in &mut flows {
        flow.inline = flow.inline.min(MAX_INLINE);
    }
    if let Some(inline) = flows.iter().map(|flow| flow.inline).max().filter(|inline| inline.0 > 0) {
        notes.push(format!(
            "messages up to {inline} are posted inline, which is off in the spaces of the catalog: search the space \
             of this trace, or remove `inline` to compare with findings of theirs"
        ));
    }
    let workload = Workload::new(flows);
    constraints::check(&workload)?;
    let qps: Vec<&TracedQp> = classes.iter().flat_map(|(_, class)| class.qps()).collect();
    let receivers: Vec<&TracedQp> = classes.iter().flat_map(|(_, class)| class.receivers()).collect();
    let space = space::space(&own.program, &workload, &qps, &receivers)?;
    if workload.flows.iter().all(Flow::is_loopback) {
        notes.push(
            "all traffic is loopback, which a space knows only beside other traffic: it has the same between two hosts"
                .to_owned(),
        );
    } else if !space.contains(&workload) {
        notes.push(
            "flows differ in more than a space can say: its workloads are like each of them, not like all at once"
                .to_owned(),
        );
    }
    notes.sort();
    notes.dedup();
    Ok(Derived { workload, seen, space, notes })
}

/// What the record itself does not have.
fn notes(trace: &Trace) -> Vec<String> {
    let mut notes = Vec::new();
    for process in &trace.processes {
        let lost = process.unrecorded;
        for (count, what) in [(lost.qps, "QPs"), (lost.mrs, "MRs"), (lost.shapes, "requests of a new shape")] {
            if count > 0 {
                notes.push(format!("process {}: {count} {what} found no place in the record", process.pid));
            }
        }
        let active = |qp: &&TracedQp| qp.requests > 0;
        let unknown = process.qps.iter().filter(active).filter(|qp| qp.qp_type.is_none()).count();
        if unknown > 0 {
            notes.push(format!("process {}: {unknown} QPs are neither RC, UC nor UD and left out", process.pid));
        }
        let unready = process.qps.iter().filter(active).filter(|qp| qp.qp_type.is_some() && qp.mtu == 0).count();
        if unready > 0 {
            notes.push(format!(
                "process {}: {unready} QPs were connected before they were seen and are left out",
                process.pid
            ));
        }
        let rotating = process.qps.iter().filter(|qp| qp.keys_lost).count();
        if rotating > 0 {
            notes.push(format!("process {}: {rotating} QPs use more MRs than are counted", process.pid));
        }
        let others = process
            .qps
            .iter()
            .flat_map(|qp| &qp.ops)
            .filter(|count| count.op.is_none())
            .map(|count| count.messages)
            .fold(0, u64::saturating_add);
        if others > 0 {
            notes.push(format!(
                "process {}: {others} requests move no message (memory windows, invalidations) and are left out",
                process.pid
            ));
        }
    }
    notes
}

fn seen(class: &QpClass<'_, '_>) -> ObservedTraffic {
    let counts = || class.qps().flat_map(|qp| &qp.ops).filter(|count| count.op.is_some());
    ObservedTraffic {
        messages: counts().map(|count| count.messages).fold(0, u64::saturating_add),
        bytes: counts().map(|count| count.bytes.0).fold(0, u64::saturating_add),
        active_ns: class.qps().map(|qp| qp.active_ns).max().unwrap_or(0),
        is_guessed: false,
    }
}

/// Where the peer was not traced and messages came in: the same traffic the other way round.
fn guess_answers(
    classes: &[(QpClassKey, QpClass<'_, '_>)],
    flows: &mut Vec<(Flow, ObservedTraffic)>,
    notes: &mut Vec<String>,
) {
    for (key, class) in classes.iter().filter(|(_, class)| class.has_unseen_peers() && class.receives()) {
        let flow = class.flow(key);
        if flow.is_loopback() || !flow.pattern.iter().any(|request| request.op.consumes_receive()) {
            continue;
        }
        flows.push((flow.mirrored(), ObservedTraffic { is_guessed: true, ..seen(class) }));
        notes.push("messages came in on QPs that also send: they are taken to be like those sent".to_owned());
    }
}
