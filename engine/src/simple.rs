//! Simple traffic: what every NIC is best at, from which bounds are learned. RC WRITE of one kind of message, one way.

use kelpie_monitor::QpTimes;
use kelpie_spaces::{Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, Request, Workload};

/// A kind of simple traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simple {
    /// Elements of each message.
    pub elements: u32,
    /// Units: bytes.
    pub element: u64,
    /// QPs.
    pub qps: u32,
    /// Send queue of each.
    pub depth: u32,
    /// Requests per post call.
    pub batch: u32,
    /// Path MTU at most. Units: bytes.
    pub mtu: u64,
}

const SHORT: Simple = Simple { elements: 1, element: 64, qps: 1, depth: 128, batch: 16, mtu: 4096 };

/// How much longer than what the queue allows a message takes at least, for the queue not to be what limits the QP.
/// Source: our choice; half of the margin that makes a rate low would already count.
const QUEUE_LIMITS: f64 = 2.0;

impl Simple {
    /// For bits per second. Source: Collie, section 7.2 (perftest-like traffic is healthy from 64 KiB).
    pub const LARGE: Self = Self { element: 64 << 10, qps: 4, depth: 64, batch: 1, ..SHORT };
    /// For packets per second.
    pub const SMALL: Self = Self { qps: 8, ..SHORT };
    /// For the round trip. Two posted at once have to be read by the NIC; one alone may come with its doorbell, sooner.
    pub const COUPLE: Self = Self { depth: 2, batch: 2, ..SHORT };
    /// For what one QP takes for a message; its queue is long, so that it is never what limits it.
    pub const ONE_QP: Self = Self { depth: 1024, ..SHORT };
    /// For what it takes for a packet.
    pub const ONE_QP_LONG: Self = Self { element: 64 << 10, depth: 16, batch: 1, mtu: 256, ..SHORT };

    /// For what one QP takes for an element of a list.
    pub const fn one_qp_lists(elements: u32) -> Self {
        Self { elements, element: 8, ..Self::ONE_QP }
    }

    /// For reads of short elements per second.
    pub const fn lists(elements: u32) -> Self {
        Self { elements, element: 8, qps: 16, ..SHORT }
    }

    /// Bytes of a message.
    pub fn message(self) -> u64 {
        self.element * u64::from(self.elements)
    }

    /// The workload, from one host to the other, at most at this path MTU.
    pub fn workload(self, mtu: Mtu, from: Host) -> Workload {
        let memory = Memory { device: Device::Dram(0), mrs: 1, mr_size: Bytes(self.message().max(4096)) };
        let fits = Mtu::ALL.into_iter().filter(|other| other.bytes() <= self.mtu.min(mtu.bytes()));
        Workload::new(vec![Flow {
            qps: self.qps,
            mtu: fits.max().unwrap_or(mtu),
            wq_depth: Depths { send: self.depth, recv: 1 },
            batch: Batch { send: self.batch, recv: 1 },
            pattern: vec![Request { op: Opcode::Write, sge: vec![Bytes(self.element); self.elements as usize] }],
            memory: MemoryPair { from: memory, to: memory },
            ..Flow::plain(from, from.peer())
        }])
    }
}

/// What one QP takes, from the messages per second of [`Simple::ONE_QP`], of [`Simple::one_qp_lists`] with so many
/// elements, if the device has lists, and of [`Simple::ONE_QP_LONG`]; none if a round trip of so many seconds is so
/// long that even its queue is what limits it.
pub fn qp_times(of_one: f64, of_lists: Option<(f64, u32)>, of_long: f64, base_rtt: f64) -> Option<QpTimes> {
    let message_seconds = 1.0 / of_one;
    if message_seconds < QUEUE_LIMITS * base_rtt / f64::from(Simple::ONE_QP.depth) {
        return None;
    }
    // Of what follows the first.
    let each =
        |messages_per_sec: f64, count: f64| ((1.0 / messages_per_sec - message_seconds) / (count - 1.0)).max(0.0);
    let packets = (Simple::ONE_QP_LONG.message() / Simple::ONE_QP_LONG.mtu) as f64;
    Some(QpTimes {
        message_seconds,
        element_seconds: of_lists.map_or(0.0, |(rate, elements)| each(rate, f64::from(elements))),
        packet_seconds: each(of_long, packets),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_traffic_is_valid_at_every_mtu() {
        let kinds =
            [Simple::LARGE, Simple::SMALL, Simple::COUPLE, Simple::ONE_QP, Simple::ONE_QP_LONG, Simple::lists(16)];
        for simple in kinds {
            for mtu in Mtu::ALL {
                let workload = simple.workload(mtu, Host::B);
                kelpie_spaces::check(&workload).expect("valid");
                assert!(workload.flows[0].mtu <= mtu);
            }
        }
    }

    #[test]
    fn times_of_a_qp_are_those_of_what_follows_the_first() {
        // 50 ns for a message, 4 ns for each further element, 20 ns for each further packet.
        let QpTimes { message_seconds, element_seconds, packet_seconds } =
            qp_times(20e6, Some((1.0 / 110e-9, 16)), 1.0 / (50e-9 + 255.0 * 20e-9), 2e-6).expect("no long way");
        let is = |seconds: f64, nanos: f64| (seconds * 1e9 - nanos).abs() < 1e-6;
        assert!(is(message_seconds, 50.0) && is(element_seconds, 4.0) && is(packet_seconds, 20.0));
        let bare = qp_times(20e6, None, 40e6, 2e-6).expect("no long way");
        assert_eq!(qp_times(20e6, None, 40e6, 40e-6), None, "1,024 messages in 40 us are 26 million a second");
        assert_eq!(
            (bare.element_seconds, bare.packet_seconds),
            (0.0, 0.0),
            "a longer message that is no slower costs nothing"
        );
    }
}
