//! From requests one after the other to a request vector.

use std::collections::BTreeMap;

use kelpie_spaces::{Bytes, Request};

/// Longest vector that is looked for. Source: `requests` of the paper's space (docs/reference/dimensions.md).
const LONGEST: usize = 16;

/// A request without its empty elements; `None` if nothing is left, because a workload has no such request.
pub fn with_payload(request: &Request) -> Option<Request> {
    let sge: Vec<Bytes> = request.sge.iter().copied().filter(|size| size.0 > 0).collect();
    (!sge.is_empty()).then_some(Request { op: request.op, sge })
}

/// The shortest vector that these requests repeat in order, beginning with its least rotation, so that two QPs that
/// were seen at different places of it have the same; `None` if there is none.
pub fn repeated(requests: &[Request]) -> Option<Vec<Request>> {
    // Half of what was seen must be the repetition.
    let period = (1..=LONGEST)
        .take_while(|period| period * 2 <= requests.len().max(2))
        .find(|period| requests.iter().zip(requests.iter().skip(*period)).all(|(one, next)| one == next))?;
    let vector = requests.get(..period)?;
    (0..period).map(|start| [&vector[start..], &vector[..start]].concat()).min()
}

/// The most frequent requests, each as often as its share of a vector of [`LONGEST`] says but at least once.
pub fn frequent<'r>(requests: impl Iterator<Item = &'r Request>) -> Vec<Request> {
    let mut counts: BTreeMap<&Request, usize> = BTreeMap::new();
    for request in requests {
        *counts.entry(request).or_default() += 1;
    }
    let all: usize = counts.values().sum();
    let mut by_count: Vec<(&Request, usize)> = counts.into_iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    by_count.truncate(LONGEST);
    let mut room = LONGEST - by_count.len();
    let mut vector = Vec::with_capacity(LONGEST);
    for (request, count) in by_count {
        let more = (count * LONGEST / all).saturating_sub(1).min(room);
        room -= more;
        vector.extend(std::iter::repeat_n(request.clone(), 1 + more));
    }
    vector
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::Opcode;

    use super::*;

    fn requests(sizes: &[u64]) -> Vec<Request> {
        sizes.iter().map(|size| Request { op: Opcode::Write, sge: vec![Bytes(*size)] }).collect()
    }

    #[test]
    fn a_vector_is_found_wherever_it_was_cut() {
        for (seen, expected) in [
            (&[4, 4, 4][..], Some(&[4][..])),
            (&[4], Some(&[4])),
            (&[1, 2, 3, 1, 2, 3, 1], Some(&[1, 2, 3])),
            (&[3, 1, 2, 3, 1, 2], Some(&[1, 2, 3])),
            (&[1, 1, 2, 1, 1, 2], Some(&[1, 1, 2])),
            (&[1, 2, 3, 4], None),
            (&[1, 2], None),
            (&[], None),
        ] {
            assert_eq!(repeated(&requests(seen)), expected.map(requests), "{seen:?}");
        }
    }

    #[test]
    fn without_order_shares_count() {
        let seen: Vec<Request> = requests(&[[8; 12].as_slice(), &[9, 10, 9, 10]].concat());
        let sizes: Vec<u64> = frequent(seen.iter()).iter().map(|request| request.message().0).collect();
        assert_eq!(sizes, [[8; 12].as_slice(), &[9, 9, 10, 10]].concat());
        let many: Vec<Request> = requests(&(1..=100).collect::<Vec<u64>>());
        assert_eq!(frequent(many.iter()).len(), LONGEST);
    }
}
