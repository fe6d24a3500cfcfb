//! GIDs of a port, and the rule by which one is chosen for traffic if nobody names one.
//!
//! Source: kernel `Documentation/ABI/testing/sysfs-class-infiniband`, `gids` and `gid_attrs/types`.

/// An entry of a port's GID table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gid {
    /// Its index.
    pub index: u8,
    /// The address.
    pub raw: [u8; 16],
    /// The address as the kernel writes it.
    pub text: String,
    /// What the kernel says it is for, such as `RoCE v2`; empty if it does not.
    pub kind: String,
}

/// How good an entry is for `RoCEv2`, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GidRank {
    /// `RoCEv2` over IPv4.
    V2OverIpv4,
    /// `RoCEv2` over IPv6.
    V2OverIpv6,
    /// `RoCEv1`, or InfiniBand.
    Other,
}

impl Gid {
    /// How good it is.
    pub fn rank(&self) -> GidRank {
        let is_ipv4 = self.raw[..10] == [0; 10] && self.raw[10..12] == [0xff, 0xff];
        match (self.kind.as_str(), is_ipv4) {
            ("RoCE v2", true) => GidRank::V2OverIpv4,
            ("RoCE v2", false) => GidRank::V2OverIpv6,
            _ => GidRank::Other,
        }
    }

    /// The best of these; of equals the one with the lowest index.
    pub fn best(gids: impl IntoIterator<Item = Self>) -> Option<Self> {
        gids.into_iter().min_by_key(|gid| (gid.rank(), gid.index))
    }
}

/// The entries of a port's GID table that hold an address, or of these the one of an index. `text` reads a file of the
/// port's directory, such as `gids/0`.
pub fn gids(only: Option<u8>, text: impl Fn(&str) -> Option<String>) -> Vec<Gid> {
    let entry = |index: u8| {
        let address = text(&format!("gids/{index}"))?.trim().to_owned();
        let raw = parse(&address).filter(|raw| *raw != [0; 16])?;
        // Reading the type of an entry that is being changed fails; so does it on InfiniBand with old kernels.
        let kind = text(&format!("gid_attrs/types/{index}")).unwrap_or_default().trim().to_owned();
        Some(Gid { index, raw, text: address, kind })
    };
    only.map_or(0..=u8::MAX, |index| index..=index).filter_map(entry).collect()
}

/// Eight groups of four hexadecimal digits.
fn parse(text: &str) -> Option<[u8; 16]> {
    let mut raw = [0; 16];
    let mut groups = text.split(':');
    for pair in raw.chunks_exact_mut(2) {
        let group = groups.next().filter(|group| group.len() == 4)?;
        pair.copy_from_slice(&u16::from_str_radix(group, 16).ok()?.to_be_bytes());
    }
    groups.next().is_none().then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK_LOCAL: &str = "fe80:0000:0000:0000:5054:00ff:fe4b:0001";
    const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0a4d:0001";
    const EMPTY: &str = "0000:0000:0000:0000:0000:0000:0000:0000";

    /// The table of a port with these addresses and types; a gap if the address is empty.
    fn table(entries: &[(&str, &str)], only: Option<u8>) -> Vec<Gid> {
        gids(only, |name| {
            let (directory, index) = name.rsplit_once('/').expect("a name in a directory");
            let (address, kind) = entries.get(index.parse::<usize>().ok()?)?;
            let text = if directory == "gids" { address } else { kind };
            (!text.is_empty()).then(|| format!("{text}\n"))
        })
    }

    #[test]
    fn roce_v2_over_ipv4_comes_first() {
        /// Address and type of each entry, the index that is wanted, the index that is chosen.
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<u8>, Option<u8>);
        let v1 = "IB/RoCE v1";
        let cases: &[Case<'_>] = &[
            (&[(LINK_LOCAL, v1), (LINK_LOCAL, "RoCE v2"), (IPV4, v1), (IPV4, "RoCE v2")], None, Some(3)),
            (&[(LINK_LOCAL, v1), (LINK_LOCAL, "RoCE v2"), (EMPTY, "RoCE v2")], None, Some(1)),
            (&[(LINK_LOCAL, v1)], None, Some(0)),
            (&[(LINK_LOCAL, v1), ("", ""), (IPV4, "RoCE v2")], None, Some(2)),
            (&[(LINK_LOCAL, v1), (IPV4, "RoCE v2")], Some(0), Some(0)),
            (&[(LINK_LOCAL, v1), (EMPTY, "RoCE v2")], Some(1), None),
            (&[(LINK_LOCAL, v1)], Some(7), None),
            (&[("nonsense", v1)], None, None),
        ];
        for (entries, wanted, expected) in cases {
            let chosen = Gid::best(table(entries, *wanted)).map(|gid| gid.index);
            assert_eq!(chosen, *expected, "{entries:?} {wanted:?}");
        }
    }
}
