//! A YAML document as a small tree that knows its lines, and the reader that decodes it key by key. What the keys mean
//! lives in `yaml` and `space_yaml`.

use std::fmt::Display;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Longest input. Units: bytes. Source: our choice, because the largest legal workload is far below.
pub const MAX_INPUT: usize = 1 << 20;
/// Deepest nesting. Source: our choice, because the formats nest five deep.
const MAX_NESTING: usize = 16;
/// Longest piece of the input that an error repeats. Units: characters.
const MAX_QUOTE: usize = 60;

/// Why a document was refused; always names the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// Bytes that are no text.
    #[error("{file}: not UTF-8 text: the byte at offset {offset} begins no character")]
    NotUtf8 {
        /// Where the text came from.
        file: String,
        /// Offset of the first bad byte.
        offset: usize,
    },
    /// Longer than 1 MiB.
    #[error("{file}: {len} bytes are more than the {MAX_INPUT} that are accepted")]
    TooLong {
        /// Where the text came from.
        file: String,
        /// Its length in bytes.
        len: usize,
    },
    /// Not YAML, or YAML beyond what the formats use.
    #[error("{file}:{line}: {problem}")]
    Syntax {
        /// Where the text came from.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A key that breaks a rule.
    #[error("{file}:{line}: {key}: {rule}")]
    Key {
        /// Where the text came from.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Key path, such as `flows[0].batch.send`.
        key: String,
        /// The rule.
        rule: String,
    },
}

/// The text of a file, or where it stops being UTF-8.
///
/// # Errors
/// [`DocumentError::NotUtf8`].
pub fn utf8<'b>(file: &str, bytes: &'b [u8]) -> Result<&'b str, DocumentError> {
    std::str::from_utf8(bytes)
        .map_err(|error| DocumentError::NotUtf8 { file: file.to_owned(), offset: error.valid_up_to() })
}

#[derive(Debug)]
struct Node {
    line: usize,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// Keys with their lines, in the order of the file.
    Map(Vec<(String, Node)>),
}

/// A parsed document.
#[derive(Debug)]
pub struct Document {
    file: String,
    root: Node,
}

impl Document {
    /// Parses one document; aliases, tags and a second document are refused, so the tree is no larger than the text.
    ///
    /// # Errors
    /// Names the line that is no YAML, or beyond what the formats use.
    pub fn parse(file: &str, text: &str) -> Result<Self, DocumentError> {
        if text.len() > MAX_INPUT {
            return Err(DocumentError::TooLong { file: file.to_owned(), len: text.len() });
        }
        let mut builder = Builder { file, open: Vec::new(), root: None };
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| builder.syntax(error.marker().line(), error.info()))?;
            builder.take(event, span)?;
        }
        let root = builder.root.ok_or_else(|| DocumentError::Syntax {
            file: file.to_owned(),
            line: 1,
            problem: "the document is empty".to_owned(),
        })?;
        Ok(Self { file: file.to_owned(), root })
    }

    /// The top of the document.
    pub(crate) fn root(&self) -> Reader<'_> {
        Reader { file: &self.file, node: &self.root, path: String::new() }
    }

    /// An error at a key path, empty for the whole; where the path is not in the file, at its nearest ancestor.
    pub fn refuse(&self, path: &str, rule: &dyn Display) -> DocumentError {
        let mut node = &self.root;
        for step in path.split(['.', '[']) {
            let next = match (&node.value, step.strip_suffix(']')) {
                (Value::List(items), Some(index)) => index.parse().ok().and_then(|index: usize| items.get(index)),
                (Value::Map(entries), None) => entries.iter().find(|(key, _)| key == step).map(|(_, node)| node),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        refusal(&self.file, node.line, path, rule)
    }
}

fn refusal(file: &str, line: usize, path: &str, rule: &dyn Display) -> DocumentError {
    let key = if path.is_empty() { "the document" } else { path };
    DocumentError::Key { file: file.to_owned(), line, key: key.to_owned(), rule: rule.to_string() }
}

/// An unfinished list or map.
struct Open {
    line: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    /// Its entries, and the key (with its line) that waits for a value.
    Map(Vec<(String, Node)>, Option<(String, usize)>),
}

struct Builder<'f> {
    file: &'f str,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder<'_> {
    fn syntax(&self, line: usize, problem: &str) -> DocumentError {
        DocumentError::Syntax { file: self.file.to_owned(), line, problem: quote(problem) }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), DocumentError> {
        let line = span.start.line();
        match event {
            Event::Alias(_) => return Err(self.syntax(line, "aliases (*name) are not accepted; write the value out")),
            Event::Scalar(_, _, _, Some(_)) | Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return Err(self.syntax(line, "tags (!name) are not accepted"));
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(self.syntax(line, "a second document; write one per file"));
            }
            Event::Scalar(text, style, _, None) => {
                let plain = style == ScalarStyle::Plain;
                self.put(Node { line, value: Value::Scalar { text: text.into_owned(), plain } })?;
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if self.open.len() >= MAX_NESTING {
                    return Err(self.syntax(line, "nested too deeply"));
                }
                let content = match event {
                    Event::MappingStart(..) => Content::Map(Vec::new(), None),
                    _ => Content::List(Vec::new()),
                };
                self.open.push(Open { line, content });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let done = self.open.pop().expect("the parser pairs starts with ends");
                let value = match done.content {
                    Content::Map(entries, _) => Value::Map(entries),
                    Content::List(items) => Value::List(items),
                };
                self.put(Node { line: done.line, value })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn put(&mut self, node: Node) -> Result<(), DocumentError> {
        let line = node.line;
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map(entries, waiting)) => match (waiting.take(), node.value) {
                (Some((key, line)), value) => entries.push((key, Node { line, value })),
                (None, Value::Scalar { text, .. }) if entries.iter().any(|(key, _)| *key == text) => {
                    return Err(self.syntax(line, &format!("key `{text}` is written twice")));
                }
                (None, Value::Scalar { text, .. }) => *waiting = Some((text, line)),
                (None, _) => return Err(self.syntax(line, "a key must be a word")),
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

/// A place in a document, with the path that led to it.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'d> {
    file: &'d str,
    node: &'d Node,
    path: String,
}

impl<'d> Reader<'d> {
    /// An error here.
    pub(crate) fn refuse(&self, rule: &dyn Display) -> DocumentError {
        refusal(self.file, self.node.line, &self.path, rule)
    }

    fn at(&self, node: &'d Node, path: String) -> Reader<'d> {
        Reader { file: self.file, node, path }
    }

    /// Whether this is `[…]`.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    /// The keys and values of a map, each one of `known`.
    pub(crate) fn entries(&self, known: &[&str]) -> Result<Vec<(&'d str, Reader<'d>)>, DocumentError> {
        let Value::Map(entries) = &self.node.value else {
            return Err(self.refuse(&format!("write a map with the keys {}", known.join(", "))));
        };
        let child = |key: &str| match self.path.as_str() {
            "" => quote(key),
            path => format!("{path}.{}", quote(key)),
        };
        entries
            .iter()
            .map(|(key, node)| {
                let value = self.at(node, child(key));
                if known.contains(&key.as_str()) {
                    Ok((key.as_str(), value))
                } else {
                    Err(value.refuse(&format!("unknown key; the keys here are {}", known.join(", "))))
                }
            })
            .collect()
    }

    /// A map whose keys are all of `known`, ready to be taken apart.
    pub(crate) fn map(self, known: &[&str]) -> Result<Fields<'d>, DocumentError> {
        let entries = self.entries(known)?;
        Ok(Fields { place: self, entries })
    }

    /// The entries of a list of at most `max`.
    pub(crate) fn list(&self, max: usize) -> Result<Vec<Reader<'d>>, DocumentError> {
        let Value::List(items) = &self.node.value else {
            return Err(self.refuse(&"write a list, such as [a, b]"));
        };
        if items.len() > max {
            return Err(self.refuse(&format!("{} entries; write 1 to {max}", items.len())));
        }
        Ok(items.iter().enumerate().map(|(index, node)| self.at(node, format!("{}[{index}]", self.path))).collect())
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Result<&'d str, DocumentError> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null") => {
                Err(self.refuse(&"a value is missing"))
            }
            Value::Scalar { text, .. } => Ok(text),
            _ => Err(self.refuse(&"write a single value")),
        }
    }

    /// A value that is read from its text.
    pub(crate) fn parse<T: std::str::FromStr<Err: Display>>(&self) -> Result<T, DocumentError> {
        self.text()?.parse().map_err(|error| self.refuse(&error))
    }

    /// A whole number.
    pub(crate) fn whole<T: TryFrom<u64>>(&self) -> Result<T, DocumentError> {
        let text = self.text()?;
        text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let most = u64::MAX >> (64 - 8 * size_of::<T>());
            self.refuse(&format!("`{}` is not a whole number from 1 to {most}", quote(text)))
        })
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy + Display>(&self, words: &[T]) -> Result<T, DocumentError> {
        let text = self.text()?;
        words.iter().find(|word| word.to_string() == text).copied().ok_or_else(|| {
            let words: Vec<String> = words.iter().map(T::to_string).collect();
            self.refuse(&format!("`{}` is not one of {}", quote(text), words.join(", ")))
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

    /// The value of a key that must be there.
    pub(crate) fn need(&self, key: &str) -> Result<Reader<'d>, DocumentError> {
        self.get(key).ok_or_else(|| self.place.refuse(&format!("key `{key}` is missing")))
    }
}
