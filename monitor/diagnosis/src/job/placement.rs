//! From ranks to hosts and leaves: where the ranks of a verdict are, and whether a whole host or leaf is slow.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_topology::Cluster;
use serde::Serialize;

use super::diagnose::{JobDiagnosis, JobVerdict};
use super::operation::JobOperations;

/// A host or leaf is named if this share of its ranks is. Source: our choice, the share that makes a line hot.
const SHARE: f64 = 0.8;
/// Least ranks of a host, and hosts of a leaf, that show more than one rank or host. Source: our choice.
const LEAST: usize = 2;

/// Where a verdict's ranks are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// Hosts of which most ranks are slow or stuck; several ranks each, or their only one.
    pub host: Vec<String>,
    /// Leaves of which most ranks are slow or stuck, on several hosts; their hosts are not listed beside them.
    pub leaf: Vec<u32>,
    /// The host and the leaves of each rank that the verdict names, connections included.
    pub ranks: BTreeMap<u32, RankLocation>,
    /// Ranks of the job for which the topology has no NIC.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<u32>,
}

/// Where a rank is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankLocation {
    /// Name of its host.
    pub host: String,
    /// NIC of the host, from 0.
    pub nic: u32,
    /// Leaves that its NIC is cabled to.
    pub leaf: Vec<u32>,
}

impl JobOperations {
    /// Takes the hosts of its ranks from a cluster.
    pub fn place_on(&mut self, cluster: &Cluster) {
        let ranks = self.seen_ranks();
        let host = |rank| Some((rank, cluster.host_name(cluster.nic_of_rank(rank)? / cluster.nics_per_host)));
        self.hosts = ranks.into_iter().filter_map(host).collect();
    }
}

/// Places what was found of a job on the cluster that it runs on.
pub fn placement(found: &JobDiagnosis, job: &JobOperations, cluster: &Cluster) -> Placement {
    let mut placement = Placement::default();
    let ranks = job.seen_ranks();
    placement.unknown = ranks.iter().copied().filter(|rank| cluster.nic_of_rank(*rank).is_none()).collect();
    if matches!(found.verdict, JobVerdict::Healthy | JobVerdict::Undecided) {
        return placement;
    }
    let of_hosts = job.hosts.iter().filter(|(_, host)| found.host.contains(host)).map(|(rank, _)| rank);
    let slow = found.rank.iter().chain(&found.source).chain(&found.destination).chain(of_hosts);
    let slow: BTreeSet<u32> = slow.copied().collect();
    let ends =
        found.connection.iter().chain(&found.ambiguous).flat_map(|(source, destination)| [*source, *destination]);
    let named = slow.iter().copied().chain(ends);
    placement.ranks = named.filter_map(|rank| Some((rank, place(cluster, rank)?))).collect();
    let mut of_host: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut of_leaf: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut hosts_of_leaf: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for &rank in &ranks {
        let Some(nic) = cluster.nic_of_rank(rank) else { continue };
        let host = nic / cluster.nics_per_host;
        of_host.entry(host).or_default().insert(rank);
        for side in cluster.sides() {
            let leaf = cluster.leaf(nic, *side);
            of_leaf.entry(leaf).or_default().insert(rank);
            hosts_of_leaf.entry(leaf).or_default().insert(host);
        }
    }
    let is_most = |ranks: &BTreeSet<u32>| {
        let count = ranks.intersection(&slow).count();
        count > 0 && count as f64 >= SHARE * ranks.len() as f64
    };
    // A leaf that has all ranks of the job is slow only if the job is, which its ranks already say.
    let is_slow_leaf =
        |leaf: u32, of: &BTreeSet<u32>| is_most(of) && hosts_of_leaf[&leaf].len() >= LEAST && of.len() < ranks.len();
    let leaves = of_leaf.iter().filter(|(leaf, of)| is_slow_leaf(**leaf, of));
    placement.leaf = leaves.map(|(leaf, _)| *leaf).collect();
    let under: BTreeSet<u32> = placement.leaf.iter().flat_map(|leaf| &hosts_of_leaf[leaf]).copied().collect();
    let hosts = of_host.iter().filter(|(host, of)| is_most(of) && !under.contains(host));
    placement.host = hosts.map(|(host, _)| cluster.host_name(*host)).collect();
    placement
}

/// The place of a rank.
pub fn place(cluster: &Cluster, rank: u32) -> Option<RankLocation> {
    let nic = cluster.nic_of_rank(rank)?;
    let leaves: BTreeSet<u32> = cluster.sides().iter().map(|side| cluster.leaf(nic, *side)).collect();
    Some(RankLocation {
        host: cluster.host_name(nic / cluster.nics_per_host),
        nic: nic % cluster.nics_per_host,
        leaf: leaves.into_iter().collect(),
    })
}

/// The hosts of a verdict that names ranks: those hosts alone on which something is known to be slow or stuck. A leaf
/// or a connection accuses no host.
pub fn accused(found: &JobDiagnosis, placement: &Placement) -> BTreeSet<String> {
    if !placement.leaf.is_empty() {
        return BTreeSet::new();
    }
    let ranks = found.rank.iter().chain(&found.source).chain(&found.destination);
    ranks.filter_map(|rank| placement.ranks.get(rank)).map(|place| place.host.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::diagnose::{JobQuestion, diagnose};
    use super::super::operation::Operation;
    use super::*;

    fn cluster(keys: &str) -> Cluster {
        let text = format!(
            "kelpie: topology/1\ncluster: {{hosts: 6, nics_per_host: 2, ports_per_nic: 1, port_gbps: 200, leaves: 3, \
             spines: 1, cable_gbps: 800{keys}}}"
        );
        Cluster::from_yaml("t", &text).expect("valid")
    }

    /// All pairs of twelve ranks, once; what `is_slow` names takes twice as long.
    fn job(is_slow: impl Fn(u32, u32) -> bool) -> JobOperations {
        let pairs = (0..12).flat_map(|source| (0..12).map(move |destination| (source, destination)));
        let operations = pairs.filter(|(source, destination)| source != destination).map(|(source, destination)| {
            let time = if is_slow(source, destination) { 200.0 } else { 100.0 };
            let (begin, end) = (Some(0.0), Some(time));
            Operation { iteration: 0, source, destination: Some(destination), bytes: 1, entered: None, begin, end }
        });
        JobOperations { operations: operations.collect(), ..JobOperations::default() }
    }

    fn placed(job: &JobOperations, cluster: &Cluster) -> Placement {
        placement(&diagnose(JobQuestion::at_the_end(job)), job, cluster)
    }

    #[test]
    fn a_rank_a_host_and_a_leaf_are_told_apart() {
        let one = placed(&job(|source, destination| source == 5 || destination == 5), &cluster(""));
        assert_eq!((one.host.len(), one.leaf.len()), (0, 0), "one of the two NICs of host 2");
        assert_eq!(one.ranks[&5], RankLocation { host: "2".to_owned(), nic: 1, leaf: vec![1] });
        let is_host = |rank: u32| rank / 2 == 3;
        let host = placed(&job(|source, destination| is_host(source) || is_host(destination)), &cluster(""));
        assert_eq!((host.host, host.leaf), (vec!["3".to_owned()], vec![]));
        let is_leaf = |rank: u32| rank / 4 == 2;
        let leaf = placed(&job(|source, _| is_leaf(source)), &cluster(""));
        assert_eq!((leaf.host, leaf.leaf), (vec![], vec![2]));
    }

    #[test]
    fn slow_hosts_of_one_leaf_are_that_leaf() {
        let cluster = cluster("");
        let is_leaf = |rank: u32| rank / 4 == 2;
        let mut job = job(|source, destination| is_leaf(source) || is_leaf(destination));
        job.place_on(&cluster);
        let found = diagnose(JobQuestion::at_the_end(&job));
        assert_eq!(found.host, ["4", "5"], "{found:?}");
        let placed = placement(&found, &job, &cluster);
        assert_eq!((placed.host, placed.leaf), (vec![], vec![2]));
    }

    #[test]
    fn names_and_places_of_ranks_come_from_the_file() {
        let names = ", host_names: [a, b, c, d, e, f], rank_nics: [11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
        let found = placed(&job(|source, destination| source == 0 && destination == 11), &cluster(names));
        assert_eq!(found.ranks[&0], RankLocation { host: "f".to_owned(), nic: 1, leaf: vec![2] });
        assert_eq!((found.unknown, found.ranks.len()), (vec![11], 1));
        for (keys, rule) in [
            (", host_names: [a, b]", "cluster.host_names: 2 names for 6 hosts"),
            (", host_names: [a, b, c, d, e, a]", "cluster.host_names[5]: write a name"),
            (", host_names: [a, b, c, d, e, '-x']", "cluster.host_names[5]: write a name"),
            (", rank_nics: [0, 12]", "cluster.rank_nics[1]: no such NIC; write 0 to 11"),
        ] {
            let text =
                format!("kelpie: topology/1\ncluster: {{hosts: 6, nics_per_host: 2, port_gbps: 200, leaves: 1{keys}}}");
            let error = Cluster::from_yaml("t", &text).expect_err(keys).to_string();
            assert!(error.contains(rule), "{error}");
        }
    }
}
