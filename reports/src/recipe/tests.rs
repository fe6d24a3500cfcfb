//! Recipes read back, refusals name the key or the entry, and no bytes make the reader panic.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use kelpie_monitor::{Bounds, DirectionRates, PerHost, Sample, Symptom, Verdict};
use kelpie_spaces::{Bytes, Condition, Feature, Host, Test, known};
use proptest::prelude::*;
use tar::{EntryType, Header};

use super::limits::{MAX_ARCHIVE, MAX_UNPACKED};
use super::*;

fn recipe() -> Recipe {
    let anomaly = known::anomaly(1).expect("the first of 18");
    let mean = Sample { seconds: 1e-3, directions: Vec::new(), pause: None, counters: PerHost::default() };
    let seen = |symptoms: &[Symptom]| RecipeMeasurement {
        symptoms: symptoms.to_vec(),
        mean: mean.clone(),
        hardware_events: Vec::new(),
        capacity: None,
    };
    let workload = anomaly.trigger.workload();
    let mut healthy = workload.clone();
    healthy.flows[0].batch.recv = 1;
    Recipe {
        kelpie: Recipe::FORMAT.to_owned(),
        kelpie_version: "0.1.0".to_owned(),
        finding: "anomaly:1".to_owned(),
        seed: Some(7),
        workload,
        mfs: anomaly.conditions,
        expected: ExpectedVerdict {
            verdict: Verdict::Anomalous,
            symptoms: vec![Symptom::Pause],
            bounds: Bounds::new(2e11, 1e8),
            confidence: 0.9,
        },
        anomalous: seen(&[Symptom::Pause]),
        healthy: Some(HealthyNeighbour { workload: healthy, seen: seen(&[]) }),
        environment: Environment { subsystem: "pair".to_owned(), ..Environment::default() },
        background: None,
    }
}

fn json() -> String {
    serde_json::to_string(&recipe()).expect("JSON")
}

/// Everything after a change to the text, which must be there to be changed.
fn refusal(from: &str, to: &str) -> String {
    let text = json();
    assert!(text.contains(from), "{from} is not in {text}");
    parse(&text.replacen(from, to, 1)).expect_err(to).to_string()
}

#[test]
fn a_recipe_reads_back() {
    assert_eq!(parse(&json()).expect("a good recipe"), recipe());
}

#[test]
fn each_broken_rule_names_its_key() {
    let long = format!("\"finding\":\"{}\"", "x".repeat(121));
    let table: [(&str, &str, &[&str]); 27] = [
        ("\"pair\"", "\"sim:F\"", &["environment.model: a simulated subsystem"]),
        ("recipe/1", "recipe/2", &["kelpie: this is format `recipe/2`"]),
        ("recipe/1", "\\u001b[31m", &["kelpie: this is format `\\u{1b}[31m`"]),
        ("\"finding\":\"anomaly:1\"", &long, &["finding: longer than 120"]),
        ("anomaly:1", "", &["finding: is empty"]),
        ("anomaly:1", "a\\u001b]0;x\\u0007", &["finding: holds the character \\u{1b}"]),
        ("anomaly:1", "a\\u202eb", &["finding: holds the character \\u{202e}"]),
        ("\"seed\":7", "\"seed\":9223372036854775808", &["seed: more than 2^63"]),
        ("\"seed\":7", "\"seed\":-1", &["seed: invalid value"]),
        ("\"seed\":7", "\"sd\\u001b\":7", &["unknown field `sd\\u{1b}`"]),
        ("\"qps\":1", "\"qps\":0", &["workload.flows[0].qps: 0 is outside"]),
        ("\"qps\":1", "\"qps\":\"many\"", &["workload.flows[0].qps: invalid type"]),
        ("\"qp_type\":\"UD\"", "\"qp_type\":\"RC\"", &["mfs[0]: `qp_type is UD` does not hold"]),
        ("\"min\":64", "\"min\":65", &["mfs[2]: `send_batch at least 65` does not hold"]),
        ("\"min\":64", "\"mini\":64", &["mfs[2]"]),
        ("\"verdict\":\"anomalous\"", "\"verdict\":\"healthy\"", &["expected.verdict: a recipe is of an anomaly"]),
        ("[\"pause\"]", "[]", &["expected.symptoms: write at least one"]),
        ("[\"pause\"]", "[\"pause\",\"pause\"]", &["expected.symptoms: each symptom at most once"]),
        ("\"confidence\":0.9", "\"confidence\":1.1", &["expected.confidence: 1.1 is outside 0 to 1"]),
        ("\"confidence\":0.9", "\"confidence\":NaN", &["recipe.json: ", "expected value"]),
        ("\"confidence\":0.9", "\"confidence\":1e999", &["out of range"]),
        ("\"max_bps\":200000000000.0", "\"max_bps\":0", &["expected.bounds.max_bps: write a positive number"]),
        ("\"seconds\":0.001", "\"seconds\":-1", &["anomalous.mean.seconds: -1 is not a rate"]),
        ("\"anomalous\":{", "\"anomalous\":{\"capacity\":0,", &["anomalous.capacity: write a positive number"]),
        ("\"seconds\":0.001", "\"seconds\":1,\"minutes\":1", &["anomalous.mean.minutes: unknown field"]),
        (
            "\"subsystem\":\"pair\"",
            "\"subsystem\":\"pair\",\"hosts\":{\"a\":{\"x\":\"\\u0000\"},\"b\":{}}",
            &["environment.hosts.a"],
        ),
        ("\"seed\":7", "\"seed\":7,\"seed\":8", &["duplicate field `seed`"]),
    ];
    for (from, to, fragments) in table {
        let refusal = refusal(from, to);
        for fragment in fragments {
            assert!(refusal.starts_with("recipe.json: ") && refusal.contains(fragment), "{to}: {refusal}");
        }
        assert!(!refusal.chars().any(char::is_control), "{refusal:?}");
    }
    let later = parse("{\"kelpie\": \"recipe/2\", \"other\": {}}").expect_err("a later version").to_string();
    assert_eq!(later, "recipe.json: kelpie: this is format `recipe/2`; this Kelpie reads recipe/1");
    let deep = json().replacen("\"seed\":7", &format!("\"seed\":{}", "[".repeat(100_000)), 1);
    assert!(parse(&deep).is_err());
    let deep = json().replacen("{\"feature\"", &format!("{}{{\"feature\"", "{\"a\":".repeat(100_000)), 1);
    assert!(parse(&deep).expect_err("too deep").to_string().contains("unknown field `a`"), "before it is read");
    assert!(parse(&format!("{} {{}}", json())).expect_err("two documents").to_string().contains("trailing"));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// An entry as a hostile program writes it: any name, kind and declared size.
fn entry(name: &str, kind: EntryType, declared: u64, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(declared);
    header.set_mode(0o644);
    header.set_cksum();
    let padding = content.len().next_multiple_of(512) - content.len();
    [header.as_bytes().as_slice(), content, vec![0; padding].as_slice()].concat()
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(name, EntryType::Regular, content.len() as u64, content)
}

fn good() -> Vec<u8> {
    [file(RECIPE, json().as_bytes()), file(README, b"x"), vec![0; 1024]].concat()
}

#[test]
fn hostile_archives_are_refused_with_the_reason_and_the_entry() {
    assert_eq!(unpack(&gzip(&good())).expect("a good archive"), recipe());
    let inside = [entry("x/", EntryType::Directory, 0, b""), file("x/recipe.json", json().as_bytes()), vec![0; 1024]];
    assert_eq!(unpack(&gzip(&inside.concat())).expect("all in one folder"), recipe());
    let recipe = file(RECIPE, json().as_bytes());
    let mut bent = good();
    bent[0] ^= 1;
    let table: Vec<(&str, Vec<u8>, &str)> = vec![
        ("traversal", file("../recipe.json", b"{}"), "entry `../recipe.json` is none of"),
        ("absolute", file("/etc/passwd", b"{}"), "entry `/etc/passwd` is none of"),
        ("folders", file("x/y/recipe.json", b"{}"), "entry `y/recipe.json` is none of"),
        ("two folders", [file("x/README.md", b"x"), file("y/recipe.json", b"{}")].concat(), "entry `y/recipe.json` is"),
        ("hidden folder", file(".x/recipe.json", b"{}"), "entry `.x/recipe.json` is none of"),
        ("directory", entry("x", EntryType::Directory, 0, b""), "entry `x` is a directory"),
        ("symbolic link", entry(RECIPE, EntryType::Symlink, 0, b""), "entry `recipe.json` is a symbolic link"),
        ("hard link", entry(RECIPE, EntryType::Link, 0, b""), "entry `recipe.json` is a hard link"),
        ("character device", entry(RECIPE, EntryType::Char, 0, b""), "entry `recipe.json` is a device"),
        ("block device", entry(RECIPE, EntryType::Block, 0, b""), "entry `recipe.json` is a device"),
        ("pipe", entry(RECIPE, EntryType::Fifo, 0, b""), "entry `recipe.json` is a pipe"),
        ("sparse", entry(RECIPE, EntryType::GNUSparse, 0, b""), "entry `recipe.json` is of an unusual kind"),
        ("pax", entry("x", EntryType::XHeader, 9, b"9 path=y\n"), "entry `x` is an extension header"),
        ("long name", entry("x", EntryType::GNULongName, 1, b"y"), "entry `x` is an extension header"),
        ("10 GB", entry(RECIPE, EntryType::Regular, 10 << 30, b"{}"), "entry `recipe.json` has 10737418240 bytes"),
        ("too long", file(PERFTEST, &vec![b'x'; 65 << 10]), "entry `perftest.txt` has 66560 bytes"),
        ("twice", [recipe.clone(), recipe.clone()].concat(), "entry `recipe.json` is there twice"),
        ("many", recipe.repeat(9), "is there twice"),
        ("without", file(README, b"x"), "entry `recipe.json` is missing"),
        ("empty", vec![0; 1024], "entry `recipe.json` is missing"),
        ("no UTF-8", file(README, b"\xff"), "entry `README.md` is not UTF-8"),
        ("escapes", file("\u{1b}[2J", b""), "entry `\\u{1b}[2J` is none of"),
        ("cut", entry(RECIPE, EntryType::Regular, 600, b"{}"), "entry `recipe.json` ends after 512 of 600"),
        ("bent", bent, "not a tar archive"),
        ("behind", [good(), b"more".to_vec()].concat(), "behind the end"),
        ("bomb", vec![0; MAX_UNPACKED as usize + 1], "unpacks to more than 2097152"),
        ("no JSON", file(RECIPE, b"[]"), "recipe.json: "),
    ];
    for (case, content, expected) in table {
        let error = unpack(&gzip(&content)).expect_err(case).to_string();
        assert!(error.contains(expected) && !error.chars().any(char::is_control), "{case}: {error}");
    }
    let packed = gzip(&good());
    assert!(matches!(unpack(&packed[..packed.len() - 3]), Err(RecipeError::Gzip(_))), "cut behind the last entry");
    assert!(matches!(unpack(&packed[..packed.len() / 2]), Err(RecipeError::Gzip(_))), "cut in the middle");
    assert!(matches!(unpack(&[packed.clone(), packed].concat()), Err(RecipeError::Trailing)), "two members");
    assert!(matches!(unpack(b"PK\x03\x04"), Err(RecipeError::Gzip(_))), "a zip");
    assert!(matches!(unpack(&vec![0; MAX_ARCHIVE as usize + 1]), Err(RecipeError::ArchiveTooLong)), "a long one");
}

#[test]
fn directories_hold_plain_files_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let set = |name: &str| {
        std::fs::create_dir(at(name)).expect("writable");
        std::fs::write(at(name).join(RECIPE), json()).expect("writable");
        at(name)
    };
    let refused = |path: &Path| read(path).expect_err("refused").to_string();
    assert_eq!(read(&set("good")).expect("a good one"), recipe());
    let link = set("link");
    std::os::unix::fs::symlink("/etc/passwd", link.join(README)).expect("a link");
    assert!(refused(&link).contains("entry `README.md` is a symbolic link"));
    let nested = set("nested");
    std::fs::create_dir(nested.join(PERFTEST)).expect("writable");
    assert!(refused(&nested).contains("entry `perftest.txt` is no plain file"));
    let other = set("other");
    std::fs::write(other.join("run.sh"), "").expect("writable");
    assert!(refused(&other).contains("entry `run.sh` is none of"));
    let long = set("long");
    std::fs::write(long.join(RECIPE), vec![b' '; (1 << 20) + 1]).expect("writable");
    assert!(refused(&long).contains("entry `recipe.json` has 1048577 bytes"));
    assert!(refused(&at("gone")).contains("cannot be read"));
    assert!(refused(Path::new("/dev/null")).contains("neither a directory nor a file"));
}

#[test]
fn what_is_written_reads_back_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let entries = [(RECIPE, json()), (README, "x".to_owned())];
    for name in ["r.tar.gz", "r", "again.tgz"] {
        let path = folder.path().join(name);
        write(&path, &entries).expect("written");
        assert_eq!(read(&path).expect("reads back"), recipe());
        assert!(matches!(write(&path, &entries), Err(RecipeError::Exists { .. })), "{name}");
    }
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).expect("written above");
    assert_eq!(bytes("r.tar.gz"), bytes("again.tgz"));
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).expect("writable");
    write(&empty, &entries).expect("an empty directory is taken");
    assert!(matches!(write(&folder.path().join("r/recipe.json"), &entries), Err(RecipeError::Exists { .. })));
    assert!(matches!(write(&folder.path().join("no/such/r"), &entries), Err(RecipeError::Write { .. })));
    for name in ["r.zip", "r.tar", "R.ZIP", "r.tar.xz"] {
        let refused = write(&folder.path().join(name), &entries).expect_err(name).to_string();
        assert!(refused.contains("ends in .tar.gz or .tgz"), "{refused}");
    }
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 4, "nothing temporary stays behind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Some bytes of a good recipe changed: it is read or refused, and what is read is right.
    #[test]
    fn changed_bytes_do_not_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), inside: bool
    ) {
        let mut bytes = if inside { json().into_bytes() } else { good() };
        for (index, byte) in changes {
            let place = index.index(bytes.len());
            bytes[place] = byte;
        }
        let archive = if inside { [file(RECIPE, &bytes), vec![0; 1024]].concat() } else { bytes };
        match unpack(&gzip(&archive)) {
            Ok(recipe) => prop_assert_eq!(check::check(&recipe), Ok(())),
            Err(error) => prop_assert!(!error.to_string().chars().any(char::is_control), "{}", error),
        }
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
        prop_assert!(unpack(&bytes).is_err());
        prop_assert!(unpack(&gzip(&bytes)).is_err());
    }
}

#[test]
fn sizes_of_a_stranger_are_read_as_sizes() {
    let text = json().replacen("\"sge\":[\"2KiB\"]", "\"sge\":[2048]", 1);
    assert_eq!(parse(&text).expect("bare bytes").workload.flows[0].pattern[0].sge, [Bytes(2048)]);
}

#[test]
fn a_readme_gives_the_rates_of_a_slow_pair() {
    let mut recipe = recipe();
    recipe.expected.bounds = Bounds::new(160e6, 15e3);
    recipe.anomalous.mean.directions = vec![DirectionRates {
        from: Host::A,
        to: Host::B,
        goodput_bps: 8e6,
        wire_bps: 9e6,
        packets_per_sec: 7100.0,
        messages_per_sec: 7100.0,
    }];
    let text = super::readme::readme(&recipe, &Err(kelpie_spaces::perftest::Inexpressible::LoopbackBeside));
    for said in ["160.0 Mbit/s and 15.0 kpackets/s", "goodput a to b | 8.0 Mbit/s | -", "packets a to b | 7.1 k/s | -"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_readme_says_what_others_wrote_and_does_nothing_else() {
    const HOSTILE: &str = "<script>alert(1)</script> [here](http://x) ![i](y) `c` | a\n# heading\u{1b}[2J\u{202e}";
    let hostile = || HOSTILE.to_owned();
    let mut recipe = recipe();
    recipe.anomalous.hardware_events = vec![hostile()];
    recipe.anomalous.mean.counters.a.insert(hostile(), 5e6);
    recipe.finding = hostile();
    recipe.kelpie_version = hostile();
    recipe.environment.subsystem = hostile();
    recipe.mfs.conditions.push(Condition { feature: Feature::QpType, test: Test::In(vec![hostile()]) });
    let facts = std::collections::BTreeMap::from([(hostile(), hostile())]);
    recipe.environment.hosts = Some(PerHost { a: facts.clone(), b: facts });
    let said = || Some(hostile());
    recipe.background =
        Some(Background { source: hostile(), premise: said(), cause: said(), fix: said(), note: said() });
    let text = super::readme::readme(&recipe, &Err(kelpie_spaces::perftest::Inexpressible::LoopbackBeside));
    assert!(!text.contains("\n# heading"), "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'), "{text:?}");
    let markup = ["<script>", "[here](", "![i]("].into_iter().flat_map(|markup| text.match_indices(markup));
    for (index, _) in markup {
        // Within a code span nothing is markup.
        let line = text[..index].rfind('\n').map_or(0, |start| start + 1);
        let is_code = text[line..index].matches('`').count() % 2 == 1;
        assert!(text[..index].ends_with('\\') || is_code, "{text}");
    }
}
