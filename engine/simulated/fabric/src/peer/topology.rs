//! Topologies: `nodes switches links` (HPCC), or `nodes gpus_per_server nvswitches switches links gpu_type` (`SimAI`),
//! the numbers of the switches, and a line `source destination rate delay error_rate` for each link.

use kelpie_packets::{Link, Network, NodeKind};

use super::lines::{Peer, PeerError, Words, bits_per_second, nanos, short};

/// Most nodes and most links. Source: our choice.
const MOST: usize = 1 << 22;

/// A topology.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerTopology {
    /// Nodes and links.
    pub network: Network,
    /// Hosts that share crossbars, from 0 on; 1 if none do.
    pub gpus_per_server: u32,
    /// Kind of GPU, if the file names one.
    pub gpu: Option<String>,
}

impl PeerTopology {
    /// Reads a file.
    ///
    /// # Errors
    /// Names the line of what is not understood.
    pub fn read(peer: Peer, file: &str, text: &str) -> Result<Self, PeerError> {
        let mut words = Words::new(file, text);
        let nodes = words.below("the number of nodes", MOST)? as usize;
        let (gpus_per_server, crossbars) = match peer {
            Peer::Hpcc => (1, 0),
            Peer::SimAi => {
                (words.below("GPUs per server", MOST)?, words.below("the number of NVSwitches", nodes + 1)? as usize)
            }
        };
        let switches = words.below("the number of switches", nodes + 1)? as usize;
        let links = words.below("the number of links", MOST)?;
        let gpu = if peer == Peer::SimAi { Some(short(words.word("the kind of GPU")?)) } else { None };
        if crossbars + switches > nodes {
            return Err(words.wrong("there are more switches than nodes"));
        }
        let mut kinds = vec![NodeKind::Host; nodes];
        for number in 0..crossbars + switches {
            let node = words.below("a switch", nodes)?;
            kinds[node as usize] = if number < crossbars { NodeKind::Crossbar } else { NodeKind::Switch };
        }
        let mut network = Network { nodes: kinds, links: Vec::with_capacity(links as usize) };
        for _ in 0..links {
            let ends = [words.below("a link's source", nodes)?, words.below("a link's destination", nodes)?];
            let rate = words.word("a link's rate")?;
            let bps = bits_per_second(rate).filter(|bps| *bps > 0.0);
            let bps = bps.ok_or_else(|| words.wrong(&format!("`{}` should be a rate such as 100Gbps", short(rate))))?;
            let delay = words.word("a link's delay")?;
            let delay = nanos(delay)
                .ok_or_else(|| words.wrong(&format!("`{}` should be a delay such as 1000ns", short(delay))))?;
            let loss: f64 = words.number("a link's error rate")?;
            if !(0.0..=1.0).contains(&loss) || ends[0] == ends[1] {
                return Err(words.wrong("a link has two different ends and an error rate from 0 to 1"));
            }
            network.links.push(Link { ends, gbps: bps / 1e9, delay_ns: delay as u32, loss });
        }
        Ok(Self { network, gpus_per_server: gpus_per_server.max(1), gpu })
    }
}
