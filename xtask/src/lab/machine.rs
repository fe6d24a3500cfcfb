//! What guests are. How each of the two is started is elsewhere.

/// A kind of guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// A program of the user: Linux for user mode, at the machine's own speed.
    UserMode,
    /// A machine that QEMU emulates, with a stock kernel of Debian.
    Emulated,
}

impl Machine {
    /// By its name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::UserMode, Self::Emulated].into_iter().find(|machine| machine.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::UserMode => "user-mode",
            Self::Emulated => "emulated",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_name() {
        for machine in [Machine::UserMode, Machine::Emulated] {
            assert_eq!(Machine::of(machine.name()), Some(machine));
        }
        assert_eq!(Machine::of(""), None);
    }
}
