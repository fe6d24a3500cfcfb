//! The arguments of `kelpie inventory`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueHint};
use kelpie_fleet::import::LldpPort;

#[derive(Debug, Subcommand)]
pub enum InventoryCommand {
    /// Ask all agents of an inventory whether they are there, side by side
    #[command(after_help = "Exit status: 0 all answer, 1 one does not.\n\n\
        Examples:\n  kelpie inventory check hosts.yaml\n  kelpie inventory check hosts.yaml --json")]
    Check(CheckInventoryArgs),
    /// Make an inventory of what Slurm, Kubernetes or the fabric know
    #[command(
        after_help = "Slurm or Kubernetes names the hosts; a topology says where they are, and names them if nobody else does. \
        stderr says\nwhat is left open.\n\n\
        Examples:\n  \
        sinfo --json | kelpie inventory import --slurm - --topology /etc/slurm/topology.conf > hosts.yaml\n  \
        kelpie inventory import --kubernetes nodes.json --device mlx5_0 > hosts.yaml\n  \
        kelpie inventory import --slurm sinfo.json --ibnetdiscover fabric.txt --partition gpu --state idle > hosts.yaml"
    )]
    Import(Box<ImportInventoryArgs>),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("sources").required(true).multiple(true))]
pub struct ImportInventoryArgs {
    /// What `sinfo --json` or `scontrol show nodes --json` prints, `-` for stdin
    #[arg(long, group = "sources", value_name = "FILE", conflicts_with = "kubernetes")]
    pub slurm: Option<PathBuf>,
    /// What `kubectl get nodes -o json` prints
    #[arg(long, group = "sources", value_name = "FILE")]
    pub kubernetes: Option<PathBuf>,
    /// Slurm's topology.conf: leaves are the switches of nodes, pods the switches above them
    #[arg(long, group = "sources", value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// What `ibnetdiscover` prints: leaves, pods and devices
    #[arg(long, group = "sources", value_name = "FILE")]
    pub ibnetdiscover: Option<PathBuf>,
    /// What `lldpctl -f json0` prints on a host: the neighbour of the interface is the leaf; once for each host
    #[arg(long, group = "sources", value_name = "HOST/INTERFACE=FILE", value_parser = parse_lldp)]
    pub lldp: Vec<(LldpPort, PathBuf)>,
    /// Where the agents listen [default: 7471]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub agent_port: Option<u16>,
    /// RDMA device of each host; several times for several rails
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,
    /// Only nodes of this partition of Slurm
    #[arg(long, value_name = "NAME", requires = "slurm")]
    pub partition: Option<String>,
    /// Only nodes in these states of Slurm, such as idle,drained
    #[arg(long, value_name = "STATE", value_delimiter = ',', requires = "slurm")]
    pub state: Vec<String>,
    /// Label of nodes that has the leaf [default: those of NVIDIA Topograph and of AWS]
    #[arg(long, value_name = "KEY", requires = "kubernetes")]
    pub leaf_label: Option<String>,
    /// Label of nodes that has the pod
    #[arg(long, value_name = "KEY", requires = "kubernetes")]
    pub pod_label: Option<String>,
}

fn parse_lldp(text: &str) -> Result<(LldpPort, PathBuf), String> {
    let parts = text.split_once('=').and_then(|(port, file)| Some((port.split_once('/')?, file)));
    let Some(((host, interface), file)) =
        parts.filter(|((host, interface), file)| [host, interface, file].iter().all(|part| !part.is_empty()))
    else {
        return Err("write HOST/INTERFACE=FILE, such as n1/eth2=n1.json".to_owned());
    };
    Ok((LldpPort { host: host.to_owned(), interface: interface.to_owned() }, PathBuf::from(file)))
}

#[derive(Debug, Args)]
pub struct CheckInventoryArgs {
    /// The hosts, format inventory/1
    #[arg(value_name = "INVENTORY.yaml", value_hint = ValueHint::FilePath)]
    pub inventory: PathBuf,
}
