//! Which MR, and where in it, the next element lies: MRs in turn, and through each MR as its turns come round. Pure.

/// A cache line, so that no element shares one with its neighbour. Units: bytes.
const ALIGNMENT: u64 = 64;

/// A memory region as work requests name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First address.
    pub address: u64,
    /// Local key for own memory, remote key for a peer's.
    pub key: u32,
}

/// The turns of one QP through its MRs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rotation {
    turn: u64,
}

impl Rotation {
    /// Address and key for the next `length` bytes; every region has `size` bytes, `length` at most.
    pub fn next(&mut self, regions: &[Region], size: u64, length: u64) -> (u64, u32) {
        let count = regions.len() as u64;
        let (lap, region) = (self.turn / count, regions[(self.turn % count) as usize]);
        self.turn += 1;
        let stride = length.next_multiple_of(ALIGNMENT);
        let places = (size / stride).max(1);
        (region.address + (lap % places) * stride, region.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mrs_take_turns_and_each_is_walked_through() {
        let regions = [Region { address: 0, key: 1 }, Region { address: 10_000, key: 2 }];
        let mut rotation = Rotation::default();
        let places: Vec<(u64, u32)> = (0..6).map(|_| rotation.next(&regions, 4096, 2000)).collect();
        assert_eq!(places, [(0, 1), (10_000, 2), (2048, 1), (12_048, 2), (0, 1), (10_000, 2)]);
    }

    #[test]
    fn nothing_leaves_its_mr() {
        for (size, lengths) in [(64, vec![64, 1, 63]), (100, vec![100, 37]), (4096, vec![4096, 4000, 1, 65, 2048])] {
            let regions = [Region { address: 0, key: 0 }];
            let mut rotation = Rotation::default();
            for length in lengths.iter().cycle().take(200) {
                let (address, _) = rotation.next(&regions, size, *length);
                assert!(address + length <= size, "{length} at {address} of {size}");
            }
        }
    }
}
