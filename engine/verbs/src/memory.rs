//! Anonymous memory on a NUMA node, to be registered. Registration is in `mr`.

use std::ffi::c_void;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::{fs, io};

use kelpie_spaces::Device;

use crate::error::VerbsError;

/// Where the kernel lists NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// Share of the available memory that a session may pin: one in this many.
/// Source: our choice, because the host has to live on beside it.
const PINNED_SHARE: u64 = 2;

/// `MPOL_BIND`. Source: `linux/mempolicy.h`.
const MPOL_BIND: i32 = 2;

/// A mapping.
pub struct Arena {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: the memory is only read and written by the device and never through Rust references.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `length` bytes on `device`.
    pub fn new(device: Device, length: usize) -> Result<Self, VerbsError> {
        let node = match device {
            Device::Dram(node) => node,
            Device::Gpu(_) => {
                return Err(VerbsError::Unsupported(format!("{device}: GPU memory is not supported yet")));
            }
        };
        if node > 0 && !Path::new(NODES).join(format!("node{node}")).exists() {
            return Err(VerbsError::Unsupported(format!("{device}: this host has no NUMA node {node}")));
        }
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no memory of this process.
        let start = unsafe { libc::mmap(null_mut(), length, access, flags, -1, 0) };
        let failed = |operation| VerbsError::Memory { operation, bytes: length, source: io::Error::last_os_error() };
        if start == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        let arena = Self { start: NonNull::new(start).ok_or_else(|| failed("mmap"))?, length };
        if has_several_nodes() {
            arena.bind(node).map_err(|source| VerbsError::Memory { operation: "mbind", bytes: length, source })?;
        }
        Ok(arena)
    }

    /// Address of byte `offset`.
    pub fn at(&self, offset: usize) -> *mut c_void {
        assert!(offset < self.length, "an offset lies within its arena");
        self.start.as_ptr().wrapping_byte_add(offset)
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

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, unmapped once; every MR in it holds a reference to it and is gone.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

fn has_several_nodes() -> bool {
    Path::new(NODES).join("node1").exists()
}

/// Refuses what would leave the host without memory.
pub fn check_budget(bytes: u64) -> Result<(), VerbsError> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match available(&text) {
        Some(available) if bytes > available / PINNED_SHARE => Err(VerbsError::Unsupported(format!(
            "{bytes} bytes of MRs are more than half of the {available} bytes of memory that are available"
        ))),
        _ => Ok(()),
    }
}

/// `MemAvailable` in bytes. Source: `proc_meminfo(5)`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_read_from_meminfo() {
        assert_eq!(available("MemTotal:  100 kB\nMemAvailable:    50 kB\n"), Some(51_200));
        assert_eq!(available("MemTotal: 100 kB\n"), None);
        assert!(matches!(check_budget(u64::MAX), Err(VerbsError::Unsupported(_))));
        check_budget(4096).expect("a page is there");
    }

    #[test]
    fn what_is_not_there_is_unsupported() {
        for device in [Device::Gpu(0), Device::Dram(250)] {
            assert!(matches!(Arena::new(device, 4096), Err(VerbsError::Unsupported(_))), "{device}");
        }
        let arena = Arena::new(Device::Dram(0), 8192).expect("two pages");
        assert_eq!(arena.at(4096) as usize - arena.at(0) as usize, 4096);
    }
}
