//! How likely an incident of each node is soon, by the best model that its fleet's past is long enough for, and the
//! checks that are worth their time because of it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cox::Cox;
use crate::hazard::{CumulativeHazard, Gap, probability};
use crate::history::History;
use crate::problem::{Problem, Selection};
use crate::status::{Fleet, Past};

/// Incidents for each covariate from which on it is fitted. Source: Peduzzi et al. 1995.
const INCIDENTS_PER_COVARIATE: usize = 10;
/// Covariates without those of categories, and of each category.
const COVARIATES: usize = 4;
const OF_CATEGORY: usize = 2;
/// Incidents that may have been to come with 5 % of chance where none came. Source: the rule of three.
const RULE_OF_THREE: f64 = 3.0;

/// What an outlook comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Nobody was observed.
    None,
    /// No incident came: the most that may have been to come.
    RuleOfThree,
    /// The hazard of the fleet by the hours since the last incident.
    NelsonAalen,
    /// The hazard of the fleet, times what the status of a node makes of it.
    Cox,
}

/// What is expected of nodes.
#[derive(Debug, Clone)]
pub struct Outlook<'h> {
    fleet: &'h Fleet,
    fitted: Fitted,
}

#[derive(Debug, Clone)]
enum Fitted {
    None,
    Constant(f64),
    NelsonAalen(CumulativeHazard),
    Cox { model: Cox, categories: usize },
}

impl<'h> Outlook<'h> {
    /// Takes the best model that the incidents are enough for. A model that is fitted to what came within some hours
    /// need not hold for longer.
    pub fn new(fleet: &'h Fleet, hours: f64) -> Self {
        let incidents = fleet.incidents();
        let categories = [fleet.categories(), 0]
            .into_iter()
            .find(|count| incidents >= INCIDENTS_PER_COVARIATE * (COVARIATES + OF_CATEGORY * count));
        let model = categories.and_then(|categories| Some((Cox::fit(&fleet.samples(hours, categories))?, categories)));
        let fitted = match model {
            Some((model, categories)) => Fitted::Cox { model, categories },
            None if incidents > 0 => {
                Fitted::NelsonAalen(CumulativeHazard::nelson_aalen(&fleet.gaps().collect::<Vec<Gap>>()))
            }
            None if fleet.up() > 0.0 => Fitted::Constant(RULE_OF_THREE / fleet.up()),
            None => Fitted::None,
        };
        Self { fleet, fitted }
    }

    /// What it comes from.
    pub const fn model(&self) -> Model {
        match self.fitted {
            Fitted::None => Model::None,
            Fitted::Constant(_) => Model::RuleOfThree,
            Fitted::NelsonAalen(_) => Model::NelsonAalen,
            Fitted::Cox { .. } => Model::Cox,
        }
    }

    /// How likely an incident is within some hours, of a node with this past. `None` if nothing is known.
    pub fn probability(&self, past: &Past, hours: f64) -> Option<f64> {
        match &self.fitted {
            Fitted::None => None,
            Fitted::Constant(rate) => Some(probability(rate * hours)),
            Fitted::NelsonAalen(hazard) => Some(hazard.incident_within(past.since(), hours)),
            Fitted::Cox { model, categories } => {
                Some(model.incident_within(&self.fleet.status(past, past.up, *categories), hours))
            }
        }
    }
}

/// Which checks of which nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Choice {
    /// The checks, and what remains.
    #[serde(flatten)]
    pub selection: Selection,
    /// On which nodes the checks run, which is at the same time: the likeliest to have an incident first.
    pub nodes: Vec<String>,
    /// By node, how likely an incident is without a check; none where nothing is known of the node.
    pub probabilities: BTreeMap<String, Option<f64>>,
    /// The probability of an incident that remains if the incident of each node is missed on its own. Algorithm 1
    /// counts one incident of all nodes, which says less.
    pub residual_by_node: f64,
    /// What the probabilities come from.
    pub model: Model,
    /// Incidents that this was learnt from.
    pub incidents: usize,
}

impl History {
    /// Selects checks for nodes, all if none is named, so that an incident within some hours is no likelier than the
    /// target. A node of which nothing is known has all checks made.
    pub fn select(&self, target: f64, hours: f64, nodes: &[String]) -> Choice {
        self.select_within(f64::INFINITY, target, hours, nodes)
    }

    /// The same, of the checks that take so many minutes at most, all together.
    pub fn select_within(&self, most: f64, target: f64, hours: f64, nodes: &[String]) -> Choice {
        let outlook = Outlook::new(&self.fleet, hours);
        let all = self.fleet.nodes();
        let names: Vec<&String> = if nodes.is_empty() { all.keys().collect() } else { nodes.iter().collect() };
        let of = |name: &String| all.get(name).and_then(|past| outlook.probability(past, hours));
        let probabilities: BTreeMap<String, Option<f64>> =
            names.into_iter().map(|name| (name.clone(), of(name))).collect();
        let is_known = !probabilities.is_empty() && probabilities.values().all(Option::is_some);
        let p: Vec<f64> = probabilities.values().map(|p| p.unwrap_or(1.0)).collect();
        let p = if p.is_empty() { vec![1.0] } else { p };
        let found = if is_known { self.found.clone() } else { BTreeMap::new() };
        let selection = Problem { p: p.clone(), p0: target, minutes: self.minutes.clone(), found }.select_within(most);
        let missed = if selection.probability > 0.0 { selection.subset.residual / selection.probability } else { 0.0 };
        let residual_by_node = 1.0 - p.iter().map(|p| 1.0 - p * missed).product::<f64>();
        let mut nodes: Vec<String> = probabilities.keys().cloned().collect();
        let rank = |node: &String| probabilities[node].unwrap_or(1.0);
        nodes.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
        if selection.subset.selected.is_empty() {
            nodes.clear();
        }
        let (model, incidents) = (outlook.model(), self.fleet.incidents());
        Choice { selection, nodes, probabilities, residual_by_node, model, incidents }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes that are observed for 1,000 h, and their incidents.
    fn fleet(nodes: &[&[f64]]) -> Fleet {
        let past = |(nth, times): (usize, &&[f64])| {
            (format!("n{nth:03}"), Past { incidents: times.iter().map(|time| (*time, 0)).collect(), up: 1000.0 })
        };
        Fleet::new(nodes.iter().enumerate().map(past).collect(), 1)
    }

    #[test]
    fn the_model_is_the_best_that_incidents_are_enough_for() {
        let model = |fleet: &Fleet| Outlook::new(fleet, 24.0).model();
        assert_eq!(model(&Fleet::new(BTreeMap::new(), 0)), Model::None);
        let quiet = fleet(&[&[], &[], &[]]);
        assert_eq!(model(&quiet), Model::RuleOfThree);
        // At most 3 incidents in 3,000 h: 1 - exp(-24 / 1,000) within 24 h.
        let p = Outlook::new(&quiet, 24.0).probability(&quiet.nodes()["n000"], 24.0).expect("it was observed");
        assert!((p - 0.023_714_290).abs() < 1e-9, "{p}");
        assert_eq!(model(&fleet(&[&[10.0], &[500.0], &[]])), Model::NelsonAalen);
        let often: &[f64] = &[100.0, 200.0, 300.0, 400.0];
        assert_eq!(model(&fleet(&[often; 10])), Model::Cox);
    }

    #[test]
    fn a_node_that_had_many_incidents_is_likelier_to_have_one_and_the_unit_of_time_does_not_count() {
        let often: Vec<f64> = (1..20).map(|nth| f64::from(nth) * 50.0).collect();
        let mut nodes: Vec<&[f64]> = vec![&[400.0]; 40];
        nodes[3] = &often;
        nodes[7] = &often;
        let fleet = fleet(&nodes);
        let p = |fleet: &Fleet, unit: f64, node: &str| {
            Outlook::new(fleet, 24.0 * unit).probability(&fleet.nodes()[node], 24.0 * unit).expect("it was observed")
        };
        assert!(p(&fleet, 1.0, "n003") > 5.0 * p(&fleet, 1.0, "n000"));
        let minutes = |past: &Past| Past {
            incidents: past.incidents.iter().map(|(time, category)| (time * 60.0, *category)).collect(),
            up: past.up * 60.0,
        };
        let scaled = Fleet::new(fleet.nodes().iter().map(|(node, past)| (node.clone(), minutes(past))).collect(), 1);
        assert!((p(&scaled, 60.0, "n003") - p(&fleet, 1.0, "n003")).abs() < 1e-6);
    }

    #[test]
    fn incidents_of_nodes_are_missed_on_their_own() {
        let text = r#"{"kind": "check", "check": "a", "minutes": 1}
            {"kind": "found", "check": "a", "defect": 1}"#;
        let mut history = History::from_lines("h", text.as_bytes()).expect("a history");
        history.minutes.insert("b".to_owned(), 1e6);
        history.found.insert("b".to_owned(), vec![1.into(), 2.into()]);
        history.fleet = fleet(&[&[10.0, 300.0], &[500.0, 700.0], &[100.0]]);
        let choice = history.select(0.6, 900.0, &[]);
        // Half of the defects are found: 1 - prod(1 - p / 2), and not p / 2.
        let each: f64 = choice.probabilities.values().map(|p| 1.0 - p.expect("known") / 2.0).product();
        assert_eq!(choice.selection.subset.selected, ["a"]);
        assert!((choice.residual_by_node - (1.0 - each)).abs() < 1e-12);
        assert!(choice.residual_by_node > choice.selection.subset.residual);
    }
}
