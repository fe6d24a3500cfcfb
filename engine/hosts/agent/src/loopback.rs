//! Loopback through the RNICs of one real host, and from one of them to another: an agent, or two of one host, asked
//! for a session per probe. When to probe is decided above.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use kelpie_engine::MeasureError;
use kelpie_engine::loopback::{Activity, LoopbackHost, PathProbe, Probed};
use kelpie_engine::plan::Role;
use kelpie_engine::verbs_host::{HostReading, Port};
use kelpie_monitor::PerHost;
use kelpie_monitor::pause::host_pause;
use kelpie_monitor::rates::rates;
use kelpie_spaces::{Batch, Bytes, Depths, Device, Flow, Host, Memory, MemoryPair, Mtu, Request, Workload};

use crate::client::{AgentClient, ClientError};
use crate::pair::{Agents, PATIENCE_AT_OPEN, PATIENCE_LATER, failure, peers_of};
use crate::{PairError, PairFile};

/// Messages of a probe, and how many are on their way. Source: our choice; by Azure's node health checks, loopback
/// WRITEs of 64 KiB carry 98 % of what those of 8 MiB do.
const LARGE: (u64, u32) = (64 << 10, 32);
const SMALL: (u64, u32) = (64, 1);
/// Traffic before what counts, and what counts at least. Source: our choice, thousands of small messages.
const WARM: Duration = Duration::from_millis(5);
const COUNTED: Duration = Duration::from_millis(25);
/// Messages that count at least, and how long they are waited for. Source: our choice; emulated hosts are slow.
const MESSAGES: u64 = 32;
const LONGEST: Duration = Duration::from_secs(3);
/// How long what an RNIC was seen to do besides is believed.
const FRESH: Duration = Duration::from_secs(1);
/// How long outstanding work may take at the end. Units: milliseconds.
const DRAIN_MS: u64 = 2000;
/// Counters of what passes the port and not the loopback inside of the NIC, with their unit in bits; the first that a
/// NIC has count. Source: mlx5's `ethtool -S`; IBTA volume 1, `PortCounters`, in words of four bytes.
const TRAFFIC: [(&str, &str, f64); 2] =
    [("ethtool.rx_bytes_phy", "ethtool.tx_bytes_phy", 8.0), ("port_rcv_data", "port_xmit_data", 32.0)];
/// Counters of packets that found no room.
const DROPS: [&str; 3] = ["ethtool.rx_discards_phy", "ethtool.rx_out_of_buffer", "out_of_buffer"];

/// What traffic of a probe ends in.
#[derive(Debug, Clone, Copy)]
enum Endpoint {
    /// Memory, out of which and into which an RNIC sends.
    Memory(Device),
    /// Another RNIC, by its row.
    Rnic(usize),
}

/// A host behind an agent, and the RNICs and memories that are measured of it.
#[derive(Debug)]
pub struct AgentHost {
    runtime: tokio::runtime::Runtime,
    agents: Agents,
    which: Host,
    names: [Vec<String>; 2],
    ports: Vec<Port>,
    endpoints: Vec<Endpoint>,
    seen: Vec<Option<(Instant, Activity)>>,
    /// Whether the pair's other agent is on this host; else why not.
    second: Option<Result<(), String>>,
}

impl AgentHost {
    /// Connects to the agent of a pair's host. An RNIC is the name of its device; endpoints are `mem0`, `gpu0` and so
    /// on, by the number of the NUMA node or GPU, and other RNICs, to which the pair's other agent is needed, on the
    /// same host.
    ///
    /// # Errors
    /// Where the file is refused, the agent cannot be reached, or an endpoint is neither memory nor GPU.
    pub fn open(path: &Path, which: Host, rnics: Vec<String>, endpoints: Vec<String>) -> Result<Self, PairError> {
        Self::of(PairFile::read(path)?, which, rnics, endpoints)
    }

    /// As `open`, for a file that was already read.
    ///
    /// # Errors
    /// As `open`.
    pub fn of(file: PairFile, which: Host, rnics: Vec<String>, endpoints: Vec<String>) -> Result<Self, PairError> {
        let base = &file.hosts.get(which).port;
        let port = |name: &String| {
            // Numbers of GIDs differ between devices, and another device has a port 1.
            let is_own = base.device.as_ref().is_none_or(|own| own == name);
            let device = Some(name.clone());
            if is_own {
                Port { device, ..base.clone() }
            } else {
                Port { device, tuning: base.tuning, ..Port::default() }
            }
        };
        let ports: Vec<Port> = rnics.iter().map(port).collect();
        let unknown = |name: &String| {
            let reason = format!("`{name}` is neither memory nor GPU: name endpoints mem0, gpu0 and so on");
            PairError::Host(MeasureError::Unsupported { reason })
        };
        let endpoint = |name: &String| {
            let rnic = rnics.iter().position(|rnic| rnic == name).map(Endpoint::Rnic);
            rnic.or_else(|| device_of(name).map(Endpoint::Memory)).ok_or_else(|| unknown(name))
        };
        let kinds = endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
        let runtime = crate::runtime::with_one_worker().map_err(PairError::Runtime)?;
        let mut agents = Agents::new(file);
        runtime.block_on(agents.ready_one(which, PATIENCE_AT_OPEN)).map_err(PairError::Host)?;
        let seen = vec![None; rnics.len()];
        let names = [rnics, endpoints];
        Ok(Self { runtime, agents, which, names, ports, endpoints: kinds, seen, second: None })
    }

    /// As if the other agent were known to be on this host: those of tests have no devices that say so.
    #[cfg(test)]
    #[must_use]
    pub fn with_second(self) -> Self {
        Self { second: Some(Ok(())), ..self }
    }

    /// A session of traffic; the readings before and after what counts, and how long it loaded the RNIC.
    fn session(
        &mut self,
        rnic: usize,
        endpoint: Endpoint,
        probe: PathProbe,
    ) -> Result<(HostReading, HostReading, Duration), MeasureError> {
        let (which, port) = (self.which, self.ports[rnic].clone());
        let (memory, peer) = match endpoint {
            Endpoint::Memory(device) => (device, None),
            // Memory that the kernel gives is that of the node on which the agent runs.
            Endpoint::Rnic(to) => {
                self.second(to)?;
                (Device::Dram(0), Some(self.ports[to].clone()))
            }
        };
        let Self { runtime, agents, .. } = self;
        runtime.block_on(async {
            agents.ready_one(which, PATIENCE_LATER).await?;
            if peer.is_some() {
                agents.ready_one(which.peer(), PATIENCE_LATER).await?;
            }
            let (own, other) = (agents.client(which), peer.as_ref().map(|port| (agents.client(which.peer()), port)));
            let outcome = match other {
                None => traffic(own, &port, memory, probe).await.map_err(|error| failure(which, LOOPBACK, error)),
                Some(other) => between((own, &port), other, memory, probe, which).await,
            };
            // Whatever came of it, nothing is left on the host: by a tear-down, or by the loss of the connection.
            let hosts = [Some(which), other.map(|_| which.peer())];
            for host in hosts.into_iter().flatten() {
                if agents.client(host).tear_down().await.is_err() {
                    agents.forget(host);
                }
            }
            outcome
        })
    }

    /// Makes sure that the pair's other agent is on this host: both see the same port of this RNIC.
    fn second(&mut self, rnic: usize) -> Result<(), MeasureError> {
        if self.second.is_none() {
            let (which, port) = (self.which, self.ports[rnic].clone());
            let Self { runtime, agents, .. } = self;
            let seen = runtime.block_on(async {
                let mut bonds = Vec::new();
                for host in [which, which.peer()] {
                    agents.ready_one(host, PATIENCE_AT_OPEN).await.map_err(|error| error.to_string())?;
                    let bond = agents.client(host).bond(port.clone()).await.map_err(|error| error.to_string())?;
                    bonds.push((bond.gid, bond.members.into_iter().map(|member| member.mac).collect::<Vec<_>>()));
                }
                Ok::<bool, String>(bonds[0] == bonds[1] && !bonds[0].0.is_empty())
            });
            self.second = Some(match seen {
                Ok(true) => Ok(()),
                Ok(false) => Err(format!(
                    "the agent of host {} is on another host: RNIC to RNIC needs a second agent on this one",
                    which.peer()
                )),
                Err(error) => Err(format!("RNIC to RNIC needs a second agent on this host: {error}")),
            });
        }
        let known = self.second.clone().expect("it was asked for above");
        known.map_err(|reason| MeasureError::Unsupported { reason })
    }
}

/// What is done, in errors.
const LOOPBACK: &str = "measure loopback";

/// Traffic from one RNIC to another, each driven by an agent of its own.
async fn between(
    (own, port): (&AgentClient, &Port),
    (other, other_port): (&AgentClient, &Port),
    device: Device,
    probe: PathProbe,
    which: Host,
) -> Result<(HostReading, HostReading, Duration), MeasureError> {
    let named = |host: Host| move |error: ClientError| failure(host, "measure RNIC to RNIC", error);
    let (mine, theirs) = (named(which), named(which.peer()));
    let reports =
        [own.inspect(port.clone()).await.map_err(&mine)?, other.inspect(other_port.clone()).await.map_err(&theirs)?];
    let most = reports[0].active_mtu.min(reports[1].active_mtu);
    let mtu = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= most).unwrap_or(Mtu::ALL[0]);
    let workload = workload(probe, mtu, device, Host::B);
    let ends = PerHost {
        a: own.set_up(Host::A, port.clone(), workload.clone(), false).await.map_err(&mine)?,
        b: other.set_up(Host::B, other_port.clone(), workload, false).await.map_err(&theirs)?,
    };
    own.connect_to(peers_of(Host::A, &ends)).await.map_err(&mine)?;
    other.connect_to(peers_of(Host::B, &ends)).await.map_err(&theirs)?;
    other.start().await.map_err(&theirs)?;
    let seen = counted(own).await.map_err(&mine)?;
    other.stop(DRAIN_MS).await.map_err(&theirs)?;
    Ok(seen)
}

async fn traffic(
    client: &AgentClient,
    port: &Port,
    device: Device,
    probe: PathProbe,
) -> Result<(HostReading, HostReading, Duration), ClientError> {
    let report = client.inspect(port.clone()).await?;
    let mtu = Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() <= report.active_mtu).unwrap_or(Mtu::ALL[0]);
    // Alone on a host it is host A of a pair that sends to itself.
    let endpoints = client.set_up(Host::A, port.clone(), workload(probe, mtu, device, Host::A), false).await?;
    client.connect_to(endpoints).await?;
    counted(client).await
}

/// Starts what sends, and reads it before and after what counts.
async fn counted(client: &AgentClient) -> Result<(HostReading, HostReading, Duration), ClientError> {
    client.start().await?;
    let started = Instant::now();
    tokio::time::sleep(WARM).await;
    let before = client.sample().await?;
    let after = loop {
        tokio::time::sleep(COUNTED).await;
        let after = client.sample().await?;
        if done(&after).0 - done(&before).0 >= MESSAGES || started.elapsed() > LONGEST {
            break after;
        }
    };
    client.stop(DRAIN_MS).await?;
    Ok((before, after, started.elapsed()))
}

fn workload(probe: PathProbe, mtu: Mtu, device: Device, to: Host) -> Workload {
    let (message, depth) = if probe == PathProbe::Bandwidth { LARGE } else { SMALL };
    let memory = Memory { device, mrs: 1, mr_size: Bytes(message.max(4096)) };
    Workload::new(vec![Flow {
        qps: 1,
        mtu,
        wq_depth: Depths { send: depth, recv: 1 },
        batch: Batch { send: 1, recv: 1 },
        pattern: vec![Request { op: kelpie_spaces::Opcode::Write, sge: vec![Bytes(message)] }],
        memory: MemoryPair { from: memory, to: memory },
        ..Flow::plain(Host::A, to)
    }])
}

/// Messages and bytes that requesters have done.
fn done(reading: &HostReading) -> (u64, u64) {
    let groups = reading.groups.iter().filter(|group| group.id.role == Role::Requester);
    let counts = groups.flat_map(|group| group.by_op.values());
    counts.fold((0, 0), |sum, count| (sum.0 + count.messages, sum.1 + count.bytes))
}

/// The memory of a NUMA node or GPU by the name of a topology's node.
fn device_of(name: &str) -> Option<Device> {
    let number = |text: Option<&str>| text.and_then(|number| number.parse().ok());
    let dram = number(name.strip_prefix("mem")).map(Device::Dram);
    dram.or_else(|| number(name.strip_prefix("gpu")).map(Device::Gpu))
}

/// What an RNIC did besides, by the counters of its port; nothing that they count is nothing that is known.
fn besides(before: &HostReading, after: &HostReading) -> Activity {
    let seconds = after.at_nanos.saturating_sub(before.at_nanos) as f64 / 1e9;
    if seconds == 0.0 {
        return Activity::default();
    }
    let rates = rates(&before.counters, &after.counters, seconds);
    let get = |name: &str| rates.per_sec.get(name).copied();
    let traffic = TRAFFIC.iter().find_map(|(rx, tx, bits)| Some(get(rx)?.max(get(tx)?) * bits / 1e9));
    Activity {
        gbps: traffic.unwrap_or(0.0),
        pause_ratio: host_pause(&rates).filter(|pause| !pause.is_upper_bound).map_or(0.0, |pause| pause.ratios.tx),
        drops: DROPS.iter().filter_map(|name| get(name)).fold(0.0, f64::max),
    }
}

impl LoopbackHost for AgentHost {
    fn rnics(&self) -> &[String] {
        &self.names[0]
    }

    fn endpoints(&self) -> &[String] {
        &self.names[1]
    }

    /// By what was seen beside the last probe, else beside single small messages.
    fn activity(&mut self, rnic: usize) -> Result<Activity, MeasureError> {
        if let Some((_, activity)) = self.seen[rnic].filter(|(when, _)| when.elapsed() < FRESH) {
            return Ok(activity);
        }
        let memory = self.endpoints.iter().find(|endpoint| matches!(endpoint, Endpoint::Memory(_)));
        let memory = memory.copied().unwrap_or(Endpoint::Memory(Device::Dram(0)));
        let (before, after, _) = self.session(rnic, memory, PathProbe::Latency)?;
        let activity = besides(&before, &after);
        self.seen[rnic] = Some((Instant::now(), activity));
        Ok(activity)
    }

    fn probe(&mut self, rnic: usize, endpoint: usize, probe: PathProbe) -> Result<Probed, MeasureError> {
        let endpoint = self.endpoints[endpoint];
        let (before, after, took) = self.session(rnic, endpoint, probe)?;
        // What goes to another RNIC passes the port, and would count as others' traffic.
        if matches!(endpoint, Endpoint::Memory(_)) {
            self.seen[rnic] = Some((Instant::now(), besides(&before, &after)));
        }
        if let Some(event) = after.events.first() {
            return Err(MeasureError::Unsupported { reason: event.clone() });
        }
        let ((messages, bytes), seconds) = (done(&after), after.at_nanos.saturating_sub(before.at_nanos) as f64 / 1e9);
        let (messages, bytes) = (messages - done(&before).0, bytes - done(&before).1);
        if messages == 0 || seconds == 0.0 {
            return Err(MeasureError::Unsupported { reason: "no message came back".to_owned() });
        }
        let value = match probe {
            PathProbe::Bandwidth => bytes as f64 * 8.0 / seconds / 1e9,
            PathProbe::Latency => seconds * 1e6 / messages as f64,
        };
        Ok(Probed { value, took })
    }

    fn rest(&mut self, span: Duration) {
        thread::sleep(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_valid_workloads_at_every_mtu() {
        for probe in [PathProbe::Bandwidth, PathProbe::Latency] {
            for mtu in Mtu::ALL {
                kelpie_spaces::check(&workload(probe, mtu, Device::Dram(1), Host::B)).expect("valid");
            }
        }
    }

    #[test]
    fn endpoints_are_memories_and_gpus() {
        let known = ["mem0", "gpu7", "mem", "cpu0", "mem1x", "mem256"].map(device_of);
        assert_eq!(known, [Some(Device::Dram(0)), Some(Device::Gpu(7)), None, None, None, None]);
    }

    #[test]
    fn others_are_seen_by_the_counters_of_the_port() {
        let reading = |at_nanos, counters: &[(&str, u64)]| HostReading {
            at_nanos,
            counters: counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
            ..HostReading::default()
        };
        let before = reading(0, &[("port_rcv_data", 0), ("port_xmit_data", 0), ("ethtool.rx_discards_phy", 5)]);
        let after = reading(
            1_000_000_000,
            &[("port_rcv_data", 125_000_000), ("port_xmit_data", 9), ("ethtool.rx_discards_phy", 8)],
        );
        let seen = besides(&before, &after);
        assert!((seen.gbps - 4.0).abs() < 1e-9 && seen.is_busy() && seen.is_abnormal(), "{seen:?}");
        assert_eq!(besides(&before, &before), Activity::default());
    }
}
