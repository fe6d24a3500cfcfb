//! Telling flows that ran at once apart by the counters of two ports: which subset of them adds up to what each moved.

use kelpie_topology::PortSide;

/// Most flows at once. Source: our choice, because subsets are tried one by one.
pub const MOST: usize = 10;

/// What a packet weighs beside its bytes, so that one of the smallest is not taken for the headers of others. Units:
/// bytes. Source: our choice, the size of the smallest message of a probe.
const PER_PACKET: f64 = 64.0;

/// What packets of others may add up to. Units: bytes. Source: our choice, two or three packets of ARP and the like.
const OTHERS: f64 = 300.0;

/// What a flow or a port moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MovedAmount {
    /// Packets.
    pub packets: u64,
    /// Bytes: of a flow its payload, of a port all.
    pub bytes: u64,
}

/// The port of each flow: none of a flow that moved nothing, and none of all if more than one answer fits.
pub fn tell_apart(flows: &[MovedAmount], ports: [MovedAmount; 2]) -> Vec<Option<PortSide>> {
    let moving: Vec<usize> = (0..flows.len()).filter(|flow| flows[*flow].packets > 0).collect();
    let mut told = vec![None; flows.len()];
    if moving.is_empty() || moving.len() > MOST {
        return told;
    }
    let sum = |amounts: &mut dyn Iterator<Item = MovedAmount>| {
        amounts.fold([0.0, 0.0], |[packets, bytes], one| [packets + one.packets as f64, bytes + one.bytes as f64])
    };
    let [packets, payload] = sum(&mut moving.iter().map(|flow| flows[*flow]));
    let [_, bytes] = sum(&mut ports.into_iter());
    // Headers differ with addresses, VLANs and what a driver counts.
    let header = ((bytes - payload) / packets).clamp(0.0, 128.0);
    let distance = |subset: usize| {
        let side = |wanted: usize| {
            let chosen = moving.iter().enumerate().filter(|(place, _)| (subset >> place) & 1 == wanted);
            let [packets, payload] = sum(&mut chosen.map(|(_, flow)| flows[*flow]));
            let port = ports[wanted];
            (payload + header * packets - port.bytes as f64).abs() + PER_PACKET * (packets - port.packets as f64).abs()
        };
        side(0) + side(1)
    };
    let mut ranked: Vec<(f64, usize)> = (0..1 << moving.len()).map(|subset| (distance(subset), subset)).collect();
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
    let [(best, subset), (second, _), ..] = ranked[..] else { return told };
    if second >= 2.0 * best + OTHERS {
        for (place, flow) in moving.iter().enumerate() {
            told[*flow] = Some(PortSide::BOTH[(subset >> place) & 1]);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const HEADER: u64 = 58;

    /// Ports of flows on these sides, and packets of others on them.
    fn ports(flows: &[MovedAmount], sides: &[PortSide], others: [u64; 2]) -> [MovedAmount; 2] {
        let mut ports = others.map(|packets| MovedAmount { packets, bytes: 70 * packets });
        for (flow, side) in flows.iter().zip(sides) {
            ports[side.index()].packets += flow.packets;
            ports[side.index()].bytes += flow.bytes + HEADER * flow.packets;
        }
        ports
    }

    #[test]
    fn sizes_that_double_are_told_apart_beside_packets_of_others() {
        let mut rng = Pcg64Mcg::new(5);
        for turn in 0..2000 {
            let count = 1 + turn % 7;
            let flow = |place: usize, packets: u64| MovedAmount { packets, bytes: packets * (64 << place) };
            let flows: Vec<MovedAmount> = (0..count).map(|place| flow(place, rng.random_range(10..20))).collect();
            let sides: Vec<PortSide> = (0..count).map(|_| PortSide::BOTH[usize::from(rng.random::<bool>())]).collect();
            let told = tell_apart(&flows, ports(&flows, &sides, [rng.random_range(0..2), rng.random_range(0..2)]));
            // Either the truth or nothing; mostly the truth.
            assert!(
                told.iter().all(Option::is_none) || told == sides.iter().map(|side| Some(*side)).collect::<Vec<_>>()
            );
        }
        let told = |others| {
            let flows: Vec<MovedAmount> =
                (0..7).map(|place| MovedAmount { packets: 15, bytes: 15 * (64 << place) }).collect();
            let sides = [
                PortSide::Left,
                PortSide::Right,
                PortSide::Right,
                PortSide::Left,
                PortSide::Left,
                PortSide::Right,
                PortSide::Left,
            ];
            tell_apart(&flows, ports(&flows, &sides, others)) == sides.map(Some)
        };
        assert!(told([0, 0]) && told([2, 1]) && !told([40, 3]), "and too many others leave nothing");
    }

    #[test]
    fn equal_flows_are_not_told_apart_and_those_that_moved_nothing_have_no_port() {
        let equal = [MovedAmount { packets: 10, bytes: 640 }; 2];
        let sides = [PortSide::Left, PortSide::Right];
        assert_eq!(tell_apart(&equal, ports(&equal, &sides, [0, 0])), [None, None]);
        let dead = [MovedAmount { packets: 10, bytes: 640 }, MovedAmount::default()];
        assert_eq!(tell_apart(&dead, ports(&dead, &sides, [0, 0])), [Some(PortSide::Left), None]);
    }
}
