//! How long plans of 10,000 GPUs take, by `cargo bench -p kelpie-paths`.

use std::hint::black_box;

use divan::Bencher;
use kelpie_paths::{Planner, PortSearch};
use kelpie_topology::{Cluster, FabricPart, Working};

fn main() {
    divan::main();
}

/// 10,000 GPUs with a NIC each in 1,250 hosts, 64 leaf ports to hosts and 64 spines.
fn cluster() -> Cluster {
    let text = "kelpie: topology/1\ncluster: {hosts: 1250, nics_per_host: 8, port_gbps: 200, leaves: 314, spines: 64, \
                cable_gbps: 200}";
    Cluster::from_yaml("bench", text).expect("valid")
}

/// Each NIC to its like of the next host.
fn ring(cluster: &Cluster) -> impl Iterator<Item = (u32, u32)> {
    let (nics, of_host) = (cluster.nics(), cluster.nics_per_host);
    (0..nics).map(move |nic| (nic, (nic + of_host) % nics))
}

/// Each NIC to its likes of the other hosts of its group of 8.
fn all_to_all(cluster: &Cluster) -> impl Iterator<Item = (u32, u32)> {
    let (nics, of_host) = (cluster.nics(), cluster.nics_per_host);
    let group = 8 * of_host;
    (0..nics)
        .flat_map(move |nic| (1..8).map(move |step| (nic, nic / group * group + (nic + step * of_host) % group)))
        .filter(move |(from, to)| from != to && *to < nics)
}

fn plan(cluster: &Cluster, pairs: impl Iterator<Item = (u32, u32)>) -> Planner {
    let mut planner = Planner::new(cluster, &Working::of(cluster), true);
    let mut moved = Vec::new();
    for (from, to) in pairs {
        moved.clear();
        planner.request(from, to, 8, &mut moved);
    }
    planner
}

#[divan::bench(sample_count = 10)]
fn ring_of_10_000_gpus(bencher: Bencher) {
    let cluster = cluster();
    bencher.bench(|| plan(black_box(&cluster), ring(&cluster)));
}

#[divan::bench(sample_count = 10)]
fn ring_of_10_000_gpus_with_source_ports(bencher: Bencher) {
    let cluster = cluster();
    let working = Working::of(&cluster);
    bencher.bench(|| {
        let mut planner = Planner::new(&cluster, &working, true);
        let search = PortSearch::new(&cluster, &working);
        let mut moved = Vec::new();
        for (from, to) in ring(&cluster) {
            let qps = planner.request(from, to, 8, &mut moved);
            let routes: Vec<_> = qps.iter().filter_map(|id| planner.route(*id)).collect();
            black_box(search.ports(from, to, &routes, kelpie_paths::Leaving::Chosen));
        }
    });
}

#[divan::bench(sample_count = 10)]
fn all_to_all_in_groups_of_8_hosts(bencher: Bencher) {
    let cluster = cluster();
    bencher.bench(|| plan(black_box(&cluster), all_to_all(&cluster)));
}

/// One QP comes and goes.
#[divan::bench]
fn one_request_and_its_release(bencher: Bencher) {
    let cluster = cluster();
    let mut planner = plan(&cluster, ring(&cluster));
    let mut nic = 0;
    bencher.bench_local(move || {
        nic = (nic + 37) % 9000;
        let mut moved = Vec::new();
        let qps = planner.request(nic, nic + 808, 1, &mut moved);
        planner.release(qps[0], &mut moved);
        moved
    });
}

/// The same while a cable is down.
#[divan::bench]
fn one_request_and_its_release_with_a_failure(bencher: Bencher) {
    let cluster = cluster();
    let mut planner = plan(&cluster, ring(&cluster));
    planner.set(FabricPart::Cable { leaf: 0, spine: 0, cable: None }, false, &mut Vec::new());
    let mut nic = 0;
    bencher.bench_local(move || {
        nic = (nic + 37) % 9000;
        let mut moved = Vec::new();
        let qps = planner.request(nic, nic + 808, 1, &mut moved);
        planner.release(qps[0], &mut moved);
        moved
    });
}
