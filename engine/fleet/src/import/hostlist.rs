//! Lists of hosts as Slurm writes them: `node[1-8,11],login1`.

/// Most names of a list. Source: our choice; what an inventory holds, many times.
const MOST_NAMES: usize = 1 << 16;

/// The names of a list, in its order.
///
/// # Errors
/// What is wrong with it, in words.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for part in split(list)? {
        names.extend(of_part(part)?);
        if names.len() > MOST_NAMES {
            return Err(too_many());
        }
    }
    Ok(names)
}

fn too_many() -> String {
    format!("more than {MOST_NAMES} names")
}

/// The parts between commas that are in no brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match (letter, is_inside) {
            ('[', false) => is_inside = true,
            (']', true) => is_inside = false,
            ('[', true) | (']', false) => return Err(format!("`{list}` has brackets that are no pair")),
            (',', false) => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    match (is_inside, parts.iter().any(|part| part.is_empty())) {
        (true, _) => Err(format!("`{list}` has a bracket that is not closed")),
        (_, true) => Err(format!("`{list}` has an empty name")),
        _ => Ok(parts),
    }
}

/// The names of one part, with any number of brackets; the last ones change first.
fn of_part(part: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, inside)) = rest.split_once('[') {
        // Brackets are pairs.
        let (inside, after) = inside.split_once(']').unwrap_or((inside, ""));
        let ends = ranges(inside)?;
        if names.len().saturating_mul(ends.len()) > MOST_NAMES {
            return Err(too_many());
        }
        names = names.iter().flat_map(|name| ends.iter().map(move |end| format!("{name}{before}{end}"))).collect();
        rest = after;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Ok(names)
}

/// `1-8,11`: numbers as wide as the first of their range.
fn ranges(inside: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for range in inside.split(',') {
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (Some(first), Some(last)) = (number(low), number(high)) else {
            return Err(format!("`{range}` is no range of numbers"));
        };
        if last < first || last - first >= MOST_NAMES as u64 {
            return Err(format!("`{range}` is no range of 1 to {MOST_NAMES} numbers"));
        }
        let width = low.len();
        all.extend((first..=last).map(|number| format!("{number:0width$}")));
        if all.len() > MOST_NAMES {
            return Err(too_many());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_as_slurm_does() {
        for (list, expected) in [
            ("node1", "node1"),
            ("node[1-3,11]", "node1 node2 node3 node11"),
            ("n[008-010],login", "n008 n009 n010 login"),
            ("r[1-2]n[1-2]-ib,x9", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib x9"),
            ("n[9-10]", "n9 n10"),
        ] {
            assert_eq!(expand(list).expect(list).join(" "), expected, "{list}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused_and_so_is_one_without_end() {
        for list in [
            "n[1-3",
            "n1]",
            "n[1[2]]",
            "n[a-b]",
            "n[3-1]",
            "n1,,n2",
            "",
            "n[]",
            "n[1-99999999]",
            "n[1-999]x[1-999]",
            "n[-1]",
            "n[1-2-3]",
        ] {
            assert!(expand(list).is_err(), "{list}");
        }
    }
}
