//! Workloads as YAML, format `workload/1`: reading with the line of every mistake, and writing. Spaces are in
//! `space_yaml`.

use crate::constraints::{self, MAX_FLOWS, MAX_PATTERN, MAX_SGE};
use crate::dimensions::{Row, TABLE};
use crate::document::{Document, DocumentError, Reader, utf8};
use crate::units::Bytes;
use crate::workload::{Batch, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Opcode, QpType, Request, Workload};

/// Why a workload file was refused; the message names file, line, key and rule.
pub type WorkloadError = DocumentError;

/// Reads a workload and checks every rule.
///
/// # Errors
/// Names file, line, column, key and rule of each mistake; `source_name` stands for the file.
///
/// # Examples
/// ```
/// let error = kelpie_spaces::workload_from_yaml("w.yaml", "kelpie: workload/1\nflows: []\n").unwrap_err();
/// assert!(error.to_string().starts_with("w.yaml:2:8: flows: 0 entries; write 1 to 64\n"));
/// ```
pub fn workload_from_yaml(source_name: &str, text: &str) -> Result<Workload, WorkloadError> {
    let document = Document::parse(source_name, text)?;
    document.expect(Workload::FORMAT)?;
    let workload = document.complete(whole(&document.root()))?;
    document.refuse_all(constraints::violations(&workload).map(|violation| (violation.path, violation.rule)))?;
    Ok(workload)
}

fn whole(root: &Reader<'_>) -> Option<Workload> {
    let top = root.map(&["kelpie", "flows"])?;
    let kelpie = top.need("kelpie", |tag| match tag.text()? {
        text if text == Workload::FORMAT => Some(text.to_owned()),
        other => tag.refuse(&constraints::Rule::Format(other.chars().take(40).collect())),
    });
    let flows = top.need("flows", |flows| flows.list(MAX_FLOWS, flow));
    Some(Workload { kelpie: kelpie?, flows: flows? })
}

/// As [`workload_from_yaml`], from bytes that may not be text.
///
/// # Errors
/// Also [`DocumentError::NotUtf8`] with the offset.
pub fn workload_from_bytes(source_name: &str, bytes: &[u8]) -> Result<Workload, WorkloadError> {
    workload_from_yaml(source_name, utf8(source_name, bytes)?)
}

/// Writes a workload; [`workload_from_yaml`] reads the same workload back.
pub fn workload_to_yaml(workload: &Workload) -> String {
    serde_yaml::to_string(workload).expect("a workload holds only text, numbers and lists, which YAML can write")
}

/// A flow; what it leaves out is as in a plain one, but for its ends.
fn flow(place: &Reader<'_>) -> Option<Flow> {
    let mut keys = vec!["from", "to", "qp_type", "qps", "mtu", "wq_depth", "batch", "pattern", "recv_sge", "memory"];
    keys.extend(optional().map(|(row, _)| row.name));
    let fields = place.map(&keys)?;
    let end = |key| fields.need(key, |host| host.word(&Host::BOTH));
    let (from, to) = (end("from"), end("to"));
    let plain = Flow::plain(Host::A, Host::B);
    let qp_type = fields.or("qp_type", plain.qp_type, |place| place.word(&QpType::ALL));
    let qps = fields.or("qps", plain.qps, Reader::whole);
    let mtu = fields.or("mtu", plain.mtu, |place| {
        let bytes = place.parse::<Bytes>()?;
        Mtu::try_from(bytes.0).map_or_else(|error| place.refuse(&error), Some)
    });
    let wq_depth = fields.or("wq_depth", plain.wq_depth, |place| {
        let fields = place.map(&["send", "recv"])?;
        let send = fields.or("send", plain.wq_depth.send, Reader::whole);
        let recv = fields.or("recv", plain.wq_depth.recv, Reader::whole);
        Some(Depths { send: send?, recv: recv? })
    });
    let batch = fields.or("batch", plain.batch, |place| {
        let fields = place.map(&["send", "recv"])?;
        let send = fields.or("send", plain.batch.send, Reader::whole);
        let recv = fields.or("recv", plain.batch.recv, Reader::whole);
        Some(Batch { send: send?, recv: recv? })
    });
    let pattern = fields.or("pattern", plain.pattern, |place| place.list(MAX_PATTERN, request));
    let recv_sge = fields.or("recv_sge", plain.recv_sge, sizes);
    let memory = fields.or("memory", plain.memory, |place| {
        let fields = place.map(&["from", "to"])?;
        let from = fields.or("from", plain.memory.from, |side| memory(side, plain.memory.from));
        let to = fields.or("to", plain.memory.to, |side| memory(side, plain.memory.to));
        Some(MemoryPair { from: from?, to: to? })
    });
    let optional: Vec<Option<_>> = optional()
        .filter_map(|(row, set)| {
            let place = fields.get(row.name)?;
            let code = |text: &str| row.dimension.code(text).map_or_else(|rule| place.refuse(&rule), Some);
            Some(place.text().and_then(code).map(|code| (set, code)))
        })
        .collect();
    let mut flow = Flow {
        qp_type: qp_type?,
        qps: qps?,
        mtu: mtu?,
        wq_depth: wq_depth?,
        batch: batch?,
        pattern: pattern?,
        recv_sge: recv_sge?,
        memory: memory?,
        ..Flow::plain(from?, to?)
    };
    for (set, code) in optional.into_iter().collect::<Option<Vec<_>>>()? {
        set(&mut flow, code);
    }
    Some(flow)
}

/// The keys that a flow may leave out.
fn optional() -> impl Iterator<Item = (&'static Row, fn(&mut Flow, u64))> {
    TABLE.iter().filter_map(|row| row.optional().map(|(_, set)| (row, set)))
}

fn request(place: &Reader<'_>) -> Option<Request> {
    let fields = place.map(&["op", "sge"])?;
    let op = fields.need("op", |place| place.word(&Opcode::ALL));
    let sge = fields.need("sge", sizes);
    Some(Request { op: op?, sge: sge? })
}

fn memory(place: &Reader<'_>, plain: Memory) -> Option<Memory> {
    let fields = place.map(&["device", "mrs", "mr_size"])?;
    let device = fields.or("device", plain.device, Reader::parse::<Device>);
    let mrs = fields.or("mrs", plain.mrs, Reader::whole);
    let mr_size = fields.or("mr_size", plain.mr_size, Reader::parse::<Bytes>);
    Some(Memory { device: device?, mrs: mrs?, mr_size: mr_size? })
}

fn sizes(place: &Reader<'_>) -> Option<Vec<Bytes>> {
    place.list(MAX_SGE, Reader::parse)
}
