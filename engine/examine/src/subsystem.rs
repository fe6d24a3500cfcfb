//! From the name of a subsystem to one that can be measured: a model, a pair of hosts, the lab.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use kelpie_agent::{PairFile, PairSubsystem};
use kelpie_engine::Subsystem;
use kelpie_monitor::{Bounds, Check, Limit, clear_shares};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::document::{MAX_INPUT, utf8};
use kelpie_spaces::units::percent;

use crate::files::{read_file, read_file_up_to};
use crate::{Say, ports, simulated};

/// What the name of a subsystem stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubsystemKind<'a> {
    /// A simulated one: a model's name or file.
    Simulated(&'a str),
    /// A real pair, described by this file.
    Pair(PathBuf),
}

/// Sorts a subsystem's name.
///
/// # Errors
///
/// Nothing has this name, or the lab is not up.
pub fn kind(name: &str) -> anyhow::Result<SubsystemKind<'_>> {
    match name.strip_prefix("sim:") {
        Some("") => {
            bail!("`sim:` names no model; write sim:NAME or sim:path.yaml, `kelpie subsystem list` shows the names")
        }
        Some(model) => Ok(SubsystemKind::Simulated(model)),
        None if name == "lab" => Ok(SubsystemKind::Pair(kelpie_agent::lab::pair_file()?)),
        None if name == "dual-lab" => Ok(SubsystemKind::Pair(kelpie_agent::lab::dual_port_pair_file()?)),
        None if !name.contains(['.', '/']) && !Path::new(name).exists() => {
            bail!("no subsystem `{name}`; write sim:NAME, sim:path.yaml, lab, or the file of a pair")
        }
        None => Ok(SubsystemKind::Pair(PathBuf::from(name))),
    }
}

/// A simulated subsystem: an embedded model, or a file.
///
/// # Errors
///
/// There is no such model, or its file cannot be read.
pub fn load_simulated(model: &str) -> anyhow::Result<SimSubsystem> {
    if !model.contains(['.', '/']) && !Path::new(model).exists() {
        return Ok(SimSubsystem::load(model)?);
    }
    let bytes = read_file_up_to(Path::new(model), MAX_INPUT as u64)?;
    Ok(SimSubsystem::from_yaml(&format!("sim:{model}"), utf8(model, &bytes)?)?)
}

/// The pair that a file names.
///
/// # Errors
///
/// The file cannot be read, or describes no pair.
pub fn pair_file(path: &Path) -> anyhow::Result<PairFile> {
    Ok(PairFile::from_bytes(path, &read_file(path)?)?)
}

/// The text of a pair file that is known to be right.
///
/// # Errors
///
/// As for [`pair_file`].
pub fn pair_source(path: &Path) -> anyhow::Result<String> {
    let bytes = read_file(path)?;
    PairFile::from_bytes(path, &bytes)?;
    Ok(utf8(&path.display().to_string(), &bytes)?.to_owned())
}

/// Changes to the model of a simulated subsystem.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelChanges<'a> {
    /// Paths of parameters with their values.
    pub set: &'a [(String, String)],
    /// Numbers of anomalies whose fix is applied.
    pub fix: &'a [u32],
}

/// A subsystem that can be measured, with its whole description.
#[derive(Debug)]
pub enum OpenedSubsystem {
    /// A model.
    Simulated(Box<SimSubsystem>),
    /// Two hosts with agents.
    Pair {
        /// The pair.
        subsystem: Box<PairSubsystem>,
        /// Its file, with absolute paths.
        source: String,
    },
}

impl OpenedSubsystem {
    /// Opens the subsystem of this name. `say` hears of calibration and of bounds that cannot tell something.
    ///
    /// # Errors
    ///
    /// As for [`kind`], [`load_simulated`] and [`pair_file`]; a change does not fit the model, or an agent does not
    /// answer.
    pub fn open(name: &str, changes: ModelChanges<'_>, say: Say<'_>) -> anyhow::Result<Self> {
        match kind(name)? {
            SubsystemKind::Simulated(model) => {
                let mut subsystem = load_simulated(model)?;
                for anomaly in changes.fix {
                    subsystem.fix(*anomaly).with_context(|| format!("--fix {anomaly}"))?;
                }
                for (path, value) in changes.set {
                    subsystem.set(path, value).with_context(|| format!("--set {path}={value}"))?;
                }
                let is_embedded = SimSubsystem::names().contains(&subsystem.model_name());
                if !is_embedded || !changes.set.is_empty() {
                    for line in contradictions(&subsystem) {
                        say(&line);
                    }
                }
                Ok(Self::Simulated(Box::new(subsystem)))
            }
            SubsystemKind::Pair(_) if !changes.set.is_empty() || !changes.fix.is_empty() => {
                bail!("--set and --fix change the model of a simulated subsystem; `{name}` is real")
            }
            SubsystemKind::Pair(path) => Self::open_pair(&path, say),
        }
    }

    fn open_pair(path: &Path, say: Say<'_>) -> anyhow::Result<Self> {
        let file = pair_file(path)?;
        // With absolute paths, so that a campaign can be resumed from anywhere.
        let source = file.to_yaml()?;
        let calibrates = file.bounds.is_none();
        if calibrates {
            let [least, most] = PairSubsystem::calibration_seconds(&file);
            say(&format!(
                "{} has no `bounds`: they are calibrated by simple traffic, which takes about {least:.0} to {most:.0} s",
                path.display()
            ));
        }
        let subsystem = PairSubsystem::of(file)?;
        if let Some(line) = caution(&subsystem.bounds(), calibrates) {
            say(&line);
        }
        Ok(Self::Pair { subsystem: Box::new(subsystem), source })
    }

    /// Opens a subsystem that was stored under this name, whatever its file has become since, with the bounds that it
    /// had.
    ///
    /// # Errors
    ///
    /// The source is no model or pair, or an agent does not answer.
    pub fn reopen(name: &str, source: &str, bounds: Bounds) -> anyhow::Result<Self> {
        if name.starts_with("sim:") {
            return Ok(Self::Simulated(Box::new(SimSubsystem::from_yaml(name, source)?)));
        }
        let file = PairFile { bounds: Some(bounds), ..PairFile::from_yaml(Path::new(name), source)? };
        let subsystem = PairSubsystem::of(file)?;
        Ok(Self::Pair { subsystem: Box::new(subsystem), source: source.to_owned() })
    }

    /// The seam.
    pub fn subsystem(&mut self) -> &mut dyn Subsystem {
        match self {
            Self::Simulated(subsystem) => subsystem.as_mut(),
            Self::Pair { subsystem, .. } => subsystem.as_mut(),
        }
    }

    /// What the doctor says of the hosts of a pair; nothing of a simulated subsystem, which has none.
    pub fn checks(&mut self) -> Vec<Check> {
        match self {
            Self::Simulated(_) => Vec::new(),
            Self::Pair { subsystem, .. } => subsystem.checks(),
        }
    }

    /// What C4P's checks say of the ports between the hosts of a pair, under eight QPs each way.
    ///
    /// # Errors
    ///
    /// Traffic could not be measured.
    pub fn path_checks(&mut self, say: Say<'_>) -> anyhow::Result<Vec<Check>> {
        match self {
            Self::Simulated(subsystem) => simulated::checks(subsystem, &ports::plain_both_ways()),
            Self::Pair { subsystem, .. } => ports::checks(
                subsystem,
                &ports::plain_both_ways(),
                &ports::Choice::Own,
                None,
                &AtomicBool::new(false),
                say,
            ),
        }
    }

    /// Has the latency of requests measured from now on.
    ///
    /// # Errors
    ///
    /// The subsystem is simulated.
    pub fn measure_latency(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Simulated(simulated) => bail!(
                "--latency times the requests of real pairs; {} simulates rates and knows no time of a single request",
                simulated.name()
            ),
            Self::Pair { subsystem, .. } => {
                subsystem.measure_latency();
                Ok(())
            }
        }
    }

    /// The whole model or pair file as YAML.
    pub fn source(&self) -> String {
        match self {
            Self::Simulated(subsystem) => subsystem.yaml(),
            Self::Pair { source, .. } => source.clone(),
        }
    }

    /// The simulated subsystem, if it is one.
    pub fn simulated(&mut self) -> Option<&mut SimSubsystem> {
        match self {
            Self::Simulated(subsystem) => Some(subsystem),
            Self::Pair { .. } => None,
        }
    }
}

/// Where a model states what it cannot do.
pub fn contradictions(subsystem: &SimSubsystem) -> Vec<String> {
    let line = |(limit, share): (Limit, f64)| {
        let key = if limit == Limit::Packets { "port.max_mpps" } else { "port.line_rate_gbps" };
        format!(
            "simple traffic reaches {} of `{key}`, so that workloads may be called anomalous that are as fast as this model is; \
             next: a lower `{key}`, or parts that reach it",
            percent(share)
        )
    };
    subsystem.unreached().into_iter().map(line).collect()
}

/// What these bounds of a pair cannot tell, if anything.
fn caution(bounds: &Bounds, is_calibrated: bool) -> Option<String> {
    if bounds.base_rtt_seconds.is_none() {
        return Some(
            "`bounds` has no `base_rtt_seconds`: workloads with queues too short to fill the link may be called anomalous; \
             calibration measures it (docs/reference/agents.md)"
                .to_owned(),
        );
    }
    if bounds.qp.is_none() {
        return Some(
            "`bounds` has no `qp`: workloads of few QPs may be called anomalous because one QP is slower than the port; \
             calibration measures it (docs/reference/agents.md)"
                .to_owned(),
        );
    }
    let run_to_run = bounds.run_to_run.filter(|_| is_calibrated)?;
    let [low, high] = clear_shares(run_to_run);
    (high > 1.0).then(|| {
        format!(
            "equal traffic differs by {} from run to run: only workloads below {low:.2} of the bounds are clearly low, and \
             only those above {high:.2} clearly not; most verdicts will be inconclusive until the hosts are steadier",
            percent(run_to_run)
        )
    })
}
