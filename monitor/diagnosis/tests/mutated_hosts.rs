//! Files of hosts and matrices that were cut, repeated and changed at random: read, or refused by an error that a
//! terminal can show. A bounded form of the fuzz target `host`.

use kelpie_diagnosis::Matrix;
use kelpie_diagnosis::host::watch::RoundHistory;
use kelpie_diagnosis::host::{HostQuestion, diagnose};
use kelpie_topology::HostTopology;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const HOST: &str = "kelpie: topology/1
host:
  nodes: {r: rnic, s: rnic, p: pcie_switch, c: socket, d: socket, m: memory, n: memory, g: gpu}
  links: [{a: r, b: p, gbps: 252}, {a: s, b: p}, {a: g, b: p}, {a: p, b: c}, {a: m, b: c}, {a: n, b: d}, {a: c, b: d}]
  pci: {r: \"0000:3b:00.0\"}
simulation: {model: F, parts: {p: {acs: on}}}
";
const MATRIX: &str = r#"{"kelpie": "matrix/1", "rows": ["r", "s"], "columns": ["m", "n", "g"], "busy": ["s"],
    "bandwidth_gbps": [[197.0, 9.0, 190.5], [null, 90.0, 1e3]], "latency_us": [[2.5, 2.6, 2.8], [2.5, null, 3.9]]}"#;

/// A text with some bytes changed, taken away, repeated, or put in from what breaks parsers.
fn mutated(text: &str, random: &mut Pcg64Mcg) -> Vec<u8> {
    const PIECES: [&[u8]; 12] = [
        b"null",
        b"-1",
        b"1e999",
        b"\x00",
        b"\xff\xfe",
        b"[[[[[[[[",
        b"{",
        b"\"",
        b"\n",
        b"&a *a",
        b"9".as_slice(),
        b"\x1b[31m",
    ];
    let mut bytes = text.as_bytes().to_vec();
    // Few at once, so that some files pass and what comes after reading is tried too.
    for _ in 0..random.random_range(1..3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        let end = (at + random.random_range(0..30)).min(bytes.len());
        match random.random_range(0..6) {
            0 => bytes[at] = random.random(),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                (0..random.random_range(1..40)).for_each(|_| drop(bytes.splice(at..at, piece.clone())));
            }
            4 => drop(bytes.splice(at..end, PIECES[random.random_range(0..PIECES.len())].iter().copied())),
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
    bytes
}

/// What was read, else the good one. An error has one line for each mistake and no control characters.
fn checked<T, E: std::fmt::Display>(outcome: Result<T, E>, good: &T) -> (T, bool)
where
    T: Clone,
{
    match outcome {
        Ok(read) => (read, true),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && text.len() < 8192, "{text:?}");
            assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text:?}");
            (good.clone(), false)
        }
    }
}

/// Reads so many files, and diagnoses by those that are right.
fn mutated_files(cases: u32) {
    let mut random = Pcg64Mcg::seed_from_u64(17);
    let host = HostTopology::from_yaml("t.yaml", HOST).expect("it keeps the rules");
    let matrix = Matrix::from_bytes("m.json", MATRIX.as_bytes()).expect("it keeps the rules");
    let mut read = [0, 0, 0];
    for _ in 0..cases {
        let (host, is_host) = checked(HostTopology::from_bytes("t.yaml", &mutated(HOST, &mut random)), &host);
        let (matrix, is_matrix) = checked(Matrix::from_bytes("m.json", &mutated(MATRIX, &mut random)), &matrix);
        let line = String::from_utf8_lossy(&mutated(MATRIX, &mut random)).into_owned();
        let round = format!("{{\"at\": \"now\", \"verdict\": \"healthy\", \"busy\": false, \"matrix\": {line}}}\n");
        let (_, is_history) = checked(RoundHistory::read("h", &round.replace('\n', " ")), &RoundHistory::default());
        for (count, is_read) in read.iter_mut().zip([is_host, is_matrix, is_history]) {
            *count += u32::from(is_read);
        }
        for busy in [false, true] {
            let question = HostQuestion { host: &host, matrix: &matrix, repeats: &[], baseline: Some(&matrix), busy };
            if let Err(error) = diagnose(question) {
                assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
            }
        }
    }
    // Some pass, or only the first lines of the readers would be tried.
    assert!(read.iter().all(|count| *count > cases / 80), "{read:?}");
}

#[test]
fn mutated_files_are_read_or_refused() {
    mutated_files(200);
}

/// More files, by `make test-long`.
mod long {
    #[test]
    #[ignore = "long: make test-long runs it"]
    fn mutated_files_are_read_or_refused() {
        super::mutated_files(8000);
    }
}

#[test]
fn huge_files_are_refused_before_they_take_memory() {
    let nodes = (0..2000).map(|node| format!("n{node}: gpu")).collect::<Vec<_>>().join(", ");
    let many = format!("kelpie: topology/1\nhost: {{nodes: {{{nodes}}}, links: [{{a: n0, b: n1}}]}}\n");
    let error = HostTopology::from_yaml("t.yaml", &many).expect_err("too many").to_string();
    assert!(error.contains("2000 entries; write 1 to 1024"), "{error}");
    let long = format!("kelpie: topology/1\n# {}\nhost: {{}}\n", "x".repeat(2 << 20));
    assert!(HostTopology::from_yaml("t.yaml", &long).expect_err("too long").to_string().contains("longer than 1 MiB"));
    let rows: Vec<String> = (0..5000).map(|row| format!("\"r{row}\"")).collect();
    let many = format!(r#"{{"kelpie": "matrix/1", "rows": [{}], "columns": ["m"]}}"#, rows.join(","));
    let error = Matrix::from_bytes("m.json", many.as_bytes()).expect_err("too many").to_string();
    assert!(error.contains("5000 entries; write 1 to 4096"), "{error}");
    let deep = "[".repeat(100_000);
    assert!(Matrix::from_bytes("m.json", deep.as_bytes()).is_err());
    assert!(HostTopology::from_bytes("t.yaml", deep.as_bytes()).is_err());
}
