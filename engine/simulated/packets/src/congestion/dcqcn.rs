//! DCQCN: marks lower a sender's rate, time and bytes raise it again.
//!
//! Source: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3 and figure 7.
//! Without a byte counter and with a stage of recovery less it is what the simulators of HPCC and `SimAI` have.
//!
//! A QP that has nothing to send has no events: what its timers would have done is done when it sends again.

use super::control::{CongestionControl, Line, NEVER};
use crate::marks::{EcnCurve, MarkEcho};

/// Its parameters. Rates in bit/s, times in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dcqcn {
    /// Weight of new marks in alpha.
    pub gain: f64,
    /// How often alpha moves.
    pub alpha_interval: u64,
    /// A sender lowers its rate at most once in this time; if 0, at each notification, and then alpha rises with it and
    /// falls when none came for its interval.
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

impl Dcqcn {
    /// How often receivers notify. Source: the paper, section 5.2.
    pub const CNP_OF_PAPER: MarkEcho = MarkEcho::Cnp(50_000);
    /// How often receivers notify. Source: NVIDIA, DCQCN CC Parameters, `min_time_between_cnps`.
    pub const CNP_OF_CONNECTX: MarkEcho = MarkEcho::Cnp(4_000);

    /// The paper's parameters, section 5.2, which are for 40 Gbit/s; rates grow with the line's. The paper states
    /// neither the hyper increase, here ten times the additive one as in QCN, nor the least rate, here a thousandth.
    pub fn of_paper(bps: f64) -> Self {
        Self {
            gain: 1.0 / 256.0,
            alpha_interval: 55_000,
            decrease_interval: 0,
            increase_interval: 55_000,
            byte_counter: Some(10_000_000),
            recoveries: 5,
            additive: 40e6 * bps / 40e9,
            hyper: 400e6 * bps / 40e9,
            least: bps / 1e3,
            clamps_target: true,
        }
    }

    /// The paper's marks, section 5.2: 5 KB, 200 KB and 1 % at 40 Gbit/s.
    pub fn curve_of_paper(bps: f64) -> EcnCurve {
        EcnCurve { kmin: 5e3 * bps / 40e9, kmax: 200e3 * bps / 40e9, pmax: 0.01 }
    }

    /// What NICs do unless told otherwise. Source: NVIDIA, DCQCN CC Parameters of ConnectX-4 and later.
    pub fn of_connectx() -> Self {
        Self {
            gain: 5.0 / 1024.0,
            alpha_interval: 1000,
            decrease_interval: 4000,
            increase_interval: 300_000,
            byte_counter: Some(32_767),
            recoveries: 1,
            additive: 5e6,
            hyper: 50e6,
            least: 1e6,
            clamps_target: false,
        }
    }

    /// What HPCC's simulator has for a line rate. Source: its `run.py`, `dcqcn`.
    pub fn of_hpcc_simulator(bps: f64) -> Self {
        Self {
            gain: 1.0 / 256.0,
            byte_counter: None,
            additive: 5e6 * bps / 25e9,
            hyper: 50e6 * bps / 25e9,
            least: 1000e6,
            ..Self::of_connectx()
        }
    }

    /// The marks of HPCC's simulator for a line rate. Source: its `run.py`.
    pub fn curve_of_hpcc_simulator(bps: f64) -> EcnCurve {
        EcnCurve { kmin: 100e3 * bps / 25e9, kmax: 400e3 * bps / 25e9, pmax: 0.2 }
    }

    /// What `SimAI` has, whatever the line rate. Source: its `SimAI.conf`.
    pub fn of_simai() -> Self {
        Self { increase_interval: 900_000, additive: 50e6, hyper: 100e6, least: 100e6, ..Self::of_hpcc_simulator(25e9) }
    }
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
    /// When the first notification came, or the last one if each lowers the rate.
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
        if self.decrease_interval == 0 {
            return self.decrease_at_once(flow, rate, now);
        }
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

    fn resumes(&self, flow: &mut Flow, rate: &mut f64, line: &Line, now: u64) {
        loop {
            let due = self.due(flow);
            if due > now {
                return;
            }
            if flow.decrease_at > now && *rate >= line.bps * (1.0 - 1e-9) {
                *rate = line.bps;
                let missed = (now - flow.increase_at) / self.increase_interval + 1;
                flow.by_time = flow.by_time.saturating_add(u32::try_from(missed).unwrap_or(u32::MAX));
                flow.increase_at += missed * self.increase_interval;
                return;
            }
            self.timer(flow, rate, line, due);
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
    /// As the paper has it, equations 1 and 2.
    fn decrease_at_once(&self, flow: &mut Flow, rate: &mut f64, now: u64) {
        if flow.first != NEVER {
            let moves = i32::try_from((now - flow.first) / self.alpha_interval).unwrap_or(i32::MAX);
            flow.alpha *= (1.0 - self.gain).powi(moves);
        }
        (flow.target, flow.first) = (*rate, now);
        *rate = (*rate * (1.0 - flow.alpha / 2.0)).max(self.least);
        flow.alpha = (1.0 - self.gain) * flow.alpha + self.gain;
        (flow.by_time, flow.by_bytes, flow.bytes) = (0, 0, 0);
        flow.increase_at = now + self.increase_interval;
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { bps: 40e9, rtt_ns: 5000.0, window: 0.0, hops: 2, packet: 1048.0 };

    #[test]
    fn the_first_notification_halves_the_rate_and_five_increases_restore_it() {
        let form = Dcqcn::of_paper(40e9);
        let (mut flow, mut rate) = (form.start(&LINE), 40e9);
        form.notified(&mut flow, &mut rate, 1000);
        assert!((rate - 20e9).abs() < 1.0);
        for increase in 1..=5 {
            let due = form.due(&flow);
            assert_eq!(due, 1000 + increase * 55_000);
            form.timer(&mut flow, &mut rate, &LINE, due);
            assert!((rate - (40e9 - 20e9 / f64::from(1 << increase))).abs() < 1.0, "{rate}");
        }
        // Alpha fell with each interval: 255/256 of it each.
        form.notified(&mut flow, &mut rate, 1000 + 10 * 55_000);
        let (before, alpha) = (40e9 - 20e9 / 32.0, (255.0_f64 / 256.0).powi(10));
        assert!((rate - before * (1.0 - alpha / 2.0)).abs() < 1.0, "{rate}");
    }

    #[test]
    fn bytes_and_time_together_make_the_hyper_increase() {
        let form = Dcqcn::of_paper(40e9);
        let (mut flow, mut rate) = (form.start(&LINE), 8e9);
        form.notified(&mut flow, &mut rate, 0);
        for _ in 0..6 {
            form.sent(&mut flow, &mut rate, &LINE, 10_000_000);
        }
        // Bytes alone: additive after five.
        assert!((flow.target - (8e9 + 40e6)).abs() < 1.0, "{}", flow.target);
        for (increase, step) in (0..8).zip([40e6; 6].into_iter().chain([400e6; 2])) {
            let (due, before) = (form.due(&flow), flow.target);
            form.timer(&mut flow, &mut rate, &LINE, due);
            assert!((flow.target - before - step).abs() < 1.0, "{increase}: {before} {}", flow.target);
        }
        let before = flow.target;
        form.sent(&mut flow, &mut rate, &LINE, 10_000_000);
        assert!((flow.target - before - 400e6).abs() < 1.0, "{before} {}", flow.target);
    }

    #[test]
    fn what_timers_missed_is_as_if_they_had_run() {
        for form in [Dcqcn::of_paper(40e9), Dcqcn::of_connectx(), Dcqcn::of_hpcc_simulator(40e9), Dcqcn::of_simai()] {
            for idle in [0, 1_000, 56_000, 700_000, 50_000_000, 40_000_000_000] {
                let (mut flow, mut rate) = (form.start(&LINE), 40e9);
                for notification in 0..4 {
                    form.notified(&mut flow, &mut rate, 7_000 * notification);
                    while form.due(&flow) <= 7_000 * (notification + 1) {
                        let due = form.due(&flow);
                        form.timer(&mut flow, &mut rate, &LINE, due);
                    }
                }
                let (mut lazy, mut lazy_rate, now) = (flow, rate, 28_000 + idle);
                form.resumes(&mut lazy, &mut lazy_rate, &LINE, now);
                while form.due(&flow) <= now {
                    let due = form.due(&flow);
                    form.timer(&mut flow, &mut rate, &LINE, due);
                }
                assert!((lazy_rate - rate).abs() < 1e3, "{idle}: {lazy_rate} {rate}");
                assert_eq!(form.due(&lazy), form.due(&flow), "{idle}");
            }
        }
    }
}
