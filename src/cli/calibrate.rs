//! Arguments of `kelpie calibrate`. What it does lives in `commands::calibrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct CalibrateArgs {
    #[command(subcommand)]
    pub command: Option<CalibrateCommand>,
    #[command(flatten)]
    pub fit: Option<FitArgs>,
}

#[derive(Debug, Subcommand)]
pub enum CalibrateCommand {
    /// Print the measurements worth taking, or take them
    #[command(after_help = "Examples:\n  \
        kelpie calibrate plan --base F\n  \
        kelpie calibrate plan --base F --csv > table.csv              (rates to be filled in)\n  \
        kelpie calibrate plan --base F --workloads rows               (for `kelpie measure rows/02.yaml`)\n  \
        kelpie calibrate plan --base F --subsystem pair.yaml > table.csv   (measures them all)\n  \
        kelpie calibrate plan --base F --json | jq '.rows[0]'")]
    Plan(PlanCalibrationArgs),
}

#[derive(Debug, Args)]
pub struct FitArgs {
    /// Table of measurements (docs/explained/calibration.md), `-` for stdin
    #[arg(value_name = "TABLE.csv", required = true)]
    pub table: PathBuf,
    /// Embedded model that the NIC is like, A to H
    #[arg(long, value_name = "M", default_value = "F")]
    pub base: String,
    /// Model file to write, which `sim:FILE` then measures
    #[arg(long, short = 'o', value_name = "FILE.yaml", required = true)]
    pub out: PathBuf,
    /// Replace the file if there is one
    #[arg(long)]
    pub force: bool,
    /// Fit these parameters only, such as `pcie.gbps,receive.xoff_kib` [default: all 18]
    #[arg(long, value_name = "PATH[,PATH...]", value_delimiter = ',')]
    pub parameters: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PlanCalibrationArgs {
    /// Embedded model that the NIC is like, A to H
    #[arg(long, value_name = "M", default_value = "F")]
    pub base: String,
    /// Print the table to fill in
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Write each row as a workload file into this directory, which must not exist
    #[arg(long, value_name = "DIR", conflicts_with_all = ["csv", "subsystem", "json"])]
    pub workloads: Option<PathBuf>,
    /// Measure each row on `sim:F`, `sim:path.yaml`, `lab` or a pair, and print the table
    #[arg(long, short = 's', value_name = "S", conflicts_with = "json")]
    pub subsystem: Option<String>,
}
