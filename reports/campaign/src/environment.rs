//! Where a stored finding was made, with or without what names the hosts.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use kelpie_agent::PairFile;
use kelpie_agent::pair::HostSpec;
use kelpie_examine::files::read_file;
use kelpie_monitor::PerHost;
use kelpie_monitor::doctor::Examination;
use kelpie_reports::recipe::{Environment, IMPORT};
use kelpie_sim::SimSubsystem;
use kelpie_store::CampaignDefinition;

/// An environment, and the names that other texts must not hold.
#[derive(Debug)]
pub struct NamedEnvironment {
    /// Where the finding was made.
    pub environment: Environment,
    /// Names of hosts and files.
    pub names: Vec<String>,
}

/// The environment of a campaign, as far as the store and the examinations of `kelpie doctor` have it.
///
/// # Errors
///
/// The stored model or pair cannot be read, or a file is no examination.
pub fn of(
    definition: &CampaignDefinition,
    with_names: bool,
    examined: [Option<&Path>; 2],
) -> anyhow::Result<NamedEnvironment> {
    if definition.subsystem.starts_with("sim:") {
        let subsystem = SimSubsystem::from_yaml(&definition.subsystem, &definition.subsystem_source)?;
        // The name of a model file is a path of the machine; the model's own name is not.
        let name = if with_names { definition.subsystem.clone() } else { format!("sim:{}", subsystem.model_name()) };
        let environment = Environment { subsystem: name, model: Some(subsystem.yaml()), hosts: None };
        return Ok(NamedEnvironment { environment, names: Vec::new() });
    }
    let mut hosts = PerHost::<BTreeMap<String, String>>::default();
    let mut names = vec![definition.subsystem.clone()];
    if definition.algorithm != IMPORT {
        let pair = PairFile::from_yaml(Path::new(&definition.subsystem), &definition.subsystem_source)?;
        hosts = PerHost { a: port_facts(&pair.hosts.a), b: port_facts(&pair.hosts.b) };
        for (facts, host) in [(&mut hosts.a, &pair.hosts.a), (&mut hosts.b, &pair.hosts.b)] {
            if with_names {
                facts.insert("agent".to_owned(), host.agent.clone());
            }
            names.extend(host.agent.rsplit_once(':').map(|(name, _)| name.trim_matches(['[', ']']).to_owned()));
        }
        names.push(pair.name);
    }
    for (facts, file) in [&mut hosts.a, &mut hosts.b].into_iter().zip(examined) {
        let Some(file) = file else { continue };
        let examined: Examination = serde_json::from_slice(&read_file(file)?)
            .with_context(|| format!("{}: not what `kelpie doctor DEVICE --json` prints", file.display()))?;
        facts.extend(examined.facts);
        if with_names {
            facts.insert("host".to_owned(), examined.host.clone());
        }
        names.push(examined.host);
    }
    let subsystem = if with_names { definition.subsystem.clone() } else { "pair".to_owned() };
    Ok(NamedEnvironment { environment: Environment { subsystem, model: None, hosts: Some(hosts) }, names })
}

/// What a pair file says of a host's port, none of which names the host.
fn port_facts(host: &HostSpec) -> BTreeMap<String, String> {
    let port = &host.port;
    let mut facts = BTreeMap::from([
        ("port".to_owned(), port.port.to_string()),
        ("traffic class".to_owned(), port.tuning.traffic_class.to_string()),
        ("service level".to_owned(), port.tuning.service_level.to_string()),
        ("hop limit".to_owned(), port.tuning.hop_limit.to_string()),
        ("acknowledgement timeout".to_owned(), port.tuning.ack_timeout.to_string()),
        ("huge pages".to_owned(), port.tuning.huge_pages.to_string()),
        ("relaxed ordering".to_owned(), port.tuning.relaxed_ordering.to_string()),
    ]);
    let known = [
        ("RDMA device", port.device.clone()),
        ("GID index", port.gid_index.map(|index| index.to_string())),
        ("UDP source port", port.tuning.udp_source_port.map(|port| port.to_string())),
    ];
    facts.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    facts
}
