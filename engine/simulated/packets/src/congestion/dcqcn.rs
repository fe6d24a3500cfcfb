//! DCQCN: marks lower a sender's rate, time and bytes raise it again.
//!
//! Source: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3 and figure 7. Without a
//! byte counter and with a stage of recovery less it is what the simulators of HPCC and `SimAI` have.

use super::{CongestionControl, Line, NEVER};

/// Its parameters. Rates in bit/s, times in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dcqcn {
    /// Weight of new marks in alpha.
    pub gain: f64,
    /// How often alpha moves.
    pub alpha_interval: u64,
    /// A sender lowers its rate at most once in this time.
    pub decrease_interval: u64,
    /// Time between increases.
    pub increase_interval: u64,
    /// Bytes between increases, beside those by time.
    pub byte_counter: Option<u64>,
    /// Increases half way to the rate before, until the target itself rises.
    pub recoveries: u32,
    /// How much the target rises then.
    pub additive: f64,
    /// And later.
    pub hyper: f64,
    /// Least rate.
    pub least: f64,
    /// Whether the target falls to the rate at each decrease, even right after another one.
    pub clamps_target: bool,
}

/// What it keeps of a QP.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    alpha: f64,
    target: f64,
    /// Increases by time and by bytes since the last decrease.
    by_time: u32,
    by_bytes: u32,
    /// Bytes since the last increase by bytes.
    bytes: u64,
    /// When the first notification came.
    first: u64,
    /// Moves of alpha until now, and whether a notification came since the last one.
    moves: u64,
    is_marked: bool,
    decrease_at: u64,
    increase_at: u64,
}

impl CongestionControl for Dcqcn {
    type Flow = Flow;

    fn start(&self, line: &Line) -> Flow {
        Flow {
            alpha: 1.0,
            target: line.bps,
            by_time: 0,
            by_bytes: 0,
            bytes: 0,
            first: NEVER,
            moves: 0,
            is_marked: false,
            decrease_at: NEVER,
            increase_at: NEVER,
        }
    }

    fn notified(&self, flow: &mut Flow, rate: &mut f64, now: u64) {
        if flow.first == NEVER {
            (flow.first, flow.alpha, flow.target) = (now, 1.0, *rate);
        } else {
            self.move_alpha(flow, now);
            flow.is_marked = true;
        }
        if flow.decrease_at == NEVER {
            // Decreases happen at whole intervals from the first notification, just after alpha has moved.
            let intervals = (now - flow.first).saturating_sub(1) / self.decrease_interval + 1;
            flow.decrease_at = flow.first + 1 + intervals * self.decrease_interval;
        }
    }

    fn sent(&self, flow: &mut Flow, rate: &mut f64, line: &Line, bytes: u32) {
        let Some(counter) = self.byte_counter.filter(|_| flow.increase_at != NEVER) else { return };
        flow.bytes += u64::from(bytes);
        if flow.bytes >= counter {
            flow.bytes = 0;
            self.increase(flow, rate, line);
            flow.by_bytes += 1;
        }
    }

    fn due(&self, flow: &Flow) -> u64 {
        flow.decrease_at.min(flow.increase_at)
    }

    fn timer(&self, flow: &mut Flow, rate: &mut f64, line: &Line, now: u64) {
        if flow.decrease_at <= now {
            self.move_alpha(flow, now);
            if self.clamps_target || flow.by_time + flow.by_bytes > 0 {
                flow.target = *rate;
            }
            *rate = (*rate * (1.0 - flow.alpha / 2.0)).max(self.least);
            (flow.by_time, flow.by_bytes, flow.bytes) = (0, 0, 0);
            (flow.decrease_at, flow.increase_at) = (NEVER, now + self.increase_interval);
        } else if flow.increase_at <= now {
            self.increase(flow, rate, line);
            flow.by_time += 1;
            flow.increase_at = now + self.increase_interval;
        }
    }
}

impl Dcqcn {
    /// Moves alpha as often as it should have moved until now.
    fn move_alpha(&self, flow: &mut Flow, now: u64) {
        let due = (now - flow.first) / self.alpha_interval;
        let moves = due - flow.moves;
        if moves > 0 {
            flow.moves = due;
            let first = if flow.is_marked { self.gain } else { 0.0 };
            flow.is_marked = false;
            let rest = i32::try_from(moves - 1).unwrap_or(i32::MAX);
            flow.alpha = ((1.0 - self.gain) * flow.alpha + first) * (1.0 - self.gain).powi(rest);
        }
    }

    fn increase(&self, flow: &mut Flow, rate: &mut f64, line: &Line) {
        let (least, most) = match self.byte_counter {
            Some(_) => (flow.by_time.min(flow.by_bytes), flow.by_time.max(flow.by_bytes)),
            None => (flow.by_time, flow.by_time),
        };
        if most >= self.recoveries {
            let step = if least > self.recoveries { self.hyper } else { self.additive };
            flow.target = (flow.target + step).min(line.bps);
        }
        *rate = f64::midpoint(*rate, flow.target);
    }
}
