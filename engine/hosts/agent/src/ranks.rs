//! A ring of ranks on real hosts: an agent is a rank. What the ranks do is in `engine/hosts/verbs`, what it means
//! elsewhere.

mod balance;
mod file;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kelpie_collectives::rounds::{RankCluster, Rounds, Transfer};
use kelpie_engine::plan::Role;
use kelpie_engine::rank::{RankJob, RankMessage, RankReading};
use kelpie_engine::verbs_host::GroupEndpoint;
use kelpie_paths::catalog::Catalog;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::client::{AgentClient, ClientError};
use crate::pair::controller_name;
use balance::RingBalance;

pub use file::{RanksFile, RanksFileError};

/// How often a rank is asked what it has done.
const LOOKS: Duration = Duration::from_millis(250);

/// Looks at a rank's clock before it starts; the one that was answered soonest counts, as in NTP. Source: our choice.
const CLOCK_LOOKS: u32 = 12;

/// Why a job could not run.
#[derive(Debug, thiserror::Error)]
pub enum AgentRanksError {
    /// The job itself, or one that is no ring.
    #[error("{0}")]
    Job(String),
    /// An agent could not be reached, or could not do a step.
    #[error("rank {rank}")]
    Rank {
        /// Which.
        rank: usize,
        /// The cause.
        #[source]
        source: ClientError,
    },
    /// The ring cannot be balanced.
    #[error("balance: {0}")]
    Balance(String),
    /// The asynchronous runtime could not be made.
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// A rank that comes later to each iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayedRank {
    /// Which.
    pub rank: u32,
    /// Units: microseconds.
    pub by_us: u64,
    /// From which iteration on.
    pub from_iteration: u32,
}

/// Agents that are the ranks of a job, in this order.
#[derive(Debug)]
pub struct AgentRanks {
    /// Where they are.
    pub file: RanksFile,
    /// What a rank does before each iteration.
    pub pause: Duration,
    /// Ranks that come later.
    pub late: Vec<DelayedRank>,
    /// How long nothing may happen before the job is given up.
    pub patience: Duration,
    /// QPs that share each message.
    pub qps: u32,
    /// Where source ports lead between the ranks' hosts, if QPs are to move away from slow ports.
    pub balance: Option<Catalog>,
    /// Hears of moves.
    pub say: fn(&str),
}

impl RankCluster for AgentRanks {
    type Error = AgentRanksError;

    fn run(&mut self, job: &Rounds, give: &mut dyn FnMut(Transfer)) -> Result<(), AgentRanksError> {
        if let Some(rule) = job.broken_rule() {
            return Err(AgentRanksError::Job(rule));
        }
        if job.ranks as usize != self.file.ranks.len() {
            return Err(AgentRanksError::Job(format!("{} ranks; the file names {}", job.ranks, self.file.ranks.len())));
        }
        if job.shifts.iter().any(|shift| *shift != 1) {
            return Err(AgentRanksError::Job("agents run rings: each rank sends to the next".to_owned()));
        }
        let runtime = crate::runtime::with_one_worker().map_err(AgentRanksError::Runtime)?;
        let run = runtime.block_on(self.run_on(&runtime, job, give));
        // An agent that does not answer is not waited for.
        runtime.shutdown_background();
        run
    }
}

/// Where a rank is.
struct RankProgress {
    /// When its clock began, by the job's. Units: microseconds.
    began_us: f64,
    open: Option<RankMessage>,
    is_over: bool,
}

impl RankProgress {
    fn at(began_us: f64) -> Self {
        Self { began_us, open: None, is_over: false }
    }
}

impl AgentRanks {
    async fn run_on(
        &self,
        runtime: &Runtime,
        job: &Rounds,
        give: &mut dyn FnMut(Transfer),
    ) -> Result<(), AgentRanksError> {
        let clients: Vec<Arc<AgentClient>> = self.connect().await?.into_iter().map(Arc::new).collect();
        let mut balance = self.set_up(&clients, job).await?;
        let begun = Instant::now();
        let mut clocks = Vec::new();
        for (rank, client) in clients.iter().enumerate() {
            clocks.push(clock(client, begun).await.map_err(|source| AgentRanksError::Rank { rank, source })?);
        }
        for (rank, client) in clients.iter().enumerate() {
            client.start().await.map_err(|source| AgentRanksError::Rank { rank, source })?;
        }
        let mut places: Vec<RankProgress> = clocks.into_iter().map(RankProgress::at).collect();
        let (tell, mut heard) = channel(64);
        for (rank, client) in clients.iter().enumerate() {
            runtime.spawn(follow(rank, Arc::clone(client), tell.clone()));
        }
        drop(tell);
        self.gather(job, &mut heard, &mut places, (&clients, &mut balance), give).await;
        balance.iter().flat_map(RingBalance::summary).for_each(|line| (self.say)(&line));
        for (rank, place) in places.iter().enumerate() {
            if let Some(moved) = place.open {
                give(transfer(rank, &moved, place.began_us, job));
            }
        }
        Ok(())
    }

    /// Gives what completes until all is done, or nothing goes on.
    async fn gather(
        &self,
        job: &Rounds,
        heard: &mut Receiver<(usize, RankReading)>,
        places: &mut [RankProgress],
        (clients, balance): (&[Arc<AgentClient>], &mut Option<RingBalance>),
        give: &mut dyn FnMut(Transfer),
    ) {
        let mut last = Instant::now();
        while places.iter().any(|place| !place.is_over) {
            let left = self.patience.saturating_sub(last.elapsed());
            let said = tokio::time::timeout(left, heard.recv()).await;
            let Ok(Some((rank, reading))) = said else { return };
            if !reading.moved.is_empty() || reading.is_over {
                last = Instant::now();
            }
            if let Some(refused) = balance.as_ref().and(reading.refused.as_ref()) {
                (self.say)(&format!("rank {rank} cannot move its QPs, so nothing is balanced from here on: {refused}"));
                *balance = None;
            }
            if let Some(moved) = balance.as_mut().and_then(|balance| balance.hear(rank, &reading)) {
                (self.say)(&format!("rank {}: {}", moved.rank, moved.why));
                if let Err(error) = clients[moved.rank].set_source_ports(moved.groups).await {
                    (self.say)(&format!("rank {}: {}", moved.rank, kelpie_engine::chain(&error)));
                }
            }
            let place = &mut places[rank];
            reading.moved.iter().for_each(|moved| give(transfer(rank, moved, place.began_us, job)));
            (place.open, place.is_over) = (reading.open, reading.is_over);
        }
    }

    async fn connect(&self) -> Result<Vec<AgentClient>, AgentRanksError> {
        let (security, name) = (self.file.security(), controller_name());
        let mut clients = Vec::new();
        for (rank, spec) in self.file.ranks.iter().enumerate() {
            let client = AgentClient::connect(&spec.agent, &security, &name).await;
            clients.push(client.map_err(|source| AgentRanksError::Rank { rank, source })?);
        }
        Ok(clients)
    }

    async fn set_up(&self, clients: &[Arc<AgentClient>], job: &Rounds) -> Result<Option<RingBalance>, AgentRanksError> {
        let mut ends: Vec<Vec<GroupEndpoint>> = Vec::new();
        for (rank, client) in clients.iter().enumerate() {
            let set_up = client.set_up_rank(self.file.ranks[rank].port.clone(), self.job_of(rank, job)).await;
            ends.push(set_up.map_err(|source| AgentRanksError::Rank { rank, source })?);
        }
        let gids: Vec<[u8; 16]> = ends.iter().filter_map(|ends| ends.first()).map(|end| end.gid).collect();
        let balance = self.balance.as_ref().map(|catalog| RingBalance::new(catalog, &gids, self.qps));
        let balance = balance.transpose().map_err(AgentRanksError::Balance)?;
        for (rank, groups) in balance.iter().flat_map(RingBalance::first) {
            let set = clients[rank].set_source_ports(groups).await;
            set.map_err(|source| AgentRanksError::Rank { rank, source })?;
        }
        let end = |rank: usize, role| ends[rank % ends.len()].iter().filter(move |end| end.id.role == role).cloned();
        for (rank, client) in clients.iter().enumerate() {
            let peers = end(rank + 1, Role::Responder).chain(end(rank + ends.len() - 1, Role::Requester));
            let connected = client.connect_to(peers.collect()).await;
            connected.map_err(|source| AgentRanksError::Rank { rank, source })?;
        }
        Ok(balance)
    }

    fn job_of(&self, rank: usize, job: &Rounds) -> RankJob {
        let late = self.late.iter().find(|late| late.rank as usize == rank);
        RankJob {
            bytes: job.bytes,
            qps: self.qps,
            rounds: job.shifts.len() as u32,
            iterations: job.iterations,
            pause_us: u64::try_from(self.pause.as_micros()).unwrap_or(u64::MAX),
            late_us: late.map_or(0, |late| late.by_us),
            late_from: late.map_or(0, |late| late.from_iteration),
        }
    }
}

/// When a rank's clock began, by the job's. Units: microseconds.
async fn clock(client: &AgentClient, begun: Instant) -> Result<f64, ClientError> {
    let (mut soonest, mut began_us) = (Duration::MAX, 0.0);
    for _ in 0..CLOCK_LOOKS {
        let asked = Instant::now();
        let reading = client.read_rank().await?;
        let took = asked.elapsed();
        if took < soonest {
            soonest = took;
            began_us = (asked.duration_since(begun) + took / 2).as_secs_f64() * 1e6 - reading.now_us;
        }
    }
    Ok(began_us)
}

/// Asks a rank until it is done, or lost; then nothing more is heard of it.
async fn follow(rank: usize, client: Arc<AgentClient>, tell: Sender<(usize, RankReading)>) {
    loop {
        let reading = match client.read_rank().await {
            Ok(reading) => reading,
            Err(error) => {
                tracing::warn!(rank, error = kelpie_engine::chain(&error), "nothing more is heard of a rank");
                return;
            }
        };
        for event in &reading.events {
            tracing::warn!(rank, event, "a rank cannot go on");
        }
        let (is_lost, is_over) = (!reading.events.is_empty(), reading.is_over);
        if tell.send((rank, reading)).await.is_err() || is_lost {
            return;
        }
        if is_over {
            // The others may still need it.
            while !tell.is_closed() && client.read_rank().await.is_ok() {
                tokio::time::sleep(LOOKS).await;
            }
            return;
        }
        tokio::time::sleep(LOOKS).await;
    }
}

fn transfer(rank: usize, moved: &RankMessage, began_us: f64, job: &Rounds) -> Transfer {
    let at = |time: f64| began_us + time;
    let from = rank as u32;
    Transfer {
        iteration: moved.iteration,
        round: moved.round,
        from,
        to: (from + 1) % job.ranks,
        bytes: job.bytes,
        entered: Some(at(moved.entered_us)),
        begin: moved.begin_us.map(at),
        end: moved.end_us.map(at),
    }
}
