//! The measurements that are worth taking: traffic that isolates each parameter of a base, over a range around it.

use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Mtu, Opcode, QpType};
use serde::Serialize;

use crate::traffic::{Path, Traffic};

/// A row of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// The traffic.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Parameters that it is for; none if it checks the fit.
    pub determines: Vec<&'static str>,
}

const LINE: &str = "port.line_rate_gbps";
const PACKETS: &str = "port.max_mpps";
const DELAY: &str = "port.link_delay_ns";
const PCIE: &str = "pcie.gbps";
const LATENCY: &str = "pcie.link_latency_ns";
const PACKET: &str = "processing.packet_ns";
const WQE: &str = "processing.wqe_ns";
const RECEIVE: &str = "processing.receive_packet_ns";
const RESPONSE: &str = "processing.response_kib_ns";
const PIPELINE: &str = "processing.pipeline_packet_ns";
const DOORBELL: &str = "posting.doorbell_ns";
const POSTED: &str = "posting.wqe_ns";
const READS: &str = "processing.max_reads";
const MISSES: &str = "fetch.send_misses";
const CONTEXTS: &str = "caches.contexts.kib";
const TRANSLATIONS: &str = "caches.translations.kib";
const XOFF: &str = "receive.xoff_kib";

/// A line of a cache. Units: bytes. Source: `kelpie_nic::cache`.
const CACHE_LINE: f64 = 64.0;
/// QPs among which the MRs of the rows about translations are divided. Source: our choice, so that contexts fit.
const MR_QPS: u32 = 16;
/// QPs and depth of the rows about PFC: fewer READs than any NIC allows, on several units. Source: our choice.
const PAUSE_QPS: u32 = 4;
const PAUSE_DEPTH: u32 = 4;

/// Shares of what a cache of the base holds at which it is measured. Source: our choice, so that each cache from half
/// to twice that of the base has rows on both sides of its knee, two of them within a third.
const AROUND: [f64; 9] = [0.4, 0.52, 0.68, 0.84, 1.05, 1.3, 1.65, 2.1, 2.9];
/// The same for a threshold, which shows as a step. Source: our choice, a step of an eighth.
const STEPS: [f64; 11] = [0.58, 0.65, 0.73, 0.82, 0.92, 1.04, 1.17, 1.31, 1.48, 1.66, 1.87];

fn mtu(bytes: u64) -> Mtu {
    Mtu::try_from(bytes).expect("a constant that is a path MTU")
}

struct Plan(Vec<Planned>);

impl Plan {
    fn add(&mut self, determines: &[&'static str], traffic: Traffic) {
        self.0.push(Planned { traffic, determines: determines.to_vec() });
    }

    fn rates(&mut self) {
        use Opcode::{Read, Write};
        let small = |qps, batch| Traffic { batch, ..Traffic::new(Write, 8, qps) };
        self.add(&[LINE], Traffic::new(Write, 64 << 10, 8));
        self.add(&[LINE], Traffic { mtu: mtu(512), ..Traffic::new(Write, 64 << 10, 16) });
        self.add(&[LINE], Traffic { mtu: mtu(256), ..Traffic::new(Write, 64 << 10, 16) });
        for (size, qps) in [(64 << 10, 8), (256 << 10, 4)] {
            self.add(&[PCIE], Traffic { path: Path::Loopback, ..Traffic::new(Write, size, qps) });
        }
        for qps in [16, 24] {
            self.add(&[PACKETS], small(qps, 16));
        }
        for size in [8, 300] {
            let traffic = Traffic { path: Path::Loopback, mtu: mtu(256), batch: 16, ..Traffic::new(Write, size, 32) };
            self.add(&[PIPELINE], traffic);
        }
        for bytes in [512, 1024] {
            self.add(&[RESPONSE], Traffic { mtu: mtu(bytes), ..Traffic::new(Read, 64 << 10, 8) });
        }
        for (qps, batch) in [(16, 1), (16, 2), (16, 4), (16, 8), (16, 16), (12, 1), (12, 3), (12, 6)] {
            self.add(&[DOORBELL, POSTED], Traffic { cores: Some(1), depth: 120 / batch * batch, ..small(qps, batch) });
        }
    }

    fn latencies(&mut self) {
        for path in [Path::One, Path::Loopback] {
            let determines: &[&str] = if path == Path::One { &[DELAY, LATENCY] } else { &[LATENCY] };
            for operation in [Opcode::Write, Opcode::Send, Opcode::Read] {
                for size in [8, 2048] {
                    self.add(determines, Traffic { path, depth: 1, ..Traffic::new(operation, size, 1) });
                }
            }
        }
    }

    fn one_qp(&mut self) {
        use Opcode::{Read, Send, Write};
        for operation in [Write, Send] {
            for packets in [1, 2, 4] {
                let traffic = Traffic { mtu: mtu(256), batch: 16, ..Traffic::new(operation, 256 * packets, 1) };
                self.add(&[PACKET, WQE], traffic);
            }
        }
        for packets in [8, 16, 32] {
            let traffic = Traffic { mtu: mtu(256), batch: 4, ..Traffic::new(Send, 256 * packets, 1) };
            self.add(&[RECEIVE], traffic);
        }
        // Several, because READs of few QPs fall into a step with each other that depends on how they began.
        for (size, qps) in [(8, 1), (64, 2), (8, 3), (128, 4), (64, 6)] {
            self.add(&[READS], Traffic { batch: 16, ..Traffic::new(Read, size, qps) });
        }
    }

    fn caches(&mut self, base: &SimSubsystem) {
        let number = |path: &str| base.number(path).expect("every model has it");
        let lines = |path: &str| number(path) * 1024.0 / CACHE_LINE;
        let contexts = lines(CONTEXTS) / (number("caches.context_tables") * number("caches.context_lines"));
        for share in AROUND {
            let traffic = Traffic { depth: 16, batch: 4, ..Traffic::new(Opcode::Write, 8, whole(share * contexts)) };
            self.add(&[CONTEXTS, MISSES], traffic);
        }
        // An entry and a line of translations for each MR.
        let mrs = lines(TRANSLATIONS) / 2.0 / f64::from(MR_QPS);
        for share in AROUND {
            let traffic =
                Traffic { mrs_per_qp: whole(share * mrs), batch: 4, ..Traffic::new(Opcode::Write, 8, MR_QPS) };
            self.add(&[TRANSLATIONS], traffic);
        }
    }

    fn pauses(&mut self, base: &SimSubsystem) {
        let xoff = base.number(XOFF).expect("every model has it") * 1024.0;
        for step in STEPS {
            let size = (step * xoff / f64::from(PAUSE_QPS * PAUSE_DEPTH) / 256.0).round() as u64 * 256;
            let traffic =
                Traffic { mtu: mtu(256), depth: PAUSE_DEPTH, ..Traffic::new(Opcode::Read, size.max(256), PAUSE_QPS) };
            self.add(&[XOFF], traffic);
        }
    }

    fn checks(&mut self) {
        use Opcode::{Read, Send, Write};
        self.add(&[], Traffic::new(Read, 64 << 10, 8));
        self.add(&[], Traffic::new(Write, 4096, 16));
        self.add(&[], Traffic { path: Path::Both, ..Traffic::new(Write, 64 << 10, 8) });
        self.add(&[], Traffic { transport: QpType::Uc, ..Traffic::new(Send, 1024, 2) });
        self.add(&[], Traffic { mtu: mtu(1024), ..Traffic::new(Read, 8192, 4) });
        self.add(&[], Traffic { batch: 8, ..Traffic::new(Write, 256, 3) });
        self.add(&[], Traffic { depth: 8, ..Traffic::new(Read, 2048, 2) });
        self.add(&[], Traffic { depth: 4, ..Traffic::new(Send, 4096, 1) });
    }
}

fn whole(number: f64) -> u32 {
    (number.round() as u32).max(1)
}

/// The measurements worth taking to calibrate over a base.
pub fn plan(base: &SimSubsystem) -> Vec<Planned> {
    let mut plan = Plan(Vec::new());
    plan.rates();
    plan.latencies();
    plan.one_qp();
    plan.caches(base);
    plan.pauses(base);
    plan.checks();
    plan.0
}
