//! Where a search stands: at its beginning, or as a checkpoint and the experiments before it say.

use kelpie_spaces::Space;
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::Search;
use super::experiments::Experiments;
use super::explore::Explorer;
use super::open_finding::OpenFinding;
use super::reduce::Needs;
use super::touched_anomalies::TouchedAnomaly;
use crate::checkpoint::Checkpoint;
use crate::config::{Algorithm, Config};
use crate::discovery::{Discovery, RefiningExperiments, Yields};
use crate::oracle::Oracle;

impl<'a, O: Oracle> Search<'a, O> {
    /// The search of a checkpoint; a new one if there is none, or if the oracle has not the experiments before it.
    pub(super) fn begin(
        space: &'a Space,
        config: &Config,
        from: Option<Checkpoint>,
        oracle: &'a mut O,
    ) -> Result<Self, O::Error> {
        let mut lab = Experiments::new(space, Pcg64::seed_from_u64(config.seed), oracle);
        let going_on = from.and_then(|from| Some((from.discovery?, from.rng, from.experiments)));
        if let Some((state, rng, experiments)) = going_on
            && lab.has_read_past(experiments, state.learnt)?
        {
            lab.rng = rng;
            return Ok(Self::of(state, lab, config));
        }
        let explorer = Explorer::new(space, &mut lab.rng);
        Ok(Self {
            lab,
            explorer,
            needs: Needs::default(),
            findings: Vec::new(),
            avoided: config.known.clone(),
            touched: Vec::new(),
            yields: Yields::default(),
            spent: RefiningExperiments::default(),
            idle: 0,
        })
    }

    fn of(state: Discovery, lab: Experiments<'a, O>, config: &Config) -> Self {
        let past = lab.notes().past();
        let explorer = Explorer::of(&state.explored, lab.space, &past);
        let findings = state.findings.iter().map(|finding| OpenFinding::of(finding, &past)).collect();
        let touched = state.touched.iter().map(|touched| TouchedAnomaly::of(touched, &past)).collect();
        Self {
            explorer,
            findings,
            touched,
            lab,
            needs: Needs(state.needs),
            avoided: config.known.clone(),
            yields: state.yields,
            spent: state.spent,
            idle: state.idle,
        }
    }

    /// Tells the oracle that the search can go on from here.
    pub(super) fn between_steps(&mut self) -> Result<(), O::Error> {
        let Self { lab, explorer, needs, findings, avoided, touched, yields, spent, idle, .. } = self;
        lab.between_steps(|rng, notes| {
            let number = |workload: &_| notes.number(workload);
            let discovery = Discovery {
                explored: explorer.state(number),
                needs: needs.0.clone(),
                findings: findings.iter().map(OpenFinding::state).collect(),
                touched: touched.iter().map(TouchedAnomaly::state).collect(),
                yields: yields.clone(),
                spent: *spent,
                idle: *idle,
                learnt: notes.learnt(),
            };
            Checkpoint {
                experiments: notes.experiments(),
                findings: findings.len() as u64,
                discovery: Some(discovery),
                ..Checkpoint::new(Algorithm::Kelpie, rng.clone(), avoided.clone())
            }
        })
    }
}
