//! Settings of a run at packet level by name, for commands.

use kelpie_packets::congestion::{Algorithm, Dcqcn, Dctcp, Hpcc, Pint, Swift, Timely};
use kelpie_packets::{EcnCurve, MarkEcho, Network, Recovery, Settings, WindowRule};
use kelpie_spaces::headers;

/// Names of congestion control.
pub const ALGORITHMS: [&str; 9] =
    ["none", "dcqcn", "dcqcn-paper", "dcqcn-connectx", "hpcc", "pint", "timely", "dctcp", "swift"];

/// A setting that a command can change: name, unit, meaning.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its number counts.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    at: fn(&mut Settings) -> Option<Place<'_>>,
}

/// Where a setting lies.
enum Place<'s> {
    Count(&'s mut u32),
    Long(&'s mut u64),
    /// With so many in one of its unit.
    Scaled(&'s mut u64, f64),
    Number(&'s mut f64),
    Flag(&'s mut bool),
}

macro_rules! of {
    ($algorithm:ident, $field:ident, $place:ident) => {
        |settings| match &mut settings.algorithm {
            Algorithm::$algorithm(form) => Some(Place::$place(&mut form.$field)),
            _ => None,
        }
    };
}

/// All settings, in the order in which pages show them.
pub const KEYS: [Key; 46] = [
    key("payload", "bytes", "payload of a full packet, the path MTU", |s| Some(Place::Count(&mut s.payload))),
    key("packets_per_ack", "packets", "in-order packets for one acknowledgement", |s| {
        Some(Place::Count(&mut s.packets_per_ack))
    }),
    key("acks_first", "0 or 1", "acknowledgements go before data", |s| Some(Place::Flag(&mut s.acks_first))),
    key("buffer", "bytes", "shared buffer of a switch", |s| Some(Place::Long(&mut s.buffer.capacity))),
    key("buffer_reserve", "bytes", "of each port and class", |s| Some(Place::Long(&mut s.buffer.reserve))),
    key("headroom_delays", "rate times delay", "headroom of a port for PFC", |s| {
        Some(Place::Number(&mut s.buffer.headroom_delays))
    }),
    key("pfc", "0 or 1", "switches pause senders", |s| Some(Place::Flag(&mut s.buffer.pfc))),
    key("window_follows_rate", "0 or 1", "a window shrinks with the rate", |s| {
        Some(Place::Flag(&mut s.window_follows_rate))
    }),
    key("timeout_us", "µs", "a sender that hears nothing goes back", |s| Some(Place::Scaled(&mut s.timeout_ns, 1e3))),
    key("nack_interval_us", "µs", "least time between two NAKs for a packet", |s| {
        Some(Place::Scaled(&mut s.nack_interval_ns, 1e3))
    }),
    key("end_us", "µs", "the run ends then at the latest", |s| Some(Place::Scaled(&mut s.end_ns, 1e3))),
    key("dcqcn.gain", "share", "weight of new marks in alpha", of!(Dcqcn, gain, Number)),
    key("dcqcn.alpha_interval", "ns", "how often alpha moves", of!(Dcqcn, alpha_interval, Long)),
    key("dcqcn.decrease_interval", "ns", "least time between decreases", of!(Dcqcn, decrease_interval, Long)),
    key("dcqcn.increase_interval", "ns", "time between increases", of!(Dcqcn, increase_interval, Long)),
    key("dcqcn.recoveries", "increases", "half-way steps before the target rises", of!(Dcqcn, recoveries, Count)),
    key("dcqcn.additive", "bit/s", "how much the target rises", of!(Dcqcn, additive, Number)),
    key("dcqcn.hyper", "bit/s", "how much it rises later", of!(Dcqcn, hyper, Number)),
    key("dcqcn.least", "bit/s", "least rate", of!(Dcqcn, least, Number)),
    key("hpcc.target", "share", "share of a link that is used", of!(Hpcc, target, Number)),
    key("hpcc.additive", "bit/s", "how much a rate rises in a round trip", of!(Hpcc, additive, Number)),
    key("hpcc.most_rises", "rises", "rises in a row before rates multiply", of!(Hpcc, most_rises, Count)),
    key("hpcc.least", "bit/s", "least rate", of!(Hpcc, least, Number)),
    key("hpcc.reacts_fast", "0 or 1", "every acknowledgement changes the rate", of!(Hpcc, reacts_fast, Flag)),
    key("timely.alpha", "share", "weight of a new difference", of!(Timely, alpha, Number)),
    key("timely.beta", "share", "share of a decrease", of!(Timely, beta, Number)),
    key("timely.low", "ns", "below it rates rise", of!(Timely, low, Number)),
    key("timely.high", "ns", "above it rates fall", of!(Timely, high, Number)),
    key("timely.least_rtt", "ns", "what differences are measured by", of!(Timely, least_rtt, Number)),
    key("timely.additive", "bit/s", "how much a rate rises", of!(Timely, additive, Number)),
    key("timely.hyper", "bit/s", "how much it rises after five rises", of!(Timely, hyper, Number)),
    key("timely.least", "bit/s", "least rate", of!(Timely, least, Number)),
    key("dctcp.gain", "share", "weight of new marks in alpha", of!(Dctcp, gain, Number)),
    key("dctcp.additive", "bit/s", "how much a rate rises in a round trip", of!(Dctcp, additive, Number)),
    key("dctcp.least", "bit/s", "least rate", of!(Dctcp, least, Number)),
    key("swift.base", "ns", "target delay without hops", of!(Swift, base, Number)),
    key("swift.per_hop", "ns", "target delay of each hop", of!(Swift, per_hop, Number)),
    key("swift.additive", "packets", "how much a window rises in a round trip", of!(Swift, additive, Number)),
    key("swift.beta", "share", "share of a decrease", of!(Swift, beta, Number)),
    key("pint.target", "share", "share of a link that is used", of!(Pint, target, Number)),
    key("pint.additive", "bit/s", "how much a rate rises in a round trip", of!(Pint, additive, Number)),
    key("ecn_kmin", "bytes", "marks begin, at 100 Gbit/s; in proportion at other rates", |_| None),
    key("ecn_kmax", "bytes", "all is marked, at 100 Gbit/s", |_| None),
    key("ecn_pmax", "share", "marked share at ecn_kmax", |_| None),
    key("selective", "0 or 1", "only what is missing is sent again", |_| None),
    key("retries", "timeouts", "timeouts in a row before a QP is in error", |_| None),
];

const fn key(
    name: &'static str,
    unit: &'static str,
    about: &'static str,
    at: fn(&mut Settings) -> Option<Place<'_>>,
) -> Key {
    Key { name, unit, about, at }
}

/// Settings for a network: RoCEv2 frames, PFC, DCQCN or another algorithm at the rate of the slowest host link.
///
/// # Errors
/// If no algorithm has this name.
pub fn settings(network: &Network, algorithm: &str) -> Result<Settings, String> {
    let mut rates: Vec<f64> = network.links.iter().map(|link| link.gbps).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let line = rates.first().copied().unwrap_or(100.0) * 1e9;
    let (algorithm, echo) = match algorithm {
        "none" => (Algorithm::None, MarkEcho::Acknowledgement),
        "dcqcn" => (Algorithm::Dcqcn(Dcqcn::of_hpcc_simulator(line)), MarkEcho::Acknowledgement),
        "dcqcn-paper" => (Algorithm::Dcqcn(Dcqcn::of_paper(line)), Dcqcn::CNP_OF_PAPER),
        "dcqcn-connectx" => (Algorithm::Dcqcn(Dcqcn::of_connectx()), Dcqcn::CNP_OF_CONNECTX),
        "hpcc" => (Algorithm::Hpcc(Hpcc::of_hpcc_simulator(line)), MarkEcho::Acknowledgement),
        "pint" => (Algorithm::Pint(Pint::of_hpcc_simulator(line)), MarkEcho::Acknowledgement),
        "timely" => (Algorithm::Timely(Timely::of_paper(line)), MarkEcho::Acknowledgement),
        // By rate, as in HPCC's simulator.
        "dctcp" => {
            let dctcp = Dctcp { gain: 1.0 / 16.0, additive: 615e6 * line / 100e9, least: 100e6 };
            (Algorithm::Dctcp(dctcp), MarkEcho::Acknowledgement)
        }
        "swift" => (Algorithm::Swift(Swift::of_paper()), MarkEcho::Acknowledgement),
        other => return Err(format!("no congestion control `{other}`; write one of {}", ALGORITHMS.join(", "))),
    };
    // What switches write: five hops of HPCC, or a byte of PINT.
    let telemetry = match algorithm {
        Algorithm::Hpcc(_) => 42,
        Algorithm::Pint(_) => 1,
        _ => 0,
    };
    let is_paper = algorithm == Algorithm::Dcqcn(Dcqcn::of_paper(line));
    let curve = |gbps: &f64| {
        // Source: DCTCP by rate in HPCC's simulator, 300 KB at 100 Gbit/s.
        if matches!(algorithm, Algorithm::Dctcp(_)) {
            return (*gbps, EcnCurve { kmin: 3e3 * gbps, kmax: 3e3 * gbps, pmax: 1.0 });
        }
        let of = if is_paper { Dcqcn::curve_of_paper } else { Dcqcn::curve_of_hpcc_simulator };
        (*gbps, of(gbps * 1e9))
    };
    let window = match algorithm {
        Algorithm::Hpcc(_) | Algorithm::Pint(_) | Algorithm::Dctcp(_) => WindowRule::Bdp,
        _ => WindowRule::None,
    };
    Ok(Settings {
        payload: 4096,
        overhead: headers::PACKET_OVERHEAD as u32 + telemetry,
        ack_bytes: (headers::PACKET_OVERHEAD + headers::AETH) as u32 + telemetry,
        ecn: rates.iter().map(curve).collect(),
        echo,
        window,
        window_follows_rate: window == WindowRule::Bdp,
        largest_rtt: false,
        nack_interval_ns: 10_000,
        timeout_ns: 4096 << 8,
        end_ns: 3_600_000_000_000,
        ..Settings::base(algorithm)
    })
}

/// Changes a setting, given as `name=value`.
///
/// # Errors
/// Says what is wrong with it.
pub fn set(settings: &mut Settings, assignment: &str) -> Result<(), String> {
    let shown: String = assignment.chars().filter(|letter| !letter.is_control()).take(60).collect();
    let (name, value) = assignment.split_once('=').ok_or_else(|| format!("`{shown}`: write name=value"))?;
    let number: Option<f64> = value.parse().ok().filter(|number: &f64| (0.0..=1e15).contains(number));
    let number = number.ok_or_else(|| format!("`{shown}`: write a number from 0"))?;
    if name == "retries" {
        settings.retries =
            if number <= 200.0 { number as u8 } else { return Err(format!("`{shown}`: write 0 to 200")) };
        return Ok(());
    }
    if let Some(at) = ["ecn_kmin", "ecn_kmax", "ecn_pmax"].iter().position(|known| *known == name) {
        for (gbps, curve) in &mut settings.ecn {
            match at {
                0 => curve.kmin = number * *gbps / 100.0,
                1 => curve.kmax = number * *gbps / 100.0,
                _ => curve.pmax = number.min(1.0),
            }
        }
        let is_kept = settings.ecn.iter().all(|(_, curve)| curve.kmin <= curve.kmax);
        return if is_kept { Ok(()) } else { Err("ecn_kmin is at most ecn_kmax; set the larger one first".to_owned()) };
    }
    if name == "selective" {
        settings.recovery = if number == 0.0 { Recovery::GoBackN } else { Recovery::IRN };
        return Ok(());
    }
    let Some(key) = KEYS.iter().find(|key| key.name == name) else {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        return Err(format!("no setting `{}`; there are {}", name.escape_default(), names.join(", ")));
    };
    match (key.at)(settings) {
        None => return Err(format!("`{name}`: the run has another congestion control")),
        Some(Place::Count(place)) => *place = number.min(f64::from(u32::MAX)) as u32,
        Some(Place::Long(place)) => *place = number as u64,
        Some(Place::Scaled(place, each)) => *place = (number * each) as u64,
        Some(Place::Number(place)) => *place = number,
        Some(Place::Flag(place)) => *place = number != 0.0,
    }
    let limits = [
        (settings.payload >= 64 && settings.payload <= 32_768, "payload: write 64 to 32768"),
        (settings.packets_per_ack >= 1, "packets_per_ack: write at least 1"),
    ];
    let zero_interval = matches!(&settings.algorithm, Algorithm::Dcqcn(form)
        if form.alpha_interval == 0 || form.increase_interval == 0);
    if zero_interval {
        return Err("intervals of alpha and of increases: write at least 1".to_owned());
    }
    limits.iter().find(|(kept, _)| !kept).map_or(Ok(()), |(_, rule)| Err((*rule).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_changed_and_mistakes_are_named() {
        for algorithm in ALGORITHMS {
            let mut settings = settings(&Network::default(), algorithm).expect(algorithm);
            let before = settings.clone();
            for key in KEYS.iter().filter(|key| key.name != "payload") {
                let family = algorithm.split('-').next().expect("a word");
                let own = key.name.split_once('.').is_none_or(|(of, _)| of == family);
                let zero_or_more = if key.unit == "0 or 1" { "0" } else { "77" };
                assert_eq!(set(&mut settings, &format!("{}={zero_or_more}", key.name)).is_ok(), own, "{}", key.name);
            }
            assert_ne!(settings, before);
        }
        let mut settings = settings(&Network::default(), "dcqcn").expect("known");
        for (wrong, expected) in [
            ("payload", "write name=value"),
            ("payload=x", "write a number"),
            ("payload=1", "write 64 to"),
            ("hpcc.target=1", "another congestion control"),
            ("paylod=4096", "no setting `paylod`"),
        ] {
            assert!(set(&mut settings, wrong).expect_err(wrong).contains(expected));
        }
    }
}
