//! Tests of the posting side, without a device: chains as a device reads them, completions as it gives them.

use std::time::Duration;

use kelpie_spaces::{Bytes, Request};

use super::*;
use crate::rotation::RegisteredRegion;

fn rotation(first: u64, key: u32, per_qp: usize, longest: u64) -> Rotation {
    let region = |index: usize| RegisteredRegion { address: first + index as u64 * 0x10_000, key: key + index as u32 };
    Rotation::new((0..2 * per_qp).map(region).collect(), per_qp, 8192, longest)
}

fn request(op: Opcode, sizes: &[u64]) -> Request {
    Request { op, sge: sizes.iter().map(|size| Bytes(*size)).collect() }
}

fn mtu() -> Mtu {
    Mtu::try_from(1024).expect("an MTU")
}

/// Two QPs; batches of four at depth eight.
fn requester(requests: Vec<Request>, inline: u64) -> Requester {
    let plan = SendPlan { batch: 4, requests, inline, pause: Duration::ZERO, latency: false };
    let memory = [rotation(0x100_0000, 10, 2, 4096), rotation(0x900_0000, 50, 1, 4196)];
    Requester::new(&plan, mtu(), 0..2, 8, memory, Vec::new())
}

/// A vector of a WRITE in two elements, a SEND and a READ.
fn mixed() -> Requester {
    let requests =
        vec![request(Opcode::Write, &[4096, 100]), request(Opcode::Send, &[64]), request(Opcode::Read, &[2048])];
    requester(requests, 0)
}

/// Opcode, whether a completion is asked for, and address, length and key of each element.
type PostedRequest = (ibv_wr_opcode::Type, bool, Vec<(u64, u32, u32)>);

/// Follows the chain as a device does.
fn walk(requester: &Requester) -> Vec<PostedRequest> {
    let mut seen = Vec::new();
    let mut next: *const ibv_send_wr = requester.chain.as_ptr();
    while !next.is_null() {
        // SAFETY: the chain was prepared and lives in `requester`.
        let request = unsafe { &*next };
        // SAFETY: as above, for its elements.
        let elements = unsafe { std::slice::from_raw_parts(request.sg_list, request.num_sge as usize) };
        let elements = elements.iter().map(|element| (element.addr, element.length, element.lkey)).collect();
        seen.push((request.opcode, request.send_flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0, elements));
        next = request.next;
    }
    seen
}

#[test]
fn a_batch_is_one_chain_in_the_order_of_the_vector_with_one_completion() {
    let (write, send, read) =
        (ibv_wr_opcode::IBV_WR_RDMA_WRITE, ibv_wr_opcode::IBV_WR_SEND, ibv_wr_opcode::IBV_WR_RDMA_READ);
    let mut requester = mixed();
    requester.prepare(1);
    let first = walk(&requester);
    assert_eq!(first.iter().map(|(code, ..)| *code).collect::<Vec<_>>(), [write, send, read, write]);
    assert_eq!(first.iter().map(|(_, signalled, _)| *signalled).collect::<Vec<_>>(), [false, false, false, true]);
    // The second QP's MRs, in turn, and a place further with every round.
    assert_eq!(first[0].2, [(0x102_0000, 4096, 12), (0x103_0000, 100, 13)]);
    assert_eq!(first[1].2, [(0x102_1000, 64, 12)]);
    requester.prepare(1);
    let codes: Vec<_> = walk(&requester).into_iter().map(|(code, ..)| code).collect();
    assert_eq!(codes, [send, read, write, send], "the vector goes on where the last batch ended");
    requester.prepare(0);
    assert_eq!(walk(&requester)[0].0, write, "each QP has its own place in the vector");
    assert_eq!(walk(&requester)[0].2[1].1, 100, "and the form of the chain follows it");
}

#[test]
fn one_sided_requests_rotate_over_the_peers_mrs() {
    let plan = SendPlan {
        batch: 4,
        requests: vec![request(Opcode::Write, &[4096]), request(Opcode::Send, &[64])],
        inline: 0,
        pause: Duration::ZERO,
        latency: false,
    };
    let memory = [rotation(0x100_0000, 10, 1, 4096), rotation(0x900_0000, 50, 2, 4096)];
    let mut requester = Requester::new(&plan, mtu(), 0..2, 32, memory, Vec::new());
    let mut places = Vec::new();
    for _ in 0..3 {
        requester.prepare(1);
        // SAFETY: WRITE uses this member of the union.
        let remote = |at: usize| unsafe { requester.chain[at].wr.rdma };
        places.extend([0, 2].map(|at| (remote(at).remote_addr, remote(at).rkey)));
    }
    let (first, second) = (0x902_0000, 0x903_0000);
    let expected = [(first, 52), (second, 53), (first + 4096, 52), (second + 4096, 53), (first, 52), (second, 53)];
    assert_eq!(places, expected);
}

#[test]
fn atomics_name_remote_memory_and_immediates_their_qp() {
    let mut requester = requester(
        vec![request(Opcode::FetchAdd, &[8]), request(Opcode::CmpSwap, &[8]), request(Opcode::WriteWithImm, &[100])],
        0,
    );
    requester.prepare(1);
    // SAFETY: atomics use this member of the union.
    let atomic = |at: usize| unsafe { requester.chain[at].wr.atomic };
    assert_eq!((atomic(0).remote_addr, atomic(0).rkey, atomic(0).compare_add), (0x901_0000, 51, 1));
    assert_eq!((atomic(1).remote_addr % 8, atomic(1).compare_add, atomic(1).swap), (0, 0, 1));
    // SAFETY: WRITE_WITH_IMM uses this member of the union.
    assert_eq!(u32::from_be(unsafe { requester.chain[2].imm_data_invalidated_rkey_union.imm_data }), 1);
}

#[test]
fn what_fits_is_posted_inline_but_for_what_brings_data_back() {
    let inline = ibv_send_flags::IBV_SEND_INLINE.0;
    let vector = [(Opcode::Write, 64), (Opcode::Read, 64), (Opcode::Send, 65), (Opcode::SendWithImm, 32)];
    let requests = vector.map(|(op, size)| request(op, &[size])).to_vec();
    let mut requester = requester(requests, 64);
    requester.prepare(0);
    let flags: Vec<bool> = requester.chain.iter().map(|request| request.send_flags & inline != 0).collect();
    assert_eq!(flags, [true, false, false, true]);
}

#[test]
fn a_completion_stands_for_its_batch() {
    let mut requester = mixed();
    requester.completed(1 << INDEX_BITS);
    let count = |messages, bytes, packets| CompletedWork { messages, bytes, packets };
    assert_eq!(requester.counts()[..3], [count(1, 64, 1), count(2, 2 * 4196, 2 * 5), count(1, 2048, 2)]);
    requester.completed(1 << INDEX_BITS);
    assert_eq!(requester.counts()[0], count(3, 3 * 64, 3), "the second batch begins with the SEND");
    assert_eq!(requester.refill(&[], false, false, |_, _| ()), 1, "both batches of the depth were found at once");
    requester.completed(1 << INDEX_BITS | 1);
    assert_eq!(requester.refill(&[], false, false, |_, _| ()), 0);
}

#[test]
fn small_messages_share_a_completion_and_the_last_of_a_full_queue_has_one() {
    // Message, depth, batch; batches per completion, from the first to the one that fills the queue.
    let table: [(u64, u32, u32, &[u32]); 5] = [
        (64, 16, 1, &[4, 4, 4, 4]),
        (64, 11, 1, &[2, 2, 2, 2, 2, 1]),
        (64, 32, 8, &[1, 1, 1, 1]),
        (64 << 10, 4, 1, &[1, 1, 1, 1]),
        (16 << 10, 64, 1, &[4; 16]),
    ];
    for (message, depth, batch, expected) in table {
        let requests = vec![request(Opcode::Write, &[message])];
        let plan = SendPlan { batch, requests, inline: 0, pause: Duration::ZERO, latency: false };
        let memory = [rotation(0, 1, 1, message), rotation(0, 1, 1, message)];
        let mut requester = Requester::new(&plan, mtu(), 0..1, depth, memory, Vec::new());
        let mut seen = Vec::new();
        while requester.queues[0].outstanding + batch <= depth {
            requester.prepare(0);
            requester.queues[0].outstanding += batch;
            let last = requester.chain.last().expect("a batch is not empty");
            if last.send_flags != 0 {
                seen.push((last.wr_id >> INDEX_BITS) as u32);
            }
        }
        assert_eq!(seen, expected, "{message} bytes, depth {depth}, batch {batch}");
        assert_eq!(seen.iter().sum::<u32>() * batch, requester.queues[0].outstanding, "none is left out");
    }
}

#[test]
fn an_error_is_told_once_and_ends_its_queue() {
    let mut requester = mixed();
    assert!(requester.failed(1));
    assert!(!requester.failed(1));
    assert_eq!(requester.outstanding(), 0);
}

/// How many completions of each operation were timed since the last time.
fn timed(requester: &mut Requester) -> Vec<(Opcode, u64)> {
    let mut room = requester.room_for_latencies();
    requester.exchange_latencies(&mut room);
    room.into_iter().map(|(op, took)| (op, took.percentiles().map_or(0, |seen| seen.count))).collect()
}

/// Fills the queue of QP 0; the identifiers of what asks for a completion.
fn fill(requester: &mut Requester) -> Vec<u64> {
    let (mut signalled, last) = (Vec::new(), requester.batch as usize - 1);
    let post = |chain: *mut ibv_send_wr| {
        // SAFETY: the chain is one of `batch` requests, in order.
        let last = unsafe { &*chain.add(last) };
        if last.send_flags & ibv_send_flags::IBV_SEND_SIGNALED.0 != 0 {
            signalled.push(last.wr_id);
        }
        Ok(())
    };
    requester.fill_by(0, post, &mut |_, error| panic!("{error}"));
    signalled
}

#[test]
fn every_completion_is_timed_once_however_full_the_queue_was() {
    for (message, depth, batch) in
        [(64, 1, 1), (64, 2, 1), (64, 11, 1), (64, 16, 1), (64, 32, 8), (64 << 10, 4, 1), (4096, 4096, 2)]
    {
        let plan = SendPlan {
            batch,
            requests: vec![request(Opcode::Write, &[message])],
            inline: 0,
            pause: Duration::ZERO,
            latency: true,
        };
        let memory = [rotation(0, 1, 1, message), rotation(0, 1, 1, message)];
        let mut requester = Requester::new(&plan, mtu(), 0..1, depth, memory, Vec::new());
        let mut under_way = std::collections::VecDeque::new();
        for round in 0..50 {
            under_way.extend(fill(&mut requester));
            assert_eq!(requester.outstanding(), u64::from(depth / batch * batch));
            let completions = round % under_way.len() + 1;
            requester.polled();
            for wr_id in under_way.drain(..completions) {
                requester.completed(wr_id);
            }
            requester.refill(&[], false, false, |_, _| ());
            let context = format!("round {round} of {message} bytes, depth {depth}, batch {batch}");
            assert_eq!(timed(&mut requester), [(Opcode::Write, completions as u64)], "{context}");
        }
    }
}

#[test]
fn what_fails_is_not_timed() {
    let plan = |latency| SendPlan {
        batch: 2,
        requests: vec![request(Opcode::Send, &[64 << 10])],
        inline: 0,
        pause: Duration::ZERO,
        latency,
    };
    let memory = || [rotation(0, 1, 1, 64 << 10), rotation(0, 1, 1, 64 << 10)];
    let mut requester = Requester::new(&plan(true), mtu(), 0..1, 8, memory(), Vec::new());
    let signalled = fill(&mut requester);
    assert_eq!(signalled.len(), 4);
    requester.polled();
    requester.completed(signalled[0]);
    // What is posted next fails; what was posted before it may still come back.
    let mut errors = 0;
    requester.fill_by(0, |_| Err(io::Error::from_raw_os_error(12)), &mut |_, _| errors += 1);
    requester.completed(signalled[1]);
    assert_eq!((timed(&mut requester), errors), (vec![(Opcode::Send, 2)], 1));
    assert!(!requester.failed(0), "the post has ended it");
    requester.completed(signalled[2]);
    assert_eq!(timed(&mut requester), [(Opcode::Send, 0)]);

    let mut untimed = Requester::new(&plan(false), mtu(), 0..1, 8, memory(), Vec::new());
    let signalled = fill(&mut untimed);
    untimed.polled();
    untimed.completed(signalled[0]);
    assert!(untimed.timer.is_none() && timed(&mut untimed).is_empty(), "nobody asked");
}

#[test]
fn a_latency_is_that_of_the_operation_which_asked_for_the_completion() {
    let requests = vec![request(Opcode::Write, &[8192]), request(Opcode::Send, &[64]), request(Opcode::Read, &[2048])];
    let plan = SendPlan { batch: 4, requests, inline: 0, pause: Duration::ZERO, latency: true };
    let memory = [rotation(0, 1, 1, 8192), rotation(0, 1, 1, 8192)];
    let mut requester = Requester::new(&plan, mtu(), 0..1, 8, memory, Vec::new());
    let signalled = fill(&mut requester);
    requester.completed(signalled[0]);
    assert_eq!(timed(&mut requester), [(Opcode::Write, 1), (Opcode::Send, 0), (Opcode::Read, 0)], "its fourth");
    requester.completed(signalled[1]);
    assert_eq!(timed(&mut requester), [(Opcode::Write, 0), (Opcode::Send, 1), (Opcode::Read, 0)], "its eighth");
}

#[test]
fn of_many_queues_all_run_low_when_the_cq_is_not_emptied_for_half_of_them() {
    let (qps, depth, poll) = (1000, 128, 32);
    let plan = SendPlan {
        batch: 1,
        requests: vec![request(Opcode::Write, &[64 << 10])],
        inline: 0,
        pause: Duration::ZERO,
        latency: false,
    };
    let memory = || Rotation::new(vec![RegisteredRegion { address: 0, key: 1 }; qps as usize], 1, 64 << 10, 64 << 10);
    let mut requester = Requester::new(&plan, mtu(), 0..qps, depth, [memory(), memory()], Vec::new());
    let mut next = 0;
    let mut poll_once = |is_behind| {
        for _ in 0..poll {
            requester.completed(1 << INDEX_BITS | next);
            next = (next + 1) % u64::from(qps);
        }
        requester.refill(&[], false, is_behind, |_, _| ())
    };
    let half = qps * depth / 2 / poll;
    for _ in 0..half {
        assert_eq!(poll_once(true), 0, "less than half of what the queues hold");
    }
    assert_eq!((poll_once(true), poll_once(true)), (qps, qps));
    assert_eq!((poll_once(false), poll_once(true)), (0, 0), "it has caught up");
}

#[test]
fn immediates_count_qps_through_the_whole_flow() {
    let plan = SendPlan {
        batch: 1,
        requests: vec![request(Opcode::SendWithImm, &[64])],
        inline: 0,
        pause: Duration::ZERO,
        latency: false,
    };
    let memory = [rotation(0, 1, 1, 64), rotation(0, 1, 1, 64)];
    let mut requester = Requester::new(&plan, mtu(), 6..8, 8, memory, Vec::new());
    requester.prepare(1);
    // SAFETY: requests with an immediate use this member of the union.
    assert_eq!(u32::from_be(unsafe { requester.chain[0].imm_data_invalidated_rkey_union.imm_data }), 7);
}

#[test]
fn a_completion_that_no_request_explains_counts_at_most_a_queue() {
    let mut requester = requester(vec![request(Opcode::Write, &[64])], 0);
    requester.completed(u64::from(u32::MAX) << INDEX_BITS);
    assert_eq!(requester.counts()[Opcode::Write as usize].messages, 8);
}

#[test]
fn a_qp_that_pauses_posts_one_batch_whose_completion_is_asked_for() {
    let plan = SendPlan {
        batch: 1,
        requests: vec![request(Opcode::Write, &[64])],
        inline: 0,
        pause: Duration::from_hours(1),
        latency: false,
    };
    let memory = [rotation(0, 1, 1, 64), rotation(0, 1, 1, 64)];
    let mut requester = Requester::new(&plan, mtu(), 0..1, 16, memory, Vec::new());
    let signalled = fill(&mut requester);
    assert_eq!((signalled.len(), requester.outstanding()), (1, 1));
    requester.completed(signalled[0]);
    assert_eq!(fill(&mut requester), [0; 0], "the pause is not over");
    assert_eq!(requester.refill(&[], false, false, |_, _| ()), 1, "its queue is not kept full");
}
