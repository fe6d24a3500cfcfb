//! From a driver's pause counters to the share of time that a port was paused. One table of names; no I/O.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::measurement::PauseRatios;
use crate::rates::Rates;
use crate::sources::{ETHTOOL_PREFIX, LINK_SPEED, Reading};

/// Most time that one pause frame asks for. Units: bit times of the link.
/// Source: IEEE 802.3, annex 31B.2: up to 65,535 quanta of 512 bit times.
const LONGEST_PAUSE: f64 = 65_535.0 * 512.0;

/// Priorities of IEEE 802.1Q.
const PRIORITIES: u8 = 8;

/// Time in which bnxt reads its counters from the firmware at least once; in between it shows the old ones.
///
/// Units: ms. Source: kernel `drivers/net/ethernet/broadcom/bnxt/bnxt.h` (`BNXT_TIMER_INTERVAL`, a second), and
/// `kernel/time/timer.c`: timers are late by up to an eighth.
const BNXT_REFRESH_MS: u64 = 1_125;

/// What a counter of pause counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseUnit {
    /// Paused time. Units: µs.
    Micros,
    /// Frames, those that end a pause included if the driver does not count them apart.
    Frames,
}

/// What holds the port: frames of one priority, or of the whole link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseScope {
    Priority,
    Link,
}

/// Names of one kind of counter; `{}` stands for the priority.
#[derive(Debug)]
struct Names {
    drivers: &'static str,
    unit: PauseUnit,
    scope: PauseScope,
    tx: &'static str,
    rx: &'static str,
    /// Longest time that a counter may be old; 0 if each reading asks the NIC. Units: ms.
    refresh_ms: u64,
}

const fn names(drivers: &'static str, unit: PauseUnit, scope: PauseScope, tx: &'static str, rx: &'static str) -> Names {
    Names { drivers, unit, scope, tx, rx, refresh_ms: 0 }
}

const fn bnxt(unit: PauseUnit, tx: &'static str, rx: &'static str) -> Names {
    Names { refresh_ms: BNXT_REFRESH_MS, ..names("bnxt_en", unit, PauseScope::Priority, tx, rx) }
}

/// The counter of a priority, or of the link, of an interface as readings call it.
fn counter(interface: &str, name: &str, priority: u8) -> String {
    format!("{interface}{ETHTOOL_PREFIX}{}", name.replace("{}", &priority.to_string()))
}

/// What the names of each interface's counters begin with: nothing, or the slave of a bond.
fn interfaces<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<&'a str> {
    names.filter_map(|name| Some(name.split_once(ETHTOOL_PREFIX)?.0)).collect()
}

/// Of each scope the first row that an interface has counts: durations come before frames.
///
/// Source: kernel `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`, and the tables of
/// names in `drivers/net/ethernet/{broadcom/bnxt/bnxt,intel/ice/ice,intel/i40e/i40e,chelsio/cxgb4/cxgb4}_ethtool.c`
/// and `{hisilicon/hns3/hns3pf/hclge_main,pensando/ionic/ionic_stats,microsoft/mana/mana_ethtool}.c`.
const TABLE: [Names; 15] = [
    names("mlx5", PauseUnit::Micros, PauseScope::Priority, "tx_prio{}_pause_duration", "rx_prio{}_pause_duration"),
    names("mlx5", PauseUnit::Micros, PauseScope::Link, "tx_global_pause_duration", "rx_global_pause_duration"),
    bnxt(PauseUnit::Micros, "pfc_pri{}_tx_duration_us", "pfc_pri{}_rx_duration_us"),
    bnxt(PauseUnit::Frames, "tx_pfc_ena_frames_pri{}", "rx_pfc_ena_frames_pri{}"),
    // Without a time to refresh: bnxt has a row above beside this one, and cxgb4 is asked by each reading.
    names("bnxt_en cxgb4", PauseUnit::Frames, PauseScope::Link, "tx_pause_frames", "rx_pause_frames"),
    names("cxgb4", PauseUnit::Frames, PauseScope::Priority, "tx_ppp{}_frames", "rx_ppp{}_frames"),
    names("ice", PauseUnit::Frames, PauseScope::Priority, "tx_priority_{}_xoff.nic", "rx_priority_{}_xoff.nic"),
    names("ice", PauseUnit::Frames, PauseScope::Link, "link_xoff_tx.nic", "link_xoff_rx.nic"),
    names(
        "i40e",
        PauseUnit::Frames,
        PauseScope::Priority,
        "port.tx_priority_{}_xoff_tx",
        "port.rx_priority_{}_xoff_rx",
    ),
    names("i40e", PauseUnit::Frames, PauseScope::Priority, "port.tx_priority_{}_xoff", "port.rx_priority_{}_xoff"),
    names("i40e", PauseUnit::Frames, PauseScope::Link, "port.link_xoff_tx", "port.link_xoff_rx"),
    names("ionic", PauseUnit::Micros, PauseScope::Priority, "tx_pripause_{}_1us_count", "rx_pripause_{}_1us_count"),
    names("ionic", PauseUnit::Frames, PauseScope::Link, "frames_tx_pause", "frames_rx_pause"),
    names("mana", PauseUnit::Frames, PauseScope::Priority, "hc_tc{}_tx_pause_phy", "hc_tc{}_rx_pause_phy"),
    names("hns3", PauseUnit::Frames, PauseScope::Priority, "mac_tx_pfc_pri{}_pkt_num", "mac_rx_pfc_pri{}_pkt_num"),
];

/// The pause ratios of one host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostPause {
    /// Units: 0 to 1.
    pub ratios: PauseRatios,
    /// Frames were counted and not time: each stands for the longest pause that it can ask for, so that the ratios
    /// are the most they can be.
    pub is_upper_bound: bool,
}

/// Pause of one host from its counters per second; `None` if a side has no counter, or if frames were counted
/// and the speed of the link is unknown.
///
/// Of several interfaces (slaves of a bond) and priorities the one that was paused longest counts, and of priority and
/// link pause the longer.
pub fn host_pause(rates: &Rates) -> Option<HostPause> {
    let (tx, tx_bound) = side(rates, |names| names.tx)?;
    let (rx, rx_bound) = side(rates, |names| names.rx)?;
    Some(HostPause { ratios: PauseRatios { tx, rx }, is_upper_bound: tx_bound || rx_bound })
}

/// Whether any counter of pause that is sent, and of pause that is received, is there.
pub fn counts_pause(reading: &Reading) -> [bool; 2] {
    let counts = |name: fn(&Names) -> &'static str| {
        let has = |interface: &str, row: &Names| {
            (0..PRIORITIES).any(|priority| reading.contains_key(&counter(interface, name(row), priority)))
        };
        interfaces(reading.keys()).into_iter().any(|interface| TABLE.iter().any(|row| has(interface, row)))
    };
    [counts(|row| row.tx), counts(|row| row.rx)]
}

/// Shortest interval that says anything of a host's pause: the counters of a reading may be this old.
///
/// Units: ms; 0 if they are as old as the reading.
pub fn refresh_ms(reading: &Reading) -> u64 {
    let of_interface = |interface: &str| {
        let has = |row: &&Names| (0..PRIORITIES).any(|prio| reading.contains_key(&counter(interface, row.tx, prio)));
        TABLE.iter().filter(has).map(|row| row.refresh_ms).max()
    };
    interfaces(reading.keys()).into_iter().filter_map(of_interface).max().unwrap_or(0)
}

/// The ratio of one side, and whether it is an upper bound.
fn side(rates: &Rates, name: fn(&Names) -> &'static str) -> Option<(f64, bool)> {
    let of_scope = |interface, scope| {
        TABLE.iter().filter(|row| row.scope == scope).find_map(|row| ratio(rates, interface, row, name(row)))
    };
    let longer = |a: (f64, bool), b: (f64, bool)| if b.0 > a.0 { b } else { a };
    interfaces(rates.per_sec.keys())
        .into_iter()
        .flat_map(|interface| [PauseScope::Priority, PauseScope::Link].map(|scope| of_scope(interface, scope)))
        .flatten()
        .reduce(longer)
}

fn ratio(rates: &Rates, interface: &str, row: &Names, name: &str) -> Option<(f64, bool)> {
    let values = (0..PRIORITIES).filter_map(|priority| rates.per_sec.get(&counter(interface, name, priority)).copied());
    let per_sec = values.reduce(f64::max)?;
    let seconds_per_count = match row.unit {
        PauseUnit::Micros => 1e-6,
        PauseUnit::Frames => {
            let speed = rates.per_sec.get(&format!("{interface}{LINK_SPEED}")).filter(|speed| **speed > 0.0)?;
            LONGEST_PAUSE / (speed * 1e6)
        }
    };
    // Time is rounded up to microseconds and read a moment after the clock, so a share may come out above the whole.
    Some(((per_sec * seconds_per_count).min(1.0), row.unit == PauseUnit::Frames))
}

/// The table as Markdown, for `docs/reference/counters.md`.
pub fn table() -> String {
    let mut text = "| driver | counts | of | sent (tx) | received (rx) |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for row in &TABLE {
        let unit = if row.unit == PauseUnit::Micros { "µs" } else { "frames" };
        let scope = if row.scope == PauseScope::Link { "the link" } else { "a priority" };
        let name = |name: &str| name.replace("{}", "N");
        let _ = writeln!(text, "| {} | {unit} | {scope} | `{}` | `{}` |", row.drivers, name(row.tx), name(row.rx));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters;

    /// What it is, the counters per second, and the ratios (tx, rx) with whether they are an upper bound.
    type Case<'a> = (&'a str, &'a [(&'a str, f64)], Option<(f64, f64, bool)>);

    fn rates(counters: &[(&str, f64)]) -> Rates {
        let name = |name: &str| if name == LINK_SPEED { name.to_owned() } else { format!("ethtool.{name}") };
        Rates { per_sec: counters.iter().map(|(n, value)| (name(n), *value)).collect() }
    }

    #[test]
    fn pause_follows_what_a_driver_counts() {
        // At 100 Gbit/s the longest pause of a frame is 335.5 µs.
        let hundred = (LINK_SPEED, 100_000.0);
        let frame = 65_535.0 * 512.0 / 1e11;
        let table: &[Case<'_>] = &[
            (
                "mlx5: the priority that was paused longest",
                &[
                    ("tx_prio0_pause_duration", 10_000.0),
                    ("tx_prio3_pause_duration", 250_000.0),
                    ("rx_prio3_pause_duration", 0.0),
                ],
                Some((0.25, 0.0, false)),
            ),
            (
                "mlx5: global pause only",
                &[("tx_global_pause_duration", 500.0), ("rx_global_pause_duration", 2_000_000.0)],
                Some((0.0005, 1.0, false)),
            ),
            (
                "bnxt: durations before frames",
                &[
                    hundred,
                    ("pfc_pri3_tx_duration_us", 1_000.0),
                    ("pfc_pri3_rx_duration_us", 0.0),
                    ("tx_pfc_ena_frames_pri3", 1_000.0),
                    ("rx_pfc_ena_frames_pri3", 1_000.0),
                ],
                Some((0.001, 0.0, false)),
            ),
            (
                "bnxt: frames of the link beside durations of priorities",
                &[
                    hundred,
                    ("pfc_pri3_tx_duration_us", 0.0),
                    ("pfc_pri3_rx_duration_us", 0.0),
                    ("tx_pause_frames", 10.0),
                    ("rx_pause_frames", 0.0),
                ],
                Some((10.0 * frame, 0.0, true)),
            ),
            (
                "ice: frames",
                &[hundred, ("tx_priority_3_xoff.nic", 100.0), ("rx_priority_3_xoff.nic", 1e6)],
                Some((100.0 * frame, 1.0, true)),
            ),
            (
                "ionic: time of priorities, and frames of the link",
                &[
                    hundred,
                    ("tx_pripause_3_1us_count", 250_000.0),
                    ("rx_pripause_3_1us_count", 1_000.0),
                    ("frames_tx_pause", 0.0),
                    ("frames_rx_pause", 0.0),
                ],
                Some((0.25, 0.001, false)),
            ),
            (
                "mana: frames of traffic classes",
                &[hundred, ("hc_tc3_tx_pause_phy", 100.0), ("hc_tc3_rx_pause_phy", 0.0)],
                Some((100.0 * frame, 0.0, true)),
            ),
            ("frames without a speed", &[("tx_ppp3_frames", 100.0), ("rx_ppp3_frames", 1.0)], None),
            ("one side only", &[("tx_prio3_pause_duration", 1.0)], None),
            ("nothing", &[hundred], None),
        ];
        for (what, counters, expected) in table {
            let seen = host_pause(&rates(counters));
            let Some((tx, rx, is_upper_bound)) = *expected else {
                assert_eq!(seen, None, "{what}");
                continue;
            };
            let seen = seen.unwrap_or_else(|| panic!("{what}: no pause"));
            assert!((seen.ratios.tx - tx).abs() < 1e-9 && (seen.ratios.rx - rx).abs() < 1e-9, "{what}: {seen:?}");
            assert_eq!(seen.is_upper_bound, is_upper_bound, "{what}");
        }
    }

    #[test]
    fn only_bnxt_shows_old_counters() {
        for (name, expected) in [
            ("pfc_pri3_tx_duration_us", BNXT_REFRESH_MS),
            ("tx_pfc_ena_frames_pri0", BNXT_REFRESH_MS),
            ("tx_prio3_pause_duration", 0),
            ("tx_ppp3_frames", 0),
            ("tx_pause_frames", 0),
            ("rx_packets", 0),
        ] {
            assert_eq!(refresh_ms(&Reading::from([(format!("ethtool.{name}"), 1)])), expected, "{name}");
        }
    }

    #[test]
    fn paused_time_is_counted_in_microseconds() {
        for row in &TABLE {
            for name in [row.tx, row.rx] {
                let known = counters::known(&counter("", name, 3)).map(|row| row.unit);
                let expected = (row.unit == PauseUnit::Micros).then_some(counters::CounterUnit::Micros);
                assert_eq!(known, expected, "{name}");
            }
        }
    }

    #[test]
    fn the_reference_page_has_this_table() {
        let page = include_str!("../../docs/reference/counters.md");
        assert!(page.contains(&table()), "renew the table of docs/reference/counters.md:\n{}", table());
    }
}
