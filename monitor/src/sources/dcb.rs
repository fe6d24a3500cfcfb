//! Priority flow control of a network interface, by DCB netlink. A setting, beside the counters of what it causes.

use super::netlink::{Request, attribute, attributes};
use crate::machine::Machine;

// Source: kernel `include/uapi/linux/dcbnl.h`, `include/uapi/linux/rtnetlink.h` (RTM_GETDCB).
const PROTOCOL: isize = 0;
const GET_DCB: u16 = 78;
const COMMAND_IEEE_GET: u8 = 21;
const INTERFACE: u16 = 1;
const IEEE: u16 = 13;
const IEEE_PFC: u16 = 2;
const IEEE_APP_TABLE: u16 = 3;
const APP: u16 = 1;
/// `IEEE_8021QAZ_APP_SEL_DSCP`.
const SELECTOR_DSCP: u8 = 5;
/// `struct dcbmsg` comes before the attributes.
const FAMILY_HEADER: usize = 4;

/// What an interface does with priorities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dcb {
    /// Bit N: pause frames of priority N are sent and obeyed.
    pub pfc_enabled: u8,
    /// Priorities of DSCP values, `(dscp, priority)`. With any of them the interface trusts DSCP, else the VLAN tag.
    pub dscp: Vec<(u16, u8)>,
}

impl Dcb {
    /// Asks for the settings of `netdev`; `None` if the driver has none or the kernel cannot be asked. In a recorded
    /// machine they are the lines `pfc N…` (priorities) and `dscp D P` of the file `dcb/NETDEV`.
    pub fn of(machine: &Machine, netdev: &str) -> Option<Self> {
        if !machine.is_live() {
            return Some(Self::parse(&machine.text(&format!("dcb/{netdev}"))?));
        }
        let name = [netdev.as_bytes(), &[0]].concat();
        let request = Request::new(GET_DCB, 0, &[0, COMMAND_IEEE_GET, 0, 0]).with(INTERFACE, &name);
        Self::decode(request.ask(PROTOCOL).ok()?.first()?)
    }

    /// Priorities whose pause frames count.
    pub fn pfc_priorities(&self) -> Vec<u8> {
        (0..8).filter(|priority| self.pfc_enabled & 1 << priority != 0).collect()
    }

    /// The priority of packets with this DSCP and no VLAN tag.
    pub fn priority_of(&self, dscp: u16) -> u8 {
        self.dscp.iter().find(|(value, _)| *value == dscp).map_or(0, |(_, priority)| *priority)
    }

    fn decode(answer: &[u8]) -> Option<Self> {
        let ieee = attribute(answer.get(FAMILY_HEADER..)?, IEEE)?;
        // `struct ieee_pfc`: capability, enabled priorities, …
        let pfc_enabled = *attribute(ieee, IEEE_PFC)?.get(1)?;
        // `struct dcb_app`: selector, priority, protocol.
        let table = attributes(attribute(ieee, IEEE_APP_TABLE).unwrap_or_default()).filter(|(kind, _)| *kind == APP);
        let dscp = table.filter_map(|(_, app)| match *app {
            [SELECTOR_DSCP, priority, low, high] => Some((u16::from_ne_bytes([low, high]), priority)),
            _ => None,
        });
        Some(Self { pfc_enabled, dscp: dscp.collect() })
    }

    fn parse(text: &str) -> Self {
        let mut dcb = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["pfc", ref priorities @ ..] => {
                    let priorities = priorities.iter().filter_map(|word| word.parse::<u8>().ok());
                    dcb.pfc_enabled = priorities.filter(|priority| *priority < 8).fold(0, |bits, p| bits | 1 << p);
                }
                ["dscp", dscp, priority] => dcb.dscp.extend(dscp.parse().ok().zip(priority.parse().ok())),
                _ => {}
            }
        }
        dcb
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::netlink::encoded;

    #[test]
    fn netlink_and_recording_say_the_same() {
        let mut pfc = [0; 136];
        pfc[..2].copy_from_slice(&[8, 0b1000]);
        let app = [vec![SELECTOR_DSCP, 3], 26_u16.to_ne_bytes().to_vec()].concat();
        let other = [vec![1, 2], 0x8906_u16.to_ne_bytes().to_vec()].concat();
        let table = [encoded(APP, &app), encoded(APP, &other)].concat();
        let ieee = [encoded(IEEE_PFC, &pfc), encoded(IEEE_APP_TABLE, &table)].concat();
        let answer = [vec![0; 4], encoded(INTERFACE, b"eth0\0"), encoded(0x8000 | IEEE, &ieee)].concat();
        let decoded = Dcb::decode(&answer).expect("an answer");
        assert_eq!(decoded, Dcb::parse("pfc 3 9 x\ndscp 26 3\nnonsense\n"));
        assert_eq!(decoded.pfc_priorities(), [3]);
        assert_eq!((decoded.priority_of(26), decoded.priority_of(0)), (3, 0));
        assert_eq!(Dcb::decode(&answer[..20]), None);
    }
}
