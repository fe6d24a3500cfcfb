//! The physical parameters that a fit may change, over a base: their values, and how far they may go. Which they are is
//! said in the table of `kelpie_sim::parameters`.

pub use kelpie_sim::parameters::Parameter;

use kelpie_sim::SimSubsystem;
use kelpie_sim::parameters::Fitted;
use serde::{Serialize, Serializer};

use crate::CalibrationError;

/// Factors of the base's value between which values are looked for. Source: our choice, because generations of NICs
/// differ by two, and a base of another generation should do.
pub const FACTORS: [f64; 2] = [0.2, 5.0];

/// Finds parameters by their paths; all if none is named.
///
/// # Errors
/// Names the first path that is no parameter.
pub fn named(paths: &[String]) -> Result<Vec<Parameter>, CalibrationError> {
    let fitted = Parameter::fitted();
    if let Some(unknown) = paths.iter().find(|path| fitted.iter().all(|known| known.path() != path.as_str())) {
        let known = fitted.iter().map(|parameter| parameter.path()).collect::<Vec<_>>().join(", ");
        return Err(CalibrationError::NoParameter { path: unknown.chars().take(100).collect(), known });
    }
    let is_asked = |parameter: &Parameter| paths.is_empty() || paths.iter().any(|path| path == parameter.path());
    Ok(fitted.into_iter().filter(is_asked).collect())
}

/// Writes what the table says of a parameter.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn described<S: Serializer>(parameter: &Parameter, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct DescribedParameter {
        path: &'static str,
        phrase: &'static str,
        unit: &'static str,
        along: Vec<Parameter>,
        is_count: bool,
    }
    let row = parameter.row();
    let phrase = match row.fitted {
        Fitted::Yes { phrase, .. } => phrase,
        Fitted::Along(_) | Fitted::No(_) => "",
    };
    let (path, unit, is_count) = (row.path, row.unit, row.domain.is_whole());
    DescribedParameter { path, phrase, unit, along: parameter.along(), is_count }.serialize(serializer)
}

/// A parameter with what a base says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Based {
    /// The parameter.
    pub parameter: Parameter,
    /// Whether it is a count.
    pub is_count: bool,
    /// The base's value.
    pub base: f64,
    along: Vec<(&'static str, f64)>,
}

impl Based {
    /// The parameter over a base.
    pub fn over(parameter: Parameter, base: &SimSubsystem) -> Self {
        let number = |parameter: Parameter| {
            base.number(parameter.path()).expect("every model has all parameters, which a test checks")
        };
        let along = parameter.along().into_iter().map(|other| (other.path(), number(other))).collect();
        Self { parameter, is_count: parameter.row().domain.is_whole(), base: number(parameter), along }
    }

    /// The base's value times e to `log`, as a model takes it.
    pub fn value(&self, log: f64) -> f64 {
        let value = self.base * log.exp();
        if self.is_count { value.round().max(1.0) } else { value }
    }

    /// The logarithm of the value that a model takes.
    pub fn snapped(&self, log: f64) -> f64 {
        (self.value(log) / self.base).ln()
    }

    /// Paths and numbers of a model in which the parameter has this value.
    pub fn settings(&self, value: f64) -> impl Iterator<Item = (&'static str, f64)> {
        let along = self.along.iter().map(move |(path, number)| (*path, number * value / self.base));
        std::iter::once((self.parameter.path(), value)).chain(along)
    }
}

/// Four figures, more than any measurement has.
pub fn rounded(value: f64) -> f64 {
    if value.fract() == 0.0 {
        return value;
    }
    let scale = 10f64.powf(3.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_has_each_and_takes_it_at_both_ends_of_its_range() {
        for name in SimSubsystem::names() {
            let model = SimSubsystem::load(name).expect("embedded");
            for parameter in Parameter::fitted() {
                let based = Based::over(parameter, &model);
                assert!(based.base > 0.0, "{name} {parameter}");
                for factor in FACTORS {
                    let settings: Vec<(&str, f64)> = based.settings(based.value(factor.ln())).collect();
                    assert!(model.clone().set_numbers(&settings).is_ok(), "{name} {parameter} {factor}");
                }
            }
        }
    }

    #[test]
    fn names_choose_and_unknown_ones_are_refused() {
        assert_eq!(named(&[]).expect("all"), Parameter::fitted());
        let two = ["receive.xoff_kib", "pcie.gbps"].map(str::to_owned);
        let paths: Vec<&str> = named(&two).expect("two").iter().map(|parameter| parameter.path()).collect();
        assert_eq!(paths, ["pcie.gbps", "receive.xoff_kib"]);
        let error = named(&["pcie.gpbs".to_owned()]).expect_err("a typing mistake").to_string();
        assert!(error.contains("pcie.gpbs") && error.contains("pcie.gbps"), "{error}");
    }

    #[test]
    fn counts_are_whole_and_thresholds_keep_their_ratio() {
        let model = SimSubsystem::load("F").expect("embedded");
        let reads = Based::over(Parameter::MaxReads, &model);
        let counts = [0.7, 1e-9].map(|factor: f64| reads.value(factor.ln()) as u32);
        assert_eq!(counts, [11, 1]);
        let xoff: Vec<(&str, f64)> = Based::over(Parameter::Xoff, &model).settings(96.0).collect();
        assert_eq!(xoff, [("receive.xoff_kib", 96.0), ("receive.xon_kib", 64.0), ("receive.capacity_kib", 256.0)]);
    }
}
