//! Jobs as `job/1`: which hosts run which collective, which connections between NICs that takes, and what fails
//! meanwhile. What rates they get is elsewhere. `rounds` has jobs as transfers
//! between ranks; `program` has what each GPU does, step by step, and `dag` what that comes to.

pub mod algorithms;
pub mod dag;
pub mod group;
pub mod program;
pub mod rounds;

use kelpie_spaces::{DocumentError, read_tagged};
use kelpie_topology::{Cluster, FabricPart};
use serde::{Deserialize, Serialize};

/// Most jobs of a file. Source: our choice.
const MAX_JOBS: usize = 4096;
/// Most flows of all jobs. Source: our choice, a ring of 10,000 GPUs with 8 QPs each several times over.
const MAX_FLOWS: u64 = 1 << 20;
/// Most events. Source: our choice.
const MAX_EVENTS: usize = 4096;
/// Latest time. Units: seconds. Source: our choice, a month.
const MAX_TIME_S: f64 = 2_678_400.0;

/// How the hosts of a job exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Collective {
    /// Each host sends to the next one of the list, the last to the first; each NIC to its like.
    Ring,
    /// Each host sends to all others; each NIC to its like.
    AllToAll,
}

/// One job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// A name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its hosts, in the order of the ring.
    pub hosts: Vec<u32>,
    /// The NICs of each host that it uses; all if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<Vec<u32>>,
    /// What they do.
    pub collective: Collective,
    /// QPs of each connection between two NICs.
    pub qps_per_connection: u32,
    /// What each connection moves until the job ends; for ever if it is absent. Units: bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_connection: Option<u64>,
    /// When it starts. Units: seconds.
    #[serde(default)]
    pub start_s: f64,
}

/// Something that fails or is repaired at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailureEvent {
    /// When. Units: seconds.
    pub at_s: f64,
    /// What fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<FabricPart>,
    /// What works again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<FabricPart>,
}

impl FailureEvent {
    fn broken_rules(&self, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let time = (!is_time(self.at_s)).then(|| (".at_s", TIME.to_owned()));
        let part = match (self.fail, self.repair) {
            (Some(part), None) | (None, Some(part)) => cluster.unknown(part),
            _ => Some("write either `fail` or `repair`".to_owned()),
        };
        time.into_iter().chain(part.map(|rule| ("", rule))).collect()
    }
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// What happens meanwhile, in any order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<FailureEvent>,
}

/// QPs of a job from one NIC to another; NICs count through the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobConnection {
    /// Place of the job in its list.
    pub job: usize,
    /// NIC that sends.
    pub from: u32,
    /// NIC that receives.
    pub to: u32,
    /// QPs.
    pub qps: u32,
}

impl Job {
    /// The connections of the job, which is number `job` of its list.
    pub fn connections(&self, job: usize, cluster: &Cluster) -> Vec<JobConnection> {
        let all: Vec<u32> = (0..cluster.nics_per_host).collect();
        let nics = self.nics.as_ref().unwrap_or(&all);
        let next = |place: usize| self.hosts[(place + 1) % self.hosts.len()];
        let pairs: Vec<(u32, u32)> = match self.collective {
            Collective::Ring => self.hosts.iter().enumerate().map(|(place, from)| (*from, next(place))).collect(),
            Collective::AllToAll => {
                let others = |from: u32| self.hosts.iter().filter(move |to| **to != from).map(move |to| (from, *to));
                self.hosts.iter().flat_map(|from| others(*from)).collect()
            }
        };
        let connection = |(from, to), nic| JobConnection {
            job,
            from: cluster.nic(from, nic),
            to: cluster.nic(to, nic),
            qps: self.qps_per_connection,
        };
        pairs.into_iter().flat_map(|pair| nics.iter().map(move |nic| connection(pair, *nic))).collect()
    }

    fn broken_rules(&self, cluster: &Cluster) -> Vec<(&'static str, String)> {
        let unique = |list: &[u32], most: u32| {
            let mut sorted = list.to_vec();
            sorted.sort_unstable();
            sorted.windows(2).all(|two| two[0] != two[1]) && list.iter().all(|one| *one < most)
        };
        let nics = self.nics.as_deref().unwrap_or(&[0]);
        let hosts_are_known = self.hosts.len() >= 2 && unique(&self.hosts, cluster.hosts);
        let nics_are_known = !nics.is_empty() && unique(nics, cluster.nics_per_host);
        let rules = [
            (hosts_are_known, "hosts", format!("write at least two different hosts from 0 to {}", cluster.hosts - 1)),
            (nics_are_known, "nics", format!("write different NICs from 0 to {}", cluster.nics_per_host - 1)),
            ((1..=1024).contains(&self.qps_per_connection), "qps_per_connection", "write 1 to 1024".to_owned()),
            (self.bytes_per_connection != Some(0), "bytes_per_connection", "write at least 1".to_owned()),
            (is_time(self.start_s), "start_s", TIME.to_owned()),
        ];
        rules.into_iter().filter(|(is_kept, ..)| !is_kept).map(|(_, key, rule)| (key, rule)).collect()
    }

    fn flows(&self, cluster: &Cluster) -> u64 {
        let hosts = self.hosts.len() as u64;
        let pairs = if self.collective == Collective::Ring { hosts } else { hosts.saturating_mul(hosts - 1) };
        let nics = self.nics.as_ref().map_or(u64::from(cluster.nics_per_host), |nics| nics.len() as u64);
        pairs.saturating_mul(nics).saturating_mul(u64::from(self.qps_per_connection))
    }
}

const TIME: &str = "write seconds from 0 to 2678400";

fn is_time(seconds: f64) -> bool {
    (0.0..=MAX_TIME_S).contains(&seconds)
}

impl Jobs {
    /// Tag of the format.
    pub const FORMAT: &'static str = "job/1";

    /// Reads jobs on a cluster from YAML.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake; `file` stands for the file.
    pub fn from_yaml(file: &str, text: &str, cluster: &Cluster) -> Result<Self, DocumentError> {
        let (document, jobs) = read_tagged::<Self>(file, text, Self::FORMAT)?;
        if jobs.jobs.is_empty() || jobs.jobs.len() > MAX_JOBS {
            return Err(document.refuse("jobs", &format!("write 1 to {MAX_JOBS} jobs")));
        }
        if jobs.events.len() > MAX_EVENTS {
            return Err(document.refuse("events", &format!("write at most {MAX_EVENTS} events")));
        }
        let of_jobs = jobs.jobs.iter().enumerate().flat_map(|(place, job)| {
            let named = move |(key, rule)| (format!("jobs[{place}].{key}"), rule);
            job.broken_rules(cluster).into_iter().map(named)
        });
        let of_events = jobs.events.iter().enumerate().flat_map(|(place, event)| {
            let named = move |(key, rule)| (format!("events[{place}]{key}"), rule);
            event.broken_rules(cluster).into_iter().map(named)
        });
        document.refuse_all(of_jobs.chain(of_events))?;
        let flows = jobs.jobs.iter().map(|job| job.flows(cluster)).fold(0, u64::saturating_add);
        if flows > MAX_FLOWS {
            return Err(document.refuse("jobs", &format!("{flows} QPs; at most {MAX_FLOWS} are accepted")));
        }
        Ok(jobs)
    }

    /// The connections of all jobs.
    pub fn connections(&self, cluster: &Cluster) -> Vec<JobConnection> {
        self.jobs.iter().enumerate().flat_map(|(place, job)| job.connections(place, cluster)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> Cluster {
        let text = "kelpie: topology/1\ncluster: {hosts: 4, nics_per_host: 2, port_gbps: 200, leaves: 1}";
        Cluster::from_yaml("t", text).expect("valid")
    }

    #[test]
    fn a_ring_closes_and_all_to_all_is_complete() {
        let text = "kelpie: job/1\njobs:\n\
                    - {hosts: [0, 2, 1], collective: ring, qps_per_connection: 2}\n\
                    - {hosts: [0, 3, 1], nics: [1], collective: all_to_all, qps_per_connection: 1}";
        let connections = Jobs::from_yaml("j", text, &cluster()).expect("valid").connections(&cluster());
        let of = |job: usize| -> Vec<(u32, u32)> {
            connections.iter().filter(|one| one.job == job).map(|one| (one.from, one.to)).collect()
        };
        assert_eq!(of(0), [(0, 4), (1, 5), (4, 2), (5, 3), (2, 0), (3, 1)]);
        assert_eq!(of(1), [(1, 7), (1, 3), (7, 1), (7, 3), (3, 1), (3, 7)]);
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let text =
            "kelpie: job/1\njobs:\n- {hosts: [0, 9], collective: ring, qps_per_connection: 0}\nevents: [{at_s: -1}]";
        let error = Jobs::from_yaml("j", text, &cluster()).expect_err("four mistakes").to_string();
        for key in ["jobs[0].hosts", "jobs[0].qps_per_connection", "events[0].at_s", "either `fail` or `repair`"] {
            assert!(error.contains(key), "{key}: {error}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (jobs, expected) in [
            ("jobs: []", "j:2|jobs: write 1 to"),
            ("jobs: [{hosts: [0, 9], collective: ring, qps_per_connection: 1}]", "j:2|jobs[0].hosts: write"),
            ("jobs: [{hosts: [0, 1], collective: tree, qps_per_connection: 1}]", "j:2|jobs[0].collective: unknown"),
            ("jobs: [{hosts: [0, 1], collective: ring, qps_per_connection: 0}]", "j:2|jobs[0].qps_per_connection"),
            ("jobs: [{hosts: [0, 1], collective: ring, qps: 1}]", "j:2|jobs[0].qps: unknown key"),
            (
                "jobs: [{hosts: [0, 1], collective: ring, qps_per_connection: 1}]\nevents: [{at_s: 1}]",
                "j:3|events[0]: write either",
            ),
        ] {
            let text = format!("kelpie: job/1\n{jobs}\n");
            let error = Jobs::from_yaml("j", &text, &cluster()).expect_err(jobs).to_string();
            let (line, rule) = expected.split_once('|').expect("both");
            assert!(error.starts_with(line) && error.contains(rule), "{error}");
        }
    }
}
