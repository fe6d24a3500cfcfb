//! `kelpie paths steer`: runs a program whose QPs ask the host's agent for source ports, and shows which got which.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde::Serialize;
use serde_json::json;

use crate::args::Common;
use crate::cli::paths::SteerArgs;
use crate::exit;
use crate::output::{Table, note, plural, print, print_json};
use crate::preloaded;

/// Longest file of a process. Units: bytes. Source: what the library writes at most, and a line.
const LONGEST: u64 = 9 << 20;

/// Most processes that are shown. Source: our choice.
const MOST: usize = 4096;

/// What came of a QP.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Steered {
    process: u32,
    qp: u32,
    peer_qp: u32,
    source_port: Option<u16>,
    side: Option<String>,
    why_not: Option<String>,
}

/// Runs the command.
pub fn run(args: &SteerArgs, common: Common) -> anyhow::Result<ExitCode> {
    // A relative path means another file once the program changes its directory.
    let socket = std::path::absolute(&args.socket).context("the path of the socket")?;
    if !socket.exists() {
        bail!(
            "{} is not there: start this host's agent with `--steer {} --planner ADDRESS:PORT`, or name its socket with \
             --socket",
            socket.display(),
            socket.display()
        );
    }
    let notes = tempfile::Builder::new().prefix("kelpie-steer-").tempdir().context("a directory for notes")?;
    let variables = [("KELPIE_STEER_SOCKET", socket.as_os_str()), ("KELPIE_STEER_DIR", notes.path().as_os_str())];
    let (program, status) = preloaded::run(&args.command, &variables, common.json)?;
    let qps = read(notes.path())?;
    if common.json {
        print_json(&json!({"program": program, "status": status.code(), "qps": qps}))?;
    } else {
        show(&qps)?;
    }
    if status.success() {
        return Ok(exit::HEALTHY);
    }
    note(&format!("{} ended with {status}", program.escape_debug()));
    Ok(exit::failed())
}

fn read(folder: &Path) -> anyhow::Result<Vec<Steered>> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).context("the directory of notes")?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.truncate(MOST);
    let mut qps = Vec::new();
    for path in paths {
        let Some(process) = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()) else { continue };
        let text = kelpie_examine::files::read_file_up_to(&path, LONGEST)?;
        qps.extend(String::from_utf8_lossy(&text).lines().filter_map(|line| steered(process, line)));
    }
    Ok(qps)
}

/// `QP PEER port 50012 left`, or `QP PEER none WHY`.
fn steered(process: u32, line: &str) -> Option<Steered> {
    let mut words = line.splitn(4, ' ');
    let (qp, peer_qp) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut steered = Steered { process, qp, peer_qp, source_port: None, side: None, why_not: None };
    match (words.next()?, words.next().unwrap_or_default()) {
        ("port", rest) => {
            let (port, side) = rest.split_once(' ')?;
            steered.source_port = Some(port.parse().ok()?);
            steered.side = Some(side.to_owned()).filter(|side| side == "left" || side == "right");
        }
        ("none", why) => steered.why_not = Some(why.to_owned()),
        _ => return None,
    }
    Some(steered)
}

fn show(qps: &[Steered]) -> anyhow::Result<()> {
    let mut table = Table::new(&["process", "QP", "peer QP", "source port", "side", ""], &[0, 1, 2, 3]);
    for qp in qps {
        let own = qp.source_port.map_or("its own".to_owned(), |port| port.to_string());
        table.row(vec![
            qp.process.to_string(),
            qp.qp.to_string(),
            qp.peer_qp.to_string(),
            own,
            qp.side.clone().unwrap_or_else(|| "-".to_owned()),
            kelpie_text::clean(qp.why_not.as_deref().unwrap_or_default()),
        ]);
    }
    let steered = qps.iter().filter(|qp| qp.source_port.is_some()).count() as u64;
    let mut text = if table.is_empty() { String::new() } else { table.render("") };
    let _ = writeln!(text, "{} steered, {} as the program had them", plural(steered, "QP"), qps.len() as u64 - steered);
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_library_are_read_and_others_are_not() {
        let port = steered(7, "17 18 port 50012 left").expect("a line");
        assert_eq!((port.source_port, port.side.as_deref(), port.why_not), (Some(50_012), Some("left"), None));
        let none = steered(7, "17 18 none the agent did not answer in 50 ms").expect("a line");
        assert_eq!((none.source_port, none.why_not.as_deref()), (None, Some("the agent did not answer in 50 ms")));
        for bad in ["", "17", "17 18", "x 18 port 1 left", "17 18 port left", "17 18 other"] {
            assert_eq!(steered(7, bad), None, "{bad}");
        }
    }
}
