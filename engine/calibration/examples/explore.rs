//! scratch
use kelpie_calibration::{plan::plan, simulator::*, parameters::*};
use kelpie_sim::SimSubsystem;
use std::sync::atomic::AtomicBool;
fn main() {
    let base = SimSubsystem::load(&std::env::args().nth(1).unwrap_or("F".into())).unwrap();
    let ps: Vec<Based> = PARAMETERS.iter().map(|p| p.over(&base)).collect();
    let rows = plan(&base);
    let t: Vec<_> = rows.iter().map(|r| &r.traffic).collect();
    let stop = AtomicBool::new(false);
    let mut pr = |_| ();
    let mut s = Simulator::new(&base, &ps, &t, 100000, &stop, &mut pr);
    let zero = vec![0.0; ps.len()];
    let all: Vec<usize> = (0..t.len()).collect();
    let mut seeds = vec![];
    for seed in 1..4 { seeds.push(s.see(&[(&zero, &all)], seed).unwrap().remove(0)); }
    let mut pts = vec![];
    for k in 0..ps.len() { for f in [0.9f64, 1.1] { let mut x = zero.clone(); x[k] = if ps[k].parameter.is_count { if f<1.0 {(1.0-1.0/ps[k].base).ln()} else {(1.0+1.0/ps[k].base).ln()} } else { f.ln() }; pts.push(x); } }
    let seen = s.see(&pts.iter().map(|p| (p, &all[..])).collect::<Vec<_>>(), 1).unwrap();
    for (i, r) in rows.iter().enumerate() {
        let g = seeds[0][i];
        let sp = seeds.iter().map(|s| (s[i].goodput_bps / g.goodput_bps).ln().abs()).fold(0.0, f64::max);
        print!("{:?} {}B q{} d{} b{} mtu{} mrs{} {:?}: {:.3}G {:.1}M spread {:.1}% pause {:.1}  |", r.traffic.operation, r.traffic.size_bytes, r.traffic.qps, r.traffic.depth, r.traffic.batch, r.traffic.mtu.bytes(), r.traffic.mrs_per_qp, r.traffic.path, g.goodput_bps / 1e9, g.goodput_bps / 8e6 / r.traffic.size_bytes as f64, sp * 100.0, g.pause_ratio * 100.0);
        for k in 0..ps.len() {
            let d: Vec<f64> = (0..2).map(|j| (seen[2 * k + j][i].goodput_bps / g.goodput_bps).ln() / pts[2 * k + j][k]).collect();
            if d.iter().any(|d| d.abs() > 0.08) { print!(" {}({:.2},{:.2})", ps[k].parameter.path.split_once('.').unwrap().1, d[0], d[1]); }
            let d: Vec<f64> = (0..2).map(|j| seen[2 * k + j][i].pause_ratio - g.pause_ratio).collect();
            if d.iter().any(|d| d.abs() > 0.03) { print!(" {}P({:.2},{:.2})", ps[k].parameter.path.split_once('.').unwrap().1, d[0], d[1]); }
        }
        println!();
    }
    println!("{} rows, {} experiments", rows.len(), s.experiments());
}
