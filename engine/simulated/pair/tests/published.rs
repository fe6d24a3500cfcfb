//! The models against published measurements of perftest-like traffic. `KELPIE_BLESS=1 cargo test -p kelpie-sim --test
//! published` writes the table in `docs/measured/published-measurements.md` anew.

use std::fmt::Write as _;

use kelpie_engine::Subsystem as _;
use kelpie_sim::SimSubsystem;
use kelpie_spaces::{Bytes, Flow, Host, Mtu, Opcode, Request, Workload};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/measured/published-measurements.md");
/// What stands before and behind the table on the page.
const MARKS: [&str; 2] = ["<!-- measured -->\n", "<!-- end -->\n"];

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
enum PublishedValue {
    /// Million messages/s.
    Mops(f64),
    /// Goodput. Units: Gbit/s.
    Gbps(f64),
    /// From the post of a request to its completion. Units: µs.
    Micros(f64),
}

/// A published measurement of one direction of RC traffic.
#[derive(Clone, Copy)]
struct PublishedRow {
    /// Its number on the page.
    source: u32,
    model: &'static str,
    /// What the hosts of the source had that those of the model have not.
    changes: &'static [(&'static str, &'static str)],
    op: Opcode,
    bytes: u64,
    is_inline: bool,
    mtu: u64,
    qps: u32,
    depth: u32,
    batch: u32,
    value: PublishedValue,
}

/// A row of requests without lists.
const fn row(
    source: u32,
    model: &'static str,
    op: Opcode,
    bytes: u64,
    of: [u32; 3],
    value: PublishedValue,
) -> PublishedRow {
    let [qps, depth, batch] = of;
    PublishedRow { source, model, changes: &[], op, bytes, is_inline: false, mtu: 4096, qps, depth, batch, value }
}

const fn inline(row: PublishedRow) -> PublishedRow {
    PublishedRow { is_inline: true, ..row }
}

const fn with(row: PublishedRow, changes: &'static [(&'static str, &'static str)]) -> PublishedRow {
    PublishedRow { changes, ..row }
}

const fn at_mtu(row: PublishedRow, mtu: u64) -> PublishedRow {
    PublishedRow { mtu, ..row }
}

/// Posts of perftest on the hosts of sources 5 and 6: the rates of short messages of one QP.
const POST_183: &[(&str, &str)] = &[("posting.doorbell_ns", "175")];
const POST_180: &[(&str, &str)] = &[("posting.doorbell_ns", "172")];

use Opcode::{Read, Send, Write};
use PublishedValue::{Gbps, Micros, Mops};

#[rustfmt::skip]
const ROWS: &[PublishedRow] = &[
    inline(row(1, "B", Write, 8, [1, 256, 16], Mops(18.26))),
    inline(row(1, "B", Write, 8, [2, 256, 16], Mops(37.05))),
    inline(row(1, "B", Write, 8, [4, 256, 16], Mops(74.92))),
    inline(row(1, "B", Write, 8, [6, 256, 16], Mops(112.65))),
    inline(row(1, "B", Write, 8, [8, 256, 16], Mops(117.94))),
    inline(row(2, "F", Write, 8, [1, 256, 16], Mops(18.63))),
    inline(row(2, "F", Write, 8, [2, 256, 16], Mops(35.84))),
    inline(row(2, "F", Write, 8, [4, 256, 16], Mops(67.19))),
    inline(row(2, "F", Write, 8, [8, 256, 16], Mops(125.03))),
    inline(row(2, "F", Write, 8, [20, 256, 16], Mops(155.0))),
    inline(row(3, "B", Write, 8, [24, 1, 1], Micros(2.18))),
    row(3, "B", Read, 8, [24, 1, 1], Micros(2.70)),
    inline(row(3, "B", Write, 8, [24, 4, 1], Mops(41.26))),
    row(3, "B", Read, 8, [24, 4, 1], Mops(35.30)),
    inline(row(3, "B", Write, 8, [24, 8, 1], Mops(62.35))),
    row(3, "B", Read, 8, [24, 8, 1], Mops(53.89)),
    inline(row(3, "B", Write, 8, [24, 16, 1], Mops(107.5))),
    row(3, "B", Read, 8, [24, 16, 1], Mops(86.7)),
    row(4, "F", Read, 8, [12, 1, 1], Micros(2.35)),
    inline(row(4, "F", Write, 8, [12, 1, 1], Micros(2.40))),
    row(4, "F", Read, 8, [96, 8, 1], Mops(111.2)),
    inline(row(4, "F", Write, 8, [96, 8, 1], Mops(90.6))),
    row(4, "F", Read, 8, [48, 16, 1], Mops(102.5)),
    row(4, "F", Read, 8, [96, 32, 1], Mops(55.2)),
    inline(row(4, "F", Write, 8, [96, 32, 1], Mops(62.8))),
    with(row(5, "F", Write, 64, [1, 128, 1], Mops(5.48)), POST_183),
    with(row(5, "F", Write, 1024, [1, 128, 1], Mops(5.43)), POST_183),
    with(row(5, "F", Write, 2048, [1, 128, 1], Mops(5.42)), POST_183),
    with(row(5, "F", Write, 4096, [1, 128, 1], Gbps(156.6)), POST_183),
    with(row(5, "F", Write, 8192, [1, 128, 1], Gbps(196.3)), POST_183),
    with(row(5, "F", Write, 65536, [1, 128, 1], Gbps(196.75)), POST_183),
    with(row(5, "F", Write, 1 << 20, [1, 128, 1], Gbps(196.8)), POST_183),
    with(row(6, "F", Write, 4096, [1, 128, 1], Gbps(147.4)), POST_180),
    with(row(6, "F", Write, 8192, [1, 128, 1], Gbps(194.6)), POST_180),
    with(row(6, "F", Write, 65536, [1, 128, 1], Gbps(195.9)), POST_180),
    at_mtu(row(7, "B", Write, 65536, [1, 128, 1], Gbps(92.5)), 1024),
    at_mtu(row(7, "B", Send, 65536, [1, 128, 1], Gbps(92.2)), 1024),
    at_mtu(row(7, "B", Read, 65536, [1, 128, 1], Gbps(87.3)), 1024),
    with(row(8, "B", Write, 1 << 20, [1, 128, 1], Gbps(55.9)), &[("pcie.gbps", "63")]),
    with(row(8, "B", Read, 1 << 20, [1, 128, 1], Gbps(56.0)), &[("pcie.gbps", "63")]),
    with(row(8, "B", Send, 1 << 20, [1, 128, 1], Gbps(55.9)), &[("pcie.gbps", "63")]),
    row(9, "F", Write, 64, [32, 64, 1], Mops(123.0)),
    row(9, "F", Read, 64, [32, 64, 1], Mops(83.0)),
    row(9, "F", Write, 64, [512, 64, 1], Mops(122.0)),
    row(9, "F", Read, 64, [512, 64, 1], Mops(42.0)),
    row(9, "F", Write, 64, [4096, 64, 1], Mops(111.0)),
    row(9, "F", Read, 64, [4096, 64, 1], Mops(21.0)),
    at_mtu(row(10, "F", Read, 4 << 20, [20, 128, 1], Gbps(165.6)), 1024),
];

impl PublishedRow {
    fn workload(&self) -> Workload {
        let mut flow = Flow::plain(Host::A, Host::B);
        (flow.qps, flow.mtu) = (self.qps, Mtu::try_from(self.mtu).expect("an MTU"));
        (flow.wq_depth.send, flow.wq_depth.recv) = (self.depth, self.depth);
        (flow.batch.send, flow.batch.recv) = (self.batch, self.batch);
        flow.pattern = vec![Request { op: self.op, sge: vec![Bytes(self.bytes)] }];
        flow.inline = Bytes(if self.is_inline { self.bytes } else { 0 });
        Workload::new(vec![flow])
    }

    /// What the model gives, in the unit of the source.
    fn model(&self) -> f64 {
        let mut subsystem = SimSubsystem::load(self.model).expect("an embedded model");
        for (path, value) in self.changes {
            subsystem.set(path, value).expect("the model has this parameter");
        }
        let measurement = subsystem.measure(&self.workload()).expect("the hosts have the memory");
        let mean = measurement.mean().expect("samples");
        let sum = |rate: fn(&kelpie_monitor::DirectionRates) -> f64| mean.directions.iter().map(rate).sum::<f64>();
        match self.value {
            Mops(_) => sum(|way| way.messages_per_sec) / 1e6,
            Gbps(_) => sum(|way| way.goodput_bps) / 1e9,
            Micros(_) => f64::from(self.qps * self.depth) / sum(|way| way.messages_per_sec) * 1e6,
        }
    }

    fn published(&self) -> f64 {
        let (Mops(value) | Gbps(value) | Micros(value)) = self.value;
        value
    }

    fn unit(&self) -> &'static str {
        match self.value {
            Mops(_) => "M/s",
            Gbps(_) => "Gbit/s",
            Micros(_) => "µs",
        }
    }
}

fn table(given: &[f64]) -> String {
    let mut text = "| source | model | traffic | published | model | off |\n|---|---|---|---|---|---|\n".to_owned();
    for (row, given) in ROWS.iter().zip(given) {
        let PublishedRow { source, model, op, bytes, mtu, qps, depth, batch, .. } = row;
        let inline = if row.is_inline { " inline" } else { "" };
        let changes: Vec<String> = row.changes.iter().map(|(path, value)| format!("{path} {value}")).collect();
        let changes = if changes.is_empty() { String::new() } else { format!("; {}", changes.join(", ")) };
        let off = 100.0 * (given / row.published() - 1.0);
        let _ = writeln!(
            text,
            "| {source} | {model} | {op} {bytes} B{inline}, MTU {mtu}, {qps} QP{}, depth {depth}, batch {batch}{changes} \
             | {} {} | {given:.1} | {off:+.0} % |",
            if *qps == 1 { "" } else { "s" },
            row.published(),
            row.unit()
        );
    }
    text
}

#[test]
fn models_are_near_what_was_published() {
    let given: Vec<f64> = ROWS.iter().map(PublishedRow::model).collect();
    let mut off: Vec<f64> = ROWS.iter().zip(&given).map(|(row, given)| (given / row.published() - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    let table = table(&given);
    println!("{table}median off: {:.3}", off[off.len() / 2]);
    assert!(off[off.len() / 2] <= 0.2, "{table}");
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let begin = page.find(MARKS[0]).expect("where the table begins") + MARKS[0].len();
    let end = page.find(MARKS[1]).expect("where it ends");
    if std::env::var_os("KELPIE_BLESS").is_some() {
        std::fs::write(PAGE, format!("{}{table}{}", &page[..begin], &page[end..])).expect("the page can be written");
    } else {
        assert_eq!(&page[begin..end], table, "run with KELPIE_BLESS=1 if the change is meant");
    }
}
