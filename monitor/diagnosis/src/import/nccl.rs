//! NCCL's topology XML, as `NCCL_TOPO_DUMP_FILE` writes it and `NCCL_TOPO_FILE` reads it.
//!
//! Source: NCCL's documentation of both variables, and files that it wrote. Widths and speeds in it are the best that
//! both ends of a link can, and not what it trained to.

use std::fmt::Write as _;

use kelpie_topology::HostTopology;
use kelpie_topology::host::NodeKind;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::building::{Host, Imported, address, gbps};

/// Deepest nesting. Source: our choice; a host has eight levels.
const DEPTH: usize = 32;
/// Longest value of an attribute. Source: our choice; masks of CPUs have a few hundred characters.
const LONGEST: usize = 4096;

/// What an open element is.
#[derive(Clone, Default)]
struct Open {
    /// The node that what is inside hangs on.
    at: Option<usize>,
    /// A PCI function of which it is not yet known what it is: address, rate, class.
    function: Option<(String, Option<f64>, String)>,
}

/// Reads it.
pub fn read(text: &str) -> Result<Imported, String> {
    let mut reader = Reader::from_str(text);
    let mut host = Host::default();
    let mut open: Vec<Open> = Vec::new();
    let mut gpus_by_number = true;
    let mut is_system = false;
    loop {
        let place = |reader: &Reader<&[u8]>| format!("byte {}", reader.buffer_position());
        match reader.read_event().map_err(|error| format!("{}: {error}", place(&reader)))? {
            Event::Start(element) => {
                if open.len() >= DEPTH {
                    return Err(format!("{}: elements inside of more than {DEPTH} others", place(&reader)));
                }
                let inside = open.last().cloned().unwrap_or_default();
                is_system |= element.name().as_ref() == b"system";
                let next = of(&mut host, &element, &inside, &mut gpus_by_number)
                    .map_err(|problem| format!("{}: {problem}", place(&reader)))?;
                open.push(next);
            }
            Event::Empty(element) => {
                let inside = open.last().cloned().unwrap_or_default();
                of(&mut host, &element, &inside, &mut gpus_by_number)
                    .map_err(|problem| format!("{}: {problem}", place(&reader)))?;
            }
            Event::End(_) => drop(open.pop()),
            Event::Eof if !open.is_empty() => return Err(format!("{}: it ends in the middle", place(&reader))),
            Event::Eof => break,
            _ => {}
        }
    }
    if !is_system {
        return Err("no element `system`: this is not NCCL's topology".to_owned());
    }
    let mut notes = vec![
        "NCCL writes the best width and speed of links, and not what they trained to: `kelpie host topology` on the host \
            reads both"
            .to_owned(),
        "a NUMA node is taken for a socket, because NCCL does not write which node is of which socket".to_owned(),
    ];
    if host.nodes.iter().any(|node| node.kind == NodeKind::Gpu) {
        notes.push(if gpus_by_number {
            "gpuN is CUDA device N of the process that wrote the file".to_owned()
        } else {
            "gpuN counts the GPUs of the file: their CUDA numbers in it are not all different".to_owned()
        });
    }
    host.done(notes)
}

fn value(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    let Some(attribute) = element.try_get_attribute(name).map_err(|error| error.to_string())? else { return Ok(None) };
    let text = std::str::from_utf8(&attribute.value).map_err(|_| format!("{name}: no UTF-8"))?;
    if text.len() > LONGEST {
        return Err(format!("{name}: longer than {LONGEST} characters"));
    }
    Ok(Some(text.to_owned()))
}

/// Takes an element in, and says what is inside of it.
fn of(host: &mut Host, element: &BytesStart<'_>, inside: &Open, by_number: &mut bool) -> Result<Open, String> {
    match element.name().as_ref() {
        b"cpu" => {
            let numa = value(element, "numaid")?.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0).max(0);
            let numa = u32::try_from(numa).map_err(|_| "numaid: no number of a NUMA node".to_owned())?;
            Ok(Open { at: Some(host.home(numa)?), function: None })
        }
        b"pci" => {
            let text = value(element, "busid")?.ok_or("a `pci` without `busid`")?;
            let busid =
                address(&text).ok_or_else(|| format!("busid `{}` is no address", crate::matrix::shown(&text)))?;
            let class = value(element, "class")?.unwrap_or_default();
            let lanes = value(element, "link_width")?.and_then(|text| text.parse().ok());
            let speed = value(element, "link_speed")?;
            let speed = speed.and_then(|text| text.split(' ').next().and_then(|number| number.parse::<f64>().ok()));
            let rate = lanes.zip(speed).and_then(|(lanes, speed)| gbps(lanes, speed));
            if !class.starts_with("0x0604") {
                return Ok(Open { at: inside.at, function: Some((busid, rate, class)) });
            }
            let at = host.add(format!("psw:{busid}"), NodeKind::PcieSwitch, Some(busid))?;
            let above = inside.at.map_or_else(|| host.home(0), Ok)?;
            host.join(at, above, rate);
            Ok(Open { at: Some(at), function: None })
        }
        b"gpu" => {
            let Some((busid, rate, _)) = &inside.function else { return Ok(inside.clone()) };
            let number = value(element, "dev")?.and_then(|text| text.parse::<u32>().ok());
            let is_taken = |name: &str, host: &Host| host.nodes.iter().any(|node| node.name == name);
            let counted = host.nodes.iter().filter(|node| node.kind == NodeKind::Gpu).count() as u32;
            let own = number.filter(|number| !is_taken(&format!("gpu{number}"), host));
            *by_number &= own.is_some();
            let number = own.unwrap_or_else(|| {
                (counted..=counted + super::building::MOST as u32)
                    .find(|number| !is_taken(&format!("gpu{number}"), host))
                    .unwrap_or(counted)
            });
            device(host, format!("gpu{number}"), NodeKind::Gpu, (busid, *rate), inside)
        }
        b"net" => {
            let Some((busid, rate, _)) = &inside.function else { return Ok(inside.clone()) };
            let name = value(element, "name")?.unwrap_or_else(|| format!("rnic:{busid}"));
            // A port of a second rail, or another process's view of the same device.
            if host.nodes.iter().any(|node| node.name == name) {
                return Ok(inside.clone());
            }
            let open = device(host, name, NodeKind::Rnic, (busid, *rate), inside)?;
            let mbps = value(element, "speed")?.and_then(|text| text.parse::<f64>().ok());
            let port = mbps.map(|mbps| mbps / 1000.0).filter(|gbps| gbps.is_finite() && *gbps > 0.0);
            host.nodes[open.at.unwrap_or_default()].port_gbps = port;
            Ok(inside.clone())
        }
        _ => Ok(inside.clone()),
    }
}

fn device(
    host: &mut Host,
    name: String,
    kind: NodeKind,
    (busid, rate): (&String, Option<f64>),
    inside: &Open,
) -> Result<Open, String> {
    let at = host.add(name, kind, Some(busid.clone()))?;
    let above = inside.at.map_or_else(|| host.home(0), Ok)?;
    host.join(at, above, rate);
    Ok(Open { at: Some(at), function: None })
}

/// Writes a host as NCCL reads it. What a topology does not have, such as masks of CPUs, NCCL reads from the machine.
///
/// # Errors
/// If a GPU, RNIC or switch has no PCI address.
pub fn to_nccl(host: &HostTopology) -> Result<String, String> {
    let mut text = "<system version=\"1\">\n".to_owned();
    for (index, node) in host.nodes().iter().enumerate() {
        if node.kind != NodeKind::Memory {
            continue;
        }
        // A NUMA node of NCCL's is a memory and what hangs at the same place.
        let home = (0..host.links().len()).find_map(|link| {
            let ends = [host.links()[link].a, host.links()[link].b];
            ends.contains(&index).then(|| host.other_end(link, index))
        });
        let number = node.name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let _ = writeln!(text, "  <cpu numaid=\"{}\">", if number.is_empty() { "0" } else { number });
        if let Some(home) = home {
            below(host, home, 2, &mut text)?;
        }
        text.push_str("  </cpu>\n");
    }
    text.push_str("</system>\n");
    Ok(text)
}

/// What hangs on a node.
fn below(host: &HostTopology, at: usize, depth: usize, text: &mut String) -> Result<(), String> {
    if depth > DEPTH {
        return Err(format!("more than {DEPTH} switches below each other"));
    }
    let indent = "  ".repeat(depth);
    for (index, link) in host.links().iter().enumerate().filter(|(_, link)| link.b == at) {
        let node = &host.nodes()[link.a];
        let class = match node.kind {
            NodeKind::PcieSwitch => "0x060400",
            NodeKind::Gpu => "0x030200",
            NodeKind::Rnic => "0x020000",
            _ => continue,
        };
        let busid = node.pci.as_ref().ok_or_else(|| format!("`{}` has no PCI address under `pci`", node.name))?;
        let rate = host.links()[index].best_gbps().and_then(lanes_of).map_or_else(String::new, |(lanes, speed)| {
            format!(" link_speed=\"{speed:.1} GT/s PCIe\" link_width=\"{lanes}\"")
        });
        let _ = writeln!(text, "{indent}<pci busid=\"{busid}\" class=\"{class}\"{rate}>");
        match node.kind {
            NodeKind::PcieSwitch => below(host, link.a, depth + 1, text)?,
            NodeKind::Gpu => {
                let number = node.name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
                let _ = writeln!(text, "{indent}  <gpu dev=\"{number}\"/>");
            }
            _ => {
                let speed = node.port_gbps.map_or_else(String::new, |gbps| format!(" speed=\"{:.0}\"", gbps * 1000.0));
                let _ = writeln!(
                    text,
                    "{indent}  <nic>\n{indent}    <net name=\"{}\"{speed}/>\n{indent}  </nic>",
                    node.name
                );
            }
        }
        let _ = writeln!(text, "{indent}</pci>");
    }
    Ok(())
}

/// Lanes and speed that carry about so much.
fn lanes_of(wanted: f64) -> Option<(u32, f64)> {
    let speeds = [64.0, 32.0, 16.0, 8.0, 5.0, 2.5];
    let all = [16, 8, 4, 2, 1].into_iter().flat_map(|lanes| speeds.map(|speed| (lanes, speed)));
    let fits =
        |(lanes, speed): &(u32, f64)| gbps(*lanes, *speed).is_some_and(|gbps| (gbps / wanted - 1.0).abs() < 0.02);
    all.into_iter().find(fits)
}
