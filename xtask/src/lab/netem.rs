//! Loss and delay on the link between the guests, by the kernel's netem. Each guest applies it to what it sends; in the
//! dual-port lab the leaf does, to what it sends by one port, and the capacity of that can be another.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::place::Lab;

const USAGE: &str = "usage: cargo xtask lab netem [--delay TIME] [--loss PERCENT] | netem clear; \
                     for example --delay 1ms --loss 0.1%";

/// What is sent and not yet delivered has to fit: a second at 1 Gbit/s in packets of 1 KiB.
/// Units: packets. Source: our choice, because netem's own 1,000 would add loss to delay.
const QUEUE: u32 = 125_000;

impl Lab {
    /// Sets the netem of both guests, or clears it.
    pub fn netem(&self, options: &[&str]) -> Result<()> {
        let command = command(options)?;
        for guest in self.guests() {
            let (output, status) = guest.execute(&command, Duration::from_secs(20))?;
            if status != 0 {
                bail!("`{command}` failed in guest {}: {}", guest.name, output.trim());
            }
            print!("{}: {output}", guest.name);
        }
        Ok(())
    }

    /// The same at what the leaf sends by this port, below the port's capacity.
    pub fn netem_at(&self, port: &str, options: &[&str]) -> Result<()> {
        let (.., interface) = self.leaf_port(port)?;
        self.succeed("leaf", &at_port(&interface, options)?)
    }
}

/// The leaf's command line for these options at one interface; what is not named is as it was at the start.
fn at_port(interface: &str, options: &[&str]) -> Result<String> {
    let mut options = options.to_vec();
    let mut rate = String::new();
    if let Some(at) = options.iter().position(|option| *option == "--rate") {
        let given = options.get(at + 1).filter(|rate| is_number_with(rate, &["kbit", "mbit"]));
        rate = format!(" {}", given.with_context(|| format!("--rate NUMBERkbit|mbit\n{USAGE}"))?);
        options.drain(at..=at + 1);
    }
    // A new queue of the port takes away what was below the old one.
    let anew = format!("tc qdisc del dev {interface} root; sh /run/network rate {interface}{rate}");
    if options.is_empty() || options == ["clear"] {
        return Ok(anew);
    }
    let netem = netem(&options)?;
    Ok(format!("{anew} && tc qdisc add dev {interface} parent 1:1 handle 10: netem {netem}"))
}

/// The guest's command line for these options.
fn command(options: &[&str]) -> Result<String> {
    if options == ["clear"] {
        return Ok("tc qdisc del dev eth0 root 2>/dev/null; tc qdisc show dev eth0".to_owned());
    }
    let netem = netem(options)?;
    Ok(format!("tc qdisc replace dev eth0 root netem {netem} && tc qdisc show dev eth0"))
}

/// What tc calls these options.
fn netem(options: &[&str]) -> Result<String> {
    let mut netem = vec![format!("limit {QUEUE}")];
    for pair in options.chunks(2) {
        netem.push(match pair {
            ["--delay", time] if is_number_with(time, &["us", "ms", "s"]) => format!("delay {time}"),
            ["--loss", share] if is_number_with(share, &["%"]) => format!("loss {share}"),
            [_, value] => bail!("{}: `{value}`\n{USAGE}", pair[0]),
            _ => bail!("{USAGE}"),
        });
    }
    Ok(netem.join(" "))
}

fn is_number_with(text: &str, units: &[&str]) -> bool {
    let digits = units.iter().find_map(|unit| text.strip_suffix(unit));
    digits.is_some_and(|digits| {
        digits.starts_with(|first: char| first.is_ascii_digit()) && digits.parse::<f64>().is_ok_and(f64::is_finite)
    })
}

#[cfg(test)]
mod tests {
    use super::{at_port, command};

    #[test]
    fn a_port_of_the_leaf_keeps_its_capacity_below_which_packets_are_lost() {
        let anew = "tc qdisc del dev eth3 root; sh /run/network rate eth3";
        assert_eq!(at_port("eth3", &["clear"]).expect("options"), anew);
        assert_eq!(at_port("eth3", &["--rate", "4mbit"]).expect("options"), format!("{anew} 4mbit"));
        assert_eq!(
            at_port("eth3", &["--loss", "2%"]).expect("options"),
            format!("{anew} && tc qdisc add dev eth3 parent 1:1 handle 10: netem limit 125000 loss 2%")
        );
        for bad in [&["--rate"][..], &["--rate", "4"], &["--loss", "2"], &["--rate", "1mbit; reboot"]] {
            at_port("eth3", bad).expect_err("no options");
        }
    }

    #[test]
    fn options_become_a_command_and_nothing_else_does() {
        for (options, expected) in [
            (&["--delay", "1ms"][..], Some("netem limit 125000 delay 1ms &&")),
            (&["--delay", "250us", "--loss", "0.1%"], Some("netem limit 125000 delay 250us loss 0.1% &&")),
            (&["clear"], Some("del dev eth0 root")),
            (&["--delay", "1"], None),
            (&["--delay"], None),
            (&["--loss", "0.1"], None),
            (&["--loss", "1%; reboot"], None),
            (&["--delay", "infms"], None),
            (&["--jitter", "1ms"], None),
        ] {
            let command = command(options).ok();
            match expected {
                None => assert_eq!(command, None, "{options:?}"),
                Some(part) => assert!(command.as_deref().is_some_and(|text| text.contains(part)), "{command:?}"),
            }
        }
    }
}
