//! What one controller may make an agent set up. What the device itself refuses is in `engine/verbs`.

use crate::host::HostError;
use crate::meminfo;
use crate::plan::HostPlan;

/// Upper bounds of one experiment on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// QPs of all flows.
    pub qps: u64,
    /// Memory regions of all flows.
    pub mrs: u64,
    /// Registered memory of all flows. Units: bytes.
    pub memory_bytes: u64,
}

impl Limits {
    /// Default of [`Limits::qps`]. Source: Collie, section 4 (20 K QPs), twice, because loopback has both ends here.
    pub const QPS: u64 = 40_000;

    /// Default of [`Limits::mrs`]. Source: Collie, section 4 (200 K MRs), twice as well.
    pub const MRS: u64 = 400_000;

    /// Default of [`Limits::memory_bytes`]: half of this machine's memory. Source: our choice, because registered
    /// memory is pinned and the host has to live beside it.
    pub fn half_of_memory() -> u64 {
        meminfo::bytes("MemTotal").map_or(u64::MAX, |bytes| bytes / 2)
    }

    /// Whether `plan` keeps within them.
    ///
    /// # Errors
    /// [`HostError::Unsupported`] that names the limit and its flag.
    pub fn check(&self, plan: &HostPlan) -> Result<(), HostError> {
        let (mut qps, mut mrs, mut bytes) = (0_u64, 0_u64, 0_u64);
        for group in &plan.groups {
            qps = qps.saturating_add(group.qps.into());
            mrs = mrs.saturating_add(group.mrs());
            bytes = bytes.saturating_add(group.registered_bytes());
        }
        for (what, wanted, limit, flag) in [
            ("QPs", qps, self.qps, "--max-qps"),
            ("memory regions", mrs, self.mrs, "--max-mrs"),
            ("bytes of registered memory", bytes, self.memory_bytes, "--max-memory"),
        ] {
            if wanted > limit {
                let text = format!("{wanted} {what} are over the agent's limit of {limit} ({flag})");
                return Err(HostError::Unsupported(text));
            }
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { qps: Self::QPS, mrs: Self::MRS, memory_bytes: Self::half_of_memory() }
    }
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::Host;

    use super::*;
    use crate::plan::plan;
    use crate::testing::{flow, workload};

    #[test]
    fn each_limit_is_named_with_its_flag() {
        // Per flow 2 QPs; 2 MRs of 16 KiB each at the requester, 3 at the responder.
        let plan = plan(&workload(vec![flow("a", "a", "WRITE"), flow("b", "a", "SEND")]), Host::A);
        let exact = Limits { qps: 6, mrs: 4 + 6 + 6, memory_bytes: 16 * 16_384 };
        exact.check(&plan).expect("just fits");
        for (limits, expected) in [
            (Limits { qps: 5, ..exact }, "6 QPs are over the agent's limit of 5 (--max-qps)"),
            (Limits { mrs: 15, ..exact }, "16 memory regions are over the agent's limit of 15 (--max-mrs)"),
            (
                Limits { memory_bytes: 262_143, ..exact },
                "262144 bytes of registered memory are over the agent's limit of 262143 (--max-memory)",
            ),
        ] {
            assert_eq!(limits.check(&plan), Err(HostError::Unsupported(expected.to_owned())));
        }
    }
}
