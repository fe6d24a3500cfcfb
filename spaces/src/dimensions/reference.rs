//! The reference page of all dimensions, made from the table.

use std::fmt::Write as _;

use super::TABLE;

/// The reference page of all dimensions, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "# Dimensions of the space of workloads\n\n\
         Generated from the table in `spaces/src/dimensions.rs`; a test fails when this page is stale and says how to renew it.\n\n\
         A space file (`kelpie: space/1`) restricts any of these keys to a set `[a, b]` or, for counts and sizes, a range `{min: a, max: b}`; a key or an end that is left out has the value of `catalog/full.yaml`, shown here.\n",
    );
    for row in TABLE {
        let features = row.features.iter().chain(&row.also).map(|feature| format!("`{feature}`"));
        let features: Vec<String> = features.collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
        let full = row.dimension.written(&row.dimension.full());
        let _ = write!(
            page,
            "\n## `{}`\n\n{}\n\n- Unit: {}\n- Full space: `{full}`\n- Dimension of the paper: {}\n- Features: {features}\n- Source: {}\n",
            row.name, row.why, row.unit, row.group, row.source
        );
    }
    page
}
