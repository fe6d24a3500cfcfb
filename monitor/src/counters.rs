//! What counters mean: one table with the unit of each, and whether it is a rate, a level or a share.
//! How they are read is in `sources`.

use std::fmt::Write as _;

use kelpie_spaces::units::{percent, si};

use crate::sources::{LINK_MEGATRANSFERS, LINK_SPEED, LINK_WIDTH, without_slave};

/// Counter, from the engine itself: share of the window (0 to 1) in which the requesters of a host kept
/// their send queues full, the paper's premise that "applications keep injecting" (section 3). If it is
/// low, the application was the limit, not the subsystem.
pub const SEND_QUEUE_FULL: &str = "engine_send_queue_full_ratio";

/// Counter, from the engine itself: share (0 to 1) of the messages which arrived while the responders of a host kept
/// their receive queues full. If it is low, the receiver was the limit: its NIC had to turn messages away.
pub const RECEIVE_QUEUE_FULL: &str = "engine_receive_queue_full_ratio";

/// Counter, from the engine itself: READs and atomics that a QP of a host's requesters can have outstanding, the
/// smaller of what its device and its peer's allow (`max_qp_init_rd_atom`, `max_qp_rd_atom`).
pub const OUTSTANDING_READS: &str = "engine_outstanding_reads";

/// Counter, from the engine itself: how long a requester of a host waits for an acknowledgement before it sends again;
/// said if the path loses packets. Units: seconds.
pub const ACK_TIMEOUT: &str = "engine_ack_timeout_seconds";

/// Requests that were not acknowledged in time and were sent again, as mlx5 names them.
pub const TIMEOUTS: &str = "local_ack_timeout_err";

/// Counters of the engine itself: QPs and MRs that were made and destroyed beside traffic.
pub const MADE: [&str; 2] = ["engine_qps_made", "engine_mrs_made"];

/// Counters of the engine itself: messages, payload bytes and payload packets that requesters of a host completed.
pub const REQUESTED: [&str; 3] = ["engine_requested_messages", "engine_requested_bytes", "engine_requested_packets"];

/// The same for what consumed receives of its responders.
pub const RECEIVED: [&str; 3] = ["engine_received_messages", "engine_received_bytes", "engine_received_packets"];

/// Counter, from the engine itself: 1 if the pause of a host was computed from frames and not from time, and so is
/// the most it can be.
pub const PAUSE_IS_UPPER_BOUND: &str = "engine_pause_is_upper_bound";

/// What the value of a counter in a sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// What was counted, per second.
    Rate,
    /// A level that the traffic moves, as it was at the end of the sample.
    Level,
    /// A level that follows the configuration or the workload and says nothing about the inside of the NIC.
    Setting,
    /// A share. Units: 0 to 1.
    Share,
}

/// What one of a counter's counts is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterUnit {
    /// Things of this name; events if it is empty.
    Things(&'static str),
    /// Microseconds.
    Micros,
    /// Percent.
    Percent,
}

/// A counter, or a family of counters.
#[derive(Debug)]
pub struct Counter {
    /// Its name, without the slave of a bond; each `*` stands for any text.
    pub name: &'static str,
    /// What its values are.
    pub quantity: Quantity,
    /// What it counts in.
    pub unit: CounterUnit,
    /// What it counts or shows.
    pub meaning: &'static str,
    /// The document that says so.
    pub source: &'static str,
}

const fn row(
    name: &'static str,
    quantity: Quantity,
    unit: CounterUnit,
    meaning: &'static str,
    source: &'static str,
) -> Counter {
    Counter { name, quantity, unit, meaning, source }
}

/// Counts of a simulated subsystem, under the names of mlx5.
const fn simulated(name: &'static str, unit: CounterUnit, meaning: &'static str) -> Counter {
    row(name, Quantity::Rate, unit, meaning, "NVIDIA WinOF-2 manual, device diagnostics; mlx5, `ethtool -S`")
}

const ENGINE: &str = "the engine's completions";
const PORT: &str = "IBTA volume 1, section 16.1.3.5 (`PortCounters`)";
const BNXT_RE: &str = "kernel `drivers/infiniband/hw/bnxt_re/hw_counters.c`";
const MLX5: &str = "kernel `Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst`";
const BNXT_EN: &str = "kernel `drivers/net/ethernet/broadcom/bnxt/bnxt_ethtool.c`";
const IONIC: &str = "kernel `drivers/net/ethernet/pensando/ionic/ionic_stats.c`";
const AER: &str = "kernel `Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats`";
const LINK: &str = "kernel `Documentation/ABI/testing/sysfs-class-net` (`speed`)";
const PCI: &str = "kernel `Documentation/ABI/testing/sysfs-bus-pci` (`current_link_*`)";
const NETDEV: &str = "kernel `Documentation/ABI/testing/sysfs-class-net-statistics`";

const EVENTS: CounterUnit = CounterUnit::Things("");

/// The counters of which more is known than their names; every other one counts events. The first row that fits holds.
pub const TABLE: [Counter; 39] = {
    use CounterUnit::{Micros, Percent, Things};
    use Quantity::{Level, Rate, Setting, Share};
    [
        row(REQUESTED[0], Rate, Things("messages"), "Messages that the host's requesters completed", ENGINE),
        row(REQUESTED[1], Rate, Things("bytes"), "Their payload", ENGINE),
        row(REQUESTED[2], Rate, Things("packets"), "Packets with their payload", ENGINE),
        row(RECEIVED[0], Rate, Things("messages"), "Messages that consumed receives of the host's responders", ENGINE),
        row(RECEIVED[1], Rate, Things("bytes"), "Their payload", ENGINE),
        row(RECEIVED[2], Rate, Things("packets"), "Packets with their payload", ENGINE),
        row(SEND_QUEUE_FULL, Share, EVENTS, "Time in which the host's requesters kept their send queues full", ENGINE),
        row(
            RECEIVE_QUEUE_FULL,
            Share,
            EVENTS,
            "Messages that arrived while the host's receive queues were full",
            ENGINE,
        ),
        row(OUTSTANDING_READS, Setting, Things("requests"), "READs and atomics that a QP can have outstanding", ENGINE),
        row(ACK_TIMEOUT, Setting, Things("seconds"), "Longest wait for an acknowledgement", ENGINE),
        row(MADE[0], Rate, Things("QPs"), "QPs that were made and destroyed beside traffic", ENGINE),
        row(MADE[1], Rate, Things("MRs"), "MRs that were registered and deregistered beside traffic", ENGINE),
        row(PAUSE_IS_UPPER_BOUND, Setting, EVENTS, "1 if pause frames were counted and not time", ENGINE),
        row("*_ratio", Share, EVENTS, "A share of the time or of events", ENGINE),
        row("port_xmit_data", Rate, Things("words"), "Data that the port sent, in words of four bytes", PORT),
        row("port_rcv_data", Rate, Things("words"), "Data that the port received, in words of four bytes", PORT),
        row("port_xmit_wait", Rate, Things("ticks"), "Ticks in which the port had data and could not send", PORT),
        row("active_*", Setting, Things("objects"), "Objects of this kind that exist", BNXT_RE),
        row("watermark_*", Setting, Things("objects"), "The most of them that ever existed at once", BNXT_RE),
        row(
            "ethtool.outbound_pci_stalled_rd",
            Level,
            Percent,
            "Share of the last second without PCIe read credits",
            MLX5,
        ),
        row("ethtool.outbound_pci_stalled_wr", Level, Percent, "The same for writes", MLX5),
        row("ethtool.*_pause_duration", Rate, Micros, "Time in which pause frames held the port or its peer", MLX5),
        row("ethtool.pfc_pri*_duration_us", Rate, Micros, "Time in which pause frames held a priority", BNXT_EN),
        row("ethtool.*_pripause_*_1us_count", Rate, Micros, "Time in which pause frames held a priority", IONIC),
        row(LINK_SPEED, Setting, Things("Mbit/s"), "Speed of the Ethernet link", LINK),
        row("net.*", Rate, Things("packets"), "Packets that the interface lost, by cause", NETDEV),
        row(LINK_WIDTH, Setting, Things("lanes"), "Lanes of the NIC's PCIe link", PCI),
        row(LINK_MEGATRANSFERS, Setting, Things("MT/s"), "Transfers of each of these lanes", PCI),
        row("pci.aer_*", Rate, Things("errors"), "PCIe errors that the NIC reported, by kind", AER),
        simulated("receive_wqe_cache_miss", EVENTS, "Receive WQEs that were not on the NIC when a message needed them"),
        simulated("icm_cache_miss", EVENTS, "Lines of QP contexts that were read from host memory"),
        simulated("l0_mtt_miss", EVENTS, "Lines of MR entries and translations that were read from host memory"),
        simulated("wqe_refetch", EVENTS, "Lines of send WQEs and of READ lists that were read again"),
        simulated("pcie_internal_back_pressure", EVENTS, "Writes that waited for room at the root complex"),
        simulated("rnr_naks_sent", EVENTS, "NAKs because no receive WQE was there in time"),
        simulated("out_of_sequence", EVENTS, "NAKs because packets were missing"),
        simulated("out_of_buffer", EVENTS, "Messages of UD and UC that found no receive WQE in time"),
        simulated(TIMEOUTS, EVENTS, "Requests that were not acknowledged in time and were sent again"),
        simulated("rx_discards_phy", EVENTS, "Bursts of packets that found no room in the receive buffer"),
    ]
};

/// What is known of a counter beyond its name.
pub fn known(name: &str) -> Option<&'static Counter> {
    let name = without_slave(name);
    TABLE.iter().find(|counter| fits(counter.name, name))
}

/// Whether a name is one of the pattern's, each `*` of which stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| fits(rest, &name[at..]))
        }),
    }
}

/// What the values of a counter are; a rate if nothing is known of it.
pub fn quantity(name: &str) -> Quantity {
    known(name).map_or(Quantity::Rate, |counter| counter.quantity)
}

/// Whether a value is a level, such as a speed or a share of the last second, and not a count that only grows.
pub fn is_level(name: &str) -> bool {
    matches!(quantity(name), Quantity::Level | Quantity::Setting)
}

/// Values below it did not move. Units: those of the counter. Source: our choice, because a steady model's rounding is
/// smaller and events are not.
pub const MOVED: f64 = 1e-6;

/// A counter's value with its unit, such as `2.2 M/s`.
pub fn shown(name: &str, value: f64) -> String {
    let unit = known(name).map_or(EVENTS, |counter| counter.unit);
    match (quantity(name), unit) {
        (Quantity::Share, _) => percent(value),
        (Quantity::Rate, CounterUnit::Micros | CounterUnit::Percent) => format!("{}/s", figure(value)),
        (Quantity::Rate, CounterUnit::Things(things)) if name.ends_with(things) => format!("{}/s", figure(value)),
        (Quantity::Rate, CounterUnit::Things(things)) => format!("{}{things}/s", figure(value)),
        (_, CounterUnit::Percent) => format!("{value:.1} %"),
        // The name of a level says what it counts.
        (_, CounterUnit::Things(_) | CounterUnit::Micros) => si(value).trim_end().to_owned(),
    }
}

/// With an SI prefix; a value that moved and would round to 0 has its power of ten instead.
fn figure(value: f64) -> String {
    if (MOVED..0.05).contains(&value.abs()) { format!("{value:.1e} ") } else { si(value) }
}

/// The table as Markdown, for `docs/reference/counters.md`.
pub fn table() -> String {
    let mut text = "| counter | value | in | what it tells | source |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for Counter { name, quantity, unit, meaning, source } in &TABLE {
        let quantity = match quantity {
            Quantity::Rate => "rate",
            Quantity::Level => "level",
            Quantity::Setting => "setting",
            Quantity::Share => "share",
        };
        let unit = match unit {
            CounterUnit::Things("") => "–",
            CounterUnit::Things(things) => things,
            CounterUnit::Micros => "µs",
            CounterUnit::Percent => "%",
        };
        let _ = writeln!(text, "| `{name}` | {quantity} | {unit} | {meaning} | {source} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("a*", "abc", true),
            ("a*", "ba", false),
            ("*_ratio", "queue_full_ratio", true),
            ("*_ratio", "ratio", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn no_row_hides_another() {
        for (index, counter) in TABLE.iter().enumerate() {
            let first = TABLE.iter().position(|row| fits(row.name, counter.name));
            assert_eq!(first, Some(index), "{}", counter.name);
        }
    }

    #[test]
    fn values_have_their_units() {
        for (name, value, expected) in [
            ("cache_miss", 2.2e6, "2.2 M/s"),
            ("cache_miss", 1.2e-5, "1.2e-5 /s"),
            ("cache_miss", 1e-9, "0.0 /s"),
            ("port_xmit_data", 3e9, "3.0 Gwords/s"),
            (REQUESTED[0], 3e6, "3.0 M/s"),
            (SEND_QUEUE_FULL, 0.5, "50.00 %"),
            (OUTSTANDING_READS, 16.0, "16.0"),
            (PAUSE_IS_UPPER_BOUND, 1.0, "1.0"),
            ("slave1.net.speed_megabits", 100_000.0, "100.0 k"),
            ("slave0.net.rx_dropped", 12.0, "12.0 packets/s"),
            ("ethtool.outbound_pci_stalled_rd", 7.0, "7.0 %"),
            ("ethtool.rx_prio3_pause_duration", 250_000.0, "250.0 k/s"),
            ("ethtool.pfc_pri3_rx_duration_us", 2e6, "2.0 M/s"),
            ("icm_cache_miss", 0.0, "0.0 /s"),
        ] {
            assert_eq!(shown(name, value), expected, "{name}");
        }
    }

    #[test]
    fn levels_are_told_from_counts() {
        for (name, expected) in [
            ("active_qps", true),
            ("watermark_mrs", true),
            ("slave1.net.speed_megabits", true),
            ("pci.link_width", true),
            ("pci.aer_fatal.total", false),
            ("ethtool.outbound_pci_stalled_wr", true),
            ("port_xmit_data", false),
            ("engine_send_queue_full_ratio", false),
        ] {
            assert_eq!(is_level(name), expected, "{name}");
        }
    }

    #[test]
    fn the_reference_page_has_this_table() {
        let page = include_str!("../../docs/reference/counters.md");
        assert!(page.contains(&table()), "renew the table of docs/reference/counters.md:\n{}", table());
    }
}
