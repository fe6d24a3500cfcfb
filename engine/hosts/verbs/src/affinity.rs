//! Which CPUs are near a device, and keeping a thread on one of them.

use std::path::Path;
use std::{fs, io, mem};

/// Where the kernel lists NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// CPUs that this process may use and that share the NUMA node of an RDMA device; all that it may use if the
/// device names no node.
pub fn cpus_near(device_root: &Path, device: &str) -> Vec<usize> {
    let allowed = allowed();
    let node = fs::read_to_string(device_root.join(device).join("device/numa_node")).unwrap_or_default();
    // A machine without NUMA says -1.
    let Ok(node) = node.trim().parse::<u32>() else { return allowed };
    let list = fs::read_to_string(format!("{NODES}/node{node}/cpulist")).unwrap_or_default();
    let near: Vec<usize> = parse(list.trim()).into_iter().filter(|cpu| allowed.contains(cpu)).collect();
    if near.is_empty() { allowed } else { near }
}

/// Keeps the calling thread on this CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    restrict(&[cpu])
}

/// Does `work` on these CPUs, as do the threads that it starts; on the CPUs of before if these are not allowed.
pub fn on<T>(cpus: &[usize], work: impl FnOnce() -> T) -> T {
    let before = allowed();
    if let Err(error) = restrict(cpus) {
        tracing::warn!(%error, ?cpus, "objects are not created near the device");
    }
    let done = work();
    if let Err(error) = restrict(&before) {
        tracing::warn!(%error, "a thread stays near the device");
    }
    done
}

fn restrict(cpus: &[usize]) -> io::Result<()> {
    // SAFETY: a CPU set is an array of integers, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for cpu in cpus {
        // SAFETY: `CPU_SET` ignores a CPU beyond the set.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    // SAFETY: the set lives through the call.
    let status = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn allowed() -> Vec<usize> {
    // SAFETY: as in `pin`; the kernel writes the set.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set has the size that is passed.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
        return vec![0];
    }
    // SAFETY: every index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// CPUs of a list such as `0-3,8`. Source: kernel `Documentation/admin-guide/cputopology.rst`.
fn parse(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?.min(libc::CPU_SETSIZE as usize))
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        for (list, expected) in [("0", vec![0]), ("0-2,5", vec![0, 1, 2, 5]), ("", vec![]), ("x,3-", vec![])] {
            assert_eq!(parse(list), expected, "{list}");
        }
    }

    #[test]
    fn a_device_without_a_node_may_use_every_allowed_cpu() {
        let root = tempfile::tempdir().expect("a directory");
        assert_eq!(cpus_near(root.path(), "nic0"), allowed());
        fs::create_dir_all(root.path().join("nic0/device")).expect("a directory");
        for node in ["-1", "250"] {
            fs::write(root.path().join("nic0/device/numa_node"), node).expect("a file");
            assert_eq!(cpus_near(root.path(), "nic0"), allowed());
        }
    }

    #[test]
    fn work_is_done_on_the_cpus_named_and_the_thread_comes_back() {
        let seen = std::thread::spawn(|| {
            let all = allowed();
            let one = &all[all.len() - 1..];
            let within = on(one, || std::thread::spawn(allowed).join().expect("no panic"));
            (within == one, allowed() == all)
        });
        assert_eq!(seen.join().expect("no panic"), (true, true));
    }

    #[test]
    fn a_thread_stays_where_it_is_put() {
        let cpu = *allowed().last().expect("this test runs somewhere");
        let seen = std::thread::spawn(move || {
            pin(cpu).expect("the CPU is allowed");
            allowed()
        });
        assert_eq!(seen.join().expect("no panic"), [cpu]);
    }
}
