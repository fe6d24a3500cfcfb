//! The fastest link that a network interface could have, by itself and with its link partner, by ethtool netlink:
//! beside the speed that the link trained to.

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
const PEER: u16 = 4;
const BITSET_BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
/// `struct genlmsghdr` comes before the attributes.
const FAMILY_HEADER: usize = 4;

/// The fastest links that a port could have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkSpeeds {
    /// Speed of the fastest mode that the port supports; `None` if the driver lists none or the kernel cannot be asked.
    /// Units: Mbit/s.
    pub own_megabits: Option<u64>,
    /// Speed of the fastest mode that its link partner offers as well; `None` if the partner offers none in
    /// autonegotiation, or the driver does not tell. Units: Mbit/s.
    pub agreed_megabits: Option<u64>,
}

/// The fastest links that a port could have. In a recorded machine the modes are the files `modes/NETDEV` and, of the
/// link partner, `partner_modes/NETDEV`, a mode a line.
pub fn link_speeds(machine: &Machine, netdev: &str) -> LinkSpeeds {
    if !machine.is_live() {
        let modes = |folder: &str| machine.text(&format!("{folder}/{netdev}")).unwrap_or_default();
        return of(&modes("modes").lines().collect::<Vec<_>>(), &modes("partner_modes").lines().collect::<Vec<_>>());
    }
    asked(netdev).unwrap_or_default()
}

fn asked(netdev: &str) -> Option<LinkSpeeds> {
    let name = |name: &str| [name.as_bytes(), &[0]].concat();
    let family = NetlinkRequest::new(CONTROL, 0, &[GET_FAMILY, 1, 0, 0]).with(FAMILY_NAME, &name("ethtool"));
    let answers = family.ask(PROTOCOL).ok()?;
    let id = attribute(answers.first()?.get(FAMILY_HEADER..)?, FAMILY_ID)?;
    let id = u16::from_ne_bytes(*id.first_chunk()?);
    let of = super::netlink::encoded(HEADER_NAME, &name(netdev));
    let modes = NetlinkRequest::new(id, 0, &[LINKMODES_GET, 1, 0, 0]).with(0x8000 | HEADER, &of);
    Some(decode(modes.ask(PROTOCOL).ok()?.first()?))
}

fn decode(answer: &[u8]) -> LinkSpeeds {
    let modes = |which: u16| -> Vec<&str> {
        let bits = answer.get(FAMILY_HEADER..).and_then(|answer| attribute(attribute(answer, which)?, BITSET_BITS));
        let bits = attributes(bits.unwrap_or_default()).filter(|(kind, _)| *kind == BIT);
        bits.filter_map(|(_, bit)| text(attribute(bit, BIT_NAME)?)).collect()
    };
    of(&modes(OURS), &modes(PEER))
}

fn of(ours: &[&str], partners: &[&str]) -> LinkSpeeds {
    let fastest = |modes: &mut dyn Iterator<Item = &&str>| modes.filter_map(|mode| megabits(mode)).max();
    LinkSpeeds {
        own_megabits: fastest(&mut ours.iter()),
        agreed_megabits: fastest(&mut ours.iter().filter(|mode| partners.contains(mode))),
    }
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
        let bit = |name: &&str| encoded(0x8000 | BIT, &encoded(BIT_NAME, &[name.as_bytes(), &[0]].concat()));
        let modes = |which: u16, names: &[&str]| {
            let bits: Vec<u8> = names.iter().flat_map(bit).collect();
            encoded(0x8000 | which, &encoded(0x8000 | BITSET_BITS, &bits))
        };
        let ours = ["Autoneg", "100000baseCR4/Full", "400000baseCR4/Full", "FIBRE", "200000baseCR4/Full"];
        for (partners, agreed) in [
            (&[][..], None),
            (&["Autoneg", "FIBRE"], None),
            (&["100000baseCR4/Full", "200000baseCR4/Full"], Some(200_000)),
            (&["800000baseCR8/Full", "100000baseCR4/Full"], Some(100_000)),
        ] {
            let answer = [vec![0; 4], modes(OURS, &ours), modes(PEER, partners)].concat();
            let expected = LinkSpeeds { own_megabits: Some(400_000), agreed_megabits: agreed };
            assert_eq!(decode(&answer), expected, "{partners:?}");
        }
        assert_eq!(decode(&[0; 4]), LinkSpeeds::default());
    }

    #[test]
    fn the_kernel_answers_of_a_port_and_of_none() {
        let machine = Machine::live();
        assert_eq!(link_speeds(&machine, "no-such-port"), LinkSpeeds::default());
        // The loopback interface has no modes, and a kernel without the family none at all.
        assert_eq!(link_speeds(&machine, "lo"), LinkSpeeds::default());
    }
}
