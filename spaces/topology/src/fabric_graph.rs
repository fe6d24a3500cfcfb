//! Nodes and cables of a fabric: GPUs first, then `NVSwitches`, leaves, spines, cores.

use crate::fabric::{Fabric, FabricTemplate};

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FabricNode {
    /// A GPU with its NIC.
    Gpu,
    /// What the GPUs of a host share.
    NvSwitch,
    /// A switch at which NICs hang.
    Leaf,
    /// A switch above leaves.
    Spine,
    /// A switch above spines.
    Core,
}

impl FabricNode {
    fn word(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::NvSwitch => "nvswitch",
            Self::Leaf => "leaf",
            Self::Spine => "spine",
            Self::Core => "core",
        }
    }
}

/// A cable, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FabricCable {
    /// Nodes at its ends.
    pub ends: [u32; 2],
    /// Units: Gbit/s.
    pub gbps: f64,
    /// Units: ns.
    pub delay_ns: u32,
    /// Share of packets that it loses.
    pub loss: f64,
}

/// Nodes and cables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FabricGraph {
    /// Kind of each node.
    pub nodes: Vec<FabricNode>,
    /// Cables, in the order in which nodes number their ports.
    pub cables: Vec<FabricCable>,
    /// GPUs that share a host, in the order of their numbers.
    pub gpus_per_host: u32,
}

impl FabricGraph {
    /// GPUs.
    pub fn gpus(&self) -> u32 {
        self.nodes.iter().filter(|node| **node == FabricNode::Gpu).count() as u32
    }

    /// What a node is called: kind and number among its kind.
    pub fn name(&self, node: u32) -> String {
        let kind = self.nodes[node as usize];
        let number = self.nodes[..node as usize].iter().filter(|other| **other == kind).count();
        format!("{}{number}", kind.word())
    }

    /// What all nodes are called.
    pub fn names(&self) -> Vec<String> {
        let mut counts = std::collections::HashMap::new();
        let mut name = |kind: &FabricNode| {
            let count = counts.entry(*kind).or_insert(0_u32);
            *count += 1;
            format!("{}{}", kind.word(), *count - 1)
        };
        self.nodes.iter().map(&mut name).collect()
    }

    /// Each cable by the names of its ends, a line each.
    pub fn links_text(&self) -> String {
        let names = self.names();
        let name = |end: u32| names[end as usize].as_str();
        let line = |cable: &FabricCable| {
            let [a, b] = cable.ends.map(name);
            format!("{a} {b} {} Gbps {} ns\n", cable.gbps, cable.delay_ns)
        };
        self.cables.iter().map(line).collect()
    }

    /// Of a fabric that keeps its rules.
    pub fn of(fabric: &Fabric) -> Self {
        let mut graph = Self { nodes: vec![FabricNode::Gpu; fabric.gpus as usize], ..Self::default() };
        graph.gpus_per_host = fabric.gpus_per_host;
        let mut draft = Draft { graph, fabric };
        let nvswitches = draft.nvswitches();
        match fabric.template {
            FabricTemplate::FatTree => draft.fat_tree(nvswitches),
            FabricTemplate::Dragonfly => draft.dragonfly(nvswitches),
            _ => draft.leaves_and_spines(nvswitches),
        }
        draft.graph
    }
}

/// A graph while it is drawn.
struct Draft<'f> {
    graph: FabricGraph,
    fabric: &'f Fabric,
}

impl Draft<'_> {
    /// Adds so many nodes; says the first one's number.
    fn add(&mut self, kind: FabricNode, count: u32) -> u32 {
        let first = self.graph.nodes.len() as u32;
        self.graph.nodes.resize((first + count) as usize, kind);
        first
    }

    fn cable(&mut self, a: u32, b: u32, gbps: f64) {
        let Fabric { delay_ns, loss, .. } = *self.fabric;
        self.graph.cables.push(FabricCable { ends: [a, b], gbps, delay_ns, loss });
    }

    /// Adds `NVSwitches`, whose cables come before those of NICs.
    fn nvswitches(&mut self) -> Option<u32> {
        let hosts = self.fabric.gpus / self.fabric.gpus_per_host;
        (self.fabric.nvlink_gbps > 0.0 && self.fabric.gpus_per_host > 1).then(|| self.add(FabricNode::NvSwitch, hosts))
    }

    fn nvlink(&mut self, nvswitches: Option<u32>, gpu: u32) {
        if let Some(first) = nvswitches {
            let ends = [gpu, first + gpu / self.fabric.gpus_per_host];
            let Fabric { nvlink_gbps: gbps, nvlink_delay_ns: delay_ns, .. } = *self.fabric;
            self.graph.cables.push(FabricCable { ends, gbps, delay_ns, loss: 0.0 });
        }
    }

    /// Leaves by segment: a segment has one leaf for each rail, or one in all; twice as many if NICs have two ports.
    fn leaves_and_spines(&mut self, nvswitches: Option<u32>) {
        use FabricTemplate as T;
        let f = self.fabric;
        let rails = if matches!(f.template, T::Dcn | T::DcnDualTor) { 1 } else { f.gpus_per_host };
        let sides = if matches!(f.template, T::SpectrumX | T::Dcn | T::ThreeTier) { 1 } else { 2 };
        let segments = f.gpus.div_ceil(f.nics_per_leaf * rails);
        let leaves = self.add(FabricNode::Leaf, segments * rails * sides);
        let leaf = |gpu: u32, side: u32| {
            let segment = gpu / (f.nics_per_leaf * rails);
            leaves + side * segments * rails + segment * rails + gpu % rails
        };
        let pods = if f.template == T::ThreeTier { (segments * rails).div_ceil(f.leaves_per_pod) } else { 1 };
        let spines = self.add(FabricNode::Spine, pods * f.spines);
        for gpu in 0..f.gpus {
            self.nvlink(nvswitches, gpu);
            (0..sides).for_each(|side| self.cable(gpu, leaf(gpu, side), f.nic_gbps));
        }
        for number in 0..segments * rails * sides {
            let mut above = 0..f.spines;
            if f.template == T::AlibabaHpnDualPlane {
                let half = f.spines / 2;
                above = if number < segments * rails { 0..half } else { half..f.spines };
            }
            let pod = if pods > 1 { number / f.leaves_per_pod } else { 0 };
            above.for_each(|spine| self.cable(leaves + number, spines + pod * f.spines + spine, f.uplink_gbps));
        }
        if f.template == T::ThreeTier && pods > 1 {
            let cores = self.add(FabricNode::Core, f.cores);
            for spine in 0..pods * f.spines {
                let place = spine % f.spines;
                // Spines of one place share cores, as in a fat tree; with fewer cores than places, places share them.
                for core in 0..f.cores {
                    if core % f.spines.min(f.cores) == place % f.cores {
                        self.cable(spines + spine, cores + core, f.uplink_gbps);
                    }
                }
            }
        }
    }

    /// Switches with `ports` ports each, the smallest even number that suffices.
    fn fat_tree(&mut self, nvswitches: Option<u32>) {
        let f = self.fabric;
        let half = (1..64).find(|half: &u32| 2 * half.pow(3) >= f.gpus).unwrap_or(1);
        let pods = f.gpus.div_ceil(half * half);
        let leaves = self.add(FabricNode::Leaf, pods * half);
        let spines = self.add(FabricNode::Spine, pods * half);
        let cores = self.add(FabricNode::Core, half * half);
        for gpu in 0..f.gpus {
            self.nvlink(nvswitches, gpu);
            self.cable(gpu, leaves + gpu / half, f.nic_gbps);
        }
        for leaf in 0..pods * half {
            (0..half).for_each(|up| self.cable(leaves + leaf, spines + leaf / half * half + up, f.uplink_gbps));
        }
        for spine in 0..pods * half {
            (0..half).for_each(|up| self.cable(spines + spine, cores + spine % half * half + up, f.uplink_gbps));
        }
    }

    /// Groups of 2p switches with p NICs and p cables to other groups each.
    fn dragonfly(&mut self, nvswitches: Option<u32>) {
        let f = self.fabric;
        let size = (1..64).find(|p: &u32| 2 * p * p * (2 * p * p + 1) >= f.gpus).unwrap_or(1);
        let (switches, groups) = (2 * size, f.gpus.div_ceil(2 * size * size));
        let leaves = self.add(FabricNode::Leaf, groups * switches);
        for gpu in 0..f.gpus {
            self.nvlink(nvswitches, gpu);
            self.cable(gpu, leaves + gpu / size, f.nic_gbps);
        }
        for group in 0..groups {
            for a in 0..switches {
                let first = leaves + group * switches;
                (a + 1..switches).for_each(|b| self.cable(first + a, first + b, f.uplink_gbps));
            }
            for other in group + 1..groups {
                // The n-th other group hangs on the n-th cable of a group, counted over its switches.
                let here = leaves + group * switches + (other - 1) / size % switches;
                let there = leaves + other * switches + group / size % switches;
                self.cable(here, there, f.uplink_gbps);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(graph: &FabricGraph, kind: FabricNode) -> usize {
        graph.nodes.iter().filter(|node| **node == kind).count()
    }

    #[test]
    fn templates_have_the_switches_and_cables_of_their_sources() {
        use FabricTemplate as T;
        // Template, GPUs, then NVSwitches, leaves, spines, cores, cables.
        for (template, gpus, expected) in [
            (T::SpectrumX, 256, [32, 8, 64, 0, 256 + 256 + 8 * 64]),
            (T::SpectrumX, 1024, [128, 16, 64, 0, 1024 + 1024 + 16 * 64]),
            (T::AlibabaHpn, 1024, [128, 16, 120, 0, 1024 + 2048 + 16 * 120]),
            (T::AlibabaHpnDualPlane, 1024, [128, 16, 120, 0, 1024 + 2048 + 16 * 60]),
            (T::Dcn, 256, [32, 4, 8, 0, 256 + 256 + 4 * 8]),
            (T::DcnDualTor, 256, [32, 4, 8, 0, 256 + 512 + 4 * 8]),
            (T::FatTree, 16, [2, 8, 8, 4, 16 + 16 + 16 + 16]),
            (T::FatTree, 1024, [128, 128, 128, 64, 1024 + 1024 + 1024 + 1024]),
            (T::ThreeTier, 1024, [128, 16, 128, 64, 1024 + 1024 + 16 * 64 + 128]),
            (T::Dragonfly, 72, [9, 36, 0, 0, 72 + 72 + 9 * 6 + 36]),
        ] {
            let fabric = Fabric::of_template(template, gpus);
            assert_eq!(fabric.broken_rules(), [], "{template:?}");
            let graph = FabricGraph::of(&fabric);
            let kinds = [FabricNode::NvSwitch, FabricNode::Leaf, FabricNode::Spine, FabricNode::Core];
            let seen = kinds.map(|kind| count(&graph, kind));
            assert_eq!((seen, graph.cables.len()), ([expected[0], expected[1], expected[2], expected[3]], expected[4]));
            let mut pairs: Vec<[u32; 2]> = graph.cables.iter().map(|cable| cable.ends).collect();
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), graph.cables.len(), "{template:?}: no two cables between two nodes");
        }
    }

    #[test]
    fn a_file_names_what_differs_from_its_template() {
        let text = "kelpie: topology/1\nfabric: {template: spectrum-x, gpus: 16, nvlink_gbps: 1440}\n";
        let fabric = Fabric::from_yaml("t", text).expect("valid");
        assert_eq!((fabric.nvlink_gbps, fabric.nic_gbps, fabric.spines), (1440.0, 400.0, 64));
        assert_eq!(Fabric::from_yaml("t", &fabric.to_yaml()).expect("as written"), fabric);
        let wrong = "kelpie: topology/1\nfabric:\n  template: dcn\n  gpus: 12\n  nic_gbps: 0\n";
        let error = Fabric::from_yaml("t", wrong).expect_err("two mistakes").to_string();
        assert!(error.contains("fabric.gpus_per_host") && error.contains("t:5:13: fabric.nic_gbps"), "{error}");
    }

    #[test]
    fn nodes_have_names() {
        let graph = FabricGraph::of(&Fabric::of_template(FabricTemplate::SpectrumX, 16));
        assert_eq!([0, 15, 16, 18, 26].map(|node| graph.name(node)), ["gpu0", "gpu15", "nvswitch0", "leaf0", "spine0"]);
        assert_eq!(graph.names()[26], "spine0");
    }
}
