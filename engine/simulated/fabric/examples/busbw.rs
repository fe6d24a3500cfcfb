use kelpie_collectives::program::Programs;
use kelpie_fabric::carried::{QpUse, network, traffic};
use kelpie_fabric::peer::{Peer, settings};
use kelpie_topology::{Fabric, FabricGraph};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (topo, job) = (std::fs::read_to_string(&args[1]).unwrap(), std::fs::read_to_string(&args[2]).unwrap());
    let conf = std::fs::read_to_string(&args[3]).unwrap();
    let graph = FabricGraph::of(&Fabric::from_yaml("t", &topo).unwrap());
    let (_, dag) = Programs::from_yaml("j", &job, graph.gpus(), graph.gpus_per_host).unwrap();
    let settings = settings(Peer::SimAi, "c", &conf).unwrap();
    let net = network(&graph);
    let use_ = if args.get(4).is_some_and(|a| !a.is_empty()) { QpUse::Lasting } else { QpUse::PerTransfer };
    let traffic = traffic(&dag, use_);
    let out = kelpie_packets::run(&net, &settings, &traffic, &[], 1).unwrap();
    let end = out.messages.iter().filter_map(|m| m.done).max().unwrap();
    println!("{} tasks, end {end} ns, undone {}, {:?}", dag.tasks.len(), out.messages.iter().filter(|m| m.done.is_none()).count(), out.counters);
    for (t, m) in dag.tasks.iter().zip(&out.messages).take(2000) {
        let c = dag.connections[t.connection as usize];
        if c.from == 0 && c.channel < 8 { println!("ch{} {}->{} {} posted {:?} recv {:?} done {:?}", c.channel, c.from, c.to, t.bytes, m.posted, m.received, m.done); }
    }
    let n: f64 = args.get(5).map_or(8.0, |n| n.parse().unwrap());
    let bytes: f64 = args.get(6).map_or(16777216.0, |n| n.parse().unwrap());
    println!("busbw {:.2} GiB/s", bytes / (1u64 << 30) as f64 * 2.0 * (n - 1.0) / n / (end as f64 / 1e9));
}
