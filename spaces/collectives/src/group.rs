//! Groups of GPUs, what they do together, and how.

/// What a group of GPUs does together. The size is that of the whole result of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupOp {
    /// All have the sum of all.
    AllReduce,
    /// All have the parts of all.
    AllGather,
    /// Each has a part of the sum.
    ReduceScatter,
    /// Each sends another part to each.
    AllToAll,
}

/// How they do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupAlgorithm {
    /// Rings, as many as channels.
    Ring,
    /// Two binary trees over hosts, chains inside of them.
    Tree,
    /// The switch of a host reduces; over several hosts, rings between them.
    Nvls,
    /// Rings inside of hosts, then between them, then inside again.
    Hierarchical,
    /// Each to each at once.
    Direct,
    /// Each to each at once, but what leaves a host goes to the GPU of the receiver's rail first (NCCL's PXN).
    Pxn,
}

/// A group of GPUs, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// GPUs, those of a host beside each other.
    pub gpus: Vec<u32>,
    /// GPUs of a host in the cluster, which says who shares one.
    pub gpus_per_host: u32,
    /// GPUs of the cluster; behind them count what hosts share.
    pub cluster: u32,
}

impl Group {
    /// Its GPUs by host.
    pub(crate) fn hosts(&self) -> Vec<&[u32]> {
        self.gpus.chunk_by(|a, b| a / self.gpus_per_host == b / self.gpus_per_host).collect()
    }

    /// Whether all its hosts have as many of its GPUs.
    pub(crate) fn is_even(&self) -> bool {
        let hosts = self.hosts();
        hosts.iter().all(|host| host.len() == hosts[0].len())
    }

    /// What the host of a GPU shares.
    pub(crate) fn nvswitch(&self, gpu: u32) -> u32 {
        self.cluster + gpu / self.gpus_per_host
    }
}

/// Why a collective cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The algorithm does not do this.
    #[error("this algorithm does not do this collective")]
    Unfit,
    /// Hosts differ.
    #[error("this algorithm needs as many GPUs of the group on each host")]
    Uneven,
}
