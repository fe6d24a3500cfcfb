//! HPCC: switches write their load into packets, and a sender takes what the most loaded one leaves.
//!
//! Source: Li et al., HPCC: High Precision Congestion Control, SIGCOMM 2019, section 3.3 and algorithm 1.

use super::control::{CongestionControl, Echo, Hop, Line};

/// Most switches on a way that are heard.
pub const MOST_HOPS: usize = 8;

/// Its parameters. Rates in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hpcc {
    /// Share of a link that is to be used.
    pub target: f64,
    /// How much a rate rises in a round trip.
    pub additive: f64,
    /// Rises in a row before a rate may be multiplied.
    pub most_rises: u32,
    /// Least rate.
    pub least: f64,
    /// Whether every acknowledgement changes the rate, from what the round trip began with.
    pub reacts_fast: bool,
}

impl Hpcc {
    /// The paper's parameters, section 5.1: 95 %, five rises, and a window that grows by 80 bytes, in a round trip of
    /// 13 µs at 100 Gbit/s; by a rate that grows with the line's. The paper states no least rate, here a thousandth.
    pub fn of_paper(bps: f64) -> Self {
        let additive = 80.0 * 8.0 / 13e-6 * bps / 100e9;
        Self { target: 0.95, additive, most_rises: 5, least: bps / 1e3, reacts_fast: true }
    }

    /// What HPCC's simulator has for a line rate. Source: its `run.py`, `hp`.
    pub fn of_hpcc_simulator(bps: f64) -> Self {
        Self { target: 0.95, additive: 10e6 * bps / 25e9, most_rises: 0, least: 1000e6, reacts_fast: true }
    }
}

/// What it keeps of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Packets sent when the round trip began; 0 in the first.
    round: u32,
    /// Rate with which it began.
    rate: f64,
    load: f64,
    rises: u32,
    hops: [Hop; MOST_HOPS],
}

impl CongestionControl for Hpcc {
    type Flow = Flow;

    const READS_HOPS: bool = true;
    const MOVES_NEXT: bool = true;

    fn start(&self, line: &Line) -> Flow {
        Flow { round: 0, rate: line.bps, load: 1.0, rises: 0, hops: [Hop::default(); MOST_HOPS] }
    }

    fn rerouted(&self, flow: &mut Flow) {
        flow.round = 0;
    }

    fn acknowledged(&self, flow: &mut Flow, rate: &mut f64, line: &Line, echo: &Echo<'_>) {
        if echo.hops.is_empty() {
            // No switch writes on this way, as inside of a host: nothing holds the QP back.
            *rate = line.bps;
            return;
        }
        let is_new_round = echo.acked > flow.round;
        if !is_new_round && !self.reacts_fast {
            return;
        }
        if flow.round == 0 {
            flow.hops[..echo.hops.len()].copy_from_slice(echo.hops);
            flow.round = echo.sent;
            return;
        }
        measure(flow, line, echo.hops);
        let ratio = flow.load / self.target;
        let (new, rises) = if ratio >= 1.0 || flow.rises >= self.most_rises {
            (flow.rate / ratio + self.additive, 0)
        } else {
            (flow.rate + self.additive, flow.rises + 1)
        };
        *rate = new.max(self.least).min(line.bps);
        if is_new_round {
            (flow.rate, flow.rises, flow.round) = (*rate, rises, echo.sent);
        }
    }
}

/// Takes in the load of the most loaded link.
fn measure(flow: &mut Flow, line: &Line, hops: &[Hop]) {
    let (mut most, mut span) = (0.0, 0.0);
    let window = if line.window > 0.0 { line.window } else { line.bps * line.rtt_ns / 8e9 };
    for (before, hop) in flow.hops.iter_mut().zip(hops) {
        // What comes late or by another port, after a failure, says nothing about how this one was used.
        if hop.at > before.at && hop.sent >= before.sent && hop.bps.to_bits() == before.bps.to_bits() {
            let passed = (hop.at - before.at) as f64;
            let bps = f64::from(hop.bps);
            let sent = (hop.sent - before.sent) as f64 * 8e9 / passed / bps;
            let queued = f64::from(hop.queued.min(before.queued)) * line.bps / bps / window;
            if sent + queued > most {
                (most, span) = (sent + queued, passed);
            }
        }
        *before = *hop;
    }
    let weight = span.min(line.rtt_ns) / line.rtt_ns;
    flow.load += weight * (most - flow.load);
}
