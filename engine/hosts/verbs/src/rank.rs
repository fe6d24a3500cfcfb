//! A rank of a ring: it sends to the next rank and receives from the one before, round by round, on a thread of its
//! own.
//!
//! A rank that is ready to receive says so by an empty SEND to the rank before, so that a message begins when both ends
//! are there, as NCCL's do. Several QPs share a message, a part each; the first one has the empty SENDs.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kelpie_engine::chain;
use kelpie_engine::plan::{Caps, GroupId, Role};
use kelpie_engine::rank::{MOST_MOVED, MOST_TIMES, QpTimes, RankJob, RankMessage, RankReading};
use kelpie_engine::verbs_host::{GroupEndpoint, GroupPorts, QpEndpoint};
use kelpie_spaces::{Device, Mtu, QpType};
use rdma_sys::{ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc_opcode, ibv_wc_status, ibv_wr_opcode};

use crate::ah::{LocalPort, RemotePort};
use crate::cq::{Completions, Cq};
use crate::device::PortState;
use crate::error::VerbsError;
use crate::lane::{first_psn, status};
use crate::memory::Arena;
use crate::mr::Mr;
use crate::pd::Pd;
use crate::qp::{self, Qp, RemoteQp};
use crate::rotation::RegisteredRegion;
use crate::verb::Verb;

/// Receives and sends that a QP has room for; two of each are outstanding at most, because ranks go on in step.
const DEPTH: u32 = 4;

/// Pause after a look at the completion queue that found nothing.
const SLEEP: Duration = Duration::from_micros(50);

/// Longest sleep of a pause, after which it is seen whether the job was given up.
const STEP: Duration = Duration::from_millis(10);

/// The ends of a rank: to the next one, and to the one before.
const NEXT: usize = 0;
const BEFORE: usize = 1;

/// A rank that exists, connected or not. Fields are dropped in this order: QPs before the memory that they name.
pub struct VerbsRank {
    qps: [Vec<Qp>; 2],
    cq: Arc<Cq>,
    /// For messages that leave, and for those that arrive.
    memory: [Mr; 2],
    job: RankJob,
    psn: [Vec<u32>; 2],
    mtu: Mtu,
    /// Source ports and LAG ports of the QPs to the next rank; none are the device's choice.
    ports: RankPorts,
    /// This port and that of the next rank, once they are connected.
    connected: Option<(LocalPort, RemotePort)>,
    /// Its clock begins when it is made.
    made: Instant,
}

impl VerbsRank {
    pub fn new(pd: &Arc<Pd>, state: PortState, job: RankJob, session: u32) -> Result<Self, VerbsError> {
        if job.bytes > state.longest_message {
            let (name, longest) = (pd.context().name(), state.longest_message);
            let reason = format!("{name} has messages of up to {longest} bytes, not {}", job.bytes);
            return Err(VerbsError::Unsupported(reason));
        }
        let mtu = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= state.active_mtu).unwrap_or(Mtu::ALL[0]);
        let cq = Cq::new(pd.context(), 4 * DEPTH * job.qps)?;
        let caps = Caps { send_wr: DEPTH, recv_wr: DEPTH, send_sge: 1, recv_sge: 1, inline: 0 };
        let qps = || (0..job.qps).map(|_| Qp::new(pd, &cq, QpType::Rc, &caps)).collect::<Result<Vec<_>, _>>();
        let qps = [qps()?, qps()?];
        let psn = qps.each_ref().map(|qps| qps.iter().map(|qp| first_psn(qp, session)).collect());
        let length = job.bytes as usize;
        let region = || Mr::new(pd, &Arc::new(Arena::new(Device::Dram(0), length, false)?), 0, length, false);
        let memory = [region()?, region()?];
        let (ports, made) = (RankPorts::default(), Instant::now());
        Ok(Self { memory, qps, cq, job, psn, mtu, ports, connected: None, made })
    }

    /// What its clock shows, before it does anything.
    pub fn read(&self) -> RankReading {
        RankReading { now_us: since(self.made), ..RankReading::default() }
    }

    /// What both neighbours have to know: the end of flow 0 that sends to the next rank, and that which receives.
    pub fn endpoints(&self, pd: &Pd, port: &LocalPort, state: PortState) -> Vec<GroupEndpoint> {
        let end = |(place, role): (usize, Role)| GroupEndpoint {
            id: GroupId { flow: 0, role },
            gid: port.gid,
            lid: if state.is_ethernet { 0 } else { state.lid },
            needs_grh: state.needs_grh,
            reads: qp::reads(pd.context(), role),
            qps: (self.qps[place].iter().zip(&self.psn[place]))
                .map(|(qp, psn)| QpEndpoint { qpn: qp.number(), psn: *psn, mrs: Vec::new() })
                .collect(),
        };
        [(NEXT, Role::Requester), (BEFORE, Role::Responder)].map(end).into()
    }

    /// Gives the QPs to the next rank these ports when they are connected.
    pub fn set_ports(&mut self, wanted: &[GroupPorts]) -> Result<(), VerbsError> {
        self.ports = RankPorts::of(wanted, self.job.qps)?;
        Ok(())
    }

    /// Connects to the receiving end of the next rank and the sending end of the one before.
    pub fn connect(&mut self, port: &LocalPort, peers: &[GroupEndpoint]) -> Result<(), VerbsError> {
        for (place, role) in [(NEXT, Role::Responder), (BEFORE, Role::Requester)] {
            let peer = peers.iter().find(|peer| peer.id.role == role && peer.qps.len() == self.qps[place].len());
            let Some(peer) = peer else {
                let qps = self.qps[place].len();
                return Err(VerbsError::Protocol(format!("a rank of a ring has {qps} {role:?}s for its neighbour")));
            };
            let remote_port = RemotePort { gid: peer.gid, lid: peer.lid, needs_grh: peer.needs_grh };
            for (nth, end) in peer.qps.iter().enumerate() {
                let remote = RemoteQp { port: remote_port, qpn: end.qpn, psn: end.psn, reads: peer.reads };
                let is_next = place == NEXT;
                let local = port.with_source_port(self.ports.source.get(nth).copied().filter(|_| is_next));
                self.qps[place][nth].init(port.port, 0)?;
                for _ in 0..DEPTH / 2 {
                    self.receive(place, nth)?;
                }
                let qp = &self.qps[place][nth];
                qp.ready_to_receive(&local, &remote, self.mtu)?;
                qp.ready_to_send(&local, &remote, self.psn[place][nth])?;
                if let Some(lag_port) = self.ports.lag.get(nth).filter(|_| is_next) {
                    qp.leave_by(*lag_port)?;
                }
            }
            if place == NEXT {
                self.connected = Some((*port, remote_port));
            }
        }
        Ok(())
    }

    /// A work request's number is its QP, and the end that it was posted at.
    fn number(place: usize, nth: usize) -> u64 {
        (nth as u64) << 1 | place as u64
    }

    /// Where a QP's part of a message begins, and how long it is. Units: bytes.
    fn part(&self, nth: usize) -> (u64, u32) {
        let qps = u64::from(self.job.qps);
        let (each, begin) = (self.job.bytes / qps, self.job.bytes / qps * nth as u64);
        let length = if nth as u64 + 1 == qps { self.job.bytes - begin } else { each };
        (begin, length as u32)
    }

    fn receive(&self, place: usize, nth: usize) -> Result<(), VerbsError> {
        let mut element = self.element(place == BEFORE, BEFORE, nth);
        let wr_id = Self::number(place, nth);
        let mut request = ibv_recv_wr { wr_id, next: null_mut(), sg_list: &raw mut element, num_sge: 1 };
        // SAFETY: a chain of one; its element names memory of this rank.
        let posted = unsafe { self.qps[place][nth].post_recv(&raw mut request) };
        posted.map_err(|source| self.named(Verb::POST_RECV, place, nth, source))
    }

    /// Sends a part of the message, or the word to go ahead.
    fn send(&self, place: usize, nth: usize) -> Result<(), VerbsError> {
        let mut element = self.element(place == NEXT, NEXT, nth);
        // SAFETY: all fields are integers and pointers, for which zero is valid.
        let mut request: ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
        request.wr_id = Self::number(place, nth);
        (request.sg_list, request.num_sge) = (&raw mut element, 1);
        request.opcode = ibv_wr_opcode::IBV_WR_SEND;
        request.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        // SAFETY: as above.
        let posted = unsafe { self.qps[place][nth].post_send(&raw mut request) };
        posted.map_err(|source| self.named(Verb::POST_SEND, place, nth, source))
    }

    /// Has the QPs to the next rank leave by these ports, while nothing of them is outstanding.
    fn move_to(&mut self, wanted: RankPorts) -> Result<(), VerbsError> {
        let Some((local, remote)) = self.connected else { return Ok(()) };
        for (nth, source_port) in wanted.source.iter().copied().enumerate() {
            if self.ports.source.get(nth) != Some(&source_port) {
                self.qps[NEXT][nth].move_to(&local.with_source_port(Some(source_port)), &remote)?;
                self.ports.source.resize(self.job.qps as usize, 0);
                self.ports.source[nth] = source_port;
            }
        }
        if wanted.lag != self.ports.lag {
            (wanted.lag.iter().zip(&self.qps[NEXT])).try_for_each(|(port, qp)| qp.leave_by(*port).map(drop))?;
            self.ports.lag = wanted.lag;
        }
        Ok(())
    }

    fn element(&self, is_message: bool, memory: usize, nth: usize) -> ibv_sge {
        let RegisteredRegion { address, key } = self.memory[memory].local();
        let (begin, length) = if is_message { self.part(nth) } else { (0, 0) };
        ibv_sge { addr: address + begin, length, lkey: key }
    }

    fn named(&self, verb: Verb, place: usize, nth: usize, source: std::io::Error) -> VerbsError {
        VerbsError::Verb { verb, object: format!("QP {} of a rank", self.qps[place][nth].number()), source }
    }
}

/// Ports of the QPs to the next rank, by QP; empty ones are the device's choice.
#[derive(Clone, Default)]
struct RankPorts {
    source: Vec<u16>,
    lag: Vec<u8>,
}

impl RankPorts {
    fn of(wanted: &[GroupPorts], qps: u32) -> Result<Self, VerbsError> {
        let own = wanted.iter().find(|ports| ports.id == GroupId { flow: 0, role: Role::Requester });
        let Some(GroupPorts { ports, lag_ports, .. }) = own else {
            return Err(VerbsError::Protocol("no ports for the QPs to the next rank".to_owned()));
        };
        let is_of_all = |count: usize| count == 0 || count == qps as usize;
        if !is_of_all(ports.len()) || !is_of_all(lag_ports.len()) {
            return Err(VerbsError::Protocol(format!("name a port for each of {qps} QPs, or none")));
        }
        Ok(Self { source: ports.clone(), lag: lag_ports.clone() })
    }
}

/// What a rank has done, for those who ask meanwhile.
#[derive(Default)]
struct RankState {
    reading: Mutex<RankReading>,
    /// Ports that the next iteration is to take.
    wanted: Mutex<Option<RankPorts>>,
    is_given_up: AtomicBool,
}

impl RankState {
    fn reading(&self) -> MutexGuard<'_, RankReading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn goes_on(&self) -> bool {
        !self.is_given_up.load(Ordering::Relaxed)
    }
}

fn since(made: Instant) -> f64 {
    made.elapsed().as_nanos() as f64 / 1e3
}

/// A rank at work.
pub struct Rank {
    made: Instant,
    course: Arc<RankState>,
    qps: u32,
    thread: Option<JoinHandle<()>>,
}

impl Rank {
    /// Lets a connected rank begin.
    pub fn start(ring: VerbsRank) -> Result<Self, VerbsError> {
        if ring.connected.is_none() {
            return Err(VerbsError::Protocol("the rank has no neighbours yet".to_owned()));
        }
        let course = Arc::new(RankState::default());
        let (shared, made, qps) = (Arc::clone(&course), ring.made, ring.job.qps);
        let run = move || {
            let mut work = Work { ring, course: &shared, seen: RankCompletions::default(), times: Times::default() };
            if let Err(error) = work.run() {
                shared.reading().events.push(chain(&error));
            }
        };
        let thread = thread::Builder::new().name("rank".to_owned()).spawn(run);
        let thread = thread.map_err(|error| VerbsError::Protocol(format!("no thread for a rank: {error}")))?;
        Ok(Self { made, course, qps, thread: Some(thread) })
    }

    /// Has it take these ports at its next iteration; whether it did is in its readings.
    pub fn set_ports(&self, wanted: &[GroupPorts]) -> Result<(), VerbsError> {
        let ports = RankPorts::of(wanted, self.qps)?;
        self.course.reading().refused = None;
        *self.course.wanted.lock().unwrap_or_else(PoisonError::into_inner) = Some(ports);
        Ok(())
    }

    /// What was done since the last reading.
    pub fn read(&self) -> RankReading {
        let mut now = self.course.reading();
        let moved = first(&mut now.moved, MOST_MOVED);
        let qps = first(&mut now.qps, MOST_TIMES);
        RankReading {
            now_us: since(self.made),
            moved,
            qps,
            open: now.open,
            sets: now.sets,
            refused: now.refused.clone(),
            is_over: now.is_over && now.moved.is_empty(),
            events: now.events.clone(),
        }
    }
}

/// Takes so many out of the list at most, the first ones.
fn first<T>(list: &mut Vec<T>, most: usize) -> Vec<T> {
    let rest = list.split_off(list.len().min(most));
    std::mem::replace(list, rest)
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.course.is_given_up.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the thread of a rank panicked");
        }
    }
}

/// Completions so far, of messages at each end and of words to go ahead.
#[derive(Default)]
struct RankCompletions {
    sent: u64,
    arrived: u64,
    ready: u64,
}

/// How long the QPs to the next rank take.
#[derive(Default)]
struct Times {
    /// When the present message was posted. Units: microseconds.
    posted_us: f64,
    /// By QP, of the present iteration. Units: microseconds.
    sums_us: Vec<f64>,
}

struct Work<'c> {
    ring: VerbsRank,
    course: &'c RankState,
    seen: RankCompletions,
    times: Times,
}

impl Work<'_> {
    /// All iterations, or as many as there are before the job is given up.
    fn run(&mut self) -> Result<(), VerbsError> {
        let job = self.ring.job;
        let qps = u64::from(job.qps);
        let mut turn = 0;
        for iteration in 0..job.iterations {
            let late = if iteration >= job.late_from { job.late_us } else { 0 };
            self.rest(Duration::from_micros(job.pause_us + late));
            let entered_us = self.now_us();
            self.times.sums_us = vec![0.0; job.qps as usize];
            self.take_ports();
            let sets = self.course.reading().sets;
            for round in 0..job.rounds {
                turn += 1;
                let mut moved = RankMessage { iteration, round, entered_us, begin_us: None, end_us: None };
                self.course.reading().open = Some(moved);
                self.ring.send(BEFORE, 0)?;
                if !self.wait(|seen| seen.ready >= turn)? {
                    return Ok(());
                }
                self.times.posted_us = self.now_us();
                moved.begin_us = Some(self.times.posted_us);
                self.course.reading().open = Some(moved);
                for nth in 0..job.qps as usize {
                    self.ring.send(NEXT, nth)?;
                }
                if !self.wait(|seen| seen.sent >= turn * qps)? {
                    return Ok(());
                }
                moved.end_us = Some(self.now_us());
                {
                    let mut reading = self.course.reading();
                    reading.moved.push(moved);
                    reading.open = None;
                }
                if !self.wait(|seen| seen.arrived >= turn * qps)? {
                    return Ok(());
                }
            }
            if job.qps > 1 {
                let us = self.times.sums_us.iter().map(|sum| sum / f64::from(job.rounds)).collect();
                let mut reading = self.course.reading();
                if reading.qps.len() < MOST_TIMES {
                    reading.qps.push(QpTimes { iteration, sets, us });
                }
            }
        }
        self.course.reading().is_over = true;
        Ok(())
    }

    /// Has the QPs leave by the ports that somebody asked for, if so.
    fn take_ports(&mut self) {
        let wanted = self.course.wanted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(wanted) = wanted {
            let moved = self.ring.move_to(wanted);
            let mut reading = self.course.reading();
            reading.sets += u32::from(moved.is_ok());
            reading.refused = moved.err().map(|error| chain(&error));
        }
    }

    fn now_us(&self) -> f64 {
        since(self.ring.made)
    }

    fn rest(&self, span: Duration) {
        let until = Instant::now() + span;
        while self.course.goes_on() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(STEP));
        }
    }

    /// Waits for completions; whether they came before the job was given up.
    fn wait(&mut self, is_there: impl Fn(&RankCompletions) -> bool) -> Result<bool, VerbsError> {
        let mut room = Completions::new();
        while !is_there(&self.seen) {
            if !self.course.goes_on() {
                return Ok(false);
            }
            let completions = self.ring.cq.poll(&mut room)?;
            if completions.is_empty() {
                thread::sleep(SLEEP);
            }
            for completion in completions {
                let (place, nth) = ((completion.wr_id & 1) as usize, (completion.wr_id >> 1) as usize);
                if completion.status != ibv_wc_status::IBV_WC_SUCCESS || nth >= self.ring.qps[place].len() {
                    let end = if place == NEXT { "the next rank" } else { "the rank before" };
                    return Err(VerbsError::Protocol(format!("towards {end}: {}", status(completion.status))));
                }
                let is_receive = completion.opcode & ibv_wc_opcode::IBV_WC_RECV != 0;
                match (place, is_receive) {
                    (NEXT, false) => {
                        self.seen.sent += 1;
                        self.times.sums_us[nth] += since(self.ring.made) - self.times.posted_us;
                    }
                    (NEXT, true) => self.seen.ready += 1,
                    (_, true) => self.seen.arrived += 1,
                    (_, false) => {}
                }
                if is_receive {
                    self.ring.receive(place, nth)?;
                }
            }
        }
        Ok(true)
    }
}
