//! The report of a campaign: a static site, a Markdown summary and `junit.xml`. What each page says lives below.

mod comparison;
mod edges;
mod error;
mod file;
mod finding;
mod hosts;
mod index;
mod matrix;
pub(crate) mod page;
mod plot;
mod publish;
mod timeline;

use std::collections::BTreeMap;

use kelpie_spaces::workload_to_yaml;

use crate::explained::Explained;
use crate::gate::Gate;
use crate::junit::junit;
use crate::stored_campaign::StoredCampaign;
use crate::summary::summary;

pub use comparison::{CampaignComparison, ComparedRow};
pub use error::SiteError;
pub use file::SiteFile;
pub use plot::{Curve, Curves, Dot};
pub use publish::{check_target, publish};

/// Gives every file of a campaign's site to `take`, one at a time, with the recipes of its findings by their number, as
/// far as there are any. `junit.xml` fails where `gate` stops. Equal campaigns give equal bytes.
///
/// # Errors
/// A plot or `junit.xml` cannot be made, or `take` fails.
pub fn render(
    stored: &StoredCampaign,
    mut recipes: BTreeMap<u64, Vec<u8>>,
    gate: &Gate,
    take: &mut dyn FnMut(SiteFile) -> Result<(), SiteError>,
) -> Result<(), SiteError> {
    let coverage = stored.coverage();
    let anomalies = stored.anomalies();
    let explained = Explained::new(&stored.findings, &anomalies);
    let timeline = timeline::timeline(stored);
    take(SiteFile::of("index.html", index::page(stored, &explained, &coverage, &timeline)?))?;
    take(SiteFile::of("summary.md", summary(stored, &explained, &coverage)))?;
    take(SiteFile::of("junit.xml", junit(stored, &explained, gate).map_err(SiteError::Junit)?))?;
    images(timeline, take)?;
    for found in explained.firsts() {
        let record = found.finding;
        let number = record.number;
        let recipe = recipes.remove(&number);
        let shown = finding::FindingPage::new(stored, *found, &explained, recipe.is_some());
        take(SiteFile::of(&format!("finding-{number}.html"), shown.page()?))?;
        take(SiteFile::of(&format!("finding-{number}.yaml"), workload_to_yaml(&record.workload)))?;
        if let Some(bytes) = recipe {
            take(SiteFile { name: format!("finding-{number}.tar.gz"), bytes })?;
        }
        images(shown.into_plots(), take)?;
    }
    Ok(())
}

fn images(
    plots: impl IntoIterator<Item = plot::Titled>,
    take: &mut dyn FnMut(SiteFile) -> Result<(), SiteError>,
) -> Result<(), SiteError> {
    plots.into_iter().try_for_each(|plot| take(SiteFile { name: page::png_name(&plot), bytes: plot.plot.png()? }))
}

#[cfg(test)]
mod tests;
