//! The checksum of a row: what a flipped bit on a disk changes is noticed, and no result is made of it.

/// The first version of the database whose rows have one.
pub(crate) const SINCE: i64 = 5;

/// A checksum under way. Source: CRC-32 finds every error of up to 32 bits in a row (Koopman 2002); nobody is meant to
/// be kept from changing a row on purpose.
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Of a row of this kind.
    pub(crate) fn of(kind: &str) -> Self {
        Self(crc32fast::Hasher::new()).text(kind)
    }

    /// Takes in a text; its length keeps two columns apart.
    #[must_use]
    pub(crate) fn text(mut self, text: &str) -> Self {
        self = self.integer(i64::try_from(text.len()).unwrap_or(i64::MAX));
        self.0.update(text.as_bytes());
        self
    }

    /// Takes in a number.
    #[must_use]
    pub(crate) fn integer(mut self, number: i64) -> Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    /// Takes in a column that may be empty.
    #[must_use]
    pub(crate) fn optional(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.integer(1).text(text),
            None => self.integer(0),
        }
    }

    /// As it is stored.
    pub(crate) fn finish(self) -> i64 {
        self.0.finalize().into()
    }
}
