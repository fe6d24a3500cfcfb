//! `kelpie space`: the catalog and files of spaces, their size, and random workloads from them.

use std::process::ExitCode;

use anyhow::Context as _;
use kelpie_spaces::{Narrowing, Space, workload_to_yaml};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use serde_json::json;

use crate::args::Common;
use crate::cli::{RestrictArgs, SampleArgs, SpaceCommand};
use crate::exit;
use crate::inputs;
use crate::output::{Table, print, print_json};

/// Runs the command.
pub fn run(command: &SpaceCommand, common: Common) -> anyhow::Result<ExitCode> {
    match command {
        SpaceCommand::List => list(common)?,
        SpaceCommand::Show(args) => {
            print_yaml(&args.space, &inputs::read_space(&args.space)?, common)?;
        }
        SpaceCommand::Check(args) => {
            let space = inputs::read_space(&args.space)?;
            let size = space.log10_size();
            if common.json {
                print_json(&json!({"space": args.space, "valid": true, "log10_size": size}))?;
            } else {
                print(&format!("{}: a valid space of 10^{size:.1} workloads\n", args.space))?;
            }
        }
        SpaceCommand::Count(args) => {
            let size = inputs::read_space(&args.space)?.log10_size();
            if common.json {
                print_json(&json!({"space": args.space, "log10_size": size}))?;
            } else {
                print(&format!("10^{size:.1} workloads\n"))?;
            }
        }
        SpaceCommand::Restrict(args) => restrict(args, common)?,
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

fn print_yaml(name: &str, space: &Space, common: Common) -> anyhow::Result<()> {
    let text = space.to_yaml();
    if common.json { print_json(&json!({"space": name, "yaml": text})) } else { print(&text) }
}

fn restrict(args: &RestrictArgs, common: Common) -> anyhow::Result<()> {
    let only = args.only.iter().map(|(key, words)| {
        ("--only", key, Narrowing::Only(words.split(',').map(|word| word.trim().to_owned()).collect()))
    });
    let min = args.min.iter().map(|(key, word)| ("--min", key, Narrowing::Min(word.clone())));
    let max = args.max.iter().map(|(key, word)| ("--max", key, Narrowing::Max(word.clone())));
    let mut space = inputs::read_space(&args.space.space)?;
    for (option, key, to) in only.chain(min).chain(max) {
        space = space.narrow(key, &to).context(option)?;
    }
    print_yaml(&args.space.space, &space, common)
}

fn sample(args: &SampleArgs, common: Common) -> anyhow::Result<()> {
    let space = inputs::read_space(&args.space.space)?;
    let seed = common.seed_or_default();
    let mut rng = Pcg64::seed_from_u64(seed);
    let workloads: Vec<_> = (0..args.number).map(|_| space.sample(&mut rng)).collect();
    if common.json {
        return print_json(&json!({"space": args.space.space, "seed": seed, "workloads": workloads}));
    }
    let documents: Vec<String> = workloads.iter().map(workload_to_yaml).collect();
    print(&documents.join("---\n"))
}
