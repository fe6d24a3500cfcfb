//! DCTCP by rate: a sender lowers its rate once in a round trip, by the share of packets that were marked.
//!
//! Source: Alizadeh et al., Data Center TCP, SIGCOMM 2010, sections 3.2 and 3.3; by rate as in HPCC's simulator.

use super::control::{CongestionControl, Echo, Line};
use crate::marks::EcnCurve;

/// Its parameters. Rates in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dctcp {
    /// Weight of new marks in alpha.
    pub gain: f64,
    /// How much the rate rises in a round trip.
    pub additive: f64,
    /// Least rate.
    pub least: f64,
}

impl Dctcp {
    /// The paper's gain, section 3.4, and a packet of 1 KB more in a round trip of 13 µs, as HPCC's simulator takes it.
    pub fn of_paper() -> Self {
        Self { gain: 1.0 / 16.0, additive: 615e6, least: 1000e6 }
    }

    /// The paper's marks, section 4.1: all above 65 packets of 1,500 bytes at 10 Gbit/s.
    pub fn curve_of_paper(bps: f64) -> EcnCurve {
        let threshold = 65.0 * 1500.0 * bps / 10e9;
        EcnCurve { kmin: threshold, kmax: threshold, pmax: 1.0 }
    }

    /// The marks of HPCC's simulator: all above 30 KB at 10 Gbit/s. Source: its `run.py`.
    pub fn curve_of_hpcc_simulator(bps: f64) -> EcnCurve {
        let threshold = 30e3 * bps / 10e9;
        EcnCurve { kmin: threshold, kmax: threshold, pmax: 1.0 }
    }
}

/// What it keeps of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    alpha: f64,
    /// Packets sent when the round trip began; 0 in the first.
    round: u32,
    marked: u32,
    packets: u32,
    /// After a decrease: packets sent until then.
    lowered_until: Option<u32>,
}

impl CongestionControl for Dctcp {
    type Flow = Flow;

    fn start(&self, _line: &Line) -> Flow {
        Flow { alpha: 1.0, round: 0, marked: 0, packets: 0, lowered_until: None }
    }

    fn acknowledged(&self, flow: &mut Flow, rate: &mut f64, line: &Line, echo: &Echo<'_>) {
        flow.marked += u32::from(echo.marked);
        let is_new_round = echo.acked > flow.round;
        if is_new_round {
            if flow.round == 0 {
                flow.packets = echo.sent + 1;
            } else {
                let share = (f64::from(flow.marked) / f64::from(flow.packets)).min(1.0);
                flow.alpha += self.gain * (share - flow.alpha);
                flow.marked = 0;
                flow.packets = echo.sent - echo.acked + 1;
            }
            flow.round = echo.sent;
        }
        flow.lowered_until = flow.lowered_until.filter(|until| echo.acked <= *until);
        if echo.marked && flow.lowered_until.is_none() {
            *rate = (*rate * (1.0 - flow.alpha / 2.0)).max(self.least);
            flow.lowered_until = Some(echo.sent);
        }
        if flow.lowered_until.is_none() && is_new_round {
            *rate = (*rate + self.additive).min(line.bps);
        }
    }
}
