//! Python's pickles, as data alone: no name is looked up and nothing is called. Bounded in values and in what
//! references expand to.
//!
//! Source: `CPython`, `Lib/pickletools.py`, protocols 0 to 5. Crates that read pickles follow nesting by recursion and
//! expand each reference, so that a kilobyte can take all memory.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use hashbrown::HashMap;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Most values that are made, and most that are looked at. Source: our choice, above 100,000 records with their stacks.
const MAX_VALUES: usize = 16 << 20;

/// Reads a value.
///
/// # Errors
/// Says what cannot be read, and at which byte.
pub fn from_slice<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let mut reader = Reader { bytes, ..Reader::default() };
    let value = reader.read()?;
    let left = Cell::new(MAX_VALUES);
    T::deserialize(Look { value: &value, containers: &reader.containers, left: &left })
}

/// What cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// A value. Lists and maps are named by their number, so that one which contains itself is harmless.
#[derive(Debug, Clone)]
enum Value {
    None,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(Rc<str>),
    Bytes,
    List(usize),
    Map(usize),
}

#[derive(Default)]
struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    stack: Vec<Value>,
    /// Where the stack stood at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
    /// Items of lists; keys and values of maps by turns.
    containers: Vec<Vec<Value>>,
    count: usize,
}

impl<'b> Reader<'b> {
    fn read(&mut self) -> Result<Value, Error> {
        loop {
            let at = self.at;
            let opcode = self.take(1)?[0];
            match self.step(opcode) {
                Ok(None) => {}
                Ok(Some(value)) => return Ok(value),
                Err(Error(problem)) => return Err(Error(format!("byte {at}: {problem}"))),
            }
        }
    }

    /// Does what an opcode says; returns the value at the end.
    #[expect(clippy::too_many_lines, clippy::match_same_arms, reason = "a row for each opcode, as in its list")]
    fn step(&mut self, opcode: u8) -> Result<Option<Value>, Error> {
        match opcode {
            // PROTO, FRAME.
            0x80 => drop(self.take(1)?),
            0x95 => drop(self.take(8)?),
            b'.' => return self.pop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.since_mark()?),
            b'2' => {
                let top = self.top()?.clone();
                self.push(top)?;
            }
            b'N' => self.push(Value::None)?,
            0x88 => self.push(Value::Bool(true))?,
            0x89 => self.push(Value::Bool(false))?,
            b'J' => {
                let number = i32::from_le_bytes(self.array()?);
                self.push(Value::Integer(number.into()))?;
            }
            b'K' => {
                let number = self.take(1)?[0];
                self.push(Value::Integer(number.into()))?;
            }
            b'M' => {
                let number = u16::from_le_bytes(self.array()?);
                self.push(Value::Integer(number.into()))?;
            }
            b'G' => {
                let number = f64::from_be_bytes(self.array()?);
                self.push(Value::Float(number))?;
            }
            0x8a => self.long()?,
            b'I' | b'L' | b'F' => self.written_number(opcode)?,
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
            0x8c => self.text(1)?,
            b'X' => self.text(4)?,
            0x8d => self.text(8)?,
            b'V' => {
                let line = self.line()?;
                let text = std::str::from_utf8(line).map_err(|_| Error("text is no UTF-8".to_owned()))?;
                self.push(Value::Text(text.into()))?;
            }
            // SHORT_BINSTRING, BINSTRING, SHORT_BINBYTES, BINBYTES, BINBYTES8.
            b'U' => self.text(1)?,
            b'T' => self.text(4)?,
            b'C' => self.skip(1)?,
            b'B' => self.skip(4)?,
            0x8e => self.skip(8)?,
            b']' | b')' => self.list(Vec::new())?,
            b'}' => self.map(Vec::new())?,
            b'l' | b't' => {
                let values = self.since_mark()?;
                self.list(values)?;
            }
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let from = self.stack.len().checked_sub(count).ok_or_else(empty)?;
                let values = self.stack.split_off(from);
                self.list(values)?;
            }
            b'd' => {
                let values = self.since_mark()?;
                self.map(values)?;
            }
            b'a' => {
                let value = self.pop()?;
                self.extend(vec![value])?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.extend(vec![key, value])?;
            }
            b'e' | b'u' => {
                let values = self.since_mark()?;
                self.extend(values)?;
            }
            b'q' => {
                let place = self.take(1)?[0];
                self.keep(place.into())?;
            }
            b'r' => {
                let place = u32::from_le_bytes(self.array()?);
                self.keep(place)?;
            }
            0x94 => {
                let place = self.memo.len() as u32;
                self.keep(place)?;
            }
            b'h' => {
                let place = self.take(1)?[0];
                self.recall(place.into())?;
            }
            b'j' => {
                let place = u32::from_le_bytes(self.array()?);
                self.recall(place)?;
            }
            b'p' | b'g' => {
                let place = parsed(self.line()?)?;
                if opcode == b'p' { self.keep(place)? } else { self.recall(place)? }
            }
            b'c' | b'i' | b'o' | b'R' | b'b' | 0x81 | 0x92 | 0x93 => {
                return Err(Error("it would run code of Python; only plain data is read".to_owned()));
            }
            other => return Err(Error(format!("opcode {other:#04x} is not known"))),
        }
        Ok(None)
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], Error> {
        let found = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| Error(format!("it breaks off after {} bytes", self.bytes.len())))?;
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn line(&mut self) -> Result<&'b [u8], Error> {
        let end = self.bytes[self.at..].iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| Error("a line without end".to_owned()))?;
        let line = self.take(end)?;
        self.at += 1;
        Ok(line)
    }

    /// As many bytes as the number says that comes first, which has `width` bytes.
    fn counted(&mut self, width: usize) -> Result<&'b [u8], Error> {
        let mut count = [0; 8];
        count[..width].copy_from_slice(self.take(width)?);
        let count = usize::try_from(u64::from_le_bytes(count)).map_err(|_| Error("a length".to_owned()))?;
        self.take(count)
    }

    fn text(&mut self, width: usize) -> Result<(), Error> {
        let text = String::from_utf8_lossy(self.counted(width)?);
        self.push(Value::Text(text.into()))
    }

    fn skip(&mut self, width: usize) -> Result<(), Error> {
        self.counted(width)?;
        self.push(Value::Bytes)
    }

    fn long(&mut self) -> Result<(), Error> {
        let bytes = self.counted(1)?;
        if bytes.len() > 8 {
            return Err(Error("an integer of more than 64 bits".to_owned()));
        }
        let is_negative = bytes.last().is_some_and(|last| *last >= 0x80);
        let mut all = [if is_negative { 0xff } else { 0 }; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        self.push(Value::Integer(i64::from_le_bytes(all)))
    }

    fn written_number(&mut self, opcode: u8) -> Result<(), Error> {
        let line = self.line()?;
        let value = match (opcode, line) {
            (b'I', b"00") => Value::Bool(false),
            (b'I', b"01") => Value::Bool(true),
            (b'F', _) => Value::Float(parsed(line)?),
            _ => Value::Integer(parsed(line.strip_suffix(b"L").unwrap_or(line))?),
        };
        self.push(value)
    }

    fn push(&mut self, value: Value) -> Result<(), Error> {
        self.count += 1;
        if self.count > MAX_VALUES {
            return Err(Error(format!("more than {MAX_VALUES} values")));
        }
        self.stack.push(value);
        Ok(())
    }

    /// What a mark keeps apart cannot be popped.
    fn pop(&mut self) -> Result<Value, Error> {
        self.top()?;
        self.stack.pop().ok_or_else(empty)
    }

    fn top(&mut self) -> Result<&mut Value, Error> {
        if self.stack.len() <= self.marks.last().copied().unwrap_or(0) {
            return Err(empty());
        }
        self.stack.last_mut().ok_or_else(empty)
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, Error> {
        let mark = self.marks.pop().ok_or_else(|| Error("no mark".to_owned()))?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn list(&mut self, values: Vec<Value>) -> Result<(), Error> {
        self.containers.push(values);
        self.push(Value::List(self.containers.len() - 1))
    }

    fn map(&mut self, values: Vec<Value>) -> Result<(), Error> {
        self.containers.push(values);
        self.push(Value::Map(self.containers.len() - 1))
    }

    /// Adds to the list or map at the top.
    fn extend(&mut self, more: Vec<Value>) -> Result<(), Error> {
        let (Value::List(place) | Value::Map(place)) = *self.top()? else {
            return Err(Error("items, and no list to which they belong".to_owned()));
        };
        self.containers[place].extend(more);
        Ok(())
    }

    fn keep(&mut self, place: u32) -> Result<(), Error> {
        let top = self.top()?.clone();
        self.memo.insert(place, top);
        Ok(())
    }

    fn recall(&mut self, place: u32) -> Result<(), Error> {
        let value = self.memo.get(&place).cloned();
        self.push(value.ok_or_else(|| Error(format!("a reference to {place}, and nothing was kept there")))?)
    }
}

fn empty() -> Error {
    Error("the stack is empty".to_owned())
}

fn parsed<T: std::str::FromStr>(text: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    text.ok_or_else(|| Error("a number that cannot be read".to_owned()))
}

/// A value that serde looks at.
#[derive(Clone, Copy)]
struct Look<'r> {
    value: &'r Value,
    containers: &'r [Vec<Value>],
    /// Values that may still be looked at: references make few of them many.
    left: &'r Cell<usize>,
}

impl<'de> Deserializer<'de> for Look<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(Error(format!("references expand it to more than {MAX_VALUES} values")));
        };
        self.left.set(left);
        let look = |value| Look { value, ..self };
        match self.value {
            Value::None => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(*flag),
            Value::Integer(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_str(text),
            Value::Bytes => visitor.visit_bytes(&[]),
            Value::List(place) => visitor.visit_seq(SeqDeserializer::new(self.containers[*place].iter().map(look))),
            Value::Map(place) => {
                let (pairs, _) = self.containers[*place].as_chunks::<2>();
                visitor.visit_map(MapDeserializer::new(pairs.iter().map(|[key, value]| (look(key), look(value)))))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if matches!(self.value, Value::None) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// What nobody asks for is not followed.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

impl IntoDeserializer<'_, Error> for Look<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        a: Vec<i64>,
        b: Option<f64>,
        c: BTreeMap<String, bool>,
    }

    /// `{'a': [1, 300, -2, 2**40], 'b': None, 'c': {'x': True}, 'd': [[]]}`, as `CPython` 3.11 writes it with protocol
    /// 0, 2 and 4.
    const WRITTEN: [&[u8]; 3] = [
        b"(dp0\nVa\np1\n(lp2\nI1\naI300\naI-2\naL1099511627776L\nasVb\np3\nNsVc\np4\n(dp5\nVx\np6\nI01\nssVd\np7\n\
          (lp8\n(lp9\nas.",
        b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01M,\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01eX\x01\x00\x00\x00\
          bq\x03NX\x01\x00\x00\x00cq\x04}q\x05X\x01\x00\x00\x00xq\x06\x88sX\x01\x00\x00\x00dq\x07]q\x08]q\tau.",
        b"\x80\x04\x95-\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01M,\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01e\
          \x8c\x01b\x94N\x8c\x01c\x94}\x94\x8c\x01x\x94\x88s\x8c\x01d\x94]\x94]\x94au.",
    ];

    #[test]
    fn what_python_writes_is_read() {
        for bytes in WRITTEN {
            let sample: Sample = from_slice(bytes).expect("plain data");
            let c = BTreeMap::from([("x".to_owned(), true)]);
            assert_eq!(sample, Sample { a: vec![1, 300, -2, 1 << 40], b: None, c });
            for end in 0..bytes.len() {
                from_slice::<Sample>(&bytes[..end]).expect_err("it breaks off");
                // Whatever a byte is, it is read or refused.
                for byte in 0..=u8::MAX {
                    let mut changed = bytes.to_vec();
                    changed[end] = byte;
                    let _ = from_slice::<Sample>(&changed);
                }
            }
        }
    }

    #[test]
    fn nothing_is_called_and_nothing_expands_without_bound() {
        let error = from_slice::<Vec<i64>>(b"cos\nsystem\n(S'true'\ntR.").expect_err("a call");
        assert!(error.to_string().contains("would run code"), "{error}");
        // Nested a million deep, and a list that contains itself.
        let deep = [b"]".repeat(1 << 20), b"a".repeat((1 << 20) - 1), b".".to_vec()].concat();
        from_slice::<Vec<i64>>(&deep).expect_err("lists and no numbers");
        from_slice::<Vec<i64>>(b"]q\x00h\x00a.").expect_err("a list and no number");
        // Each list has the one before many times: 2,000 bytes that stand for 200^5 numbers.
        let mut bomb = b"(".to_vec();
        bomb.extend(b"K\x01".repeat(200));
        bomb.extend(b"lq\x00");
        for _ in 0..4 {
            bomb.extend(b"(");
            bomb.extend(b"h\x00".repeat(200));
            bomb.extend(b"lq\x00");
        }
        bomb.push(b'.');
        let error = from_slice::<Vec<Vec<Vec<Vec<Vec<i64>>>>>>(&bomb).expect_err("too many");
        assert!(error.to_string().contains("references expand"), "{error}");
    }
}
