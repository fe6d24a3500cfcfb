//! Two RNICs of a simulated host that send to each other: what the slowest part on the way leaves, and when it is seen.

use kelpie_engine::loopback::{LoopbackHost as _, PathProbe};
use kelpie_sim::host::SimHost;

/// Bandwidth in Gbit/s and latency in us of a cell.
fn cell(host: &mut SimHost, rnic: &str, endpoint: &str) -> [f64; 2] {
    let place = |names: &[String], name: &str| names.iter().position(|known| known == name).expect("it is there");
    let (row, column) = (place(host.rnics(), rnic), place(host.endpoints(), endpoint));
    [PathProbe::Bandwidth, PathProbe::Latency].map(|probe| host.probe(row, column, probe).expect("it has a way").value)
}

fn a100(sets: &[(&str, &str)]) -> SimHost {
    let mut host = SimHost::load("a100").expect("it is embedded");
    for (part, value) in sets {
        host.set(part, value).expect("it has that");
    }
    host
}

#[test]
fn the_slowest_part_between_two_rnics_limits_what_one_sends_to_the_other() {
    let mut healthy = a100(&[]);
    let all: Vec<[f64; 2]> = [("rnic0", "rnic1"), ("rnic1", "rnic0"), ("rnic0", "rnic3"), ("rnic3", "rnic2")]
        .map(|(from, to)| cell(&mut healthy, from, to))
        .to_vec();
    println!("{all:?}");
    for [gbps, latency] in &all {
        // A port of 200 Gbit/s, less headers of packets of 4 KiB.
        assert!((180.0..200.0).contains(gbps), "{all:?}");
        assert!((1.0..10.0).contains(latency), "{all:?}");
    }
    let [_, near] = cell(&mut healthy, "rnic0", "mem0");
    assert!(all[0][1] > near + 0.9, "two cables and a switch take their time: {near} {all:?}");
    for (part, from, to, least, most) in [
        ("rnic0|leaf0.width", "rnic0", "rnic1", 44.0, 50.0),
        ("rnic0|leaf0.width", "rnic1", "rnic0", 44.0, 50.0),
        ("rnic0|leaf0.width", "rnic1", "rnic2", 180.0, 200.0),
        ("rnic1|psw1.width", "rnic0", "rnic1", 40.0, 63.0),
        ("psw1|cpu0.width", "rnic1", "rnic3", 40.0, 63.0),
        ("psw1|cpu0.width", "rnic3", "rnic1", 40.0, 63.1),
        ("psw1|cpu0.width", "rnic3", "rnic0", 180.0, 200.0),
    ] {
        let mut host = a100(&[(part, "0.25")]);
        let [gbps, _] = cell(&mut host, from, to);
        assert!((least..most).contains(&gbps), "{part}: {from} to {to}: {gbps}");
    }
    // Both read and write the memory of one socket, and each gets half.
    let mut host = a100(&[("mem0|cpu0.width", "0.1")]);
    let [[same, _], [apart, _]] = [cell(&mut host, "rnic0", "rnic1"), cell(&mut host, "rnic0", "rnic3")];
    assert!((35.0..46.0).contains(&same) && (70.0..91.0).contains(&apart), "{same} {apart}");
}

#[test]
fn only_cabled_rnics_are_endpoints_and_ports_show_what_they_were_trained_to() {
    let host = a100(&[("rnic2|leaf0.width", "0.5")]);
    assert_eq!(host.endpoints().last().map(String::as_str), Some("rnic3"));
    assert_eq!(host.narrow_links(), ["rnic2|leaf0"]);
    let storage = SimHost::load("storage").expect("it is embedded");
    assert!(storage.endpoints().iter().all(|name| !name.starts_with("rnic")));
}
