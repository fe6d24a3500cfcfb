//! What `kelpie trace` costs the program that it runs: message rates with and without it, in turn.

use anyhow::{Context, Result, bail};

use super::kelpie::{Kelpie, median};
use super::perftest::{LIMIT, Options, PORT, number};

/// A program with what it prints its rate as.
struct Traced {
    line: &'static str,
    rate: fn(&str) -> Result<f64>,
    /// Whether the server knows the rate, because it received.
    at_server: bool,
}

const PROGRAMS: [Traced; 6] = [
    Traced {
        line: "ib_send_bw -d rxe0 -x 1 -F -c RC -u 18 -s 64 -D 5 -f 1 --output=message_rate",
        rate: number,
        at_server: true,
    },
    Traced {
        line: "ib_write_bw -d rxe0 -x 1 -F -c RC -u 18 -s 64 -D 5 -f 1 --output=message_rate",
        rate: number,
        at_server: false,
    },
    Traced {
        line: "ib_read_bw -d rxe0 -x 1 -F -c RC -u 18 -s 64 -D 5 -f 1 --output=message_rate",
        rate: number,
        at_server: false,
    },
    Traced {
        line: "ib_write_bw -d rxe0 -x 1 -F -c RC -u 18 -q 8 -s 64 -D 5 -f 1 --output=message_rate",
        rate: number,
        at_server: false,
    },
    Traced { line: "ibv_rc_pingpong -d rxe0 -g 1 -s 64 -n 2000 -N", rate: iterations, at_server: false },
    Traced { line: "ibv_ud_pingpong -d rxe0 -g 1 -s 64 -n 2000", rate: iterations, at_server: false },
];

/// Prints the table. The client is traced, or not; the server never.
pub fn run(kelpie: &Kelpie, options: &Options) -> Result<()> {
    let pairs = options.pairs;
    let copy = "mkdir -p /run/trace && cp -f /run/lab/kelpie /run/lab/libkelpie_preload.so /run/trace/";
    let (_, status) = kelpie.guests[0].execute(copy, LIMIT)?;
    if status != 0 {
        bail!("`{copy}` failed in the guest");
    }
    println!("rates, medians of {pairs} alternating pairs\n{:>9} {:>9} {:>6}", "traced", "plain", "ratio");
    let mut worst = f64::INFINITY;
    for program in PROGRAMS.iter().filter(|program| options.wants(program.line)) {
        let (mut traced, mut plain, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for turn in 0..pairs {
            let run = |is_traced| program.run(kelpie, is_traced).with_context(|| program.line);
            // Whoever comes second finds the other's noise, so they take turns at that, too.
            let first = run(turn % 2 == 0)?;
            let second = run(turn % 2 == 1)?;
            let (with, without) = if turn % 2 == 0 { (first, second) } else { (second, first) };
            traced.push(with);
            plain.push(without);
            ratios.push(with / without);
        }
        let middle = |values| median(values).context("at least one pair");
        let (traced, plain, ratio) = (middle(traced)?, middle(plain)?, middle(ratios)?);
        worst = worst.min(ratio);
        println!("{traced:>9.4} {plain:>9.4} {ratio:>6.2}  {}", program.line);
    }
    println!("worst ratio {worst:.2}");
    Ok(())
}

impl Traced {
    fn run(&self, kelpie: &Kelpie, is_traced: bool) -> Result<f64> {
        let [client, server] = [&kelpie.guests[0], &kelpie.guests[1]];
        let (pid, _) = server.execute(&format!("{} >/run/server.log 2>&1 & echo $!", self.line), LIMIT)?;
        let listens = format!(
            "for turn in $(seq 200); do grep -q '{PORT}' /proc/net/tcp /proc/net/tcp6 && break; sleep 0.1; done"
        );
        server.execute(&listens, LIMIT)?;
        let before =
            if is_traced { "rm -rf /tmp/bench-trace; /run/trace/kelpie trace --out /tmp/bench-trace -- " } else { "" };
        let asked = client.execute(&format!("{before}timeout 30 {} 10.77.0.2 2>&1", self.line), LIMIT);
        let end = format!("sleep 0.5; kill -9 {} 2>/dev/null; cat /run/server.log", pid.trim());
        let (received, _) = server.execute(&end, LIMIT)?;
        let (requested, status) = asked?;
        if status != 0 {
            bail!("it ended with status {status}: {}", requested.trim());
        }
        (self.rate)(if self.at_server { &received } else { &requested })
    }
}

/// Iterations per second from `... iters in X seconds = Y usec/iter`.
fn iterations(output: &str) -> Result<f64> {
    let line = output.lines().find(|line| line.contains(" iters in ")).context("it printed no rate")?;
    let micros =
        line.split(" = ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|word| word.parse::<f64>().ok());
    Ok(1e6 / micros.filter(|micros| *micros > 0.0).with_context(|| format!("no time in `{line}`"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_from_what_a_pingpong_prints() {
        let output = "8192000 bytes in 0.74 seconds = 88.02 Mbit/sec\n2000 iters in 0.50 seconds = 250.00 usec/iter\n";
        assert_eq!(iterations(output).ok(), Some(4000.0));
        assert!(iterations("Couldn't connect\n").is_err());
    }
}
