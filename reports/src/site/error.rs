//! Why a site cannot be made, or not put where it belongs.

use std::path::PathBuf;

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
