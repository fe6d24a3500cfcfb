//! What perftest can express: all anomalies of the paper, each reason, and the mirror of a flow.

use super::{Inexpressible, lines};
use crate::known::anomalies;
use crate::workload::{Batch, Depths, Device, Host, Opcode, Workload};
use crate::{Bytes, workload_from_yaml};

const PLAIN: &str = "kelpie: workload/1\nflows:\n  - {from: a, to: b, qp_type: RC, qps: 8, mtu: 1024, \
    wq_depth: {send: 128, recv: 256}, batch: {send: 1, recv: 1}, pattern: [{op: WRITE, sge: [2KiB]}], \
    memory: {from: {device: \"dram:0\", mrs: 1, mr_size: 8KiB}, to: {device: \"dram:0\", mrs: 1, mr_size: 8KiB}}}\n";

fn plain() -> Workload {
    workload_from_yaml("plain", PLAIN).expect("a valid workload")
}

/// The options behind `-d DEVICE -x GID_INDEX -F`, or the reason.
fn shown(workload: &Workload) -> String {
    match lines(workload) {
        Ok(lines) => {
            let server = if workload.flows[0].is_loopback() { " localhost" } else { " SERVER" };
            assert_eq!(lines.client, format!("{}{server}", lines.server));
            lines.server.replace(" -d DEVICE -x GID_INDEX -F", "").replace(" -D 10", "")
        }
        Err(reason) => reason.to_string(),
    }
}

#[test]
#[rustfmt::skip]
fn all_anomalies_of_the_paper() {
    let table = [
        (1, "ib_send_bw -c UD -q 1 -m 2048 -s 2048 -t 256 -l 64 -r 256 --recv_post_list=64"),
        (2, "ib_send_bw -c UD -q 16 -m 1024 -s 1024 -t 1024 -l 4 -r 1024 --recv_post_list=4 --mr_per_qp"),
        (3, "ib_read_bw -c RC -q 8 -m 1024 -s 4194304 -t 128 --mr_per_qp"),
        (4, "scatter-gather lists of 4 elements; perftest posts one element"),
        (5, "scatter-gather lists of 2 elements; perftest posts one element"),
        (6, "scatter-gather lists of 2 elements; perftest posts one element"),
        (7, "1024 MRs per QP; perftest registers one, and one for all QPs without --mr_per_qp"),
        (8, "ib_write_bw -c RC -q 480 -m 1024 -s 512 -t 16 -Q 4 --mr_per_qp"),
        (9, "scatter-gather lists of 3 elements; perftest posts one element"),
        (10, "messages of 2 sizes in one request vector; perftest sends one size"),
        (11, "32 MRs per QP; perftest registers one, and one for all QPs without --mr_per_qp"),
        (12, "scatter-gather lists of 3 elements; perftest posts one element"),
        (13, "loopback traffic beside traffic on the wire; perftest runs one of them"),
        (14, "scatter-gather lists of 4 elements; perftest posts one element"),
        (15, "messages of 3 sizes in one request vector; perftest sends one size"),
        (16, "ib_read_bw -c RC -q 500 -m 1024 -s 65536 -t 128 -l 8 --mr_per_qp"),
        (17, "ib_send_bw -c RC -q 80 -m 1024 -s 1024 -t 128 -Q 32 -r 128 --mr_per_qp"),
        (18, "ib_write_bw -c RC -q 16 -m 1024 -s 65536 -t 64 -l 16 --mr_per_qp -b"),
    ];
    let got: Vec<(u32, String)> = anomalies().iter()
        .map(|anomaly| (anomaly.id, shown(&anomaly.trigger.workload())))
        .collect();
    assert_eq!(got.len(), table.len());
    for ((id, got), (expected_id, expected)) in got.iter().zip(table) {
        assert_eq!((*id, got.as_str()), (expected_id, expected));
    }
}

#[test]
#[rustfmt::skip]
fn each_option_and_each_reason() {
    type Change = fn(&mut Workload);
    let table: [(Change, &str); 21] = [
        (|_| {}, "ib_write_bw -c RC -q 8 -m 1024 -s 2048 -t 128 -Q 32 --mr_per_qp"),
        (|w| w.flows[0].qps = 1, "ib_write_bw -c RC -q 1 -m 1024 -s 2048 -t 128 -Q 32"),
        (|w| w.flows[0].inline = Bytes(2048), "inline data of 2048; perftest takes at most 912"),
        (
            |w| (w.flows[0].inline, w.flows[0].pattern[0].sge) = (Bytes(512), vec![Bytes(256)]),
            "ib_write_bw -c RC -q 8 -m 1024 -s 256 -t 128 -Q 32 -I 256 --mr_per_qp",
        ),
        (|w| w.flows[0].inline = Bytes(512), "ib_write_bw -c RC -q 8 -m 1024 -s 2048 -t 128 -Q 32 --mr_per_qp"),
        (
            |w| w.flows[0].pattern[0].op = Opcode::Send,
            "ib_send_bw -c RC -q 8 -m 1024 -s 2048 -t 128 -Q 32 -r 256 --mr_per_qp",
        ),
        (
            |w| (w.flows[0].pattern[0].op, w.flows[0].recv_sge) = (Opcode::Send, vec![Bytes(1024); 2]),
            "a receive vector of 1KiB + 1KiB; perftest posts one element of the message's size",
        ),
        (
            |w| (w.flows[0].pattern[0].op, w.flows[0].batch) = (Opcode::Send, Batch { send: 4, recv: 100 }),
            "a receive queue of 256 filled 100 at a time; perftest posts whole lists, and 256 is no multiple",
        ),
        (
            |w| (w.flows[0].pattern[0].op, w.flows[0].pattern[0].sge) = (Opcode::FetchAdd, vec![Bytes(8)]),
            "ib_atomic_bw -A FETCH_AND_ADD -c RC -q 8 -m 1024 -t 128 -Q 32 --mr_per_qp",
        ),
        (|w| w.flows[0].pattern[0].op = Opcode::WriteWithImm, "WRITE_WITH_IMM; perftest 4.5 has no such test"),
        (|w| w.flows[0].to = Host::A, "ib_write_bw -c RC -q 8 -m 1024 -s 2048 -t 128 -Q 32 --mr_per_qp"),
        (
            |w| { let flow = w.flows[0].clone(); w.flows.push(flow) },
            "2 flows that are not each other's mirror image; perftest runs one kind of traffic, with -b in both \
             directions",
        ),
        (
            |w| { let mut flow = w.flows[0].clone(); (flow.from, flow.to) = (Host::B, Host::A); w.flows.push(flow) },
            "ib_write_bw -c RC -q 8 -m 1024 -s 2048 -t 128 -Q 32 --mr_per_qp -b",
        ),
        (
            |w| {
                let mut flow = w.flows[0].clone();
                (flow.from, flow.to, flow.qps) = (Host::B, Host::A, 4);
                w.flows.push(flow);
            },
            "2 flows that are not each other's mirror image; perftest runs one kind of traffic, with -b in both \
             directions",
        ),
        (
            |w| {
                let mut request = w.flows[0].pattern[0].clone();
                request.op = Opcode::Read;
                w.flows[0].pattern.push(request);
            },
            "WRITE and READ in one request vector; perftest repeats one operation",
        ),
        (
            |w| w.flows[0].memory.to.device = Device::Dram(1),
            "memory on NUMA node 1; perftest takes memory of the node that it runs on",
        ),
        (
            |w| w.flows[0].memory.to.device = Device::Gpu(2),
            "memory of GPU 2; --use_cuda exists only if perftest was built with CUDA, and counts GPUs in another \
             order",
        ),
        (|w| w.flows[0].qps = 20_000, "QPs of 20000; perftest takes at most 16384"),
        (
            |w| w.flows[0].wq_depth = Depths { send: 16_000, recv: 1 },
            "a send queue of 16000; perftest takes at most 15000",
        ),
        (|w| w.flows[0].wq_depth.recv = 20_000, "ib_write_bw -c RC -q 8 -m 1024 -s 2048 -t 128 -Q 32 --mr_per_qp"),
        (|w| w.flows[0].qps = 0, "flows[0].qps: 0 is outside 1 to 65536"),
    ];
    for (index, (change, expected)) in table.into_iter().enumerate() {
        let mut workload = plain();
        change(&mut workload);
        assert_eq!(shown(&workload), expected, "row {index}");
    }
}

#[test]
fn what_remains_different_is_said() {
    let told = |change: fn(&mut Workload)| {
        let mut workload = plain();
        change(&mut workload);
        lines(&workload).map(|lines| lines.differences.join("\n"))
    };
    let exact = told(|_| {}).expect("expressible");
    assert!(!exact.contains("MR has") && exact.contains("numactl"), "{exact}");
    let other = told(|w| w.flows[0].memory.from.mr_size = Bytes(1 << 20)).expect("expressible");
    assert!(other.contains("perftest's MR has 8KiB for each QP") && other.contains("1MiB at the requester"), "{other}");
    let both = told(|w| {
        let mut flow = w.flows[0].clone();
        (flow.from, flow.to) = (Host::B, Host::A);
        w.flows.push(flow);
    });
    assert!(both.expect("expressible").contains("share 8 QPs"));
    assert_eq!(told(|w| w.flows[0].memory.from.mrs = 2), Err(Inexpressible::Mrs(2)));
}
