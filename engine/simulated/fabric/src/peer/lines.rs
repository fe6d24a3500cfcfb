//! Text files of words: whose they are, and where each word stands.

/// Whose files they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// HPCC's simulator.
    Hpcc,
    /// `SimAI`'s.
    SimAi,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {rule}")]
pub struct PeerError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What it should be.
    pub rule: String,
}

/// The words of a file, one after the other; line ends do not matter to these formats.
pub struct Words<'t> {
    file: &'t str,
    rest: Box<dyn Iterator<Item = (usize, &'t str)> + 't>,
    line: usize,
}

impl<'t> Words<'t> {
    /// Of a text; the file stands in errors.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        let lines = (1..).zip(text.lines());
        let words = lines.flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
        Self { file, rest: Box::new(words), line: 1 }
    }

    /// The next word, which is called `name`.
    ///
    /// # Errors
    /// If the file ends.
    pub fn word(&mut self, name: &str) -> Result<&'t str, PeerError> {
        let Some((line, word)) = self.rest.next() else {
            return Err(self.wrong(&format!("the file ends where {name} should stand")));
        };
        self.line = line;
        Ok(word)
    }

    /// The next word as a number.
    ///
    /// # Errors
    /// If it ends, or the word is none.
    pub fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<T, PeerError> {
        let word = self.word(name)?;
        word.parse().map_err(|_| self.wrong(&format!("`{}` should be {name}", short(word))))
    }

    /// The next word as a number with a limit.
    ///
    /// # Errors
    /// If it is none, or too large.
    pub fn below(&mut self, name: &str, limit: usize) -> Result<u32, PeerError> {
        let number: usize = self.number(name)?;
        let small = u32::try_from(number).ok().filter(|_| number < limit);
        small.ok_or_else(|| self.wrong(&format!("{name} is {number}; it should be below {limit}")))
    }

    /// An error at the last word.
    pub fn wrong(&self, rule: &str) -> PeerError {
        PeerError { file: self.file.to_owned(), line: self.line, rule: rule.to_owned() }
    }
}

/// A rate such as `100Gbps` or `50Mb/s`. Units: bit/s.
pub fn bits_per_second(word: &str) -> Option<f64> {
    let digits = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = word.split_at(digits);
    let scale = match unit {
        "bps" | "b/s" => 1.0,
        "Kbps" | "Kb/s" | "kb/s" => 1e3,
        "Mbps" | "Mb/s" => 1e6,
        "Gbps" | "Gb/s" => 1e9,
        "Tbps" | "Tb/s" => 1e12,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale).filter(|rate| (0.0..=1e14).contains(rate))
}

/// A time such as `1000ns` or `0.001ms`. Units: ns.
pub fn nanos(word: &str) -> Option<f64> {
    let digits = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = word.split_at(digits);
    let scale = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale).filter(|time| (0.0..=4e9).contains(time))
}

/// A word as errors may show it.
pub fn short(word: &str) -> String {
    word.chars().filter(|letter| !letter.is_control()).take(40).collect()
}
