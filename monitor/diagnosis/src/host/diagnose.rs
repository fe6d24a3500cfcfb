//! The whole diagnosis of a host: states of paths and links, explanations, settings, causes.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use kelpie_topology::HostTopology;
use serde::{Deserialize, Serialize};

use super::causes::{self, CandidateCause};
use super::error::HostDiagnosisError;
use super::expected::{ABNORMAL, ExpectedPaths, Reference, expected};
use super::explain::{Explanations, candidates, one_larger, smallest};
use super::intermittent::{self, Intermittent};
use super::misconfiguration::rerouted;
use super::paths::{LoopbackPath, PathState, crossing, paths};
use super::published;
use super::rounds::{Noise, Rounds, ln_by_place};
use crate::matrix::Matrix;
use kelpie_monitor::statistics::{ln_choose, ln_tail, median};

/// How often noise alone may make a host look abnormal. Source: our choice, once in 1,000 hosts.
const CHANCE: f64 = 1e-3;
/// Latency above this share of what is expected, with normal bandwidth, has a cause of its own.
/// Source: our choice; the classes of Hostping's slide spread by 6 %, and a detour through the root adds 23 %.
const LATE: f64 = 1.2;

/// How much further than one standard deviation a path is from the best of its row. Source: our choice, an upper bound
/// of what the variance of that best adds.
const BESIDE_BEST: f64 = 1.2;
/// By how many standard deviations the best of two, three and so on is above their mean.
/// Source: means of the greatest of normal values; eight and more are taken as eight.
const BEST_OF: [f64; 9] = [0.0, 0.0, 0.56, 0.85, 1.03, 1.16, 1.27, 1.35, 1.42];
/// What a link carries of its trained rate at least and at most if that limits it. Source: as of the PCIe rates that
/// expectations rest on, and noise of 5 %.
const OF_TRAINED: (f64, f64) = (0.6, 1.05);

/// How much more than its rate a link may seem to carry. Source: our choice, noise of 5 %, twice.
const BEYOND: f64 = 1.1;
/// What an RNIC has to be below what is expected to be worth a word, and in standard deviations of the noise.
/// Source: our choice: classes of Hostping's slide spread by 6 %.
const A_LITTLE_SLOW: f64 = 0.07;
const SURELY: f64 = 4.0;

/// Most explanations that are named because they cannot be excluded. Source: our choice, as of explanations.
const MOST_HIDDEN: usize = 64;

/// Matrices that tell a fault from load. Source: measured, the page on host diagnosis.
const REPEATS: usize = 5;
/// Most notes of one kind. Source: our choice.
const MOST_NOTES: usize = 4;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct HostQuestion<'q> {
    /// The host.
    pub host: &'q HostTopology,
    /// What was measured.
    pub matrix: &'q Matrix,
    /// The same measured again, which noise calls for.
    pub repeats: &'q [Matrix],
    /// What was measured when the host was healthy.
    pub baseline: Option<&'q Matrix>,
    /// Whether all RNICs had other traffic; else those that the matrix says.
    pub busy: bool,
}

/// The verdict on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostVerdict {
    /// All that was measured is as it should be.
    Healthy,
    /// Something is slower than it should be.
    Abnormal,
    /// Not known: noise could be it, or paths were not measured.
    Undecided,
}

/// A link that explains slow paths, in figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowLink {
    /// The link.
    pub link: String,
    /// The most that a slow path over it carried. Units: Gbit/s.
    pub carried_gbps: f64,
    /// What was expected of such a path, or the declared rate that the expectation rests on. Units: Gbit/s.
    pub expected_gbps: f64,
    /// What the expectation rests on.
    pub reference: Reference,
    /// How the link trained, if that is less than it could.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trained: Option<String>,
}

/// What the published method says, beside ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublishedDiagnosis {
    /// States of links by name.
    pub links: IndexMap<String, PathState>,
}

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostDiagnosis {
    /// The verdict.
    pub verdict: HostVerdict,
    /// Per row and column, the state of the path.
    pub paths: IndexMap<String, IndexMap<String, PathState>>,
    /// Per link, its state.
    pub links: IndexMap<String, PathState>,
    /// All smallest sets of links that explain the abnormal paths; several are a tie. On a busy host those that more
    /// RNICs point at come first.
    pub explanations: Vec<Vec<String>>,
    /// The links of the explanations in figures.
    pub slow: Vec<SlowLink>,
    /// Links that were slow in some of the matrices and not in most.
    pub intermittent: Vec<Intermittent>,
    /// Whether there are more explanations of this size than are named, or none was found in time.
    pub more_explanations: bool,
    /// What needs one link more than these: other explanations, and these with a link that they may hide, because
    /// nobody saw it carry what some path expects of it.
    pub cannot_be_excluded: Vec<Vec<String>>,
    /// Settings that are wrong, such as `acs_or_ats:psw0`.
    pub misconfiguration: Vec<String>,
    /// What may be behind it, and which readings tell.
    pub causes: Vec<CandidateCause>,
    /// Abnormal paths that no set of links explains.
    pub unexplained: Vec<[String; 2]>,
    /// The published three colours.
    pub published: PublishedDiagnosis,
    /// One standard deviation of the noise, as a share, by which chance was judged.
    pub noise: f64,
    /// What an answer does not cover, in words.
    pub notes: Vec<String>,
    /// Whether nothing was slow and nobody else used the host, so that it may be a baseline although nobody knows what
    /// its paths should carry.
    #[serde(skip)]
    pub is_steady: bool,
}

/// Says which paths and links of a host are slow, and what may be behind it.
///
/// # Errors
/// When matrix and topology do not fit.
pub fn diagnose(question: HostQuestion<'_>) -> Result<HostDiagnosis, HostDiagnosisError> {
    if question.busy && question.repeats.len() + 1 >= super::rounds::LEAST {
        // Who says that others had traffic may be wrong: a host whose paths all carry what idle ones do, each time, has
        // none.
        let idle = question.matrix.busy.is_empty().then(|| diagnose(HostQuestion { busy: false, ..question }));
        if let Some(Ok(mut quiet)) =
            idle.filter(|idle| idle.as_ref().is_ok_and(|idle| idle.verdict == HostVerdict::Healthy))
        {
            quiet.notes.insert(
                0,
                "each path carries what idle ones of its kind do, in all matrices: no other traffic took from it"
                    .to_owned(),
            );
            return Ok(quiet);
        }
    }
    let HostQuestion { host, repeats, baseline, .. } = question;
    if question.matrix.bandwidth_gbps.is_none() {
        return Err(HostDiagnosisError::NoBandwidth);
    }
    let matrix = question.matrix.median_with(repeats);
    let paths = paths(host, &matrix)?;
    let mut rounds = vec![question.matrix];
    rounds.extend(repeats);
    let mut expected_now = expected(host, &matrix, &paths, baseline, question.busy);
    let mut loaded = Rounds::new(&matrix, &rounds, &paths, &expected_now.bandwidth).loaded();
    loaded.retain(|row| !question.busy && !matrix.busy.contains(&matrix.rows[*row]));
    let mut matrix = matrix;
    if !loaded.is_empty() {
        // Who is loaded is no reference of what is idle, and nothing declared is to be expected of it.
        matrix.busy.extend(loaded.iter().map(|row| matrix.rows[*row].clone()));
        expected_now = expected(host, &matrix, &paths, baseline, question.busy);
    }
    let rounds = Rounds::new(&matrix, &rounds, &paths, &expected_now.bandwidth);
    let seen = PathRatios::new(&question, &matrix, paths, expected_now, rounds, loaded);
    Ok(seen.judge(&question, &matrix))
}

/// What was measured, held against what is expected.
struct PathRatios {
    paths: Vec<LoopbackPath>,
    expected: ExpectedPaths,
    crossing: BTreeMap<usize, Vec<usize>>,
    /// Share of the expected bandwidth; of an RNIC with other traffic, of its best endpoint's share.
    ratios: Vec<Option<f64>>,
    /// Per path, whether its RNIC had other traffic.
    busy: Vec<bool>,
    /// Rows that others load although the matrix does not say so.
    loaded: Vec<usize>,
    rounds: Rounds,
    /// Of paths of idle RNICs, and of those with other traffic.
    noise: [Noise; 2],
    /// Of one matrix, if there are several.
    of_one: Option<Noise>,
    /// Per path of an idle RNIC, the logarithm of how likely load alone makes it slow in so many matrices.
    by_load: Vec<f64>,
    /// Per path that is compared with its row, what it carries beside that in each matrix.
    standings: Vec<Vec<Option<f64>>>,
}

impl PathRatios {
    fn new(
        question: &HostQuestion<'_>,
        matrix: &Matrix,
        paths: Vec<LoopbackPath>,
        expected: ExpectedPaths,
        rounds: Rounds,
        loaded: Vec<usize>,
    ) -> Self {
        let busy: Vec<bool> =
            paths.iter().map(|path| question.busy || matrix.busy.contains(&matrix.rows[path.row])).collect();
        let share =
            |(path, usual): (&LoopbackPath, &Option<f64>)| Some(path.bandwidth? / usual.filter(|usual| *usual > 0.0)?);
        let mut ratios: Vec<Option<f64>> = paths.iter().zip(&expected.bandwidth).map(share).collect();
        for (index, path) in paths.iter().enumerate().filter(|(index, _)| busy[*index]) {
            ratios[index] = rounds.beside_its_row(index, path.row).filter(|_| path.is_affinitive());
        }
        // Intercomparison: other traffic takes from all endpoints of an RNIC alike, so only their differences tell.
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        for (index, path) in paths.iter().enumerate().filter(|(index, _)| busy[*index]) {
            let best = best.entry(path.row).or_insert(0.0);
            *best = best.max(ratios[index].unwrap_or(0.0));
        }
        for (index, path) in paths.iter().enumerate().filter(|(index, _)| busy[*index]) {
            let best = best.get(&path.row).copied().filter(|best| *best > 0.0);
            ratios[index] = ratios[index].zip(best).map(|(ratio, best)| ratio / best);
        }
        let crossing = crossing(&paths);
        let is_compared = |index: usize| {
            let declared = [Some(Reference::Port), Some(Reference::Topology)];
            !busy[index] && !declared.contains(&expected.reference[index].map(|(by, _)| by))
        };
        let above: Vec<f64> = (0..paths.len())
            .filter(|index| is_compared(*index))
            .filter_map(|index| ratios[index].map(|ratio| ratio - 1.0).filter(|above| *above >= 0.0))
            .collect();
        let between = rounds.between(&paths, |index| !busy[index], false);
        let noise = [rounds.idle(&above, between), rounds.beside_load(&paths, &busy, &ratios)];
        let of_one = Rounds::of_one(between);
        let is_slow = |path: usize| ratios[path].is_some_and(|ratio| ratio < ABNORMAL);
        let by_load = rounds.ln_by_load(&|path| !busy[path], &is_slow, of_one.unwrap_or(noise[0]), ABNORMAL);
        let standings = |(index, path): (usize, &LoopbackPath)| {
            let is_compared = busy[index] && path.is_affinitive();
            if is_compared { rounds.standings(index, path.row) } else { Vec::new() }
        };
        let standings = paths.iter().enumerate().map(standings).collect();
        Self { paths, expected, crossing, ratios, busy, loaded, rounds, noise, of_one, by_load, standings }
    }

    fn is_slow(&self, path: usize) -> bool {
        self.ratios[path].is_some_and(|ratio| ratio < ABNORMAL)
    }

    fn noise_of(&self, path: usize) -> f64 {
        self.noise[usize::from(self.busy[path])].share
    }

    /// The natural logarithm of how likely noise or load alone makes this path, or a worse one, of it.
    fn ln_chance(&self, path: usize) -> f64 {
        let load = if self.busy[path] { self.ln_by_place(&[path]) } else { self.by_load[path] };
        self.ln_noise(path).max(load)
    }

    /// The same of load alone, of all of these that are compared with their rows.
    fn ln_by_place(&self, these: &[usize]) -> f64 {
        let mut by_row: BTreeMap<usize, Vec<&[Option<f64>]>> = BTreeMap::new();
        for path in these.iter().filter(|path| self.busy[**path]) {
            by_row.entry(self.paths[*path].row).or_default().push(&self.standings[*path]);
        }
        let others = self.standings.iter().enumerate().filter(|(path, _)| !these.contains(path));
        if by_row.is_empty() {
            0.0
        } else {
            ln_by_place(&by_row, others.flat_map(|(_, values)| values.iter().flatten().copied()).collect())
        }
    }

    fn ln_noise(&self, path: usize) -> f64 {
        let Some(ratio) = self.ratios[path] else { return 0.0 };
        let [idle, busy] = self.noise;
        if !self.busy[path] {
            return ln_tail(idle.normal(ratio));
        }
        let of_row = |other: &usize| self.paths[*other].row == self.paths[path].row && self.ratios[*other].is_some();
        let count = (0..self.paths.len()).filter(of_row).count();
        let usual = 1.0 - BEST_OF[count.min(BEST_OF.len() - 1)] * busy.share;
        ln_tail(Noise { share: BESIDE_BEST * busy.share, ..busy }.normal(ratio + 1.0 - usual).min(0.0))
    }

    /// Of slow paths those that are more than noise: by themselves, or with the others of a link that may limit them.
    fn confirmed(&self, slow: &[usize], limits: &[Vec<usize>]) -> Vec<usize> {
        let measured = self.ratios.iter().flatten().count();
        let alone = |path: usize| (measured as f64).ln() + self.ln_chance(path);
        let together = |link: usize| {
            let of_link: Vec<usize> =
                slow.iter().zip(limits).filter(|(_, links)| links.contains(&link)).map(|(path, _)| *path).collect();
            let crossing = self.crossing[&link].iter().filter(|path| self.ratios[**path].is_some()).count();
            // Paths of a row with other traffic are compared with the same one, so together they are one witness.
            let mut witnesses: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for path in of_link.iter().filter(|path| self.busy[**path]) {
                witnesses.entry(self.paths[*path].row).or_default().push(self.ln_noise(*path));
            }
            let busy: f64 = witnesses.values().map(|all| all.iter().sum::<f64>() / all.len() as f64).sum();
            let idle: f64 = of_link.iter().filter(|path| !self.busy[**path]).map(|path| self.ln_chance(*path)).sum();
            let chance = idle + busy.max(self.ln_by_place(&of_link));
            (self.crossing.len() as f64).ln() + ln_choose(crossing, of_link.len()) + chance
        };
        let is_more = |(path, links): &(&usize, &Vec<usize>)| {
            alone(**path) < CHANCE.ln() || links.iter().any(|link| together(*link) < CHANCE.ln())
        };
        slow.iter().zip(limits).filter(is_more).map(|(path, _)| *path).collect()
    }

    fn judge(&self, question: &HostQuestion<'_>, matrix: &Matrix) -> HostDiagnosis {
        let host = question.host;
        let slow: Vec<usize> = (0..self.paths.len()).filter(|path| self.is_slow(*path)).collect();
        let is_bound = |path: usize, link: usize| self.paths[path].is_bound_of(host, link);
        let noise = slow.iter().map(|path| self.noise_of(*path)).fold(0.0, f64::max);
        let mut limits = candidates(&self.paths, (&self.crossing, &is_bound), &self.ratios, &slow, noise, ABNORMAL);
        self.trained_low_first(host, &slow, &mut limits);
        let mut abnormal = self.confirmed(&slow, &limits);
        self.drop_scattered(&slow, &limits, &mut abnormal);
        let suspected = self.suspected(host, matrix, (&slow, &limits), &abnormal);
        let settings = rerouted(host, &self.paths, &self.expected, &abnormal);
        let by_setting = |path: &usize| settings.iter().any(|setting| setting.paths.contains(path));
        let (of_links, limits): (Vec<usize>, Vec<Vec<usize>>) =
            slow.iter().copied().zip(limits).filter(|(path, _)| abnormal.contains(path) && !by_setting(path)).unzip();
        let mut explained = smallest(&limits);
        self.most_pointed_at_first(&mut explained);
        self.or_all_alike(&of_links, &mut explained);
        let come_and_gone = self.come_and_gone(host, &slow);
        let states: Vec<PathState> = (0..self.paths.len()).map(|path| self.path_state(path, &abnormal)).collect();
        let links = self.link_states(host, &explained, &limits);
        let colours = published::colours(host.links().len(), &self.paths, &states);
        let by_name = |states: &[PathState]| -> IndexMap<String, PathState> {
            states.iter().enumerate().map(|(link, state)| (host.link_name(link), *state)).collect()
        };
        let cell =
            |path: usize| [matrix.rows[self.paths[path].row].clone(), matrix.columns[self.paths[path].column].clone()];
        let unexplained = of_links.iter().zip(&limits).filter(|(_, links)| links.is_empty());
        let unexplained: Vec<[String; 2]> = unexplained.map(|(path, _)| cell(*path)).collect();
        let misconfiguration =
            settings.iter().map(|setting| format!("acs_or_ats:{}", host.nodes()[setting.switch].name)).collect();
        let late =
            self.late_rows(matrix, &settings.iter().flat_map(|setting| setting.paths.clone()).collect::<Vec<_>>());
        let causes = causes::of(host, &explained.sets, &settings, &late, &self.busy);
        let is_quiet = slow.is_empty() && !self.busy.contains(&true) && come_and_gone.once.is_empty();
        let contradictions = self.contradictions(host, matrix);
        let is_known =
            self.expected.doubtful.is_empty() && self.every_row_is_known(matrix) && contradictions.is_empty();
        let verdict = if !abnormal.is_empty() || !late.is_empty() || !come_and_gone.links.is_empty() {
            HostVerdict::Abnormal
        } else if is_quiet && is_known {
            HostVerdict::Healthy
        } else {
            HostVerdict::Undecided
        };
        let mut by_row: IndexMap<String, IndexMap<String, PathState>> =
            matrix.rows.iter().map(|row| (row.clone(), IndexMap::new())).collect();
        for (path, state) in states.iter().enumerate() {
            let [row, column] = cell(path);
            by_row.entry(row).or_default().insert(column, *state);
        }
        let larger = one_larger(&limits, &explained);
        let named = |sets: &[Vec<usize>]| -> Vec<Vec<String>> {
            sets.iter().map(|set| set.iter().map(|link| host.link_name(*link)).collect()).collect()
        };
        HostDiagnosis {
            verdict,
            paths: by_row,
            explanations: named(&explained.sets),
            cannot_be_excluded: named(&self.hidden(host, &explained.sets, larger)),
            more_explanations: explained.is_cut,
            misconfiguration,
            causes,
            unexplained,
            slow: self.in_figures(host, &explained.sets, &of_links),
            notes: contradictions
                .into_iter()
                .chain(self.a_little_slow(matrix))
                .chain(self.notes(question, matrix, (&slow, &abnormal, &come_and_gone.once), &links, suspected))
                .collect(),
            intermittent: come_and_gone.links,
            links: by_name(&links),
            published: PublishedDiagnosis { links: by_name(&colours) },
            noise: self.noise[usize::from(!self.busy.contains(&false))].share,
            is_steady: is_quiet
                && verdict != HostVerdict::Abnormal
                && self.paths.iter().any(|path| path.bandwidth.is_some()),
        }
    }

    /// Links that carried more than they have, by the topology: the topology or the matrix is of another host, or of
    /// another time.
    fn contradictions(&self, host: &HostTopology, matrix: &Matrix) -> Vec<String> {
        let mut links: BTreeMap<usize, &LoopbackPath> = BTreeMap::new();
        for path in &self.paths {
            for &link in &path.links {
                let best = links.entry(link).or_insert(path);
                if path.bandwidth > best.bandwidth {
                    *best = path;
                }
            }
        }
        let beyond = |(link, path): (usize, &LoopbackPath)| {
            let (gbps, seen) = (host.links()[link].gbps?, path.bandwidth?);
            let [row, column] = [&matrix.rows[path.row], &matrix.columns[path.column]];
            let what = host.links()[link].trained().map_or_else(String::new, |trained| format!(" ({trained})"));
            (seen > BEYOND * gbps).then(|| {
                format!(
                    "contradiction: {row} to {column} carried {seen:.0} Gbit/s over {}, which has {gbps:.0}{what} in the \
                     topology: write the topology again under load, because idle links save power, and measure again",
                    host.link_name(link)
                )
            })
        };
        let found: Vec<String> = links.into_iter().filter_map(beyond).collect();
        let more = found.len().saturating_sub(MOST_NOTES);
        let more = (more > 0).then(|| format!("{more} more links like these"));
        found.into_iter().take(MOST_NOTES).chain(more).collect()
    }

    /// Idle RNICs that carry less than is expected by more than noise, and not by enough to call them abnormal.
    fn a_little_slow(&self, matrix: &Matrix) -> Vec<String> {
        let rows: std::collections::BTreeSet<usize> = self.paths.iter().map(|path| path.row).collect();
        let note = |row: usize| {
            let of_row = (0..self.paths.len()).filter(|path| self.paths[*path].row == row && !self.busy[*path]);
            let own: Vec<f64> =
                of_row.filter(|path| self.paths[*path].is_affinitive()).filter_map(|path| self.ratios[path]).collect();
            let share = median(&own)?;
            let noise = self.noise[0].share;
            let is_little =
                own.iter().all(|share| *share >= ABNORMAL) && 1.0 - share > A_LITTLE_SLOW.max(SURELY * noise);
            is_little.then(|| {
                format!(
                    "{} carries {:.0} % of what is expected of it, less than noise of {:.1} % explains and more than the \
                     {:.0} % from which a path is abnormal: compare its settings with the others', and measure again",
                    matrix.rows[row],
                    share * 100.0,
                    noise * 100.0,
                    ABNORMAL * 100.0
                )
            })
        };
        rows.into_iter().filter_map(note).take(MOST_NOTES).collect()
    }

    /// In few matrices beside other traffic several places that are slow at once are load that varies.
    fn drop_scattered(&self, slow: &[usize], limits: &[Vec<usize>], abnormal: &mut Vec<usize>) {
        if self.rounds.count() >= super::rounds::LEAST {
            return;
        }
        let is_busy = |path: usize| self.busy[path] && abnormal.contains(&path);
        let busy = slow.iter().zip(limits).filter(|(path, _)| is_busy(**path)).map(|(_, links)| links.clone());
        if smallest(&busy.collect::<Vec<_>>()).sets.first().is_some_and(|set| set.len() > 1) {
            abnormal.retain(|path| !self.busy[*path]);
        }
    }

    /// Paths of rows with other traffic that are slow by load or by a fault, which the matrices cannot tell.
    fn suspected(
        &self,
        host: &HostTopology,
        matrix: &Matrix,
        (slow, limits): (&[usize], &[Vec<usize>]),
        abnormal: &[usize],
    ) -> Vec<String> {
        let next = if self.rounds.count() < REPEATS {
            "measure four times more and give all files"
        } else {
            "measure again when the host is idle"
        };
        let is_open = |(path, _): &(&usize, &Vec<usize>)| self.busy[**path] && !abnormal.contains(path);
        let note = |(path, links): (&usize, &Vec<usize>)| {
            let [row, column] = [&matrix.rows[self.paths[*path].row], &matrix.columns[self.paths[*path].column]];
            let names: Vec<String> = links.iter().map(|link| host.link_name(*link)).collect();
            format!(
                "{row} to {column} carries {:.0} % of the best of {row}'s paths: load, or a fault of {}; {next}",
                self.ratios[*path].unwrap_or(0.0) * 100.0,
                if names.is_empty() { "no single link".to_owned() } else { names.join(" or ") }
            )
        };
        let open: Vec<(&usize, &Vec<usize>)> = slow.iter().zip(limits).filter(is_open).collect();
        let more = open.len().saturating_sub(MOST_NOTES);
        let more = (more > 0).then(|| format!("{more} more paths like these"));
        open.into_iter().take(MOST_NOTES).map(note).chain(more).collect()
    }

    /// Where a link that trained lower than it could carries about what it trained to, that link is it.
    fn trained_low_first(&self, host: &HostTopology, slow: &[usize], limits: &mut [Vec<usize>]) {
        let (least, most) = OF_TRAINED;
        for (path, links) in slow.iter().zip(limits) {
            let fits = |link: &usize| {
                let link = host.links()[*link];
                let gbps = link.gbps.filter(|_| link.trained().is_some() && !self.busy[*path]);
                let seen = self.paths[*path].bandwidth;
                gbps.zip(seen).is_some_and(|(gbps, seen)| (least * gbps..=most * gbps).contains(&seen))
            };
            let low: Vec<usize> = self.paths[*path].links.iter().copied().filter(fits).collect();
            if !low.is_empty() {
                *links = low;
            }
        }
    }

    /// If every RNIC is below what rates declare, to all that it alone limits, each one's own link explains it too, as
    /// a setting of the whole host would.
    fn or_all_alike(&self, abnormal: &[usize], explained: &mut Explanations) {
        let is_declared =
            |path: &usize| matches!(self.expected.reference[*path], Some((Reference::Port | Reference::Topology, _)));
        let mut own: Vec<usize> = Vec::new();
        for (index, path) in self.paths.iter().enumerate() {
            let is_limited = path.is_affinitive() && self.ratios[index].is_some();
            if is_limited && !(abnormal.contains(&index) && is_declared(&index)) {
                return;
            }
            own.extend(path.links.first().filter(|_| is_limited));
        }
        own.sort_unstable();
        own.dedup();
        let is_several = own.len() > 1 && !explained.sets.is_empty();
        if is_several && !explained.sets.contains(&own) && !explained.is_cut {
            explained.sets.insert(0, own);
        }
    }

    /// Links that are slow in some matrices, and paths that were slow once.
    fn come_and_gone(&self, host: &HostTopology, slow: &[usize]) -> intermittent::Found {
        let Some(noise) = self.of_one else { return intermittent::Found::default() };
        intermittent::find(&intermittent::Asked {
            host,
            paths: &self.paths,
            crossing: &self.crossing,
            expected: &self.expected.bandwidth,
            rounds: &self.rounds,
            noise,
            chance: CHANCE.ln(),
            is_judged: &|path| !self.busy[path] && !slow.contains(&path),
        })
    }

    /// Whether each RNIC was measured on a path that it alone limits, and of each path that was measured something is
    /// expected. Paths that were not measured keep no host from being healthy: many hosts cannot reach their GPUs.
    fn every_row_is_known(&self, matrix: &Matrix) -> bool {
        let known = |row: usize| {
            let own = self.paths.iter().zip(&self.ratios);
            own.filter(|(path, _)| path.row == row && path.is_affinitive()).any(|(_, ratio)| ratio.is_some())
        };
        let measured = |(path, ratio): (&LoopbackPath, &Option<f64>)| path.bandwidth.is_none() || ratio.is_some();
        (0..matrix.rows.len()).all(known) && self.paths.iter().zip(&self.ratios).all(measured)
    }

    fn in_figures(&self, host: &HostTopology, sets: &[Vec<usize>], abnormal: &[usize]) -> Vec<SlowLink> {
        let mut links: Vec<usize> = sets.iter().flatten().copied().collect();
        let mut seen = std::collections::BTreeSet::new();
        links.retain(|link| seen.insert(*link));
        let figures = |link: usize| {
            let on = || abnormal.iter().filter(move |path| self.paths[**path].links.contains(&link));
            let carried = on().filter_map(|path| self.paths[*path].bandwidth).fold(0.0, f64::max);
            let (reference, expected) = on()
                .filter_map(|path| self.expected.reference[*path])
                .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
            let trained = host.links()[link].trained();
            let link = host.link_name(link);
            Some(SlowLink { link, carried_gbps: carried, expected_gbps: expected, reference, trained })
        };
        links.into_iter().filter_map(figures).collect()
    }

    /// As published: what is slow is abnormal; only an affinitive path of an idle RNIC can be normal. So can one to
    /// another RNIC, because nothing else goes over its cables.
    fn path_state(&self, path: usize, abnormal: &[usize]) -> PathState {
        if abnormal.contains(&path) {
            PathState::Abnormal
        } else if self.ratios[path].is_some()
            && !self.is_slow(path)
            && (self.paths[path].is_affinitive() || self.paths[path].is_between_rnics())
            && !self.busy[path]
        {
            PathState::Normal
        } else {
            PathState::Undecided
        }
    }

    /// Abnormal is what every explanation names. Normal is what no explanation names, and what carried, in an idle
    /// RNIC's path, about the most that any path expects of it.
    fn link_states(&self, host: &HostTopology, explained: &Explanations, limits: &[Vec<usize>]) -> Vec<PathState> {
        let named = |link: usize| explained.sets.iter().filter(|set| set.contains(&link)).count();
        let is_candidate = |link: usize| explained.is_cut && limits.iter().any(|links| links.contains(&link));
        let certified = |link: usize| {
            let Some(crossing) = self.crossing.get(&link) else { return false };
            let bounds = || crossing.iter().filter(|path| self.paths[**path].is_bound_of(host, link));
            let needed = bounds().filter_map(|path| self.expected.bandwidth[*path]).fold(0.0, f64::max);
            let idle = bounds().filter(|path| !self.busy[**path]);
            let carried = idle.filter_map(|path| self.paths[*path].bandwidth).fold(0.0, f64::max);
            needed > 0.0 && carried >= ABNORMAL * needed
        };
        let state = |link: usize| match named(link) {
            0 if is_candidate(link) || !certified(link) => PathState::Undecided,
            0 => PathState::Normal,
            count if count == explained.sets.len() && !explained.is_cut => PathState::Abnormal,
            _ => PathState::Undecided,
        };
        (0..host.links().len()).map(state).collect()
    }

    /// `others`, and each explanation with each link that it may hide: one that shares a path with it, and of which
    /// nobody saw what some path expects. On a busy RNIC a path shows that by its share of the best one.
    fn hidden(&self, host: &HostTopology, sets: &[Vec<usize>], others: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
        let expected = |path: usize| self.expected.bandwidth[path].unwrap_or(0.0);
        let is_seen = |link: usize| {
            let bounds = self.crossing[&link].iter().filter(|path| self.paths[**path].is_bound_of(host, link));
            let crossing: Vec<usize> = bounds.copied().collect();
            let needed = crossing.iter().map(|path| expected(*path)).fold(0.0, f64::max);
            let shows = |path: usize| {
                let share = if self.busy[path] {
                    self.ratios[path]
                } else {
                    self.paths[path].bandwidth.map(|seen| seen / needed)
                };
                expected(path) >= ABNORMAL * needed && share.is_some_and(|share| share >= ABNORMAL)
            };
            needed == 0.0 || crossing.iter().any(|path| shows(*path))
        };
        let unseen: Vec<usize> = self.crossing.keys().copied().filter(|link| !is_seen(*link)).collect();
        let mut hidden = others;
        for set in sets {
            let meets = |link: usize| {
                let on = |path: &&usize| self.paths[**path].links.iter().any(|other| set.contains(other));
                self.crossing[&link].iter().any(|path| on(&path))
            };
            for &link in unseen.iter().filter(|link| !set.contains(link) && meets(**link)) {
                let mut more = set.clone();
                more.push(link);
                more.sort_unstable();
                if hidden.len() < MOST_HIDDEN && !hidden.contains(&more) {
                    hidden.push(more);
                }
            }
        }
        hidden
    }

    /// Source: Hostping: on a busy host links that more RNICs mark are most likely abnormal.
    fn most_pointed_at_first(&self, explained: &mut Explanations) {
        let rows = |link: usize| {
            let mut rows: Vec<usize> = self.crossing[&link]
                .iter()
                .filter(|path| self.is_slow(**path))
                .map(|path| self.paths[*path].row)
                .collect();
            rows.sort_unstable();
            rows.dedup();
            rows.len()
        };
        explained.sets.sort_by_key(|set| std::cmp::Reverse(set.iter().map(|link| rows(*link)).sum::<usize>()));
    }

    /// Rows of which every measured path with normal bandwidth is late, other than by a setting.
    fn late_rows(&self, matrix: &Matrix, by_setting: &[usize]) -> Vec<String> {
        let late = |path: usize| Some(self.paths[path].latency? >= LATE * self.expected.latency[path]?);
        let of = |row: usize| (0..self.paths.len()).filter(move |path| self.paths[*path].row == row);
        let is_late = |row: usize| {
            let judged: Vec<bool> = of(row)
                .filter(|path| !self.is_slow(*path) && !self.busy[*path] && !by_setting.contains(path))
                .filter_map(late)
                .collect();
            !judged.is_empty() && judged.iter().all(|late| *late)
        };
        (0..matrix.rows.len()).filter(|row| is_late(*row)).map(|row| matrix.rows[row].clone()).collect()
    }

    fn notes(
        &self,
        question: &HostQuestion<'_>,
        matrix: &Matrix,
        (slow, abnormal, once): (&[usize], &[usize], &[usize]),
        links: &[PathState],
        suspected: Vec<String>,
    ) -> Vec<String> {
        let mut notes = Vec::new();
        let host = question.host;
        for &path in &self.expected.doubtful {
            let (path, rate) = (&self.paths[path], self.expected.reference[path]);
            let row = &matrix.rows[path.row];
            let (Some(seen), Some(_)) = (path.bandwidth, rate) else { continue };
            let least =
                path.links.iter().filter_map(|link| host.links()[*link].best_gbps()).fold(f64::INFINITY, f64::min);
            notes.push(format!(
                "{row} to {} carries {seen:.0} of {least:.0} Gbit/s that the topology declares; whether its port limits \
                it is not known: write the port's rate into the topology (`ports: {{{row}: GBPS}}`), or give --baseline",
                matrix.columns[path.column]
            ));
            if notes.len() == MOST_NOTES {
                notes.push(format!("{} more paths like these", self.expected.doubtful.len() - MOST_NOTES));
                break;
            }
        }
        for link in (0..links.len()).filter(|link| links[*link] != PathState::Abnormal) {
            if let Some(trained) = host.links()[link].trained() {
                let crossed = if self.crossing.contains_key(&link) { "" } else { ", and no path crosses it" };
                notes.push(format!("{} trained to {trained}{crossed}: reseat it", host.link_name(link)));
            }
        }
        for &path in once {
            let path = &self.paths[path];
            notes.push(format!(
                "{} to {} was slow in some of {} matrices, by load or by a fault that comes and goes: measure again, a \
                fault is slow at the same link",
                matrix.rows[path.row],
                matrix.columns[path.column],
                self.rounds.count()
            ));
        }
        for row in &self.loaded {
            notes.push(format!(
                "what {} carries differs from matrix to matrix on all paths alike: others load it, so that its paths are \
                compared with each other; measure again when it is idle",
                matrix.rows[*row]
            ));
        }
        notes.extend(suspected);
        let by_noise = slow.iter().filter(|path| !self.busy[**path] && !abnormal.contains(path)).count();
        if by_noise > 0 {
            notes.push(format!(
                "{by_noise} slow paths may be noise of {:.1} %: measure again and give all files, five are enough for 5 %",
                slow.iter().map(|path| self.noise_of(*path)).fold(0.0, f64::max) * 100.0
            ));
        }
        let unmeasured = self.paths.iter().filter(|path| path.bandwidth.is_none()).count();
        if unmeasured > 0 {
            let whole =
                |row: usize| self.paths.iter().filter(|path| path.row == row).all(|path| path.bandwidth.is_none());
            let rows: Vec<&str> =
                (0..matrix.rows.len()).filter(|row| whole(*row)).map(|row| matrix.rows[row].as_str()).collect();
            let rows = if rows.is_empty() { String::new() } else { format!(", none of {}", rows.join(", ")) };
            notes.push(format!("{unmeasured} paths were not measured{rows}: of these nothing is known"));
        }
        let unseen: Vec<String> = (0..links.len())
            .filter(|link| !self.crossing.contains_key(link))
            .map(|link| question.host.link_name(link))
            .collect();
        if !unseen.is_empty() {
            notes.push(format!("no path of the matrix crosses {}", unseen.join(", ")));
        }
        if self.busy.contains(&true) {
            notes.push(
                "an RNIC with other traffic is compared with itself: its own slow link is not seen, read its LnkSta"
                    .to_owned(),
            );
        }
        let alone = self.paths.iter().zip(&self.expected.bandwidth);
        let alone = alone.filter(|(path, expected)| path.bandwidth.is_some() && expected.is_none()).count();
        if alone > 0 {
            notes.push(format!(
                "paths without siblings: {alone}; only a baseline (--baseline) can say how fast they should be"
            ));
        }
        if question.baseline.is_none()
            && self.expected.reference.iter().any(|by| matches!(by, Some((Reference::Siblings, _))))
        {
            notes.push(
                "no baseline: what is slow on all siblings alike is seen by the rates of links and ports alone"
                    .to_owned(),
            );
        }
        notes
    }
}
