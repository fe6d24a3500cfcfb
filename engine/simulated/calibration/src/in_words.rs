//! A calibration as text. Nothing is decided here.

use std::fmt::Write as _;
use std::path::Path;

use kelpie_text::Table;

use crate::fit::{Fit, FittedParameter, HeldBack, Residual};
use crate::{Conflict, Determinacy, Wish};

/// Rows that text shows, those with the largest error. Source: our choice, a screen.
const MOST_ROWS: usize = 12;

/// A fit of a table over a base; `out` is the model file, if one was written.
pub fn text(fit: &Fit, out: Option<&Path>) -> String {
    let mut text = String::new();
    let mut table = Table::new(&["parameter", "base", "fitted", "interval", "state", "lines"], &[1, 2, 3]);
    for estimate in &fit.parameters {
        let lines: Vec<String> = estimate.lines.iter().map(u64::to_string).collect();
        table.row(vec![
            estimate.parameter.path().to_owned(),
            number(estimate.base),
            format!("{} {}", number(estimate.used), estimate.parameter.row().unit).trim_end().to_owned(),
            interval(estimate),
            state(estimate),
            lines.join(", "),
        ]);
    }
    text += &table.render("");
    let mut rows: Vec<&Residual> = fit.rows.iter().collect();
    rows.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
    let _ = writeln!(text, "Rows with the largest error, of {}:", rows.len());
    let mut table =
        Table::new(&["line", "measured", "fitted", "error", "pause", "fitted", "held back"], &[0, 1, 2, 3, 4, 5]);
    for row in rows.iter().take(MOST_ROWS) {
        table.row(vec![
            row.line.to_string(),
            format!("{} Gbit/s", number(row.measured_gbps)),
            format!("{} Gbit/s", number(row.fitted_gbps)),
            format!("{:+.1} %", 100.0 * row.error),
            row.measured_pause_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %")),
            format!("{:.1} %", row.fitted_pause_percent),
            if row.held_back { "yes" } else { "" }.to_owned(),
        ]);
    }
    text += &table.render("  ");
    text += &held_back(fit);
    for conflict in &fit.conflicts {
        text += &fight(conflict);
    }
    if !fit.converged {
        text += "The fit did not converge: look at these rows.\n";
    }
    if let Some(out) = out {
        let _ = writeln!(text, "{}: measure it as --subsystem sim:{0}", out.display());
    }
    text
}

fn held_back(fit: &Fit) -> String {
    let count = fit.rows.iter().filter(|row| row.held_back).count();
    let how = match fit.held_back {
        HeldBack::Table => "that the table holds back",
        HeldBack::Fifth => "that were held back at random; all rows were fitted afterwards",
    };
    match fit.held_back_error {
        Some(error) => format!("Median error of the {count} rows {how}: {:.1} %\n", 100.0 * error),
        None => "No row was held back, so nothing says how well the model predicts.\n".to_owned(),
    }
}

fn fight(conflict: &Conflict) -> String {
    let side = |wishes: &[Wish], what: &str| {
        let each = wishes.iter().map(|wish| format!("line {} ({})", wish.line, number(wish.value)));
        let each: Vec<String> = each.collect();
        if each.is_empty() { String::new() } else { format!("; {what}: {}", each.join(", ")) }
    };
    let held_by: Vec<String> = conflict.held_by.iter().map(u64::to_string).collect();
    let held_by = if held_by.is_empty() { "no other row".to_owned() } else { format!("lines {}", held_by.join(", ")) };
    format!(
        "Rows fight over {}, which {held_by} hold at {}{}{}\n",
        conflict.parameter,
        number(conflict.fitted),
        side(&conflict.lower, "less is asked for by"),
        side(&conflict.higher, "more is asked for by"),
    )
}

/// Both ends of an interval.
pub fn interval(estimate: &FittedParameter) -> String {
    match (estimate.low, estimate.high) {
        (None, None) => "-".to_owned(),
        (low, high) => {
            let end = |end: Option<f64>| end.map_or_else(|| "…".to_owned(), number);
            format!("{} to {}", end(low), end(high))
        }
    }
}

/// The state in words.
pub fn state(estimate: &FittedParameter) -> String {
    let word = match estimate.state {
        Determinacy::Determined => "determined",
        Determinacy::Within => "within the interval; base kept",
        Determinacy::AtLeast => "at least; base kept",
        Determinacy::AtMost => "at most; base kept",
        Determinacy::NotDetermined => "not determined; base kept",
    };
    let is_changed = estimate.state != Determinacy::Determined && (estimate.used - estimate.base).abs() > f64::EPSILON;
    let word = if is_changed { word.replace("base kept", "nearest end taken") } else { word.to_owned() };
    if estimate.tied_to.is_empty() { word } else { format!("{word}; together with {}", estimate.tied_to.join(", ")) }
}

/// Four figures.
fn number(value: f64) -> String {
    if value >= 1000.0 || value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let digits = (3.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}
