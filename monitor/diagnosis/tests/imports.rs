//! Hosts as other programs write them: NCCL's topology XML, `lspci -vvv`, `nvidia-smi topo -m`. The texts are made
//! after public documentation, not recorded.

use kelpie_diagnosis::import::{import, to_nccl};
use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;

const NCCL: &str = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
    <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:18:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="0000:07:00.0" count="6" tclass="0x068000"/></gpu>
      </pci>
      <pci busid="0000:17:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_3" dev="0" speed="400000" port="1" guid="0x1" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1"><pci busid="0000:97:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0"/></pci></cpu>
</system>
"#;

const LSPCI: &str = "\
16:01.0 PCI bridge: Intel Corporation Ice Lake PCI Express Root Port (rev 04) (prog-if 00 [Normal decode])
\tNUMA node: 0
\tBus: primary=16, secondary=17, subordinate=1a, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #9, Speed 16GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)

17:00.0 PCI bridge: Broadcom / LSI PEX890xx (rev b0) (prog-if 00 [Normal decode])
\tBus: primary=17, secondary=18, subordinate=1a, sec-latency=0
\tCapabilities: [68] Express (v2) Upstream Port, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L0s L1
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16 (ok)

18:00.0 PCI bridge: Broadcom / LSI PEX890xx (rev b0)
\tBus: primary=18, secondary=19, subordinate=19, sec-latency=0
\tCapabilities: [68] Express (v2) Downstream Port (Slot+), MSI 00
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16
\t\tLnkSta:\tSpeed 32GT/s, Width x4 (downgraded)

19:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tNUMA node: 0
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 32GT/s (ok), Width x4 (downgraded)

98:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]
\tNUMA node: 1
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)

02:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)
";

const MATRIX: &str = "\t\u{1b}[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV18\tPIX\tSYS\t0-55\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tNODE\t56-111\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tNODE\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_5
";

fn way(host: &HostTopology, from: &str, to: &str) -> Vec<NodeKind> {
    let node = |name: &str| host.node(name).unwrap_or_else(|| panic!("no {name} in {host:?}"));
    host.kinds(node(from), &host.route(node(from), node(to)).expect("a tree is connected"))
}

#[test]
fn nccls_topology_is_read_and_written() {
    let found = import("n.xml", NCCL.as_bytes()).expect("it is NCCL's");
    let host = &found.topology;
    assert_eq!(way(host, "mlx5_3", "gpu1"), [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Gpu]);
    assert_eq!(way(host, "gpu0", "mem1"), [NodeKind::Gpu, NodeKind::Socket, NodeKind::Memory]);
    let rnic = host.nodes().iter().find(|node| node.name == "mlx5_3").expect("it is there");
    assert_eq!((rnic.pci.as_deref(), rnic.port_gbps), (Some("0000:17:00.0"), Some(400.0)));
    assert_eq!(host.links().iter().filter(|link| link.gbps == Some(504.1)).count(), 3, "{host:?}");
    assert!(found.notes.iter().any(|note| note.contains("gpuN is CUDA device N")), "{:?}", found.notes);
    let again = import("again.xml", to_nccl(host).expect("all have addresses").as_bytes()).expect("it is NCCL's");
    assert_eq!(again.topology.to_yaml(), host.to_yaml());
    let bare = HostTopology::from_yaml(
        "t",
        "{kelpie: topology/1, host: {nodes: {r: rnic, c: socket, m: memory}, \
        links: [{a: r, b: c}, {a: m, b: c}]}}",
    );
    let refused = to_nccl(&bare.expect("it keeps the rules")).expect_err("no address");
    assert!(refused.contains("`r` has no PCI address"), "{refused}");
}

#[test]
fn lspci_says_what_links_trained_to_and_could() {
    let host = import("l.txt", LSPCI.as_bytes()).expect("it is lspci's").topology;
    assert_eq!(way(&host, "rnic0", "mem0"), [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Socket, NodeKind::Memory]);
    let trained = |name: &str| {
        let link = host.links().iter().find(|link| host.nodes()[link.a].name == name).expect("it has a link");
        (link.gbps, link.best_gbps(), link.trained())
    };
    assert_eq!(trained("rnic0"), (Some(126.0), Some(504.1), Some("x4 of x16".to_owned())));
    // The root port can no more than 16 GT/s, and the GPU is idle.
    assert_eq!(trained("psw:0000:17:00.0"), (Some(252.1), Some(252.1), None));
    assert_eq!(trained("gpu0"), (Some(504.1), Some(504.1), None));
    assert_eq!(host.nodes().iter().filter(|node| node.kind == NodeKind::Gpu).count(), 1, "a display is none");
}

#[test]
fn relations_of_nvidia_smi_become_switches_and_sockets() {
    for text in [MATRIX.to_owned(), MATRIX.replace("\u{1b}[4m", "").replace("\u{1b}[0m", "")] {
        let host = import("m.txt", text.as_bytes()).expect("it is nvidia-smi's").topology;
        assert_eq!(way(&host, "mlx5_0", "gpu0"), [NodeKind::Rnic, NodeKind::PcieSwitch, NodeKind::Gpu]);
        assert_eq!(way(&host, "mlx5_5", "gpu1"), [NodeKind::Rnic, NodeKind::Socket, NodeKind::Gpu]);
        assert_eq!(way(&host, "mlx5_5", "mem1"), [NodeKind::Rnic, NodeKind::Socket, NodeKind::Memory]);
    }
}

#[test]
fn what_is_too_deep_too_long_or_of_nobody_is_refused() {
    let deep = format!("<system>{}", "<pci busid=\"0000:01:00.0\" class=\"0x020000\">".repeat(100_000));
    let bridge = |bus: u32| format!("<pci busid=\"0000:{bus:x}:00.0\" class=\"0x060400\"/>");
    let many = (0..3000).map(bridge).collect::<Vec<_>>().concat();
    let bomb = "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;\">]><system><cpu numaid=\"0\"><nic>&c;</nic></cpu></system>";
    let loops = LSPCI.replace("primary=17, secondary=18", "primary=17, secondary=17").replace("\n18:00.0", "\n17:01.0");
    for (text, expected) in [
        (deep, "inside of more than 32 others"),
        (format!("<system><cpu numaid=\"0\">{many}</cpu></system>"), "more than 1024 devices"),
        (bomb.to_owned(), "no RDMA NIC"),
        ("<system><cpu numaid=\"0\">".to_owned(), "it ends in the middle"),
        ("<html></html>".to_owned(), "not NCCL's topology"),
        (loops, "bridges in a circle"),
        (MATRIX.replace("NIC1\tSYS\tNODE\tSYS\t X \t\t\t\t\n", ""), "no row `NIC1`"),
        ("\u{1b}[31mhello".to_owned(), "neither NCCL's"),
    ] {
        let error = import("f", text.as_bytes()).expect_err(expected);
        assert!(error.starts_with("f: ") && error.contains(expected), "{expected}: {error}");
        assert!(error.len() < 1000 && !error.chars().any(char::is_control), "{error:?}");
    }
}
