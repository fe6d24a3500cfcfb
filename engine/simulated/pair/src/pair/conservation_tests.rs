//! What goes in comes out: hosts whose applications stop posting, until nothing moves any more.

use kelpie_nic::nic::Nic;
use kelpie_spaces::{Bytes, Flow, Opcode, QpType, Workload, known};

use super::*;
use crate::model::Model;
use crate::rings::Rings;

/// Events after which all should be over.
const MOST_EVENTS: u64 = 20_000_000;
const END: Picos = Picos::new(1 << 60);

/// What was sent and what arrived.
#[derive(Debug)]
struct Account {
    /// Messages and payload that were posted and not sent when all began.
    posted: [u64; 2],
    delivered: [u64; 2],
    sent_packets: u64,
    arrived_packets: u64,
    lost_packets: u64,
    unused_packets: u64,
    /// Messages that no receive was there for, and READs, bytes and bursts that are left.
    dropped: u64,
    left: [u64; 3],
    /// Work requests that are not complete.
    open: u64,
}

/// Full queues are emptied, and not filled again.
fn emptied(model: &Model, workload: &Workload) -> Account {
    let rings = Rings::new(model, workload).expect("the hosts have this memory");
    let queues = vec![Queues::default(); workload.flows.len()];
    let mut pair = SimulatedPair::new(model, rings, &queues);
    let turns = pair.turns(model.into(), &queues);
    let mut posted = [0; 2];
    for turn in &turns {
        let app = pair.around.apps[turn.host.index()][turn.qp as usize];
        let flow = &pair.around.rings.flows[turn.flow];
        let bytes = |message: u64| flow.wqe(turn.number, message).bytes;
        posted[0] += app.posted - turn.place.message;
        posted[1] += (turn.place.message..app.posted).map(bytes).sum::<u64>();
        posted[1] -= turn.place.packets[0] * pair.around.rings.connections[turn.host.index()][turn.qp as usize].mtu;
    }
    // No batch has room any more.
    pair.around.rings.flows.iter_mut().for_each(|flow| flow.batch = u64::MAX);
    let mut events_left = MOST_EVENTS;
    pair.run_until(END, &mut events_left);
    assert!(events_left > 0, "something goes on for ever");
    let open = |turn: &RequesterTurn| {
        pair.around.apps[turn.host.index()][turn.qp as usize].posted - pair.nics[turn.host.index()].completed(turn.qp)
    };
    let traffic = || pair.around.traffic.iter().flatten();
    let of_nics = |of: fn(&Nic) -> u64| pair.nics.iter().map(of).sum::<u64>();
    Account {
        posted,
        delivered: [traffic().map(|way| way.messages).sum(), traffic().map(|way| way.payload_bytes).sum()],
        sent_packets: of_nics(|nic| nic.tally().packets),
        arrived_packets: traffic().map(|way| way.packets).sum(),
        lost_packets: of_nics(|nic| nic.tally().lost),
        unused_packets: of_nics(|nic| nic.tally().unused),
        dropped: of_nics(|nic| nic.tally().no_receive),
        left: [of_nics(Nic::reads_open), of_nics(Nic::backlog), pair.around.network.queued()],
        open: turns.iter().map(open).sum(),
    }
}

fn flow(qp_type: QpType, op: Opcode, sizes: &[u64]) -> Flow {
    let mut flow = Flow { qp_type, qps: 8, ..Flow::plain(Host::A, Host::B) };
    (flow.wq_depth.send, flow.wq_depth.recv, flow.batch.send, flow.batch.recv) = (32, 32, 4, 4);
    let request = flow.pattern[0].clone();
    flow.pattern = sizes
        .iter()
        .map(|bytes| {
            let mut request = request.clone();
            (request.op, request.sge) = (op, vec![Bytes(*bytes)]);
            request
        })
        .collect();
    flow
}

#[test]
fn every_message_of_a_reliable_queue_arrives_once_and_nothing_is_left() {
    for name in ["F", "H"] {
        let model = Model::load(name).expect("embedded");
        for op in [Opcode::Send, Opcode::Write, Opcode::Read] {
            for sizes in [&[1u64][..], &[64, 9000], &[65_536, 300, 1024]] {
                let one = flow(QpType::Rc, op, sizes);
                let account = emptied(&model, &Workload::new(vec![one.clone(), one.mirrored()]));
                assert_eq!(account.delivered[0], account.posted[0], "{name} {op} {sizes:?}: {account:?}");
                // Of a READ that is not asked for yet, no part has come.
                if op != Opcode::Read || sizes.len() == 1 {
                    assert_eq!(account.delivered[1], account.posted[1], "{name} {op} {sizes:?}: {account:?}");
                }
                assert_eq!((account.left, account.open), ([0; 3], 0), "{name} {op} {sizes:?}: {account:?}");
                let used = account.arrived_packets + account.lost_packets + account.unused_packets;
                assert_eq!(account.sent_packets, used, "{name} {op} {sizes:?}: {account:?}");
            }
        }
    }
}

#[test]
fn triggers_lose_nothing_that_they_do_not_count() {
    for anomaly in known::anomalies() {
        let model = Model::load(if anomaly.id <= 13 { "F" } else { "H" }).expect("embedded");
        let mut workload = anomaly.trigger.workload();
        // Few enough for a test; all else is as it is.
        workload.flows.iter_mut().for_each(|flow| flow.qps = flow.qps.min(16));
        let account = emptied(&model, &workload);
        let used = account.arrived_packets + account.lost_packets + account.unused_packets;
        assert_eq!(account.sent_packets, used, "{}: {account:?}", anomaly.id);
        assert_eq!(account.left, [0; 3], "{}: {account:?}", anomaly.id);
        let is_reliable = workload.flows.iter().all(|flow| flow.qp_type == QpType::Rc);
        if is_reliable {
            assert_eq!((account.delivered, account.open), (account.posted, 0), "{}: {account:?}", anomaly.id);
        } else {
            assert!(account.delivered[0] <= account.posted[0], "{}: {account:?}", anomaly.id);
        }
    }
}

#[test]
fn what_finds_no_room_or_no_receive_is_lost_and_counted() {
    let mut model = Model::load("F").expect("embedded");
    // Datagrams need no answer, and few credits for writes with little headroom lose some.
    for (path, value) in [("receive.capacity_kib", "194"), ("pcie.write_credit_kib", "1")] {
        model.set(path, value).expect("the model has this parameter");
    }
    let mut one = flow(QpType::Ud, Opcode::Send, &[2048]);
    (one.qps, one.wq_depth.send, one.wq_depth.recv) = (64, 128, 128);
    let account = emptied(&model, &Workload::new(vec![one]));
    assert!(account.lost_packets > 0, "{account:?}");
    let missing = account.posted[0] - account.delivered[0];
    assert_eq!(missing, account.lost_packets + account.unused_packets, "{account:?}");
    assert_eq!(account.posted[1] - account.delivered[1], 2048 * missing, "{account:?}");
    assert!(account.dropped <= account.unused_packets, "{account:?}");
    assert_eq!((account.left, account.open), ([0; 3], 0), "{account:?}");
}
