//! The JSON schemas that `kelpie schema` prints: what Kelpie reads and writes fits them, and mistakes do not.

use boon::{Compiler, Draft, SchemaIndex, Schemas};
use serde_json::Value;

use crate::support::{ANOMALY_1, Bench, HEALTHY, SMALL_SPACE};

/// A schema as a validator knows it.
pub struct Schema {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Schema {
    /// Panics if the text is no schema of draft 2020-12.
    pub fn new(text: &str) -> Self {
        let document: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(document["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.set_default_draft(Draft::V2020_12);
        compiler.add_resource("schema.json", document).expect("a place for the schema");
        // Which also checks it by the schema of its draft.
        let index = compiler.compile("schema.json", &mut schemas).unwrap_or_else(|error| panic!("{error:#}"));
        Self { schemas, index }
    }

    /// What does not fit it, with where.
    pub fn complaints(&self, document: &Value) -> Vec<String> {
        let Err(error) = self.schemas.validate(document, self.index) else { return Vec::new() };
        // Prints the tree of what failed, one line each, below a line that names the schema.
        format!("{error}").lines().skip(1).map(|line| line.trim().to_owned()).collect()
    }
}

fn schema(bench: &Bench, format: &str) -> Schema {
    Schema::new(&bench.expect(0, &["schema", format]))
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).expect("YAML that is JSON")
}

fn complaints(schema: &Schema, text: &str) -> Vec<String> {
    schema.complaints(&yaml(text))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect(path)
}

#[test]
fn what_kelpie_reads_and_writes_fits_its_schema() {
    let bench = Bench::new();
    let mut files: Vec<(&str, String)> = vec![
        ("workload", HEALTHY.to_owned()),
        ("workload", ANOMALY_1.to_owned()),
        ("workload", "kelpie: workload/1\nflows: [{from: a, to: b, mtu: 2KiB, inline: 64B}]\n".to_owned()),
        ("space", SMALL_SPACE.to_owned()),
        ("pair", read("tests/guests/pair.yaml")),
        ("pair", read("examples/pair.yaml")),
    ];
    for nics in
        ["", ", nics: [{device: mlx5_0, gid_index: 3, rail: 1}, {port: 2}]", ", leaf: l1, pod: p1, labels: {rack: r1}"]
    {
        files.push(("inventory", format!("kelpie: inventory/1\nhosts: [{{name: n1, agent: \"10.0.0.1:1\"{nics}}}]\n")));
    }
    bench.write("t.conf", "SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Switches=s1\n");
    for json in [&[][..], &["--json"]] {
        let imported = [&["inventory", "import", "--topology", "t.conf", "--device", "mlx5_0"][..], json].concat();
        files.push(("inventory", bench.expect(0, &imported)));
    }
    for seed in 0..20 {
        files.push(("workload", bench.expect(0, &["space", "sample", "full", "--seed", &seed.to_string()])));
    }
    for name in ["full", "rpc-library", "dml", "lab"] {
        files.push(("space", bench.expect(0, &["space", "show", name])));
    }
    for model in ["A", "B", "C", "D", "E", "F", "G", "H"] {
        files.push(("model", bench.expect(0, &["subsystem", "show", &format!("sim:{model}")])));
        files.push(("model", read(&format!("engine/simulated/pair/models/{model}.yaml"))));
    }
    for (format, text) in files {
        assert_eq!(complaints(&schema(&bench, format), &text), [""; 0], "{format}: {text}");
    }
    let recipe: Value = serde_json::from_str(&bench.expect(0, &["schema", "recipe"])).expect("JSON");
    assert_eq!(recipe["properties"]["kelpie"]["const"], "recipe/1");
}

#[test]
fn what_kelpie_refuses_for_its_form_does_not_fit() {
    let bench = Bench::new();
    for (format, good, from, to) in [
        ("workload", HEALTHY.to_owned(), "qps:", "qbs:"),
        ("workload", HEALTHY.to_owned(), "mtu: 4096", "mtu: 1500"),
        ("workload", HEALTHY.to_owned(), "op: WRITE", "op: WRITES"),
        ("workload", HEALTHY.to_owned(), "workload/1", "workload/2"),
        ("space", "kelpie: space/1\nqps: {min: 1}\n".to_owned(), "min", "least"),
        ("space", "kelpie: space/1\nqps: {min: 1}\n".to_owned(), "1}", "0}"),
        ("pair", read("tests/guests/pair.yaml"), "gid_index", "gid"),
        ("model", read("engine/simulated/pair/models/F.yaml"), "max_mpps", "max_mqps"),
        ("inventory", "kelpie: inventory/1\nhosts: [{name: n1, nics: [{device: d}]}]\n".to_owned(), "device", "devise"),
        ("inventory", "kelpie: inventory/1\nhosts: [{name: n1}]\n".to_owned(), "name", "host"),
        ("model", "kelpie: model/2\nname: m\ndescription: d\nbase: F\n".to_owned(), "base: F", "base: Z"),
    ] {
        let schema = schema(&bench, format);
        assert_eq!(complaints(&schema, &good), [""; 0], "{format}");
        assert!(good.contains(from), "{from}");
        assert!(!complaints(&schema, &good.replace(from, to)).is_empty(), "{format}: {to}");
    }
}
