//! What a NIC does where packets can be lost on the way: acknowledgement timers of requesters, READ responses that do
//! not come, and requests that come again. On a path that loses nothing, none of it is in use.
//!
//! Source: IBTA volume 1, sections 9.7.5 and 9.9.2. Retries are not counted, so that no QP ends in an error.

use kelpie_events::Picos;

use crate::nic::{Event, Nic, Outside};
use crate::packet::Burst;
use crate::sequence::ReceiverResponse;

impl Nic {
    /// A request has left: if it is the oldest that waits for an answer, its timer begins.
    pub(crate) fn watch(&mut self, now: Picos, qp: u32, burst: &Burst, out: &mut impl Outside) {
        let Some(timeout) = self.config.ack_timeout else { return };
        if burst.kind.is_answer() || !burst.is_reliable {
            return;
        }
        let state = &mut self.qps[qp as usize];
        if burst.number <= state.sender.acked() || !state.timer.is_watched {
            state.timer.answer_by = now + timeout;
        }
        if !std::mem::replace(&mut state.timer.is_watched, true) {
            out.at(state.timer.answer_by, Event::Timeout(qp));
        }
    }

    /// A timer may have run out: then all that was not answered goes again.
    pub(crate) fn may_time_out(&mut self, now: Picos, qp: u32, out: &mut impl Outside) {
        let Some(timeout) = self.config.ack_timeout else { return };
        let state = &mut self.qps[qp as usize];
        if state.sender.open() == 0 {
            state.timer.is_watched = false;
            return;
        }
        if now >= state.timer.answer_by {
            self.tally.timeouts += 1;
            state.timer.answer_by = now + timeout;
            let missing = state.sender.acked();
            self.answered(now, qp, ReceiverResponse::Nak(missing), out);
        }
        out.at(self.qps[qp as usize].timer.answer_by, Event::Timeout(qp));
    }

    /// What an answer says if responses may be lost: nothing of a READ whose response has not come.
    pub(crate) fn believed(&mut self, qp: u32, answer: ReceiverResponse, out: &impl Outside) -> ReceiverResponse {
        if self.config.ack_timeout.is_none() || !self.qps[qp as usize].is_reliable() {
            return answer;
        }
        let missing = self.response_number(qp, out).unwrap_or(u64::MAX);
        match answer {
            ReceiverResponse::Ack(below) => ReceiverResponse::Ack(below.min(missing)),
            ReceiverResponse::Nak(below) => ReceiverResponse::Nak(below.min(missing)),
        }
    }

    /// After an answer: the timer begins anew, and where the QP stands fits what was answered.
    pub(crate) fn has_progress(&mut self, now: Picos, qp: u32, out: &impl Outside) {
        let Some(timeout) = self.config.ack_timeout else { return };
        let state = &mut self.qps[qp as usize];
        if !state.is_reliable() {
            return;
        }
        state.timer.answer_by = now + timeout;
        let (messages, packets) = state.sender.position();
        // An answer to what was sent before a timer ran out spares it to be sent again.
        let stands = (state.completed + messages, packets * state.connection.mtu);
        if stands > (state.next, state.offset) {
            (state.next, state.offset) = stands;
        }
        let (completed, next) = (state.completed, state.next);
        let open = (completed..next).filter(|index| out.wqe(qp, *index).operation.brings_back()).count() as u32;
        let before = std::mem::replace(&mut self.qps[qp as usize].reads_open, open);
        self.reads_on_their_way = self.reads_on_their_way - u64::from(before) + u64::from(open);
    }

    /// Whether a READ response is the one that comes next; behind a gap, what is missing is asked for again, once.
    pub(crate) fn is_next_response(&mut self, now: Picos, burst: &Burst, out: &mut impl Outside) -> bool {
        if self.config.ack_timeout.is_none() {
            return true;
        }
        let qp = burst.to;
        let Some(expected) = self.response_number(qp, out) else { return false };
        let state = &mut self.qps[qp as usize];
        if burst.number == expected {
            state.timer.misses_response = false;
            return true;
        }
        if burst.number > expected && !std::mem::replace(&mut state.timer.misses_response, true) {
            self.answered(now, qp, ReceiverResponse::Nak(expected), out);
        }
        false
    }

    /// Number of the READ response packet that a requester waits for, if it waits for one.
    fn response_number(&mut self, qp: u32, out: &impl Outside) -> Option<u64> {
        let state = &mut self.qps[qp as usize];
        let end = state.completed + state.sender.messages();
        while state.response < end && !out.wqe(qp, state.response).operation.brings_back() {
            state.response += 1;
        }
        let begins = state.sender.begins(state.response.checked_sub(state.completed)?)?;
        Some(begins + state.response_offset.div_ceil(state.connection.mtu))
    }
}
