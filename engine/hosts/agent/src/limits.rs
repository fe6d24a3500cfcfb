//! What one controller may make an agent set up. What the device itself refuses is in `engine/hosts/verbs`.

use kelpie_engine::meminfo;
use kelpie_engine::plan::{GroupPlan, HostPlan};
use kelpie_engine::rank::RankJob;
use kelpie_engine::verbs_host::HostError;

/// Upper bounds of one experiment on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// QPs of all flows.
    pub qps: u64,
    /// Memory regions of all flows.
    pub mrs: u64,
    /// Registered memory and queues of all flows. Units: bytes.
    pub memory_bytes: u64,
}

impl Limits {
    /// Default of [`Limits::qps`]. Source: Collie, section 4 (20 K QPs), twice, because loopback has both ends here.
    pub const QPS: u64 = 40_000;

    /// Default of [`Limits::mrs`]. Source: Collie, section 4 (200 K MRs), twice as well.
    pub const MRS: u64 = 400_000;

    /// Default of [`Limits::memory_bytes`]: half of this machine's memory. Source: our choice, because it is pinned and
    /// the host has to live beside it.
    pub fn half_of_memory() -> u64 {
        meminfo::bytes("MemTotal").map_or(u64::MAX, |bytes| bytes / 2)
    }

    /// Whether a rank keeps within them.
    ///
    /// # Errors
    /// As [`Limits::check`].
    pub fn check_rank(&self, job: &RankJob) -> Result<(), HostError> {
        let wanted = 2 * job.bytes;
        if wanted <= self.memory_bytes {
            return Ok(());
        }
        let limit = self.memory_bytes;
        Err(HostError::Unsupported(format!(
            "{wanted} bytes of memory are over the agent's limit of {limit} (--max-memory)"
        )))
    }

    /// Whether `plan` keeps within them.
    ///
    /// # Errors
    /// [`HostError::Unsupported`] that names the limit and its flag.
    pub fn check(&self, plan: &HostPlan) -> Result<(), HostError> {
        let sum = |of: fn(&GroupPlan) -> u64| plan.groups.iter().map(of).fold(0, u64::saturating_add);
        let (registered, queues) = (sum(GroupPlan::registered_bytes), sum(GroupPlan::queue_bytes));
        let memory = format!("bytes of memory ({registered} registered, queues about {queues})");
        for (what, wanted, limit, flag) in [
            ("QPs", sum(|group| group.qps.into()), self.qps, "--max-qps"),
            ("memory regions", sum(GroupPlan::mrs), self.mrs, "--max-mrs"),
            (memory.as_str(), registered.saturating_add(queues), self.memory_bytes, "--max-memory"),
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
    use crate::testing::{flow, workload};
    use kelpie_engine::plan::plan;

    #[test]
    fn each_limit_is_named_with_its_flag() {
        // Per flow 2 QPs; 2 MRs of 16 KiB each at the requester, 3 at the responder. Queues of the requester, of the
        // responder of WRITEs, of that of SENDs.
        let queues = 2 * (32 * 256 + 16 + 33 * 64) + 2 * (256 + 16 + 2 * 64) + 2 * (256 + 64 * 16 + 65 * 64);
        let plan = plan(&workload(vec![flow("a", "a", "WRITE"), flow("b", "a", "SEND")]), Host::A);
        let exact = Limits { qps: 6, mrs: 4 + 6 + 6, memory_bytes: 16 * 16_384 + queues };
        exact.check(&plan).expect("just fits");
        for (limits, expected) in [
            (Limits { qps: 5, ..exact }, "6 QPs are over the agent's limit of 5 (--max-qps)"),
            (Limits { mrs: 15, ..exact }, "16 memory regions are over the agent's limit of 15 (--max-mrs)"),
            (
                Limits { memory_bytes: 262_144, ..exact },
                "294464 bytes of memory (262144 registered, queues about 32320) are over the agent's limit of 262144 \
                 (--max-memory)",
            ),
        ] {
            assert_eq!(limits.check(&plan), Err(HostError::Unsupported(expected.to_owned())));
        }
    }
}
