//! Arguments of `kelpie doctor`. What it does lives in `commands::doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Arguments of the doctor.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// RDMA device [default: every one]
    #[arg(value_name = "DEVICE")]
    pub device: Option<String>,
    /// Port of the device, from 1 [default: every one]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub port: Option<u32>,
    /// Traffic class that has to be lossless, as in the `tuning` of a pair file: DSCP times four, and ECN
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub traffic_class: u8,
    /// Read counters of errors again after this time, such as 10s, and show what was counted in between
    #[arg(long, value_name = "TIME", value_parser = parse_again)]
    pub again: Option<Duration>,
    /// Compare with the other host of a pair, or with this one before: what its `kelpie doctor --json` printed, `-` for
    /// stdin
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Look at the files of a host below this directory, instead of at this machine
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// From a second, because drivers refresh their counters once a second, to an hour.
fn parse_again(text: &str) -> Result<Duration, String> {
    let refused = || "write a time of 1s to 1h, such as 10s or 5m".to_owned();
    let time = humantime::parse_duration(text).map_err(|_| refused())?;
    (1.0..=3600.0).contains(&time.as_secs_f64()).then_some(time).ok_or_else(refused)
}
