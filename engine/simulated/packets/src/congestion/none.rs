//! No congestion control: every QP sends at line rate, and PFC alone holds senders back.

use super::control::{CongestionControl, Line};

/// No congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoControl;

impl CongestionControl for NoControl {
    type Flow = ();

    fn start(&self, _line: &Line) -> Self::Flow {}
}
