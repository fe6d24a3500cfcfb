//! The reference page of all dimensions, made from the table.

use std::fmt::Write as _;

use super::TABLE;

/// The reference page of all dimensions, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Dimensions of the space of workloads\n\n\
         Generated from the table in `spaces/src/dimensions/table.rs`; a test fails when this page is stale and says\n\
         how to renew it.\n\n\
         A space file (`kelpie: space/1`) restricts any of these keys to a set `[a, b]` or, for counts and sizes, a\n\
         range `{min: a, max: b}`. A key or an end that is left out has the value of `catalog/full.yaml`, shown here;\n\
         a dimension with one value there is off unless a space file asks for it.\n",
    );
    for row in TABLE {
        let features = row.features.iter().chain(&row.also).map(|feature| format!("`{feature}`"));
        let features: Vec<String> = features.collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        let full = row.dimension.written(&row.dimension.full());
        let _ = write!(
            page,
            "\n## `{}`\n\n{}\n\n- Unit: {}\n- Full space: `{full}`\n- Dimension of the paper: {}\n\
             - Features: {features}\n{}\n",
            row.name,
            wrapped("", row.why),
            row.unit,
            row.group,
            wrapped("- Source: ", row.source)
        );
    }
    page
}

/// What begins with `first` and goes on with `text`, in lines of at most 120 columns.
fn wrapped(first: &str, text: &str) -> String {
    const COLUMNS: usize = 120;
    let indent = if first.is_empty() { "" } else { "  " };
    let (mut lines, mut line) = (Vec::new(), first.trim_end().to_owned());
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS {
            lines.push(std::mem::replace(&mut line, format!("{indent}{word}")));
        } else {
            line += if line.is_empty() { "" } else { " " };
            line += word;
        }
    }
    lines.push(line);
    lines.join("\n")
}
