//! Features: the words in which conditions speak about a workload. What is known of each stands in the row of its
//! dimension, in `dimensions::table`; regions live in `region`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dimensions::{DESCRIBED, Dimension, DimensionKind, FeatureAdvice, FeatureReading, FeatureRow};
use crate::units::Bytes;
use crate::workload::Workload;

pub use crate::dimensions::Feature;
pub use crate::mix::{MIX_LONG, MIX_SHORT};

/// The value of a feature: a word, or a number where values have an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FeatureValue {
    /// An ordered value, in the feature's unit.
    Number(u64),
    /// One of a few words; booleans are `true` and `false`.
    Category(String),
}

impl FeatureValue {
    /// The number, where the value is one.
    pub fn number(&self) -> Option<u64> {
        match self {
            FeatureValue::Number(number) => Some(*number),
            FeatureValue::Category(_) => None,
        }
    }

    /// The word, where the value is one.
    pub fn into_word(self) -> Option<String> {
        match self {
            FeatureValue::Number(_) => None,
            FeatureValue::Category(word) => Some(word),
        }
    }
}

impl fmt::Display for FeatureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeatureValue::Number(number) => number.fmt(f),
            FeatureValue::Category(word) => word.fmt(f),
        }
    }
}

/// Text that names no feature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a feature of a workload")]
pub struct UnknownFeature(pub String);

/// What the table says of every feature, in their order.
static DESCRIPTIONS: [FeatureRow; Feature::COUNT] = {
    let mut ordered = [DESCRIBED[0]; Feature::COUNT];
    let mut index = 0;
    while index < Feature::COUNT {
        ordered[DESCRIBED[index].feature as usize] = DESCRIBED[index];
        index += 1;
    }
    ordered
};

impl Feature {
    /// How many there are.
    pub const COUNT: usize = DESCRIBED.len();

    /// Every feature, in the order in which reports show them.
    pub const ALL: [Feature; Feature::COUNT] = {
        let mut all = [DESCRIBED[0].feature; Feature::COUNT];
        let mut index = 0;
        while index < Feature::COUNT {
            all[index] = DESCRIPTIONS[index].feature;
            index += 1;
        }
        all
    };

    /// The order in which a walk from one workload to another changes features: first what depends on others,
    /// transports last, so that a rule (UD holds a message to one packet) moves as few other features as possible.
    pub const WALK: [Feature; Feature::COUNT] = {
        let mut walk = Feature::ALL;
        let mut sorted = 1;
        while sorted < walk.len() {
            let mut place = sorted;
            while place > 0 && walk[place - 1].described().walk > walk[place].described().walk {
                walk.swap(place - 1, place);
                place -= 1;
            }
            sorted += 1;
        }
        walk
    };

    pub(crate) const fn described(self) -> &'static FeatureRow {
        &DESCRIPTIONS[self as usize]
    }

    /// The name in YAML, JSON, reports and on the terminal.
    pub fn name(self) -> &'static str {
        self.described().name
    }

    /// A noun phrase that says to people what the name means.
    pub fn phrase(self) -> &'static str {
        self.described().phrase
    }

    /// What a plain workload has: traffic as perftest makes it, healthy on every NIC. None for what others decide.
    pub fn plain(self) -> Option<FeatureValue> {
        let FeatureRow { dimension, plain, .. } = self.described();
        let word = (*plain)?;
        if !self.is_ordered() {
            return Some(FeatureValue::Category(word.to_owned()));
        }
        Some(FeatureValue::Number(dimension.code(word).expect("a test reads every plain value of the table")))
    }

    /// Whether its values are numbers with an order, so that a condition is a range.
    pub fn is_ordered(self) -> bool {
        match self.described().reading {
            FeatureReading::Largest | FeatureReading::Smallest | FeatureReading::Number(_) => true,
            FeatureReading::Words | FeatureReading::Word(_) => false,
        }
    }

    /// Checks that some workload shows this word; flows that differ show theirs in order, joined by `+`.
    ///
    /// # Errors
    /// The rule that the word breaks.
    pub fn check_word(self, word: &str) -> Result<(), String> {
        let FeatureRow { reading, advice, dimension, .. } = self.described();
        if matches!(advice, FeatureAdvice::Truth { .. }) {
            let is_truth = matches!(word, "true" | "false");
            return if is_truth { Ok(()) } else { Err("write true or false".to_owned()) };
        }
        let parts: Vec<&str> =
            if matches!(reading, FeatureReading::Words) { word.split('+').collect() } else { vec![word] };
        let codes: Result<Vec<u64>, String> = parts.into_iter().map(|part| dimension.code(part)).collect();
        let shown = joined(codes?.into_iter().map(|code| dimension.word(code)).collect());
        if shown == word { Ok(()) } else { Err(format!("write `{shown}`")) }
    }

    /// A number of its unit as people write it: sizes with their suffix.
    pub fn written(self, number: u64) -> String {
        if self.is_size() { Bytes(number).to_string() } else { number.to_string() }
    }

    /// Whether its values are sizes in bytes.
    pub fn is_size(self) -> bool {
        self.is_ordered() && matches!(self.described().dimension.row().kind, DimensionKind::Size | DimensionKind::Mtu)
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Feature::ALL
            .into_iter()
            .find(|feature| feature.name() == text)
            .ok_or_else(|| UnknownFeature(text.chars().take(40).collect()))
    }
}

impl Workload {
    /// The value of one feature.
    ///
    /// Where flows differ, counts, depths and sizes are those of the largest.
    pub fn feature(&self, feature: Feature) -> FeatureValue {
        let FeatureRow { reading, dimension, .. } = feature.described();
        let scope = dimension.row().scope;
        match reading {
            FeatureReading::Largest => {
                let mut largest = 0;
                scope.each(self, &mut |value| largest = largest.max(value));
                FeatureValue::Number(largest)
            }
            FeatureReading::Smallest => {
                let mut smallest = None;
                scope.each(self, &mut |value| smallest = Some(smallest.map_or(value, |least: u64| least.min(value))));
                FeatureValue::Number(smallest.unwrap_or(0))
            }
            FeatureReading::Words => FeatureValue::Category(self.words(*dimension)),
            FeatureReading::Number(read) => FeatureValue::Number(read(self)),
            FeatureReading::Word(read) => FeatureValue::Category(read(self)),
        }
    }

    /// The features in which two workloads differ, in the order of [`Feature::ALL`].
    pub fn differing(&self, other: &Workload) -> Vec<Feature> {
        Feature::ALL.into_iter().filter(|feature| self.feature(*feature) != other.feature(*feature)).collect()
    }

    fn words(&self, dimension: Dimension) -> String {
        let mut words = Vec::new();
        dimension.row().scope.each(self, &mut |code| words.push(dimension.word(code)));
        joined(words)
    }
}

/// The words of flows that may differ, as one.
fn joined(mut words: Vec<String>) -> String {
    words.sort_unstable();
    words.dedup();
    words.join("+")
}

impl Dimension {
    /// The dimension that a feature shows.
    pub fn of(feature: Feature) -> Dimension {
        feature.described().dimension
    }
}
