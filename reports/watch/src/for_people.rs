//! Lines, durations and signals for people. No layout.

use kelpie_monitor::counters;
use kelpie_search::UTILISATION;
use ratatui::text::Span;

use kelpie_text::clean;
use kelpie_text::percent;

/// Cuts a cleaned line into pieces that fit into `width` columns; the pieces after the first are indented as it is.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    let indent: String = line.chars().take_while(|c| *c == ' ').take(width / 2).collect();
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    for c in line.chars() {
        let columns = Span::raw(c.to_string()).width();
        while used + columns > width && used > indent.len() {
            // After a space; anywhere if there is none.
            let cut = piece.rfind(' ').map_or(0, |space| space + 1);
            let rest = if cut > indent.len() { piece.split_off(cut) } else { String::new() };
            pieces.push(std::mem::replace(&mut piece, format!("{indent}{rest}")));
            used = Span::raw(piece.as_str()).width();
        }
        piece.push(c);
        used += columns;
    }
    pieces.push(piece);
    pieces
}

/// A duration in its two largest units.
pub fn duration(seconds: f64) -> String {
    // Beyond a hundred years nobody counts on it.
    let seconds = seconds.clamp(0.0, 3.2e9).round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// The name of a signal without the family that only one has.
pub fn signal_name(name: &str) -> String {
    clean(if name == UTILISATION { "utilisation" } else { name })
}

/// The value of a signal with its unit.
pub fn signal_value(name: &str, value: f64) -> String {
    if name == UTILISATION { percent(value) } else { counters::shown(name, value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_and_nothing_is_lost() {
        for (line, width, expected) in [
            ("", 5, vec![""]),
            ("short", 5, vec!["short"]),
            ("longer", 5, vec!["longe", "r"]),
            ("one two three", 8, vec!["one two ", "three"]),
            ("  - abcdef", 6, vec!["  - ", "  abcd", "  ef"]),
            ("a 雪雪", 4, vec!["a ", "雪雪"]),
            ("雪雪雪", 5, vec!["雪雪", "雪"]),
            ("雪雪", 1, vec!["雪", "雪"]),
            ("    ab", 2, vec!["  ", "  ab"]),
        ] {
            let pieces = wrapped(line, width);
            let text: String = pieces.concat().chars().filter(|c| *c != ' ').collect();
            assert_eq!(text, line.replace(' ', ""), "{line:?} at {width}: {pieces:?}");
            if width > 2 {
                assert_eq!(pieces, expected, "{line:?} at {width}");
            }
        }
        assert_eq!(wrapped("any line at all", 0).concat().replace(' ', ""), "anylineatall");
    }

    #[test]
    fn durations_and_signals_are_readable() {
        for (seconds, expected) in [
            (0.0, "0 s"),
            (59.4, "59 s"),
            (61.0, "1 min 1 s"),
            (3_725.0, "1 h 2 min"),
            (90_000.0, "1 d 1 h"),
            (f64::INFINITY, "37037 d 0 h"),
            (-5.0, "0 s"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
        for (name, value, expected) in [
            (UTILISATION, 0.612, "61.20 %"),
            ("queue_full_ratio", 0.5, "50.00 %"),
            ("cache_miss", 2_200_000.0, "2.2 M/s"),
            ("cache_miss", 0.0, "0.0 /s"),
        ] {
            assert_eq!(signal_value(name, value), expected);
        }
        assert_eq!((signal_name(UTILISATION), signal_name("a\nb")), ("utilisation".to_owned(), "a\\u{a}b".to_owned()));
    }
}
