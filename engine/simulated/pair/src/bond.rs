//! Source ports of QPs on bonded NICs, and the ports of both ends that hashes lead them by. The driver sets the first;
//! who hashes is in `kelpie_topology`.

use kelpie_nic::packet::PacketPorts as Taken;
use kelpie_paths::Planner;
use kelpie_spaces::flow_label::{FIRST_PORT, PORTS, label_of_qps, port_of_label};
use kelpie_spaces::{Flow, Host, Ports};
use kelpie_topology::{Attach, Cluster, FlowKey, PortSide, Working};

use crate::model::Model;

/// Number of a host's first QP. Source: our choice; drivers keep low numbers for themselves.
const FIRST_QP: u32 = 0x100;

/// Two bonded hosts as those who hash see them.
pub struct BondedHosts {
    cluster: Cluster,
    working: Working,
    /// Source ports by direction, by the port by which they leave, and by the one at which they arrive.
    known: [[[Vec<u16>; 2]; 2]; 2],
}

impl BondedHosts {
    /// The bonds of a model, if it has two ports.
    pub fn of(model: &Model) -> Option<Self> {
        let bond = model.bond.as_ref()?;
        // Each host below leaves of its own, so that which port a flow arrives at is the fabric's hash.
        let cluster = Cluster {
            hosts: 2,
            nics_per_host: 1,
            ports_per_nic: 2,
            port_gbps: model.port.line_rate_gbps,
            nic_gbps: None,
            leaves: 4,
            attach: Attach::Host,
            spines: 1,
            cables: 1,
            cable_gbps: bond.trunk_gbps,
            hash_seed: bond.hash_seed,
            failed: Vec::new(),
            host_names: Vec::new(),
            rank_nics: Vec::new(),
        };
        let mut bond = Self { working: Working::of(&cluster), cluster, known: Default::default() };
        for from in Host::BOTH {
            for source_port in FIRST_PORT..=FIRST_PORT + (PORTS - 1) {
                let Taken { leave, arrive } = bond.taken(from, source_port);
                bond.known[from.index()][usize::from(leave)][usize::from(arrive)].push(source_port);
            }
        }
        Some(bond)
    }

    /// The ports that packets of a host with this source port take.
    pub fn taken(&self, from: Host, source_port: u16) -> Taken {
        let flow = FlowKey { from: from.index() as u32, to: from.peer().index() as u32, source_port };
        let out = self.cluster.transmit(&self.working, flow).unwrap_or(PortSide::Left);
        let arrives = self.cluster.route(&self.working, flow, out).map_or(out, |path| path.arrives);
        Taken { leave: out.index() as u8, arrive: arrives.index() as u8 }
    }

    /// For each flow and QP the ports that its requester's packets take, and those of its responder.
    pub fn ports(&self, flows: &[Flow]) -> Vec<Vec<[Taken; 2]>> {
        let of_flow = |(flow, ports): (&Flow, Vec<[u16; 2]>)| {
            let of_qp = |[there, back]: [u16; 2]| [self.taken(flow.from, there), self.taken(flow.from.peer(), back)];
            ports.into_iter().map(of_qp).collect()
        };
        flows.iter().zip(self.source_ports(flows)).map(of_flow).collect()
    }

    /// For each flow and QP the source ports of its requester and its responder.
    pub fn source_ports(&self, flows: &[Flow]) -> Vec<Vec<[u16; 2]>> {
        let planned = self.planned(flows);
        let mut next = [FIRST_QP; 2];
        let of_flow = |(flow, sides): (&Flow, Vec<PortSide>)| {
            let mut take = |host: Host| {
                let first = next[host.index()];
                next[host.index()] += flow.qps;
                first
            };
            let first = [take(flow.from), take(flow.to)];
            let of_qp = |qp: u32| {
                let [local, remote] = first.map(|first| first + qp);
                let side = sides.get(qp as usize).copied().unwrap_or(PortSide::Left);
                match flow.ports {
                    // Both ends compute the same label.
                    Ports::Hashed => [port_of_label(label_of_qps(local, remote)); 2],
                    Ports::One => self.known_ports(flow, [PortSide::Left; 2], qp),
                    Ports::Planned => self.known_ports(flow, [side; 2], qp),
                    Ports::Crossed => {
                        let out = PortSide::BOTH[qp as usize % 2];
                        self.known_ports(flow, [out, out.other()], qp)
                    }
                }
            };
            (0..flow.qps).map(of_qp).collect()
        };
        flows.iter().zip(planned).map(of_flow).collect()
    }

    /// Source ports of both ends of a QP that lead from one side to the other, and back.
    fn known_ports(&self, flow: &Flow, [out, arrives]: [PortSide; 2], qp: u32) -> [u16; 2] {
        let one_of = |from: Host, out: PortSide, arrives: PortSide| {
            let all = &self.known[from.index()][out.index()][arrives.index()];
            // Of 16,384 ports, a quarter leads each way.
            all.get(qp as usize % all.len().max(1)).copied().unwrap_or(FIRST_PORT)
        };
        [one_of(flow.from, out, arrives), one_of(flow.from.peer(), arrives, out)]
    }

    /// The side of each QP of the flows that are planned, all of them together.
    fn planned(&self, flows: &[Flow]) -> Vec<Vec<PortSide>> {
        let mut planner = Planner::new(&self.cluster, &self.working, true);
        let mut moved = Vec::new();
        let mut ids: Vec<Vec<_>> = Vec::new();
        for flow in flows {
            let is_planned = flow.ports == Ports::Planned && !flow.is_loopback();
            let [from, to] = [flow.from, flow.to].map(|host| host.index() as u32);
            ids.push(if is_planned { planner.request(from, to, flow.qps, &mut moved) } else { Vec::new() });
        }
        let side = |id| planner.route(id).map_or(PortSide::Left, |route| route.side);
        ids.into_iter().map(|ids| ids.into_iter().map(side).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(ports: Ports, qps: u32) -> Vec<[Taken; 2]> {
        let model = Model::load("DUAL").expect("shipped");
        let flow = Flow { ports, qps, ..Flow::plain(Host::A, Host::B) };
        BondedHosts::of(&model).expect("two ports").ports(&[flow]).remove(0)
    }

    #[test]
    fn each_value_leads_qps_as_it_says() {
        let count = |ports: &[[Taken; 2]], leave: u8, arrive: u8| {
            ports.iter().filter(|[there, _]| *there == Taken { leave, arrive }).count()
        };
        assert_eq!(count(&taken(Ports::One, 6), 0, 0), 6);
        let planned = taken(Ports::Planned, 6);
        assert_eq!([count(&planned, 0, 0), count(&planned, 1, 1)], [3, 3]);
        let crossed = taken(Ports::Crossed, 6);
        assert_eq!([count(&crossed, 0, 1), count(&crossed, 1, 0)], [3, 3]);
        // What comes back takes the same cables.
        assert!(
            planned
                .iter()
                .chain(&crossed)
                .all(|[there, back]| (there.leave, there.arrive) == (back.arrive, back.leave))
        );
        let hashed = taken(Ports::Hashed, 4000);
        let ways = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(leave, arrive)| count(&hashed, leave, arrive));
        assert!(ways.iter().all(|count| (800..1200).contains(count)), "{ways:?}");
    }

    #[test]
    fn traffic_within_a_host_needs_no_plan() {
        let bond = BondedHosts::of(&Model::load("DUAL").expect("shipped")).expect("two ports");
        for ports in Ports::ALL {
            let across = Flow { ports, ..Flow::plain(Host::A, Host::B) };
            let within = Flow { ports, ..Flow::plain(Host::B, Host::B) };
            let alone = bond.ports(std::slice::from_ref(&across)).remove(0);
            let both = bond.ports(&[across, within.clone()]);
            assert_eq!((&both[0], both[1].len()), (&alone, within.qps as usize), "{ports}");
        }
    }
}
