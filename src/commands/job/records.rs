//! Records of a job's operations as they are written: CSV as `job diagnose` reads it, or JSON. Nothing is judged.

use std::fmt::Write as _;

use kelpie_diagnosis::job::Operation;
use serde_json::json;

use crate::output::print;

/// Records that are printed together. Source: our choice.
const TOGETHER: usize = 1 << 16;

/// Writes records to stdout.
pub struct Records {
    is_json: bool,
    text: String,
}

impl Records {
    /// Begins, with a heading if it is CSV.
    pub fn new(is_json: bool) -> Self {
        let heading = "iteration,source,destination,bytes,begin,end,entered\n";
        Self { is_json, text: if is_json { String::new() } else { heading.to_owned() } }
    }

    /// Adds one.
    pub fn write(&mut self, operation: &Operation) -> anyhow::Result<()> {
        let Operation { iteration, source, destination, bytes, begin, end, entered } = *operation;
        if self.is_json {
            let record = json!({
                "iteration": iteration, "source": source, "destination": destination, "bytes": bytes,
                "begin": begin, "end": end, "entered": entered,
            });
            writeln!(self.text, "{record}")?;
        } else {
            let time = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{time:.3}"));
            let destination = destination.map_or_else(String::new, |rank| rank.to_string());
            let [begin, end, entered] = [begin, end, entered].map(time);
            writeln!(self.text, "{iteration},{source},{destination},{bytes},{begin},{end},{entered}")?;
        }
        if self.text.len() < TOGETHER { Ok(()) } else { self.flush() }
    }

    /// Prints what was added.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        print(&std::mem::take(&mut self.text))
    }
}
