//! PCIe functions in sysfs: the way from the root port to a device, link state, and what configuration space says.

use super::Machine;

/// One function on the way to a device, or the device itself.
#[derive(Debug, Clone)]
pub struct PciFunction<'a> {
    machine: &'a Machine,
    /// Its directory in sysfs, relative to the machine's root.
    pub directory: String,
}

/// Width and speed of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PcieRate {
    /// Lanes.
    pub width: u32,
    /// Units: GT/s per lane.
    pub gt_per_sec: f64,
}

impl PcieRate {
    /// What the link carries one way, without packet headers.
    ///
    /// Units: bits/s. Source: PCI Express Base Specification, section 4.2: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s
    /// (64 GT/s uses FLITs of about the same share).
    pub fn bits_per_sec(self) -> f64 {
        let coding = if self.gt_per_sec < 8.0 { 0.8 } else { 128.0 / 130.0 };
        f64::from(self.width) * self.gt_per_sec * 1e9 * coding
    }
}

impl std::fmt::Display for PcieRate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "x{} at {} GT/s", self.width, self.gt_per_sec)
    }
}

/// The functions from the root port to the one that `directory` (or what it links to) belongs to, in this order.
pub fn pci_path<'a>(machine: &'a Machine, directory: &str) -> Vec<PciFunction<'a>> {
    let Some(real) = machine.real(directory) else { return Vec::new() };
    let mut functions = Vec::new();
    let mut path = String::new();
    for part in real.split('/') {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(part);
        if is_address(part) {
            functions.push(PciFunction { machine, directory: path.clone() });
        }
    }
    functions
}

/// Whether a name is `domain:bus:device.function`.
fn is_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let [domain, bus, device, function] = parts[..] else { return false };
    let hex = |text: &str, length: usize| text.len() >= length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex(domain, 4) && hex(bus, 2) && hex(device, 2) && hex(function, 1)
}

impl PciFunction<'_> {
    /// `domain:bus:device.function`.
    pub fn address(&self) -> &str {
        self.directory.rsplit('/').next().unwrap_or(&self.directory)
    }

    /// `domain:bus:device`, which the functions of one card have in common.
    pub fn card(&self) -> &str {
        self.address().rsplit_once('.').map_or(self.address(), |(card, _)| card)
    }

    /// The name of one of its files.
    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// One of its files.
    pub fn text(&self, name: &str) -> Option<String> {
        self.machine.text(&self.file(name))
    }

    /// The link as it is.
    pub fn current_rate(&self) -> Option<PcieRate> {
        self.rate("current")
    }

    /// The link as the function could have it.
    pub fn max_rate(&self) -> Option<PcieRate> {
        self.rate("max")
    }

    fn rate(&self, which: &str) -> Option<PcieRate> {
        let width = self.text(&format!("{which}_link_width"))?.parse().ok().filter(|width| *width > 0)?;
        let speed = self.text(&format!("{which}_link_speed"))?;
        let gt_per_sec = speed.split_once(" GT/s")?.0.parse().ok()?;
        Some(PcieRate { width, gt_per_sec })
    }

    /// Whether more of configuration space can be read than everybody may; root may.
    pub fn config_is_readable(&self) -> bool {
        self.config().is_some()
    }

    /// Whether relaxed ordering is enabled in the Device Control register; `None` if it cannot be read or the
    /// function is not of PCI Express.
    ///
    /// Source: PCI Express Base Specification, section 7.5.3.4 (capability 0x10, Device Control at 8, bit 4).
    pub fn relaxed_ordering(&self) -> Option<bool> {
        let config = self.config()?;
        let control = word(&config, capability(&config, 0x10)? + 8)?;
        Some(control & 1 << 4 != 0)
    }

    /// The longest read that the device may ask for at once. `None` if it cannot be read or the function is not of PCI
    /// Express.
    ///
    /// Units: bytes. Source: PCI Express Base Specification, section 7.5.3.4 (Device Control, bits 12 to 14).
    pub fn read_request(&self) -> Option<u32> {
        let config = self.config()?;
        let control = word(&config, capability(&config, 0x10)? + 8)?;
        // 6 and 7 are reserved.
        128_u32.checked_shl((control >> 12 & 0b111).into()).filter(|bytes| *bytes <= 4096)
    }

    /// Vendor and device, which everybody may read.
    pub fn ids(&self) -> Option<(u16, u16)> {
        let id = |name: &str| u16::from_str_radix(self.text(name)?.trim_start_matches("0x"), 16).ok();
        let of_files = id("vendor").zip(id("device"));
        of_files.or_else(|| {
            let config = self.machine.bytes(&self.file("config"))?;
            Some((word(&config, 0)?, word(&config, 2)?)).filter(|(vendor, _)| !matches!(vendor, 0 | 0xffff))
        })
    }

    /// Whether Access Control Services send requests between peers up to the root: request redirect or completion
    /// redirect. `None` if the configuration space cannot be read; `Some(false)` also without the capability, as
    /// conventional PCI is.
    ///
    /// Source: PCI Express Base Specification, section 7.7.11.3 (extended capability 0x0d, control at 6, bits 2, 3).
    pub fn acs_redirects(&self) -> Option<bool> {
        let config = self.config()?;
        let Some(start) = extended_capability(&config, 0x0d) else { return Some(false) };
        Some(word(&config, start + 6)? & 0b1100 != 0)
    }

    /// Whether Address Translation Services are enabled. `None` if the configuration space cannot be read;
    /// `Some(false)` also without the capability.
    ///
    /// Source: PCI Express Base Specification, section 10.5.1.3 (extended capability 0x0f, control at 6, bit 15).
    pub fn ats_enabled(&self) -> Option<bool> {
        let config = self.config()?;
        let Some(start) = extended_capability(&config, 0x0f) else { return Some(false) };
        Some(word(&config, start + 6)? & 1 << 15 != 0)
    }

    fn config(&self) -> Option<Vec<u8>> {
        self.machine.bytes(&self.file("config")).filter(|config| config.len() > READABLE_BY_ALL)
    }
}

/// What of configuration space others than root can read. Units: bytes. Source: kernel `drivers/pci/pci-sysfs.c`.
const READABLE_BY_ALL: usize = 64;

/// Where extended configuration space begins.
const EXTENDED: usize = 0x100;

fn word(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(config.get(at..at + 2)?.try_into().ok()?))
}

/// Where a capability begins. A list that loops ends.
fn capability(config: &[u8], id: u8) -> Option<usize> {
    let mut at = usize::from(*config.get(0x34)?);
    for _ in 0..48 {
        if at < 0x40 {
            return None;
        }
        if *config.get(at)? == id {
            return Some(at);
        }
        at = usize::from(*config.get(at + 1)?);
    }
    None
}

/// Where an extended capability begins. A list that loops ends.
fn extended_capability(config: &[u8], id: u16) -> Option<usize> {
    let mut at = EXTENDED;
    for _ in 0..512 {
        let header = u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?);
        if header & 0xffff == u32::from(id) {
            return Some(at);
        }
        at = usize::try_from(header >> 20).ok().filter(|next| *next >= EXTENDED)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Configuration space with a list of capabilities `(at, id)` and one of extended capabilities.
    fn config(plain: &[(u8, u8)], extended: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let mut link = 0x34;
        for (at, id) in plain {
            bytes[link] = *at;
            bytes[usize::from(*at)] = *id;
            link = usize::from(*at) + 1;
        }
        for (index, (at, id)) in extended.iter().enumerate() {
            let next = extended.get(index + 1).map_or(0, |(next, _)| u32::from(*next));
            let header = u32::from(*id) | 1 << 16 | next << 20;
            bytes[usize::from(*at)..][..4].copy_from_slice(&header.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn capabilities_are_found_and_loops_end() {
        let good = config(&[(0x60, 0x10), (0x40, 0x01)], &[(0x100, 0x01), (0x150, 0x0d)]);
        assert_eq!(
            (capability(&good, 0x10), capability(&good, 0x01), capability(&good, 0x05)),
            (Some(0x60), Some(0x40), None)
        );
        assert_eq!((extended_capability(&good, 0x0d), extended_capability(&good, 0x19)), (Some(0x150), None));
        let looping = config(&[(0x60, 0x09), (0x60, 0x09)], &[(0x100, 0x01), (0x100, 0x01)]);
        assert_eq!((capability(&looping, 0x10), extended_capability(&looping, 0x0d)), (None, None));
        for length in [0, 0x34, 0x35, 0x40] {
            assert_eq!(capability(&good[..length], 0x01), None, "{length}");
        }
        for length in [0, 0x100, 0x103, 0x150] {
            assert_eq!(extended_capability(&good[..length], 0x0d), None, "{length}");
        }
    }

    #[test]
    fn addresses_are_told_from_other_names() {
        for (name, expected) in
            [("0000:3b:00.0", true), ("10000:01:00.1", true), ("pci0000:3a", false), ("virtio0", false)]
        {
            assert_eq!(is_address(name), expected, "{name}");
        }
    }

    #[test]
    fn a_link_carries_less_than_it_transfers() {
        let rate = |width, gt_per_sec| PcieRate { width, gt_per_sec }.bits_per_sec() / 1e9;
        assert!((rate(8, 5.0) - 32.0).abs() < 1e-9);
        assert!((rate(16, 16.0) - 252.06).abs() < 0.01);
    }
}
