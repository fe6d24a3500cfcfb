//! A check that is a program: run by the controller for each host, bounded, never by a shell. What it prints is values.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use kelpie_criteria::{Better, UnitValue};
use kelpie_examine::program::output;
use regex_lite::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most values of a program. Source: our choice.
const MOST_VALUES: usize = 1024;
/// Metrics that are named where one is missing. Source: our choice, a line.
const NAMED: usize = 8;
/// Longest time. Source: our choice.
const MOST_SECONDS: u64 = 24 * 3600;
/// What stands for the host in arguments: its name, and where its agent is, without the port.
const PLACES: [&str; 2] = ["{host}", "{address}"];

/// A program and how its values are read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandCheck {
    /// The check's name.
    pub name: String,
    /// The program and its arguments; `{host}` and `{address}` stand for the host.
    pub run: Vec<String>,
    /// How long it may take. Units: seconds.
    #[serde(default = "a_minute")]
    pub timeout_seconds: u64,
    /// Values in JSON that it prints, by the metric's name. Without these and `pattern`, each line that is
    /// `name value unit` is a value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub json: BTreeMap<String, JsonValue>,
    /// A regular expression whose named groups are metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Units of `pattern`'s metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<String, String>,
    /// Metrics of which less is better.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lower: Vec<String>,
}

/// Where a value is in a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonValue {
    /// JSON pointer (RFC 6901), such as `/results/0/bandwidth`.
    pub pointer: String,
    /// Unit, for people.
    #[serde(default)]
    pub unit: String,
}

fn a_minute() -> u64 {
    60
}

impl CommandCheck {
    /// Each key that breaks a rule, with the rule.
    pub fn broken_rules(&self) -> Vec<(&'static str, String)> {
        let mut broken = Vec::new();
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= 64
                && name.chars().all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
        };
        if !is_name(&self.name) || self.name.contains('.') {
            broken.push(("name", "write letters, digits, - and _".to_owned()));
        }
        if self.run.first().is_none_or(String::is_empty) {
            broken.push(("run", "write the program and its arguments as a list".to_owned()));
        }
        if !(1..=MOST_SECONDS).contains(&self.timeout_seconds) {
            broken.push(("timeout_seconds", format!("write 1 to {MOST_SECONDS}")));
        }
        if self.pattern.is_some() && !self.json.is_empty() {
            broken.push(("pattern", "`json` is given as well; leave one of them out".to_owned()));
        }
        match self.pattern.as_deref().map(Regex::new) {
            Some(Err(error)) => broken.push(("pattern", error.to_string())),
            Some(Ok(pattern)) if pattern.capture_names().flatten().next().is_none() => {
                broken
                    .push(("pattern", "write a named group for each metric, such as (?<bandwidth>[0-9.]+)".to_owned()));
            }
            _ => {}
        }
        let pattern = self.pattern.as_deref().and_then(|pattern| Regex::new(pattern).ok());
        let groups = pattern.iter().flat_map(Regex::capture_names).flatten().map(str::to_owned);
        let known: BTreeSet<String> = self.json.keys().cloned().chain(groups).collect();
        // Names of lines are known when the program has run.
        if let Some(unknown) = self.lower.iter().find(|lower| !known.is_empty() && !known.contains(*lower)) {
            broken.push(("lower", format!("no metric `{unknown}`: `json` and `pattern` name the metrics")));
        }
        broken
    }

    /// Runs it for a host.
    ///
    /// # Errors
    /// Why the host has no values, in words.
    pub async fn run(&self, host: &str, address: &str) -> Result<Vec<UnitValue>, String> {
        let fill = |word: &String| word.replace(PLACES[0], host).replace(PLACES[1], address);
        let words: Vec<String> = self.run.iter().map(fill).collect();
        let program = words.first().ok_or("no program")?.clone();
        let mut command = Command::new(&program);
        command.args(&words[1..]);
        let limit = Duration::from_secs(self.timeout_seconds);
        let ran = tokio::task::spawn_blocking(move || output(command, limit)).await;
        let text = ran.map_err(|error| error.to_string())?.map_err(|error| format!("{program}: {error:#}"))?;
        let values = self.values(host, &text)?;
        if values.is_empty() { Err(format!("{program} printed no value")) } else { Ok(values) }
    }

    fn values(&self, host: &str, text: &str) -> Result<Vec<UnitValue>, String> {
        let found: Vec<(String, f64, String)> = if let Some(pattern) = &self.pattern {
            let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
            let names: Vec<&str> = pattern.capture_names().flatten().collect();
            let of = |captures: &regex_lite::Captures<'_>| {
                let found = names.iter().filter_map(|name| {
                    let value = captures.name(name)?.as_str().trim().parse().ok()?;
                    Some(((*name).to_owned(), value, self.units.get(*name).cloned().unwrap_or_default()))
                });
                found.collect::<Vec<_>>()
            };
            pattern.captures_iter(text).flat_map(|captures| of(&captures)).collect()
        } else if self.json.is_empty() {
            text.lines().filter_map(name_value_unit).collect()
        } else {
            let document: serde_json::Value =
                serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
            let at = |(name, place): (&String, &JsonValue)| {
                let value = document.pointer(&place.pointer).and_then(serde_json::Value::as_f64);
                let value = value.ok_or_else(|| format!("no number at {}", place.pointer))?;
                Ok((name.clone(), value, place.unit.clone()))
            };
            self.json.iter().map(at).collect::<Result<_, String>>()?
        };
        // Values of one metric are its samples.
        let mut by_name: BTreeMap<String, (String, Vec<f64>)> = BTreeMap::new();
        for (name, value, unit) in found.into_iter().filter(|(_, value, _)| value.is_finite() && *value >= 0.0) {
            by_name.entry(name).or_insert_with(|| (unit, Vec::new())).1.push(value);
        }
        if by_name.len() > MOST_VALUES {
            return Err(format!("more than {MOST_VALUES} metrics"));
        }
        // Without it, the metric that is meant would be judged the wrong way round.
        let is_unknown = |lower: &&String| !by_name.is_empty() && !by_name.contains_key(lower.as_str());
        if let Some(unknown) = self.lower.iter().find(is_unknown) {
            let names: Vec<&str> = by_name.keys().map(String::as_str).take(NAMED).collect();
            return Err(format!("`lower` names `{unknown}`, and the program printed {}", names.join(", ")));
        }
        let value = |(name, (unit, samples)): (String, (String, Vec<f64>))| UnitValue {
            better: if self.lower.contains(&name) { Better::Lower } else { Better::Higher },
            metric: format!("{}.{name}", self.name),
            unit,
            from: host.to_owned(),
            to: None,
            samples,
        };
        Ok(by_name.into_iter().map(value).collect())
    }
}

/// A line that is `name value` or `name value unit`.
fn name_value_unit(line: &str) -> Option<(String, f64, String)> {
    let mut words = line.split_whitespace();
    let (name, value, unit) = (words.next()?, words.next()?.parse().ok()?, words.next().unwrap_or_default());
    words.next().is_none().then(|| (name.to_owned(), value, unit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> CommandCheck {
        let check: CommandCheck = serde_yaml::from_str(text).expect("a check");
        assert_eq!(check.broken_rules(), []);
        check
    }

    fn run(text: &str) -> Result<Vec<(String, Vec<f64>, String)>, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let values = runtime.block_on(check(text).run("n1", "10.0.0.1"))?;
        Ok(values.into_iter().map(|value| (value.metric, value.samples, value.unit)).collect())
    }

    #[test]
    fn values_are_lines_json_or_named_groups() {
        let lines = "{name: c, run: [printf, 'bw 12.5 GB/s\\nbw 13 GB/s\\nnoise\\n{host} 3\\n']}";
        let expected =
            [("c.bw".to_owned(), vec![12.5, 13.0], "GB/s".to_owned()), ("c.n1".to_owned(), vec![3.0], String::new())];
        assert_eq!(run(lines).expect("values"), expected);
        let json = "{name: c, run: [echo, '{\"r\": [{\"bw\": 7}]}'], json: {bw: {pointer: /r/0/bw, unit: GB/s}}}";
        assert_eq!(run(json).expect("values"), [("c.bw".to_owned(), vec![7.0], "GB/s".to_owned())]);
        let pattern =
            "{name: c, run: [echo, 'Avg bus bandwidth : 38.2'], pattern: 'bandwidth\\s*:\\s*(?<busbw>[0-9.]+)'}";
        assert_eq!(run(pattern).expect("values"), [("c.busbw".to_owned(), vec![38.2], String::new())]);
    }

    #[test]
    fn a_program_that_fails_or_hangs_says_so() {
        let failed = run("{name: c, run: [sh, -c, 'echo broken >&2; exit 3']}").expect_err("it fails");
        assert!(failed.contains("exit status: 3") && failed.contains("broken"), "{failed}");
        let hangs = run("{name: c, run: [sleep, '600'], timeout_seconds: 1}").expect_err("it hangs");
        assert!(hangs.contains("ended after 1 s"), "{hangs}");
        let gone = run("{name: c, run: [/nonexistent/program]}").expect_err("no program");
        assert!(gone.starts_with("/nonexistent/program: "), "{gone}");
        assert!(run("{name: c, run: [echo, nothing]}").expect_err("no value").contains("printed no value"));
        let endless = run("{name: c, run: ['yes'], json: {bw: {pointer: /bw}}}").expect_err("no end");
        assert!(endless.contains("printed more than 16384 KiB"), "{endless}");
    }

    #[test]
    fn long_json_is_read_and_a_name_in_lower_that_did_not_come_is_named() {
        let long = "{name: c, run: [sh, -c, 'printf \"{\\\"bw\\\": 7, \\\"x\\\": \\\"\"; head -c 400000 /dev/zero | tr \"\\0\" x; echo \"\\\"}\"'], json: {bw: {pointer: /bw}}}";
        assert_eq!(run(long).expect("values"), [("c.bw".to_owned(), vec![7.0], String::new())]);
        let typo = run("{name: c, run: [echo, latency 3 us], lower: [latncy]}").expect_err("a typo");
        assert_eq!(typo, "`lower` names `latncy`, and the program printed latency");
        assert!(run("{name: c, run: [echo, latency 3 us], lower: [latency]}").is_ok());
        let known = "{name: c, run: [echo, x], pattern: '(?<busbw>[0-9.]+)', lower: [buswb]}";
        let check: CommandCheck = serde_yaml::from_str(known).expect("a check");
        assert_eq!(check.broken_rules()[0].0, "lower");
    }
}
