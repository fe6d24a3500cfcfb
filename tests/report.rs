//! The report of a real small campaign: whole, without the network, and in a browser. Tests of its text are in reports.

mod browser;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Bench, SMALL_SPACE};

/// The name of a space file that would be markup if it is not escaped, and is wider than a phone.
const HOSTILE_NAME: &str =
    "<img src=x onerror=alert(1)>wider-than-a-phone-0123456789012345678901234567890123456789012345678901234567890.yaml";

/// A campaign of 30 experiments on subsystem F, and its report.
struct Reported {
    bench: Bench,
    document: Value,
}

impl Reported {
    fn new() -> Self {
        let bench = Bench::new();
        let space = bench.write(HOSTILE_NAME, SMALL_SPACE);
        let run = ["campaign", "run", "--subsystem", "sim:F", "--budget", "30", "--seed", "1", "--db", "c.db"];
        bench.expect(0, &[&run[..], &["--space", space]].concat());
        let document = bench.json(0, &["report", "--db", "c.db", "--out", "site"]);
        Self { bench, document }
    }

    fn site(&self) -> PathBuf {
        self.bench.path("site")
    }

    fn files(&self) -> BTreeSet<String> {
        let files = self.document["files"].as_array().expect("files");
        files.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    }

    fn pages(&self) -> Vec<String> {
        self.files().into_iter().filter(|name| name.strip_suffix(".html").is_some()).collect()
    }
}

/// The values of an attribute in a page.
fn attributes<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let opening = format!(" {name}=\"");
    page.split(opening.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

fn on_disk(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("UTF-8");
        if entry.path().is_dir() {
            names.extend(on_disk(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            names.insert(name);
        }
    }
    names
}

#[test]
fn a_report_is_whole_and_needs_no_network() {
    let reported = Reported::new();
    let (site, files) = (reported.site(), reported.files());
    assert_eq!(files, on_disk(&site), "the document names what is there");
    let shown = reported.bench.json(0, &["campaign", "show", "--db", "c.db"]);
    assert_eq!(reported.document["experiments"], shown["experiments"]);
    let findings = reported.document["findings"].as_u64().expect("findings");
    assert!(findings >= 1, "a campaign of this seed and budget finds something");
    assert!(files.contains("plots/timeline-utilisation.png") && files.contains("junit.xml"));
    assert_eq!(reported.pages().len() as u64, 1 + findings);

    let bytes: u64 = files.iter().map(|name| std::fs::metadata(site.join(name)).expect("there").len()).sum();
    assert_eq!(reported.document["bytes"], bytes);
    let bound = (256 << 10) + findings * (128 << 10);
    assert!(bytes < bound, "{bytes} bytes for 30 experiments and {findings} findings");

    for name in reported.pages() {
        let page = std::fs::read_to_string(site.join(&name)).expect("UTF-8");
        let ids = attributes(&page, "id");
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{name}: ids are unique");
        for link in attributes(&page, "href").into_iter().chain(attributes(&page, "src")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            assert!(file.is_empty() || files.contains(file), "{name} links to {link}");
            assert!(anchor.is_empty() || ids.contains(&anchor), "{name} links to {link}");
        }
        for named in attributes(&page, "aria-labelledby") {
            assert!(ids.contains(&named), "{name}: {named}");
        }
        // The name space of SVG is a name; nothing is loaded from there.
        let loaded = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!loaded.contains("http://") && !loaded.contains("https://"), "{name}");
        assert!(!page.contains("<img") && page.contains("&lt;img src=x"), "{name} shows the space's name as text");
        assert!(!page.contains("url(") && !page.contains("@import"), "{name}");
    }
    for name in files.iter().filter(|name| name.strip_suffix(".png").is_some()) {
        assert!(std::fs::read(site.join(name)).expect("there").starts_with(b"\x89PNG"), "{name}");
    }
}

#[test]
fn a_workload_of_a_report_can_be_measured_and_its_finding_shows() {
    let reported = Reported::new();
    let ran = reported.bench.run(&["recipe", "replay", "site/finding-1.tar.gz"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let ran = reported.bench.run(&["measure", "site/finding-1.yaml", "--subsystem", "sim:F"]);
    assert_eq!(ran.status, Some(1), "{ran:?}");
}

#[test]
fn a_report_replaces_only_a_report_and_only_when_asked() {
    let reported = Reported::new();
    let bench = &reported.bench;
    let report = |more: &[&str]| bench.run(&[&["report", "1", "--db", "c.db", "--out", "site"], more].concat());
    let refused = report(&[]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let before = std::fs::read(bench.path("site/index.html")).expect("there");
    let replaced = report(&["--force"]);
    assert_eq!(replaced.status, Some(0), "{replaced:?}");
    assert!(replaced.stdout.ends_with("site/index.html\n"), "{}", replaced.stdout);
    assert_eq!(std::fs::read(bench.path("site/index.html")).expect("there"), before, "equal campaigns, equal bytes");
    std::fs::write(bench.path("site/mine.txt"), "mine").expect("written");
    let refused = report(&["--force"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("mine.txt") && bench.path("site/mine.txt").exists(), "{}", refused.stderr);
}

#[test]
fn there_is_nothing_to_report_without_a_campaign() {
    let bench = Bench::new();
    let missing = bench.run(&["report", "--db", "none.db", "--out", "site"]);
    assert_eq!(missing.status, Some(2), "{missing:?}");
    assert!(!bench.path("site").exists());
    bench.expect(0, &["campaign", "run", "--subsystem", "sim:F", "--budget", "1", "--db", "c.db"]);
    let unknown = bench.run(&["report", "7", "--db", "c.db", "--out", "site"]);
    assert_eq!(unknown.status, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains('7') && !bench.path("site").exists(), "{}", unknown.stderr);
}
