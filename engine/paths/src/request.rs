//! Requests of connections as `paths/1`, for people and tests. What becomes of them lives in `planner`.

use kelpie_spaces::{DocumentError, read_tagged};
use kelpie_topology::{Cluster, Part};
use serde::{Deserialize, Serialize};

/// Most QPs of a file. Source: our choice, a ring of 10,000 GPUs with 8 QPs each and more.
const MAX_QPS: u64 = 1 << 20;
/// Most steps of a file. Source: our choice.
const MAX_STEPS: usize = 1 << 16;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Host, from 0.
    pub host: u32,
    /// NIC of the host, from 0.
    #[serde(default)]
    pub nic: u32,
}

/// A step of the history that the planner is to follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// A connection asks for QPs.
    Connect {
        /// A name to release it by.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        /// Where it begins.
        from: End,
        /// Where it ends.
        to: End,
        /// QPs.
        qps: u32,
    },
    /// A connection is gone, with all its QPs.
    Release {
        /// Its name.
        name: String,
    },
    /// A part fails.
    Fail(Part),
    /// A part works again.
    Repair(Part),
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Steps in order.
    #[serde(with = "serde_yaml::with::singleton_map_recursive")]
    pub steps: Vec<Step>,
}

impl Request {
    /// Tag of the format.
    pub const FORMAT: &'static str = "paths/1";

    /// Reads a request for a cluster.
    ///
    /// # Errors
    /// Names file, line, key and rule of the first mistake.
    pub fn from_yaml(file: &str, text: &str, cluster: &Cluster) -> Result<Self, DocumentError> {
        let (document, request) = read_tagged::<Self>(file, text, Self::FORMAT)?;
        if request.steps.is_empty() || request.steps.len() > MAX_STEPS {
            return Err(document.refuse("steps", &format!("write 1 to {MAX_STEPS} steps")));
        }
        let mut qps_in_all = 0_u64;
        let mut open: Vec<&str> = Vec::new();
        for (place, step) in request.steps.iter().enumerate() {
            let rule = match step {
                Step::Connect { name, from, to, qps } => {
                    qps_in_all += u64::from(*qps);
                    let known = |end: &End| end.host < cluster.hosts && end.nic < cluster.nics_per_host;
                    let again = !name.is_empty() && open.contains(&name.as_str());
                    open.push(name);
                    let (hosts, nics) = (cluster.hosts, cluster.nics_per_host);
                    match () {
                        () if !known(from) || !known(to) => {
                            Some(format!("no such NIC: {hosts} hosts of {nics} NICs, from 0"))
                        }
                        () if from == to => Some("it begins and ends at one NIC, so it takes no path".to_owned()),
                        () if !(1..=4096).contains(qps) => Some("write 1 to 4096 QPs".to_owned()),
                        () if qps_in_all > MAX_QPS => Some(format!("more than {MAX_QPS} QPs in all")),
                        () if again => Some("a connection of this name is there already".to_owned()),
                        () => None,
                    }
                }
                Step::Release { name } => match open.iter().position(|open| open == name && !name.is_empty()) {
                    Some(place) => {
                        open.swap_remove(place);
                        None
                    }
                    None => Some("no connection of this name is there".to_owned()),
                },
                Step::Fail(part) | Step::Repair(part) => cluster.unknown(*part),
            };
            if let Some(rule) = rule {
                return Err(document.refuse(&format!("steps[{place}]"), &rule));
            }
        }
        Ok(request)
    }
}
