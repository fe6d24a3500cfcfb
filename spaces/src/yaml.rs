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
/// Names file, line, key and rule of the first mistake; `source_name` stands for the file.
///
/// # Examples
/// ```
/// let error = kelpie_spaces::workload_from_yaml("w.yaml", "kelpie: workload/1\nflows: []\n").unwrap_err();
/// assert_eq!(error.to_string(), "w.yaml:2: flows: 0 entries; write 1 to 64");
/// ```
pub fn workload_from_yaml(source_name: &str, text: &str) -> Result<Workload, WorkloadError> {
    let document = Document::parse(source_name, text)?;
    let top = document.root().map(&["kelpie", "flows"])?;
    let tag = top.need("kelpie")?;
    let kelpie = tag.text()?.to_owned();
    if kelpie != Workload::FORMAT {
        return Err(tag.refuse(&constraints::Rule::Format(kelpie.chars().take(40).collect())));
    }
    let flows = top.need("flows")?.list(MAX_FLOWS)?.into_iter().map(flow).collect::<Result<_, _>>()?;
    let workload = Workload { kelpie, flows };
    constraints::check(&workload).map_err(|violation| document.refuse(&violation.path, &violation.rule))?;
    Ok(workload)
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

fn flow(place: Reader<'_>) -> Result<Flow, WorkloadError> {
    let mut keys = vec!["from", "to", "qp_type", "qps", "mtu", "wq_depth", "batch", "pattern", "recv_sge", "memory"];
    keys.extend(optional().map(|(row, _)| row.name));
    let fields = place.map(&keys)?;
    let [send, recv] = pair(fields.need("wq_depth")?, ["send", "recv"])?;
    let wq_depth = Depths { send: send.whole()?, recv: recv.whole()? };
    let [send, recv] = pair(fields.need("batch")?, ["send", "recv"])?;
    let batch = Batch { send: send.whole()?, recv: recv.whole()? };
    let [from, to] = pair(fields.need("memory")?, ["from", "to"])?;
    let mtu = fields.need("mtu")?;
    let ends = [fields.need("from")?.word(&Host::BOTH)?, fields.need("to")?.word(&Host::BOTH)?];
    let mut flow = Flow {
        qp_type: fields.need("qp_type")?.word(&QpType::ALL)?,
        qps: fields.need("qps")?.whole()?,
        mtu: Mtu::try_from(mtu.whole::<u64>()?).map_err(|error| mtu.refuse(&error))?,
        wq_depth,
        batch,
        pattern: fields.need("pattern")?.list(MAX_PATTERN)?.into_iter().map(request).collect::<Result<_, _>>()?,
        recv_sge: match fields.get("recv_sge") {
            Some(place) => sizes(&place)?,
            None => Vec::new(),
        },
        memory: MemoryPair { from: memory(from)?, to: memory(to)? },
        ..Flow::plain(ends[0], ends[1])
    };
    for (row, set) in optional() {
        if let Some(place) = fields.get(row.name) {
            let code = row.dimension.code(place.text()?).map_err(|rule| place.refuse(&rule))?;
            set(&mut flow, code);
        }
    }
    Ok(flow)
}

/// The keys that a flow may leave out.
fn optional() -> impl Iterator<Item = (&'static Row, fn(&mut Flow, u64))> {
    TABLE.iter().filter_map(|row| row.optional().map(|(_, set)| (row, set)))
}

fn request(place: Reader<'_>) -> Result<Request, WorkloadError> {
    let fields = place.map(&["op", "sge"])?;
    Ok(Request { op: fields.need("op")?.word(&Opcode::ALL)?, sge: sizes(&fields.need("sge")?)? })
}

fn memory(place: Reader<'_>) -> Result<Memory, WorkloadError> {
    let fields = place.map(&["device", "mrs", "mr_size"])?;
    Ok(Memory {
        device: fields.need("device")?.parse::<Device>()?,
        mrs: fields.need("mrs")?.whole()?,
        mr_size: fields.need("mr_size")?.parse::<Bytes>()?,
    })
}

fn sizes(place: &Reader<'_>) -> Result<Vec<Bytes>, WorkloadError> {
    place.list(MAX_SGE)?.iter().map(Reader::parse).collect()
}

fn pair<'d>(place: Reader<'d>, keys: [&str; 2]) -> Result<[Reader<'d>; 2], WorkloadError> {
    let fields = place.map(&keys)?;
    Ok([fields.need(keys[0])?, fields.need(keys[1])?])
}
