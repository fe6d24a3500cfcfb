//! A YAML document as a small tree that knows its lines, and the reader that decodes it key by key and collects every
//! mistake. What the keys mean lives in `yaml` and `space_yaml`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::serde_words::serde_words;
use crate::suggest::suggestion;
use crate::yaml_words::yaml_words;

/// Longest input. Units: bytes. Source: our choice, because the largest legal workload is far below.
pub const MAX_INPUT: usize = 1 << 20;
/// Deepest nesting. Source: our choice, because the formats nest five deep.
const MAX_NESTING: usize = 16;
/// Longest piece of the input that an error repeats. Units: characters.
const MAX_QUOTE: usize = 60;
/// Most mistakes that one error says. Source: our choice, because a reader mends no more at once.
const MAX_MISTAKES: usize = 10;
/// Longest part of a line that an error shows. Units: characters. Source: our choice, for terminals of 100 columns.
const MAX_SOURCE: usize = 88;
/// Last column that a caret points at. Units: characters.
const MAX_CARET: usize = MAX_SOURCE;

/// Why a document was refused; always names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Bytes that are no text.
    #[error("{file}: not UTF-8 text: the byte at offset {offset} begins no character; save the file as UTF-8")]
    NotUtf8 {
        /// Where the text came from.
        file: String,
        /// Offset of the first bad byte.
        offset: usize,
    },
    /// Longer than 1 MiB.
    #[error("{file}: longer than {} MiB, the most of such a file that Kelpie reads", MAX_INPUT >> 20)]
    TooLong {
        /// Where the text came from.
        file: String,
        /// Its length in bytes.
        len: usize,
    },
    /// Not YAML, YAML beyond what the formats use, or keys that break rules.
    #[error("{0}")]
    Mistakes(Mistakes),
}

/// What is wrong with a document: each mistake with the line that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes {
    /// Where the text came from.
    pub file: String,
    /// The first mistakes, at most ten, by their lines.
    pub first: Vec<Mistake>,
    /// How many more there are.
    pub more: usize,
}

/// A mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1. Units: characters.
    pub column: usize,
    /// Key path, such as `flows[0].batch.send`; empty if the text is no YAML.
    pub key: String,
    /// What is wrong, or the rule.
    pub rule: String,
    /// The text of the line.
    #[serde(skip)]
    source: String,
}

impl Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Mistake { line, column, key, rule, source }) in self.first.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            let colon = if key.is_empty() { "" } else { ": " };
            write!(f, "{end}{}:{line}:{column}: {key}{colon}{rule}", self.file)?;
            // A caret far to the right would point at nothing once the terminal wraps the line.
            if !source.trim().is_empty() && *column <= MAX_CARET {
                let shown: String = source.chars().take(MAX_SOURCE).collect();
                write!(f, "\n{line:>5} | {shown}\n      | {:>column$}", "^")?;
            }
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// The text of a file without the mark that some editors begin UTF-8 with, or where it stops being UTF-8.
///
/// # Errors
/// [`DocumentError::NotUtf8`].
pub fn utf8<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str, DocumentError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| DocumentError::NotUtf8 { file: file.to_owned(), offset: error.valid_up_to() })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A place in the text. Units: lines and columns, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Mark {
    fn of(span: Span) -> Self {
        Self { line: span.start.line(), column: span.start.col() + 1 }
    }
}

#[derive(Debug)]
struct Node {
    mark: Mark,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<Entry>),
}

#[derive(Debug)]
struct Entry {
    key: String,
    /// Of the key.
    mark: Mark,
    node: Node,
}

impl Entry {
    /// Where a mistake of the value is: at the value, or at the key of a block that begins below it.
    fn place(&self) -> Mark {
        if self.node.mark.line == self.mark.line { self.node.mark } else { self.mark }
    }
}

/// A parsed document.
#[derive(Debug)]
pub struct Document<'t> {
    file: String,
    text: &'t str,
    root: Node,
    /// Every mistake that was come upon, with its place.
    mistakes: RefCell<Vec<Mistake>>,
}

impl<'t> Document<'t> {
    /// Parses one document; aliases, tags and a second document are refused, so the tree is no larger than the text.
    ///
    /// # Errors
    /// Names the line that is no YAML, or beyond what the formats use.
    pub fn parse(file: &str, text: &'t str) -> Result<Self, DocumentError> {
        if text.len() > MAX_INPUT {
            return Err(DocumentError::TooLong { file: file.to_owned(), len: text.len() });
        }
        let mut builder = Builder { open: Vec::new(), root: None };
        let failed = |Syntax { mark, problem }: Syntax| {
            let first = vec![mistake(text, mark, String::new(), problem)];
            DocumentError::Mistakes(Mistakes { file: file.to_owned(), first, more: 0 })
        };
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let mark = Mark { line: error.marker().line(), column: error.marker().col() + 1 };
                failed(Syntax { mark, problem: yaml_words(error.info()) })
            })?;
            builder.take(event, span).map_err(failed)?;
        }
        let empty = || {
            failed(Syntax::at(
                Mark { line: 1, column: 1 },
                "the document is empty; docs/reference/files.md has the formats",
            ))
        };
        let root = builder.root.ok_or_else(empty)?;
        Ok(Self { file: file.to_owned(), text, root, mistakes: RefCell::default() })
    }

    /// The same as serde has it.
    ///
    /// # Errors
    /// What serde has no place for, such as a number of more than 64 bits, where it stands.
    pub fn tree<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        serde_yaml::from_str(self.text).map_err(|error| {
            let place = error.location();
            let mark = place.map_or(self.root.mark, |place| Mark { line: place.line(), column: place.column() });
            // serde writes `path: what at line 1 column 2`.
            let error = error.to_string();
            let said = error.rsplit_once(" at line ").map_or(error.as_str(), |(said, _)| said);
            let what = said.rfind("invalid type: ").or_else(|| said.rfind("invalid value: ")).unwrap_or(0);
            let (path, what) = said.split_at(what);
            self.note(mark, path.trim_end_matches(": "), &serde_words(what));
            self.error()
        })
    }

    /// The top of the document.
    pub(crate) fn root(&self) -> Reader<'_> {
        Reader { document: self, node: &self.root, mark: self.root.mark, path: String::new() }
    }

    /// Refuses a document of another kind than `wanted`, such as `space/1`, before its keys are looked at: a mistake,
    /// not ten.
    ///
    /// # Errors
    /// The document has no tag, or that of another kind. Another version of the kind is left to its reader.
    pub fn expect(&self, wanted: &str) -> Result<(), DocumentError> {
        let kind = |tag: &str| tag.split('/').next().unwrap_or_default().to_owned();
        let Value::Map(entries) = &self.root.value else {
            return Err(self.refuse("", &format!("this is no `{wanted}`; such a file begins with `kelpie: {wanted}`")));
        };
        let tag = entries.iter().find(|entry| entry.key == "kelpie").map(|entry| &entry.node.value);
        match tag {
            Some(Value::Scalar { text, .. }) if kind(text) == kind(wanted) => Ok(()),
            Some(Value::Scalar { text, .. }) => {
                let rule = format!("this is format `{}`; `{wanted}` is needed here", quote(text));
                Err(self.refuse("kelpie", &rule))
            }
            Some(_) => Err(self.refuse("kelpie", &format!("write `kelpie: {wanted}`"))),
            None => Err(self.refuse("", &format!("key `kelpie` is missing; begin with `kelpie: {wanted}`"))),
        }
    }

    /// The values of a document that is one map of words, by their keys. What is none is noted, for
    /// [`Self::refuse_all`] to say.
    pub fn words(&self, known: &[&'static str]) -> BTreeMap<&'static str, String> {
        let fields = self.root().map(known);
        let value = |key: &&'static str| Some((*key, fields.as_ref()?.get(key)?.text()?.to_owned()));
        known.iter().filter_map(value).collect()
    }

    /// An error at a key path, empty for the whole; if the path is not in the file, at its nearest ancestor.
    pub fn refuse(&self, path: &str, rule: &dyn Display) -> DocumentError {
        self.note(self.mark(path), path, rule);
        self.error()
    }

    /// An error of serde at a key path.
    pub fn refuse_value(&self, path: &str, error: &dyn Display) -> DocumentError {
        self.note_value(path, &error.to_string());
        self.error()
    }

    /// Notes an error of serde at a key path.
    pub(crate) fn note_value(&self, path: &str, error: &str) {
        let mark = if error.starts_with("unknown field") { self.key_mark(path) } else { self.mark(path) };
        self.note(mark, path, &serde_words(error));
    }

    /// Whether it has so many mistakes.
    pub(crate) fn has(&self, count: usize) -> bool {
        self.mistakes.borrow().len() >= count
    }

    /// An error that says each of these mistakes, of which there is one at least.
    pub fn refuse_each(&self, broken: impl IntoIterator<Item = (String, impl Display)>) -> DocumentError {
        broken.into_iter().for_each(|(path, rule)| self.note(self.mark(&path), &path, &rule));
        self.error()
    }

    /// Refuses every path that breaks a rule.
    ///
    /// # Errors
    /// All of them, if there is one.
    pub fn refuse_all(&self, broken: impl Iterator<Item = (String, impl Display)>) -> Result<(), DocumentError> {
        broken.for_each(|(path, rule)| self.note(self.mark(&path), &path, &rule));
        self.complete(Some(()))
    }

    /// Where the value of a path is; of a path that is not in the file, its nearest ancestor.
    fn mark(&self, path: &str) -> Mark {
        self.marks(path)[1]
    }

    /// Where the key of a path is.
    fn key_mark(&self, path: &str) -> Mark {
        self.marks(path)[0]
    }

    fn marks(&self, path: &str) -> [Mark; 2] {
        let (mut node, mut marks) = (&self.root, [self.root.mark; 2]);
        for step in path.split(['.', '[']) {
            let next = match (&node.value, step.strip_suffix(']')) {
                (Value::List(items), Some(index)) => {
                    let item = index.parse().ok().and_then(|index: usize| items.get(index));
                    item.map(|item| (item, [item.mark; 2]))
                }
                (Value::Map(entries), None) => {
                    let entry = entries.iter().find(|entry| entry.key == step);
                    entry.map(|entry| (&entry.node, [entry.mark, entry.place()]))
                }
                _ => None,
            };
            match next {
                Some(next) => (node, marks) = next,
                None => break,
            }
        }
        marks
    }

    fn note(&self, mark: Mark, path: &str, rule: &dyn Display) {
        let key = if path.is_empty() { "the document" } else { path };
        self.mistakes.borrow_mut().push(mistake(self.text, mark, key.to_owned(), rule.to_string()));
    }

    /// Everything that was refused so far.
    pub(crate) fn error(&self) -> DocumentError {
        let mut first = self.mistakes.borrow().clone();
        first.sort_by_key(|mistake| (mistake.line, mistake.column));
        let more = first.len().saturating_sub(MAX_MISTAKES);
        first.truncate(MAX_MISTAKES);
        DocumentError::Mistakes(Mistakes { file: self.file.clone(), first, more })
    }

    /// What was read, if nothing was refused.
    ///
    /// # Errors
    /// Every mistake that readers of the document came upon.
    pub(crate) fn complete<T>(&self, read: Option<T>) -> Result<T, DocumentError> {
        match read {
            Some(value) if self.mistakes.borrow().is_empty() => Ok(value),
            _ => Err(self.error()),
        }
    }
}

pub(crate) fn mistake(text: &str, Mark { line, column }: Mark, key: String, rule: String) -> Mistake {
    let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let plain = |text: String| text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    Mistake { line, column, key: plain(key), rule: plain(rule), source: plain(source.to_owned()) }
}

/// Why the text is no document.
struct Syntax {
    mark: Mark,
    problem: String,
}

impl Syntax {
    fn at(mark: Mark, problem: &str) -> Self {
        Self { mark, problem: quote(problem) }
    }
}

/// An unfinished list or map.
struct Open {
    mark: Mark,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// Its entries, and the key (with its place) that waits for a value.
    Map(Vec<Entry>, Option<(String, Mark)>),
}

struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Syntax> {
        let mark = Mark::of(span);
        match event {
            Event::Alias(_) => return Err(Syntax::at(mark, "aliases (*name) are not accepted; write the value out")),
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return Err(Syntax::at(mark, "tags (!name) are not accepted"));
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(Syntax::at(mark, "a second document; write one per file"));
            }
            Event::Scalar(text, style, _, None) => {
                let plain = style == ScalarStyle::Plain;
                self.put(Node { mark, value: Value::Scalar { text: text.into_owned(), plain } })?;
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if self.open.len() >= MAX_NESTING {
                    return Err(Syntax::at(mark, "nested too deeply"));
                }
                let content = match event {
                    Event::MappingStart(..) => Content::Map(Vec::new(), None),
                    _ => Content::List(Vec::new()),
                };
                self.open.push(Open { mark, content });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let done = self.open.pop().expect("the parser pairs starts with ends");
                let value = match done.content {
                    Content::Map(entries, _) => Value::Map(entries),
                    Content::List(items) => Value::List(items),
                };
                self.put(Node { mark: done.mark, value })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, node: Node) -> Result<(), Syntax> {
        let mark = node.mark;
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map(entries, waiting)) => match (waiting.take(), node.value) {
                (Some((key, at)), value) => entries.push(Entry { key, mark: at, node: Node { mark, value } }),
                (None, Value::Scalar { text, .. }) if entries.iter().any(|entry| entry.key == text) => {
                    return Err(Syntax::at(mark, &format!("key `{text}` is written twice")));
                }
                (None, Value::Scalar { text, .. }) => *waiting = Some((text, mark)),
                (None, _) => return Err(Syntax::at(mark, "a key must be a word")),
            },
        }
        Ok(())
    }
}

fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_QUOTE).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    quoted
}

/// A place in a document, with the path that led to it. What cannot be read is `None`, and the document knows why.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'d> {
    document: &'d Document<'d>,
    node: &'d Node,
    mark: Mark,
    path: String,
}

impl<'d> Reader<'d> {
    /// A mistake here.
    pub(crate) fn refuse<T>(&self, rule: &dyn Display) -> Option<T> {
        self.document.note(self.mark, &self.path, rule);
        None
    }

    /// Whether this is `[…]`.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    /// A map, ready to be taken apart; keys that are not of `known` are refused.
    pub(crate) fn map(&self, known: &[&str]) -> Option<Fields<'d>> {
        let Value::Map(entries) = &self.node.value else {
            return self.refuse(&format!("write a map with the keys {}", known.join(", ")));
        };
        let child = |key: &str| match self.path.as_str() {
            "" => quote(key),
            path => format!("{path}.{}", quote(key)),
        };
        let mut fields = Vec::new();
        for entry in entries {
            let path = child(&entry.key);
            if known.contains(&entry.key.as_str()) {
                let value = Reader { document: self.document, node: &entry.node, mark: entry.place(), path };
                fields.push((entry.key.as_str(), value));
            } else {
                let rule = match suggestion(&entry.key, known.iter().copied()) {
                    Some(near) => format!("unknown key; did you mean `{near}`?"),
                    None => format!("unknown key; the keys here are {}", known.join(", ")),
                };
                self.document.note(entry.mark, &path, &rule);
            }
        }
        Some(Fields { place: self.clone(), entries: fields })
    }

    /// Each entry of a list of at most `max`, read.
    pub(crate) fn list<T>(&self, max: usize, read: impl Fn(&Reader<'d>) -> Option<T>) -> Option<Vec<T>> {
        let Value::List(items) = &self.node.value else {
            return self.refuse(&"write a list, such as [a, b]");
        };
        if items.len() > max {
            return self.refuse(&format!("{} entries; write 1 to {max}", items.len()));
        }
        let each = items.iter().enumerate().map(|(index, node)| {
            let path = format!("{}[{index}]", self.path);
            read(&Reader { document: self.document, node, mark: node.mark, path })
        });
        // All of them are read before the first that cannot be ends it.
        let each: Vec<Option<T>> = each.collect();
        each.into_iter().collect()
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&'d str> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null") => {
                self.refuse(&"a value is missing")
            }
            Value::Scalar { text, .. } => Some(text),
            _ => self.refuse(&"write a single value"),
        }
    }

    /// A value that is read from its text.
    pub(crate) fn parse<T: std::str::FromStr<Err: Display>>(&self) -> Option<T> {
        self.text()?.parse().map_or_else(|error| self.refuse(&error), Some)
    }

    /// A whole number.
    pub(crate) fn whole<T: TryFrom<u64>>(&self) -> Option<T> {
        let text = self.text()?;
        text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()).or_else(|| {
            let most = u64::MAX >> (64 - 8 * size_of::<T>());
            self.refuse(&format!("`{}` is not a whole number from 1 to {most}", quote(text)))
        })
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy + Display>(&self, words: &[T]) -> Option<T> {
        let text = self.text()?;
        words.iter().find(|word| word.to_string() == text).copied().or_else(|| {
            let words: Vec<String> = words.iter().map(T::to_string).collect();
            let near = suggestion(text, words.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            self.refuse(&format!("`{}` is not one of {}{near}", quote(text), words.join(", ")))
        })
    }
}

/// The fields of a map.
pub(crate) struct Fields<'d> {
    place: Reader<'d>,
    entries: Vec<(&'d str, Reader<'d>)>,
}

impl<'d> Fields<'d> {
    /// The value of a key, if it is there.
    pub(crate) fn get(&self, key: &str) -> Option<Reader<'d>> {
        self.entries.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
    }

    /// The value of a key that must be there, read.
    pub(crate) fn need<T>(&self, key: &str, read: impl FnOnce(&Reader<'d>) -> Option<T>) -> Option<T> {
        match self.get(key) {
            Some(place) => read(&place),
            None => self.place.refuse(&format!("key `{key}` is missing")),
        }
    }

    /// The value of a key that may be left out, read.
    pub(crate) fn or<T>(&self, key: &str, missing: T, read: impl FnOnce(&Reader<'d>) -> Option<T>) -> Option<T> {
        self.get(key).map_or(Some(missing), |place| read(&place))
    }
}
