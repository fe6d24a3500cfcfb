//! `kelpie generate`: manual pages and shell completions, made from the arguments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap_complete::Shell;
use serde_json::json;

use crate::args::Common;
use crate::cli::{self, PagesArgs};
use crate::output::{note, print_json};

/// Where each shell looks for completions under a prefix.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", "kelpie"),
    (Shell::Zsh, "share/zsh/site-functions", "_kelpie"),
    (Shell::Fish, "share/fish/vendor_completions.d", "kelpie.fish"),
];

/// Writes them; the pages are named as `git` names its own: kelpie-campaign-run(1).
pub fn run(args: &PagesArgs, common: Common) -> anyhow::Result<ExitCode> {
    let pages = folder(&args.out, "share/man/man1")?;
    clap_mangen::generate_to(cli::command(), &pages).with_context(|| format!("write {}", pages.display()))?;
    for (shell, place, name) in SHELLS {
        let path = folder(&args.out, place)?.join(name);
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut cli::command(), "kelpie", &mut text);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    if common.json {
        print_json(&json!({ "share": args.out.join("share") }))?;
    } else {
        note(&format!("manual pages and completions are in {}", args.out.join("share").display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn folder(out: &Path, place: &str) -> anyhow::Result<PathBuf> {
    let folder = out.join(place);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}
