//! `kelpie space`: the catalog and files of spaces, their size, and random workloads from them.

use std::process::ExitCode;

use kelpie_spaces::{Space, workload_to_yaml};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::json;

use crate::cli::{Common, SampleArgs, SpaceCommand};
use crate::exit;
use crate::output::{Table, print, print_json};

/// Runs the command.
pub fn run(command: &SpaceCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        SpaceCommand::List => list(common)?,
        SpaceCommand::Show(args) => {
            let text = super::read_space(&args.space)?.to_yaml();
            if common.json { print_json(&json!({"space": args.space, "yaml": text}))? } else { print(&text)? }
        }
        SpaceCommand::Check(args) => {
            let space = super::read_space(&args.space)?;
            let size = space.log10_size();
            if common.json {
                print_json(&json!({"space": args.space, "valid": true, "log10_size": size}))?;
            } else {
                print(&format!("{}: a valid space of 10^{size:.1} workloads\n", args.space))?;
            }
        }
        SpaceCommand::Count(args) => {
            let size = super::read_space(&args.space)?.log10_size();
            if common.json {
                print_json(&json!({"space": args.space, "log10_size": size}))?;
            } else {
                print(&format!("10^{size:.1} workloads\n"))?;
            }
        }
        SpaceCommand::Sample(args) => sample(args, common)?,
    }
    Ok(exit::HEALTHY)
}

fn list(common: Common) -> anyhow::Result<()> {
    let spaces: Vec<Space> = Space::catalog_names().iter().filter_map(|name| Space::catalog(name)).collect();
    if common.json {
        let row =
            |space: &Space| json!({"name": space.name(), "log10_size": space.log10_size(), "about": space.about()});
        return print_json(&json!({"spaces": spaces.iter().map(row).collect::<Vec<_>>()}));
    }
    let mut table = Table::new(&["space", "workloads", "about"], &[1]);
    for space in spaces {
        let size = format!("10^{:.1}", space.log10_size());
        table.row(vec![space.name().to_owned(), size, space.about().to_owned()]);
    }
    print(&table.render(""))
}

fn sample(args: &SampleArgs, common: Common) -> anyhow::Result<()> {
    let space = super::read_space(&args.space.space)?;
    let seed = common.seed_or_default();
    let mut rng = Pcg64::seed_from_u64(seed);
    let workloads: Vec<_> = (0..args.number).map(|_| space.sample(&mut rng)).collect();
    if common.json {
        return print_json(&json!({"space": args.space.space, "seed": seed, "workloads": workloads}));
    }
    let documents: Vec<String> = workloads.iter().map(workload_to_yaml).collect();
    print(&documents.join("---\n"))
}
