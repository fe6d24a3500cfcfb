//! What may be behind a slow link, and which readings confirm or refute it. Nothing is read here.

use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;
use serde::Serialize;

use super::misconfiguration::Rerouted;

/// A reading that tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CauseReading {
    /// What to read, such as `LnkSta`.
    pub what: String,
    /// What it says if this is the cause.
    pub confirms: String,
    /// PCI address of the function to read it from, if the topology has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// What it said on the live machine, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<String>,
}

/// A candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CandidateCause {
    /// The link, node or row that it is about.
    pub about: String,
    /// A word for it.
    pub cause: String,
    /// What it means.
    pub summary: String,
    /// The readings.
    pub readings: Vec<CauseReading>,
}

/// One row of the table: readings as `(what, confirms)`.
struct CauseRow {
    cause: &'static str,
    summary: &'static str,
    readings: &'static [(&'static str, &'static str)],
}

/// Source: Hostping, "Bottlenecks found"; the readings are those of the PCI Express Base Specification, sections 7.5.3
/// (link status), 7.8.4 (AER), 7.7.11 (ACS), 10.5.1 (ATS), of Linux's EDAC and perf, and of ethtool.
const RNIC_LINK: CauseRow = CauseRow {
    cause: "rnic_pcie_link",
    summary: "the RNIC's PCIe link is narrower or slower than it could be, or repeats what it lost",
    readings: &[
        ("LnkSta against LnkCap", "fewer lanes or a lower speed than the function and its port can do"),
        ("AER correctable errors", "counts that rise under load: bad cable, slot or riser"),
    ],
};
const GPU_LINK: CauseRow = CauseRow {
    cause: "gpu_pcie_link",
    summary: "the GPU's PCIe link is narrower or slower than it could be",
    readings: &[
        ("LnkSta against LnkCap", "fewer lanes or a lower speed than the function and its port can do"),
        ("host-to-device bandwidth", "copies between host and GPU are slow as well"),
    ],
};
const UPLINK: CauseRow = CauseRow {
    cause: "root_port_or_uplink",
    summary: "the switch's upstream port or the CPU's root port is degraded",
    readings: &[
        ("LnkSta against LnkCap of the upstream port", "fewer lanes or a lower speed"),
        ("AER of the root port", "counts that rise under load"),
    ],
};
const MEMORY: CauseRow = CauseRow {
    cause: "memory_channel",
    summary: "a memory channel is gone or slow",
    readings: &[
        ("DIMM count and speed", "fewer DIMMs than are installed, or a lower configured speed"),
        ("MCE and EDAC counters", "corrected or uncorrected memory errors"),
    ],
};
const SOCKETS: CauseRow = CauseRow {
    cause: "socket_interconnect",
    summary: "the interconnect of the sockets is degraded; on a busy host others may use it up",
    readings: &[
        ("lanes and speed of UPI or xGMI", "fewer lanes or a lower speed after training"),
        ("uncore counters of the interconnect", "high utilisation: overload, not failure"),
        ("who uses remote memory (numastat -p)", "processes whose memory is on the other socket"),
    ],
};
const CABLE: CauseRow = CauseRow {
    cause: "port_or_cable",
    summary: "the port is trained lower than it can, the cable or transceiver loses, or its switch holds it back",
    readings: &[
        ("speed of the port (ethtool, rdma link) against its best", "a lower speed, or fewer lanes"),
        ("symbol and FEC errors of both ends (ethtool -S)", "counts that rise under load: cable or transceiver"),
        ("rx pause frames of the port", "they rise: the switch or what is behind it holds it back"),
        ("the same cable at another port", "the fault goes with the cable, or stays with the port"),
    ],
};
const OTHER: CauseRow = CauseRow {
    cause: "link",
    summary: "the link carries less than it should",
    readings: &[("LnkSta against LnkCap", "fewer lanes or a lower speed")],
};
const SETTING: CauseRow = CauseRow {
    cause: "acs_or_ats",
    summary: "traffic between peers below the switch goes through the root: ACS is on, or ATS is off",
    readings: &[
        ("ACSCtl of the switch's downstream ports", "request or completion redirect is set: on a bare host, clear it"),
        ("ATSCtl of RNIC and GPU", "not enabled although the host is a virtual machine's"),
        ("whether this is a virtual machine, and the IOMMU's mode", "virtual machines need ATS, bare hosts ACS off"),
    ],
};
const LATENCY: CauseRow = CauseRow {
    cause: "translation_or_power_states",
    summary: "latency is up and bandwidth is not: misses in the IOMMU or ATS, or power states",
    readings: &[
        ("the same test with iommu=pt", "latency falls: it was address translation"),
        ("the same test with C-states off", "latency falls: it was power states"),
    ],
};

/// The causes of all links that an explanation names, of settings, and of rows with latency alone.
pub fn of(
    host: &HostTopology,
    sets: &[Vec<usize>],
    settings: &[Rerouted],
    late: &[String],
    busy: &[bool],
) -> Vec<CandidateCause> {
    let mut links: Vec<usize> = sets.iter().flatten().copied().collect();
    let mut seen = std::collections::BTreeSet::new();
    links.retain(|link| seen.insert(*link));
    let of_links = links.into_iter().map(|link| {
        let (row, device) = of_link(host, link);
        let mut cause = filled(row, host.link_name(link), device.and_then(|node| host.nodes()[node].pci.as_ref()));
        if busy.contains(&true) {
            let utilisation = "its utilisation (PCM, uncore or switch counters)".to_owned();
            let confirms = "near its limit: it is overloaded, and whoever loads it is the cause".to_owned();
            cause.readings.push(CauseReading { what: utilisation, confirms, pci: None, seen: None });
        }
        cause
    });
    let of_settings = settings.iter().map(|setting| {
        let switch = &host.nodes()[setting.switch];
        filled(&SETTING, switch.name.clone(), switch.pci.as_ref())
    });
    let of_rows = late.iter().map(|row| filled(&LATENCY, row.clone(), None));
    of_settings.chain(of_links).chain(of_rows).collect()
}

/// The row of a link, and the node whose function shows the link's state.
fn of_link(host: &HostTopology, link: usize) -> (&'static CauseRow, Option<usize>) {
    let is_cable = host.is_cable(link);
    let link = host.links()[link];
    let end = |kind| [link.a, link.b].into_iter().find(|node| host.nodes()[*node].kind == kind);
    let is_cpu = |node: usize| matches!(host.nodes()[node].kind, NodeKind::Socket | NodeKind::NumaNode);
    if is_cable {
        return (&CABLE, end(NodeKind::Rnic));
    }
    for (kind, row) in [(NodeKind::Memory, &MEMORY), (NodeKind::Rnic, &RNIC_LINK), (NodeKind::Gpu, &GPU_LINK)] {
        if let Some(node) = end(kind) {
            return (row, Some(node));
        }
    }
    match end(NodeKind::PcieSwitch).or_else(|| end(NodeKind::RootPort)) {
        Some(port) => (&UPLINK, Some(port)),
        None if is_cpu(link.a) && is_cpu(link.b) => (&SOCKETS, None),
        None => (&OTHER, end(NodeKind::Nvme)),
    }
}

fn filled(row: &CauseRow, about: String, pci: Option<&String>) -> CandidateCause {
    let reading = |(what, confirms): &(&str, &str)| CauseReading {
        what: (*what).to_owned(),
        confirms: (*confirms).to_owned(),
        pci: pci.cloned(),
        seen: None,
    };
    let readings = row.readings.iter().map(reading).collect();
    CandidateCause { about, cause: row.cause.to_owned(), summary: row.summary.to_owned(), readings }
}
