//! Generated hosts: what their healthy paths carry, faults of links, noise. They know nothing of the diagnosis.

use kelpie_diagnosis::Matrix;
use kelpie_topology::HostTopology;
use kelpie_topology::host::{HostLink, Node, NodeKind};
use rand::RngExt;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

/// A host, and what its healthy paths carry.
pub struct FigureHost {
    pub topology: HostTopology,
    pub rnics: Vec<usize>,
    pub endpoints: Vec<usize>,
    /// Per RNIC and endpoint. Units: Gbit/s.
    pub healthy: Vec<Vec<f64>>,
    routes: Vec<Vec<Vec<usize>>>,
}

/// Kinds of hosts: switches per socket, RNICs and GPUs per switch; without switches RNICs hang on sockets.
pub const KINDS: [(&str, [usize; 3]); 3] =
    [("A100-like", [2, 1, 2]), ("H100-like", [4, 1, 1]), ("storage-like", [0, 2, 0])];

impl FigureHost {
    /// Draws a host of two sockets. What its paths carry varies by class as on Hostping's slide, and by host.
    pub fn draw([switches, rnics, gpus]: [usize; 3], random: &mut Pcg64Mcg) -> Self {
        let (mut nodes, mut links) = (Vec::new(), Vec::new());
        let mut add = |name: String, kind: NodeKind| {
            nodes.push(Node { name, kind, pci: None, port_gbps: None });
            nodes.len() - 1
        };
        let (mut all_rnics, mut all_gpus, mut memories, mut sockets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut join = |a: usize, b: usize| links.push(HostLink { a, b, ..HostLink::default() });
        for socket in 0..2 {
            let cpu = add(format!("cpu{socket}"), NodeKind::Socket);
            let memory = add(format!("mem{socket}"), NodeKind::Memory);
            join(memory, cpu);
            sockets.push(cpu);
            memories.push(memory);
            for switch in 0..switches.max(1) {
                let below = if switches == 0 {
                    cpu
                } else {
                    let below = add(format!("psw{}", socket * switches + switch), NodeKind::PcieSwitch);
                    join(below, cpu);
                    below
                };
                for _ in 0..rnics {
                    let rnic = add(format!("rnic{}", all_rnics.len()), NodeKind::Rnic);
                    join(rnic, below);
                    all_rnics.push(rnic);
                }
                for _ in 0..gpus {
                    let gpu = add(format!("gpu{}", all_gpus.len()), NodeKind::Gpu);
                    join(gpu, below);
                    all_gpus.push(gpu);
                }
            }
        }
        join(sockets[0], sockets[1]);
        let topology = HostTopology::new(nodes, links).expect("a tree keeps the rules");
        let endpoints: Vec<usize> = memories.into_iter().chain(all_gpus).collect();
        let port = [100.0, 200.0, 400.0][random.random_range(0..3usize)];
        let routes: Vec<Vec<Vec<usize>>> = all_rnics
            .iter()
            .map(|rnic| endpoints.iter().map(|to| topology.route(*rnic, *to).expect("a tree is connected")).collect())
            .collect();
        let mut healthy = Vec::new();
        for (rnic, routes) in all_rnics.iter().zip(&routes) {
            let row = endpoints.iter().zip(routes).map(|(to, route)| {
                let kinds = topology.kinds(*rnic, route);
                let roots = kinds.iter().filter(|kind| **kind == NodeKind::Socket).count();
                // Source: Hostping's slide, as shares of the port.
                let share = match (topology.nodes()[*to].kind, roots) {
                    (NodeKind::Memory, _) => 0.985,
                    (_, 0) => 0.96,
                    (_, 1) => 0.45,
                    _ => 0.36,
                };
                port * share * random.random_range(0.98..1.02)
            });
            healthy.push(row.collect());
        }
        Self { topology, rnics: all_rnics, endpoints, healthy, routes }
    }

    /// What a link carries at most in a healthy host, by the paths that cross it.
    fn use_of(&self, link: usize) -> f64 {
        let cells = self.routes.iter().zip(&self.healthy).flat_map(|(routes, row)| routes.iter().zip(row));
        cells.filter(|(route, _)| route.contains(&link)).map(|(_, value)| *value).fold(0.0, f64::max)
    }

    /// The paths with these links at shares of what they carry.
    pub fn with_faults(&self, faults: &[(usize, f64)]) -> Vec<Vec<f64>> {
        let caps: Vec<(usize, f64)> = faults.iter().map(|(link, share)| (*link, share * self.use_of(*link))).collect();
        let limited = |route: &Vec<usize>, value: f64| {
            caps.iter().filter(|(link, _)| route.contains(link)).fold(value, |value, (_, cap)| value.min(*cap))
        };
        self.routes
            .iter()
            .zip(&self.healthy)
            .map(|(routes, row)| routes.iter().zip(row).map(|(route, value)| limited(route, *value)).collect())
            .collect()
    }

    /// These values as a measurement with noise of one standard deviation `noise`, as a share.
    pub fn measured(&self, values: &[Vec<f64>], noise: f64, random: &mut Pcg64Mcg) -> Matrix {
        let normal = Normal::new(1.0, noise).expect("noise is a share");
        let name = |node: &usize| self.topology.nodes()[*node].name.clone();
        let mut cell = |value: &f64| Some((value * normal.sample(random)).max(0.0));
        Matrix {
            kelpie: "matrix/1".to_owned(),
            rows: self.rnics.iter().map(name).collect(),
            columns: self.endpoints.iter().map(name).collect(),
            bandwidth_gbps: Some(values.iter().map(|row| row.iter().map(&mut cell).collect()).collect()),
            latency_us: None,
            completion_us: None,
            busy: Vec::new(),
            measured_by: None,
            measured_at: None,
        }
    }
}

/// Traffic of others that takes from loopback.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// The same part of each RNIC's rate for the whole matrix.
    PerRow,
    /// Another part for each cell.
    PerCell,
    /// None for most cells, and a large part of some.
    Bursts,
}

impl FigureHost {
    /// These values beside the load of others, which is drawn again for each matrix, with noise.
    pub fn beside(&self, values: &[Vec<f64>], load: Load, noise: f64, random: &mut Pcg64Mcg) -> Matrix {
        let mut left = values.to_vec();
        for row in &mut left {
            let of_row = random.random_range(0.3..0.95);
            for value in row {
                *value *= match load {
                    Load::PerRow => of_row,
                    Load::PerCell => random.random_range(0.3..0.95),
                    Load::Bursts if random.random_bool(0.15) => random.random_range(0.2..0.8),
                    Load::Bursts => 1.0,
                };
            }
        }
        self.measured(&left, noise, random)
    }
}
