//! Which campaign a command means, and the command that goes on with it.

use anyhow::Context as _;
use kelpie_reports::recipe::IMPORT;
use kelpie_store::{Campaign, CampaignId, CampaignState, Database, Store};

use crate::output::quoted;

/// The command that goes on with a campaign, with options that limit it.
pub fn resume_command(database: &Database, id: CampaignId, limits: &str) -> String {
    format!("kelpie campaign resume {id} --db {}{limits}", quoted(&database.to_string()))
}

/// What to do if it is not known whether something in a campaign stops a gate.
pub fn next_step(campaign: &Campaign, database: &Database) -> Option<String> {
    match (campaign.state, campaign.definition.budget) {
        (CampaignState::Finished, _) => Some("`kelpie watch` shows how experiments ended".to_owned()),
        (CampaignState::Stopped, budget) => {
            let limits = if budget.is_some() { "" } else { " --time T" };
            Some(format!("`{}` goes on", resume_command(database, campaign.id, limits)))
        }
        (CampaignState::Running, _) => None,
    }
}

pub fn latest(store: &mut Store, wanted: impl Fn(&Campaign) -> bool) -> anyhow::Result<Option<CampaignId>> {
    Ok(store.campaigns()?.into_iter().rev().find(wanted).map(|campaign| campaign.id))
}

/// The campaign that was named, else the latest; what was imported only if there is no other.
pub fn chosen(store: &mut Store, named: Option<CampaignId>) -> anyhow::Result<CampaignId> {
    let searched = |campaign: &Campaign| campaign.definition.algorithm != IMPORT;
    match named {
        Some(id) => Ok(id),
        None => latest(store, searched)?
            .map_or_else(|| latest(store, |_| true), |id| Ok(Some(id)))?
            .with_context(|| format!("{}: no campaign yet; `kelpie campaign run` begins one", store.database())),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_resume_command_can_be_pasted() {
        for (database, expected) in [
            ("/a/b.db", "kelpie campaign resume 3 --db /a/b.db"),
            ("/a b/it's.db", r"kelpie campaign resume 3 --db '/a b/it'\''s.db'"),
        ] {
            assert_eq!(resume_command(&Path::new(database).into(), CampaignId(3), ""), expected);
        }
        let timed = resume_command(&Path::new("x.db").into(), CampaignId(1), " --time 90s");
        assert_eq!(timed, "kelpie campaign resume 1 --db x.db --time 90s");
    }
}
