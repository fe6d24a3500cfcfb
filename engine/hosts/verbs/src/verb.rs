//! A C function as errors name it. Which there are is in the table of `library`.

use std::fmt;

/// A C function. Only the table of `library` makes one, so a function that is called has said what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verb {
    name: &'static str,
    makes: bool,
}

impl Verb {
    /// For the table.
    pub const fn new(name: &'static str, makes: bool) -> Self {
        Self { name, makes }
    }

    /// Whether it makes something of which a device or a host has only so much.
    pub fn makes(self) -> bool {
        self.makes
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
