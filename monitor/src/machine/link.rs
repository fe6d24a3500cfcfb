//! What belongs to an RDMA port: its network interface, that one's speed, and the PCIe function behind both.

use super::{Machine, PciFunction, pci_path};

/// Names of the RDMA devices, sorted.
pub fn rdma_devices(machine: &Machine) -> Vec<String> {
    machine.names("sys/class/infiniband")
}

/// One port of an RDMA device and what it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortLink {
    /// RDMA device.
    pub device: String,
    /// Port, from 1.
    pub port: u32,
    /// Network interface, for Ethernet: it has the addresses and the MTU.
    pub netdev: Option<String>,
    /// Interfaces that count and pause, by PCI address: of a bond its slaves on this device, else `netdev`.
    pub wires: Vec<String>,
}

impl PortLink {
    /// Looks for what `port` of `device` stands on.
    pub fn of(machine: &Machine, device: &str, port: u32) -> Self {
        let mut link = Self { device: device.to_owned(), port, netdev: None, wires: Vec::new() };
        link.netdev = link.find_netdev(machine);
        link.wires = link.find_wires(machine);
        link
    }

    /// Directory of the device in sysfs.
    pub fn device_directory(&self) -> String {
        format!("sys/class/infiniband/{}", self.device)
    }

    /// The name of a file of the port.
    pub fn port_file(&self, name: &str) -> String {
        format!("{}/ports/{}/{name}", self.device_directory(), self.port)
    }

    /// The name of a file of the network interface.
    pub fn netdev_file(&self, name: &str) -> Option<String> {
        self.netdev.as_ref().map(|netdev| format!("sys/class/net/{netdev}/{name}"))
    }

    /// What the port carries, as its wires have trained: of InfiniBand and of interfaces without a speed the port's own
    /// rate. `None` if it is not up, or reports nothing.
    ///
    /// Units: bits/s. Source: kernel `Documentation/ABI/stable/sysfs-class-infiniband` (`rate`).
    pub fn bits_per_sec(&self, machine: &Machine) -> Option<f64> {
        let is_up = |name: &str| machine.text(&self.port_file(name)).is_none_or(|state| state.ends_with("ACTIVE"));
        if !is_up("state") {
            return None;
        }
        let speeds = || self.wires.iter().filter_map(|wire| speed(machine, wire));
        let of_wires =
            if self.has_one_active_wire(machine) { speeds().reduce(f64::max) } else { speeds().reduce(|a, b| a + b) };
        of_wires.filter(|_| !self.is_infiniband(machine)).or_else(|| {
            let rate = machine.text(&self.port_file("rate"))?;
            let gigabits: f64 = rate.split_once(" Gb/sec")?.0.parse().ok()?;
            Some(gigabits * 1e9).filter(|rate| *rate > 0.0)
        })
    }

    /// Whether the port is one of InfiniBand: the interface of such a port is IPoIB, whose state and speed are its own.
    pub fn is_infiniband(&self, machine: &Machine) -> bool {
        machine.text(&self.port_file("link_layer")).is_some_and(|layer| layer == "InfiniBand")
    }

    /// Whether of several wires only one has traffic. Source: kernel `Documentation/networking/bonding.rst` (`mode`).
    fn has_one_active_wire(&self, machine: &Machine) -> bool {
        self.netdev_file("bonding/mode")
            .and_then(|file| machine.text(&file))
            .is_some_and(|mode| mode == "active-backup 1")
    }

    /// The functions from the root port to the NIC; the last is the NIC. Empty if there is no PCI.
    pub fn pci<'a>(&self, machine: &'a Machine) -> Vec<PciFunction<'a>> {
        let of_device = pci_path(machine, &format!("{}/device", self.device_directory()));
        match self.netdev_file("device") {
            Some(directory) if of_device.is_empty() => pci_path(machine, &directory),
            _ => of_device,
        }
    }

    /// The interface of the port's first GID; of Soft-RoCE and others without such a file, the one they are on.
    ///
    /// Source: kernel `Documentation/ABI/stable/sysfs-class-infiniband` (`gid_attrs/ndevs`), `Documentation/ABI/
    /// testing/sysfs-class-net` (`dev_port`), `drivers/infiniband/sw/rxe/rxe_verbs.c` (`parent`).
    fn find_netdev(&self, machine: &Machine) -> Option<String> {
        let of_gid = machine.text(&self.port_file("gid_attrs/ndevs/0")).filter(|name| !name.is_empty());
        let of_device = || {
            let directory = format!("{}/device/net", self.device_directory());
            let is_port = |name: &String| {
                machine.number::<u32>(&format!("{directory}/{name}/dev_port")) == self.port.checked_sub(1)
            };
            let names = machine.names(&directory);
            names.iter().find(|name| is_port(name)).or(names.first()).cloned()
        };
        let parent = || machine.text(&format!("{}/parent", self.device_directory()));
        let netdev = of_gid.or_else(of_device).or_else(parent)?;
        machine.has(&format!("sys/class/net/{netdev}")).then_some(netdev)
    }

    /// A slave belongs to the device if its PCI function is of the same card and has no RDMA device of its own.
    ///
    /// Source: kernel `Documentation/networking/bonding.rst` (`bonding/slaves`), `drivers/net/ethernet/mellanox/mlx5/
    /// core/lag/lag.c`: a bond of both ports of a card takes away their devices and makes one at the first function.
    fn find_wires(&self, machine: &Machine) -> Vec<String> {
        let Some(netdev) = &self.netdev else { return Vec::new() };
        let path = self.pci(machine);
        let is_ours = |function: &PciFunction<'_>| {
            let devices = machine.names(&function.file("infiniband"));
            path.last().is_some_and(|nic| nic.card() == function.card())
                && (devices.is_empty() || devices.contains(&self.device))
        };
        let slaves = machine.text(&format!("sys/class/net/{netdev}/bonding/slaves")).unwrap_or_default();
        let mut wires: Vec<(String, String)> = slaves
            .split_whitespace()
            .filter_map(|slave| {
                let function = pci_path(machine, &format!("sys/class/net/{slave}/device")).pop().filter(is_ours)?;
                Some((function.address().to_owned(), slave.to_owned()))
            })
            .collect();
        wires.sort_unstable();
        if wires.is_empty() {
            return vec![netdev.clone()];
        }
        wires.into_iter().map(|(_, slave)| slave).collect()
    }
}

/// Speed of a network interface. Units: bits/s; `None` if it is down, or the driver does not say.
pub fn speed(machine: &Machine, netdev: &str) -> Option<f64> {
    let megabits: f64 = machine.number(&format!("sys/class/net/{netdev}/speed"))?;
    // The kernel shows an unknown speed as -1, and older ones as the largest number.
    Some(megabits * 1e6).filter(|speed| *speed > 0.0 && megabits < f64::from(u32::MAX))
}
