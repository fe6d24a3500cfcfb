//! Configurations: lines `KEY value...`.

use std::collections::BTreeMap;

use kelpie_packets::congestion::{Algorithm, Dcqcn, Dctcp, Hpcc, Pint, Timely};
use kelpie_packets::{BufferSettings, EcmpHash, EcnCurve, MarkEcho, Recovery, Settings, WindowRule};

use super::lines::{Peer, PeerError, bits_per_second, short};

/// Keys that name files or what is written to them, and those that have no effect there.
const NO_EFFECT: &str = "TOPOLOGY_FILE FLOW_FILE TRACE_FILE TRACE_OUTPUT_FILE FCT_OUTPUT_FILE PFC_OUTPUT_FILE QLEN_MON_FILE \
    QLEN_MON_START QLEN_MON_END BW_MON_FILE RATE_MON_FILE CNP_MON_FILE MON_START MON_END \
    QP_MON_INTERVAL QLEN_MON_INTERVAL BW_MON_INTERVAL ENABLE_TRACE TRACE_START_TIME TRACE_END_TIME \
    USE_DYNAMIC_PFC_THRESHOLD L2_CHUNK_SIZE INT_MULTI SIMULATOR_START_TIME TOTAL_FLOW_FILE";

/// A configuration while it is read.
struct Config<'t> {
    file: &'t str,
    /// Each key with its line and values.
    keys: BTreeMap<&'t str, (usize, Vec<&'t str>)>,
}

impl Config<'_> {
    fn wrong(&self, line: usize, rule: String) -> PeerError {
        PeerError { file: self.file.to_owned(), line, rule }
    }

    /// The only value of a key, or what it is without one.
    fn value<T>(&self, key: &str, otherwise: T, read: impl Fn(&str) -> Option<T>) -> Result<T, PeerError> {
        let Some((line, values)) = self.keys.get(key) else { return Ok(otherwise) };
        let [value] = values.as_slice() else {
            return Err(self.wrong(*line, format!("{key} has one value")));
        };
        read(value).ok_or_else(|| self.wrong(*line, format!("`{}` is no value of {key}", short(value))))
    }

    fn number(&self, key: &str, otherwise: f64) -> Result<f64, PeerError> {
        self.value(key, otherwise, |value| value.parse().ok().filter(|number: &f64| (0.0..=1e15).contains(number)))
    }

    fn flag(&self, key: &str, otherwise: bool) -> Result<bool, PeerError> {
        Ok(self.number(key, f64::from(u8::from(otherwise)))? != 0.0)
    }

    fn rate(&self, key: &str, otherwise: f64) -> Result<f64, PeerError> {
        self.value(key, otherwise, bits_per_second)
    }

    fn nanos(&self, key: &str, micros: f64) -> Result<u64, PeerError> {
        Ok((self.number(key, micros)? * 1e3).round() as u64)
    }

    /// Values by rate of the link: how many, then rate and value of each.
    fn by_rate(&self, key: &str) -> Result<Vec<(f64, f64)>, PeerError> {
        let Some((line, values)) = self.keys.get(key) else { return Ok(Vec::new()) };
        let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        let pairs = numbers.filter(|numbers| numbers.first() == Some(&((numbers.len().saturating_sub(1) / 2) as f64)));
        let pairs = pairs.filter(|numbers| numbers.len() % 2 == 1);
        let pairs =
            pairs.ok_or_else(|| self.wrong(*line, format!("{key} has a count, then a rate and a value each")))?;
        Ok(pairs[1..].chunks_exact(2).map(|pair| (pair[0] / 1e9, pair[1])).collect())
    }

    fn ecn(&self) -> Result<Vec<(f64, EcnCurve)>, PeerError> {
        if !self.flag("ENABLE_QCN", true)? {
            return Ok(Vec::new());
        }
        let (kmax, kmin, pmax) = (self.by_rate("KMAX_MAP")?, self.by_rate("KMIN_MAP")?, self.by_rate("PMAX_MAP")?);
        let of =
            |map: &[(f64, f64)], gbps: f64| map.iter().find(|one| one.0.to_bits() == gbps.to_bits()).map(|one| one.1);
        let curves = kmax.iter().map(|(gbps, kmax)| {
            let curve = EcnCurve { kmin: of(&kmin, *gbps)? * 1e3, kmax: kmax * 1e3, pmax: of(&pmax, *gbps)? };
            Some((*gbps, curve))
        });
        let line = self.keys.get("KMAX_MAP").map_or(1, |key| key.0);
        let curves: Option<Vec<_>> = curves.collect();
        let curves = curves.filter(|curves| !curves.is_empty());
        curves.ok_or_else(|| self.wrong(line, "KMAX_MAP, KMIN_MAP and PMAX_MAP name the same rates".to_owned()))
    }

    fn algorithm(&self) -> Result<(f64, Algorithm), PeerError> {
        let mode = self.number("CC_MODE", 1.0)?;
        let least = self.rate("MIN_RATE", 100e6)?;
        let additive = self.rate("RATE_AI", 5e6)?;
        let hyper = self.rate("RATE_HAI", 50e6)?;
        let gain = self.number("EWMA_GAIN", 1.0 / 16.0)?;
        let algorithm = match mode as u32 {
            1 => Algorithm::Dcqcn(Dcqcn {
                gain,
                alpha_interval: self.nanos("ALPHA_RESUME_INTERVAL", 55.0)?.max(1),
                decrease_interval: self.nanos("RATE_DECREASE_INTERVAL", 4.0)?.max(1),
                increase_interval: self.nanos("RP_TIMER", 1500.0)?.max(1),
                byte_counter: None,
                recoveries: self.number("FAST_RECOVERY_TIMES", 5.0)? as u32,
                additive,
                hyper,
                least,
                clamps_target: self.flag("CLAMP_TARGET_RATE", false)?,
            }),
            3 => Algorithm::Hpcc(Hpcc {
                target: self.number("U_TARGET", 0.95)?,
                additive,
                most_rises: self.number("MI_THRESH", 5.0)? as u32,
                least,
                reacts_fast: self.flag("FAST_REACT", true)?,
            }),
            7 => Algorithm::Timely(Timely {
                alpha: 0.875,
                beta: 0.8,
                low: 50e3,
                high: 500e3,
                least_rtt: 20e3,
                additive,
                hyper,
                least,
            }),
            8 => Algorithm::Dctcp(Dctcp { gain, additive: self.rate("DCTCP_RATE_AI", 1000e6)?, least }),
            10 => Algorithm::Pint(Pint {
                target: self.number("U_TARGET", 0.95)?,
                additive,
                most_rises: self.number("MI_THRESH", 5.0)? as u32,
                least,
                base: self.number("PINT_LOG_BASE", 1.05)?,
                share: self.number("PINT_PROB", 1.0)?,
            }),
            _ => {
                let line = self.keys.get("CC_MODE").map_or(1, |key| key.0);
                let modes = "1 (DCQCN), 3 (HPCC), 7 (TIMELY), 8 (DCTCP) or 10 (PINT)";
                return Err(self.wrong(line, format!("CC_MODE {mode} is not simulated; write {modes}")));
            }
        };
        Ok((mode, algorithm))
    }
}

/// Reads a file.
///
/// # Errors
/// Names the line of what is not understood, or not simulated.
pub fn read(peer: Peer, file: &str, text: &str) -> Result<Settings, PeerError> {
    let mut config = Config { file, keys: BTreeMap::new() };
    for (line, text) in (1..).zip(text.lines()) {
        let mut words = text.split_whitespace();
        let Some(key) = words.next().filter(|key| !key.starts_with('#')) else { continue };
        config.keys.insert(key, (line, words.collect()));
    }
    let settings = settings(peer, &config)?;
    refuse(&config)?;
    Ok(settings)
}

/// Whether a list of words has one.
fn has(list: &str, word: &str) -> bool {
    list.split(' ').any(|other| other == word)
}

/// What is not simulated, or not known, has to be off.
fn refuse(config: &Config<'_>) -> Result<(), PeerError> {
    const OFF: &str = "L2_BACK_TO_ZERO MULTI_RATE SAMPLE_FEEDBACK ERROR_RATE_PER_LINK";
    const KNOWN: &str = "ENABLE_QCN PACKET_PAYLOAD_SIZE SIMULATOR_STOP_TIME CC_MODE ALPHA_RESUME_INTERVAL \
        RATE_DECREASE_INTERVAL CLAMP_TARGET_RATE RP_TIMER EWMA_GAIN FAST_RECOVERY_TIMES RATE_AI RATE_HAI \
        MIN_RATE DCTCP_RATE_AI L2_ACK_INTERVAL HAS_WIN GLOBAL_T VAR_WIN FAST_REACT U_TARGET MI_THRESH \
        RATE_BOUND ACK_HIGH_PRIO LINK_DOWN KMAX_MAP KMIN_MAP PMAX_MAP BUFFER_SIZE NIC_TOTAL_PAUSE_TIME \
        PFC_ALPHA QP_RATE_MON PINT_LOG_BASE PINT_PROB";
    for (key, (line, values)) in &config.keys {
        let is_off = values.iter().all(|value| value.parse() == Ok(0.0));
        if has(OFF, key) || *key == "LINK_DOWN" {
            if !is_off {
                return Err(config.wrong(*line, format!("{key} is not simulated; write 0")));
            }
        } else if !has(KNOWN, key) && !has(NO_EFFECT, key) {
            return Err(config.wrong(*line, format!("unknown key `{}`", short(key))));
        }
    }
    if config.number("RATE_BOUND", 1.0)?.to_bits() != 1.0_f64.to_bits() {
        let line = config.keys.get("RATE_BOUND").map_or(1, |key| key.0);
        return Err(config.wrong(line, "RATE_BOUND other than 1 is not simulated".to_owned()));
    }
    Ok(())
}

fn settings(peer: Peer, config: &Config<'_>) -> Result<Settings, PeerError> {
    let (mode, algorithm) = config.algorithm()?;
    let payload = config.number("PACKET_PAYLOAD_SIZE", 1000.0)?.clamp(64.0, 32_768.0) as u32;
    let telemetry = match mode as u32 {
        3 => 42,
        7 => 8,
        10 => 1,
        _ => 0,
    };
    // Ethernet, IP, UDP, then sequence number (4 bytes or 8) and priority; acknowledgements repeat ports and telemetry.
    let sequence = if peer == Peer::Hpcc { 4 } else { 8 };
    let window = match (config.flag("HAS_WIN", true)?, config.flag("GLOBAL_T", true)?) {
        (false, _) => WindowRule::None,
        (true, false) => WindowRule::Bdp,
        (true, true) => WindowRule::LargestBdp,
    };
    Ok(Settings {
        payload,
        overhead: 14 + 20 + 8 + sequence + 2 + telemetry,
        ack_bytes: (14 + 20 + 8 + sequence + telemetry).max(60),
        packets_per_ack: (config.number("L2_ACK_INTERVAL", 1.0)? as u32).div_ceil(payload).max(1),
        acks_first: config.flag("ACK_HIGH_PRIO", false)?,
        whole_ns: true,
        buffer: BufferSettings {
            capacity: (config.number("BUFFER_SIZE", 12.0)? * f64::from(1 << 20)) as u64,
            reserve: 4 << 10,
            resume: 3 << 10,
            shift: 3,
            headroom_delays: 3.0,
            pfc: true,
        },
        ecn: config.ecn()?,
        echo: MarkEcho::Acknowledgement,
        hash: EcmpHash::Peers,
        algorithm,
        window,
        window_follows_rate: config.flag("VAR_WIN", false)?,
        largest_rtt: config.flag("GLOBAL_T", true)?,
        recovery: Recovery::GoBackN,
        nack_interval_ns: 500_000,
        timeout_ns: 4096 << 14,
        retries: 7,
        late_notice: peer == Peer::SimAi,
        seed: 1,
        end_ns: (config.number("SIMULATOR_STOP_TIME", 40.0)? * 1e9) as u64,
    })
}
