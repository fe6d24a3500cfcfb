//! Swift: a sender keeps its round trips at a target, which is larger on longer ways and for smaller windows.
//!
//! Its window is the rate times the empty round trip, so that windows have to follow rates; below one packet the rate
//! alone holds it.
//!
//! Source: Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020,
//! section 3, algorithm 1 and equation 3.

use super::control::{CongestionControl, Echo, Line};

/// Its parameters. Times in ns, windows in packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swift {
    /// Target of a way without switches and of a large window.
    pub base: f64,
    /// How much more for each link.
    pub per_hop: f64,
    /// How much more at most for small windows.
    pub flow_range: f64,
    /// Windows between which that falls to nothing.
    pub flow_windows: [f64; 2],
    /// Packets that a window grows by in a round trip.
    pub additive: f64,
    /// Share of a decrease, by how far the target was missed.
    pub beta: f64,
    /// Largest decrease.
    pub most_decrease: f64,
    /// Least window.
    pub least: f64,
    /// Timeouts in a row after which the window is the least one.
    pub reset_after: u32,
}

impl Swift {
    /// The paper's algorithm. The paper has a target of 25 µs, an additive increase of a packet and, as TIMELY, a beta
    /// of 0.8; it states no numbers for scaling, which are those of htsim.
    pub fn of_paper() -> Self {
        Self {
            base: 25e3,
            per_hop: 25e3 / 6.55,
            flow_range: 5.0 * 25e3,
            flow_windows: [0.1, 100.0],
            additive: 1.0,
            beta: 0.8,
            most_decrease: 0.5,
            least: 0.001,
            reset_after: 5,
        }
    }

    /// The same with targets in proportion to an empty round trip. Units: ns.
    pub fn of_round_trip(rtt_ns: f64) -> Self {
        let paper = Self::of_paper();
        let scale = 2.0 * rtt_ns / paper.base;
        Self { base: paper.base * scale, per_hop: paper.per_hop * scale, flow_range: paper.flow_range * scale, ..paper }
    }

    /// Equation 3.
    fn target(&self, window: f64, line: &Line) -> f64 {
        let [least, most] = self.flow_windows.map(|window| 1.0 / window.sqrt());
        let alpha = self.flow_range / (least - most);
        let flow = (alpha * (1.0 / window.sqrt() - most)).clamp(0.0, self.flow_range);
        self.base + f64::from(line.hops) * self.per_hop + flow
    }

    fn lower(&self, flow: &mut Flow, rate: &mut f64, line: &Line, now: u64, share: f64) {
        if (now as f64) < flow.lowered as f64 + flow.rtt {
            return;
        }
        flow.window = (flow.window * (1.0 - share.min(self.most_decrease))).max(self.least);
        flow.lowered = now;
        set(flow, rate, line);
    }
}

/// The rate of a window: below one packet by the round trip that is, else by the empty one.
fn set(flow: &Flow, rate: &mut f64, line: &Line) {
    let rtt = if flow.window < 1.0 { flow.rtt.max(line.rtt_ns) } else { line.rtt_ns };
    *rate = (flow.window * line.packet * 8e9 / rtt).min(line.bps);
}

/// What it keeps of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Units: packets.
    window: f64,
    rtt: f64,
    /// When it was lowered. Units: ns.
    lowered: u64,
    acked: u32,
    timeouts: u32,
}

impl CongestionControl for Swift {
    type Flow = Flow;

    fn start(&self, line: &Line) -> Flow {
        let window = line.bps * line.rtt_ns / 8e9 / line.packet;
        Flow { window: window.max(self.least), rtt: line.rtt_ns, lowered: 0, acked: 0, timeouts: 0 }
    }

    fn acknowledged(&self, flow: &mut Flow, rate: &mut f64, line: &Line, echo: &Echo<'_>) {
        let packets = f64::from(echo.acked.saturating_sub(flow.acked));
        flow.acked = flow.acked.max(echo.acked);
        (flow.rtt, flow.timeouts) = (echo.rtt_ns as f64, 0);
        let target = self.target(flow.window, line);
        if flow.rtt < target {
            let most = (line.bps * line.rtt_ns / 8e9 / line.packet).max(self.least);
            flow.window = (flow.window + self.additive / flow.window.max(1.0) * packets).min(most);
            set(flow, rate, line);
        } else {
            self.lower(flow, rate, line, echo.now, self.beta * (flow.rtt - target) / flow.rtt);
        }
    }

    fn lost(&self, flow: &mut Flow, rate: &mut f64, line: &Line, now: u64, is_timeout: bool) {
        flow.timeouts += u32::from(is_timeout);
        if flow.timeouts >= self.reset_after {
            flow.window = self.least;
            set(flow, rate, line);
        } else {
            self.lower(flow, rate, line, now, self.most_decrease);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { bps: 100e9, rtt_ns: 8000.0, window: 100e3, hops: 2, packet: 1000.0 };

    fn ack(acked: u32, rtt_ns: u64, now: u64) -> Echo<'static> {
        Echo { now, acked, sent: acked + 100, marked: false, rtt_ns, load: 0, hops: &[] }
    }

    #[test]
    fn targets_grow_with_links_and_with_small_windows() {
        let form = Swift::of_paper();
        let at = |window: f64| form.target(window, &LINE);
        let way = 25e3 + 2.0 * 25e3 / 6.55;
        assert!((at(100.0) - way).abs() < 1e-6 && (at(500.0) - way).abs() < 1e-6);
        assert!((at(0.1) - way - 125e3).abs() < 1e-6 && (at(0.01) - at(0.1)).abs() < 1e-6);
        assert!(at(1.0) > at(10.0) && at(10.0) > way);
    }

    #[test]
    fn a_window_rises_by_a_packet_and_falls_once_in_a_round_trip() {
        let form = Swift::of_paper();
        let (mut flow, mut rate) = (form.start(&LINE), 100e9);
        flow.window = 50.0;
        (1..=50).for_each(|acked| form.acknowledged(&mut flow, &mut rate, &LINE, &ack(acked, 9000, 100_000)));
        assert!((flow.window - 51.0).abs() < 0.02, "{}", flow.window);
        assert!((rate - flow.window * 1000.0 * 8e9 / 8000.0).abs() < 1.0);
        // Far above the target: by half at most, once.
        for acked in 51..60 {
            form.acknowledged(&mut flow, &mut rate, &LINE, &ack(acked, 1_000_000, 200_000_000));
        }
        assert!((flow.window - 25.5).abs() < 0.02, "{}", flow.window);
        // Losses lower as much, and timeouts in a row leave the least window, which the rate holds.
        form.lost(&mut flow, &mut rate, &LINE, 300_000_000, false);
        assert!((flow.window - 12.75).abs() < 0.02, "{}", flow.window);
        (0..5).for_each(|_| form.lost(&mut flow, &mut rate, &LINE, 300_000_000, true));
        assert!((flow.window - 0.001).abs() < 1e-9 && rate < 0.001 * 1000.0 * 8e9 / 999_000.0);
    }
}
