//! What the usual benchmark sends is healthy and near line rate on every model: the anomalies are not everywhere.

use kelpie_engine::Subsystem as _;
use kelpie_monitor::{Verdict, assess};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Device, Opcode, QpType};

use super::cases::Point;
use super::{assert_none, load};

/// Share of the line rate that goodput must reach. Source: our choice, the 5 % that headers, ramps and
/// acknowledgements may take.
const NEAR_LINE_RATE: f64 = 0.95;

/// One flow as perftest sends it: one size, no batching.
pub fn perftest(qp_type: QpType, op: Opcode, mtu: u64, qps: u32, size: u64) -> Point {
    Point {
        qp_type,
        op,
        both_ways: false,
        loopback: false,
        one_way: true,
        qps,
        mtu,
        depth: 128,
        batch: 1,
        pattern: vec![vec![size]],
        mrs: 1,
        mr_size: size,
        memory: [Device::Dram(0); 2],
    }
}

/// Every model carries so many QPs with messages of so many bytes at line rate.
fn carried(shapes: &[(u32, u64)]) {
    let traffic = [
        (QpType::Rc, Opcode::Write),
        (QpType::Rc, Opcode::Read),
        (QpType::Rc, Opcode::Send),
        (QpType::Uc, Opcode::Write),
        (QpType::Uc, Opcode::Send),
    ];
    let mut complaints = Vec::new();
    for name in SimSubsystem::names() {
        let mut subsystem = load(name);
        for (qp_type, op) in traffic {
            for (qps, size) in shapes {
                let point = perftest(qp_type, op, 4096, *qps, *size);
                complaints.extend(complaint(&mut subsystem, &point).map(|text| format!("{name} {text}")));
            }
        }
    }
    assert_none(&complaints);
}

/// The least and the most traffic.
#[test]
fn every_model_carries_it_at_line_rate() {
    carried(&[(1, 64 << 10), (16, 4 << 20)]);
}

/// All of it, by `make test-long`.
mod long {
    #[test]
    #[ignore = "long: make test-long runs it"]
    fn every_model_carries_it_at_line_rate() {
        let sizes = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
        let shapes = [1, 2, 8, 16].into_iter().flat_map(|qps| sizes.map(|size| (qps, size)));
        super::carried(&shapes.collect::<Vec<_>>());
    }
}

/// What is wrong with one measurement, if anything.
fn complaint(subsystem: &mut SimSubsystem, point: &Point) -> Option<String> {
    let workload = point.workload();
    let measurement = subsystem.measure(&workload).expect("the hosts have memory");
    let assessment = assess(&workload, &subsystem.bounds(), &measurement);
    let goodput = measurement.mean().expect("there are samples").directions[0].goodput_bps;
    let share = goodput / subsystem.bounds().max_bps;
    let good = assessment.verdict == Verdict::Healthy && share >= NEAR_LINE_RATE;
    (!good).then(|| {
        let size = point.pattern[0][0];
        let Point { qp_type, op, qps, .. } = point;
        let part = subsystem.limiting();
        format!("{qp_type} {op} {qps} QPs of {size} B: {:?}, {share:.3} of the line rate, {part}", assessment.verdict)
    })
}
