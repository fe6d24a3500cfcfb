//! The bare question of rates: links with capacities, flows of jobs over them. Where those come from is elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::max_min::{self, FlowGroup};

/// Most flows and most links. Source: our choice.
const MOST: usize = 1 << 20;

/// How the flows of a job move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Solver {
    /// All flows of a job have one rate, as in a ring whose slowest link holds all others back.
    #[default]
    Lockstep,
    /// Each flow has its own rate.
    Independent,
}

/// A flow of a job over links; a link that it names twice counts twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProblemFlow {
    /// Number of its job, from 0.
    pub job: usize,
    /// Names of the links it crosses.
    pub links: Vec<String>,
}

/// Links, and flows over them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateProblem {
    /// What each link carries. Units: Gbit/s.
    #[serde(deserialize_with = "each_once")]
    pub capacity_gbps: BTreeMap<String, f64>,
    /// The flows.
    pub flows: Vec<ProblemFlow>,
    /// The most that a job can get; none if it is absent. Units: Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_gbps: Option<f64>,
    /// Flows of a connection: a job gets this many times its slowest flow.
    #[serde(default = "one")]
    pub qps_per_connection: u32,
    /// How the flows of a job move.
    #[serde(default)]
    pub solver: Solver,
}

/// A map whose keys are named once: of two values for a link, nobody knows which was meant.
fn each_once<'de, D: Deserializer<'de>>(input: D) -> Result<BTreeMap<String, f64>, D::Error> {
    struct Links;

    impl<'de> Visitor<'de> for Links {
        type Value = BTreeMap<String, f64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from links to Gbit/s")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut links = BTreeMap::new();
            while let Some((link, gbps)) = map.next_entry::<String, f64>()? {
                let name: String = link.chars().filter(|letter| !letter.is_control()).take(40).collect();
                if links.insert(link, gbps).is_some() {
                    return Err(A::Error::custom(format!("link `{name}` is named twice")));
                }
            }
            Ok(links)
        }
    }

    input.deserialize_map(Links)
}

fn one() -> u32 {
    1
}

/// Rates of jobs and flows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowRates {
    /// Per job. Units: Gbit/s.
    pub busbw_gbps: Vec<f64>,
    /// Per flow. Units: Gbit/s.
    pub rate_gbps: Vec<f64>,
}

/// Why a problem has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {rule}")]
pub struct ProblemError {
    /// Key path, such as `flows[3].links[0]`.
    pub key: String,
    /// The rule.
    pub rule: String,
}

impl RateProblem {
    /// Solves it. The cap holds for jobs and leaves the rates of flows as they are; a flow without links has the rate
    /// that the cap leaves it.
    ///
    /// # Errors
    /// Names the key that breaks a rule.
    pub fn solve(&self) -> Result<FlowRates, ProblemError> {
        self.check()?;
        let names: BTreeMap<&str, usize> =
            self.capacity_gbps.keys().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let capacity: Vec<f64> = self.capacity_gbps.values().copied().collect();
        let flows: Vec<(usize, Vec<usize>)> = (self.flows.iter())
            .map(|flow| (flow.job, flow.links.iter().map(|link| names[link.as_str()]).collect()))
            .collect();
        let qps = f64::from(self.qps_per_connection);
        let cap = self.cap_gbps.unwrap_or(f64::INFINITY);
        let limitless = |rate: f64| if rate.is_finite() { rate } else { cap / qps };
        let rate_gbps: Vec<f64> = solve(&capacity, &flows, self.solver).into_iter().map(limitless).collect();
        let jobs = self.flows.iter().map(|flow| flow.job + 1).max().unwrap_or(0);
        let mut slowest = vec![f64::INFINITY; jobs];
        for (flow, rate) in self.flows.iter().zip(&rate_gbps) {
            slowest[flow.job] = slowest[flow.job].min(*rate);
        }
        Ok(FlowRates { busbw_gbps: slowest.into_iter().map(|rate| cap.min(qps * rate)).collect(), rate_gbps })
    }

    fn check(&self) -> Result<(), ProblemError> {
        let refuse = |key: String, rule: String| Err(ProblemError { key, rule });
        if self.capacity_gbps.len() > MOST || self.flows.len() > MOST || self.flows.is_empty() {
            return refuse("flows".to_owned(), format!("write 1 to {MOST} flows and at most as many links"));
        }
        for (link, capacity) in &self.capacity_gbps {
            if !(0.0..=1e9).contains(capacity) {
                return refuse(format!("capacity_gbps.{link}"), "write Gbit/s from 0 to 1e9".to_owned());
            }
        }
        if self.cap_gbps.is_some_and(|cap| !(cap > 0.0 && cap <= 1e9)) {
            return refuse("cap_gbps".to_owned(), "write Gbit/s above 0, at most 1e9".to_owned());
        }
        if !(1..=1_000_000).contains(&self.qps_per_connection) {
            return refuse("qps_per_connection".to_owned(), "write 1 to 1000000".to_owned());
        }
        // Numbers without a flow would be jobs without a rate.
        let jobs: std::collections::BTreeSet<usize> = self.flows.iter().map(|flow| flow.job).collect();
        for (place, flow) in self.flows.iter().enumerate() {
            if flow.job >= jobs.len() {
                let rule = format!("{} jobs have flows; number them from 0 without gaps", jobs.len());
                return refuse(format!("flows[{place}].job"), rule);
            }
            if let Some(nth) = flow.links.iter().position(|link| !self.capacity_gbps.contains_key(link)) {
                let link: String = flow.links[nth].chars().take(40).collect();
                let rule = format!("no link `{link}`; name it under `capacity_gbps`");
                return refuse(format!("flows[{place}].links[{nth}]"), rule);
            }
            if flow.links.is_empty() && self.cap_gbps.is_none() {
                return refuse(format!("flows[{place}].links"), "a flow without links needs `cap_gbps`".to_owned());
            }
        }
        Ok(())
    }
}

/// The rate of each flow, given by its job and the places of its links; infinite without links.
pub fn solve(capacity: &[f64], flows: &[(usize, Vec<usize>)], solver: Solver) -> Vec<f64> {
    let mut counts: Vec<BTreeMap<usize, f64>> = Vec::new();
    let group_of = |flow: usize| if solver == Solver::Lockstep { flows[flow].0 } else { flow };
    for (place, (_, links)) in flows.iter().enumerate() {
        let group = group_of(place);
        counts.resize_with(counts.len().max(group + 1), BTreeMap::new);
        for link in links {
            *counts[group].entry(*link).or_default() += 1.0;
        }
    }
    let groups: Vec<FlowGroup> = counts.into_iter().map(|on| on.into_iter().collect()).collect();
    let rates = max_min::rates(capacity, &groups);
    // A flow in lockstep that crosses nothing waits for the others of its job all the same.
    (0..flows.len()).map(|flow| rates[group_of(flow)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(solver: Solver) -> RateProblem {
        let flow = |job, links: &[&str]| ProblemFlow { job, links: links.iter().map(ToString::to_string).collect() };
        RateProblem {
            capacity_gbps: [("x".to_owned(), 200.0), ("y".to_owned(), 100.0)].into(),
            flows: vec![flow(0, &["x"]), flow(0, &["y"]), flow(1, &["x"]), flow(1, &["y"])],
            cap_gbps: Some(90.0),
            qps_per_connection: 2,
            solver,
        }
    }

    #[test]
    fn in_lockstep_a_job_leaves_what_its_slowest_flow_cannot_use() {
        let independent = problem(Solver::Independent).solve().expect("valid");
        assert_eq!(independent.rate_gbps, [100.0, 50.0, 100.0, 50.0]);
        let lockstep = problem(Solver::Lockstep).solve().expect("valid");
        assert_eq!(lockstep.rate_gbps, [50.0; 4]);
        assert_eq!((independent.busbw_gbps, lockstep.busbw_gbps), (vec![90.0; 2], vec![90.0; 2]));
    }

    #[test]
    fn mistakes_are_named() {
        let mut wrong = problem(Solver::Lockstep);
        wrong.flows[2].links[0] = "z".to_owned();
        assert!(wrong.solve().expect_err("no such link").to_string().starts_with("flows[2].links[0]: no link `z`"));
        let twice = r#"{"capacity_gbps": {"a": 1, "b": 2, "a": 3}, "flows": []}"#;
        let error = serde_json::from_str::<RateProblem>(twice).expect_err("two values").to_string();
        assert!(error.starts_with("link `a` is named twice"), "{error}");
        let mut wrong = problem(Solver::Lockstep);
        wrong.flows[3].job = 7;
        assert!(wrong.solve().expect_err("a gap").to_string().starts_with("flows[3].job: 3 jobs"));
    }
}
