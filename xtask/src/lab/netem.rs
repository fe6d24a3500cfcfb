//! Loss and delay on the link between the guests, by the kernel's netem. Each guest applies it to what it sends.

use std::time::Duration;

use anyhow::{Result, bail};

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
}

/// The guest's command line for these options.
fn command(options: &[&str]) -> Result<String> {
    if options == ["clear"] {
        return Ok("tc qdisc del dev eth0 root 2>/dev/null; tc qdisc show dev eth0".to_owned());
    }
    let mut netem = vec![format!("limit {QUEUE}")];
    for pair in options.chunks(2) {
        netem.push(match pair {
            ["--delay", time] if is_number_with(time, &["us", "ms", "s"]) => format!("delay {time}"),
            ["--loss", share] if is_number_with(share, &["%"]) => format!("loss {share}"),
            [_, value] => bail!("{}: `{value}`\n{USAGE}", pair[0]),
            _ => bail!("{USAGE}"),
        });
    }
    let netem = netem.join(" ");
    Ok(format!("tc qdisc replace dev eth0 root netem {netem} && tc qdisc show dev eth0"))
}

fn is_number_with(text: &str, units: &[&str]) -> bool {
    let digits = units.iter().find_map(|unit| text.strip_suffix(unit));
    digits.is_some_and(|digits| {
        digits.starts_with(|first: char| first.is_ascii_digit()) && digits.parse::<f64>().is_ok_and(f64::is_finite)
    })
}

#[cfg(test)]
mod tests {
    use super::command;

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
