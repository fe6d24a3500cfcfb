//! Scratch.
use kelpie_engine::Subsystem;
use kelpie_monitor::assess;
use kelpie_sim::SimSubsystem;
use rand::SeedableRng;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args[2].parse().unwrap();
    let mut s = SimSubsystem::load(&args[1]).unwrap();
    let space = kelpie_spaces::Space::catalog("full").unwrap();
    let mut rng = rand_pcg::Pcg64Mcg::seed_from_u64(5);
    let mut times = vec![]; let mut tally = std::collections::BTreeMap::<String, usize>::new();
    let mut slow: Vec<(f64, String)> = vec![];
    for _ in 0..n {
        let w = space.sample(&mut rng);
        let t = std::time::Instant::now();
        let Ok(m) = s.measure(&w) else { *tally.entry("unsupported".into()).or_default() += 1; continue };
        let el = t.elapsed().as_secs_f64() * 1e3; times.push(el);
        let a = assess(&w, &s.bounds(), &m);
        slow.push((el, format!("{} pk {}", w.flows.iter().map(|f| format!("{}{} {} qps{} mtu{} d{:?} b{:?} pat{} mr{}", f.from, f.to, f.qp_type, f.qps, f.mtu.bytes(), f.wq_depth.send, f.batch.send, f.pattern.iter().map(|r| format!("{}{:?} ", r.op, r.sge.iter().map(|b| b.0).collect::<Vec<_>>())).collect::<String>(), f.memory.from.mrs)).collect::<Vec<_>>().join(" | "), s.packets())));
        let key = format!("{:?} {:?} {}", a.verdict, a.symptoms, if format!("{:?}", a.verdict) == "Healthy" { String::new() } else { s.limiting().to_string() });
        if args.len() > 3 && key.contains(&args[3]) { println!("{key} {}", slow.last().unwrap().1); let mean = m.mean().unwrap(); for d in &mean.directions { println!("     {}{} wire {:.2} goodput {:.1}G pps {:.2}M sq {:?}", d.from, d.to, d.wire_bps / s.bounds().max_bps, d.goodput_bps/1e9, d.packets_per_sec/1e6, mean.counters.a.get("engine_send_queue_full_ratio")); } }
        *tally.entry(key).or_default() += 1;
    }
    times.sort_by(f64::total_cmp);
    println!("median {:.1} ms, p90 {:.1}, max {:.1}, mean {:.1}", times[times.len()/2], times[times.len()*9/10], times[times.len()-1], times.iter().sum::<f64>()/times.len() as f64);
    for (k, v) in &tally { println!("{v:5} {k}"); }
    slow.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (t, w) in slow.iter().take(5) { println!("{t:.0}ms {}", &w[..w.len().min(300)]); }
}
