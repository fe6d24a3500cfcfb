//! Selective repeat: a receiver keeps what arrives out of order and says so, and a sender sends only what is missing.
//!
//! A packet that is missing before one that arrived is sent again once. Whether that was lost too, or the last packets
//! of all, only a timeout tells: a short one while few packets are under way, which grows while nothing is heard, and a
//! long one else. Windows bound what both ends keep.
//!
//! Source: Mittal et al., Revisiting Network Support for RDMA (IRN), SIGCOMM 2018, sections 3 and 4.

use crate::congestion::{CongestionControl, NEVER};
use crate::nic::QpState;
use crate::settings::Recovery;
use crate::shard::{Plan, Shard};

impl<C: CongestionControl, const HOPS: usize> Shard<C, HOPS> {
    /// Whether senders repeat selectively.
    #[inline]
    pub fn is_selective(&self) -> bool {
        !self.resends.is_empty()
    }

    /// The packet that a QP has to send again now.
    pub fn next_missing(&mut self, qp: u32) -> Option<u32> {
        let (sender, resend) = (&self.senders[qp as usize], self.resends.get_mut(qp as usize)?);
        if resend.until <= sender.acked {
            return None;
        }
        resend.next = resend.arrived.first_missing(resend.next.max(sender.acked));
        (resend.next < resend.until).then_some(resend.next)
    }

    /// The message of a packet that is sent again, which follows.
    pub fn resent(&mut self, qp: u32, number: u32) -> u32 {
        self.resends[qp as usize].next = number + 1;
        let mut message = self.senders[qp as usize].oldest;
        while self.messages[message as usize].end <= number {
            message = self.messages[message as usize].next;
        }
        message
    }

    /// A sender hears which packets arrived: all before its first missing one, and maybe one beyond.
    pub fn heard(&mut self, plan: &Plan<'_>, qp: u32, is_news: bool, early: Option<u32>) {
        let acked = self.senders[qp as usize].acked;
        let resend = &mut self.resends[qp as usize];
        resend.arrived.forget_before(acked);
        let mut is_news = is_news;
        if let Some(early) = early.filter(|early| *early > acked) {
            is_news |= resend.arrived.put(early);
            resend.until = resend.until.max(early + 1);
        }
        if is_news {
            (resend.news, resend.since, resend.timeouts) = (self.now, self.now, 0);
            self.senders[qp as usize].timeouts = 0;
        }
        self.wait_on(plan, qp, self.resends[qp as usize].since);
    }

    /// A QP begins to wait for acknowledgements.
    pub fn wait_begins(&mut self, plan: &Plan<'_>, qp: u32) {
        let resend = &mut self.resends[qp as usize];
        (resend.news, resend.timeouts) = (self.now, 0);
        self.wait_on(plan, qp, self.now);
    }

    /// Sets the timeout of a QP that waits since a time.
    fn wait_on(&mut self, plan: &Plan<'_>, qp: u32, since: u64) {
        let long = plan.settings.timeout_ns;
        let (sender, resend) = (&mut self.senders[qp as usize], &mut self.resends[qp as usize]);
        resend.since = since;
        let under_way = (sender.most - sender.acked).saturating_sub(resend.arrived.count());
        sender.timeout = match plan.settings.recovery {
            _ if sender.acked >= sender.most => NEVER,
            Recovery::Selective { few, low_timeout_ns } if under_way <= few => {
                let grown = low_timeout_ns.saturating_mul(1 << resend.timeouts.min(20));
                since.saturating_add(grown.min(long))
            }
            _ => since.saturating_add(long),
        };
    }

    /// The timeout of a QP may be due.
    pub fn selective_timeout(&mut self, plan: &Plan<'_>, qp: u32) {
        // More packets may have left since it was set.
        self.wait_on(plan, qp, self.resends[qp as usize].since);
        let (sender, resend) = (&mut self.senders[qp as usize], &mut self.resends[qp as usize]);
        if sender.timeout > self.now {
            return;
        }
        self.counted[qp as usize].timeouts += 1;
        self.counters.timeouts += 1;
        self.last = self.now;
        resend.timeouts = resend.timeouts.saturating_add(1);
        // Short timeouts do not make an error sooner than long ones would.
        let silent = self.now.saturating_sub(resend.news) / plan.settings.timeout_ns;
        sender.timeouts = u8::try_from(silent).unwrap_or(u8::MAX);
        if sender.timeouts > plan.settings.retries {
            (sender.state, sender.timeout) = (QpState::Error, NEVER);
            return;
        }
        let (flow, line) = (&mut self.flows[qp as usize], &plan.lines[qp as usize]);
        self.control.lost(flow, &mut sender.rate, line, self.now, true);
        resend.next = sender.acked;
        resend.until = resend.until.max(sender.acked + 1);
        // What its rate holds back has not been sent yet.
        let held = sender.held_ns(self.now);
        resend.news += held;
        self.wait_on(plan, qp, self.now + held);
        self.may_send(plan, qp);
    }

    /// Messages that ended with the packets before a number were received.
    pub fn ended_early(&mut self, plan: &Plan<'_>, qp: u32, number: u32) {
        while let Some(message) = self.early.get_mut(qp as usize).and_then(|early| early.ended_before(number)) {
            self.message_arrived(plan, qp, message);
        }
    }
}
