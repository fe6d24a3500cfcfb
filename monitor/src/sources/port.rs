//! Everything that counts for one RDMA port, found when it is opened; one reading of all of it.

use super::source::{CounterSource, Reading, SLAVE, SourceError};
use super::{EthtoolSource, NetdevSource, PcieSource, RdmaNetlinkSource, SysfsSource};
use crate::machine::{Machine, PortLink};

/// The sources of a port. One that fails later leaves its counters out of that reading.
pub struct PortSources {
    /// With what comes before their names: those of several interfaces have the same ones.
    sources: Vec<(String, Box<dyn CounterSource + Send>)>,
}

impl PortSources {
    /// Finds the sources of `port` (from 1) of `device` on this machine.
    pub fn discover(device: &str, port: u32) -> Self {
        Self::on(&Machine::live(), device, port)
    }

    /// The same on another machine.
    pub fn on(machine: &Machine, device: &str, port: u32) -> Self {
        let link = PortLink::of(machine, device, port);
        let mut sources = vec![of_port(SysfsSource::at(&machine.path("sys/class/infiniband"), device, port))];
        if machine.is_live() {
            sources.extend(RdmaNetlinkSource::new(device, port).map(of_port));
        }
        for (index, netdev) in link.wires.iter().enumerate() {
            let prefix = if link.wires.len() > 1 { format!("{SLAVE}{index}.") } else { String::new() };
            sources.extend(EthtoolSource::new(machine, netdev).map(|source| (prefix.clone(), boxed(source))));
            sources.push((prefix, boxed(NetdevSource::new(machine, netdev))));
        }
        if let Some(nic) = link.pci(machine).last() {
            sources.push(of_port(PcieSource::new(machine, &nic.directory)));
        }
        Self { sources }
    }
}

fn of_port(source: impl CounterSource + Send + 'static) -> (String, Box<dyn CounterSource + Send>) {
    (String::new(), boxed(source))
}

fn boxed(source: impl CounterSource + Send + 'static) -> Box<dyn CounterSource + Send> {
    Box::new(source)
}

impl CounterSource for PortSources {
    /// Sources have names of their own, but for sysfs and netlink: those are the same counters.
    fn read(&mut self) -> Result<Reading, SourceError> {
        let mut all = Reading::new();
        let mut failure = None;
        for (prefix, source) in &mut self.sources {
            match source.read() {
                Ok(reading) => all.extend(reading.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value))),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(all),
        }
    }
}
