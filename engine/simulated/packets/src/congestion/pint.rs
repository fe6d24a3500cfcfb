//! PINT: HPCC with the load of the most loaded switch in one byte.
//!
//! Each switch keeps a moving mean of how much its links are used, over the longest round trip, writes its logarithm
//! into packets that carry a smaller one, and rounds at random so that the mean is right.
//!
//! Source: Ben Basat et al., PINT: Probabilistic In-band Network Telemetry, SIGCOMM 2020, section 4.3 and its example
//! 3.

use super::control::{CongestionControl, Echo, Hop, Line, PortLoad};
use crate::hash::uniform;

/// Its parameters. Rates in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pint {
    /// Share of a link that is to be used.
    pub target: f64,
    /// How much a rate rises in a round trip.
    pub additive: f64,
    /// Rises in a row before a rate may be multiplied.
    pub most_rises: u32,
    /// Least rate.
    pub least: f64,
    /// A load is a power of it.
    pub base: f64,
    /// Share of acknowledgements whose byte is read.
    pub share: f64,
}

/// Loads are counted in this part of a full link, the least one that is told apart. Source: HPCC's simulator.
const PARTS: f64 = 512.0;

impl Pint {
    /// What HPCC's simulator has for a line rate. Source: its `run.py`, `hpccPint`; the base is that of its `pint.cc`.
    pub fn of_hpcc_simulator(bps: f64) -> Self {
        Self { target: 0.95, additive: 10e6 * bps / 25e9, most_rises: 0, least: 1000e6, base: 1.05, share: 1.0 }
    }

    /// The byte of a load, by a random number from 0 below 1.
    fn byte(&self, load: f64, random: f64) -> u8 {
        let parts = (load * PARTS).ceil().max(1.0);
        let lower = (parts.ln() / self.base.ln()).floor().max(0.0);
        let (low, high) = (self.base.powf(lower), self.base.powf(lower + 1.0));
        let rises = random < (parts - low) / (high - low);
        (lower as u64 + u64::from(rises)).min(u64::from(u8::MAX)) as u8
    }

    /// The load of a byte.
    fn load(&self, byte: u8) -> f64 {
        self.base.powi(i32::from(byte)) / PARTS
    }
}

/// What it keeps of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Packets sent when the round trip began; 0 in the first.
    round: u32,
    /// Rate with which it began.
    rate: f64,
    rises: u32,
}

impl CongestionControl for Pint {
    type Flow = Flow;

    const READS_LOAD: bool = true;
    const MOVES_NEXT: bool = true;

    fn start(&self, line: &Line) -> Flow {
        Flow { round: 0, rate: line.bps, rises: 0 }
    }

    fn rerouted(&self, flow: &mut Flow) {
        flow.round = 0;
    }

    fn write_load(&self, port: &mut PortLoad, hop: &Hop, rtt_ns: f64, random: f64) -> u8 {
        let passed = ((hop.at - port.at) as f64).min(rtt_ns);
        let capacity = f64::from(hop.bps) * rtt_ns / 8e9;
        let queued = f64::from(hop.queued) * passed / rtt_ns;
        let sent = (hop.sent - port.sent) as f64;
        port.load = port.load * (1.0 - passed / rtt_ns) + (queued + sent) / capacity;
        (port.at, port.sent) = (hop.at, hop.sent);
        self.byte(port.load, random)
    }

    fn acknowledged(&self, flow: &mut Flow, rate: &mut f64, line: &Line, echo: &Echo<'_>) {
        if flow.round == 0 {
            flow.round = echo.sent;
            return;
        }
        if self.share < 1.0 && uniform(0, echo.acked, echo.now) >= self.share {
            return;
        }
        let ratio = self.load(echo.load) / self.target;
        let (new, rises) = if ratio >= 1.0 || flow.rises >= self.most_rises {
            (flow.rate / ratio + self.additive, 0)
        } else {
            (flow.rate + self.additive, flow.rises + 1)
        };
        *rate = new.max(self.least).min(line.bps);
        if echo.acked > flow.round {
            (flow.rate, flow.rises, flow.round) = (*rate, rises, echo.sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_the_right_mean() {
        let form = Pint::of_hpcc_simulator(100e9);
        for load in [0.01, 0.3, 0.95, 1.0, 2.5, 60.0] {
            let bytes = (0..2000).map(|n| form.byte(load, f64::from(n) / 2000.0));
            let mean = bytes.map(|byte| form.load(byte)).sum::<f64>() / 2000.0;
            assert!((mean / load - 1.0).abs() < 0.01 || (mean - load).abs() < 1.0 / PARTS, "{load}: {mean}");
        }
        assert_eq!((form.byte(0.0, 0.5), form.byte(1e9, 0.5)), (0, 255));
    }

    #[test]
    fn a_port_knows_how_much_it_is_used() {
        let (form, mut port) = (Pint::of_hpcc_simulator(100e9), PortLoad::default());
        // 1,000 bytes each 160 ns are half of 100 Gbit/s.
        for packet in 1..200 {
            let hop = Hop { at: packet * 160, sent: packet * 1000, queued: 0, bps: 100e9 };
            form.write_load(&mut port, &hop, 8000.0, 0.5);
        }
        assert!((port.load - 0.5).abs() < 0.01, "{}", port.load);
    }
}
