//! Which CPUs are near a device, and keeping a thread on one of them.

use std::path::Path;
use std::{fs, io};

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

/// Bits of a word of the kernel's sets of CPUs.
const WORD: usize = libc::c_ulong::BITS as usize;

/// CPUs that a set has room for at first, and at most. Source: kernel `arch/x86/Kconfig` (`NR_CPUS_RANGE_END`, 8192),
/// with room for more; the C library's set ends at 1,024.
const FIRST_CPUS: usize = 1_024;
const MOST_CPUS: usize = 1 << 16;

fn restrict(cpus: &[usize]) -> io::Result<()> {
    let set = set_of(cpus);
    // SAFETY: the set lives through the call and has the size that is passed; the kernel takes sets of any length.
    let status = unsafe { libc::sched_setaffinity(0, size_of_val(&*set), set.as_ptr().cast()) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn allowed() -> Vec<usize> {
    // The kernel refuses a set that is shorter than its own, and does not say how long that is.
    let mut room = FIRST_CPUS;
    while room <= MOST_CPUS {
        let mut set: Vec<libc::c_ulong> = vec![0; room / WORD];
        // SAFETY: the set has the size that is passed, and the kernel writes no more.
        if unsafe { libc::sched_getaffinity(0, size_of_val(&*set), set.as_mut_ptr().cast()) } == 0 {
            return cpus_of(&set);
        }
        room *= 2;
    }
    vec![0]
}

/// CPUs as the kernel's set of them.
fn set_of(cpus: &[usize]) -> Vec<libc::c_ulong> {
    let length = cpus.iter().max().map_or(1, |last| last / WORD + 1);
    let mut set = vec![0; length];
    for cpu in cpus {
        set[cpu / WORD] |= 1 << (cpu % WORD);
    }
    set
}

fn cpus_of(set: &[libc::c_ulong]) -> Vec<usize> {
    (0..set.len() * WORD).filter(|cpu| set[cpu / WORD] & 1 << (cpu % WORD) != 0).collect()
}

/// CPUs of a list such as `0-3,8`. Source: kernel `Documentation/admin-guide/cputopology.rst`.
fn parse(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?.min(MOST_CPUS))
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
        assert_eq!(parse("1022-1025,4095"), [1022, 1023, 1024, 1025, 4095]);
    }

    #[test]
    fn sets_hold_cpus_beyond_those_of_the_c_library() {
        for cpus in [vec![0], vec![1023, 1024], vec![3, 1500, 8191]] {
            assert_eq!(cpus_of(&set_of(&cpus)), cpus);
        }
        // No host of these tests has this CPU: a set that leaves it out without a word would be empty or succeed.
        let refused = std::thread::spawn(|| pin(60_000)).join().expect("no panic");
        assert_eq!(refused.map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
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
