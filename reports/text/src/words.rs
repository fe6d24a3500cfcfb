//! Counts, times, paths and long lines as people read them.

pub use kelpie_spaces::units::{percent, si};

/// The text in lines of at most so many columns; what goes on stands two columns farther in.
pub fn wrapped(text: &str, columns: usize) -> String {
    let line = |line: &str| {
        if console::measure_text_width(line) <= columns {
            return line.to_owned() + "\n";
        }
        let indent = line.len() - line.trim_start().len();
        let further = " ".repeat(indent + 2);
        textwrap::fill(
            line,
            textwrap::Options::new(columns)
                .subsequent_indent(&further)
                // A name with a hyphen is to be copied as it is.
                .word_splitter(textwrap::WordSplitter::NoHyphenation),
        ) + "\n"
    };
    text.lines().map(line).collect()
}

/// A name, such as that of a file, as a shell takes it.
pub fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@".contains(c);
    if name.chars().all(is_plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', r"'\''")) }
}

/// A time in four figures, such as `12.3 us`.
///
/// Units: nanoseconds.
pub fn time(nanos: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let nanos = nanos as f64;
    // As in `si`: by what rounding would make of it.
    match UNITS.iter().find(|(scale, _)| nanos >= scale * 0.99995) {
        Some((scale, unit)) => format!("{:.1} {unit}", nanos / scale),
        None => format!("{nanos:.0} ns"),
    }
}

/// `1 finding`, `2 findings`.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A name in the order of people: n2 before n10.
pub fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut was_digit = false;
    for letter in name.chars() {
        let digit = letter.to_digit(10).map(u64::from);
        if digit.is_none() && was_digit {
            parts.push((String::new(), 0));
        }
        if let Some(last) = parts.last_mut() {
            match digit {
                Some(digit) => last.1 = last.1.saturating_mul(10).saturating_add(digit),
                None => last.0.push(letter),
            }
        }
        was_digit = digit.is_some();
    }
    parts.push((name.to_owned(), 0));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_farther_in() {
        let text = "  of 20 workloads 17 show it\nshort\n";
        assert_eq!(wrapped(text, 18), "  of 20 workloads\n    17 show it\nshort\n");
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn units_are_readable() {
        for (value, expected) in [
            (0.0, "0.0 "),
            (999.0, "999.0 "),
            (999_960.0, "1.0 M"),
            (1500.0, "1.5 k"),
            (187_340_000_000.0, "187.3 G"),
            (2e12, "2.0 T"),
        ] {
            assert_eq!(si(value), expected);
        }
        assert_eq!(percent(0.1234), "12.34 %");
        assert_eq!((plural(1, "finding"), plural(0, "finding")), ("1 finding".to_owned(), "0 findings".to_owned()));
    }

    #[test]
    fn times_are_readable() {
        for (nanos, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 us"),
            (20_480, "20.5 us"),
            (999_940, "999.9 us"),
            (999_960, "1.0 ms"),
            (20_000_000, "20.0 ms"),
            (60_000_000_000, "60.0 s"),
        ] {
            assert_eq!(time(nanos), expected);
        }
    }

    #[test]
    fn names_are_in_the_order_of_people() {
        let mut names = ["n10", "n2", "gpu-2-1", "gpu-1-10", "gpu-1-9", "n02"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["gpu-1-9", "gpu-1-10", "gpu-2-1", "n02", "n2", "n10"]);
    }
}
