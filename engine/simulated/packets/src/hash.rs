//! Hashes: of ECMP, and the random numbers of ports, which depend on the port and its packet alone, so that threads
//! make no difference.

/// Mixes a number. Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators (`SplitMix64`), 2014.
#[inline]
pub fn mix(mut state: u64) -> u64 {
    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// A number from 0 below 1 for the `n`-th packet of something.
#[inline]
pub fn uniform(seed: u64, id: u32, n: u64) -> f64 {
    let bits = mix(seed ^ mix(u64::from(id) << 40 | (n & 0xff_ffff_ffff)));
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// `MurmurHash3` (x86, 32 bits) of three words. Source: Appleby, `MurmurHash3`, public domain.
pub fn murmur3(words: [u32; 3], seed: u32) -> u32 {
    let mut hash = seed;
    for word in words {
        hash ^= word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = hash.rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= 0xc;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn murmur_is_the_published_one() {
        // Of twelve bytes of ASCII, by a second program that gives the published hashes of `test` and `aaaa`.
        let words = [*b"abcd", *b"efgh", *b"ijkl"].map(u32::from_le_bytes);
        assert_eq!(murmur3(words, 0), 0xa36f_3d27);
    }

    #[test]
    fn random_numbers_fill_their_range() {
        let numbers: Vec<f64> = (0..10_000).map(|n| uniform(7, 3, n)).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        assert!((mean - 0.5).abs() < 0.01 && numbers.iter().all(|one| (0.0..1.0).contains(one)), "{mean}");
        let of = |seed, id| uniform(seed, id, 1).to_bits();
        assert!(of(7, 3) != of(7, 4) && of(8, 3) != of(7, 3));
    }
}
