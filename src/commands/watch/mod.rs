//! `kelpie watch`: a campaign as it goes, on a terminal, said once, or for scrapers. It reads the store and nothing
//! else.

mod metrics;
mod terminal;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::anyhow;
use kelpie_store::{CampaignFollower, Store, unix_ms};
use kelpie_text::clean;
use kelpie_watch::{CampaignProgress, text};

use crate::args::{ColourChoice, Common};
use crate::campaigns;
use crate::cli::WatchArgs;
use crate::exit;
use crate::output::print;

/// Shows a campaign until the user has seen enough, or says once how it stands.
pub fn run(args: &WatchArgs, common: Common) -> anyhow::Result<ExitCode> {
    // What an error quotes may come from the database as well.
    watch(args, common).map_err(|error| anyhow!(clean(&format!("{error:#}"))))
}

fn watch(args: &WatchArgs, common: Common) -> anyhow::Result<ExitCode> {
    let database = args.database.database()?;
    let mut store = Store::open_to_read(&database)?;
    let id = campaigns::chosen(&mut store, args.id)?;
    let campaign = store.campaign(id)?;
    drop(store);
    let mut follower = CampaignFollower::new(&database, &campaign);
    let mut progress = CampaignProgress::new(campaign);
    if let Some(listen) = args.listen {
        metrics::serve(listen, common.json, &mut follower, &mut progress)?;
        return Ok(exit::HEALTHY);
    }
    if !common.json && is_terminal() {
        terminal::watch(&mut follower, &mut progress, is_coloured(common))?;
        return Ok(exit::HEALTHY);
    }
    while !progress.is_read() {
        progress.take(follower.read()?);
    }
    if common.json {
        print(&text::json(&progress, unix_ms())?)?;
    } else {
        print(&text::text(&progress, unix_ms()))?;
    }
    Ok(exit::HEALTHY)
}

/// Whether there is a terminal to draw on and keys to read from.
fn is_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !is_dumb
}

/// Whether colours are welcome. Source of the variable: <https://no-color.org>.
fn is_coloured(common: Common) -> bool {
    match common.color {
        ColourChoice::Auto => std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        ColourChoice::Always => true,
        ColourChoice::Never => false,
    }
}
