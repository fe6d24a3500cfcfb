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
    /// What the probabilities come from.
    pub model: Model,
    /// Incidents that this was learnt from.
    pub incidents: usize,
}

impl History {
    /// Selects checks for nodes, all if none is named, so that an incident within some hours is no likelier than the
    /// target. A node of which nothing is known has all checks made.
    pub fn select(&self, target: f64, hours: f64, nodes: &[String]) -> Choice {
        let outlook = Outlook::new(&self.fleet, hours);
        let all = self.fleet.nodes();
        let names: Vec<&String> = if nodes.is_empty() { all.keys().collect() } else { nodes.iter().collect() };
        let of = |name: &String| all.get(name).and_then(|past| outlook.probability(past, hours));
        let probabilities: BTreeMap<String, Option<f64>> =
            names.into_iter().map(|name| (name.clone(), of(name))).collect();
        let is_known = !probabilities.is_empty() && probabilities.values().all(Option::is_some);
        let p = if probabilities.is_empty() {
            vec![1.0]
        } else {
            probabilities.values().map(|p| p.unwrap_or(1.0)).collect()
        };
        let found = if is_known { self.found.clone() } else { BTreeMap::new() };
        let selection = Problem { p, p0: target, minutes: self.minutes.clone(), found }.select();
        let mut nodes: Vec<String> = probabilities.keys().cloned().collect();
        let rank = |node: &String| probabilities[node].unwrap_or(1.0);
        nodes.sort_by(|one, other| rank(other).total_cmp(&rank(one)));
        if selection.subset.selected.is_empty() {
            nodes.clear();
        }
        Choice { selection, nodes, probabilities, model: outlook.model(), incidents: self.fleet.incidents() }
    }
}
