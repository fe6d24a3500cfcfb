//! Congestion control: what a sender does about what it hears. One file for each algorithm.

mod control;
mod dcqcn;
mod dctcp;
mod hpcc;
mod none;
mod pint;
mod swift;
mod timely;

pub use control::{CongestionControl, Echo, Hop, Line, NEVER, PortLoad};
pub use dcqcn::Dcqcn;
pub use dctcp::Dctcp;
pub use hpcc::{Hpcc, MOST_HOPS};
pub use none::NoControl;
pub use pint::Pint;
pub use swift::Swift;
pub use timely::Timely;

/// The algorithm of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Algorithm {
    /// Line rate, always.
    None,
    /// DCQCN.
    Dcqcn(Dcqcn),
    /// HPCC.
    Hpcc(Hpcc),
    /// TIMELY.
    Timely(Timely),
    /// DCTCP by rate.
    Dctcp(Dctcp),
    /// HPCC with one byte.
    Pint(Pint),
    /// Swift.
    Swift(Swift),
}

impl Algorithm {
    /// Whether rates stay above 0 and time passes between changes.
    pub(crate) fn can_be(&self) -> bool {
        match self {
            Self::None => true,
            Self::Dcqcn(form) => {
                let is_share = form.gain > 0.0 && form.gain <= 1.0;
                form.least > 0.0 && form.alpha_interval > 0 && form.increase_interval > 0 && is_share
            }
            Self::Hpcc(form) => form.least > 0.0 && form.target > 0.0,
            Self::Timely(form) => form.least > 0.0 && form.least_rtt > 0.0,
            Self::Dctcp(form) => form.least > 0.0,
            Self::Pint(form) => form.least > 0.0 && form.target > 0.0 && form.base > 1.0,
            Self::Swift(form) => form.least > 0.0 && form.flow_windows[0] < form.flow_windows[1],
        }
    }
}
