//! From the text of `recipe.json` to a recipe that keeps every rule: lengths, plain text, finite numbers, valid
//! workloads, and conditions that hold.

use std::collections::BTreeMap;

use kelpie_monitor::{Sample, Symptom, Verdict};
use kelpie_spaces::{Host, Region, Test, Workload, constraints};

use super::error::RecipeError;
use super::format::{Background, Environment, ExpectedVerdict, Recipe, RecipeMeasurement};

/// Longest name. Units: characters. Source: our choice, because names of counters and features are shorter.
const MAX_NAME: usize = 120;
/// Longest text for people. Units: characters. Source: our choice, because events and notes are a line or two.
const MAX_TEXT: usize = 1000;
/// Longest model. Units: bytes. Source: our choice, ten times the embedded ones.
const MAX_MODEL: usize = 128 << 10;
/// Most conditions. Source: our choice, because there are fewer features.
const MAX_CONDITIONS: usize = 64;
/// Most words of a condition. Source: our choice, because no feature has as many.
const MAX_WORDS: usize = 64;
/// Most counters of a host. Source: our choice, because drivers have some hundreds.
const MAX_COUNTERS: usize = 4096;
/// Most facts of a host, and events of a measurement. Source: our choice, because there are about ten.
const MAX_LIST: usize = 64;
/// Most directions of two hosts: two over the wire, two that loop back.
const MAX_DIRECTIONS: usize = 4;
/// Longest piece of a stranger's text that an error repeats. Units: characters.
const MAX_QUOTE: usize = 200;

type BrokenRule = (String, String);

/// The first key alone, whatever else there is.
#[derive(serde::Deserialize)]
struct Tag {
    kelpie: String,
}

fn other_format(format: &str) -> String {
    format!("this is format `{format}`; this Kelpie reads {}", Recipe::FORMAT)
}

/// Reads a recipe and checks every rule.
///
/// # Errors
/// Names the key of the first mistake.
pub fn parse(text: &str) -> Result<Recipe, RecipeError> {
    // Before anything else: keys of another version are no mistakes.
    if let Ok(Tag { kelpie }) = serde_json::from_str(text)
        && kelpie != Recipe::FORMAT
    {
        return Err(RecipeError::Rule { key: "kelpie".to_owned(), rule: shown(&other_format(&kelpie)) });
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let recipe: Recipe = serde_path_to_error::deserialize(&mut reader).map_err(|error| RecipeError::Json {
        key: shown(&error.path().to_string()),
        problem: shown(&error.inner().to_string()),
    })?;
    reader
        .end()
        .map_err(|error| RecipeError::Json { key: "the end".to_owned(), problem: shown(&error.to_string()) })?;
    check(&recipe).map_err(|(key, rule)| RecipeError::Rule { key: shown(&key), rule: shown(&rule) })?;
    Ok(recipe)
}

/// A stranger's text as it can be printed: bounded, and with anything that a terminal would obey written out.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == MAX_QUOTE {
            shown.push('…');
            break;
        }
        if is_plain(c) { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    shown
}

/// What drivers and hosts said as the rules have it, so that no word of theirs keeps a finding from being told: what a
/// terminal would obey is written out, and what is too long or too much is cut.
pub(super) fn told_plainly(mut recipe: Recipe) -> Recipe {
    let written_out = |text: &str, most: usize| -> String {
        let all = text.chars().map(|c| if is_plain(c) { c.to_string() } else { c.escape_unicode().to_string() });
        all.collect::<String>().chars().take(most).collect()
    };
    let facts = |facts: BTreeMap<String, String>| {
        let plain =
            facts.into_iter().map(|(fact, value)| (written_out(&fact, MAX_NAME), written_out(&value, MAX_TEXT)));
        plain.filter(|(fact, _)| !fact.is_empty()).take(MAX_LIST).collect()
    };
    let seen = std::iter::once(&mut recipe.anomalous).chain(recipe.healthy.as_mut().map(|healthy| &mut healthy.seen));
    for seen in seen {
        seen.hardware_events.truncate(MAX_LIST);
        seen.hardware_events.iter_mut().for_each(|event| *event = written_out(event, MAX_TEXT));
        for host in Host::BOTH {
            let counters = std::mem::take(seen.mean.counters.get_mut(host));
            let plain = counters.into_iter().map(|(name, value)| (written_out(&name, MAX_NAME), value));
            let kept = plain.filter(|(name, value)| !name.is_empty() && value.is_finite()).take(MAX_COUNTERS);
            *seen.mean.counters.get_mut(host) = kept.collect();
        }
    }
    if let Some(hosts) = &mut recipe.environment.hosts {
        for host in Host::BOTH {
            *hosts.get_mut(host) = facts(std::mem::take(hosts.get_mut(host)));
        }
    }
    recipe
}

/// Whether a character only shows itself: no control, no change of direction, nothing invisible. Source: Unicode
/// standard annex 9, table of explicit formatting characters, and annex 31 on what is ignored.
fn is_plain(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !is_hidden
}

/// Checks every rule, in the order of the file.
pub(super) fn check(recipe: &Recipe) -> Result<(), BrokenRule> {
    if recipe.kelpie != Recipe::FORMAT {
        return broken("kelpie", other_format(&recipe.kelpie));
    }
    name("kelpie_version", &recipe.kelpie_version)?;
    name("finding", &recipe.finding)?;
    if recipe.seed.is_some_and(|seed| i64::try_from(seed).is_err()) {
        return broken("seed", "more than 2^63 - 1");
    }
    workload("workload", &recipe.workload)?;
    conditions(&recipe.mfs, &recipe.workload)?;
    expected(&recipe.expected)?;
    seen("anomalous", &recipe.anomalous)?;
    if recipe.anomalous.symptoms.is_empty() {
        return broken("anomalous.symptoms", "a healthy measurement shows no anomaly");
    }
    if let Some(healthy) = &recipe.healthy {
        workload("healthy.workload", &healthy.workload)?;
        seen("healthy.seen", &healthy.seen)?;
        if !healthy.seen.symptoms.is_empty() {
            return broken("healthy.seen.symptoms", "a healthy workload has none");
        }
    }
    environment(&recipe.environment)?;
    recipe.background.as_ref().map_or(Ok(()), background)
}

fn broken(key: &str, rule: impl Into<String>) -> Result<(), BrokenRule> {
    Err((key.to_owned(), rule.into()))
}

fn plain(key: &str, text: &str, max: usize) -> Result<(), BrokenRule> {
    if text.chars().count() > max {
        return broken(key, format!("longer than {max} characters"));
    }
    match text.chars().find(|c| !is_plain(*c)) {
        Some(c) => broken(key, format!("holds the character {}, which is not plain text", c.escape_unicode())),
        None => Ok(()),
    }
}

fn name(key: &str, text: &str) -> Result<(), BrokenRule> {
    if text.is_empty() { broken(key, "is empty") } else { plain(key, text, MAX_NAME) }
}

fn most(key: &str, len: usize, max: usize) -> Result<(), BrokenRule> {
    if len > max { broken(key, format!("{len} entries; at most {max} are accepted")) } else { Ok(()) }
}

fn workload(key: &str, workload: &Workload) -> Result<(), BrokenRule> {
    constraints::check(workload).map_err(|violation| (format!("{key}.{}", violation.path), violation.rule.to_string()))
}

fn conditions(mfs: &Region, workload: &Workload) -> Result<(), BrokenRule> {
    most("mfs", mfs.conditions.len(), MAX_CONDITIONS)?;
    for (index, condition) in mfs.conditions.iter().enumerate() {
        let key = format!("mfs[{index}]");
        if let Test::In(words) = &condition.test {
            most(&key, words.len(), MAX_WORDS)?;
            words.iter().try_for_each(|word| name(&key, word))?;
        }
        if !condition.holds(workload) {
            return broken(&key, format!("`{condition}` does not hold for the workload"));
        }
    }
    Ok(())
}

fn expected(expected: &ExpectedVerdict) -> Result<(), BrokenRule> {
    if expected.verdict != Verdict::Anomalous {
        return broken("expected.verdict", "a recipe is of an anomaly: write `anomalous`");
    }
    if expected.symptoms.is_empty() {
        return broken("expected.symptoms", "write at least one");
    }
    symptoms("expected.symptoms", &expected.symptoms)?;
    if let Some(key) = expected.bounds.not_positive().first() {
        return broken(&format!("expected.bounds.{key}"), "write a positive number");
    }
    if (0.0..=1.0).contains(&expected.confidence) {
        Ok(())
    } else {
        broken("expected.confidence", format!("{} is outside 0 to 1", expected.confidence))
    }
}

fn symptoms(key: &str, symptoms: &[Symptom]) -> Result<(), BrokenRule> {
    match symptoms {
        [] | [_] => Ok(()),
        [one, other] if one != other => Ok(()),
        _ => broken(key, "each symptom at most once"),
    }
}

fn seen(key: &str, seen: &RecipeMeasurement) -> Result<(), BrokenRule> {
    symptoms(&format!("{key}.symptoms"), &seen.symptoms)?;
    most(&format!("{key}.hardware_events"), seen.hardware_events.len(), MAX_LIST)?;
    for event in &seen.hardware_events {
        plain(&format!("{key}.hardware_events"), event, MAX_TEXT)?;
    }
    if seen.capacity.is_some_and(|capacity| !(capacity.is_finite() && capacity > 0.0)) {
        return broken(&format!("{key}.capacity"), "write a positive number");
    }
    sample(&format!("{key}.mean"), &seen.mean)
}

fn sample(key: &str, sample: &Sample) -> Result<(), BrokenRule> {
    let number = |name: &str, value: f64| {
        let is_right = value.is_finite() && value >= 0.0;
        if is_right { Ok(()) } else { broken(&format!("{key}.{name}"), format!("{value} is not a rate")) }
    };
    number("seconds", sample.seconds)?;
    most(&format!("{key}.directions"), sample.directions.len(), MAX_DIRECTIONS)?;
    for rates in &sample.directions {
        let values = [rates.goodput_bps, rates.wire_bps, rates.packets_per_sec, rates.messages_per_sec];
        values.into_iter().try_for_each(|value| number("directions", value))?;
    }
    for host in Host::BOTH {
        if let Some(pause) = sample.pause.as_ref().map(|pause| pause.get(host)) {
            [pause.tx, pause.rx].into_iter().try_for_each(|value| number("pause", value))?;
        }
        let counters = sample.counters.get(host);
        let key = format!("{key}.counters.{host}");
        most(&key, counters.len(), MAX_COUNTERS)?;
        for (counter, value) in counters {
            name(&key, counter)?;
            if !value.is_finite() {
                return broken(&key, format!("{counter} is {value}, which is not a number"));
            }
        }
    }
    Ok(())
}

fn environment(environment: &Environment) -> Result<(), BrokenRule> {
    name("environment.subsystem", &environment.subsystem)?;
    if environment.subsystem.starts_with("sim:") != environment.model.is_some() {
        return broken("environment.model", "a simulated subsystem (sim:NAME) has a model, a real pair has none");
    }
    if environment.model.as_ref().is_some_and(|model| model.len() > MAX_MODEL) {
        return broken("environment.model", format!("longer than {MAX_MODEL} bytes"));
    }
    for line in environment.model.iter().flat_map(|model| model.split('\n')) {
        plain("environment.model", line, MAX_TEXT)?;
    }
    for host in Host::BOTH {
        let facts: Option<&BTreeMap<String, String>> = environment.hosts.as_ref().map(|hosts| hosts.get(host));
        let key = format!("environment.hosts.{host}");
        most(&key, facts.map_or(0, BTreeMap::len), MAX_LIST)?;
        for (fact, value) in facts.into_iter().flatten() {
            name(&key, fact)?;
            plain(&key, value, MAX_TEXT)?;
        }
    }
    Ok(())
}

fn background(background: &Background) -> Result<(), BrokenRule> {
    let Background { source, premise, cause, fix, note } = background;
    plain("background.source", source, MAX_TEXT)?;
    for (key, text) in [("premise", premise), ("cause", cause), ("fix", fix), ("note", note)] {
        plain(&format!("background.{key}"), text.as_deref().unwrap_or_default(), MAX_TEXT)?;
    }
    Ok(())
}
