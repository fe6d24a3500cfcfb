//! Criteria, learnt from results and held against others.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::medoid::medoid;
use crate::results::{Better, Direction, MetricResults, Results};
use crate::similarity::{Norm, one_sided, similarity};

/// Rounds of learning at most. Source: our choice; that it ends by itself is not proved.
const MOST_ROUNDS: usize = 100;
/// What sums of floating-point numbers may be off by.
const EPSILON: f64 = 1e-12;

/// How criteria are learnt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnOptions {
    /// What is no more alike than this is defective.
    pub alpha: f64,
    /// What distances are divided by.
    pub norm: Norm,
    /// By metric, what its typical value must reach, whatever most nodes measure.
    pub floors: BTreeMap<String, f64>,
    /// By metric, another alpha: latencies of healthy nodes differ more than their throughput.
    pub alphas: BTreeMap<String, f64>,
}

impl Default for LearnOptions {
    /// Source: SuperBench, section 3.4, for alpha.
    fn default() -> Self {
        Self { alpha: 0.95, norm: Norm::default(), floors: BTreeMap::new(), alphas: BTreeMap::new() }
    }
}

/// What a healthy node measures of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// Values of the node that is most like all healthy ones, in ascending order.
    pub criterion: Vec<f64>,
    /// Nodes that were unlike it when it was learnt.
    #[serde(default)]
    pub defects: Vec<String>,
    /// How alike any two healthy nodes are, on average.
    pub repeatability: f64,
    /// What is no more alike than this is defective.
    pub alpha: f64,
    /// What distances were divided by.
    #[serde(default)]
    pub norm: Norm,
    /// What the typical value must reach, whatever most nodes measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
    /// Unit and direction.
    #[serde(flatten)]
    pub direction: Direction,
}

/// Criteria by metric.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Criteria {
    /// By name.
    pub metrics: BTreeMap<String, Criterion>,
}

/// What learning found besides.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Learned {
    /// The criteria.
    pub criteria: Criteria,
    /// Metrics whose rounds did not come to an end; their last one counts.
    pub unsettled: Vec<String>,
}

/// Why nothing is learnt.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// Most nodes are below the floor, and what most measure would be the criterion.
    #[error(
        "{metric}: {below} of {nodes} nodes are below the floor of {floor}, and the majority is what is learnt: repair \
         these nodes first, or lower the floor"
    )]
    BelowFloor {
        /// The metric.
        metric: String,
        /// Nodes below.
        below: usize,
        /// All nodes with the metric.
        nodes: usize,
        /// The floor.
        floor: f64,
    },
    /// Floors of metrics that nobody measured.
    #[error("floors of metrics that the results have not: {0}")]
    UnknownFloors(String),
    /// It is no share.
    #[error("alpha is {0}; write a number above 0 and below 1")]
    Alpha(f64),
}

impl Criteria {
    /// Learns criteria of all metrics, on all cores.
    ///
    /// Source: SuperBench, algorithm 2, with its end evaluated again, because its last set of defects is that of the
    /// criterion before.
    ///
    /// # Errors
    /// Most nodes are below a floor, or an option breaks a rule.
    pub fn learn(results: &Results, options: &LearnOptions) -> Result<Learned, LearnError> {
        let mut alphas = options.alphas.values().chain([&options.alpha]);
        if let Some(alpha) = alphas.find(|alpha| !(**alpha > 0.0 && **alpha < 1.0)) {
            return Err(LearnError::Alpha(*alpha));
        }
        let known: BTreeSet<&str> = results.metrics.iter().map(|(name, _)| name.as_str()).collect();
        let unknown: Vec<&str> =
            options.floors.keys().map(String::as_str).filter(|name| !known.contains(name)).collect();
        if !unknown.is_empty() {
            return Err(LearnError::UnknownFloors(unknown.join(", ")));
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let share = results.metrics.len().div_ceil(cores).max(1);
        let one = |(name, metric): &(String, MetricResults)| {
            learn_one(name, metric, results, options)
                .map(|(criterion, is_settled)| (name.clone(), criterion, is_settled))
        };
        let all: Vec<Result<(String, Criterion, bool), LearnError>> = std::thread::scope(|scope| {
            let parts: Vec<_> = results
                .metrics
                .chunks(share)
                .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
                .collect();
            parts.into_iter().flat_map(|part| part.join().expect("learning does not panic")).collect()
        });
        let mut learned = Learned::default();
        for one in all {
            let (name, criterion, is_settled) = one?;
            if !is_settled {
                learned.unsettled.push(name.clone());
            }
            learned.criteria.metrics.insert(name, criterion);
        }
        Ok(learned)
    }
}

impl Criteria {
    /// Reads what `learn` wrote.
    ///
    /// # Errors
    /// What breaks a rule, with the metric.
    pub fn from_json(bytes: &[u8]) -> Result<Self, CriteriaError> {
        let criteria: Self = serde_json::from_slice(bytes)?;
        for (name, criterion) in &criteria.metrics {
            let values = &criterion.criterion;
            let is_sound = |value: &f64| value.is_finite() && *value >= 0.0;
            let rule = if values.is_empty() || !values.iter().all(is_sound) || !values.is_sorted() {
                "criterion: write values from 0 in ascending order"
            } else if !(criterion.alpha > 0.0 && criterion.alpha < 1.0) {
                "alpha: write a number above 0 and below 1"
            } else {
                continue;
            };
            return Err(CriteriaError::Rule { metric: name.clone(), rule });
        }
        if criteria.metrics.is_empty() {
            return Err(CriteriaError::Empty);
        }
        Ok(criteria)
    }
}

/// Why criteria were refused.
#[derive(Debug, thiserror::Error)]
pub enum CriteriaError {
    /// It is no such JSON.
    #[error("no criteria as `kelpie qualify learn` writes them")]
    Json(#[from] serde_json::Error),
    /// A metric breaks a rule.
    #[error("{metric}: {rule}")]
    Rule {
        /// The metric.
        metric: String,
        /// What is wrong.
        rule: &'static str,
    },
    /// There is no metric in it.
    #[error("no metric in it; `kelpie qualify learn` writes criteria")]
    Empty,
}

/// The value that the floor is held against.
fn median(values: &[f64]) -> f64 {
    let upper = values[values.len() / 2];
    f64::midpoint(upper, values[(values.len() - 1) / 2])
}

pub(crate) fn is_below(values: &[f64], floor: f64, better: Better) -> bool {
    match better {
        Better::Higher => median(values) < floor,
        Better::Lower => median(values) > floor,
    }
}

fn learn_one(
    name: &str,
    metric: &MetricResults,
    results: &Results,
    options: &LearnOptions,
) -> Result<(Criterion, bool), LearnError> {
    let nodes: Vec<(u32, &[f64])> = metric.nodes().collect();
    let floor = options.floors.get(name).copied();
    let alpha = options.alphas.get(name).copied().unwrap_or(options.alpha);
    let below = |values: &[f64]| floor.is_some_and(|floor| is_below(values, floor, metric.direction.better));
    if let Some(floor) = floor {
        let below = nodes.iter().filter(|(_, values)| below(values)).count();
        if 2 * below > nodes.len() {
            return Err(LearnError::BelowFloor { metric: name.to_owned(), below, nodes: nodes.len(), floor });
        }
    }
    let mut healthy: Vec<usize> = (0..nodes.len()).filter(|node| !below(nodes[*node].1)).collect();
    let (mut criterion, mut repeatability) = (healthy[0], 1.0);
    let mut is_settled = false;
    for _ in 0..MOST_ROUNDS {
        let samples: Vec<&[f64]> = healthy.iter().map(|node| nodes[*node].1).collect();
        let found = medoid(&samples, options.norm).expect("the criterion is like itself");
        (criterion, repeatability) = (healthy[found.place], found.repeatability);
        let is_alike = |node: &usize| {
            !below(nodes[*node].1) && similarity(nodes[criterion].1, nodes[*node].1, options.norm) > alpha + EPSILON
        };
        let now: Vec<usize> = (0..nodes.len()).filter(is_alike).collect();
        is_settled = now == healthy;
        healthy = now;
        if is_settled {
            break;
        }
    }
    let mut is_healthy = vec![false; nodes.len()];
    for node in healthy {
        is_healthy[node] = true;
    }
    let defects = (0..nodes.len()).filter(|node| !is_healthy[*node]);
    let defects = defects.map(|node| results.nodes[nodes[node].0 as usize].clone()).collect();
    let criterion = Criterion {
        criterion: nodes[criterion].1.to_vec(),
        defects,
        repeatability,
        alpha,
        norm: options.norm,
        floor,
        direction: metric.direction.clone(),
    };
    Ok((criterion, is_settled))
}

/// Whether a node may take jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeState {
    /// All metrics are as good as their criteria.
    Pass,
    /// One is not.
    Fail,
    /// None is worse, and some are missing.
    Unknown,
}

/// A metric of which a node measures less than it should.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedMetric {
    /// Its name.
    pub metric: String,
    /// How good it is against the criterion, from 0 to 1.
    pub similarity: f64,
    /// The node's typical value.
    pub observed: f64,
    /// The criterion's.
    pub criterion: f64,
    /// What both are measured in.
    pub unit: String,
}

/// What is said of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeVerdict {
    /// Whether it may take jobs.
    pub state: NodeState,
    /// What it fails in, the worst first.
    pub failed: Vec<FailedMetric>,
    /// Metrics of which it has no result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The least that a metric which passes is above its limit by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
}

/// What is said of all nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Verdicts {
    /// By name.
    pub nodes: BTreeMap<String, NodeVerdict>,
    /// Metrics of the results for which there is no criterion: nothing is said of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_criterion: Vec<String>,
}

impl Criteria {
    /// Holds results against the criteria, one-sided: what is better passes.
    ///
    /// Source: SuperBench, equation 4.
    pub fn judge(&self, results: &Results) -> Verdicts {
        let mut verdicts: Vec<NodeVerdict> = (results.nodes.iter())
            .map(|_| NodeVerdict { state: NodeState::Pass, failed: Vec::new(), missing: Vec::new(), margin: None })
            .collect();
        let by_name: BTreeMap<&str, &MetricResults> =
            results.metrics.iter().map(|(name, metric)| (name.as_str(), metric)).collect();
        for (name, criterion) in &self.metrics {
            let mut is_there = vec![false; results.nodes.len()];
            for (node, values) in by_name.get(name.as_str()).into_iter().flat_map(|metric| metric.nodes()) {
                is_there[node as usize] = true;
                let (alike, is_failed) = criterion.judge(values);
                let verdict = &mut verdicts[node as usize];
                if is_failed {
                    verdict.failed.push(FailedMetric {
                        metric: name.clone(),
                        similarity: alike,
                        observed: median(values),
                        criterion: median(&criterion.criterion),
                        unit: criterion.direction.unit.clone(),
                    });
                } else {
                    let margin = alike - criterion.alpha;
                    verdict.margin = Some(verdict.margin.map_or(margin, |least| least.min(margin)));
                }
            }
            for (verdict, _) in verdicts.iter_mut().zip(is_there).filter(|(_, is_there)| !is_there) {
                verdict.missing.push(name.clone());
            }
        }
        for verdict in &mut verdicts {
            verdict.failed.sort_by(|one, other| one.similarity.total_cmp(&other.similarity));
            verdict.state = match (verdict.failed.is_empty(), verdict.missing.is_empty()) {
                (false, _) => NodeState::Fail,
                (true, true) => NodeState::Pass,
                (true, false) => NodeState::Unknown,
            };
        }
        let without = by_name.keys().filter(|name| !self.metrics.contains_key(**name));
        Verdicts {
            without_criterion: without.map(|name| (*name).to_owned()).collect(),
            nodes: results.nodes.iter().cloned().zip(verdicts).collect(),
        }
    }
}

impl Criterion {
    /// The value that is typical of it.
    pub fn typical(&self) -> f64 {
        median(&self.criterion)
    }

    /// How good values are, in ascending order, and whether they fail.
    pub(crate) fn judge(&self, values: &[f64]) -> (f64, bool) {
        let better = self.direction.better;
        let alike = one_sided(values, &self.criterion, self.norm, better);
        let is_below = self.floor.is_some_and(|floor| is_below(values, floor, better));
        (alike, is_below || alike <= self.alpha + EPSILON)
    }
}
