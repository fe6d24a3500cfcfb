//! The level of flows: the same messages over the same ways, each at its max-min fair rate, which changes when a
//! message begins or ends. No packets, queues or congestion control.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use kelpie_packets::{DirectedLink, MessageTimes, Network, RunError, Settings, Traffic, ways};

use crate::max_min::{self, FlowGroup};

/// A QP that sends.
struct Lane {
    /// Messages that wait behind the one that is being sent.
    waiting: VecDeque<u32>,
    /// What is being sent, what is left of it, and since when. Units: bytes, ns.
    current: Option<(u32, f64)>,
    links: FlowGroup,
    /// Time from a byte's departure to its arrival, a full packet's storage included. Units: ns.
    delay: f64,
    rate: f64,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message is posted.
    Post(u32),
    /// The last byte of a message arrives.
    Arrive(u32),
}

/// Sends all messages; gives when each was posted and arrived.
///
/// # Errors
/// If the network cannot be, or no links lead somewhere.
pub fn run(network: &Network, settings: &Settings, traffic: &Traffic) -> Result<Vec<MessageTimes>, RunError> {
    let capacity: Vec<f64> = network.links.iter().flat_map(|link| [link.gbps; 2]).collect();
    let index = |link: &DirectedLink| link.link as usize * 2 + usize::from(link.from);
    let share = f64::from(settings.payload) / f64::from(settings.payload + settings.overhead);
    let mut lanes: Vec<Lane> = Vec::new();
    for links in ways(network, settings, &traffic.qps)? {
        let hops = links.iter().map(|link| network.links[link.link as usize]);
        let packet = f64::from(settings.payload + settings.overhead) * 8.0;
        let delay = hops.clone().map(|link| f64::from(link.delay_ns)).sum::<f64>()
            + hops.skip(1).map(|link| packet / link.gbps).sum::<f64>();
        let links = links.iter().map(|link| (index(link), 1.0)).collect();
        lanes.push(Lane { waiting: VecDeque::new(), current: None, links, delay, rate: 0.0 });
    }
    let mut state = Fluid::new(traffic, lanes, capacity, share);
    state.run();
    Ok(state.times)
}

struct Fluid<'t> {
    traffic: &'t Traffic,
    lanes: Vec<Lane>,
    capacity: Vec<f64>,
    /// Share of a link that is payload.
    share: f64,
    waits: Vec<u32>,
    followers: Vec<Vec<u32>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// QPs that send.
    active: Vec<u32>,
    now: f64,
    times: Vec<MessageTimes>,
}

impl<'t> Fluid<'t> {
    fn new(traffic: &'t Traffic, lanes: Vec<Lane>, capacity: Vec<f64>, share: f64) -> Self {
        let mut waits = vec![0; traffic.messages.len()];
        let mut followers = vec![Vec::new(); traffic.messages.len()];
        for (cause, _, effect) in &traffic.waits {
            waits[*effect as usize] += 1;
            followers[*cause as usize].push(*effect);
        }
        let first = (0..).zip(&traffic.messages).zip(&waits).filter(|(_, waits)| **waits == 0);
        let events = first.map(|((number, message), _)| Reverse((message.start_ns, Event::Post(number)))).collect();
        let times =
            vec![MessageTimes { posted: None, received: None, done: None, unfinished: None }; traffic.messages.len()];
        Self { traffic, lanes, capacity, share, waits, followers, events, active: Vec::new(), now: 0.0, times }
    }

    fn run(&mut self) {
        loop {
            let ends = self.active.iter().map(|qp| self.ends_at(*qp)).fold(f64::INFINITY, f64::min);
            let event = self.events.peek().map_or(f64::INFINITY, |event| event.0.0 as f64);
            if ends.is_infinite() && event.is_infinite() {
                return;
            }
            let changed = if event <= ends { self.take_events(event) } else { self.take_end(ends) };
            if changed {
                self.share_out();
            }
        }
    }

    /// When what a QP sends has left. Units: ns.
    fn ends_at(&self, qp: u32) -> f64 {
        let lane = &self.lanes[qp as usize];
        lane.current.map_or(f64::INFINITY, |(_, left)| self.now + left * 8.0 / lane.rate)
    }

    /// All QPs send until a time.
    fn pass(&mut self, time: f64) {
        for qp in &self.active {
            let lane = &mut self.lanes[*qp as usize];
            if let Some((_, left)) = &mut lane.current {
                *left = (*left - (time - self.now) * lane.rate / 8.0).max(0.0);
            }
        }
        self.now = time;
    }

    fn take_events(&mut self, time: f64) -> bool {
        self.pass(time);
        let mut changed = false;
        while let Some(Reverse((at, event))) = self.events.peek().copied().filter(|event| event.0.0 as f64 <= time) {
            self.events.pop();
            match event {
                Event::Post(message) => changed |= self.post(at, message),
                Event::Arrive(message) => {
                    self.times[message as usize].received = Some(at);
                    self.times[message as usize].done = Some(at);
                    // A sender knows that a message has arrived as soon as it has: acknowledgements take no time here.
                    self.release(at, message);
                }
            }
        }
        changed
    }

    fn post(&mut self, at: u64, message: u32) -> bool {
        self.times[message as usize].posted = Some(at);
        let form = self.traffic.messages[message as usize];
        let lane = &mut self.lanes[form.qp as usize];
        if lane.links.is_empty() {
            self.events.push(Reverse((at, Event::Arrive(message))));
            return false;
        }
        if lane.current.is_some() {
            lane.waiting.push_back(message);
            return false;
        }
        lane.current = Some((message, form.bytes.max(1) as f64));
        self.active.push(form.qp);
        true
    }

    /// What ends at a time has left.
    fn take_end(&mut self, time: f64) -> bool {
        self.pass(time);
        let mut active = std::mem::take(&mut self.active);
        let mut changed = false;
        active.retain(|qp| {
            let lane = &mut self.lanes[*qp as usize];
            let Some((message, _)) = lane.current.filter(|(_, left)| *left < 0.5) else { return true };
            let at = (time + lane.delay).round() as u64;
            self.events.push(Reverse((at, Event::Arrive(message))));
            lane.current =
                lane.waiting.pop_front().map(|next| (next, self.traffic.messages[next as usize].bytes.max(1) as f64));
            changed |= lane.current.is_none();
            lane.current.is_some()
        });
        self.active = active;
        changed
    }

    /// Something that messages wait for has happened.
    fn release(&mut self, at: u64, message: u32) {
        for follower in std::mem::take(&mut self.followers[message as usize]) {
            self.waits[follower as usize] -= 1;
            if self.waits[follower as usize] == 0 {
                let time = at.saturating_add(self.traffic.messages[follower as usize].start_ns);
                self.events.push(Reverse((time, Event::Post(follower))));
            }
        }
    }

    /// Each QP that sends gets its max-min fair rate. Units: Gbit/s, which are bits in a ns.
    fn share_out(&mut self) {
        let groups: Vec<FlowGroup> = self.active.iter().map(|qp| self.lanes[*qp as usize].links.clone()).collect();
        for (qp, rate) in self.active.iter().zip(max_min::rates(&self.capacity, &groups)) {
            self.lanes[*qp as usize].rate = rate * self.share;
        }
    }
}
