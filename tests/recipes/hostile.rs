//! Recipes of strangers: archives that tar makes, models that would run for ever.

use std::io::Write;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use super::{export, replay_of};
use crate::support::Bench;

/// Hostile archives of every kind are in the tests of `reports`; these are made by the tar that everybody has.
#[test]
fn archives_of_tar_are_read_or_refused_and_nothing_is_unpacked() {
    let bench = Bench::new();
    export(&bench, "anomaly:8", "r", &[]);
    std::os::unix::fs::symlink("r/recipe.json", bench.path("link.json")).expect("a link");
    let tar = |args: &[&str]| {
        let done = Command::new("tar").args(args).current_dir(bench.path(".")).output().expect("tar is there");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    tar(&["--format=ustar", "-C", "r", "-czf", "good.tar.gz", "recipe.json", "README.md", "perftest.txt"]);
    tar(&["-C", "r", "-czf", "gnu.tar.gz", "recipe.json"]);
    tar(&["-czf", "folder.tgz", "r"]);
    for archive in ["good.tar.gz", "gnu.tar.gz", "folder.tgz"] {
        assert_eq!(bench.json(1, &["recipe", "replay", archive])["outcome"], "reproduced");
    }
    tar(&["-P", "--transform=s,^,../../escaped/,", "-C", "r", "-czf", "up.tar.gz", "recipe.json"]);
    tar(&["--transform=s,link,recipe,", "-czf", "link.tar.gz", "link.json"]);
    tar(&["--format=pax", "-C", "r", "-czf", "pax.tar.gz", "recipe.json"]);
    bench.write("bomb.tar.gz", bomb(64 << 20));
    bench.write("no.tar.gz", "not gzip");
    let table = [
        ("up.tar.gz", "entry `../../escaped/recipe.json` is none of"),
        ("link.tar.gz", "entry `recipe.json` is a symbolic link"),
        ("pax.tar.gz", "is an extension header"),
        ("bomb.tar.gz", "unpacks to more than"),
        ("no.tar.gz", "not a complete gzip archive"),
        ("gone.tar.gz", "cannot be read"),
    ];
    let before = names(&bench);
    for (archive, fragment) in table {
        for command in [&["recipe", "replay", archive][..], &["findings", "import", archive, "--db", "new.db"]] {
            let ran = bench.run(command);
            assert_eq!(ran.status, Some(2), "{archive}: {ran:?}");
            assert!(ran.stderr.starts_with(&format!("error: {archive}: ")), "{archive}: {}", ran.stderr);
            assert!(ran.stderr.contains(fragment), "{archive}: {}", ran.stderr);
        }
    }
    assert_eq!(names(&bench), before, "nothing was unpacked, no database begun");
}

fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.path(".")).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn bomb(length: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; length]).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn a_strangers_model_is_bounded() {
    let bench = Bench::new();
    let good = export(&bench, "anomaly:1", "r", &[]);
    let model = good["environment"]["model"].as_str().expect("a model").to_owned();
    let events = model.lines().find(|line| line.trim_start().starts_with("max_events:")).expect("a bound").trim();
    let table = [
        (model.replace(events, "max_events: 4000000000"), "at most 4000000 are accepted"),
        (model.replace("name: F\n", "name: \"\\e[31m\"\nnot_there: 1\n"), "environment.model"),
        ("base: /etc/passwd\n".to_owned(), "environment.model"),
        ("a: &a [x]\nb: *a\n".to_owned(), "aliases"),
    ];
    for (model, fragment) in table {
        let mut bent = good.clone();
        bent["environment"]["model"] = json!(model);
        let ran = replay_of(&bench, &bent);
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(fragment) && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
    let mut real = good;
    real["environment"] = json!({"subsystem": "pair", "hosts": {"a": {}, "b": {}}});
    assert!(replay_of(&bench, &real).stderr.contains("--subsystem"));
}
