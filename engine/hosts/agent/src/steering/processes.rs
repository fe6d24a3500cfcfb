//! Processes of this host: a name that no later process has, and whether it still runs.

/// A process as `pid:start`; none if it is gone, or has ended and nobody has noticed.
///
/// Source: `proc_pid_stat(5)`: the third field is the state, the 22nd the start since boot. The name of the program, in
/// brackets before them, may hold anything.
pub fn name(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    (!matches!(state, "Z" | "X")).then(|| format!("{pid}:{start}"))
}

/// Whether it still runs.
pub fn is_alive(process: &str) -> bool {
    let pid = process.split(':').next().and_then(|pid| pid.parse().ok());
    pid.and_then(name).is_some_and(|now| now == process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_alive_until_it_ends_and_another_of_its_number_is_not_it() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let process = name(child.id().cast_signed()).expect("it runs");
        assert!(is_alive(&process) && !is_alive(&format!("{}:1", child.id())));
        child.kill().expect("it runs");
        // Its parent has not noticed yet.
        let ended = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            !is_alive(&process)
        });
        assert!(ended);
        child.wait().expect("it was ours");
        assert!(!is_alive("nobody") && !is_alive(""));
    }
}
