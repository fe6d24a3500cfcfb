//! The columns of a table: their names with units, and how a cell becomes a value of a row. Rows are in `table`.

use kelpie_spaces::{Mtu, Opcode, QpType};

use crate::row::Use;
use crate::traffic::TrafficPattern;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableColumn {
    /// `WRITE`, `READ` or `SEND`.
    Operation,
    /// Message size.
    Size,
    /// QPs of each direction.
    Qps,
    /// Transport.
    Transport,
    /// Path MTU.
    Mtu,
    /// Depth of queues.
    Depth,
    /// Work requests per post call.
    Batch,
    /// MRs of each QP.
    Mrs,
    /// Size of an MR.
    MrSize,
    /// Who sends to whom.
    Directions,
    /// Cores that post.
    Cores,
    /// Goodput, all directions together.
    Gbps,
    /// Messages, all directions together.
    Mpps,
    /// Share of time that a NIC paused its peer.
    Pause,
    /// Whether the row is fitted or held back.
    Use,
}

/// Every column and its name, in the order in which tables are written.
pub const COLUMNS: [(TableColumn, &str); 15] = [
    (TableColumn::Operation, "operation"),
    (TableColumn::Transport, "transport"),
    (TableColumn::Size, "size_bytes"),
    (TableColumn::Qps, "qps"),
    (TableColumn::Mtu, "mtu_bytes"),
    (TableColumn::Depth, "depth"),
    (TableColumn::Batch, "batch"),
    (TableColumn::Mrs, "mrs_per_qp"),
    (TableColumn::MrSize, "mr_bytes"),
    (TableColumn::Directions, "directions"),
    (TableColumn::Cores, "cores"),
    (TableColumn::Gbps, "rate_gbps"),
    (TableColumn::Mpps, "rate_mpps"),
    (TableColumn::Pause, "pause_percent"),
    (TableColumn::Use, "use"),
];

/// Fastest port of which a rate is believed. Units: Gbit/s. Source: our choice, IEEE P802.3dj, twice the fastest NIC of
/// today.
pub const FASTEST_GBPS: f64 = 1600.0;
/// Slowest rate that is believed. Units: Gbit/s. Source: our choice, one message of a byte in a millisecond.
const SLOWEST_GBPS: f64 = 8e-6;
/// Most messages that are believed. Units: millions per second. Source: our choice, five times the specified rate of
/// the fastest NICs of today.
const MOST_MPPS: f64 = 2000.0;
/// Most QPs of a row. Source: perftest 4.5, `MAX_QP_NUM`.
const MOST_QPS: u64 = 16_384;
/// Most cores that post. Source: the rule of `posting.cores` of a model.
const MOST_CORES: u64 = 4096;
/// Longest cell that an error repeats. Units: characters.
const MOST_QUOTED: usize = 40;

impl TableColumn {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        COLUMNS.iter().find(|(column, _)| *column == self).map_or("", |(_, name)| name)
    }

    /// The column of a name.
    ///
    /// # Errors
    /// Says which names there are, and which was meant.
    pub fn named(name: &str) -> Result<Self, String> {
        if let Some((column, _)) = COLUMNS.iter().find(|(_, known)| *known == name) {
            return Ok(*column);
        }
        let stem = |name: &str| name.split('_').next().unwrap_or_default().trim_end_matches('s').to_ascii_lowercase();
        let is_like =
            |known: &str| stem(known) == stem(name) || strsim::levenshtein(known, &name.to_ascii_lowercase()) <= 2;
        let like: Vec<&str> = COLUMNS.iter().map(|(_, known)| *known).filter(|known| is_like(known)).collect();
        let shown = quoted(name);
        Err(if like.is_empty() {
            format!("no column is called {shown}; there are {}", COLUMNS.map(|(_, known)| known).join(", "))
        } else {
            format!("no column is called {shown}, names carry their unit: write {}", like.join(" or "))
        })
    }
}

/// A cell as errors repeat it.
pub fn quoted(cell: &str) -> String {
    let mut shown: String = cell.chars().take(MOST_QUOTED).flat_map(char::escape_debug).collect();
    if cell.chars().count() > MOST_QUOTED {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// A whole number from 1 to `most`.
///
/// # Errors
/// The rule.
pub fn whole(cell: &str, most: u64) -> Result<u64, String> {
    match cell.parse::<u64>() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("{} is no whole number from 1 to {most}", quoted(cell))),
    }
}

/// A count of QPs.
///
/// # Errors
/// The rule.
pub fn qps(cell: &str) -> Result<u32, String> {
    whole(cell, MOST_QPS).map(|number| number as u32)
}

/// A count of cores.
///
/// # Errors
/// The rule.
pub fn cores(cell: &str) -> Result<u32, String> {
    whole(cell, MOST_CORES).map(|number| number as u32)
}

/// An operation.
///
/// # Errors
/// The rule.
pub fn operation(cell: &str) -> Result<Opcode, String> {
    let all = [Opcode::Write, Opcode::Read, Opcode::Send];
    let found = all.into_iter().find(|operation| operation.name().eq_ignore_ascii_case(cell));
    found.ok_or_else(|| format!("{} is none of WRITE, READ and SEND", quoted(cell)))
}

/// A transport.
///
/// # Errors
/// The rule.
pub fn transport(cell: &str) -> Result<QpType, String> {
    let found = QpType::ALL.into_iter().find(|transport| transport.to_string().eq_ignore_ascii_case(cell));
    found.ok_or_else(|| format!("{} is none of RC, UC and UD", quoted(cell)))
}

/// A path MTU.
///
/// # Errors
/// The rule.
pub fn mtu(cell: &str) -> Result<Mtu, String> {
    let found = cell.parse::<u64>().ok().and_then(|bytes| Mtu::try_from(bytes).ok());
    found.ok_or_else(|| format!("{} is none of the path MTUs 256, 512, 1024, 2048 and 4096", quoted(cell)))
}

/// Who sends to whom.
///
/// # Errors
/// The rule.
pub fn directions(cell: &str) -> Result<TrafficPattern, String> {
    let found = TrafficPattern::ALL.into_iter().find(|path| path.name().eq_ignore_ascii_case(cell));
    found.ok_or_else(|| format!("{} is none of one, both and loopback", quoted(cell)))
}

/// What a row is used for.
///
/// # Errors
/// The rule.
pub fn used_for(cell: &str) -> Result<Use, String> {
    match cell {
        "fit" => Ok(Use::Fit),
        "check" => Ok(Use::Check),
        _ => Err(format!("{} is neither fit nor check", quoted(cell))),
    }
}

/// Goodput of so many ports. Units: bits/s.
///
/// # Errors
/// The rule.
pub fn gbps(cell: &str, ports: f64) -> Result<f64, String> {
    let most = FASTEST_GBPS * ports;
    match cell.parse::<f64>() {
        Ok(rate) if (SLOWEST_GBPS..=most).contains(&rate) => Ok(rate * 1e9),
        Ok(rate) if rate > most && rate.is_finite() => Err(format!(
            "{} Gbit/s is more than any port carries: at most {most} of a port of 1.6 Tbit/s",
            quoted(cell)
        )),
        _ => Err(format!("{} is no rate from {SLOWEST_GBPS} to {most} Gbit/s", quoted(cell))),
    }
}

/// Goodput of messages of so many bytes. Units: bits/s.
///
/// # Errors
/// The rule.
pub fn mpps(cell: &str, size_bytes: u64, ports: f64) -> Result<f64, String> {
    let rate = match cell.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MOST_MPPS * ports => rate,
        _ => {
            return Err(format!(
                "{} is no rate above 0 and up to {} million messages/s",
                quoted(cell),
                MOST_MPPS * ports
            ));
        }
    };
    let goodput = rate * size_bytes as f64 * 8.0 / 1e3;
    gbps(&goodput.to_string(), ports).map_err(|_| {
        format!(
            "{} million messages/s of {size_bytes} bytes are {goodput:.6} Gbit/s, which no port carries",
            quoted(cell)
        )
    })
}

/// A share of time, from percent.
///
/// # Errors
/// The rule.
pub fn percent(cell: &str) -> Result<f64, String> {
    match cell.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("{} is no share from 0 to 100 percent", quoted(cell))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_their_unit_are_refused_with_what_was_meant() {
        for (name, meant) in [
            ("size", "write size_bytes"),
            ("rate", "write rate_gbps or rate_mpps"),
            ("pause", "write pause_percent"),
            ("mr_size", "mr_bytes"),
            ("operatoin", "write operation"),
            ("QPs", "write qps"),
            ("colour", "there are operation, transport"),
        ] {
            let error = TableColumn::named(name).expect_err(name);
            assert!(error.contains(meant) && error.contains(name), "{error}");
        }
        for (column, name) in COLUMNS {
            assert_eq!((TableColumn::named(name), column.name()), (Ok(column), name));
        }
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for cell in ["0", "-1", "NaN", "inf", "1e30", "", "fast", "3201"] {
            assert!(gbps(cell, 2.0).is_err() && whole(cell, 3200).is_err(), "{cell}");
        }
        assert_eq!(gbps("196.5", 1.0), Ok(196.5e9));
        assert!(gbps("1601", 1.0).expect_err("too fast").contains("1.6 Tbit/s"));
        assert_eq!(mpps("107.5", 8, 1.0), Ok(6.88e9));
        assert!(mpps("100", 65536, 1.0).expect_err("too fast").contains("52428.8"));
        assert_eq!((percent("12.5"), percent("101").is_err(), percent("-1").is_err()), (Ok(0.125), true, true));
        assert!(quoted(&"x".repeat(1000)).chars().count() < 50);
    }
}
