//! A packet capture in a guest, decoded by tshark, and the messages that its packets make up.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Lab;

/// Enough of each packet for every header: Ethernet, IPv4, UDP and the longest of the transport. Units: bytes.
const SNAPSHOT: u32 = 128;

/// A capture ends here whatever happens, so that it fits the guest's memory. Units: packets.
const MOST_PACKETS: u32 = 1_500_000;

/// Room for what arrives while traffic leaves the guest's only processor no time to write it: an experiment's packets.
/// Units: MiB.
const BUFFER: u32 = 256;

/// What tshark is asked for, in this order.
const FIELDS: [&str; 12] = [
    "frame.time_epoch",
    "ip.src",
    "ip.dsfield",
    "udp.srcport",
    "udp.length",
    "infiniband.bth.opcode",
    "infiniband.bth.padcnt",
    "infiniband.bth.destqp",
    "infiniband.bth.psn",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
];

/// A running dumpcap, the part of tshark that captures, in guest `a`: it sees what both guests send to each other.
pub struct Capture<'a> {
    lab: &'a Lab,
    pid: String,
}

/// One packet of the capture.
#[derive(Debug, Clone, Copy)]
pub struct CapturedPacket {
    /// Since 1970, on the clock of guest `a`. Units: seconds.
    pub time: f64,
    /// `a` or `b`.
    pub from: char,
    pub traffic_class: u8,
    pub source_port: u16,
    /// Transport and operation. Source: IBTA volume 1, section 9.2, table of opcodes.
    pub opcode: u8,
    pub to_qp: u32,
    pub psn: u32,
    /// Units: bytes.
    pub payload: u64,
    pub remote: Option<Remote>,
}

/// The RDMA extended transport header.
#[derive(Debug, Clone, Copy)]
pub struct Remote {
    pub address: u64,
    pub key: u32,
    /// Units: bytes.
    pub length: u64,
}

/// A message as the wire shows it.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// As in workloads, or `RESPONSE` for what a READ brings.
    pub op: &'static str,
    /// Units: bytes.
    pub bytes: u64,
    pub remote: Option<Remote>,
}

/// What one side sent to one QP of the other.
#[derive(Debug, Default)]
pub struct QpStream {
    pub ports: Vec<u16>,
    /// In the order of the packet sequence numbers.
    pub messages: Vec<Message>,
    /// Packets that came again or out of order.
    pub repeated: usize,
    expected: Option<u32>,
    open: Option<Message>,
}

impl<'a> Capture<'a> {
    /// Starts capturing and waits until it does. A capture that a failed test left behind is ended first.
    pub fn start(lab: &'a Lab) -> Self {
        let command = format!(
            "kill -9 $(cat /run/capture.pid 2>/dev/null) 2>/dev/null; rm -f /run/capture.*; \
             dumpcap -q -i eth0 -f \"udp port 4791\" -s {SNAPSHOT} -B {BUFFER} -c {MOST_PACKETS} \
             -w /run/capture.pcapng >/run/capture.log 2>&1 & echo $! >/run/capture.pid; cat /run/capture.pid"
        );
        let pid = lab.in_guest("a", &command).trim().to_owned();
        let capture = Self { lab, pid };
        let started = Instant::now();
        while !lab.in_guest("a", "cat /run/capture.log").contains("File: ") {
            assert!(started.elapsed() < Duration::from_mins(1), "{}", lab.in_guest("a", "cat /run/capture.log"));
            std::thread::sleep(Duration::from_millis(200));
        }
        capture
    }

    /// Ends it and decodes what it wrote.
    pub fn packets(self) -> Vec<CapturedPacket> {
        // What the kernel has seen reaches the file as soon as the guest has time for it; what is not written when
        // dumpcap ends is lost.
        let end = format!(
            "size() {{ stat -c %s /run/capture.pcapng; }}; now=; \
             until [ \"$now\" = \"$(size)\" ]; do now=$(size); sleep 2; done; kill -INT {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.1; done; cat /run/capture.log; \
             cp /run/capture.pcapng /run/lab/ && rm /run/capture.pcapng /run/capture.pid",
            pid = self.pid
        );
        let log = self.lab.in_guest("a", &end);
        assert!(log.contains("pcap:0/dumpcap:0/"), "the capture is not complete: {log}");
        let file = self.lab.dir.join("share/capture.pcapng");
        let fields: Vec<&str> = FIELDS.iter().flat_map(|field| ["-e", *field]).collect();
        // Only the transport is of interest; what the payload looks like is not guessed at.
        let output = Command::new("tshark")
            .args(["-r", file.to_str().expect("the lab's path is UTF-8"), "-n", "-T", "fields"])
            .args(["-E", "separator=,", "-E", "occurrence=f"])
            .args(fields)
            .stdin(File::open("/dev/null").expect("there is one"))
            .output()
            .expect("tshark is installed: `cargo xtask lab install`");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_file(file).expect("it was there");
        String::from_utf8(output.stdout).expect("tshark prints numbers").lines().map(CapturedPacket::parse).collect()
    }
}

impl CapturedPacket {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split(',').collect();
        let [time, source, class, port, length, opcode, pad, qp, psn, address, key, dma_length] = fields[..] else {
            panic!("tshark printed {line}")
        };
        let opcode = number(opcode) as u8;
        let overhead = 8 + 12 + extension(opcode) + number(pad) + 4;
        Self {
            time: time.parse().expect("a time"),
            from: if source.ends_with(".1") { 'a' } else { 'b' },
            traffic_class: number(class) as u8,
            source_port: number(port) as u16,
            opcode,
            to_qp: number(qp) as u32,
            psn: number(psn) as u32,
            payload: number(length).checked_sub(overhead).unwrap_or_else(|| panic!("a short packet: {line}")),
            remote: (!address.is_empty()).then(|| Remote {
                address: number(address),
                key: number(key) as u32,
                length: if dma_length.is_empty() { 8 } else { number(dma_length) },
            }),
        }
    }

    /// The operation without the transport.
    fn operation(&self) -> u8 {
        self.opcode & 0x1f
    }

    /// `RC`, `UC` or `UD`.
    pub fn transport(&self) -> &'static str {
        ["RC", "UC", "RD", "UD"].get(usize::from(self.opcode >> 5)).copied().unwrap_or("another")
    }

    /// An acknowledgement, for a message or an atomic operation.
    pub fn is_acknowledgement(&self) -> bool {
        matches!(self.operation(), 17 | 18)
    }

    /// Data that a READ brings.
    pub fn is_response(&self) -> bool {
        matches!(self.operation(), 13..=16)
    }
}

impl QpStream {
    fn take(&mut self, packet: &CapturedPacket, mtu: u32) {
        if !self.ports.contains(&packet.source_port) {
            self.ports.push(packet.source_port);
        }
        // Between what two READs bring, the numbers of other requests may lie.
        let may_skip = packet.is_response() && self.open.is_none();
        if !may_skip && self.expected.is_some_and(|expected| expected != packet.psn) {
            self.repeated += 1;
            return;
        }
        let (op, first, last) = match packet.operation() {
            0 => ("SEND", true, false),
            1 => ("SEND", false, false),
            2 => ("SEND", false, true),
            3 => ("SEND_WITH_IMM", false, true),
            4 => ("SEND", true, true),
            5 => ("SEND_WITH_IMM", true, true),
            6 => ("WRITE", true, false),
            7 => ("WRITE", false, false),
            8 => ("WRITE", false, true),
            9 => ("WRITE_WITH_IMM", false, true),
            10 => ("WRITE", true, true),
            11 => ("WRITE_WITH_IMM", true, true),
            12 => ("READ", true, true),
            13 => ("RESPONSE", true, false),
            14 => ("RESPONSE", false, false),
            15 => ("RESPONSE", false, true),
            16 => ("RESPONSE", true, true),
            19 => ("CMP_SWAP", true, true),
            20 => ("FETCH_ADD", true, true),
            other => panic!("opcode {other} was not asked for: {packet:?}"),
        };
        // A READ takes the sequence numbers of all that it brings.
        let numbers =
            packet.remote.filter(|_| op == "READ").map_or(1, |remote| remote.length.div_ceil(mtu.into()).max(1));
        self.expected = Some((packet.psn + numbers as u32) & 0x00ff_ffff);
        if first {
            self.repeated += usize::from(self.open.is_some());
            let bytes = match op {
                "READ" => packet.remote.map_or(0, |remote| remote.length),
                "CMP_SWAP" | "FETCH_ADD" => 8,
                _ => 0,
            };
            self.open = Some(Message { op, bytes, remote: packet.remote });
        }
        // Only the last packet says whether there is immediate data.
        let Some(open) = self.open.as_mut().filter(|open| op.starts_with(open.op)) else {
            self.repeated += 1;
            return;
        };
        open.op = op;
        open.bytes += packet.payload;
        if last {
            self.messages.extend(self.open.take());
        }
    }
}

/// What `wanted` selects, by the QP that it was sent to.
pub fn streams(
    packets: &[CapturedPacket],
    mtu: u32,
    wanted: impl Fn(&CapturedPacket) -> bool,
) -> BTreeMap<u32, QpStream> {
    let mut streams: BTreeMap<u32, QpStream> = BTreeMap::new();
    for packet in packets.iter().filter(|packet| wanted(packet)) {
        streams.entry(packet.to_qp).or_default().take(packet, mtu);
    }
    streams
}

/// Headers between the base header and the payload. Units: bytes. Source: IBTA volume 1, section 9.2, table of opcodes.
fn extension(opcode: u8) -> u64 {
    let datagram = if opcode >> 5 == 3 { 8 } else { 0 };
    datagram
        + match opcode & 0x1f {
            3 | 5 | 9 | 13 | 15 | 16 | 17 => 4,
            6 | 10 | 12 => 16,
            11 => 20,
            18 => 12,
            19 | 20 => 28,
            _ => 0,
        }
}

/// Decimal or `0x` and hexadecimal, as tshark prints fields.
fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("tshark printed `{text}` for a number"))
}
