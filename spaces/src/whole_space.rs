//! A region in the whole space: the conditions found in a narrower one, and the bounds of that narrower space.

use crate::dimensions::{Dimension, DimensionKind};
use crate::features::Feature;
use crate::region::{Condition, Region, Test};
use crate::space::Space;

impl Space {
    /// The region as it holds in the whole space: with the bounds of this space, which the whole one does not have.
    ///
    /// A search over READs alone never learns that READ is a condition. Dimensions that no feature shows (`requests`,
    /// `pinned_per_host`) are lost, as are gaps in a set of numbers.
    pub fn in_whole_space(&self, region: &Region) -> Region {
        let mut whole = region.clone();
        for dimension in Dimension::all().filter(|dimension| *self.domain(*dimension) != dimension.full()) {
            for feature in dimension.row().features {
                if let Some(test) = self.bound(dimension, *feature) {
                    match whole.conditions.iter_mut().find(|condition| condition.feature == *feature) {
                        Some(condition) => fill(&mut condition.test, &test),
                        None => whole.conditions.push(Condition { feature: *feature, test }),
                    }
                }
            }
        }
        whole.conditions.sort_by_key(|condition| condition.feature);
        whole
    }

    /// What the domain says of a feature, where it is less than the whole.
    fn bound(&self, dimension: Dimension, feature: Feature) -> Option<Test> {
        let (own, full) = (self.domain(dimension), dimension.full());
        let words = || own.steps().iter().map(|code| dimension.word(*code)).collect::<Vec<String>>();
        let min = (own.min() > full.min()).then(|| own.min());
        let max = (own.max() < full.max()).then(|| own.max());
        let test = match (dimension, feature) {
            (Dimension::Message, Feature::MessageMin) => Test::Range { min, max: None },
            (Dimension::Message, Feature::MessageMax) => Test::Range { min: None, max },
            // They follow from others; operations that are mixed have words of their own.
            (Dimension::Message | Dimension::MixedOpcodes, _) | (_, Feature::MemoryWritten) => return None,
            (Dimension::Opcode, _) if self.admits(Dimension::MixedOpcodes, true) => Test::In(mixes(words())),
            _ if matches!(dimension.row().kind, DimensionKind::Count | DimensionKind::Size | DimensionKind::Mtu) => {
                Test::Range { min, max }
            }
            _ => Test::In(words()),
        };
        (test != Test::Range { min: None, max: None }).then_some(test)
    }
}

/// Every mix of these words, as a feature writes it.
fn mixes(mut words: Vec<String>) -> Vec<String> {
    words.sort_unstable();
    let mut mixes: Vec<String> = Vec::new();
    for word in words {
        let longer: Vec<String> = mixes.iter().map(|mix| format!("{mix}+{word}")).collect();
        mixes.extend(longer);
        mixes.push(word);
    }
    mixes.sort_unstable();
    mixes
}

/// Gives open ends the bound; a search leaves words and closed ends inside its space.
fn fill(test: &mut Test, bound: &Test) {
    if let (Test::Range { min, max }, Test::Range { min: least, max: most }) = (test, bound) {
        *min = min.or(*least);
        *max = max.or(*most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(text: &str) -> Space {
        Space::from_yaml("test", &format!("kelpie: space/1\n{text}")).expect("a valid space")
    }

    fn range(feature: Feature, min: Option<u64>, max: Option<u64>) -> Condition {
        Condition { feature, test: Test::Range { min, max } }
    }

    fn is(feature: Feature, words: &[&str]) -> Condition {
        Condition { feature, test: Test::In(words.iter().map(|word| (*word).to_owned()).collect()) }
    }

    #[test]
    fn bounds_of_the_space_become_conditions() {
        let batches = range(Feature::SendBatch, Some(32), None);
        for (text, expected) in [
            ("", vec![]),
            ("opcode: [READ]\n", vec![is(Feature::Opcode, &["READ"])]),
            (
                "opcode: [SEND, READ]\nmixed_opcodes: [false, true]\n",
                vec![is(Feature::Opcode, &["READ", "READ+SEND", "SEND"])],
            ),
            ("mtu: [1024, 2048]\n", vec![range(Feature::Mtu, Some(1024), Some(2048))]),
            ("qps: {max: 64}\n", vec![range(Feature::Qps, None, Some(64))]),
            ("message: {min: 1KiB}\n", vec![range(Feature::MessageMin, Some(1024), None)]),
            ("bidirectional: [false]\nrequests: [1]\n", vec![is(Feature::Bidirectional, &["false"])]),
            ("memory_responder: [gpu:0]\n", vec![is(Feature::MemoryResponder, &["gpu:0"])]),
        ] {
            let mut expected = [expected, vec![batches.clone()]].concat();
            expected.sort_by_key(|condition| condition.feature);
            let whole = space(text).in_whole_space(&Region { conditions: vec![batches.clone()] });
            assert_eq!(whole.conditions, expected, "{text}");
        }
    }

    #[test]
    fn open_ends_are_closed_and_closed_ones_stay() {
        let space = space("send_batch: {min: 4, max: 64}\nqps: {max: 100}\n");
        let found = [range(Feature::SendBatch, Some(32), None), range(Feature::Qps, Some(2), Some(8))];
        let whole = space.in_whole_space(&Region { conditions: found.to_vec() });
        assert_eq!(
            whole.conditions,
            [range(Feature::Qps, Some(2), Some(8)), range(Feature::SendBatch, Some(32), Some(64))]
        );
    }

    #[test]
    fn what_the_whole_space_says_holds_for_every_workload_of_the_space() {
        let mut rng: rand_pcg::Pcg64 = rand::SeedableRng::seed_from_u64(1);
        for name in Space::catalog_names() {
            let space = Space::catalog(name).expect("in the catalog");
            let whole = space.in_whole_space(&Region::default());
            for _ in 0..300 {
                let workload = space.sample(&mut rng);
                assert!(whole.contains(&workload), "{name}: {whole}: {workload:?}");
            }
        }
    }
}
