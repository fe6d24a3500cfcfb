//! Priority flow control of a network interface, by DCB netlink. A setting, beside the counters of what it causes.

mod text;

use super::netlink::{NetlinkRequest, attribute, attributes};
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
/// `IEEE_8021QAZ_APP_SEL_ETHERTYPE`; protocol 0 is the default priority.
const SELECTOR_ETHERTYPE: u8 = 1;
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
    /// Priority of packets that nothing else gives one.
    pub default_priority: u8,
}

impl Dcb {
    /// Asks for the settings of `netdev`; `None` if the driver has none or the kernel cannot be asked. In a recorded
    /// machine they are what `dcb` or `mlnx_qos` printed, in the file `dcb/NETDEV` or `mlnx_qos/NETDEV`.
    pub fn of(machine: &Machine, netdev: &str) -> Option<Self> {
        if !machine.is_live() {
            let texts = ["dcb", "mlnx_qos"].into_iter().filter_map(|tool| machine.text(&format!("{tool}/{netdev}")));
            return texts.map(|text| text::parse(&text)).find_map(|dcb| dcb);
        }
        let name = [netdev.as_bytes(), &[0]].concat();
        let request = NetlinkRequest::new(GET_DCB, 0, &[0, COMMAND_IEEE_GET, 0, 0]).with(INTERFACE, &name);
        Self::decode(request.ask(PROTOCOL).ok()?.first()?)
    }

    /// Priorities whose pause frames count.
    pub fn pfc_priorities(&self) -> Vec<u8> {
        (0..8).filter(|priority| self.pfc_enabled & 1 << priority != 0).collect()
    }

    /// The priority of packets with this DSCP and no VLAN tag.
    pub fn priority_of(&self, dscp: u16) -> u8 {
        self.dscp.iter().find(|(value, _)| *value == dscp).map_or(self.default_priority, |(_, priority)| *priority)
    }

    fn decode(answer: &[u8]) -> Option<Self> {
        let ieee = attribute(answer.get(FAMILY_HEADER..)?, IEEE)?;
        // `struct ieee_pfc`: capability, enabled priorities, …
        let pfc_enabled = *attribute(ieee, IEEE_PFC)?.get(1)?;
        // `struct dcb_app`: selector, priority, protocol.
        let table = attributes(attribute(ieee, IEEE_APP_TABLE).unwrap_or_default()).filter(|(kind, _)| *kind == APP);
        let mut dcb = Self { pfc_enabled, ..Self::default() };
        for (_, app) in table {
            match *app {
                [SELECTOR_DSCP, priority, low, high] => dcb.dscp.push((u16::from_ne_bytes([low, high]), priority)),
                // Of several the kernel's drivers take the highest.
                [SELECTOR_ETHERTYPE, priority, 0, 0] => dcb.default_priority = dcb.default_priority.max(priority),
                _ => {}
            }
        }
        Some(dcb)
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
        let table = [encoded(APP, &app), encoded(APP, &other), encoded(APP, &[SELECTOR_ETHERTYPE, 2, 0, 0])].concat();
        let ieee = [encoded(IEEE_PFC, &pfc), encoded(IEEE_APP_TABLE, &table)].concat();
        let answer = [vec![0; 4], encoded(INTERFACE, b"eth0\0"), encoded(0x8000 | IEEE, &ieee)].concat();
        let decoded = Dcb::decode(&answer).expect("an answer");
        assert_eq!((decoded.priority_of(26), decoded.priority_of(0)), (3, 2));
        let decoded = Dcb { default_priority: 0, ..decoded };
        assert_eq!(decoded, text::parse("pfc 3 9 x\ndscp 26 3\nnonsense\n").expect("a recording"));
        assert_eq!(decoded.pfc_priorities(), [3]);
        assert_eq!(Dcb::decode(&answer[..20]), None);
    }
}
