//! A source that plays readings back, for tests and replays.

use std::collections::VecDeque;

use super::{CounterSource, Reading, SourceError};

/// Readings in the order in which they will be read.
#[derive(Debug, Clone, Default)]
pub struct ScriptedSource {
    readings: VecDeque<Reading>,
}

impl ScriptedSource {
    /// A source that gives these readings, each once.
    pub fn new(readings: impl IntoIterator<Item = Reading>) -> Self {
        Self { readings: readings.into_iter().collect() }
    }
}

impl CounterSource for ScriptedSource {
    fn read(&mut self) -> Result<Reading, SourceError> {
        self.readings.pop_front().ok_or(SourceError::Exhausted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_come_in_order_and_end_with_an_error() {
        let reading = |value| Reading::from([("packets".to_owned(), value)]);
        let mut source = ScriptedSource::new([reading(1), reading(2)]);
        assert_eq!(source.read().expect("first"), reading(1));
        assert_eq!(source.read().expect("second"), reading(2));
        assert!(matches!(source.read(), Err(SourceError::Exhausted)));
    }
}
