//! What PCI functions are, by their class, vendor and device; nothing is read here.
//!
//! Source: PCI Code and ID Assignment Specification (classes), the PCI ID repository and the kernel's drivers (IDs).

/// What a display controller or an accelerator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// A GPU, or another processor that RDMA may read and write.
    Real,
    /// A display of a management controller, of a hypervisor or of the processor.
    Display,
}

/// Vendors of displays that compute nothing: management controllers, hypervisors.
const DISPLAYS: [&str; 10] = [
    "0x1a03", // ASPEED
    "0x102b", // Matrox
    "0x18ca", // XGI
    "0x126f", // Silicon Motion
    "0x1af4", // virtio
    "0x1b36", // QEMU
    "0x1234", // Bochs
    "0x15ad", // VMware
    "0x1414", // Hyper-V
    "0x1013", // Cirrus
];
/// Vendors whose VGA controllers are GPUs: others' are displays of management controllers.
const GPUS: [&str; 3] = ["0x10de", "0x1002", "0x8086"];

/// What a function of this class is; `None` if neither displays nor computes. `is_integrated` says that the processor
/// has it.
pub fn accelerator(class: &str, vendor: &str, is_integrated: bool) -> Option<Accelerator> {
    // Display controllers are 03 (VGA 0300, 3D 0302, other 0380), processing accelerators 12.
    let is_display = class.starts_with("0x03");
    if !is_display && !class.starts_with("0x12") {
        return None;
    }
    let is_vga = class.starts_with("0x0300") && !GPUS.contains(&vendor);
    let is_plain = is_display && (is_integrated || is_vga || DISPLAYS.contains(&vendor));
    Some(if is_plain { Accelerator::Display } else { Accelerator::Real })
}

/// The vendor of a device, by its ID.
pub fn vendor(id: &str) -> Option<&'static str> {
    Some(match id {
        "0x10de" => "NVIDIA",
        "0x1002" | "0x1022" | "0x1dd8" => "AMD",
        "0x8086" => "Intel",
        "0x1da3" => "Intel Habana",
        "0x15b3" => "NVIDIA Mellanox",
        "0x14e4" => "Broadcom",
        "0x1d0f" => "AWS",
        "0x1ae0" => "Google",
        "0x19e5" => "Huawei",
        "0x1414" => "Microsoft",
        "0x1ded" => "Alibaba",
        "0x1077" => "Marvell",
        "0x1425" => "Chelsio",
        "0x1ed2" => "FuriosaAI",
        "0x1e52" => "Tenstorrent",
        "0x1d94" => "Hygon",
        "0xcabc" => "Cambricon",
        "0x1d22" => "Baidu",
        "0x9999" => "Moore Threads",
        _ => return None,
    })
}

/// A kind of NIC, by the IDs of vendor and device.
pub fn nic(vendor: &str, device: &str) -> Option<&'static str> {
    Some(match (vendor, device) {
        ("0x1d0f", "0xefa0" | "0xefa1" | "0xefa2" | "0xefa3") => "AWS EFA",
        ("0x1d0f", "0x0ec2" | "0x1ec2" | "0xec20" | "0xec21") => "AWS ENA, without RDMA",
        ("0x1ae0", "0x0042") => "Google gVNIC (gve), without RDMA",
        ("0x8086", "0x145c") => "Intel E2000 function (idpf, irdma)",
        ("0x8086", "0x1452") => "Intel E2000 (idpf, irdma)",
        ("0x1dd8", "0x1002" | "0x1003") => "AMD Pensando (ionic)",
        ("0x19e5", "0xa222" | "0xa223" | "0xa224" | "0xa225" | "0xa226" | "0xa228" | "0xa22f") => "Huawei (hns)",
        ("0x19e5", "0x0200" | "0x1822" | "0x0222" | "0x375e" | "0x379e") => "Huawei (hinic)",
        ("0x1414", "0x00ba") => "Microsoft Azure (mana)",
        ("0x1ded", "0x107f" | "0x5007") => "Alibaba (erdma)",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_of_any_vendor_are_told_from_displays() {
        let real = Some(Accelerator::Real);
        let display = Some(Accelerator::Display);
        for (class, vendor, is_integrated, expected) in [
            ("0x030200", "0x10de", false, real),    // NVIDIA H100
            ("0x030000", "0x10de", false, real),    // a GeForce, whose class is VGA
            ("0x038000", "0x1002", false, real),    // AMD MI100
            ("0x120000", "0x1002", false, real),    // AMD MI300X
            ("0x038000", "0x8086", false, real),    // Intel Flex
            ("0x120000", "0x1da3", false, real),    // Habana Gaudi
            ("0x120000", "0x19e5", false, real),    // Huawei Ascend
            ("0x038000", "0x1e3e", false, real),    // a vendor without a name here
            ("0x030000", "0x8086", true, display),  // the processor's
            ("0x038000", "0x8086", true, display),  // the same without a screen
            ("0x030000", "0x19e5", false, display), // Huawei iBMC
            ("0x030000", "0x1a03", false, display), // ASPEED
            ("0x038000", "0x1af4", false, display), // virtio-gpu
            ("0x020000", "0x15b3", false, None),
        ] {
            assert_eq!(accelerator(class, vendor, is_integrated), expected, "{class} {vendor}");
        }
    }
}
