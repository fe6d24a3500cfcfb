//! The pages of a report in a headless Chromium, light and dark, on a phone and a desk. `make test-long` runs these
//! tests, and they fail without a Chromium.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Reported;
use crate::support::Bench;

/// Names that Chromium has on the systems we know.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Lowest contrast of text to what is behind it. Source: WCAG 2.2, success criterion 1.4.3, level AA.
const CONTRAST: f64 = 4.5;

fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    let found = found.into_iter().find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("no {} here: run xtask/scripts/setup.sh browser", NAMES.join(", ")))
}

/// Opens the harness over these pages and returns what it saw, and the console's lines but for the harness's own.
fn open(chromium: &Path, bench: &Bench, pages: &[String], dark: bool) -> (Value, Vec<String>) {
    let urls: Vec<String> = pages.iter().map(|page| format!("site/{page}")).collect();
    let harness = include_str!("harness.html").replace("PAGES", &serde_json::to_string(&urls).expect("names"));
    bench.write("harness.html", harness);
    let output = Command::new(chromium)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr"])
        // Pages of a site lie side by side, which Chromium otherwise takes for strangers to each other.
        .args(["--allow-file-access-from-files", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!dark)))
        .arg(format!("--user-data-dir={}", bench.path("chromium").display()))
        .arg(format!("file://{}", bench.path("harness.html").display()))
        .env("HOME", bench.path("."))
        .output()
        .expect("Chromium starts");
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (_, rest) = dom.split_once("<pre id=\"seen\">").unwrap_or_else(|| panic!("{dom}\n{log}"));
    let (text, _) = rest.split_once("</pre>").expect("the element ends");
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let seen = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{log}"));
    let (own, others): (Vec<&str>, Vec<&str>) =
        log.lines().filter(|line| line.contains("CONSOLE")).partition(|line| line.contains("the harness is done"));
    assert_eq!(own.len(), 1, "the console is seen: {log}");
    (seen, others.into_iter().map(str::to_owned).collect())
}

mod long {
    use super::*;

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn pages_fit_and_can_be_read_and_used() {
        let chromium = chromium();
        let reported = Reported::new();
        for dark in [false, true] {
            let (seen, console) = open(&chromium, &reported.bench, &reported.pages(), dark);
            assert!(console.is_empty(), "{console:#?}");
            let views = seen.as_array().expect("views");
            assert_eq!(views.len(), reported.pages().len() * 2, "each page at two widths");
            for view in views {
                let number = |key: &str| view[key].as_f64().unwrap_or_else(|| panic!("{key} in {view}"));
                assert!(number("overflow") <= 0.0, "{view}");
                assert!(
                    number("cut") <= 0.0 || number("width") < 1000.0,
                    "a table is cut off on a wide screen: {view}"
                );
                assert!(number("contrast") >= CONTRAST, "{view}");
                assert!((number("paper") < 0.2) == dark, "the page follows the scheme: {view}");
                assert!(number("plots") > 0.0 && number("texts") > 50.0, "{view}");
                assert_eq!(view["first_stop"], "#main", "the skip link comes first: {view}");
                assert_eq!(view["outlines"], true, "focus is seen: {view}");
                assert_eq!(view["sorted"], true, "{view}");
            }
        }
    }

    #[test]
    #[ignore = "long: make test-long runs it"]
    fn the_harness_sees_what_is_wrong() {
        let chromium = chromium();
        let bench = Bench::new();
        std::fs::create_dir(bench.path("site")).expect("a folder");
        let page = "<!doctype html><body style='color:#999'>pale<div style='width:3000px'>wide</div>\
                    <script>console.error('broken')</script>";
        bench.write("site/bad.html", page);
        let (seen, console) = open(&chromium, &bench, &["bad.html".to_owned()], false);
        let view = &seen[0];
        assert!(view["overflow"].as_f64().expect("a number") > 1000.0, "{view}");
        assert!(view["contrast"].as_f64().expect("a number") < CONTRAST, "{view}");
        assert!(console.iter().any(|line| line.contains("broken")), "{console:?}");
    }
}
