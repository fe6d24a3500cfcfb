//! The fastest link that a network interface could have, by ethtool netlink: beside the speed that it trained to.

use super::netlink::{NetlinkRequest, attribute, attributes, text};
use crate::machine::Machine;

// Source: kernel `include/uapi/linux/genetlink.h` and `ethtool_netlink.h`,
// `Documentation/networking/ethtool-netlink.rst`.
const PROTOCOL: isize = 16;
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const LINKMODES_GET: u8 = 4;
const HEADER: u16 = 1;
const HEADER_NAME: u16 = 2;
const OURS: u16 = 3;
const BITSET_BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
/// `struct genlmsghdr` comes before the attributes.
const FAMILY_HEADER: usize = 4;

/// The speed of the fastest mode that the port supports; `None` if the driver lists none or the kernel cannot be asked.
/// In a recorded machine it is the file `modes/NETDEV`, a mode a line.
///
/// Units: Mbit/s.
pub fn fastest_megabits(machine: &Machine, netdev: &str) -> Option<u64> {
    if !machine.is_live() {
        return machine.text(&format!("modes/{netdev}"))?.lines().filter_map(megabits).max();
    }
    let name = |name: &str| [name.as_bytes(), &[0]].concat();
    let family = NetlinkRequest::new(CONTROL, 0, &[GET_FAMILY, 1, 0, 0]).with(FAMILY_NAME, &name("ethtool"));
    let answers = family.ask(PROTOCOL).ok()?;
    let id = attribute(answers.first()?.get(FAMILY_HEADER..)?, FAMILY_ID)?;
    let id = u16::from_ne_bytes(*id.first_chunk()?);
    let of = super::netlink::encoded(HEADER_NAME, &name(netdev));
    let modes = NetlinkRequest::new(id, 0, &[LINKMODES_GET, 1, 0, 0]).with(0x8000 | HEADER, &of);
    decode(modes.ask(PROTOCOL).ok()?.first()?)
}

fn decode(answer: &[u8]) -> Option<u64> {
    let bits = attribute(attribute(answer.get(FAMILY_HEADER..)?, OURS)?, BITSET_BITS)?;
    let names = attributes(bits).filter(|(kind, _)| *kind == BIT).filter_map(|(_, bit)| attribute(bit, BIT_NAME));
    names.filter_map(text).filter_map(megabits).max()
}

/// The speed in a mode's name, such as `200000baseCR4/Full`; other bits, such as `Autoneg`, have none.
fn megabits(mode: &str) -> Option<u64> {
    mode.split_once("base")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::netlink::encoded;

    #[test]
    fn the_fastest_of_all_modes_counts_and_what_is_no_mode_does_not() {
        let bit = |name: &str| encoded(0x8000 | BIT, &encoded(BIT_NAME, &[name.as_bytes(), &[0]].concat()));
        let bits: Vec<u8> = ["Autoneg", "100000baseCR4/Full", "200000baseCR4/Full", "FIBRE", "1000baseT/Full"]
            .iter()
            .flat_map(|name| bit(name))
            .collect();
        let ours = encoded(0x8000 | OURS, &encoded(0x8000 | BITSET_BITS, &bits));
        assert_eq!(decode(&[vec![0; 4], ours].concat()), Some(200_000));
        assert_eq!(decode(&[0; 4]), None);
    }

    #[test]
    fn the_kernel_answers_of_a_port_and_of_none() {
        let machine = Machine::live();
        assert_eq!(fastest_megabits(&machine, "no-such-port"), None);
        // The loopback interface has no modes, and a kernel without the family none at all.
        assert_eq!(fastest_megabits(&machine, "lo"), None);
    }
}
