//! Tests of whole sites: hostile text, and campaigns in which something is missing.

use kelpie_monitor::{Check, CheckKind, CheckState, Symptom};
use kelpie_store::{CampaignClock, ExperimentClock, Store};

use super::*;
use crate::identity::Difference;
use crate::recipe::of_finding;
use crate::signal_history::SignalHistories;
use crate::stored_campaign::ExperimentSummary;
use crate::testing::{
    HOSTILE, definition, finding, inconclusive, measured, one_finding, sample, stored_campaign, unsupported, workload,
};

/// What is a recipe is not the site's affair.
fn recipes() -> BTreeMap<u64, Vec<u8>> {
    BTreeMap::from([(1, b"a recipe".to_vec())])
}

fn render(stored: &StoredCampaign, recipes: BTreeMap<u64, Vec<u8>>, gate: &Gate) -> Result<Vec<SiteFile>, SiteError> {
    let mut files = Vec::new();
    super::render(stored, recipes, gate, &mut |file| {
        files.push(file);
        Ok(())
    })?;
    Ok(files)
}

fn text(files: &[SiteFile], name: &str) -> String {
    let file = files.iter().find(|file| file.name == name).unwrap_or_else(|| panic!("no {name}"));
    String::from_utf8(file.bytes.clone()).unwrap()
}

#[test]
fn a_site_has_a_page_and_a_workload_for_each_finding() {
    let files = render(&one_finding(), recipes(), &Gate::default()).unwrap();
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "index.html",
            "summary.md",
            "junit.xml",
            "plots/timeline-growth.png",
            "plots/timeline-utilisation.png",
            "plots/timeline-counter-1.png",
            "finding-1.html",
            "finding-1.yaml",
            "finding-1.tar.gz",
            "plots/finding-1-throughput.png",
            "plots/finding-1-pause.png",
            "plots/finding-1-qps.png",
        ]
    );
    let index = text(&files, "index.html");
    for expected in [
        "5: 2 healthy, 1 anomalous, 1 inconclusive, 1 unsupported",
        "href=\"finding-1.html\"",
        "exactly a to b RC WRITE 2KiB, 4 QPs",
        "200.0 Gbit/s",
        "<html lang=\"en\">",
        "pinned",
    ] {
        assert!(index.contains(expected), "{expected}");
    }
    let page = text(&files, "finding-1.html");
    for expected in [
        "Of the healthy ones experiment 5 is nearest: its workload differs in 3 features.",
        "keep QPs of one flow below 3",
        "cures it",
        "<code>cache_miss</code>",
        "30.0 %",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert_eq!(kelpie_spaces::workload_from_yaml("page", &text(&files, "finding-1.yaml")).unwrap(), workload(4, 4096));
}

#[test]
fn a_report_says_when_it_ran_and_what_was_changed() {
    let mut stored = one_finding();
    stored.clock = CampaignClock { started_unix_ms: Some(1_700_000_000_000), measured_seconds: 61.0 };
    let (a, b) = (Some("200".to_owned()), Some("100".to_owned()));
    stored.changed.push(Difference { about: "port.line_rate_gbps".to_owned(), a, b });
    let files = render(&stored, recipes(), &Gate::default()).unwrap();
    for file in ["index.html", "summary.md", "junit.xml"] {
        let text = text(&files, file).replace('\\', "");
        for expected in ["2023-11-14T22:13:20Z", "1m1s", "port.line_rate_gbps 100 instead of 200"] {
            assert!(text.contains(expected), "{file}: {expected}\n{text}");
        }
    }
}

#[test]
fn a_page_says_what_no_random_workload_has_shown_yet() {
    let mut stored = one_finding();
    let page = |stored: &StoredCampaign| text(&render(stored, recipes(), &Gate::default()).unwrap(), "finding-1.html");
    assert!(page(&stored).contains("Random workloads measured that meet these conditions: 36."));
    stored.findings[0].evidence["validated"] = 0.into();
    let page = page(&stored);
    assert!(page.contains("No random workload was measured") && !page.contains("95 % confidence"), "{page}");
}

#[test]
fn equal_campaigns_give_equal_bytes() {
    assert_eq!(
        render(&one_finding(), recipes(), &Gate::default()).unwrap(),
        render(&one_finding(), recipes(), &Gate::default()).unwrap()
    );
}

#[test]
fn hostile_text_is_shown_as_text() {
    let mut stored = one_finding();
    let definition = &mut stored.campaign.definition;
    for name in [
        &mut definition.subsystem,
        &mut definition.space,
        &mut definition.algorithm,
        &mut definition.signal,
        &mut definition.kelpie_version,
    ] {
        HOSTILE.clone_into(name);
    }
    let evidence = stored.findings[0].evidence.clone();
    let purpose = kelpie_store::StoredPurpose::from(HOSTILE.to_owned());
    stored.courses.take(2, &purpose, BTreeMap::from([(HOSTILE.to_owned(), 1.0)]));
    stored.points[1].purpose = purpose;
    let detail = stored.details.get_mut(&2).unwrap();
    detail.events.push(HOSTILE.to_owned());
    detail.mean.as_mut().unwrap().counters.a.insert(HOSTILE.to_owned(), 1.0);
    stored.findings[0].mfs.conditions.push(kelpie_spaces::Condition {
        feature: kelpie_spaces::Feature::Opcode,
        test: kelpie_spaces::Test::In(vec![HOSTILE.to_owned()]),
    });
    stored.findings[0].evidence = evidence;
    stored.label.note = Some("\u{1b}[2J\u{7}\u{9b}31m\u{202e}".to_owned());
    let files = render(&stored, recipes(), &Gate::default()).unwrap();
    let is_text = |file: &&SiteFile| [".html", ".md", ".xml", ".yaml"].iter().any(|end| file.name.ends_with(end));
    for file in files.iter().filter(is_text) {
        let steers = |c: &char| kelpie_text::steers(*c) && !matches!(c, '\n' | '\t');
        assert_eq!(text(&files, &file.name).chars().find(steers), None, "{}", file.name);
    }
    for name in ["index.html", "finding-1.html"] {
        let page = text(&files, name);
        assert!(page.contains("&lt;script&gt;alert(1)"), "{name} shows it");
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "{name}");
        assert_eq!(page.matches("<script").count(), 1, "{name} has only its own script");
    }
    assert!(files.iter().all(|file| file.name.bytes().all(|c| c.is_ascii_alphanumeric() || b"./-".contains(&c))));
}

#[test]
fn a_campaign_may_be_empty_or_say_nothing() {
    for experiments in [Vec::new(), vec![inconclusive(1), unsupported(2)]] {
        let files = render(&stored_campaign(experiments, Vec::new()), recipes(), &Gate::default()).unwrap();
        let index = text(&files, "index.html");
        assert!(index.contains("No finding in") && index.contains("nothing to plot"), "{index}");
        assert_eq!(files.len(), 3);
    }
}

#[test]
fn bounds_of_nothing_are_no_endless_axis() {
    let mut stored = one_finding();
    stored.campaign.definition.bounds = kelpie_monitor::Bounds::new(0.0, 0.0);
    stored.courses = SignalHistories::default();
    for point in &mut stored.points {
        point.utilisation = None;
    }
    assert!(text(&render(&stored, recipes(), &Gate::default()).unwrap(), "finding-1.html").contains("none"));
}

#[test]
fn a_finding_needs_neither_a_healthy_neighbour_nor_pause_counters_nor_known_evidence() {
    let low = vec![Symptom::LowThroughput];
    let mut stored = stored_campaign(
        vec![measured(1, workload(4, 1024), sample(0.2, None), low)],
        vec![finding(1, 1, workload(4, 1024))],
    );
    stored.findings[0].evidence = serde_json::json!({"of": "another version"});
    stored.findings[0].mfs.conditions.clear();
    let files = render(&stored, recipes(), &Gate::default()).unwrap();
    let page = text(&files, "finding-1.html");
    for expected in [
        "This campaign measured no healthy workload outside the conditions",
        "no pause counters",
        "was not stored",
        "It has none: every workload of the space meets them",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!files.iter().any(|file| file.name.ends_with("pause.png")));
}

#[test]
fn a_page_links_to_the_recipe_or_says_that_there_is_none() {
    let page = |recipes| text(&render(&one_finding(), recipes, &Gate::default()).unwrap(), "finding-1.html");
    assert!(page(recipes()).contains("href=\"finding-1.tar.gz\""));
    let without = page(BTreeMap::new());
    assert!(!without.contains("tar.gz") && without.contains("no measurement of this workload"), "{without}");
}

/// A stored campaign of `one_finding` and an experiment that is healthy inside the finding's region: of all healthy
/// ones it differs from the finding's workload in the fewest features.
fn read_back() -> StoredCampaign {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::create(directory.path().join("campaigns.db")).unwrap();
    let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
    let low = vec![Symptom::LowThroughput];
    let experiments = [
        measured(1, workload(1, 1024), sample(0.95, Some(0.0)), Vec::new()),
        measured(2, workload(4, 4096), sample(0.3, Some(0.2)), low),
        measured(3, workload(4, 1024), sample(0.9, Some(0.0)), Vec::new()),
        measured(4, workload(2, 4096), sample(0.97, Some(0.0)), Vec::new()),
        measured(5, workload(1, 4096), sample(0.98, Some(0.0)), Vec::new()),
    ];
    for experiment in &experiments {
        store.append_experiment(id, experiment, ExperimentClock { started_unix_ms: 0, duration_seconds: 0.1 }).unwrap();
    }
    store.put_finding(id, &finding(1, 2, workload(4, 4096))).unwrap();
    StoredCampaign::read(&mut store, id).unwrap()
}

#[test]
fn a_page_and_its_recipe_name_the_same_neighbour() {
    let stored = read_back();
    let record = &stored.findings[0];
    let inside = stored.point(3).unwrap();
    let nearest = stored.healthy_neighbour(record).unwrap();
    let differing = |point: &ExperimentSummary| record.workload.differing(&point.workload).len();
    assert!(differing(inside) < differing(nearest), "without the region the other one would be the neighbour");
    assert_eq!(nearest.number, 4, "of equals the first");

    let page = text(&render(&stored, recipes(), &Gate::default()).unwrap(), "finding-1.html");
    assert!(page.contains("Of the healthy ones experiment 4 is nearest"), "{page}");
    let recipe = of_finding(&stored, record).unwrap();
    assert_eq!(recipe.healthy.unwrap().workload, nearest.workload);
}

#[test]
fn checks_of_the_hosts_are_shown_where_there_are_any() {
    let mut stored = one_finding();
    assert!(!text(&render(&stored, recipes(), &Gate::default()).unwrap(), "index.html").contains("Hosts"));
    stored.checks = vec![
        Check::new(CheckKind::Mtu, CheckState::Pass, "9000 on the interface")
            .about("host a, mlx5_0 port 1")
            .seen("/sys/mtu", "9000"),
        Check::new(CheckKind::Pfc, CheckState::Warn, HOSTILE).about("host b").seen(HOSTILE, HOSTILE),
    ];
    stored.checks[1].fix = Some(HOSTILE.to_owned());
    let index = text(&render(&stored, recipes(), &Gate::default()).unwrap(), "index.html");
    for expected in
        ["2 checks of the hosts: 0 failed, 1 warned", "host a, mlx5_0 port 1", "<code>/sys/mtu</code>: 9000"]
    {
        assert!(index.contains(expected), "{expected}");
    }
    assert!(!index.contains("<script>alert"), "{index}");
}

#[test]
fn the_report_names_every_feature_as_the_table_does() {
    let index = text(&render(&one_finding(), recipes(), &Gate::default()).unwrap(), "index.html");
    for feature in kelpie_spaces::Feature::ALL {
        let named = format!("{} <code class=\"soft\">{feature}</code>", feature.phrase());
        assert!(index.contains(&named), "{named}");
    }
}
