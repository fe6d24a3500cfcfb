//! Requests of connections as `paths/1`, for people and tests. What becomes of them lives in `planner`.

use std::collections::HashSet;

use kelpie_spaces::{DocumentError, counted, read_tagged};
use kelpie_topology::{Cluster, FabricPart};
use serde::{Deserialize, Serialize};

/// Most QPs of a file. Source: our choice, a ring of 10,000 GPUs with 8 QPs each and more.
const MAX_QPS: u64 = 1 << 20;
/// Most QPs of a connection. Source: our choice.
const MAX_QPS_OF_ONE: u64 = 4096;
/// Most steps of a file. Source: our choice.
const MAX_STEPS: usize = 1 << 16;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionEnd {
    /// Host, from 0.
    pub host: u32,
    /// NIC of the host, from 0.
    #[serde(default)]
    pub nic: u32,
}

/// A step of the history that the planner is to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PlanStep {
    /// A connection asks for QPs.
    Connect {
        /// A name to release it by.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// Where it begins.
        from: ConnectionEnd,
        /// Where it ends.
        to: ConnectionEnd,
        /// QPs.
        #[serde(deserialize_with = "counted::<_, 1, MAX_QPS_OF_ONE>")]
        qps: u32,
    },
    /// A connection is gone, with all its QPs.
    Release {
        /// Its name.
        name: String,
    },
    /// A part fails.
    Fail(FabricPart),
    /// A part works again.
    Repair(FabricPart),
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathsRequest {
    /// Steps in order.
    #[serde(with = "serde_yaml::with::singleton_map_recursive")]
    pub steps: Vec<PlanStep>,
}

impl PathsRequest {
    /// Tag of the format.
    pub const FORMAT: &'static str = "paths/1";

    /// Reads a request for a cluster.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake.
    pub fn from_yaml(file: &str, text: &str, cluster: &Cluster) -> Result<Self, DocumentError> {
        let (document, request) = read_tagged::<Self>(file, text, Self::FORMAT)?;
        if request.steps.is_empty() || request.steps.len() > MAX_STEPS {
            return Err(document.refuse("steps", &format!("write 1 to {MAX_STEPS} steps")));
        }
        let broken = broken_rules(&request.steps, cluster).into_iter();
        document.refuse_all(broken.map(|(place, rule)| (format!("steps[{place}]"), rule)))?;
        Ok(request)
    }
}

/// Every step that breaks a rule, by its place, with the rule.
fn broken_rules(steps: &[PlanStep], cluster: &Cluster) -> Vec<(usize, String)> {
    let mut broken = Vec::new();
    let mut qps_in_all = 0_u64;
    let mut open: HashSet<&str> = HashSet::new();
    for (place, step) in steps.iter().enumerate() {
        let mut refuse = |rule: String| broken.push((place, rule));
        match step {
            PlanStep::Connect { name, from, to, qps } => {
                let known = |end: &ConnectionEnd| end.host < cluster.hosts && end.nic < cluster.nics_per_host;
                if !known(from) || !known(to) {
                    refuse(format!("no such NIC: {} hosts of {} NICs, from 0", cluster.hosts, cluster.nics_per_host));
                } else if from == to {
                    refuse("it begins and ends at one NIC, so it takes no path".to_owned());
                }
                let before = qps_in_all;
                qps_in_all += u64::from(*qps);
                if !(1..=MAX_QPS_OF_ONE).contains(&u64::from(*qps)) {
                    refuse(format!("write 1 to {MAX_QPS_OF_ONE} QPs"));
                } else if before <= MAX_QPS && qps_in_all > MAX_QPS {
                    refuse(format!("more than {MAX_QPS} QPs in all"));
                }
                if !name.is_empty() && !open.insert(name) {
                    refuse("a connection of this name is there already".to_owned());
                }
            }
            PlanStep::Release { name } if open.remove(name.as_str()) => {}
            PlanStep::Release { .. } => refuse("no connection of this name is there".to_owned()),
            PlanStep::Fail(part) | PlanStep::Repair(part) => cluster.unknown(*part).into_iter().for_each(refuse),
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_of_form_have_no_word_of_rust() {
        let cluster = "kelpie: topology/1\ncluster:\n  hosts: 4\n  nics_per_host: 2\n  port_gbps: 200\n  nic_gbps: 362\n  \
                       leaves: 4\n  spines: 2\n  cables: 2\n  cable_gbps: 200\n";
        let cluster = Cluster::from_yaml("c.yaml", cluster).expect("it keeps the rules");
        for (step, expected) in [
            ("fail: {leaf: x}", "a part has the keys host, nic and port (left or right), or leaf, spine"),
            ("fail:", "steps[0].fail: a value is missing: a part has the keys host, nic and port"),
            ("1", "`1` is not one of connect, release, fail, repair"),
            ("connect", "`connect` needs a value; write `: ` and the value behind it"),
            ("brake: {}", "unknown word `brake`; write one of connect, release, fail, repair"),
            ("connect: {from: {host: 0}, to: {host: 2}, qps: -1}", "`-1` is not a whole number from 1 to 4096"),
        ] {
            let text = format!("kelpie: paths/1\nsteps:\n  - {step}\n");
            let error = PathsRequest::from_yaml("r.yaml", &text, &cluster).expect_err(step).to_string();
            assert!(error.starts_with("r.yaml:3:") && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn all_mistakes_are_said_at_once() {
        let cluster = "kelpie: topology/1\ncluster:\n  hosts: 4\n  nics_per_host: 2\n  port_gbps: 200\n  nic_gbps: 362\n  \
                       leaves: 4\n  spines: 2\n  cables: 2\n  cable_gbps: 200\n";
        let cluster = Cluster::from_yaml("c.yaml", cluster).expect("it keeps the rules");
        let text = "kelpie: paths/1\nsteps:\n  - connect: {name: x, from: {host: 0}, to: {host: 2}, qps: 4}\n  \
                    - connect: {name: x, from: {host: 9}, to: {host: 2}, qps: 0}\n  - release: {name: y}\n  \
                    - connect: {from: {host: 1}, to: {host: 1}, qps: 4}\n  - release: {name: x}\n";
        let error = PathsRequest::from_yaml("r.yaml", text, &cluster).expect_err("it breaks rules").to_string();
        for expected in [
            "r.yaml:4:5: steps[1]: no such NIC: 4 hosts of 2 NICs, from 0",
            "steps[1]: write 1 to 4096 QPs",
            "steps[1]: a connection of this name is there already",
            "r.yaml:5:5: steps[2]: no connection of this name is there",
            "r.yaml:6:5: steps[3]: it begins and ends at one NIC",
        ] {
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert!(!error.contains("steps[0]") && !error.contains("steps[4]"), "{error}");
    }
}
