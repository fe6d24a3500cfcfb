//! From what a subsystem's name stands for to something that can be measured.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use kelpie_agent::{PairFile, PairSubsystem};
use kelpie_engine::Subsystem;
use kelpie_examine::{ports, simulated};
use kelpie_monitor::{Bounds, Check, Limit, clear_shares};
use kelpie_sim::SimSubsystem;
use kelpie_spaces::units::percent;
use kelpie_store::CampaignDefinition;

use crate::args::SubsystemArgs;
use crate::inputs::{self, Kind, kind};
use crate::output::note;

/// A subsystem that can be measured, with its whole description.
pub enum Opened {
    Simulated(Box<SimSubsystem>),
    Pair { subsystem: Box<PairSubsystem>, source: String },
}

impl Opened {
    /// Opens what the arguments name.
    pub fn open(args: &SubsystemArgs) -> anyhow::Result<Self> {
        match kind(&args.subsystem)? {
            Kind::Simulated(model) => {
                let mut subsystem = inputs::simulated(model)?;
                for anomaly in &args.fix {
                    subsystem.fix(*anomaly).with_context(|| format!("--fix {anomaly}"))?;
                }
                for (path, value) in &args.set {
                    subsystem.set(path, value).with_context(|| format!("--set {path}={value}"))?;
                }
                let is_embedded = SimSubsystem::names().contains(&subsystem.model_name());
                if !is_embedded || !args.set.is_empty() {
                    for line in contradictions(&subsystem) {
                        note(&line);
                    }
                }
                Ok(Self::Simulated(Box::new(subsystem)))
            }
            Kind::Pair(_) if !args.set.is_empty() || !args.fix.is_empty() => {
                bail!("--set and --fix change the model of a simulated subsystem; `{}` is real", args.subsystem)
            }
            Kind::Pair(path) => Self::open_pair(&path),
        }
    }

    fn open_pair(path: &Path) -> anyhow::Result<Self> {
        let file = inputs::pair_file(path)?;
        // With absolute paths, so that a campaign can be resumed from anywhere.
        let source = file.to_yaml()?;
        let calibrates = file.bounds.is_none();
        if calibrates {
            let [least, most] = PairSubsystem::calibration_seconds(&file);
            note(&format!(
                "{} has no `bounds`: they are calibrated by simple traffic, which takes about {least:.0} to {most:.0} s",
                path.display()
            ));
        }
        let subsystem = PairSubsystem::of(file)?;
        if let Some(line) = caution(&subsystem.bounds(), calibrates) {
            note(&line);
        }
        Ok(Self::Pair { subsystem: Box::new(subsystem), source })
    }

    /// Opens what a campaign stored, whatever its file has become since, with the bounds that it had.
    pub fn reopen(campaign: &CampaignDefinition) -> anyhow::Result<Self> {
        let (name, source) = (&campaign.subsystem, &campaign.subsystem_source);
        if name.starts_with("sim:") {
            return Ok(Self::Simulated(Box::new(SimSubsystem::from_yaml(name, source)?)));
        }
        let file = PairFile { bounds: Some(campaign.bounds), ..PairFile::from_yaml(Path::new(name), source)? };
        let subsystem = PairSubsystem::of(file)?;
        Ok(Self::Pair { subsystem: Box::new(subsystem), source: source.clone() })
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
    pub fn path_checks(&mut self) -> anyhow::Result<Vec<Check>> {
        match self {
            Self::Simulated(subsystem) => simulated::checks(subsystem, &ports::plain_both_ways()),
            Self::Pair { subsystem, .. } => ports::checks(
                subsystem,
                &ports::plain_both_ways(),
                &ports::Choice::Own,
                None,
                &AtomicBool::new(false),
                &note,
            ),
        }
    }

    /// Has the latency of requests measured from now on.
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
