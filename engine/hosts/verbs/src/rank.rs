//! A rank of a ring: it sends to the next rank and receives from the one before, round by round, on a thread of its
//! own.
//!
//! A rank that is ready to receive says so by an empty SEND to the rank before, so that a message begins when both ends
//! are there, as NCCL's do.

use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use kelpie_engine::chain;
use kelpie_engine::plan::{Caps, GroupId, Role};
use kelpie_engine::rank::{MOST_MOVED, RankJob, RankMessage, RankReading};
use kelpie_engine::verbs_host::{GroupEndpoint, QpEndpoint};
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
    qps: [Qp; 2],
    cq: Arc<Cq>,
    /// For messages that leave, and for those that arrive.
    memory: [Mr; 2],
    job: RankJob,
    psn: [u32; 2],
    mtu: Mtu,
    connected: bool,
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
        let cq = Cq::new(pd.context(), 4 * DEPTH)?;
        let caps = Caps { send_wr: DEPTH, recv_wr: DEPTH, send_sge: 1, recv_sge: 1, inline: 0 };
        let qp = || Qp::new(pd, &cq, QpType::Rc, &caps);
        let qps = [qp()?, qp()?];
        let psn = qps.each_ref().map(|qp| first_psn(qp, session));
        let length = job.bytes as usize;
        let region = || Mr::new(pd, &Arc::new(Arena::new(Device::Dram(0), length, false)?), 0, length, false);
        Ok(Self { memory: [region()?, region()?], qps, cq, job, psn, mtu, connected: false, made: Instant::now() })
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
            qps: vec![QpEndpoint { qpn: self.qps[place].number(), psn: self.psn[place], mrs: Vec::new() }],
        };
        [(NEXT, Role::Requester), (BEFORE, Role::Responder)].map(end).into()
    }

    /// Connects to the receiving end of the next rank and the sending end of the one before.
    pub fn connect(&mut self, port: &LocalPort, peers: &[GroupEndpoint]) -> Result<(), VerbsError> {
        for (place, role) in [(NEXT, Role::Responder), (BEFORE, Role::Requester)] {
            let peer = peers.iter().find(|peer| peer.id.role == role);
            let Some((peer, [end])) = peer.map(|peer| (peer, peer.qps.as_slice())) else {
                return Err(VerbsError::Protocol(format!("a rank of a ring has one {role:?} for its neighbour")));
            };
            let remote_port = RemotePort { gid: peer.gid, lid: peer.lid, needs_grh: peer.needs_grh };
            let remote = RemoteQp { port: remote_port, qpn: end.qpn, psn: end.psn, reads: peer.reads };
            let qp = &self.qps[place];
            qp.init(port.port, 0)?;
            for _ in 0..DEPTH / 2 {
                self.receive(place)?;
            }
            qp.ready_to_receive(port, &remote, self.mtu)?;
            qp.ready_to_send(port, &remote, self.psn[place])?;
        }
        self.connected = true;
        Ok(())
    }

    /// A work request's number is the end that it was posted at.
    fn receive(&self, place: usize) -> Result<(), VerbsError> {
        let mut element = self.element(place == BEFORE, BEFORE);
        let mut request = ibv_recv_wr { wr_id: place as u64, next: null_mut(), sg_list: &raw mut element, num_sge: 1 };
        // SAFETY: a chain of one; its element names memory of this rank.
        let posted = unsafe { self.qps[place].post_recv(&raw mut request) };
        posted.map_err(|source| self.named(Verb::POST_RECV, place, source))
    }

    /// Sends the message, or the word to go ahead.
    fn send(&self, place: usize) -> Result<(), VerbsError> {
        let mut element = self.element(place == NEXT, NEXT);
        // SAFETY: all fields are integers and pointers, for which zero is valid.
        let mut request: ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
        request.wr_id = place as u64;
        (request.sg_list, request.num_sge) = (&raw mut element, 1);
        request.opcode = ibv_wr_opcode::IBV_WR_SEND;
        request.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        // SAFETY: as above.
        let posted = unsafe { self.qps[place].post_send(&raw mut request) };
        posted.map_err(|source| self.named(Verb::POST_SEND, place, source))
    }

    fn element(&self, is_message: bool, memory: usize) -> ibv_sge {
        let RegisteredRegion { address, key } = self.memory[memory].local();
        ibv_sge { addr: address, length: if is_message { self.job.bytes as u32 } else { 0 }, lkey: key }
    }

    fn named(&self, verb: Verb, place: usize, source: std::io::Error) -> VerbsError {
        VerbsError::Verb { verb, object: format!("QP {} of a rank", self.qps[place].number()), source }
    }
}

/// What a rank has done, for those who ask meanwhile.
#[derive(Default)]
struct RankState {
    reading: Mutex<RankReading>,
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
    thread: Option<JoinHandle<()>>,
}

impl Rank {
    /// Lets a connected rank begin.
    pub fn start(ring: VerbsRank) -> Result<Self, VerbsError> {
        if !ring.connected {
            return Err(VerbsError::Protocol("the rank has no neighbours yet".to_owned()));
        }
        let course = Arc::new(RankState::default());
        let (shared, made) = (Arc::clone(&course), ring.made);
        let run = move || {
            let mut work = Work { ring, course: &shared, seen: RankCompletions::default() };
            if let Err(error) = work.run() {
                shared.reading().events.push(chain(&error));
            }
        };
        let thread = thread::Builder::new().name("rank".to_owned()).spawn(run);
        let thread = thread.map_err(|error| VerbsError::Protocol(format!("no thread for a rank: {error}")))?;
        Ok(Self { made, course, thread: Some(thread) })
    }

    /// What was done since the last reading.
    pub fn read(&self) -> RankReading {
        let mut now = self.course.reading();
        let count = now.moved.len().min(MOST_MOVED);
        let rest = now.moved.split_off(count);
        let is_over = now.is_over && rest.is_empty();
        RankReading { now_us: since(self.made), moved: std::mem::replace(&mut now.moved, rest), is_over, ..now.clone() }
    }
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

struct Work<'c> {
    ring: VerbsRank,
    course: &'c RankState,
    seen: RankCompletions,
}

impl Work<'_> {
    /// All iterations, or as many as there are before the job is given up.
    fn run(&mut self) -> Result<(), VerbsError> {
        let job = self.ring.job;
        let mut turn = 0;
        for iteration in 0..job.iterations {
            let late = if iteration >= job.late_from { job.late_us } else { 0 };
            self.rest(Duration::from_micros(job.pause_us + late));
            let entered_us = self.now_us();
            for round in 0..job.rounds {
                turn += 1;
                let mut moved = RankMessage { iteration, round, entered_us, begin_us: None, end_us: None };
                self.course.reading().open = Some(moved);
                self.ring.send(BEFORE)?;
                if !self.wait(|seen| seen.ready >= turn)? {
                    return Ok(());
                }
                moved.begin_us = Some(self.now_us());
                self.course.reading().open = Some(moved);
                self.ring.send(NEXT)?;
                if !self.wait(|seen| seen.sent >= turn)? {
                    return Ok(());
                }
                moved.end_us = Some(self.now_us());
                {
                    let mut reading = self.course.reading();
                    reading.moved.push(moved);
                    reading.open = None;
                }
                if !self.wait(|seen| seen.arrived >= turn)? {
                    return Ok(());
                }
            }
        }
        self.course.reading().is_over = true;
        Ok(())
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
                let place = completion.wr_id as usize;
                if completion.status != ibv_wc_status::IBV_WC_SUCCESS || place > BEFORE {
                    let end = if place == NEXT { "the next rank" } else { "the rank before" };
                    return Err(VerbsError::Protocol(format!("towards {end}: {}", status(completion.status))));
                }
                let is_receive = completion.opcode & ibv_wc_opcode::IBV_WC_RECV != 0;
                match (place, is_receive) {
                    (NEXT, false) => self.seen.sent += 1,
                    (NEXT, true) => self.seen.ready += 1,
                    (_, true) => self.seen.arrived += 1,
                    (_, false) => {}
                }
                if is_receive {
                    self.ring.receive(place)?;
                }
            }
        }
        Ok(true)
    }
}
