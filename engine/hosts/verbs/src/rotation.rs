//! Which MR, and where in it, the next element lies: MRs in turn, and a place further with every round. Pure.

/// A cache line, so that no element shares one with its neighbour. Units: bytes.
const ALIGNMENT: u64 = 64;

/// A memory region as work requests name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredRegion {
    /// First address.
    pub address: u64,
    /// Local key for own memory, remote key for a peer's.
    pub key: u32,
}

/// How far a QP is on its way through its MRs.
#[derive(Debug, Clone, Copy, Default)]
pub struct RotationPosition {
    region: usize,
    offset: u64,
}

/// The MRs of some QPs of one side, equally many each, QP after QP.
#[derive(Debug, Clone)]
pub struct Rotation {
    regions: Vec<RegisteredRegion>,
    per_qp: usize,
    /// From one place in an MR to the next. Units: bytes.
    stride: u64,
    /// Where the first place begins again. Units: bytes.
    end: u64,
}

impl Rotation {
    /// Over `regions` of `size` bytes, for elements of up to `longest`, which is no more than that.
    pub fn new(regions: Vec<RegisteredRegion>, per_qp: usize, size: u64, longest: u64) -> Self {
        let stride = longest.max(1).next_multiple_of(ALIGNMENT);
        let places = size.saturating_sub(longest) / stride + 1;
        Self { regions, per_qp, stride, end: places * stride }
    }

    /// The same for QPs `first` to `first + qps` alone.
    pub fn part(&self, first: usize, qps: usize) -> Self {
        let regions = self.regions[first * self.per_qp..][..qps * self.per_qp].to_vec();
        Self { regions, ..*self }
    }

    /// Address and key for the next element of a QP.
    #[inline]
    pub fn next(&self, qp: usize, place: &mut RotationPosition) -> (u64, u32) {
        let region = self.regions[qp * self.per_qp + place.region];
        let address = region.address + place.offset;
        place.region += 1;
        if place.region == self.per_qp {
            place.region = 0;
            place.offset += self.stride;
            if place.offset == self.end {
                place.offset = 0;
            }
        }
        (address, region.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(count: u64) -> Vec<RegisteredRegion> {
        (0..count).map(|index| RegisteredRegion { address: index * 10_000, key: index as u32 }).collect()
    }

    #[test]
    fn mrs_take_turns_and_each_is_walked_through() {
        let rotation = Rotation::new(regions(4), 2, 4096, 2000);
        let mut place = RotationPosition::default();
        let places: Vec<(u64, u32)> = (0..6).map(|_| rotation.next(1, &mut place)).collect();
        assert_eq!(places, [(20_000, 2), (30_000, 3), (22_048, 2), (32_048, 3), (20_000, 2), (30_000, 3)]);
        let mut place = RotationPosition::default();
        assert_eq!(rotation.part(1, 1).next(0, &mut place), (20_000, 2), "a part begins with its own first QP");
    }

    #[test]
    fn every_place_is_used_and_nothing_leaves_its_mr() {
        for (size, longest, places) in
            [(64, 64, 1), (100, 100, 1), (4096, 4096, 1), (4096, 65, 32), (4096, 1, 64), (164, 100, 1), (228, 100, 2)]
        {
            let rotation = Rotation::new(regions(1), 1, size, longest);
            let mut place = RotationPosition::default();
            let mut seen: Vec<u64> = (0..2 * places).map(|_| rotation.next(0, &mut place).0).collect();
            assert!(seen.iter().all(|address| address + longest <= size), "{longest} of {size}: {seen:?}");
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), places, "{longest} of {size}");
        }
    }
}
