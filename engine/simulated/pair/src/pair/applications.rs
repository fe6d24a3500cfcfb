//! What applications do: they post and poll on cores, and a thread makes and destroys objects beside them.

use kelpie_events::Picos;
use kelpie_nic::command::{Command, Object};
use kelpie_nic::nic;
use kelpie_spaces::Host;

use super::{PairEnvironment, PairEvent};

impl PairEnvironment {
    /// Lets an application post all batches for which there is room, one after the other.
    pub(super) fn post_when_room(&mut self, now: Picos, host: Host, qp: u32) {
        let (flow, ..) = self.rings.qps[host.index()][qp as usize];
        let flow = &self.rings.flows[flow as usize];
        let app = &mut self.apps[host.index()][qp as usize];
        let batches = (flow.depth - (app.posted - app.seen)) / flow.batch;
        if app.posts_left > 0 || batches == 0 {
            return;
        }
        app.posts_left = batches;
        let span = self.costs[host.index()].posting(flow.batch);
        let from = app.posts_from;
        let begin = self.on_core(now, host, qp, span * batches);
        let end = begin + span * batches;
        let app = &mut self.apps[host.index()][qp as usize];
        if std::mem::replace(&mut app.has_filled, true) {
            self.core_wait[host.index()] += end - now;
            self.core_ends[host.index()].push(end);
        }
        self.events.at((begin + span).max(from), PairEvent::Post(host, qp));
    }

    /// Time that applications of a host have waited for their core up to `now` while they had room to post again.
    pub fn core_wait(&mut self, now: Picos, host: Host) -> Picos {
        let ends = &mut self.core_ends[host.index()];
        ends.retain(|end| *end > now);
        let to_come = ends.iter().map(|end| *end - now).sum();
        self.core_wait[host.index()] - to_come
    }

    /// Takes the core of a QP for a while; says when that begins.
    pub(super) fn on_core(&mut self, now: Picos, host: Host, qp: u32, span: Picos) -> Picos {
        let cores = &mut self.cores[host.index()];
        let count = cores.len();
        let core = &mut cores[qp as usize % count];
        let begin = (*core).max(now);
        *core = begin + span;
        self.core_time[host.index()] += span;
        begin
    }

    /// Part of the time up to `now` that those cores of a host were busy that QPs use.
    pub fn core_busy(&self, now: Picos, host: Host) -> f64 {
        let cores = &self.cores[host.index()];
        let used = cores.len().min(self.apps[host.index()].len());
        let to_come: Picos = cores.iter().map(|core| (*core).max(now) - now).sum();
        (self.core_time[host.index()] - to_come).ratio_to(now * used.max(1) as u64)
    }

    pub(super) fn post(&mut self, now: Picos, host: Host, qp: u32) {
        let (flow, ..) = self.rings.qps[host.index()][qp as usize];
        let flow = &self.rings.flows[flow as usize];
        let interarrival = Picos::from_nanos(flow.interarrival_ns.into());
        let span = self.costs[host.index()].posting(flow.batch);
        let app = &mut self.apps[host.index()][qp as usize];
        app.posted += flow.batch;
        app.posts_from = now + interarrival;
        app.posts_left -= 1;
        let posted = app.posted;
        if app.posts_left > 0 {
            self.events.at(now + span.max(interarrival), PairEvent::Post(host, qp));
        }
        self.events
            .at(now + self.costs[host.index()].mmio, PairEvent::Nic(host, nic::Event::Doorbell(qp, posted as u32)));
        self.post_when_room(now, host, qp);
    }

    pub(super) fn used(&mut self, now: Picos, host: Host, qp: u32, index: u64) {
        let (flow, ..) = self.rings.qps[host.index()][qp as usize];
        let flow = &self.rings.flows[flow as usize];
        let (depth, batch) = (flow.receive_depth, flow.receive_batch);
        let app = &mut self.apps[host.index()][qp as usize];
        app.used = index + 1;
        let posted = depth + app.used / batch * batch;
        if posted > app.receives {
            let batches = posted - app.receives;
            app.receives = posted;
            let span = self.costs[host.index()].wqe * batches;
            let done = self.on_core(now, host, qp, span) + span;
            self.events.at(
                done + self.costs[host.index()].mmio,
                PairEvent::Nic(host, nic::Event::Receives(qp, posted as u32)),
            );
        }
    }

    /// An object is to be made beside traffic, and the next one a period later.
    pub(super) fn is_due(&mut self, now: Picos, host: Host, object: Object) {
        let Some(thread) = &mut self.control[host.index()] else { return };
        let command = thread.is_due(object);
        if let Some(period) = thread.period(object) {
            self.events.at(now + period, PairEvent::Due(host, object));
        }
        self.command(now, host, command);
    }

    /// Posts a command.
    pub(super) fn command(&mut self, now: Picos, host: Host, command: Option<Command>) {
        if let Some(command) = command {
            let costs = self.costs[host.index()];
            let at_nic = now + costs.doorbell + costs.mmio;
            self.events.at(at_nic, PairEvent::Nic(host, nic::Event::Command(command)));
        }
    }
}
