//! Memory to be registered: DRAM on a NUMA node, or of a GPU. Registration is in `mr`.

use std::ffi::c_void;
use std::io;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use kelpie_spaces::Device;

use crate::error::VerbsError;
use crate::gpu::GpuMemory;

/// Where the kernel lists NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// Share of the available memory that a session may pin: one in this many.
/// Source: our choice, because the host has to live on beside it.
const PINNED_SHARE: u64 = 2;

/// The default huge page of x86-64 and most of arm64. Units: bytes. Source: `hugetlbpage` in the kernel's admin guide.
const HUGE_PAGE: usize = 2 << 20;

/// `MPOL_BIND`. Source: `linux/mempolicy.h`.
const MPOL_BIND: i32 = 2;

/// Memory that MRs are made of.
pub enum Arena {
    /// A mapping of this process.
    Host(Mapping),
    /// On a GPU.
    Gpu(GpuMemory),
}

impl Arena {
    /// `length` bytes on `device`, of DRAM in huge pages if asked for.
    pub fn new(device: Device, length: usize, huge_pages: bool) -> Result<Self, VerbsError> {
        match device {
            Device::Dram(node) => Mapping::new(node, length, huge_pages).map(Self::Host),
            Device::Gpu(index) => GpuMemory::new(index, length).map(Self::Gpu),
        }
    }

    /// Address of its first byte.
    pub fn address(&self) -> u64 {
        match self {
            Self::Host(mapping) => mapping.start.as_ptr() as u64,
            Self::Gpu(memory) => memory.address(),
        }
    }
}

/// An anonymous mapping.
pub struct Mapping {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: the memory is only read and written by the device and never through Rust references.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(node: u8, length: usize, huge_pages: bool) -> Result<Self, VerbsError> {
        let nodes = nodes(Path::new(NODES));
        // A kernel without NUMA lists no nodes.
        if (node > 0 || nodes.len() > 1) && !nodes.contains(&node) {
            return Err(VerbsError::Unsupported(format!("dram:{node}: this host has no NUMA node {node}")));
        }
        let (access, mut flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mut length = length;
        if huge_pages {
            flags |= libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
            length = length.checked_next_multiple_of(HUGE_PAGE).unwrap_or(length);
        }
        // SAFETY: a new anonymous mapping touches no memory of this process.
        let start = unsafe { libc::mmap(null_mut(), length, access, flags, -1, 0) };
        let failed = |operation| VerbsError::Memory { operation, bytes: length, source: io::Error::last_os_error() };
        if start == libc::MAP_FAILED {
            let error = failed("mmap");
            return Err(if huge_pages {
                let reserve = "reserve huge pages in /proc/sys/vm/nr_hugepages";
                VerbsError::Unsupported(format!("{}: {reserve}", kelpie_engine::chain(&error)))
            } else {
                error
            });
        }
        let mapping = Self { start: NonNull::new(start).ok_or_else(|| failed("mmap"))?, length };
        if !huge_pages {
            let kept = mapping.keep_small_pages();
            kept.map_err(|source| VerbsError::Memory { operation: "madvise", bytes: length, source })?;
        }
        if nodes.len() > 1 {
            mapping.bind(node).map_err(|source| VerbsError::Memory { operation: "mbind", bytes: length, source })?;
        }
        Ok(mapping)
    }

    /// Keeps the kernel from making huge pages of it by itself, of which the device would see fewer.
    fn keep_small_pages(&self) -> io::Result<()> {
        // SAFETY: the mapping is ours, and the advice changes no byte of it.
        let status = unsafe { libc::madvise(self.start.as_ptr(), self.length, libc::MADV_NOHUGEPAGE) };
        let error = io::Error::last_os_error();
        // A kernel that makes none does not know the advice.
        if status == 0 || error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) }
    }

    fn bind(&self, node: u8) -> io::Result<()> {
        let mut mask = [0_u64; 4];
        mask[usize::from(node) / 64] = 1 << (node % 64);
        // SAFETY: the mapping is ours and the mask holds the number of bits that is passed, plus one as the call wants.
        let status = unsafe {
            libc::syscall(libc::SYS_mbind, self.start.as_ptr(), self.length, MPOL_BIND, mask.as_ptr(), 256 + 1, 0)
        };
        if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once; every MR in it holds a reference to it and is gone.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

/// Numbers of the NUMA nodes, which need not follow one another. Those above 255 have no name in a workload.
fn nodes(root: &Path) -> Vec<u8> {
    let entries = root.read_dir().into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()).collect()
}

/// Refuses what would leave the host without memory.
pub fn check_budget(mrs: u64, queues: u64, available: u64) -> Result<(), VerbsError> {
    if mrs.saturating_add(queues) <= available / PINNED_SHARE {
        return Ok(());
    }
    Err(VerbsError::Unsupported(format!(
        "{mrs} bytes of MRs and about {queues} of queues are more than half of the {available} that are available"
    )))
}

/// Whether such memory comes out of what the host has available: a GPU has its own, and huge pages are set aside.
pub fn is_of_the_host(device: Device, huge_pages: bool) -> bool {
    !huge_pages && matches!(device, Device::Dram(_))
}

/// Memory that is still available, if the kernel reports it. Units: bytes.
pub fn available_bytes() -> Option<u64> {
    kelpie_engine::meminfo::bytes("MemAvailable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_and_huge_pages_leave_the_host_what_it_has() {
        for (device, huge_pages, expected) in
            [(Device::Dram(0), false, true), (Device::Dram(1), true, false), (Device::Gpu(0), false, false)]
        {
            assert_eq!(is_of_the_host(device, huge_pages), expected, "{device:?} {huge_pages}");
        }
    }

    #[test]
    fn the_budget_is_half_of_what_is_available() {
        for (mrs, queues) in [(4096, 0), (4000, 96), (0, 4096)] {
            let Err(VerbsError::Unsupported(text)) = check_budget(mrs, queues, 8191) else { panic!("{mrs} {queues}") };
            assert!(text.contains(&format!("{mrs} bytes of MRs and about {queues} of queues")), "{text}");
            check_budget(mrs, queues, 8192).expect("half");
        }
        assert!(check_budget(u64::MAX, 1, 8192).is_err());
        assert!(available_bytes() > Some(4096), "a page is there");
    }

    #[test]
    fn pages_stay_small_unless_huge_ones_were_asked_for() {
        let arena = Arena::new(Device::Dram(0), 4 << 20, false).expect("4 MiB");
        let range = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
        };
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("of this process");
        let is_arena = |line: &str| range(line).is_some_and(|range| range.contains(&arena.address()));
        let mut lines = smaps.lines().skip_while(|line| !is_arena(line));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).expect("every mapping has flags");
        let has_huge_pages = Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(flags.split_whitespace().any(|flag| flag == "nh"), has_huge_pages, "{flags}");
    }

    #[test]
    fn nodes_are_found_whatever_their_numbers() {
        let root = tempfile::tempdir().expect("a directory");
        for (name, expected) in [("online", &[][..]), ("node0", &[0]), ("node8", &[0, 8]), ("node256", &[0, 8])] {
            std::fs::create_dir(root.path().join(name)).expect("a directory");
            let mut found = nodes(root.path());
            found.sort_unstable();
            assert_eq!(found, expected, "{name}");
        }
        assert!(nodes(&root.path().join("none")).is_empty());
    }

    #[test]
    fn what_is_not_there_is_unsupported() {
        for device in [Device::Gpu(0), Device::Dram(250)] {
            assert!(matches!(Arena::new(device, 4096, false), Err(VerbsError::Unsupported(_))), "{device}");
        }
        let arena = Arena::new(Device::Dram(0), 8192, false).expect("two pages");
        assert_eq!(arena.address() % 4096, 0);
    }
}
