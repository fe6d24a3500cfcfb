//! By what the time of guests goes on.

/// Where a lab that runs keeps the name of its clock.
pub const FILE: &str = "clock";

/// A clock of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Each instruction takes 4 ns, and a processor that waits has the machine's time. Equal runs are alike whatever else the
    /// machine does, but the clocks of two guests differ.
    Instructions,
    /// The machine's time, of which its other work takes some.
    Machine,
}

impl Clock {
    /// By its name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Instructions, Self::Machine].into_iter().find(|clock| clock.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Machine => "machine",
        }
    }

    /// What QEMU is told.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            // Source of the 4 ns (2 to the power of 2): our choice. At 2 ns guests wait for each other so much that large messages
            // differ by 15 %, and at 8 ns a loopback leaves an agent no time to answer.
            Self::Instructions => &["-accel", "tcg,thread=single", "-icount", "shift=2,sleep=on"],
            Self::Machine => &["-accel", "tcg,thread=multi"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_is_found_by_its_name() {
        for clock in [Clock::Instructions, Clock::Machine] {
            assert_eq!(Clock::of(clock.name()), Some(clock));
        }
        assert_eq!(Clock::of(""), None);
    }
}
