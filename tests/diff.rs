//! `kelpie diff`: campaigns on a subsystem before and after a fix.

use crate::support::Bench;

/// A campaign on F over READs, with these further arguments.
fn campaign(bench: &Bench, further: &[&str]) {
    let run = ["campaign", "run", "--subsystem", "sim:F", "--space", "reads.yaml", "--budget", "60", "--db", "k.db"];
    bench.expect(0, &[&run[..], further].concat());
}

#[test]
fn a_fix_is_told_from_a_regression() {
    let bench = Bench::new();
    // One QP alone is too slow for other reasons, which the fix leaves.
    let reads = "full --only qp_type=RC --only opcode=READ --only bidirectional=false --only loopback=false \
                 --max mtu=1024 --min message=4KiB --min qps=8 --max qps=16 --max mrs=4 --only sge_count=1 \
                 --only memory_requester=dram:0 --only memory_responder=dram:0";
    let restricted: Vec<&str> = ["space", "restrict"].into_iter().chain(reads.split_whitespace()).collect();
    bench.write("reads.yaml", bench.expect(0, &restricted));
    campaign(&bench, &[]);
    campaign(&bench, &["--fix", "3"]);
    let diff = |status, words: &[&str]| bench.json(status, &[&["diff"], words, &["--db", "k.db"]].concat());

    let same = diff(0, &["1", "1"]);
    let findings = same["a"]["findings"].clone();
    assert!(findings.as_u64() > Some(0), "{same}");
    assert_eq!((&same["counts"]["remains"], &same["counts"]["changed"]), (&findings, &0.into()), "{same}");

    let fixed = diff(0, &["1", "2"]);
    assert_eq!((&fixed["counts"]["fixed"], &fixed["counts"]["new"]), (&findings, &0.into()), "{fixed}");
    assert!(bench.expect(0, &["diff", "1", "2", "--db", "k.db"]).contains("\nfixed "));

    let back = diff(1, &["2", "1"]);
    assert_eq!(back["counts"]["new"], findings, "{back}");

    // Without measuring nobody knows whether the second search only missed them.
    let unmeasured = diff(1, &["1", "2", "--no-measure"]);
    assert_eq!(unmeasured["counts"]["doubtful"], findings, "{unmeasured}");

    std::fs::copy(bench.path("k.db"), bench.path("other.db")).expect("it is closed");
    assert_eq!(diff(0, &["1", "2", "--against", "other.db"])["counts"], fixed["counts"]);
    // A recipe of a search over READs alone says that it is about READs.
    bench.expect(0, &["recipe", "export", "1.1", "--db", "k.db", "--out", "r"]);
    let recipe = std::fs::read_to_string(bench.path("r/recipe.json")).expect("it was written");
    let recipe: serde_json::Value = serde_json::from_str(&recipe).expect("JSON");
    let conditions = recipe["mfs"].as_array().expect("a list");
    assert!(conditions.iter().any(|condition| condition["feature"] == "opcode"), "{recipe}");

    let missing = bench.run(&["diff", "1", "9", "--db", "k.db"]);
    assert_eq!(missing.status, Some(2));
    assert!(missing.stderr.contains('9') && missing.stdout.is_empty(), "{missing:?}");
}
