//! A YAML document as a small tree that knows its lines, and the mistakes that were come upon in it. `tagged` decodes
//! it.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Display};

use indexmap::IndexMap;
use indexmap::map::Entry as Slot;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde::Serialize;
use serde_yaml::Value as Tree;

use crate::scalar::Scalar;
use crate::serde_words::words;
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
    /// How many more were found.
    pub more: usize,
    /// Whether there may be others, because the search for them has a bound.
    pub at_least: bool,
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
            more if self.at_least => write!(f, "\nand at least {more} more"),
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
struct DocumentNode {
    mark: Mark,
    value: NodeValue,
}

#[derive(Debug)]
enum NodeValue {
    Scalar(Scalar),
    List(Vec<DocumentNode>),
    Map(IndexMap<String, MapEntry>),
}

#[derive(Debug)]
struct MapEntry {
    /// Of the key.
    mark: Mark,
    /// Whether the key stands without quotes.
    is_plain: bool,
    node: DocumentNode,
}

impl MapEntry {
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
    root: DocumentNode,
    mistakes: RefCell<Vec<Noted>>,
    /// Whether there may be more.
    in_part: Cell<bool>,
}

/// A mistake that was come upon. Its words are made when it is shown, so that a file may have any number of them.
#[derive(Debug)]
struct Noted {
    mark: Mark,
    key: String,
    /// The rule, or what serde says.
    rule: String,
    /// What the file says there, if it is a single value.
    found: Option<Scalar>,
}

/// A step of a key path.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum PathSegment {
    Key(String),
    Index(usize),
}

/// A key path as errors show it, such as `flows[0].qps`.
pub(crate) fn written(path: &[PathSegment]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathSegment::Key(key) if text.is_empty() => text.push_str(&quote(key)),
            PathSegment::Key(key) => text.extend([".", &quote(key)]),
            PathSegment::Index(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}

/// The steps of a path as rules write it.
fn steps(path: &str) -> Vec<PathSegment> {
    let step = |step: &str| match step.strip_suffix(']').map(str::parse) {
        Some(Ok(index)) => PathSegment::Index(index),
        _ => PathSegment::Key(step.to_owned()),
    };
    path.split(['.', '[']).map(step).collect()
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
        let mut builder = DocumentBuilder { open: Vec::new(), root: None };
        let failed = |Syntax { mark, problem }: Syntax| {
            let first = vec![mistake(text, mark, String::new(), problem)];
            DocumentError::Mistakes(Mistakes { file: file.to_owned(), first, more: 0, at_least: false })
        };
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let mark = Mark { line: error.marker().line(), column: error.marker().col() + 1 };
                failed(Syntax { mark, problem: yaml_words(error.info()) })
            })?;
            builder.take(event, span).map_err(failed)?;
        }
        let empty =
            || failed(Syntax::at(Mark { line: 1, column: 1 }, "the document is empty; see docs/reference/files.md"));
        let root = builder.root.ok_or_else(empty)?;
        Ok(Self { file: file.to_owned(), text, root, mistakes: RefCell::default(), in_part: Cell::new(false) })
    }

    /// The same as serde has it.
    ///
    /// # Errors
    /// Names each number that serde has no place for.
    pub fn tree(&self) -> Result<Tree, DocumentError> {
        let tree = self.subtree(&self.root, &mut Vec::new());
        if self.mistakes.borrow().is_empty() { Ok(tree) } else { Err(self.error()) }
    }

    fn subtree(&self, node: &DocumentNode, path: &mut Vec<PathSegment>) -> Tree {
        match &node.value {
            NodeValue::Scalar(scalar) => scalar.value().unwrap_or_else(|rule| {
                self.note(node.mark, written(path), &rule);
                Tree::Null
            }),
            NodeValue::List(items) => {
                let below = |(index, item)| {
                    path.push(PathSegment::Index(index));
                    let item = self.subtree(item, path);
                    path.pop();
                    item
                };
                Tree::Sequence(items.iter().enumerate().map(below).collect())
            }
            NodeValue::Map(entries) => {
                let below = |(key, entry): (&String, &MapEntry)| {
                    path.push(PathSegment::Key(key.clone()));
                    let value = self.subtree(&entry.node, path);
                    path.pop();
                    let key = Scalar { text: key.clone(), is_plain: entry.is_plain };
                    (key.value().unwrap_or_else(|_| Tree::String(key.text)), value)
                };
                Tree::Mapping(entries.iter().map(below).collect())
            }
        }
    }

    /// What the file says at the end of a path, if that is a single value.
    pub(crate) fn scalar(&self, path: &[PathSegment]) -> Option<&Scalar> {
        let mut node = &self.root;
        for step in path {
            node = match (&node.value, step) {
                (NodeValue::List(items), PathSegment::Index(index)) => items.get(*index)?,
                (NodeValue::Map(entries), PathSegment::Key(key)) => &entries.get(key)?.node,
                _ => return None,
            };
        }
        match &node.value {
            NodeValue::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Notes a key without a value.
    pub(crate) fn note_missing(&self, path: &[PathSegment]) {
        let [_, value] = self.marks(path);
        self.note(value, written(path), &"a value is missing");
    }

    /// Refuses a document of another kind than `wanted`, such as `space/1`, before its keys are looked at: a mistake,
    /// not ten.
    ///
    /// # Errors
    /// The document has no tag, or that of another kind. Another version of the kind is left to its reader.
    pub fn expect(&self, wanted: &str) -> Result<(), DocumentError> {
        let kind = |tag: &str| tag.split('/').next().unwrap_or_default().to_owned();
        let NodeValue::Map(entries) = &self.root.value else {
            return Err(self.refuse("", &format!("this is no `{wanted}`; such a file begins with `kelpie: {wanted}`")));
        };
        match entries.get("kelpie").map(|entry| &entry.node.value) {
            Some(NodeValue::Scalar(Scalar { text, .. })) if kind(text) == kind(wanted) => Ok(()),
            Some(NodeValue::Scalar(Scalar { text, .. })) => {
                let rule = format!("this is format `{}`; `{wanted}` is needed here", quote(text));
                Err(self.refuse("kelpie", &rule))
            }
            Some(_) => Err(self.refuse("kelpie", &format!("write `kelpie: {wanted}`"))),
            None => Err(self.refuse("", &format!("key `kelpie` is missing; begin with `kelpie: {wanted}`"))),
        }
    }

    /// An error at a key path, empty for the whole; if the path is not in the file, at its nearest ancestor.
    pub fn refuse(&self, path: &str, rule: &dyn Display) -> DocumentError {
        self.note_rule(path, rule);
        self.error()
    }

    /// An error that says each of these mistakes, of which there is one at least.
    pub fn refuse_each(&self, broken: impl IntoIterator<Item = (String, impl Display)>) -> DocumentError {
        broken.into_iter().for_each(|(path, rule)| self.note_rule(&path, &rule));
        self.error()
    }

    /// Refuses every path that breaks a rule.
    ///
    /// # Errors
    /// All of them, if there is one.
    pub fn refuse_all(&self, broken: impl Iterator<Item = (String, impl Display)>) -> Result<(), DocumentError> {
        broken.for_each(|(path, rule)| self.note_rule(&path, &rule));
        if self.mistakes.borrow().is_empty() { Ok(()) } else { Err(self.error()) }
    }

    fn note_rule(&self, path: &str, rule: &dyn Display) {
        let [_, value] = self.marks(&steps(path));
        self.note(value, path.to_owned(), rule);
    }

    /// Notes what serde says of a key path.
    pub(crate) fn note_serde(&self, path: &[PathSegment], error: &str) {
        let [key, value] = self.marks(path);
        let found = self.scalar(path).map(|scalar| Scalar { text: quote(&scalar.text), ..*scalar });
        if error.starts_with("missing field ") && found.as_ref().is_some_and(Scalar::is_missing) {
            return self.note_missing(path);
        }
        let mark = if error.starts_with("unknown field ") { key } else { value };
        let noted = Noted { mark, key: whole_if_empty(written(path)), rule: error.to_owned(), found };
        self.mistakes.borrow_mut().push(noted);
    }

    /// Notes that there may be more mistakes than those noted.
    pub(crate) fn is_read_in_part(&self) {
        self.in_part.set(true);
    }

    /// Where the key of a path is, and where its value; of a path that is not in the file, its nearest ancestor.
    fn marks(&self, path: &[PathSegment]) -> [Mark; 2] {
        let (mut node, mut marks) = (&self.root, [self.root.mark; 2]);
        for step in path {
            let next = match (&node.value, step) {
                (NodeValue::List(items), PathSegment::Index(index)) => {
                    items.get(*index).map(|item| (item, [item.mark; 2]))
                }
                (NodeValue::Map(entries), PathSegment::Key(key)) => {
                    entries.get(key).map(|entry| (&entry.node, [entry.mark, entry.place()]))
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

    fn note(&self, mark: Mark, path: String, rule: &dyn Display) {
        let noted = Noted { mark, key: whole_if_empty(path), rule: rule.to_string(), found: None };
        self.mistakes.borrow_mut().push(noted);
    }

    /// Everything that was refused so far.
    pub(crate) fn error(&self) -> DocumentError {
        let mut noted = self.mistakes.borrow_mut();
        noted.sort_by_key(|noted| noted.mark);
        let shown = noted.iter().take(MAX_MISTAKES);
        let said = |noted: &Noted| words(&noted.rule, noted.found.as_ref());
        let first = shown.map(|noted| mistake(self.text, noted.mark, noted.key.clone(), said(noted)));
        let first: Vec<Mistake> = first.collect();
        let more = noted.len() - first.len();
        DocumentError::Mistakes(Mistakes { file: self.file.clone(), first, more, at_least: self.in_part.get() })
    }
}

/// The text with stars for the name and the password in an address such as `postgres://me:secret@host`, each in the place
/// of a character.
pub fn without_password(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("://") {
        let end = behind.find(|c: char| c.is_whitespace() || "/?#'\"`".contains(c)).unwrap_or(behind.len());
        let secret = behind[..end].rfind('@').unwrap_or(0);
        shown.extend([before, "://"]);
        shown.extend(std::iter::repeat_n('*', behind[..secret].chars().count()));
        rest = &behind[secret..];
    }
    shown + rest
}

fn whole_if_empty(path: String) -> String {
    if path.is_empty() { "the document".to_owned() } else { path }
}

pub(crate) fn mistake(text: &str, Mark { line, column }: Mark, key: String, rule: String) -> Mistake {
    let source = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let plain = |text: String| {
        let text = without_password(&text);
        text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
    };
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
    content: OpenContent,
}

enum OpenContent {
    List(Vec<DocumentNode>),
    /// Its entries, and the key (with its place) that waits for a value.
    Map(IndexMap<String, MapEntry>, Option<(Scalar, Mark)>),
}

struct DocumentBuilder {
    open: Vec<Open>,
    root: Option<DocumentNode>,
}

impl DocumentBuilder {
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
                let scalar = Scalar { text: text.into_owned(), is_plain: style == ScalarStyle::Plain };
                self.put(DocumentNode { mark, value: NodeValue::Scalar(scalar) })?;
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if self.open.len() >= MAX_NESTING {
                    return Err(Syntax::at(mark, "nested too deeply"));
                }
                let content = match event {
                    Event::MappingStart(..) => OpenContent::Map(IndexMap::new(), None),
                    _ => OpenContent::List(Vec::new()),
                };
                self.open.push(Open { mark, content });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let done = self.open.pop().expect("the parser pairs starts with ends");
                let value = match done.content {
                    OpenContent::Map(entries, _) => NodeValue::Map(entries),
                    OpenContent::List(items) => NodeValue::List(items),
                };
                self.put(DocumentNode { mark: done.mark, value })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, node: DocumentNode) -> Result<(), Syntax> {
        let mark = node.mark;
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(OpenContent::List(items)) => items.push(node),
            Some(OpenContent::Map(entries, waiting)) => match (waiting.take(), node.value) {
                (Some((Scalar { text, is_plain }, at)), value) => match entries.entry(text) {
                    Slot::Vacant(slot) => {
                        slot.insert(MapEntry { mark: at, is_plain, node: DocumentNode { mark, value } });
                    }
                    Slot::Occupied(slot) => {
                        return Err(Syntax::at(at, &format!("key `{}` is written twice", slot.key())));
                    }
                },
                (None, NodeValue::Scalar(key)) => *waiting = Some((key, mark)),
                (None, _) => return Err(Syntax::at(mark, "a key must be a word")),
            },
        }
        Ok(())
    }
}

/// A piece of the input, cut to what an error repeats.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_QUOTE).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (text, expected) in [
            ("db: postgres://me:secret@host/k ok", "db: postgres://*********@host/k ok"),
            ("a://b c@d `x://y:z@w`", "a://b c@d `x://***@w`"),
            ("me@host, http://host/a@b", "me@host, http://host/a@b"),
        ] {
            assert_eq!(without_password(text), expected);
        }
        let document = Document::parse("f.yaml", "db: x://me:secret@host").expect("YAML");
        let error = document.refuse("db", &"`x://me:secret@host` is no file").to_string();
        assert!(!error.contains("secret") && error.contains("@host"), "{error}");
    }
}
