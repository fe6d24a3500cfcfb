//! What the GPUs of a job do, as transfers that wait for each other. Who carries them out, a model or real hosts,
//! stands elsewhere.

use std::collections::HashMap;

/// What of a transfer another one waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// It has arrived; the other one leaves from where it arrived.
    Received,
    /// Its sender knows that; the other one leaves from where it left.
    Sent,
}

/// A QP from one GPU to another one; one from a GPU to itself stands for its own work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Connection {
    /// GPU that sends. From the number of GPUs on: what the GPUs of a host share.
    pub from: u32,
    /// GPU that receives.
    pub to: u32,
    /// Which of the connections of the two.
    pub channel: u16,
}

/// A message of a connection, or a time of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DagTask {
    /// Its connection, by number.
    pub connection: u32,
    /// Its job, by number.
    pub job: u16,
    /// The step of the job that it belongs to, counted over iterations.
    pub step: u32,
    /// Size. Units: bytes.
    pub bytes: u64,
    /// Time from when all that it waits for has happened. Units: ns.
    pub delay_ns: u64,
}

/// Transfers that wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dag {
    /// Connections.
    pub connections: Vec<Connection>,
    /// Transfers; what a transfer waits for stands before it.
    pub tasks: Vec<DagTask>,
    /// A task, what of it is waited for, and the task that waits.
    pub waits: Vec<(u32, Wait, u32)>,
}

/// Something that happens at a GPU: a task, and what of it.
pub type DagEvent = (u32, Wait);

/// A graph while it grows: each GPU goes on where its last step ended.
#[derive(Debug)]
pub struct DagBuilder {
    dag: Dag,
    connections: HashMap<Connection, u32>,
    /// What each GPU waits for before its next step.
    frontier: Vec<Vec<DagEvent>>,
    /// What each GPU waits for after this step, and what it sent in it.
    next: Vec<Vec<DagEvent>>,
    sends: Vec<Vec<DagEvent>>,
    /// Of all transfers.
    job: u16,
    step: u32,
    /// Time that a GPU takes to begin a transfer. Units: ns.
    send_ns: u64,
    /// GPUs that took part in this step.
    touched: Vec<u32>,
}

impl DagBuilder {
    /// An empty graph over so many places (GPUs and what hosts share); a transfer takes `send_ns` to begin.
    pub fn new(places: u32, send_ns: u64) -> Self {
        let empty = || vec![Vec::new(); places as usize];
        Self {
            dag: Dag::default(),
            connections: HashMap::new(),
            frontier: empty(),
            next: empty(),
            sends: empty(),
            job: 0,
            step: 0,
            send_ns,
            touched: Vec::new(),
        }
    }

    /// The next steps belong to another job. That job waits for a time only. Units: ns.
    pub fn begin_job(&mut self, job: u16, gpus: &[u32], start_ns: u64) {
        (self.job, self.step) = (job, 0);
        for gpu in gpus {
            self.frontier[*gpu as usize].clear();
            if start_ns > 0 {
                let task = self.task(*gpu, *gpu, 0, 0, start_ns, &[]);
                self.frontier[*gpu as usize].push((task, Wait::Received));
            }
        }
    }

    /// Time that a GPU takes to begin each transfer from now on. Units: ns.
    pub fn send_takes(&mut self, nanos: u64) {
        self.send_ns = nanos;
    }

    /// Transfers and times of work until now.
    pub fn transfers(&self) -> u64 {
        self.dag.tasks.len() as u64
    }

    /// What a GPU waits for before it begins its part of this step.
    pub fn ready(&mut self, gpu: u32) -> Vec<DagEvent> {
        if self.frontier[gpu as usize].len() > 1 {
            // Many waits meet in one, so that not each transfer has all of them.
            let events = std::mem::take(&mut self.frontier[gpu as usize]);
            let join = self.task(gpu, gpu, 0, 0, 0, &events);
            self.frontier[gpu as usize] = vec![(join, Wait::Received)];
        }
        self.frontier[gpu as usize].clone()
    }

    /// Work of a GPU. Units: ns.
    pub fn work(&mut self, gpu: u32, nanos: u64) {
        let after = self.ready(gpu);
        let task = self.task(gpu, gpu, 0, 0, nanos, &after);
        self.touch(gpu);
        self.next[gpu as usize].push((task, Wait::Received));
    }

    /// A transfer of a step. If it is the last that its receiver waits for on this way, say so by [`DagBuilder::ends`].
    pub fn transfer(&mut self, [from, to]: [u32; 2], channel: u16, bytes: u64, after: &[DagEvent]) -> u32 {
        let task = self.task(from, to, channel, bytes, self.send_ns, after);
        self.touch(from);
        self.touch(to);
        self.sends[from as usize].push((task, Wait::Sent));
        task
    }

    /// A transfer's receiver goes on to the next step when it has arrived.
    pub fn ends(&mut self, task: u32) {
        let to = self.dag.connections[self.dag.tasks[task as usize].connection as usize].to;
        self.next[to as usize].push((task, Wait::Received));
    }

    /// The same, if the receiver is this GPU.
    pub fn ends_if_at(&mut self, task: u32, gpu: u32) {
        if self.dag.connections[self.dag.tasks[task as usize].connection as usize].to == gpu {
            self.ends(task);
        }
    }

    /// All GPUs that took part go on to the next step: after what they wait for, or, if nothing comes, after what they
    /// sent.
    pub fn end_step(&mut self) {
        self.step += 1;
        for gpu in std::mem::take(&mut self.touched) {
            let gpu = gpu as usize;
            let (next, sends) = (std::mem::take(&mut self.next[gpu]), std::mem::take(&mut self.sends[gpu]));
            if !next.is_empty() {
                self.frontier[gpu] = next;
            } else if !sends.is_empty() {
                self.frontier[gpu] = sends;
            }
        }
    }

    /// The graph.
    pub fn finish(self) -> Dag {
        self.dag
    }

    fn touch(&mut self, gpu: u32) {
        if self.next[gpu as usize].is_empty() && self.sends[gpu as usize].is_empty() {
            self.touched.push(gpu);
        }
    }

    fn task(&mut self, from: u32, to: u32, channel: u16, bytes: u64, delay_ns: u64, after: &[DagEvent]) -> u32 {
        let connection = Connection { from, to, channel };
        let number = *self.connections.entry(connection).or_insert_with(|| {
            self.dag.connections.push(connection);
            self.dag.connections.len() as u32 - 1
        });
        let task = self.dag.tasks.len() as u32;
        self.dag.waits.extend(after.iter().map(|(cause, wait)| (*cause, *wait, task)));
        self.dag.tasks.push(DagTask { connection: number, job: self.job, step: self.step, bytes, delay_ns });
        task
    }
}

/// So many bytes in so many parts, the first ones a byte larger if they do not divide.
pub fn parts(bytes: u64, parts: u64) -> impl Iterator<Item = u64> + Clone {
    let (each, more) = (bytes / parts, bytes % parts);
    (0..parts).map(move |part| each + u64::from(part < more))
}
