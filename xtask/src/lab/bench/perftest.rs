//! Message rates against perftest, which runs in the same guests with the same settings, in turn with Kelpie.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::kelpie::{Kelpie, median};

/// Path MTU of both. Units: bytes.
const MTU: u32 = 4096;

/// What is left out of a run at both its ends, by perftest (`--margin`) and before Kelpie's sample. Units: seconds.
const MARGIN: u32 = 1;

/// Kelpie's sample. Units: seconds.
const SAMPLE: u32 = 2;

/// `--qp-timeout` of perftest, as `tests/guests/pair.yaml` has it for Kelpie. After perftest's own timeout of 67 ms it
/// sends again what only waits behind a megabyte on the way, and Soft-RoCE's responder answers that with an error.
const TIMEOUT: u32 = 18;

/// Longest wait for a run of perftest: it may hang if datagrams are lost.
pub const LIMIT: Duration = Duration::from_mins(1);

/// perftest's TCP port as `/proc/net/tcp` has it: 18515.
pub const PORT: &str = ":4853 ";

/// What is run.
pub struct Options {
    /// Alternating pairs of each row.
    pub pairs: usize,
    only: Vec<String>,
}

impl Options {
    /// From the command line.
    pub fn parse(words: &[&str], usage: &str) -> Result<Self> {
        let mut options = Self { pairs: 3, only: Vec::new() };
        for pair in words.chunks(2) {
            match pair {
                ["--pairs", count] => {
                    options.pairs = count.parse().ok().filter(|count| *count > 0).context("--pairs")?;
                }
                ["--only", word] => options.only.push((*word).to_owned()),
                _ => bail!("{usage}"),
            }
        }
        Ok(options)
    }
}

impl Options {
    /// Whether a row's name holds one of the words that were given, if any were.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| name.contains(word))
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
struct Cell {
    qp_type: &'static str,
    op: &'static str,
    /// Units: bytes.
    message: u32,
    qps: u32,
}

impl Cell {
    /// Every row, in the order of the table.
    fn all() -> impl Iterator<Item = Cell> {
        let kinds = [("RC", "SEND"), ("RC", "WRITE"), ("RC", "READ"), ("UC", "SEND"), ("UC", "WRITE"), ("UD", "SEND")];
        kinds.into_iter().flat_map(|(qp_type, op)| {
            let sizes =
                [64, 4 << 10, 64 << 10, 1 << 20].into_iter().filter(move |size| qp_type != "UD" || *size <= MTU);
            sizes.flat_map(move |message| [1, 8].map(|qps| Cell { qp_type, op, message, qps }))
        })
    }

    fn name(self) -> String {
        let Self { qp_type, op, message, qps } = self;
        let size = if message < 1024 { format!("{message} B") } else { format!("{} KiB", message >> 10) };
        format!("{qp_type} {op:<5} {size:>8} {qps} QP")
    }

    /// perftest's default. Less if that many large messages would take longer than the run, or if so much is
    /// under way that Soft-RoCE loses packets and perftest ends with an error. Units: work requests.
    fn depth(self) -> u32 {
        if self.message <= 4 << 10 { 128 } else { ((1 << 20) / (self.message * self.qps)).max(2) }
    }

    /// How long is counted. Longer for large messages: they complete in bursts of some QPs, a few in a second.
    /// Units: seconds.
    fn seconds(self) -> u32 {
        if self.message < 1 << 20 { SAMPLE } else { 4 * SAMPLE }
    }

    /// Kelpie's session.
    fn session(self) -> String {
        let samples = self.seconds() / SAMPLE;
        format!("{{warm_up_ms: {}, sample_ms: {}, samples: {samples}}}", MARGIN * 1000, SAMPLE * 1000)
    }

    fn workload(self) -> String {
        let Self { qp_type, op, message, qps } = self;
        let (depth, recv) = (self.depth(), if op == "SEND" { 4 * self.depth() } else { 1 });
        format!(
            "kelpie: workload/1\nflows:\n  - from: a\n    to: b\n    qp_type: {qp_type}\n    qps: {qps}\n    \
             mtu: {MTU}\n    wq_depth: {{send: {depth}, recv: {recv}}}\n    batch: {{send: 1, recv: 1}}\n    \
             pattern: [{{op: {op}, sge: [{message}]}}]\n    memory:\n      \
             from: {{device: \"dram:0\", mrs: 1, mr_size: {mr}}}\n      \
             to: {{device: \"dram:0\", mrs: 1, mr_size: {mr}}}\n",
            // perftest's buffer of a QP holds two messages, and a page at least.
            mr = (2 * message).max(4096)
        )
    }

    /// What perftest is to print, so that its two or six decimals are enough, and messages in one of it.
    fn unit(self) -> (&'static str, f64) {
        if self.message < 64 << 10 {
            ("message_rate", 1e6)
        } else {
            ("bandwidth", f64::from(1 << 20) / f64::from(self.message))
        }
    }

    fn perftest(self) -> String {
        let Self { qp_type, op, message, qps } = self;
        let (depth, duration) = (self.depth(), self.seconds() + 2 * MARGIN);
        // By default it asks for a completion every 100 requests, which a short queue does not hold.
        let signal = if depth < 128 { " -Q 1" } else { "" };
        let timeout = if qp_type == "RC" { format!(" -u {TIMEOUT}") } else { String::new() };
        let recv = if op == "SEND" { format!(" -r {}", 4 * depth) } else { String::new() };
        format!(
            "ib_{}_bw -d rxe0 -x 1 -F -m {MTU} -c {qp_type} -s {message} -q {qps} -t {depth}{recv}{signal}{timeout} \
             -D {duration} -f {MARGIN} --output={}",
            op.to_lowercase(),
            self.unit().0
        )
    }
}

/// Prints the table.
pub fn run(kelpie: &Kelpie, options: &Options) -> Result<()> {
    let cells: Vec<Cell> = Cell::all().filter(|cell| options.wants(&cell.name())).collect();
    println!(
        "messages/s, medians of {} alternating pairs\n{:<24} {:>9} {:>9} {:>6}",
        options.pairs, "", "Kelpie", "perftest", "ratio"
    );
    let mut ratios: Vec<(f64, Cell)> = Vec::new();
    for cell in cells {
        let (mut ours, mut theirs, mut of_cell) = (Vec::new(), Vec::new(), Vec::new());
        let mut missing = None;
        for turn in 0..options.pairs {
            // Whoever comes second finds the other's noise, so they take turns at that, too.
            let first = if turn % 2 == 1 { Some(by_perftest(kelpie, cell)) } else { None };
            let our = by_kelpie(kelpie, cell);
            let their = first.unwrap_or_else(|| by_perftest(kelpie, cell));
            match (our, their) {
                (Ok(our), Ok(their)) => {
                    ours.push(our);
                    theirs.push(their);
                    of_cell.push(our / their);
                }
                (Err(error), _) => missing = Some(format!("Kelpie: {error:#}")),
                (_, Err(error)) => missing = Some(format!("perftest: {error:#}")),
            }
        }
        match (median(ours), median(theirs), median(of_cell)) {
            (Some(ours), Some(theirs), Some(ratio)) => {
                println!("{:<24} {ours:>9.0} {theirs:>9.0} {ratio:>6.2}", cell.name());
                ratios.push((ratio, cell));
            }
            _ => println!("{:<24} no figure: {}", cell.name(), missing.unwrap_or_default()),
        }
    }
    let worst = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0)).context("no cell has a figure")?;
    let middle = median(ratios.iter().map(|(ratio, _)| *ratio).collect()).context("no cell has a figure")?;
    let low = ratios.iter().filter(|(ratio, _)| *ratio < 0.9).count();
    println!(
        "median ratio {middle:.2} over {} cells; worst {:.2}, {}; {low} cells under 0.9",
        ratios.len(),
        worst.0,
        worst.1.name()
    );
    Ok(())
}

/// Messages per second: what SENDs' receiver saw, else what the requester completed.
fn by_kelpie(kelpie: &Kelpie, cell: Cell) -> Result<f64> {
    let pair = kelpie.pair(&cell.session())?;
    let report = kelpie.measure(&kelpie.write("workload.yaml", &cell.workload())?, &pair)?;
    let rate = report["directions"][0]["messages_per_sec"].as_f64().context("no rate in Kelpie's report")?;
    if rate > 0.0 { Ok(rate) } else { bail!("nothing arrived: {}", report["hardware_events"]) }
}

/// The same by perftest.
fn by_perftest(kelpie: &Kelpie, cell: Cell) -> Result<f64> {
    let [client, server] = [&kelpie.guests[0], &kelpie.guests[1]];
    let command = cell.perftest();
    let (pid, _) = server.execute(&format!("{command} >/run/perftest.log 2>&1 & echo $!"), LIMIT)?;
    let pid = pid.trim();
    let listens =
        format!("for turn in $(seq 200); do grep -q '{PORT}' /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done");
    server.execute(&listens, LIMIT)?;
    let asked = client.execute(&format!("timeout {} {command} 10.77.0.2 2>&1", LIMIT.as_secs() / 2), LIMIT);
    let wait = format!(
        "for turn in $(seq 100); do kill -0 {pid} 2>/dev/null || break; sleep 0.1; done; kill -9 {pid} 2>/dev/null; \
         cat /run/perftest.log"
    );
    let (received, _) = server.execute(&wait, LIMIT)?;
    let (requested, status) = asked?;
    if status != 0 {
        bail!("`{command}` ended with status {status}: {}", requested.trim());
    }
    Ok(number(if cell.op == "SEND" { &received } else { &requested })? * cell.unit().1)
}

/// The last number that it printed.
pub fn number(output: &str) -> Result<f64> {
    let mut numbers = output.lines().filter_map(|line| line.trim().parse::<f64>().ok());
    let last = numbers.next_back().filter(|number| *number > 0.0);
    last.with_context(|| format!("perftest printed no rate: {}", output.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_cell_once() {
        let names: std::collections::BTreeSet<String> = Cell::all().map(Cell::name).collect();
        assert_eq!(names.len(), 5 * 8 + 4);
        assert_eq!(names.len(), Cell::all().count());
    }

    #[test]
    fn the_rate_is_the_last_number() {
        for (output, expected) in [("note\n0.5\n", Some(0.5)), ("WARNING: 3 things\n", None), ("0.0\n", None)] {
            assert_eq!(number(output).ok(), expected, "{output}");
        }
    }
}
