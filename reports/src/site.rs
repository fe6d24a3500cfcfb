//! The report of a campaign: a static site, a Markdown summary and `junit.xml`. What each page says lives below.

mod edges;
mod finding;
mod index;
mod page;
mod plot;
mod publish;
mod timeline;

use std::collections::BTreeMap;
use std::path::PathBuf;

use kelpie_spaces::workload_to_yaml;

use crate::digest::Digest;
use crate::junit::junit;
use crate::summary::summary;

pub use publish::{check_target, publish};

/// One file of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Where it goes below the site's directory, such as `plots/a.png`.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// What went wrong while a site was made.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A plot.
    #[error("a plot cannot be drawn: {0}")]
    Plot(String),
    /// The document `junit.xml`.
    #[error("junit.xml cannot be made")]
    Junit(#[source] quick_junit::SerializeError),
    /// The directory is no place for a site.
    #[error("{}: {reason}", path.display())]
    Target {
        /// The directory.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The file system.
    #[error("{}: {operation} failed", path.display())]
    Io {
        /// What was touched.
        path: PathBuf,
        /// What was being done.
        operation: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// Makes every file of a campaign's site, with the recipes of its findings by their number, as far as there are any. Equal
/// campaigns give equal bytes.
///
/// # Errors
/// A plot or `junit.xml` cannot be made.
pub fn render(digest: &Digest, mut recipes: BTreeMap<u64, Vec<u8>>) -> Result<Vec<File>, SiteError> {
    let coverage = digest.coverage();
    let timeline = timeline::timeline(digest);
    let mut files = vec![
        file("index.html", index::page(digest, &coverage, &timeline)?),
        file("summary.md", summary(digest, &coverage)),
        file("junit.xml", junit(digest).map_err(SiteError::Junit)?),
    ];
    let mut plots = timeline;
    for record in &digest.findings {
        let number = record.number;
        let recipe = recipes.remove(&number);
        let shown = finding::Shown::new(digest, record, recipe.is_some());
        files.push(file(&format!("finding-{number}.html"), shown.page()?));
        files.push(file(&format!("finding-{number}.yaml"), workload_to_yaml(&record.workload)));
        files.extend(recipe.map(|bytes| File { name: format!("finding-{number}.tar.gz"), bytes }));
        plots.extend(shown.into_plots());
    }
    for plot in plots {
        files.push(File { name: page::png_name(&plot), bytes: plot.plot.png()? });
    }
    Ok(files)
}

fn file(name: &str, text: String) -> File {
    File { name: name.to_owned(), bytes: text.into_bytes() }
}

#[cfg(test)]
mod tests;
