//! Workload files: each mistake named with file, line, key and rule; nothing makes the reader panic or run away.

use proptest::prelude::*;

use super::{full, rng, workload};
use crate::{workload_from_bytes, workload_from_yaml, workload_to_yaml};

const PLAIN: &str = "[{op: WRITE, sge: [1KiB]}]";

fn refused(text: &str, expected: &str) {
    let error = workload_from_yaml("w.yaml", text).expect_err(text).to_string();
    let is_said = error.lines().any(|line| without_column(line).starts_with(expected));
    assert!(is_said, "{text}\n  {error}\n  {expected}");
}

/// `w.yaml:3:9: rest` as `w.yaml:3: rest`.
pub fn without_column(error: &str) -> String {
    let mut parts = error.splitn(4, ':');
    let [file, line, column, rest] = [(); 4].map(|()| parts.next().unwrap_or_default());
    match column.parse::<usize>() {
        Ok(_) => format!("{file}:{line}:{rest}"),
        Err(_) => error.to_owned(),
    }
}

#[test]
fn every_mistake_is_said_at_once_and_pointed_at() {
    let text = "kelpie: workload/1\nflows:\n  - from: a\n    to: c\n    qbs: 8\n    mtu: 1500\n    \
                memory: {from: {mr_size: 4MB}}\n    colour: blue\n";
    let expected = "\
w.yaml:4:9: flows[0].to: unknown word `c`; write one of a, b
    4 |     to: c
      |         ^
w.yaml:5:5: flows[0].qbs: unknown key `qbs`; did you mean `qps`?
    5 |     qbs: 8
      |     ^
w.yaml:6:10: flows[0].mtu: path MTU 1500 is not one of 256, 512, 1024, 2048, 4096
    6 |     mtu: 1500
      |          ^
w.yaml:7:30: flows[0].memory.from.mr_size: `4MB` is not a size: write an integer with B, KiB, MiB or GiB, such as 64KiB
    7 |     memory: {from: {mr_size: 4MB}}
      |                              ^
w.yaml:8:5: flows[0].colour: unknown key `colour`; the keys here are from, to, ";
    let error = workload_from_yaml("w.yaml", text).expect_err(text).to_string();
    assert!(error.starts_with(expected), "{error}");

    let rules = "kelpie: workload/1\nflows:\n  - {from: a, to: b, qp_type: UD, qps: 0}\n  - {from: b, to: a, qp_type: UC,\n     \
                 wq_depth: {send: 8}, batch: {send: 9}}\n";
    let error = workload_from_yaml("w.yaml", rules).expect_err(rules).to_string();
    for part in [
        "w.yaml:3:40: flows[0].qps: 0 is",
        "flows[0].pattern[0].op: UD cannot WRITE",
        "w.yaml:5:41: flows[1].batch.send: a batch",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let keys: Vec<String> = (0..25).map(|number| format!("x{number}: 1")).collect();
    let many = format!("kelpie: workload/1\nflows: []\n{}", keys.join("\n"));
    let error = workload_from_yaml("w.yaml", &many).expect_err("25 unknown keys").to_string();
    assert!(error.ends_with("\nand 15 more"), "{error}");
}

#[test]
fn what_is_left_out_is_as_in_a_plain_flow() {
    let short =
        "kelpie: workload/1\nflows:\n  - {from: a, to: b, mtu: 2KiB, wq_depth: {recv: 64}, memory: {to: {mrs: 2}}}\n";
    let mut flow = crate::Flow::plain(crate::Host::A, crate::Host::B);
    (flow.wq_depth.recv, flow.memory.to.mrs) = (64, 2);
    flow.mtu = crate::Mtu::try_from(2048).expect("a path MTU");
    assert_eq!(workload_from_yaml("w.yaml", short), Ok(crate::Workload::new(vec![flow])));
}

#[test]
fn broken_rules_name_their_line() {
    let check = |qp_type: &str, batch: u32, pattern: &str, mr_size: &str, expected: &str| {
        refused(&workload(qp_type, 128, batch, pattern, mr_size), expected);
    };
    check(
        "RC",
        129,
        PLAIN,
        "4MiB",
        "w.yaml:9: flows[0].batch.send: a batch of 129 work requests does not fit a queue of depth 128",
    );
    check("RC", 0, PLAIN, "4MiB", "w.yaml:9: flows[0].batch.send: 0 is outside 1 to");
    check("UC", 8, "[{op: READ, sge: [1KiB]}]", "4MiB", "w.yaml:10: flows[0].pattern[0].op: UC cannot READ");
    check("UD", 8, PLAIN, "4MiB", "w.yaml:10: flows[0].pattern[0].op: UD cannot WRITE");
    check(
        "UD",
        8,
        "\n      - {op: SEND, sge: [1KiB]}\n      - {op: SEND, sge: [1KiB, 1B]}",
        "4MiB",
        "w.yaml:12: flows[0].pattern[1].sge: a UD message of 1025B is longer than the path MTU of 1024B",
    );
    check(
        "RC",
        8,
        "[{op: WRITE, sge: [1KiB, 8KiB]}]",
        "4KiB",
        "w.yaml:10: flows[0].pattern[0].sge[1]: an element of 8KiB does not fit an MR of 4KiB at the requester",
    );
    check(
        "RC",
        8,
        "[{op: WRITE, sge: [3KiB, 3KiB]}]",
        "4KiB",
        "w.yaml:10: flows[0].pattern[0].sge: a WRITE of 6KiB does not fit an MR of 4KiB at the responder",
    );
    check("RC", 8, "[]", "4MiB", "w.yaml:10: flows[0].pattern: 0 entries");
    check("RC", 8, "[{op: WRITE, sge: []}]", "4MiB", "w.yaml:10: flows[0].pattern[0].sge: 0 entries");
    check(
        "RC",
        8,
        "[{op: WRITE, sge: [0]}]",
        "4MiB",
        "w.yaml:10: flows[0].pattern[0].sge[0]: 0B is outside 1B to 2GiB",
    );
    check("RC", 8, PLAIN, "0", "w.yaml:12: flows[0].memory.from.mr_size: 0B is outside 1B to 16384GiB");
    check(
        "RC",
        8,
        "[{op: WRITE, sge: [1KiB]}]\n    recv_sge: [1KiB]",
        "4MiB",
        "w.yaml:11: flows[0].recv_sge: a receive vector without a SEND",
    );
    check(
        "RC",
        8,
        "[{op: WRITE_WITH_IMM, sge: [1KiB]}]\n    recv_sge: [512B]\n    inline: 8KiB",
        "4MiB",
        "w.yaml:12: flows[0].inline: 8KiB is more than 4KiB, beyond what a WQE holds",
    );
    check("UC", 8, "[{op: CMP_SWAP, sge: [8B]}]", "4MiB", "w.yaml:10: flows[0].pattern[0].op: UC cannot CMP_SWAP");
    check(
        "UD",
        8,
        "[{op: WRITE_WITH_IMM, sge: [8B]}]",
        "4MiB",
        "w.yaml:10: flows[0].pattern[0].op: UD cannot WRITE_WITH",
    );
    for sge in ["[4B]", "[16B]", "[4B, 4B]"] {
        let expected = "w.yaml:10: flows[0].pattern[0].sge: FETCH_ADD works on exactly 8 bytes";
        check("RC", 8, &format!("[{{op: FETCH_ADD, sge: {sge}}}]"), "4MiB", expected);
    }
    check(
        "RC",
        8,
        "[{op: SEND, sge: [1KiB]}]\n    recv_sge: [512B, 511B]",
        "4MiB",
        "w.yaml:11: flows[0].recv_sge: the receive vector holds 1023B, the largest SEND has 1KiB",
    );
    check(
        "RC",
        8,
        "[{op: SEND, sge: [1KiB]}]\n    recv_sge: [512B, 8MiB]",
        "4MiB",
        "w.yaml:11: flows[0].recv_sge[1]: an element of 8MiB does not fit an MR of 4MiB at the responder",
    );
    check("RC", 8, PLAIN, "16TiB", "w.yaml:12: flows[0].memory.from.mr_size: `16TiB` is not a size");
    check("RC", 8, PLAIN, "16384GiB", "w.yaml:11: flows[0].memory: 131072GiB of pinned memory in all on host a");
    check(
        "RC",
        8,
        &format!("[{}]", vec!["{op: WRITE, sge: [1]}"; 1025].join(", ")),
        "4MiB",
        "w.yaml:10: flows[0].pattern: 1025 entries; write 1 to 1024",
    );
    check(
        "RC",
        8,
        &format!("[{{op: WRITE, sge: [{}]}}]", vec!["1"; 65].join(", ")),
        "4MiB",
        "w.yaml:10: flows[0].pattern[0].sge: 65 entries; write 1 to 64",
    );
}

#[test]
fn every_transport_takes_its_operations() {
    let table = [
        ("RC", vec!["SEND", "WRITE", "READ", "WRITE_WITH_IMM", "SEND_WITH_IMM", "FETCH_ADD", "CMP_SWAP"]),
        ("UC", vec!["SEND", "WRITE", "WRITE_WITH_IMM", "SEND_WITH_IMM"]),
        ("UD", vec!["SEND", "SEND_WITH_IMM"]),
    ];
    for (qp_type, ops) in table {
        let pattern: Vec<String> = ops.iter().map(|op| format!("{{op: {op}, sge: [8B]}}")).collect();
        let text = workload(qp_type, 128, 8, &format!("[{}]\n    inline: 64B", pattern.join(", ")), "4MiB");
        let read = workload_from_yaml("w.yaml", &text).expect(qp_type);
        assert_eq!(workload_from_yaml("w.yaml", &workload_to_yaml(&read)), Ok(read));
    }
}

#[test]
fn mistakes_of_form_name_their_line() {
    let good = workload("RC", 128, 8, PLAIN, "4MiB");
    let check = |from: &str, to: &str, expected: &str| {
        assert!(good.contains(from), "{from}");
        refused(&good.replacen(from, to, 1), expected);
    };
    check("workload/1", "workload/2", "w.yaml:1: kelpie: this is format `workload/2`");
    check("from: a", "from: c", "w.yaml:3: flows[0].from: unknown word `c`; write one of a, b");
    check("    to: b\n", "", "w.yaml:3: flows[0]: key `to` is missing");
    check("qps: 8", "colour: 8", "w.yaml:6: flows[0].colour: unknown key `colour`; the keys here are from,");
    check("qps: 8", "qps: 8\n    qps: 9", "w.yaml:7: key `qps` is written twice");
    check("qps: 8", "qps: -8", "w.yaml:6: flows[0].qps: `-8` is not a whole number from 1 to 65536");
    check("qps: 8", "qps: 0", "w.yaml:6: flows[0].qps: 0 is outside 1 to 65536");
    check("qps: 8", "qps: 99999", "w.yaml:6: flows[0].qps: 99999 is outside 1 to 65536");
    check("qps: 8", "qps: 99999999999999999999", "w.yaml:6: flows[0].qps: `99999999999999999999` is not");
    check("qps: 8", "qps:", "w.yaml:6: flows[0].qps: a value is missing; write a whole number from 1 to 65536");
    check("qps: 8", "qps: [8]", "w.yaml:6: flows[0].qps: a list is not a whole number");
    check("qps: 8", "qps: \"8\"", "w.yaml:6: flows[0].qps: `8` is text; write it without quotes");
    check("qps: 8", "qps: 010", "w.yaml:6: flows[0].qps: `010` begins with 0; write 10");
    check("qps: 8", "qps: 0x10", "w.yaml:6: flows[0].qps: `0x10` is not decimal; write 16");
    check("qps: 8", "qps: 1e2", "w.yaml:6: flows[0].qps: `1e2` is not a whole number from 1 to 65536");
    check("qps: 8", "qps: 8.0", "w.yaml:6: flows[0].qps: `8.0` is not a whole number from 1 to 65536");
    check("qps: 8", "qps: 8\n    recv_sge: ~", "w.yaml:7: flows[0].recv_sge: a value is missing");
    check("from: a", "from: 1", "w.yaml:3: flows[0].from: `1` is not one of a, b");
    check("op: WRITE", "op: 1", "w.yaml:10: flows[0].pattern[0].op: `1` is not one of SEND, WRITE, READ,");
    check("{send: 8, recv: 8}", "", "w.yaml:9: flows[0].batch: a value is missing");
    check("mtu: 1024", "mtu: 1500", "w.yaml:7: flows[0].mtu: path MTU 1500 is not one of 256");
    check("RC", "XRC", "w.yaml:5: flows[0].qp_type: unknown word `XRC`; write one of RC, UC, UD");
    check(
        "op: WRITE",
        "op: WRITE, key: 1",
        "w.yaml:10: flows[0].pattern[0].key: unknown key `key`; the keys here are op, sge",
    );
    check("sge: [1KiB]", "sge: 1KiB", "w.yaml:10: flows[0].pattern[0].sge: `1KiB` is not a list");
    check("sge: [1KiB]", "sge: [1KB]", "w.yaml:10: flows[0].pattern[0].sge[0]: `1KB` is not a size");
    check("dram:0", "hbm:0", "w.yaml:12: flows[0].memory.from.device: `hbm:0` is not a memory device");
    check("{send: 8, recv: 8}", "8", "w.yaml:9: flows[0].batch: `8` is not a group of keys");
    check("qps: 8", "qps: *n", "w.yaml:6:");
    check("qps: 8", "qps: !!int 8", "w.yaml:6: tags");
    refused("", "w.yaml:1: the document is empty");
    refused("- a\n", "w.yaml:1: the document: this is no `workload/1`; such a file begins with");
    refused("kelpie: workload/1\nflows: ~\n", "w.yaml:2: flows: a value is missing");
    refused("kelpie: workload/1\nflows: 3\n", "w.yaml:2: flows: `3` is not a list, such as [a, b]");
    refused("kelpie: workload/1\nflows: []\n---\nx: 1\n", "w.yaml:3: a second document");
    refused(&good[..good.len() / 2 + 20], "w.yaml:");
    refused("kelpie: [", "w.yaml:");
}

#[test]
fn absurd_inputs_are_refused_quickly() {
    refused(&" ".repeat((1 << 20) + 1), "w.yaml: longer than 1 MiB, the most of such a file");
    refused(&"[".repeat(17), "w.yaml:1: nested too deeply");
    refused(&"[".repeat(1 << 20), "w.yaml:1: nested too deep");
    refused(&"{a: ".repeat(1 << 18), "w.yaml:1: ");
    refused(&"- ".repeat(1 << 19), "w.yaml:1: ");
    refused(&"? ".repeat(1 << 19), "w.yaml:1: ");
    let bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n";
    refused(bomb, "w.yaml:2: aliases");
    let flow = workload("RC", 128, 8, PLAIN, "4MiB");
    let one = flow.split_once("flows:\n").expect("flows").1;
    refused(&format!("kelpie: workload/1\nflows:\n{}", one.repeat(65)), "w.yaml:2: flows: 65 entries; write 1 to 64");
    let many = flow.replace("qps: 8", "qps: 60000").split_once("flows:\n").expect("flows").1.repeat(2);
    refused(&format!("kelpie: workload/1\nflows:\n{many}"), "w.yaml:6: flows[0].qps: 120000 QPs in all on host a");
    let error = workload_from_bytes("w.yaml", b"kelpie\xc3\x28").expect_err("no text").to_string();
    assert_eq!(error, "w.yaml: not UTF-8 text: the byte at offset 6 begins no character; save the file as UTF-8");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_reads_back(seed: u64) {
        let workload = full().sample(&mut rng(seed));
        let yaml = workload_to_yaml(&workload);
        let read = workload_from_yaml("round trip", &yaml);
        prop_assert_eq!(read.as_ref(), Ok(&workload), "{}", yaml);
        let json = serde_json::to_string(&workload).expect("a workload is plain data");
        prop_assert_eq!(serde_json::from_str::<crate::Workload>(&json).ok(), Some(workload));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
        prop_assert!(workload_from_bytes("w.yaml", &bytes).is_err());
    }

    #[test]
    fn no_truncation_or_change_makes_the_reader_panic(seed: u64, at: prop::sample::Index, byte in 0u8..128) {
        let mut yaml = workload_to_yaml(&full().sample(&mut rng(seed))).into_bytes();
        let at = at.index(yaml.len());
        yaml[at] = byte;
        if let Ok(workload) = workload_from_bytes("w.yaml", &yaml) {
            prop_assert_eq!(crate::check(&workload), Ok(()));
        }
        yaml.truncate(at);
        let _ = workload_from_bytes("w.yaml", &yaml);
    }
}
