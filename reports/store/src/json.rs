//! Exact JSON text for columns: what is written reads back equal, or is refused before it is stored.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;

/// JSON of a value that reads back as the same value, to the last bit of each float.
pub(crate) fn exact<T: Serialize + DeserializeOwned + PartialEq>(
    what: &'static str,
    value: &T,
) -> Result<String, StoreError> {
    let refused = |detail: String| StoreError::NotExact { what, detail };
    let text = serde_json::to_string(value).map_err(|error| refused(error.to_string()))?;
    let read_back: T = serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    if read_back == *value { Ok(text) } else { Err(refused("it reads back changed".to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::exact;
    use std::collections::BTreeMap;

    #[test]
    fn odd_floats_keep_their_bits_and_non_numbers_are_refused() {
        for value in [0.1 + 0.2, f64::MIN_POSITIVE, 5e-324, f64::MAX, -0.0, 1.0 / 3.0, 199_999_999_999.999_97] {
            let text = exact("counter", &value).expect("a finite float");
            let back: f64 = serde_json::from_str(&text).expect("reads back");
            assert_eq!(back.to_bits(), value.to_bits(), "{text}");
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let counters = BTreeMap::from([("rx".to_owned(), value)]);
            assert!(exact("counter", &counters).is_err(), "{value}");
        }
    }
}
