//! Packet sequence numbers of a reliable connection: both ends of one direction, and go-back-N. When what is sent is
//! elsewhere.
//!
//! Numbers count from 0 and do not wrap at 24 bits, because no run sends so many packets on a QP that it would matter.
//! Source: IBTA volume 1, sections 9.7.5 and 9.7.7.

use std::cmp::Ordering;
use std::collections::VecDeque;

/// What a receiver answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiverResponse {
    /// All packets below this number arrived.
    Ack(u64),
    /// The packet of this number is missing: all from it on have to be sent again.
    Nak(u64),
}

/// The end that sends.
#[derive(Debug, Clone, Default)]
pub struct Sender {
    /// The next packet to send.
    next: u64,
    /// The first that was never sent.
    fresh: u64,
    /// Acknowledged below.
    acked: u64,
    /// Where the oldest open message begins.
    first: u64,
    /// Where each open message ends: its last packet and one.
    messages: VecDeque<u64>,
    /// The end of the last message that there is.
    end: u64,
    /// Packets that were sent again.
    repeated: u64,
}

impl Sender {
    /// A message of so many packets, at least 1, follows those before it.
    pub fn add(&mut self, packets: u64) {
        debug_assert!(packets > 0, "an empty message has one packet too");
        self.end += packets;
        self.messages.push_back(self.end);
    }

    /// Takes the next packet to send, if there is one.
    pub fn send(&mut self) -> Option<u64> {
        (self.next < self.end).then(|| self.send_many(1))
    }

    /// Takes so many packets, which there are; the number of the first.
    pub fn send_many(&mut self, packets: u64) -> u64 {
        debug_assert!(self.next + packets <= self.end, "packets of messages that were added");
        let first = self.next;
        self.next += packets;
        self.repeated += self.next.min(self.fresh).saturating_sub(first);
        self.fresh = self.fresh.max(self.next);
        first
    }

    /// Where the next packet to send lies: how many open messages come before its own, and how many packets of its own.
    /// Beyond all messages that there are, it is the first of the message to come.
    pub fn position(&self) -> (u64, u64) {
        let before = self.messages.partition_point(|end| *end <= self.next);
        let begins = if before == 0 { self.first } else { self.messages[before - 1] };
        (before as u64, self.next - begins)
    }

    /// An answer arrives; says how many messages are complete by it.
    pub fn answered(&mut self, answer: ReceiverResponse) -> u64 {
        let (ReceiverResponse::Ack(below) | ReceiverResponse::Nak(below)) = answer;
        // An old answer says nothing new, and one from the future is not believed.
        if below < self.acked || below > self.fresh {
            return 0;
        }
        self.acked = below;
        if let ReceiverResponse::Nak(missing) = answer {
            self.next = missing;
        }
        self.next = self.next.max(below);
        let open = self.messages.len();
        while let Some(end) = self.messages.pop_front_if(|end| *end <= below) {
            self.first = end;
        }
        (open - self.messages.len()) as u64
    }

    /// No answer came in time: all that is not acknowledged goes again.
    pub fn timed_out(&mut self) {
        self.next = self.acked;
    }

    /// All packets below this number are acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The first packet of an open message, counted from the oldest; none if there are not so many.
    pub fn begins(&self, at: u64) -> Option<u64> {
        let at = usize::try_from(at).ok().filter(|at| *at < self.messages.len())?;
        Some(if at == 0 { self.first } else { self.messages[at - 1] })
    }

    /// Messages that were added and are not acknowledged.
    pub fn messages(&self) -> u64 {
        self.messages.len() as u64
    }

    /// Packets that were sent and not acknowledged.
    pub fn open(&self) -> u64 {
        self.fresh - self.acked
    }

    /// Packets that were sent again.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }
}

/// What a packet is to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceCheck {
    /// The next one.
    Next,
    /// One that arrived before: it is answered again, and its data are not used.
    Again,
    /// One behind a gap: it is not used. The first behind a gap makes a NAK.
    Beyond {
        /// What to answer, if this is the first.
        nak: Option<ReceiverResponse>,
    },
}

/// The end that receives.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    expected: u64,
    has_complained: bool,
}

impl Receiver {
    /// A packet arrives.
    pub fn arrive(&mut self, packet: u64) -> SequenceCheck {
        self.arrive_many(packet, 1)
    }

    /// So many packets arrive, of which the first has this number.
    pub fn arrive_many(&mut self, first: u64, packets: u64) -> SequenceCheck {
        match first.cmp(&self.expected) {
            Ordering::Equal => {
                self.expected += packets;
                self.has_complained = false;
                SequenceCheck::Next
            }
            Ordering::Less => SequenceCheck::Again,
            Ordering::Greater => {
                let is_first = !std::mem::replace(&mut self.has_complained, true);
                SequenceCheck::Beyond { nak: is_first.then_some(ReceiverResponse::Nak(self.expected)) }
            }
        }
    }

    /// The last so many packets that arrived could not be used, for want of a receive WQE: they have to come again.
    /// Says from which on.
    pub fn refuse(&mut self, packets: u64) -> u64 {
        self.expected -= packets;
        self.has_complained = true;
        self.expected
    }

    /// What is missing does not come: goes on with the packet of this number.
    pub fn skip_to(&mut self, number: u64) {
        (self.expected, self.has_complained) = (number, false);
    }

    /// The next packet.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// The acknowledgement of all that arrived.
    pub fn ack(&self) -> ReceiverResponse {
        ReceiverResponse::Ack(self.expected)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_complete_in_order_and_many_by_one_acknowledgement() {
        let mut sender = Sender::default();
        for packets in [2, 1, 3] {
            sender.add(packets);
        }
        let sent: Vec<u64> = std::iter::from_fn(|| sender.send()).collect();
        assert_eq!((sent, sender.open()), (vec![0, 1, 2, 3, 4, 5], 6));
        assert_eq!([1, 4, 4, 2, 6].map(|below| sender.answered(ReceiverResponse::Ack(below))), [0, 2, 0, 0, 1]);
        assert_eq!(sender.answered(ReceiverResponse::Ack(99)), 0, "more than was sent is not believed");
        for packets in [2, 3] {
            sender.add(packets);
        }
        assert_eq!((sender.position(), sender.send_many(2), sender.position()), ((0, 0), 6, (1, 0)));
        sender.send_many(1);
        assert_eq!((sender.answered(ReceiverResponse::Ack(7)), sender.position()), (0, (1, 1)));
        sender.answered(ReceiverResponse::Nak(7));
        assert_eq!(sender.position(), (0, 1), "the second packet of the first open message");
    }

    #[test]
    fn a_gap_makes_one_nak_and_all_behind_it_goes_again() {
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        sender.add(5);
        let sent: Vec<u64> = std::iter::from_fn(|| sender.send()).collect();
        let nak = ReceiverResponse::Nak(1);
        // Packet 1 is lost.
        let seen: Vec<SequenceCheck> =
            sent.iter().filter(|packet| **packet != 1).map(|packet| receiver.arrive(*packet)).collect();
        let quiet = SequenceCheck::Beyond { nak: None };
        assert_eq!(seen, [SequenceCheck::Next, SequenceCheck::Beyond { nak: Some(nak) }, quiet, quiet]);
        assert_eq!(sender.answered(nak), 0);
        assert_eq!(sender.position(), (0, 1));
        let again: Vec<u64> = std::iter::from_fn(|| sender.send()).collect();
        assert_eq!((again, sender.repeated()), (vec![1, 2, 3, 4], 4));
    }

    #[test]
    fn a_packet_that_is_refused_comes_again() {
        let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
        sender.add(2);
        let first = sender.send().expect("two packets");
        assert_eq!(receiver.arrive(first), SequenceCheck::Next);
        receiver.refuse(1);
        let second = sender.send().expect("two packets");
        assert_eq!(receiver.arrive(second), SequenceCheck::Beyond { nak: None }, "the refusal was an answer");
        sender.answered(ReceiverResponse::Nak(0));
        let again = [sender.send(), sender.send()].map(|packet| receiver.arrive(packet.expect("again")));
        assert_eq!(again, [SequenceCheck::Next, SequenceCheck::Next]);
    }

    proptest! {
        /// A lossy way there and back that keeps the order; a timeout when nothing moves any more.
        #[test]
        fn every_message_completes_once_whatever_is_lost(
            messages in prop::collection::vec(1u64..8, 1..30),
            losses in prop::collection::vec(any::<bool>(), 0..200),
            window in 1usize..20,
        ) {
            let (mut sender, mut receiver) = (Sender::default(), Receiver::default());
            for packets in &messages {
                sender.add(*packets);
            }
            // What the list does not name is not lost, so that every run ends.
            let mut losses = losses.into_iter();
            let mut is_lost = || losses.next().unwrap_or(false);
            let (mut complete, mut delivered, mut turns) = (0, Vec::new(), 0);
            while complete < messages.len() as u64 {
                turns += 1;
                prop_assert!(turns < 10_000, "it goes on for ever");
                let packets: Vec<u64> = std::iter::from_fn(|| sender.send()).take(window).collect();
                if packets.is_empty() {
                    sender.timed_out();
                }
                for packet in packets {
                    if is_lost() {
                        continue;
                    }
                    let answer = match receiver.arrive(packet) {
                        SequenceCheck::Next => {
                            delivered.push(packet);
                            Some(receiver.ack())
                        }
                        SequenceCheck::Again => Some(receiver.ack()),
                        SequenceCheck::Beyond { nak } => nak,
                    };
                    if let Some(answer) = answer.filter(|_| !is_lost()) {
                        complete += sender.answered(answer);
                    }
                }
            }
            let packets: u64 = messages.iter().sum();
            prop_assert_eq!(delivered, (0..packets).collect::<Vec<u64>>(), "each once and in order");
            prop_assert_eq!((complete, sender.open()), (messages.len() as u64, 0));
        }
    }
}
