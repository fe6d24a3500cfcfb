//! What cable and path count: links that went down, symbols that were lost or corrected, packets sent again.
//! Since boot, and between two readings if there are two.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::check::{Check, CheckState};
use crate::checks::{CheckKind, Gauge, Repair};
use crate::counters::TIMEOUTS;
use crate::machine::{Machine, PortLink, speed};
use crate::rates::advance;
use crate::sources::{CounterSource, ETHTOOL_PREFIX, PortSources, Reading, without_slave};

/// What a group of counters counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The link went down.
    Down,
    /// The link was trained again without going down.
    Recovered,
    /// Symbols or blocks that error correction could not restore.
    Symbols,
    /// Packets with a wrong checksum, or otherwise broken.
    Broken,
    /// Bits that error correction restored.
    Corrected,
    /// Packets that were sent again because one was missing at the peer.
    Resent,
    /// Requests that were sent again because no answer came.
    Timeouts,
    /// Packets that arrived before another one.
    Missing,
    /// Packets that found no room in the port's buffer.
    NoRoom,
    /// Packets and messages for which the application had posted no buffer.
    NoBuffer,
    /// Times that the NIC gave up pausing, because it had been paused for too long.
    Storm,
}

/// Counters by what they count. Drivers count one event under several names, so of one event the largest holds.
///
/// Source: IBTA volume 1, section 16.1.3.5; kernel `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/
/// counters.rst`, `drivers/infiniband/hw/{mlx5/counters,bnxt_re/hw_counters,efa/efa_verbs,mana/counters}.c`,
/// `drivers/net/ethernet/{broadcom/bnxt/bnxt,intel/ice/ice}_ethtool.c`, `pensando/ionic/ionic_stats.c`,
/// `hisilicon/hns3/hns3pf/hclge_main.c`, `Documentation/ABI/testing/sysfs-class-net{,-statistics}`.
const COUNTERS: [(Event, &str); 38] = [
    (Event::Down, "link_downed"),
    (Event::Down, "ethtool.link_down_events_phy"),
    (Event::Down, "ethtool.link_down_events"),
    (Event::Recovered, "link_error_recovery"),
    (Event::Symbols, "symbol_error"),
    (Event::Symbols, "local_link_integrity_errors"),
    (Event::Symbols, "ethtool.rx_symbol_err_phy"),
    (Event::Symbols, "ethtool.rx_pcs_symbol_err_phy"),
    (Event::Symbols, "ethtool.rx_pcs_symbol_err"),
    (Event::Symbols, "ethtool.rx_fec_uncorrectable_blocks"),
    (Event::Broken, "port_rcv_errors"),
    (Event::Broken, "rx_icrc_encapsulated"),
    (Event::Broken, "ethtool.rx_crc_errors_phy"),
    (Event::Broken, "ethtool.rx_fcs_err_frames"),
    (Event::Broken, "ethtool.rx_crc_errors.nic"),
    (Event::Broken, "ethtool.frames_rx_bad_fcs"),
    (Event::Broken, "ethtool.mac_rx_fcs_err_pkt_num"),
    (Event::Broken, "net.rx_crc_errors"),
    (Event::Corrected, "ethtool.rx_corrected_bits_phy"),
    (Event::Corrected, "ethtool.rx_corrected_bits"),
    (Event::Resent, "packet_seq_err"),
    (Event::Resent, "implied_nak_seq_err"),
    (Event::Resent, "seq_err_naks_rcvd"),
    (Event::Resent, "retrans_pkts"),
    (Event::Resent, "requester_oos_nak"),
    (Event::Timeouts, TIMEOUTS),
    (Event::Timeouts, "to_retransmits"),
    (Event::Timeouts, "retrans_timeout_events"),
    (Event::Timeouts, "requester_timeout"),
    (Event::Missing, "out_of_sequence"),
    (Event::Missing, "oos_drop_count"),
    (Event::NoRoom, "ethtool.rx_discards_phy"),
    (Event::NoRoom, "ethtool.rx_discards"),
    (Event::NoRoom, "rx_roce_discards"),
    (Event::NoBuffer, "ethtool.rx_out_of_buffer"),
    (Event::NoBuffer, "out_of_buffer"),
    (Event::Storm, "ethtool.tx_pause_storm_error_events"),
    (Event::Storm, "ethtool.tx_pause_storm_warning_events"),
];

/// What stands for the links that went down if nothing better is counted: an interface that is set down counts too.
const DOWN_OR_SET_DOWN: &str = "net.carrier_down_count";

/// Counters of packets: sent, and received.
const PACKETS: [&[&str]; 2] = [
    &["port_xmit_packets", "tx_pkts", "ethtool.tx_vport_rdma_unicast_packets"],
    &["port_rcv_packets", "rx_pkts", "ethtool.rx_vport_rdma_unicast_packets"],
];

/// Bits of the counters of `PortCounters` that stop at their end. `SysfsSource` leaves these out of
/// its readings, because they have no rate any more; what they say is "at least so many".
const STOPPED: [(&str, u64); 5] = [
    ("link_downed", 0xff),
    ("link_error_recovery", 0xff),
    ("symbol_error", 0xffff),
    ("port_rcv_errors", 0xffff),
    ("local_link_integrity_errors", 0xf),
];

/// The counters of a port that tell of errors, and those of its packets.
pub fn read(machine: &Machine, link: &PortLink) -> Reading {
    let mut all = PortSources::on(machine, &link.device, link.port).read().unwrap_or_default();
    for (name, end) in STOPPED {
        let value: Option<u64> = machine.number(&link.port_file(&format!("counters/{name}")));
        all.extend(value.filter(|value| *value == end).map(|value| (name.to_owned(), value)));
    }
    for (index, wire) in link.wires.iter().enumerate() {
        let prefix = if link.wires.len() > 1 { format!("slave{index}.") } else { String::new() };
        for (name, file) in
            [("carrier_down_count", "carrier_down_count"), ("rx_crc_errors", "statistics/rx_crc_errors")]
        {
            let value = machine.number(&format!("sys/class/net/{wire}/{file}"));
            all.extend(value.map(|value| (format!("{prefix}net.{name}"), value)));
        }
    }
    let lane = |name: &str| name.starts_with(&format!("{ETHTOOL_PREFIX}rx_err_lane_"));
    let is_wanted = |name: &str| {
        COUNTERS.iter().any(|(_, wanted)| *wanted == name) || PACKETS.concat().contains(&name) || lane(name)
    };
    let counts_downs = |name: &str| COUNTERS.contains(&(Event::Down, name));
    let has_better = all.keys().any(|name| counts_downs(without_slave(name)));
    all.retain(|name, _| {
        let name = without_slave(name);
        is_wanted(name) || (name == DOWN_OR_SET_DOWN && !has_better)
    });
    all
}

/// Time since the host was started. Units: seconds. Source: proc(5), `/proc/uptime`.
pub fn uptime(machine: &Machine) -> Option<f64> {
    machine.text("proc/uptime")?.split_whitespace().next()?.parse().ok()
}

/// The advance of each counter between two readings of a port.
#[derive(Debug, Clone, PartialEq)]
pub struct Between {
    /// Time between them. Units: seconds.
    pub seconds: f64,
    /// What was counted in this time, by counter; one that was reset is missing.
    pub counted: Reading,
}

impl Between {
    /// What was counted from `before` to `after`.
    pub fn new(before: &Reading, after: &Reading, seconds: f64) -> Self {
        let moved = after.iter().filter_map(|(name, now)| Some((name.clone(), advance(*before.get(name)?, *now)?)));
        Self { seconds, counted: moved.collect() }
    }

    /// What two hosts are compared by, by name: errors per second. Of counters that the host has not there is no rate.
    pub fn rates(&self) -> BTreeMap<String, f64> {
        let counts = counts(&self.counted);
        let per_sec = |events: &[Event]| {
            let counted: Vec<u64> = events.iter().filter_map(|event| Some(counts.get(event)?.count)).collect();
            (!counted.is_empty()).then(|| counted.iter().sum::<u64>() as f64 / self.seconds)
        };
        let cable = per_sec(&[Event::Down, Event::Recovered, Event::Symbols, Event::Broken]);
        let path = per_sec(&[Event::Resent, Event::Timeouts]);
        let named = [(CheckKind::SameCableRate, cable), (CheckKind::SameResentRate, path)];
        named.into_iter().filter_map(|(kind, rate)| Some((kind.name().to_owned(), rate?))).collect()
    }
}

/// What a reading has of an event.
#[derive(Debug, Clone, Default)]
struct Count {
    count: u64,
    name: String,
}

fn counts(reading: &Reading) -> BTreeMap<Event, Count> {
    let mut counts: BTreeMap<Event, Count> = BTreeMap::new();
    for (name, count) in reading {
        let mut known = COUNTERS.iter().chain([&(Event::Down, DOWN_OR_SET_DOWN)]);
        let Some((event, _)) = known.find(|(_, wanted)| *wanted == without_slave(name)) else { continue };
        let known = counts.entry(*event).or_insert_with(|| Count { count: *count, name: name.clone() });
        if *count > known.count {
            *known = Count { count: *count, name: name.clone() };
        }
    }
    counts
}

/// Where counters are, for people: the interface of a slave instead of its number.
fn place(link: &PortLink, name: &str) -> String {
    let short = without_slave(name);
    let slave = name.strip_suffix(short).and_then(|start| start.strip_prefix("slave")?.strip_suffix('.')?.parse().ok());
    let wire = slave.map_or(link.wires.first(), |index: usize| link.wires.get(index));
    match (short.strip_prefix(ETHTOOL_PREFIX), short.strip_prefix("net."), wire) {
        (Some(counter), _, Some(wire)) => format!("ethtool -S {wire}: {counter}"),
        (_, Some("rx_crc_errors"), Some(wire)) => format!("/sys/class/net/{wire}/statistics/rx_crc_errors"),
        (_, Some(file), Some(wire)) => format!("/sys/class/net/{wire}/{file}"),
        _ => format!("counter {short} of the port"),
    }
}

/// Links down, and trainings, that a sound cable may have since boot: those of starting and of a switch's upgrade, and
/// one more each month. Source: our choice.
fn allowed_downs(uptime: Option<f64>) -> f64 {
    const MONTH: f64 = 30.0 * 86_400.0;
    2.0 + uptime.map_or(0.0, |seconds| (seconds / MONTH).floor())
}

/// Symbols and packets that a sound cable may lose since boot: some at each training, and one each hour.
///
/// Source: our choice; a link of 100 Gbit/s with 1e-12 errors a bit, the most of IEEE 802.3, would lose hundreds an
/// hour before error correction, and next to none after.
pub fn allowed_errors(uptime: Option<f64>) -> f64 {
    10.0 + uptime.map_or(0.0, |seconds| seconds / 3600.0)
}

/// Share of bits to correct from which error correction has little left: a tenth of what it can stand.
///
/// Source: IEEE 802.3bs, section 119: RS(544,514) stands 2.4e-4; the tenth is our choice.
const MANY_CORRECTED: f64 = 2.4e-5;

/// Whether one lane has nearly all errors. Units: 1. Source: our choice.
const NEARLY_ALL: f64 = 0.9;

fn is_saturated(count: &Count) -> bool {
    STOPPED.iter().any(|(name, end)| *name == count.name && *end == count.count)
}

fn shown(count: &Count) -> String {
    let or_more = if is_saturated(count) { " or more" } else { "" };
    format!("{}{or_more}", grouped(count.count))
}

/// Digits in groups of three, because the order of a count matters more than the count.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A lane that nearly all errors of the wire come from.
fn bad_lane(reading: &Reading) -> Option<(String, u64)> {
    let is_lane = |name: &str| without_slave(name).starts_with("ethtool.rx_err_lane_");
    let lanes: Vec<(&String, &u64)> = reading.iter().filter(|(name, _)| is_lane(name)).collect();
    let all: u64 = lanes.iter().fold(0, |sum, (_, count)| sum.saturating_add(**count));
    let (name, count) = lanes.iter().max_by_key(|(_, count)| **count)?;
    let is_one = lanes.len() > 1 && **count as f64 > NEARLY_ALL * all as f64 && **count as f64 > allowed_errors(None);
    is_one.then(|| ((*name).clone(), **count))
}

/// Events of the cable, with the words before and after their number.
const OF_CABLE: [(Event, &str, &str, Gauge); 4] = [
    (Event::Down, "link down", "times", Gauge::LinkDowns),
    (Event::Recovered, "link trained again", "times", Gauge::LinkTrainings),
    (Event::Symbols, "", "symbol errors", Gauge::SymbolErrors),
    (Event::Broken, "", "broken packets", Gauge::BrokenPackets),
];

/// The check of the cable: since boot, and in the last seconds if there are two readings.
pub fn cable(machine: &Machine, link: &PortLink, reading: &Reading, between: Option<&Between>) -> Check {
    let uptime = uptime(machine);
    let since_boot = counts(reading);
    if OF_CABLE.iter().all(|(event, ..)| !since_boot.contains_key(event)) {
        return Check::new(CheckKind::Cable, CheckState::Unknown, "the port counts no errors of its cable")
            .seen(format!("/{}", link.port_file("counters")), "none of link_downed, symbol_error, port_rcv_errors");
    }
    let mut check = Check::new(CheckKind::Cable, CheckState::Pass, "");
    let mut words = Vec::new();
    let mut is_bad = false;
    for (event, before, after, gauge) in OF_CABLE {
        let Some(count) = since_boot.get(&event) else { continue };
        let is_link = matches!(event, Event::Down | Event::Recovered);
        let limit = if is_link { allowed_downs(uptime) } else { allowed_errors(uptime) };
        check = check.measured(gauge, count.count as f64, limit);
        if count.count > 0 {
            words.push(format!("{before} {} {after}", shown(count)).trim().to_owned());
            check = check.seen(place(link, &count.name), count.count.to_string());
        }
        is_bad |= count.count as f64 > limit;
    }
    let bits_per_sec = link.wires.iter().filter_map(|wire| speed(machine, wire)).reduce(f64::max);
    let share = |count: u64, seconds: f64| Some(count as f64 / (seconds * bits_per_sec?)).filter(|_| seconds > 0.0);
    let mut is_worn = false;
    if let Some(corrected) = since_boot.get(&Event::Corrected).filter(|corrected| corrected.count > 0) {
        check = check.measured(Gauge::CorrectedBits, corrected.count as f64, None);
        check = check.seen(place(link, &corrected.name), corrected.count.to_string());
        is_worn |= uptime.and_then(|uptime| share(corrected.count, uptime)).is_some_and(|share| share > MANY_CORRECTED);
        // A sound link of four levels corrects too, so the count is worth a word only beside others.
        if is_bad || is_worn {
            words.push(format!("{} corrected bits", shown(corrected)));
        }
    }
    let mut summary = match words.join(", ") {
        words if words.is_empty() => "no error since boot".to_owned(),
        words => format!("{words} since boot"),
    };
    if let Some(between) = between {
        let recent = counts(&between.counted);
        let (said, errors) = lately(link, between, &recent, &mut check);
        summary += &said;
        is_bad |= errors > 0;
        check = check.measured(Gauge::CableErrorRate, errors as f64 / between.seconds, 0.0);
        if let Some(share) = recent.get(&Event::Corrected).and_then(|bits| share(bits.count, between.seconds)) {
            check = check.measured(Gauge::CorrectedShare, share, MANY_CORRECTED);
            is_worn |= share > MANY_CORRECTED;
        }
    }
    if is_worn {
        summary += "; error correction has little left";
    }
    if is_bad || is_worn {
        check.state = CheckState::Warn;
        let lane = between.and_then(|between| bad_lane(&between.counted)).or_else(|| bad_lane(reading));
        if let Some((name, count)) = lane {
            let number: &str = name.rsplit("lane_").next().unwrap_or_default();
            let _ = write!(summary, "; nearly all on lane {}", number.trim_end_matches("_phy"));
            check = check.seen(place(link, &name), count.to_string());
        }
        check = check.repair(Repair::ChangeCable, &[]);
    }
    for count in since_boot.values().take(if check.evidence.is_empty() { 3 } else { 0 }) {
        check = check.seen(place(link, &count.name), count.count.to_string());
    }
    Check { summary, ..check }
}

/// What the cable counted between two readings, as words and as the number of errors; the evidence goes to `check`.
fn lately(link: &PortLink, between: &Between, recent: &BTreeMap<Event, Count>, check: &mut Check) -> (String, u64) {
    let seconds = rounded(between.seconds);
    let mut grown = Vec::new();
    let mut errors = 0;
    for (event, before, after, _) in OF_CABLE {
        let Some(count) = recent.get(&event).filter(|count| count.count > 0) else { continue };
        errors += count.count;
        let rate = match event {
            Event::Down => String::new(),
            _ => format!(" ({}/s)", rounded(count.count as f64 / between.seconds)),
        };
        grown.push(format!("{before} {} {after}{rate}", grouped(count.count)).trim().to_owned());
        let source = format!("{}, in {seconds} s", place(link, &count.name));
        *check = check.clone().seen(source, format!("{} more", count.count));
    }
    let grown = if grown.is_empty() { "none".to_owned() } else { grown.join(", ") };
    (format!("; {grown} in the last {seconds} s"), errors)
}

/// Two digits behind the point at most, and none of a number of tens.
fn rounded(value: f64) -> String {
    let text = if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Share of packets that are sent again from which a sender of `RoCE` is slowed: of each it goes back some hundred
/// packets. Source: our choice, a tenth of the loss that `kelpie paths` fails at.
const RESENT_SHARE: f64 = 1e-4;

/// Fewest retransmissions and timeouts since boot that say anything: each job that is killed leaves some.
const FEW_RESENT: u64 = 100;

/// The check of the path: packets sent again, requests without an answer, packets that arrived out of order.
pub fn path(link: &PortLink, reading: &Reading, between: Option<&Between>) -> Check {
    let since_boot = counts(reading);
    let kinds = [
        (Event::Resent, "retransmissions", Gauge::Retransmissions),
        (Event::Timeouts, "timeouts", Gauge::Timeouts),
        (Event::Missing, "packets out of order", Gauge::OutOfOrder),
    ];
    let mut check = Check::new(CheckKind::Retransmissions, CheckState::Pass, "");
    if kinds.iter().all(|(event, ..)| !since_boot.contains_key(event)) {
        return Check {
            state: CheckState::Unknown,
            summary: "the device counts no retransmissions".to_owned(),
            ..check
        }
        .seen(format!("/{}", link.port_file("hw_counters")), "none of packet_seq_err, local_ack_timeout_err");
    }
    let mut words = Vec::new();
    for (event, name, gauge) in kinds {
        let Some(count) = since_boot.get(&event) else { continue };
        check = check.measured(gauge, count.count as f64, None).seen(place(link, &count.name), count.count.to_string());
        if count.count > 0 {
            words.push(format!("{} {name}", grouped(count.count)));
        }
    }
    let (since, of_boot) = judged(reading);
    let mut summary = match words.join(", ") {
        words if words.is_empty() => "none since boot".to_owned(),
        words => format!("{words} since boot{since}"),
    };
    let mut verdict = of_boot;
    if let Some(between) = between {
        let (_, now) = judged(&between.counted);
        let recent = counts(&between.counted);
        let seconds = rounded(between.seconds);
        let mut grown = Vec::new();
        for (event, name, _) in kinds {
            let Some(count) = recent.get(&event).filter(|count| count.count > 0) else { continue };
            let rate = count.count as f64 / between.seconds;
            grown.push(format!("{} {name} ({}/s)", grouped(count.count), rounded(rate)));
        }
        let again = [Event::Resent, Event::Timeouts].iter().filter_map(|event| recent.get(event));
        let again: u64 = again.map(|count| count.count).sum();
        check = check.measured(Gauge::ResentRate, again as f64 / between.seconds, None);
        // What happens now counts, and not what a job of last week left.
        verdict = now;
        let grown = if grown.is_empty() { "none".to_owned() } else { grown.join(", ") };
        let _ = write!(summary, "; {grown} in the last {seconds} s");
    }
    match verdict {
        Verdict::Fine => {}
        Verdict::Lossy => {
            check.state = CheckState::Warn;
            check = check.repair(Repair::LookAtLoss, &[]);
        }
        Verdict::OutOfOrder => {
            check.state = CheckState::Unknown;
            summary += ": either packets were lost on the way here, or the fabric routes adaptively and none was";
            check = check.repair(Repair::LookAtSender, &[]);
        }
    }
    Check { summary, ..check }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Fine,
    Lossy,
    /// Only the receiver's count is high: adaptive routing has the same sign.
    OutOfOrder,
}

/// What counts say of the path, and their share of the packets as words.
fn judged(reading: &Reading) -> (String, Verdict) {
    let counts = counts(reading);
    let count = |event| counts.get(&event).map_or(0, |count| count.count);
    let [sent, received] = PACKETS.map(|names| names.iter().filter_map(|name| reading.get(*name)).copied().max());
    let share = |count: u64, packets: Option<u64>| Some(count as f64 / packets.filter(|packets| *packets > 0)? as f64);
    let resent = count(Event::Resent).saturating_add(count(Event::Timeouts));
    let is_many =
        |count: u64, packets| count >= FEW_RESENT && share(count, packets).is_none_or(|share| share >= RESENT_SHARE);
    let words = match share(resent, sent) {
        Some(share) if resent > 0 => format!(", {} of {} packets sent", per_packets(share), grouped(sent.unwrap_or(0))),
        _ => String::new(),
    };
    let verdict = match () {
        () if is_many(resent, sent) => Verdict::Lossy,
        () if is_many(count(Event::Missing), received) => Verdict::OutOfOrder,
        () => Verdict::Fine,
    };
    (words, verdict)
}

fn per_packets(share: f64) -> String {
    if share >= 1.0 { "more than all".to_owned() } else { format!("{:.2} %", share * 100.0) }
}

/// The check of what the port itself dropped: packets without room, messages without a buffer, pause that went on.
pub fn drops(link: &PortLink, reading: &Reading, between: Option<&Between>) -> Check {
    let kinds = [
        (Event::NoRoom, "packets without room in the port's buffer", Gauge::NoRoom),
        (Event::NoBuffer, "without a posted buffer", Gauge::NoBuffer),
        (Event::Storm, "pause storms", Gauge::PauseStorms),
    ];
    let since_boot = counts(reading);
    let mut check = Check::new(CheckKind::Drops, CheckState::Pass, "");
    if kinds.iter().all(|(event, ..)| !since_boot.contains_key(event)) {
        let summary = "the port counts no packets that it dropped".to_owned();
        return Check { state: CheckState::Unknown, summary, ..check }
            .seen(format!("/{}", link.port_file("hw_counters")), "none of rx_discards_phy, out_of_buffer");
    }
    let received = |reading: &Reading| PACKETS[1].iter().filter_map(|name| reading.get(*name)).copied().max();
    let is_many = |event: Event, count: u64, packets: Option<u64>| match event {
        Event::Storm => count > 0,
        _ => count >= FEW_RESENT && packets.is_none_or(|packets| count as f64 >= RESENT_SHARE * packets as f64),
    };
    let mut words = Vec::new();
    let mut bad = Vec::new();
    for (event, name, gauge) in kinds {
        let Some(count) = since_boot.get(&event) else { continue };
        let limit = (event == Event::Storm).then_some(0.0);
        check =
            check.measured(gauge, count.count as f64, limit).seen(place(link, &count.name), count.count.to_string());
        if count.count > 0 {
            words.push(format!("{} {name}", grouped(count.count)));
        }
        if between.is_none() && is_many(event, count.count, received(reading)) {
            bad.push(event);
        }
    }
    let mut summary = match words.join(", ") {
        words if words.is_empty() => "none since boot".to_owned(),
        words => format!("{words} since boot"),
    };
    if let Some(between) = between {
        let recent = counts(&between.counted);
        let seconds = rounded(between.seconds);
        let mut grown = Vec::new();
        for (event, name, _) in kinds {
            let Some(count) = recent.get(&event).filter(|count| count.count > 0) else { continue };
            let rate = rounded(count.count as f64 / between.seconds);
            grown.push(format!("{} {name} ({rate}/s)", grouped(count.count)));
            // What happens now counts, and not what a job of last week left.
            if is_many(event, count.count, received(&between.counted)) {
                bad.push(event);
            }
        }
        let grown = if grown.is_empty() { "none".to_owned() } else { grown.join(", ") };
        let _ = write!(summary, "; {grown} in the last {seconds} s");
    }
    if !bad.is_empty() {
        check.state = CheckState::Warn;
    }
    for event in bad {
        check = match event {
            Event::NoBuffer => check.repair(Repair::PostBuffers, &[]),
            Event::Storm => check.repair(Repair::FindStorm, &[]),
            _ => check.repair(Repair::LookAtRoom, &[]),
        };
    }
    Check { summary, ..check }
}
