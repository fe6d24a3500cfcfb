//! JSON schemas of `workload/1` and `space/1`, made from the limits and the table of dimensions. Rules between keys,
//! such as those of verbs, are beyond a schema.

use serde_json::{Map, Value, json};

use crate::constraints::{MAX_DEPTH, MAX_FLOWS, MAX_MRS, MAX_PATTERN, MAX_QPS, MAX_SGE};
use crate::dimensions::{DimensionKind, DimensionRow, TABLE};
use crate::workload::{Host, Mtu, Opcode, Ports, QpType, Workload};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of a workload file.
pub fn workload() -> Value {
    let queues = |what: &str| {
        let size = json!({"type": "integer", "minimum": 1, "maximum": MAX_DEPTH});
        map(what, &[("send", size.clone()), ("recv", size)], &[])
    };
    let sizes = json!({"type": "array", "minItems": 1, "maxItems": MAX_SGE, "items": size()});
    let request = map("a work request", &[("op", one_of(Opcode::ALL)), ("sge", sizes.clone())], &["op", "sge"]);
    let memory = map(
        "memory of one side of a QP",
        &[
            ("device", device()),
            ("mrs", json!({"type": "integer", "minimum": 1, "maximum": MAX_MRS, "description": "MRs per QP"})),
            ("mr_size", size()),
        ],
        &[],
    );
    let mut flow = vec![
        ("from", one_of(Host::BOTH)),
        ("to", one_of(Host::BOTH)),
        ("qp_type", one_of(QpType::ALL)),
        ("qps", json!({"type": "integer", "minimum": 1, "maximum": MAX_QPS})),
        ("mtu", mtu()),
        ("wq_depth", queues("work requests that a queue holds")),
        ("batch", queues("work requests per post")),
        ("pattern", json!({"type": "array", "minItems": 1, "maxItems": MAX_PATTERN, "items": request})),
        ("recv_sge", sizes),
        ("memory", map("memory of both sides", &[("from", memory.clone()), ("to", memory)], &[])),
    ];
    let optional = TABLE.iter().filter(|row| row.optional().is_some());
    flow.extend(optional.map(|row| (row.name, described(row, value(row)))));
    let flow = map("QPs of one kind; what is left out is as in a plain flow", &flow, &["from", "to"]);
    let flows = json!({"type": "array", "minItems": 1, "maxItems": MAX_FLOWS, "items": flow});
    let top = [("kelpie", json!({"const": Workload::FORMAT})), ("flows", flows)];
    document("Kelpie workload, version 1", map("what two hosts do", &top, &["kelpie", "flows"]))
}

/// The schema of a space file.
pub fn space() -> Value {
    let mut keys = vec![("kelpie", json!({"const": "space/1"})), ("about", json!({"type": "string"}))];
    keys.extend(TABLE.iter().map(|row| {
        let set = json!({"type": "array", "minItems": 1, "items": value(row)});
        let is_range = matches!(row.kind, DimensionKind::Count | DimensionKind::Size);
        let range =
            map("an end that is left out is that of the full space", &[("min", value(row)), ("max", value(row))], &[]);
        (row.name, described(row, if is_range { json!({"oneOf": [set, range]}) } else { set }))
    }));
    document("Kelpie space, version 1", map("a set of workloads", &keys, &["kelpie"]))
}

/// A value of a dimension.
fn value(row: &DimensionRow) -> Value {
    match row.kind {
        DimensionKind::QpType => one_of(QpType::ALL),
        DimensionKind::Opcode => one_of(Opcode::ALL),
        DimensionKind::Mtu => mtu(),
        DimensionKind::Device => device(),
        DimensionKind::Truth => json!({"type": "boolean"}),
        DimensionKind::Ports => one_of(Ports::ALL),
        DimensionKind::Count => json!({"type": "integer", "minimum": row.limit.0, "maximum": row.limit.1}),
        DimensionKind::Size => size(),
    }
}

fn described(row: &DimensionRow, mut schema: Value) -> Value {
    schema["description"] = json!(format!("Unit: {}. {}", row.unit, row.why));
    schema
}

fn document(title: &str, mut schema: Value) -> Value {
    schema["$schema"] = json!(DRAFT);
    schema["title"] = json!(title);
    schema
}

/// A map with these keys and no others.
fn map(description: &str, keys: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|(key, schema)| ((*key).to_owned(), schema.clone())).collect();
    json!({
        "type": "object", "description": description, "additionalProperties": false,
        "required": required, "properties": properties,
    })
}

fn one_of<T: ToString, const N: usize>(words: [T; N]) -> Value {
    json!({"enum": words.map(|word| word.to_string()).to_vec()})
}

fn size() -> Value {
    let text = json!({"type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)?$"});
    json!({"description": "bytes, or with B, KiB, MiB or GiB", "oneOf": [{"type": "integer", "minimum": 0}, text]})
}

fn mtu() -> Value {
    let bytes = Mtu::ALL.map(Mtu::bytes);
    let texts: Vec<String> =
        bytes.iter().flat_map(|bytes| [format!("{bytes}B"), crate::Bytes(*bytes).to_string()]).collect();
    json!({"description": "path MTU in bytes", "enum": bytes.into_iter().map(Value::from).chain(texts.into_iter().map(Value::from)).collect::<Vec<_>>()})
}

fn device() -> Value {
    json!({"type": "string", "pattern": "^(dram|gpu):[0-9]{1,3}$", "description": "dram:N of NUMA node N, gpu:N"})
}
