//! What the paths of a host begin and end at: as a catalog has it, and as it is now.

use kelpie_engine::bond::Bond;
use kelpie_engine::verbs_host;
use kelpie_monitor::machine::{Machine, rdma_devices};
use kelpie_paths::catalog::{BondPort, CatalogEnd};
use kelpie_spaces::Host;

/// What a bond is to a catalog.
pub fn end(host: Host, bond: &Bond) -> CatalogEnd {
    let down = bond.members.iter().filter(|member| !member.is_up && bond.members.len() > 1);
    CatalogEnd {
        host,
        device: bond.device.clone(),
        gid: bond.gid.clone(),
        mode: bond.mode.clone(),
        policy: bond.policy.clone(),
        selection: bond.selection.clone(),
        down: down.map(|member| member.name.clone()).collect(),
        ports: bond.members.iter().map(|one| BondPort { name: one.name.clone(), mac: one.mac.clone() }).collect(),
    }
}

/// All of this host, for want of a name in a pair called host a; what has no network interface is left out.
pub fn present(machine: &Machine) -> Vec<CatalogEnd> {
    let of_device = |device: String| {
        let ports = machine.names(&format!("sys/class/infiniband/{device}/ports"));
        let port = |number: String| verbs_host::Port {
            device: Some(device.clone()),
            port: number.parse().unwrap_or(1),
            ..verbs_host::Port::default()
        };
        ports.into_iter().map(port).collect::<Vec<_>>()
    };
    let ports = rdma_devices(machine).into_iter().flat_map(of_device);
    ports.filter_map(|port| Some(end(Host::A, &Bond::read(machine, &port).ok()?))).collect()
}
