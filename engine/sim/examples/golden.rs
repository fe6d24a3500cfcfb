//! Scratch.
#[path = "../../../tests/golden/cases.rs"]
mod cases;
use cases::*;
use kelpie_engine::Subsystem;
use kelpie_monitor::assess;
use kelpie_sim::SimSubsystem;
fn show(s: &mut SimSubsystem, name: &str, p: &Point) {
    let w = p.workload();
    if let Err(e) = kelpie_spaces::check(&w) { println!("{name:34} INVALID {e:?}"); return; }
    let t = std::time::Instant::now();
    let m = s.measure(&w).unwrap();
    let el = t.elapsed();
    let b = s.bounds();
    let a = assess(&w, &b, &m);
    let mean = m.mean().unwrap();
    let d: Vec<String> = mean.directions.iter().map(|d| format!("{}{} {:.1}G w{:.0}% p{:.1}M", d.from, d.to, d.goodput_bps/1e9, 100.0*d.wire_bps/b.max_bps, d.packets_per_sec/1e6)).collect();
    if std::env::var("S").is_ok() { for s in &m.samples { println!("   {:.0}G {:?} {:?}", s.directions[0].goodput_bps/1e9, s.pause.map(|p| p.a.tx), s.counters.a); } } if std::env::var("V").is_ok() { for (k,v) in &mean.counters.b { println!("        b {k} {v:.0}"); } } let p = mean.pause.unwrap();
    println!("{name:34} {:?} {:?} pause tx {:.1}/{:.1} [{}] {} {:.0}ms {}k sq {:.2}", a.verdict, a.symptoms, p.a.tx*100.0, p.b.tx*100.0, d.join(", "), s.limiting(), el.as_secs_f64()*1e3, s.packets()/1000,
      mean.counters.a.get("engine_send_queue_full_ratio").copied().unwrap_or(-1.0));
}
fn main() {
    let only: Option<u32> = std::env::args().nth(1).and_then(|a| a.parse().ok());
    for a in &ANOMALIES {
        if only.is_some_and(|o| o != a.id) { continue; }
        let mut s = SimSubsystem::load(a.subsystem).unwrap();
        show(&mut s, &format!("#{} trigger", a.id), &trigger(a.id));
        for (name, f) in a.broken { let mut p = trigger(a.id); f(&mut p); show(&mut s, &format!("   {name}"), &p); }
        let mut f = SimSubsystem::load(a.subsystem).unwrap();
        if f.fix(a.id).is_ok() { show(&mut f, "   FIX", &trigger(a.id)); }
    }
}
