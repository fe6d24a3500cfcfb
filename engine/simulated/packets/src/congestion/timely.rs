//! TIMELY: a sender follows the gradient of its round trips.
//!
//! A rate changes once in a round trip, as in HPCC's simulator. Once for each completion, as the paper's algorithm
//! says, makes fast flows rise faster than slow ones, and shares drift apart.
//!
//! Source: Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015, algorithm 1.

use super::control::{CongestionControl, Echo, Line};

/// Its parameters. Rates in bit/s, times in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timely {
    /// Weight of a new difference.
    pub alpha: f64,
    /// Share of a decrease.
    pub beta: f64,
    /// Below it rates rise.
    pub low: f64,
    /// Above it rates fall.
    pub high: f64,
    /// What a difference is measured by.
    pub least_rtt: f64,
    /// How much a rate rises in a round trip.
    pub additive: f64,
    /// And after five rises in a row.
    pub hyper: f64,
    /// Least rate.
    pub least: f64,
}

impl Timely {
    /// The parameters of the paper's evaluation, whose steps are for 10 Gbit/s; they grow with the line rate, as in
    /// HPCC's simulator. The paper states no least rate, here a thousandth.
    pub fn of_paper(bps: f64) -> Self {
        Self {
            alpha: 0.875,
            beta: 0.8,
            low: 50e3,
            high: 500e3,
            least_rtt: 20e3,
            additive: 10e6 * bps / 10e9,
            hyper: 50e6 * bps / 10e9,
            least: bps / 1e3,
        }
    }
}

/// Rises in a row before they are larger. Source: section 4.3.
const RISES: u32 = 5;

/// What it keeps of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Packets sent when the round trip began; 0 in the first.
    round: u32,
    rtt: f64,
    difference: f64,
    rises: u32,
}

impl CongestionControl for Timely {
    type Flow = Flow;

    fn start(&self, _line: &Line) -> Flow {
        Flow { round: 0, rtt: 0.0, difference: 0.0, rises: 0 }
    }

    fn acknowledged(&self, flow: &mut Flow, rate: &mut f64, line: &Line, echo: &Echo<'_>) {
        if echo.acked <= flow.round {
            return;
        }
        let rtt = echo.rtt_ns as f64;
        if flow.round != 0 {
            flow.difference += self.alpha * (rtt - flow.rtt - flow.difference);
            let gradient = flow.difference / self.least_rtt;
            if rtt < self.low || (rtt <= self.high && gradient <= 0.0) {
                let step = if flow.rises < RISES { self.additive } else { self.hyper };
                *rate = (*rate + step).min(line.bps);
                flow.rises += 1;
            } else {
                let share = if rtt > self.high { 1.0 - self.high / rtt } else { gradient };
                *rate = (*rate * (1.0 - self.beta * share).max(0.0)).max(self.least);
                flow.rises = 0;
            }
        }
        (flow.round, flow.rtt) = (echo.sent, rtt);
    }
}
