//! The measurements that are worth taking: traffic that isolates each parameter of a base, over a range around it.

use kelpie_sim::SimSubsystem;
use kelpie_sim::parameters::Parameter::{
    self, Contexts, Doorbell, LineRate, LinkDelay, LinkLatency, MaxMpps, MaxReads, Packet, Pcie, PipelinePacket,
    PostedWqe, ReceivePacket, ResponseKib, SendMisses, Translations, Wqe, Xoff,
};
use kelpie_spaces::{Mtu, Opcode, QpType};
use serde::Serialize;

use crate::traffic::{Traffic, TrafficPattern};

/// A row of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Planned {
    /// The traffic.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Parameters that it is for; none if it checks the fit.
    pub determines: Vec<Parameter>,
}

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

struct MeasurementPlan(Vec<Planned>);

impl MeasurementPlan {
    fn add(&mut self, determines: &[Parameter], traffic: Traffic) {
        self.0.push(Planned { traffic, determines: determines.to_vec() });
    }

    fn rates(&mut self) {
        use Opcode::{Read, Write};
        let small = |qps, batch| Traffic { batch, ..Traffic::new(Write, 8, qps) };
        self.add(&[LineRate], Traffic::new(Write, 64 << 10, 8));
        self.add(&[LineRate], Traffic { mtu: mtu(512), ..Traffic::new(Write, 64 << 10, 16) });
        self.add(&[LineRate], Traffic { mtu: mtu(256), ..Traffic::new(Write, 64 << 10, 16) });
        for (size, qps) in [(64 << 10, 8), (256 << 10, 4)] {
            self.add(&[Pcie], Traffic { path: TrafficPattern::Loopback, ..Traffic::new(Write, size, qps) });
        }
        for qps in [16, 24] {
            self.add(&[MaxMpps], small(qps, 16));
        }
        for size in [8, 300] {
            let traffic =
                Traffic { path: TrafficPattern::Loopback, mtu: mtu(256), batch: 16, ..Traffic::new(Write, size, 32) };
            self.add(&[PipelinePacket], traffic);
        }
        for bytes in [512, 1024] {
            self.add(&[ResponseKib], Traffic { mtu: mtu(bytes), ..Traffic::new(Read, 64 << 10, 8) });
        }
        for (qps, batch) in [(16, 1), (16, 2), (16, 4), (16, 8), (16, 16), (12, 1), (12, 3), (12, 6)] {
            self.add(
                &[Doorbell, PostedWqe],
                Traffic { cores: Some(1), depth: 120 / batch * batch, ..small(qps, batch) },
            );
        }
    }

    fn latencies(&mut self) {
        for path in [TrafficPattern::One, TrafficPattern::Loopback] {
            let determines: &[Parameter] =
                if path == TrafficPattern::One { &[LinkDelay, LinkLatency] } else { &[LinkLatency] };
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
                self.add(&[Packet, Wqe], traffic);
            }
        }
        for packets in [8, 16, 32] {
            let traffic = Traffic { mtu: mtu(256), batch: 4, ..Traffic::new(Send, 256 * packets, 1) };
            self.add(&[ReceivePacket], traffic);
        }
        // Several, because READs of few QPs fall into a step with each other that depends on how they began.
        for (size, qps) in [(8, 1), (64, 2), (8, 3), (128, 4), (64, 6)] {
            self.add(&[MaxReads], Traffic { batch: 16, ..Traffic::new(Read, size, qps) });
        }
    }

    fn caches(&mut self, base: &SimSubsystem) {
        let number = |parameter: Parameter| base.number(parameter.path()).expect("every model has it");
        let lines = |parameter| number(parameter) * 1024.0 / CACHE_LINE;
        let contexts = lines(Contexts) / (number(Parameter::ContextTables) * number(Parameter::ContextLines));
        for share in AROUND {
            let traffic = Traffic { depth: 16, batch: 4, ..Traffic::new(Opcode::Write, 8, whole(share * contexts)) };
            self.add(&[Contexts, SendMisses], traffic);
        }
        // An entry and a line of translations for each MR.
        let mrs = lines(Translations) / 2.0 / f64::from(MR_QPS);
        for share in AROUND {
            let traffic =
                Traffic { mrs_per_qp: whole(share * mrs), batch: 4, ..Traffic::new(Opcode::Write, 8, MR_QPS) };
            self.add(&[Translations], traffic);
        }
    }

    fn pauses(&mut self, base: &SimSubsystem) {
        let xoff = base.number(Xoff.path()).expect("every model has it") * 1024.0;
        for step in STEPS {
            let size = (step * xoff / f64::from(PAUSE_QPS * PAUSE_DEPTH) / 256.0).round() as u64 * 256;
            let traffic =
                Traffic { mtu: mtu(256), depth: PAUSE_DEPTH, ..Traffic::new(Opcode::Read, size.max(256), PAUSE_QPS) };
            self.add(&[Xoff], traffic);
        }
    }

    fn checks(&mut self) {
        use Opcode::{Read, Send, Write};
        self.add(&[], Traffic::new(Read, 64 << 10, 8));
        self.add(&[], Traffic::new(Write, 4096, 16));
        self.add(&[], Traffic { path: TrafficPattern::Both, ..Traffic::new(Write, 64 << 10, 8) });
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
    let mut plan = MeasurementPlan(Vec::new());
    plan.rates();
    plan.latencies();
    plan.one_qp();
    plan.caches(base);
    plan.pauses(base);
    plan.checks();
    plan.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_that_is_fitted_has_rows_and_no_other_has() {
        for name in SimSubsystem::names() {
            let planned = plan(&SimSubsystem::load(name).expect("embedded"));
            let mut determined: Vec<Parameter> = planned.iter().flat_map(|row| row.determines.clone()).collect();
            determined.sort_unstable();
            determined.dedup();
            let mut fitted = Parameter::fitted();
            fitted.sort_unstable();
            assert_eq!(determined, fitted, "{name}: the plan has a row for each parameter that is fitted");
        }
    }
}
