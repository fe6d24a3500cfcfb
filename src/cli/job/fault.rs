//! What `kelpie job run --fault` takes: one word per kind of fault, with its places and sizes.

use kelpie_fabric::InjectedFault;

/// Reads a fault.
pub fn parse_fault(text: &str) -> Result<InjectedFault, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |part: &str| part.parse::<u32>().map_err(|_| format!("`{part}` is no number of a rank or leaf"));
    match *parts.as_slice() {
        ["delay", rank, time] => {
            let rule = |_| format!("`{time}` is no time; write one such as 500us or 2ms");
            let time = humantime::parse_duration(time).map_err(rule)?;
            Ok(InjectedFault::Delay { rank: number(rank)?, by_us: time.as_secs_f64() * 1e6 })
        }
        ["pair", from, to, share] if from != to => {
            Ok(InjectedFault::Pair { from: number(from)?, to: number(to)?, share: parse_share(share)? })
        }
        ["sends", rank, share] => Ok(InjectedFault::Sends { rank: number(rank)?, share: parse_share(share)? }),
        ["receives", rank, share] => Ok(InjectedFault::Receives { rank: number(rank)?, share: parse_share(share)? }),
        ["leaf", leaf, share] => Ok(InjectedFault::Leaf { leaf: number(leaf)?, share: parse_share(share)? }),
        ["stop", rank] => Ok(InjectedFault::Stop { rank: number(rank)?, round: 0 }),
        ["stop", rank, round] => {
            let round = round.parse().map_err(|_| format!("`{round}` is no round; they count from 0"))?;
            Ok(InjectedFault::Stop { rank: number(rank)?, round })
        }
        _ => {
            let forms = "delay:RANK:TIME, pair:FROM:TO:SHARE, sends:RANK:SHARE, receives:RANK:SHARE, leaf:LEAF:SHARE, \
                         stop:RANK or stop:RANK:ROUND";
            Err(format!("write {forms}"))
        }
    }
}

/// A share such as `0.5` or `50%`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let share = number.trim().parse::<f64>().map(|share| share * scale);
    share.ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "write a share such as 0.5 or 50%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_or_explained() {
        assert_eq!(parse_fault("delay:3:2ms"), Ok(InjectedFault::Delay { rank: 3, by_us: 2000.0 }));
        assert_eq!(parse_fault("pair:0:1:50%"), Ok(InjectedFault::Pair { from: 0, to: 1, share: 0.5 }));
        assert_eq!(parse_fault("stop:7:2"), Ok(InjectedFault::Stop { rank: 7, round: 2 }));
        for (text, rule) in [
            ("delay:3", "write delay:RANK:TIME"),
            ("pair:1:1:0.5", "write delay"),
            ("sends:x:0.5", "`x` is no number"),
            ("leaf:0:1.5", "write a share"),
            ("delay:0:soon", "`soon` is no time"),
        ] {
            assert!(parse_fault(text).expect_err(text).starts_with(rule), "{text}");
        }
    }
}
