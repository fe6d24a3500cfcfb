//! Benchmarks in the lab: Kelpie's own controller and agents, built for release, against something else in the same
//! guests. Each comparison has its own file.

mod kelpie;
mod perftest;
mod trace;
mod turnaround;

use anyhow::{Result, bail};

use super::place::Lab;
use kelpie::Kelpie;
use perftest::Options;

const USAGE: &str = "usage: cargo xtask lab bench perftest [--pairs N] [--only WORD]... | bench turnaround | \
                     bench trace [--pairs N] [--only WORD]...";

impl Lab {
    /// Runs one benchmark in the running lab.
    pub fn bench(&self, args: &[&str]) -> Result<()> {
        let kelpie = || Kelpie::deploy(self);
        match args {
            ["perftest", options @ ..] => perftest::run(&kelpie()?, &Options::parse(options, USAGE)?),
            ["turnaround"] => turnaround::run(&kelpie()?),
            ["trace", options @ ..] => trace::run(&kelpie()?, &Options::parse(options, USAGE)?),
            _ => bail!("{USAGE}"),
        }
    }
}
