//! When a campaign ran, in words.

use std::time::{Duration, UNIX_EPOCH};

use kelpie_store::CampaignClock;

/// When a campaign began, in UTC.
pub fn started(clock: CampaignClock) -> String {
    utc(clock.started_unix_ms.and_then(|ms| u64::try_from(ms / 1000).ok()))
}

/// A moment in UTC. Units: seconds since 1970.
pub fn utc(since: Option<u64>) -> String {
    // The last second of the year 9999, beyond which the form has no date.
    let known = since.filter(|seconds| *seconds < 253_402_300_800);
    known.map_or_else(
        || "unknown".to_owned(),
        |seconds| humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string(),
    )
}

/// How long the experiments of a campaign took together.
pub fn measured(clock: CampaignClock) -> String {
    let seconds = clock.measured_seconds.clamp(0.0, 1e12);
    let whole = Duration::from_secs(seconds.round() as u64);
    if seconds < 10.0 {
        format!("{seconds:.1}s")
    } else {
        humantime::format_duration(whole).to_string().replace(' ', "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_said_in_words_whatever_it_holds() {
        let of = |started_unix_ms, measured_seconds| CampaignClock { started_unix_ms, measured_seconds };
        let longest = humantime::format_duration(Duration::from_secs(1_000_000_000_000)).to_string().replace(' ', "");
        for (clock, begun, took) in [
            (of(Some(1_700_000_000_000), 3.21), "2023-11-14T22:13:20Z", "3.2s"),
            (of(None, 3725.0), "unknown", "1h2m5s"),
            (of(Some(i64::MAX), 1e300), "unknown", &longest[..]),
            (of(Some(-5000), f64::NAN), "unknown", "0s"),
        ] {
            assert_eq!((started(clock), measured(clock)), (begun.to_owned(), took.to_owned()));
        }
    }
}
