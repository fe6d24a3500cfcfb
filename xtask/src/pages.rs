//! What a page must not have: long lines, and names of files, headings, tests, commands and formats that do not exist.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// Longest line of prose. Units: characters. Source: `.rustfmt.toml`.
const WIDTH: usize = 120;

/// The table of all commands. A test of `tests/pages.rs` compares it with what the binary prints.
const COMMANDS: &str = "docs/reference/commands.md";

/// The tasks of `cargo xtask`, a row each.
const TASKS: &str = "xtask/src/main.rs";

/// The folder that describes every format.
const REFERENCE: &str = "docs/reference";

/// A comment of a page: names in it are made up, or belong to others, and need not exist here.
const ELSEWHERE: &str = "<!-- elsewhere:";

/// Endings of names that are files. Without a folder, only the first are files of ours in any case.
const ENDINGS: [&str; 9] = ["rs", "sh", "py", "md", "toml", "yaml", "svg", "service", "host"];
const ALWAYS_OURS: usize = 3;

/// Underscores that only names of tests and of long functions, counters and keys have.
const LONG_NAME: usize = 3;

/// What pages can refer to.
#[derive(Debug, Default)]
struct Known {
    /// Every file and folder, from the root.
    paths: BTreeSet<String>,
    /// Headings of each page, as anchors.
    anchors: HashMap<String, HashSet<String>>,
    /// Every word of sources and models.
    words: HashSet<String>,
    /// Every command of `kelpie` as it is called, and those of `cargo xtask`.
    commands: HashSet<String>,
    /// Formats that sources name.
    tags: BTreeSet<String>,
}

/// What is wrong with the pages and comments of these files, each with its file and line.
///
/// # Errors
/// A file cannot be read.
pub fn faults(root: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut known = Known::default();
    for file in files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().into_owned();
        let ending = ending(&name);
        let is_text = ["md", "rs", "yaml"].contains(&ending);
        let text = if is_text { fs::read_to_string(file).with_context(|| name.clone())? } else { String::new() };
        known.add(&name, &text);
        texts.push((name, text));
    }
    let mut faults = Vec::new();
    for (name, text) in &texts {
        let of_file = match ending(name) {
            // A recipe's page is written by Kelpie, for readers of the recipe alone.
            "md" if known.paths.contains(&name.replace("README.md", "recipe.json")) => Vec::new(),
            "md" => page_faults(&known, name, text),
            "rs" => long_comments(text).into_iter().chain(missing_pages(&known, name, text)).collect(),
            _ => Vec::new(),
        };
        faults.extend(of_file.into_iter().map(|fault| format!("{name}:{fault}")));
    }
    let reference = texts.iter().filter(|(name, _)| name.starts_with(REFERENCE));
    let reference: String = reference.map(|(_, text)| text.as_str()).collect();
    let missing = known.tags.iter().filter(|tag| !reference.contains(&format!("`{tag}`")));
    faults.extend(missing.map(|tag| format!("{REFERENCE}: no page describes the format `{tag}`")));
    Ok(faults)
}

/// Pages that a source names, such as in a help text, and that do not exist.
fn missing_pages(known: &Known, name: &str, text: &str) -> Vec<String> {
    // Tests of pages name such pages on purpose.
    if name.starts_with("xtask") {
        return Vec::new();
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    let pages = |line: &str| {
        let named = line.split(|c| !is_part(c)).filter_map(|word| Some(word.split_once(".md")?.0.to_owned() + ".md"));
        named.filter(|page| page.starts_with("docs/") && !known.paths.contains(page)).collect::<Vec<_>>()
    };
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(at, line)| pages(line).into_iter().map(move |page| format!("{}: `{page}` does not exist", at + 1)))
        .collect()
}

impl Known {
    fn add(&mut self, name: &str, text: &str) {
        let mut path = Path::new(name);
        while path != Path::new("") {
            self.paths.insert(path.to_string_lossy().into_owned());
            path = path.parent().unwrap_or(Path::new(""));
        }
        match ending(name) {
            "md" => {
                let headings = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
                let anchors = headings.map(|(_, line)| anchor(line)).collect();
                self.anchors.insert(name.to_owned(), anchors);
            }
            _ => self.words.extend(words(text).map(str::to_owned)),
        }
        if name == COMMANDS {
            let rows = text.lines().filter_map(|line| line.strip_prefix("| `kelpie")?.split('`').next());
            self.commands.extend(rows.map(|command| format!("kelpie{command}")));
        }
        if name == TASKS {
            let rows = text.lines().filter_map(|line| line.trim_start().strip_prefix("(\"")?.split('"').next());
            self.commands.extend(rows.map(|task| format!("cargo xtask {task}")));
        }
        // Tests also name formats that do not exist.
        if ending(name) == "rs" && !name.contains("tests") && !name.starts_with("xtask") {
            let code = text.split("#[cfg(test)]").next().unwrap_or(text);
            self.tags.extend(code.split('"').filter(|value| is_tag(value)).map(str::to_owned));
        }
    }

    /// Whether a page may name this file.
    fn has_file(&self, page: &str, file: &str) -> bool {
        let inside = |folder: &Path| normal(&folder.join(file)).is_some_and(|path| self.paths.contains(&path));
        let folder = Path::new(page).parent().unwrap_or(Path::new(""));
        inside(Path::new("")) || inside(folder) || self.paths.iter().any(|path| path.ends_with(&format!("/{file}")))
    }

    /// The command that `kelpie` and these words are meant to be, if there is none.
    fn missing_command(&self, mut call: Vec<&str>) -> Option<String> {
        let prefix = |call: &[&str]| format!("{} ", call.join(" "));
        let has_more = |call: &[&str]| self.commands.iter().any(|command| command.starts_with(&prefix(call)));
        let full = call.clone();
        while !call.is_empty() {
            if self.commands.contains(&call.join(" ")) {
                let next = full.get(call.len());
                return next.filter(|_| has_more(&call)).map(|next| format!("{} {next}", call.join(" ")));
            }
            call.pop();
        }
        Some(full.join(" "))
    }
}

/// What is wrong with one page.
fn page_faults(known: &Known, page: &str, text: &str) -> Vec<String> {
    let elsewhere: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(ELSEWHERE))
        .flat_map(|names| names.trim_end_matches("-->").split_whitespace())
        .collect();
    let mut faults = Vec::new();
    for (number, line) in prose(text) {
        let mut fault = |what: String| faults.push(format!("{number}: {what}"));
        if is_long(line) && !line.starts_with('|') && !line.starts_with(ELSEWHERE) {
            fault(format!("more than {WIDTH} columns"));
        }
        for target in link_targets(line) {
            if let Some(wrong) = broken_link(known, page, target) {
                fault(wrong);
            }
        }
        for span in code_spans(line) {
            for name in span.split_whitespace().map(|name| name.trim_matches(|edge: char| ",;:()".contains(edge))) {
                if !elsewhere.contains(name) && names_nothing(known, page, name) {
                    fault(format!("`{name}` does not exist"));
                }
            }
        }
        for span in code_spans(line) {
            if let Some(command) = calls(span).into_iter().find_map(|call| known.missing_command(call)) {
                fault(format!("no command `{command}`"));
            }
        }
    }
    for (number, line) in code(text) {
        if let Some(command) = calls(line).into_iter().find_map(|call| known.missing_command(call)) {
            faults.push(format!("{number}: no command `{command}`"));
        }
    }
    faults
}

/// Whether a word in backticks reads as a file or a long name of ours, and there is none.
fn names_nothing(known: &Known, page: &str, name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
    if name.is_empty() || !name.bytes().all(plain) {
        return false;
    }
    if let Some(place) = ENDINGS.iter().position(|known| *known == ending(name)) {
        let first = name.split('/').next().unwrap_or(name);
        let is_ours = place < ALWAYS_OURS || (name.contains('/') && known.paths.contains(first));
        return is_ours && !known.has_file(page, name);
    }
    let is_long = name.matches('_').count() >= LONG_NAME && words(name).next() == Some(name);
    is_long
        && !name.ends_with('_')
        && name.bytes().all(|byte| !byte.is_ascii_uppercase())
        && !known.words.contains(name)
}

fn broken_link(known: &Known, page: &str, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, heading) = target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let file = if path.is_empty() { Some(page.to_owned()) } else { normal(&folder.join(path)) };
    let Some(file) = file.filter(|file| known.paths.contains(file)) else {
        return Some(format!("link to {target}, which does not exist"));
    };
    let anchors = known.anchors.get(&file);
    let is_there = heading.is_none_or(|heading| anchors.is_some_and(|anchors| anchors.contains(heading)));
    (!is_there).then(|| format!("link to {target}, a heading that does not exist"))
}

/// Calls of `kelpie` and `cargo xtask` in a line of code: the words behind the name, as far as they may be commands.
fn calls(line: &str) -> Vec<Vec<&str>> {
    let code = line.split(" #").next().unwrap_or(line);
    let tokens: Vec<&str> = code.split_whitespace().collect();
    let is_word =
        |token: &&&str| token.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') && !token.starts_with('-');
    let mut calls = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let before = place.checked_sub(1).map(|before| tokens[before]);
        let (words, most) = match *token {
            // Behind these words it names a package, a user or a folder.
            "kelpie" if before.is_none_or(|before| !["-p", "URL", "purge", "--package"].contains(&before)) => (1, 2),
            "xtask" if before == Some("cargo") => (2, 1),
            _ => continue,
        };
        let behind: Vec<&str> = tokens[place + 1..].iter().take(most).take_while(is_word).copied().collect();
        if !behind.is_empty() {
            calls.push([&tokens[place + 1 - words..=place], &behind].concat());
        }
    }
    calls
}

/// A line with its number, from 1.
type Line<'t> = (usize, &'t str);

/// Numbers and lines of a page outside of code, and then those inside.
fn split(text: &str) -> (Vec<Line<'_>>, Vec<Line<'_>>) {
    let (mut prose, mut code) = (Vec::new(), Vec::new());
    let mut fence: Option<&str> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let marks = &trimmed[..trimmed.len() - trimmed.trim_start_matches('`').len()];
        match fence {
            Some(open) if marks == open && trimmed == marks => fence = None,
            None if marks.len() >= 3 => fence = Some(marks),
            Some(_) => code.push((number, line)),
            None => prose.push((number, line)),
        }
    }
    (prose, code)
}

fn prose(text: &str) -> Vec<(usize, &str)> {
    split(text).0
}

fn code(text: &str) -> Vec<(usize, &str)> {
    split(text).1
}

fn long_comments(text: &str) -> Vec<String> {
    let comments = (1..).zip(text.lines()).filter(|(_, line)| line.trim_start().starts_with("//"));
    comments
        .filter(|(_, line)| is_long(line))
        .map(|(number, _)| format!("{number}: a comment of more than {WIDTH} columns"))
        .collect()
}

fn is_long(line: &str) -> bool {
    line.chars().count() > WIDTH && !line.contains("://")
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// As GitHub makes the anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept =
        heading.trim_start_matches('#').trim().chars().filter(|sign| sign.is_alphanumeric() || " -_".contains(*sign));
    kept.map(|sign| if sign == ' ' { '-' } else { sign.to_ascii_lowercase() }).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').filter(|word| !word.is_empty())
}

fn ending(name: &str) -> &str {
    Path::new(name).extension().and_then(|ending| ending.to_str()).unwrap_or("")
}

/// Whether a text is the tag of a format, such as `workload/1`.
fn is_tag(text: &str) -> bool {
    text.split_once('/').is_some_and(|(name, version)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()) && version.parse::<u8>().is_ok()
    })
}

/// A path without `..`, if it stays in the repository.
fn normal(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()?),
            Component::Normal(name) => parts.push(name.to_str()?),
            _ => {}
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "docs/guides/page.md";

    #[test]
    fn help_texts_name_pages_that_there_are() {
        let mut known = Known::default();
        known.add("docs/explained/calibration.md", "# Calibration\n");
        let help = "/// Table (docs/explained/calibration.md), `-` for stdin\n/// Table (docs/calibration.md)\n";
        assert_eq!(missing_pages(&known, "src/cli.rs", help), ["2: `docs/calibration.md` does not exist"]);
    }

    /// A small repository with one page.
    fn known(page: &str) -> Known {
        let mut known = Known::default();
        known.add(TASKS, "    (\"lab\", \"x\", lab::run),\n");
        known.add(
            COMMANDS,
            "# Commands\n\n| `kelpie measure` | x |\n| `kelpie campaign` | x |\n| `kelpie campaign run` | x |\n",
        );
        known.add("src/main.rs", "fn a_test_of_many_words() {}\npub const FORMAT: &str = \"space/1\";\n");
        known.add(PAGE, page);
        known
    }

    #[test]
    fn faults_of_pages_are_seen() {
        let long = "a ".repeat(61);
        for (page, expected) in [
            ("A sentence.".to_owned(), None),
            (long.clone(), Some("1: more than 120 columns")),
            (format!("| {long} |"), None),
            (format!("{long} https://example.org"), None),
            (format!("```text\n{long}\n```\n"), None),
            ("[x](../reference/commands.md#commands), [y](#here)\n\n## Here".to_owned(), None),
            ("[x](../commands.md)".to_owned(), Some("1: link to ../commands.md, which does not exist")),
            ("[x](#there)".to_owned(), Some("1: link to #there, a heading that does not exist")),
            ("`src/main.rs`, `main.rs`, `pair.yaml`, `kelpie/x.yaml`, `*.rs`".to_owned(), None),
            ("`src/gone.rs`".to_owned(), Some("1: `src/gone.rs` does not exist")),
            ("`gone.rs`".to_owned(), Some("1: `gone.rs` does not exist")),
            ("`docs/gone.yaml`".to_owned(), Some("1: `docs/gone.yaml` does not exist")),
            ("<!-- elsewhere: gone.rs a_test_that_is_gone -->\n`gone.rs`, `a_test_that_is_gone`".to_owned(), None),
            ("`a_test_of_many_words`, `short_name`".to_owned(), None),
            ("`a_test_that_is_gone`".to_owned(), Some("1: `a_test_that_is_gone` does not exist")),
            ("`kelpie measure x.yaml`, `kelpie campaign`, `kelpie --help`".to_owned(), None),
            (
                "```sh\nssh host kelpie campaign run --budget 3 # kelpie gone\ncargo test -p kelpie reference\n```"
                    .to_owned(),
                None,
            ),
            ("`kelpie gone`".to_owned(), Some("1: no command `kelpie gone`")),
            ("```sh\nkelpie campaign gone\n```".to_owned(), Some("2: no command `kelpie campaign gone`")),
            ("`cargo xtask lab up`".to_owned(), None),
            ("`cargo xtask gone`".to_owned(), Some("1: no command `cargo xtask gone`")),
        ] {
            let faults = page_faults(&known(&page), PAGE, &page);
            assert_eq!(faults, expected.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{page}");
        }
    }

    #[test]
    fn long_comments_are_seen_and_long_code_is_not() {
        let long = "a ".repeat(61);
        assert_eq!(long_comments(&format!("fn x() {{}}\n    /// {long}")), ["2: a comment of more than 120 columns"]);
        assert!(long_comments(&format!("let x = {long};\n// https://example.org {long}")).is_empty());
    }

    #[test]
    fn a_format_without_a_page_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let files =
            [("src/lib.rs", "const FORMAT: &str = \"space/1\";\n"), ("docs/reference/files.md", "## `workload/1`\n")];
        let files = files.map(|(name, text)| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(&path, text).expect("a file");
            path
        });
        let faults = faults(folder.path(), &files).expect("both files can be read");
        assert_eq!(faults, ["docs/reference: no page describes the format `space/1`"]);
    }
}
