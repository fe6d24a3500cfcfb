//! Many workloads as one number for each feature, so that many conditions can be tested on all of them in little time.

use std::collections::HashMap;

use kelpie_spaces::{Condition, Direction, Feature, FeatureValue, Workload, loaded_directions};

/// Workloads in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct FeatureCodes {
    /// The values of each feature that occur; a value's place is its number.
    values: [Vec<FeatureValue>; Feature::COUNT],
    numbers: [HashMap<FeatureValue, u32>; Feature::COUNT],
    /// The sets of loaded directions that occur.
    loads: Vec<Vec<Direction>>,
    rows: Vec<CodedWorkload>,
}

#[derive(Debug, Clone)]
struct CodedWorkload {
    features: [u32; Feature::COUNT],
    load: u32,
}

impl Default for FeatureCodes {
    fn default() -> Self {
        Self {
            values: std::array::from_fn(|_| Vec::new()),
            numbers: std::array::from_fn(|_| HashMap::new()),
            loads: Vec::new(),
            rows: Vec::new(),
        }
    }
}

impl FeatureCodes {
    pub(crate) fn of<'w>(workloads: impl IntoIterator<Item = &'w Workload>) -> Self {
        let mut codes = Self::default();
        workloads.into_iter().for_each(|workload| codes.push(workload));
        codes
    }

    pub(crate) fn push(&mut self, workload: &Workload) {
        let features = std::array::from_fn(|at| {
            let value = workload.feature(Feature::ALL[at]);
            if let Some(number) = self.numbers[at].get(&value) {
                return *number;
            }
            let number = self.values[at].len() as u32;
            self.values[at].push(value.clone());
            self.numbers[at].insert(value, number);
            number
        });
        let loaded = loaded_directions(workload);
        let load = self.loads.iter().position(|known| *known == loaded).unwrap_or_else(|| {
            self.loads.push(loaded);
            self.loads.len() - 1
        });
        self.rows.push(CodedWorkload { features, load: load as u32 });
    }

    /// Whether the workload of this place fulfils all conditions.
    pub(crate) fn fulfil<'c>(&self, conditions: impl IntoIterator<Item = &'c Condition>) -> impl Fn(usize) -> bool {
        let admitted: Vec<(usize, Vec<bool>)> = conditions
            .into_iter()
            .map(|condition| {
                let at = place(condition.feature);
                (at, self.values[at].iter().map(|value| condition.admits(value)).collect())
            })
            .collect();
        move |row| admitted.iter().all(|(at, admitted)| admitted[self.rows[row].features[*at] as usize])
    }

    /// In how many features the workload of this place differs from this one.
    pub(crate) fn differing(&self, workload: &Workload) -> impl Fn(usize) -> usize {
        let own: [Option<u32>; Feature::COUNT] =
            std::array::from_fn(|at| self.numbers[at].get(&workload.feature(Feature::ALL[at])).copied());
        move |row| self.rows[row].features.iter().zip(&own).filter(|(number, own)| Some(**number) != **own).count()
    }

    /// Whether the workload of this place loads the same directions as this one.
    pub(crate) fn loads_like(&self, workload: &Workload) -> impl Fn(usize) -> bool {
        let loaded = loaded_directions(workload);
        let own = self.loads.iter().position(|known| *known == loaded);
        move |row| Some(self.rows[row].load as usize) == own
    }
}

fn place(feature: Feature) -> usize {
    Feature::ALL.iter().position(|other| *other == feature).expect("all are there")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelpie_spaces::{Region, Space, Test};
    use rand::SeedableRng as _;
    use rand_pcg::Pcg64;

    #[test]
    fn the_numbers_say_what_the_workloads_do() {
        let space = Space::catalog("full").unwrap();
        let mut rng = Pcg64::seed_from_u64(15);
        let workloads: Vec<Workload> = (0..200).map(|_| space.sample(&mut rng)).collect();
        let codes = FeatureCodes::of(&workloads);
        for other in (0..50).map(|_| space.sample(&mut rng)).chain(workloads[..5].to_vec()) {
            let condition = |feature| Condition {
                feature,
                test: match other.feature(feature) {
                    FeatureValue::Number(number) => Test::Range { min: Some(number), max: None },
                    FeatureValue::Category(word) => Test::In(vec![word]),
                },
            };
            let region = Region { conditions: vec![condition(Feature::Qps), condition(Feature::QpType)] };
            let (inside, differing, alike) =
                (codes.fulfil(&region.conditions), codes.differing(&other), codes.loads_like(&other));
            for (at, workload) in workloads.iter().enumerate() {
                assert_eq!(inside(at), region.contains(workload));
                assert_eq!(differing(at), other.differing(workload).len());
                assert_eq!(alike(at), loaded_directions(&other) == loaded_directions(workload));
            }
        }
    }
}
