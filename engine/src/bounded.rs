//! Reading lists and texts of strangers: no more of them than there can be, before they take memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Counters of one reading. Source: our choice, because mlx5 has about 1,500 on a port with all its queues.
const MOST_COUNTERS: usize = 16_384;

/// Longest name of a counter. Units: bytes. Source: our choice, because the kernel's have at most 32
/// (`ETH_GSTRING_LEN`).
const LONGEST_NAME: usize = 256;

/// Events of one reading. Source: our choice, because an agent keeps each once.
const MOST_EVENTS: usize = 1024;

/// Longest text that is kept; more is cut off. Units: characters. Source: our choice, several lines.
const LONGEST_TEXT: usize = 2048;

/// Counters by name.
///
/// # Errors
/// There are more than 16,384, or a name is longer than any is.
pub fn counters<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
    struct Counters;
    impl<'de> Visitor<'de> for Counters {
        type Value = BTreeMap<String, u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST_COUNTERS} counters")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut counters = BTreeMap::new();
            while let Some((name, value)) = entries.next_entry::<String, u64>()? {
                if name.len() > LONGEST_NAME {
                    return Err(A::Error::custom(format!("a counter's name is longer than {LONGEST_NAME} bytes")));
                }
                counters.insert(name, value);
                if counters.len() > MOST_COUNTERS {
                    return Err(A::Error::invalid_length(counters.len(), &self));
                }
            }
            Ok(counters)
        }
    }
    deserializer.deserialize_map(Counters)
}

/// Events, each cut to what is worth keeping.
///
/// # Errors
/// There are more than 1,024.
pub fn events<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Texts;
    impl<'de> Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MOST_EVENTS} events")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut texts = Vec::new();
            while let Some(text) = items.next_element::<String>()? {
                texts.push(cut(text));
                if texts.len() > MOST_EVENTS {
                    return Err(A::Error::invalid_length(texts.len(), &self));
                }
            }
            Ok(texts)
        }
    }
    deserializer.deserialize_seq(Texts)
}

/// A list of at most so many of something.
///
/// # Errors
/// There are more.
pub fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    most: usize,
    what: &'static str,
) -> Result<Vec<T>, D::Error> {
    struct Items<T>(usize, &'static str, PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {} {}", self.0, self.1)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            let mut list = Vec::new();
            while let Some(item) = items.next_element()? {
                list.push(item);
                if list.len() > self.0 {
                    return Err(A::Error::invalid_length(list.len(), &self));
                }
            }
            Ok(list)
        }
    }
    deserializer.deserialize_seq(Items(most, what, PhantomData))
}

/// A text, cut to what is worth keeping.
///
/// # Errors
/// It is none.
pub fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(cut)
}

/// A text that may be missing, cut as others are.
///
/// # Errors
/// There is something else.
pub fn optional_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(cut))
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::verbs_host::{HostError, HostReading};

    use super::*;

    fn reading(counters: usize, name: usize, events: usize) -> Result<HostReading, serde_json::Error> {
        let name = |index: usize| format!("{index:0name$}");
        let counters: BTreeMap<String, u64> = (0..counters).map(|index| (name(index), 1)).collect();
        serde_json::from_value(json!({
            "at_nanos": 1, "groups": [], "queue_full_nanos": 0, "received_late": 0, "outstanding": 0,
            "counters": counters, "events": vec!["event"; events],
        }))
    }

    #[test]
    fn a_reading_has_no_more_counters_and_events_than_there_can_be() {
        assert_eq!(reading(MOST_COUNTERS, 8, MOST_EVENTS).expect("just fits").counters.len(), MOST_COUNTERS);
        for (counters, name, events, expected) in [
            (MOST_COUNTERS + 1, 8, 0, "expected at most 16384 counters"),
            (1, LONGEST_NAME + 1, 0, "a counter's name is longer than 256 bytes"),
            (0, 8, MOST_EVENTS + 1, "expected at most 1024 events"),
        ] {
            let error = reading(counters, name, events).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        let long = "é".repeat(1 << 20);
        let error: HostError = serde_json::from_value(json!({"failed": long})).expect("an error");
        assert_eq!(error.to_string().chars().count(), LONGEST_TEXT + 1);
        assert_eq!(cut("short".to_owned()), "short");
    }
}
