//! What the kernel reports of this machine's memory.

/// Memory that the kernel gives under `name`, such as `MemTotal`; `None` if it gives none. Units: bytes.
///
/// Source: `proc_meminfo(5)`.
pub fn bytes(name: &str) -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

fn parse(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_name() {
        assert_eq!(parse("MemTotal:       1000 kB\nMemFree: 1 kB\n", "MemTotal"), Some(1_024_000));
        assert_eq!(parse("MemFree: 1 kB\n", "MemTotal"), None);
        assert_eq!(parse("MemTotal:  100 kB\nMemAvailable:    50 kB\n", "MemAvailable"), Some(51_200));
        assert_eq!(parse("MemTotal: 100 kB\n", "MemAvailable"), None);
    }
}
