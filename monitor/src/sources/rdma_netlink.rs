//! Counters of an RDMA port over netlink: those of `hw_counters`, and optional ones that sysfs leaves out.

use super::netlink::{DUMP, NetlinkRequest, attribute, attributes, text};
use super::{CounterSource, Reading, SourceError};

/// Source: kernel `include/uapi/linux/netlink.h`, `NETLINK_RDMA`.
const PROTOCOL: isize = 20;

// Source: kernel `include/uapi/rdma/rdma_netlink.h`: RDMA_NL_NLDEV << 10, enum rdma_nldev_command and rdma_nldev_attr.
const CLIENT: u16 = 5 << 10;
const GET: u16 = CLIENT + 1;
const STATISTICS_GET: u16 = CLIENT + 17;
const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const COUNTERS: u16 = 80;
const COUNTER: u16 = 81;
const COUNTER_NAME: u16 = 82;
const COUNTER_VALUE: u16 = 83;

/// What `rdma statistic show link DEVICE/PORT` shows.
#[derive(Debug, Clone)]
pub struct RdmaNetlinkSource {
    device: String,
    index: [u8; 4],
    port: u32,
}

impl RdmaNetlinkSource {
    /// The counters of a port; `None` if the kernel has no such device or no RDMA netlink.
    pub fn new(device: &str, port: u32) -> Option<Self> {
        let devices = NetlinkRequest::new(GET, DUMP, &[]).ask(PROTOCOL).ok()?;
        let found = devices.iter().find(|answer| attribute(answer, DEVICE_NAME).and_then(text) == Some(device))?;
        let index = attribute(found, DEVICE_INDEX)?.try_into().ok()?;
        Some(Self { device: device.to_owned(), index, port })
    }
}

impl CounterSource for RdmaNetlinkSource {
    fn read(&mut self) -> Result<Reading, SourceError> {
        let failed = |source| SourceError::Netlink { device: self.device.clone(), source };
        let request = NetlinkRequest::new(STATISTICS_GET, 0, &[]);
        let request = request.with(DEVICE_INDEX, &self.index).with(PORT_INDEX, &self.port.to_ne_bytes());
        let answers = request.ask(PROTOCOL).map_err(failed)?;
        Ok(answers.iter().flat_map(|answer| counters(answer)).collect())
    }
}

fn counters(answer: &[u8]) -> Vec<(String, u64)> {
    let table = attribute(answer, COUNTERS).unwrap_or_default();
    let entry = |entry: &[u8]| {
        let name = attribute(entry, COUNTER_NAME).and_then(text)?;
        let value = attribute(entry, COUNTER_VALUE)?.try_into().ok()?;
        Some((name.to_owned(), u64::from_ne_bytes(value)))
    };
    attributes(table).filter(|(kind, _)| *kind == COUNTER).filter_map(|(_, value)| entry(value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::netlink::encoded;

    #[test]
    fn a_table_of_counters_is_read_and_a_broken_entry_is_missing() {
        let entry = |name: &[u8], value: &[u8]| {
            encoded(0x8000 | COUNTER, &[encoded(COUNTER_NAME, name), encoded(COUNTER_VALUE, value)].concat())
        };
        let table = [entry(b"sent_pkts\0", &7_u64.to_ne_bytes()), entry(b"short\0", &[1, 2])].concat();
        let answer = [encoded(PORT_INDEX, &1_u32.to_ne_bytes()), encoded(0x8000 | COUNTERS, &table)].concat();
        assert_eq!(counters(&answer), [("sent_pkts".to_owned(), 7)]);
        assert!(counters(&answer[..8]).is_empty());
    }

    #[test]
    fn a_device_that_is_not_there_has_no_source() {
        assert!(RdmaNetlinkSource::new("no-such-device", 1).is_none());
    }
}
