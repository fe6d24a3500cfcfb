//! The table of checks by itself, and the reference page of all checks.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;

#[test]
fn rows_are_in_order_and_whole_and_no_two_of_a_group_share_a_name() {
    let mut names = BTreeSet::new();
    for (index, row) in CHECKS.iter().enumerate() {
        assert_eq!(row.kind as usize, index, "{}", row.name);
        assert!(names.insert((row.group as usize, row.name)), "{} is there twice", row.name);
        for text in [row.measures, row.cause, row.test] {
            assert!(!text.is_empty() && !text.contains("  "), "{}: {text}", row.name);
        }
    }
    for (index, row) in GAUGES.iter().enumerate() {
        assert_eq!(row.gauge as usize, index, "{}", row.name);
        let same = GAUGES.iter().filter(|other| (other.kind, other.name) == (row.kind, row.name));
        assert_eq!(same.count(), 1, "{} is there twice", row.name);
    }
}

#[test]
fn every_step_is_offered_by_a_check_and_reads_as_one() {
    for (index, (repair, text)) in REPAIRS.iter().enumerate() {
        assert_eq!(*repair as usize, index, "{text}");
        assert!(CHECKS.iter().any(|row| row.repairs.contains(repair)), "no check offers: {text}");
        assert!(!text.contains("  "), "{text}");
    }
    let netdev = [("netdev", "eth0")];
    assert_eq!(Repair::RaiseMtu.text(&netdev), "ip link set dev eth0 mtu 4200");
}

/// What a step says, with words in capitals for what is known only on the host.
fn step(repair: Repair) -> String {
    let (_, text) = REPAIRS[repair as usize];
    let mut parts = text.split('<');
    let mut step = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (word, rest) = part.split_once('>').expect("a word is closed");
        step += &word.to_uppercase();
        step += rest;
    }
    step
}

fn gauge(row: &GaugeRow) -> String {
    let unit = if row.unit.is_empty() { String::new() } else { format!(" in {}", row.unit) };
    let better = match row.better {
        Higher => ", the higher the better",
        Lower => ", the lower the better",
        Neither => "",
    };
    format!("`{}`{unit}{better}", row.name)
}

fn page() -> String {
    let mut page = String::from(
        "# Checks\n\n\
         Generated from the table in `monitor/src/checks.rs`; a test fails when this page is stale and says how to renew\n\
         it.\n\n\
         A check has a state (`pass`, `warn`, `fail`, unknown or not applicable), its evidence, the step that repairs it,\n\
         and in JSON what it `measured`: numbers, each with its name, its unit and, if there is one, the `limit` at which\n\
         the check passes. A number that could not be read is left out. A word in capitals stands for what is known only\n\
         on the host.\n",
    );
    let groups = [
        (Host, "A host", "`kelpie doctor` and every campaign on a pair look at these."),
        (Pair, "Two hosts side by side", "`kelpie doctor --against` and every campaign on a pair compare these facts."),
        (Ports, "Both ports of a bond", "`kelpie paths check` looks at these, once for each direction."),
        (Inside, "The inside of a host", "`kelpie host topology` reads these beside the topology of a host."),
    ];
    assert!(CHECKS.iter().all(|row| groups.iter().any(|(group, ..)| *group == row.group)), "a group has no part");
    for (group, title, who) in groups {
        let _ = write!(page, "\n## {title}\n\n{who}\n");
        for row in CHECKS.iter().filter(|row| row.group == group) {
            let cost = match row.cost {
                Files => "reads files",
                Seconds => "some seconds of traffic",
                Minutes => "a minute of traffic or more, while a port is taken down",
            };
            let gauges: Vec<String> = GAUGES.iter().filter(|one| one.kind == row.kind).map(gauge).collect();
            let gauges = if gauges.is_empty() { "no numbers".to_owned() } else { gauges.join("; ") };
            let _ = write!(
                page,
                "\n### {}\n\n- What: {}\n- Cause: {}\n- Test: {}\n- Measured: {gauges}\n- Cost: {cost}\n",
                row.name, row.measures, row.cause, row.test
            );
            for repair in row.repairs {
                let _ = writeln!(page, "- Repair: {}", step(*repair));
            }
        }
    }
    wrapped(&page)
}

/// Lines of at most 120 columns; what goes on in another line is indented, as in a list.
fn wrapped(page: &str) -> String {
    const COLUMNS: usize = 120;
    let mut wrapped = String::new();
    for line in page.lines() {
        let mut columns = 0;
        for word in line.split(' ') {
            let width = word.chars().count();
            if columns > 0 && columns + 1 + width > COLUMNS {
                wrapped += "\n ";
                columns = 1;
            }
            if columns > 0 {
                wrapped.push(' ');
                columns += 1;
            }
            wrapped += word;
            columns += width;
        }
        wrapped.push('\n');
    }
    wrapped
}

#[test]
fn the_reference_page_is_not_stale() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/checks.md");
    if std::env::var_os("KELPIE_BLESS").is_some() {
        std::fs::write(path, page()).expect("docs/ is writable where the page is renewed");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/reference/checks.md is stale; renew it: KELPIE_BLESS=1 cargo test -p kelpie-monitor checks"
    );
}
