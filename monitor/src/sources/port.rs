//! Everything that counts for one RDMA port, found when it is opened; one reading of all of it.

use super::{
    CounterSource, EthtoolSource, NetdevSource, PcieSource, RdmaNetlinkSource, Reading, SourceError, SysfsSource,
};
use crate::machine::{Machine, PortLink};

/// The sources of a port. One that fails later leaves its counters out of that reading.
pub struct PortSources {
    sources: Vec<Box<dyn CounterSource + Send>>,
}

impl PortSources {
    /// Finds the sources of `port` (from 1) of `device` on this machine.
    pub fn discover(device: &str, port: u32) -> Self {
        Self::on(&Machine::live(), device, port)
    }

    /// The same on another machine.
    pub fn on(machine: &Machine, device: &str, port: u32) -> Self {
        let link = PortLink::of(machine, device, port);
        let mut sources: Vec<Box<dyn CounterSource + Send>> =
            vec![Box::new(SysfsSource::at(&machine.path("sys/class/infiniband"), device, port))];
        if machine.is_live() {
            sources.extend(RdmaNetlinkSource::new(device, port).map(boxed));
        }
        if let Some(netdev) = &link.netdev {
            sources.extend(EthtoolSource::new(machine, netdev).map(boxed));
            sources.push(Box::new(NetdevSource::new(machine, netdev)));
        }
        if let Some(nic) = link.pci(machine).last() {
            sources.push(Box::new(PcieSource::new(machine, &nic.directory)));
        }
        Self { sources }
    }
}

fn boxed<S: CounterSource + Send + 'static>(source: S) -> Box<dyn CounterSource + Send> {
    Box::new(source)
}

impl CounterSource for PortSources {
    /// Sources have names of their own, but for sysfs and netlink: those are the same counters.
    fn read(&mut self) -> Result<Reading, SourceError> {
        let mut all = Reading::new();
        let mut failure = None;
        for source in &mut self.sources {
            match source.read() {
                Ok(reading) => all.extend(reading),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(all),
        }
    }
}
