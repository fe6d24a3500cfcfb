//! The file of a calibrated model: the base, and what differs from it with the lines that say so.

use std::fmt::Write as _;

use crate::fit::Fit;
use crate::parameters::{Based, rounded};
use crate::uncertainty::Determinacy;

/// Lines of a table that a comment names. Source: our choice, the width of a file.
const MOST_LINES: usize = 6;

/// The text of the model `name` over the embedded model `base`, fitted to `table`. Only parameters that rows determine
/// are in it, and those whose base value the rows contradict.
pub fn write(fit: &Fit, base: &str, based: &[Based], name: &str, table: &str) -> String {
    let [name, table] = [name, table].map(harmless);
    let mut text = format!(
        "# Written by `kelpie calibrate`. What is not here is as in {base}.\n\
         kelpie: model/2\nname: \"{name}\"\ndescription: \"{base}, calibrated to {table}\"\nbase: {base}\n"
    );
    let mut open: Vec<String> = Vec::new();
    // All of a map stand together, as the paths are sorted.
    let mut settings: Vec<(&str, f64, String)> = Vec::new();
    for (estimate, based) in fit.parameters.iter().zip(based) {
        let how = match estimate.state {
            Determinacy::Determined => "fitted to",
            _ if (estimate.used / estimate.base - 1.0).abs() > 1e-9 => "bounded by",
            _ => continue,
        };
        let lines: Vec<String> = estimate.lines.iter().take(MOST_LINES).map(u64::to_string).collect();
        for (path, value) in based.settings(estimate.used) {
            let along = if path == estimate.parameter.path() { "" } else { ", along" };
            let comment = format!("{how} {table}, lines {}{along}", lines.join(", "));
            settings.push((path, rounded(value), comment));
        }
    }
    settings.sort_by(|a, b| a.0.cmp(b.0));
    for (path, value, comment) in settings {
        let keys: Vec<&str> = path.split('.').collect();
        let Some((last, maps)) = keys.split_last() else { continue };
        let shared = open.iter().zip(maps).take_while(|(open, key)| open == *key).count();
        open.truncate(shared);
        for key in &maps[shared..] {
            let _ = writeln!(text, "{}{key}:", "  ".repeat(open.len()));
            open.push((*key).to_owned());
        }
        let _ = writeln!(text, "{}{last}: {value}  # {comment}", "  ".repeat(open.len()));
    }
    text
}

/// A name that neither ends a comment nor a quoted word.
fn harmless(name: &str) -> String {
    let is_plain = |letter: char| !letter.is_control() && !['"', '\\'].contains(&letter);
    name.chars().take(100).map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use kelpie_sim::SimSubsystem;

    use super::*;
    use crate::fit::{FittedParameter, HeldBack};
    use crate::parameters::Parameter;

    #[test]
    fn a_file_holds_what_is_determined_with_its_lines_and_can_be_loaded() {
        let base = SimSubsystem::load("F").expect("embedded");
        let based: Vec<Based> =
            Parameter::fitted().into_iter().map(|parameter| Based::over(parameter, &base)).collect();
        let estimate = |based: &Based| {
            let (state, used) = match based.parameter.path() {
                "receive.xoff_kib" => (Determinacy::Determined, 123.456_78),
                "caches.contexts.kib" => (Determinacy::Determined, 140.0),
                "port.max_mpps" => (Determinacy::AtLeast, 150.0),
                _ => (Determinacy::NotDetermined, based.base),
            };
            let Based { parameter, base, .. } = *based;
            let lines = vec![3, 7];
            FittedParameter {
                parameter,
                base,
                fitted: used,
                used,
                low: None,
                high: None,
                state,
                lines,
                tied_to: Vec::new(),
            }
        };
        let fit = Fit {
            parameters: based.iter().map(estimate).collect(),
            rows: Vec::new(),
            held_back: HeldBack::Table,
            held_back_error: None,
            conflicts: Vec::new(),
            converged: true,
            stopped: false,
            exhausted: false,
            experiments: 0,
        };
        let text = write(&fit, "F", &based, "mi\"ne", "ta\nble.csv");
        let expected = "\
caches:
  contexts:
    kib: 140  # fitted to ta_ble.csv, lines 3, 7
port:
  max_mpps: 150  # bounded by ta_ble.csv, lines 3, 7
receive:
  capacity_kib: 329.2  # fitted to ta_ble.csv, lines 3, 7, along
  xoff_kib: 123.5  # fitted to ta_ble.csv, lines 3, 7
  xon_kib: 82.3  # fitted to ta_ble.csv, lines 3, 7, along
";
        assert!(text.ends_with(expected), "{text}");
        let model = SimSubsystem::from_yaml("mine.yaml", &text).expect("a model");
        assert_eq!((model.number("receive.xoff_kib"), model.number("pcie.gbps")), (Some(123.5), Some(252.0)));
    }
}
