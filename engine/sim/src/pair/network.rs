//! What lies between the hosts: paths that lose or delay, and the switch, or the leaves of hosts with two ports.

use kelpie_events::Picos;
use kelpie_nic::packet::Burst;
use kelpie_spaces::Host;

use super::{Around, ByPort, Event};
use crate::path_part::Passed;

impl Around {
    /// Whether there are leaves in the place of the switch.
    pub fn has_leaves(&self) -> bool {
        self.leaves.is_some()
    }

    /// What each port of both hosts has sent and received, if they have two.
    pub fn by_port(&self) -> Option<ByPort> {
        let leaves = self.leaves.as_ref()?;
        Some(ByPort { sent_bytes: leaves.sent_bytes, received_bytes: leaves.received_bytes })
    }

    /// A burst leaves a host, whose path may lose it or take its time.
    pub(super) fn on_path(&mut self, now: Picos, host: Host, burst: Burst) {
        let (flow, ..) = self.rings.qps[host.peer().index()][burst.to as usize];
        let Some(path) = &mut self.path else { return };
        match path[host.index()].pass(flow, burst) {
            Passed::Lost => {}
            Passed::Late(delay) => self.events.at(now + delay, Event::Delayed(host, flow)),
            Passed::Through(burst) => self.enter(now, host, burst),
        }
    }

    /// A burst comes to the first switch.
    pub(super) fn enter(&mut self, now: Picos, host: Host, burst: Burst) {
        let Self { leaves, events, .. } = self;
        if let Some(leaves) = leaves {
            return leaves.sent(now, host, burst, &mut |time, step| events.at(time, Event::Leaves(step)));
        }
        let at_switch = now + self.costs.link;
        self.at_switch(at_switch, host, burst);
    }

    /// A burst reaches the switch. All that comes to it takes equally long, so that it is dealt with in order when it
    /// leaves its host, and the switch is ahead of the hosts by that time.
    pub(super) fn at_switch(&mut self, now: Picos, from: Host, burst: Burst) {
        let to = from.peer();
        let port = &mut self.ports[to.index()];
        port.queued += burst.wire;
        port.queue.push_back(burst);
        if port.queued > self.costs.switch_xoff && !port.holds_sender {
            port.holds_sender = true;
            self.events.at(now + self.costs.link, Event::HostPause(from, true));
        }
        self.kick_port(now, to);
    }

    pub(super) fn kick_port(&mut self, now: Picos, to: Host) {
        let port = &mut self.ports[to.index()];
        if port.is_scheduled || port.is_paused || port.queue.is_empty() {
            return;
        }
        if port.wire.free() <= now {
            self.switch_port(now, to);
        } else {
            port.is_scheduled = true;
            self.events.at(port.wire.free() - self.costs.link, Event::SwitchPort(to));
        }
    }

    /// The switch port towards a host sends a burst, cut-through.
    pub(super) fn switch_port(&mut self, now: Picos, to: Host) {
        let port = &mut self.ports[to.index()];
        if port.is_paused {
            return;
        }
        let Some(burst) = port.queue.pop_front() else { return };
        port.queued -= burst.wire;
        port.wire.serve(now, self.wire.time(burst.wire));
        if port.holds_sender && port.queued < self.costs.switch_xon {
            port.holds_sender = false;
            self.events.at(now + self.costs.link, Event::HostPause(to.peer(), false));
        }
        self.from_switch[to.index()].push_back(burst);
        self.events.at(now + self.costs.link, Event::Arrive(to));
        self.kick_port(now, to);
    }
}
