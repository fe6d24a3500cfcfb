//! One file of a site; what is in it is made elsewhere.

/// One file of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFile {
    /// Where it goes below the site's directory, such as `plots/a.png`.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl SiteFile {
    /// A file of text.
    pub(super) fn of(name: &str, text: String) -> Self {
        Self { name: name.to_owned(), bytes: text.into_bytes() }
    }
}
