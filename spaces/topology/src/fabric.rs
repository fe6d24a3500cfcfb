//! A fabric as `topology/1` with `fabric:`: a template with its measures, and the nodes and cables that it comes to.
//!
//! Source of the templates from Spectrum-X to DCN+: `SimAI`'s topology generator, version 1.6; of HPN: Qian et al.,
//! Alibaba HPN, SIGCOMM 2024; of the fat tree: Al-Fares et al., SIGCOMM 2008; of the dragonfly: Kim et al., ISCA 2008.

use kelpie_spaces::{DocumentError, read_tagged};
use serde::{Deserialize, Serialize};

/// Most GPUs. Source: our choice, four times the largest fabric that was published.
const MAX_GPUS: u32 = 65_536;

/// How leaves, spines and cores are cabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricTemplate {
    /// Rails: the n-th GPUs of hosts share leaves; one leaf for each NIC.
    SpectrumX,
    /// Rails; two leaves for each NIC, and all leaves at all spines.
    AlibabaHpn,
    /// Rails; two leaves for each NIC, each at spines of its own.
    AlibabaHpnDualPlane,
    /// No rails: all GPUs of a host share a leaf.
    Dcn,
    /// No rails; two leaves for each NIC.
    DcnDualTor,
    /// Leaves and spines in pods, and cores above them, without a bottleneck; switches of one size.
    FatTree,
    /// Rails in pods of leaves and spines, and cores above them.
    ThreeTier,
    /// Groups of switches that all know each other, of which each knows all other groups.
    Dragonfly,
}

impl FabricTemplate {
    /// All, by the name that files and commands have.
    pub const ALL: [(&'static str, Self); 8] = [
        ("spectrum-x", Self::SpectrumX),
        ("alibaba-hpn", Self::AlibabaHpn),
        ("alibaba-hpn-dual-plane", Self::AlibabaHpnDualPlane),
        ("dcn", Self::Dcn),
        ("dcn-dual-tor", Self::DcnDualTor),
        ("fat-tree", Self::FatTree),
        ("three-tier", Self::ThreeTier),
        ("dragonfly", Self::Dragonfly),
    ];
}

/// What a file says under `fabric`, all of it optional but template and GPUs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFabric {
    template: FabricTemplate,
    gpus: u32,
    gpus_per_host: Option<u32>,
    nvlink_gbps: Option<f64>,
    nvlink_delay_ns: Option<u32>,
    nic_gbps: Option<f64>,
    delay_ns: Option<u32>,
    loss: Option<f64>,
    nics_per_leaf: Option<u32>,
    spines: Option<u32>,
    uplink_gbps: Option<f64>,
    leaves_per_pod: Option<u32>,
    cores: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricFile {
    fabric: WrittenFabric,
}

/// A template with all its measures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fabric {
    /// How it is cabled.
    pub template: FabricTemplate,
    /// GPUs, each with a NIC.
    pub gpus: u32,
    /// GPUs that share an `NVSwitch`.
    pub gpus_per_host: u32,
    /// Of a GPU to its `NVSwitch`; 0 without one. Units: Gbit/s.
    pub nvlink_gbps: f64,
    /// Units: ns.
    pub nvlink_delay_ns: u32,
    /// Of each cable between a NIC and a leaf. Units: Gbit/s.
    pub nic_gbps: f64,
    /// Of each cable outside of hosts. Units: ns.
    pub delay_ns: u32,
    /// Share of packets that each such cable loses.
    pub loss: f64,
    /// Cables from a leaf to NICs; a template with switches of one size takes as many as these have to.
    pub nics_per_leaf: u32,
    /// Spines: in all, or of each pod where there are cores.
    pub spines: u32,
    /// Of a cable between switches. Units: Gbit/s.
    pub uplink_gbps: f64,
    /// Leaves of a pod, where there are cores.
    pub leaves_per_pod: u32,
    /// Switches above the spines.
    pub cores: u32,
}

#[derive(Serialize)]
struct WrittenFile<'f> {
    kelpie: &'static str,
    fabric: &'f Fabric,
}

impl Fabric {
    /// Tag of the format.
    pub const FORMAT: &'static str = "topology/1";

    /// A template with the measures that its source has.
    pub fn of_template(template: FabricTemplate, gpus: u32) -> Self {
        use FabricTemplate as T;
        let dual = matches!(template, T::AlibabaHpn | T::AlibabaHpnDualPlane | T::DcnDualTor);
        let (nics_per_leaf, spines) = match template {
            T::SpectrumX | T::ThreeTier => (64, 64),
            T::AlibabaHpn | T::AlibabaHpnDualPlane => (128, 120),
            T::Dcn => (64, 8),
            T::DcnDualTor => (128, 8),
            T::FatTree | T::Dragonfly => (0, 0),
        };
        Self {
            template,
            gpus,
            gpus_per_host: 8,
            nvlink_gbps: 2880.0,
            nvlink_delay_ns: 25,
            nic_gbps: if dual { 200.0 } else { 400.0 },
            delay_ns: 500,
            loss: 0.0,
            nics_per_leaf,
            spines,
            uplink_gbps: 400.0,
            leaves_per_pod: if template == T::ThreeTier { 8 } else { 0 },
            cores: if template == T::ThreeTier { 64 } else { 0 },
        }
    }

    /// Reads a fabric from YAML.
    ///
    /// # Errors
    /// Names file, line, key and rule of each mistake; `file` stands for the file.
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, DocumentError> {
        let (document, FabricFile { fabric: written }) = read_tagged::<FabricFile>(file, text, Self::FORMAT)?;
        let mut fabric = Self::of_template(written.template, written.gpus);
        set(&mut fabric.gpus_per_host, written.gpus_per_host);
        set(&mut fabric.nvlink_gbps, written.nvlink_gbps);
        set(&mut fabric.nvlink_delay_ns, written.nvlink_delay_ns);
        set(&mut fabric.nic_gbps, written.nic_gbps);
        set(&mut fabric.delay_ns, written.delay_ns);
        set(&mut fabric.loss, written.loss);
        set(&mut fabric.nics_per_leaf, written.nics_per_leaf);
        set(&mut fabric.spines, written.spines);
        set(&mut fabric.uplink_gbps, written.uplink_gbps);
        set(&mut fabric.leaves_per_pod, written.leaves_per_pod);
        set(&mut fabric.cores, written.cores);
        document.refuse_all(fabric.broken_rules().into_iter().map(|(key, rule)| (format!("fabric.{key}"), rule)))?;
        Ok(fabric)
    }

    /// The file again, with all measures.
    pub fn to_yaml(&self) -> String {
        serde_yaml::to_string(&WrittenFile { kelpie: Self::FORMAT, fabric: self }).expect("numbers and words are YAML")
    }

    /// Which rules it breaks: key and rule.
    pub fn broken_rules(&self) -> Vec<(&'static str, String)> {
        let is_rate = |gbps: f64| gbps > 0.0 && gbps <= 1e5;
        let is_sized = matches!(self.template, FabricTemplate::FatTree | FabricTemplate::Dragonfly);
        let has_spines = is_sized || (1..=4096).contains(&self.spines);
        let is_even = self.template != FabricTemplate::AlibabaHpnDualPlane || self.spines.is_multiple_of(2);
        let is_three = self.template == FabricTemplate::ThreeTier;
        let hosts_fit = self.gpus_per_host >= 1 && self.gpus.is_multiple_of(self.gpus_per_host.max(1));
        let pods_fit = !is_three || (1..=4096).contains(&self.leaves_per_pod);
        let cores_fit = !is_three || (1..=4096).contains(&self.cores);
        let rules = [
            ((2..=MAX_GPUS).contains(&self.gpus), "gpus", format!("write 2 to {MAX_GPUS}")),
            (hosts_fit, "gpus_per_host", "write a number that divides `gpus`".to_owned()),
            (self.nvlink_gbps == 0.0 || is_rate(self.nvlink_gbps), "nvlink_gbps", "write Gbit/s, or 0".to_owned()),
            (is_rate(self.nic_gbps), "nic_gbps", RATE.to_owned()),
            (is_rate(self.uplink_gbps), "uplink_gbps", RATE.to_owned()),
            ((0.0..1.0).contains(&self.loss), "loss", "write a share from 0 below 1".to_owned()),
            (self.delay_ns <= 1_000_000_000, "delay_ns", "write at most 1000000000".to_owned()),
            (self.nvlink_delay_ns <= 1_000_000, "nvlink_delay_ns", "write at most 1000000".to_owned()),
            (is_sized || (1..=4096).contains(&self.nics_per_leaf), "nics_per_leaf", "write 1 to 4096".to_owned()),
            (has_spines && is_even, "spines", "write 1 to 4096, even for two planes".to_owned()),
            (pods_fit, "leaves_per_pod", "write 1 to 4096".to_owned()),
            (cores_fit, "cores", "write 1 to 4096".to_owned()),
        ];
        rules.into_iter().filter(|(is_kept, ..)| !is_kept).map(|(_, key, rule)| (key, rule)).collect()
    }
}

const RATE: &str = "write Gbit/s above 0, at most 100000";

fn set<T>(measure: &mut T, written: Option<T>) {
    if let Some(written) = written {
        *measure = written;
    }
}
