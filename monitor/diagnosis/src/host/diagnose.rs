//! The whole diagnosis of a host: states of paths and links, explanations, settings, causes.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use kelpie_topology::HostTopology;
use serde::{Deserialize, Serialize};

use super::causes::{self, Cause};
use super::error::HostError;
use super::expected::{Expected, expected};
use super::explain::{Explanations, candidates, one_larger, smallest};
use super::misconfiguration::rerouted;
use super::paths::{Path, State, crossing, paths};
use super::published;
use crate::matrix::Matrix;
use kelpie_monitor::statistics::{ln_choose, ln_tail, standard_normal};

/// A path below this share of what is expected is abnormal.
/// Source: our choice: noise of one standard deviation `s` is `0.15/s` away from it on the healthy side, and
/// `0.13/s` where 75 % are left, so both mistakes are about equally rare.
const ABNORMAL: f64 = 0.85;
/// How often noise alone may make a host look abnormal. Source: our choice, once in 1,000 hosts.
const CHANCE: f64 = 1e-3;
/// Noise that is assumed before a matrix is seen, as a share, and how many values that is worth.
/// Source: our choice: Hostping's slide repeats within 1 to 7 % in a class; so a host of four paths is judged as well.
const NOISE_BEFORE: (f64, f64) = (0.03, 10.0);
/// Latency above this share of what is expected, with normal bandwidth, has a cause of its own.
/// Source: our choice; the classes of Hostping's slide spread by 6 %, and a detour through the root adds 23 %.
const LATE: f64 = 1.2;

/// Most explanations that are named because they cannot be excluded. Source: our choice, as of explanations.
const MOST_HIDDEN: usize = 64;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
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
pub enum Verdict {
    /// All that was measured is as it should be.
    Healthy,
    /// Something is slower than it should be.
    Abnormal,
    /// Not known: noise could be it, or paths were not measured.
    Undecided,
}

/// What the published method says, beside ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    /// States of links by name.
    pub links: IndexMap<String, State>,
}

/// What is known of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The verdict.
    pub verdict: Verdict,
    /// Per row and column, the state of the path.
    pub paths: IndexMap<String, IndexMap<String, State>>,
    /// Per link, its state.
    pub links: IndexMap<String, State>,
    /// All smallest sets of links that explain the abnormal paths; several are a tie. On a busy host those that more
    /// RNICs point at come first.
    pub explanations: Vec<Vec<String>>,
    /// Whether there are more explanations of this size than are named, or none was found in time.
    pub more_explanations: bool,
    /// What needs one link more than these: other explanations, and these with a link that they may hide, because
    /// nobody saw it carry what some path expects of it.
    pub cannot_be_excluded: Vec<Vec<String>>,
    /// Settings that are wrong, such as `acs_or_ats:psw0`.
    pub misconfiguration: Vec<String>,
    /// What may be behind it, and which readings tell.
    pub causes: Vec<Cause>,
    /// Abnormal paths that no set of links explains.
    pub unexplained: Vec<[String; 2]>,
    /// The published three colours.
    pub published: Published,
    /// One standard deviation of the noise, as a share, by which chance was judged.
    pub noise: f64,
    /// What an answer does not cover, in words.
    pub notes: Vec<String>,
}

/// Says which paths and links of a host are slow, and what may be behind it.
///
/// # Errors
/// When matrix and topology do not fit.
pub fn diagnose(question: Question<'_>) -> Result<Diagnosis, HostError> {
    let Question { host, repeats, baseline, .. } = question;
    if question.matrix.bandwidth_gbps.is_none() {
        return Err(HostError::NoBandwidth);
    }
    let matrix = question.matrix.median_with(repeats);
    let paths = paths(host, &matrix)?;
    let expected = expected(host, &matrix, &paths, baseline);
    let seen = Seen::new(&question, &matrix, paths, expected);
    Ok(seen.judge(&question, &matrix))
}

/// What was measured, held against what is expected.
struct Seen {
    paths: Vec<Path>,
    expected: Expected,
    crossing: BTreeMap<usize, Vec<usize>>,
    /// Share of the expected bandwidth; of an RNIC with other traffic, of its best endpoint's share.
    ratios: Vec<Option<f64>>,
    /// Per path, whether its RNIC had other traffic.
    busy: Vec<bool>,
    noise: f64,
    /// How many values the noise was estimated from.
    freedom: f64,
}

impl Seen {
    fn new(question: &Question<'_>, matrix: &Matrix, paths: Vec<Path>, expected: Expected) -> Self {
        let busy: Vec<bool> =
            paths.iter().map(|path| question.busy || matrix.busy.contains(&matrix.rows[path.row])).collect();
        let share = |(path, usual): (&Path, &Option<f64>)| Some(path.bandwidth? / usual.filter(|usual| *usual > 0.0)?);
        let mut ratios: Vec<Option<f64>> = paths.iter().zip(&expected.bandwidth).map(share).collect();
        // Intercomparison: other traffic takes from all endpoints of an RNIC alike, so only their differences tell.
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        for (index, path) in paths.iter().enumerate().filter(|(index, path)| busy[*index] && path.is_affinitive()) {
            let best = best.entry(path.row).or_insert(0.0);
            *best = best.max(ratios[index].unwrap_or(0.0));
        }
        for (index, path) in paths.iter().enumerate().filter(|(index, _)| busy[*index]) {
            let best = best.get(&path.row).copied().filter(|best| *best > 0.0 && path.is_affinitive());
            ratios[index] = ratios[index].zip(best).map(|(ratio, best)| ratio / best);
        }
        let crossing = crossing(&paths);
        // No fault makes a path faster, so what lies above the expected is noise alone.
        let above: Vec<f64> = ratios.iter().flatten().map(|ratio| ratio - 1.0).filter(|above| *above >= 0.0).collect();
        let (before, worth) = NOISE_BEFORE;
        let before = before * before / (1.0 + question.repeats.len() as f64);
        let freedom = worth + above.len() as f64;
        let noise = ((worth * before + above.iter().map(|above| above * above).sum::<f64>()) / freedom).sqrt();
        Self { paths, expected, crossing, ratios, busy, noise, freedom }
    }

    fn is_slow(&self, path: usize) -> bool {
        self.ratios[path].is_some_and(|ratio| ratio < ABNORMAL)
    }

    /// The natural logarithm of how likely noise alone makes this path, or a worse one, of it.
    fn ln_chance(&self, path: usize) -> f64 {
        self.ratios[path].map_or(0.0, |ratio| ln_tail(standard_normal((ratio - 1.0) / self.noise, self.freedom)))
    }

    /// Of slow paths those that are more than noise: by themselves, or with the others of a link that may limit them.
    fn confirmed(&self, slow: &[usize], limits: &[Vec<usize>]) -> Vec<usize> {
        let measured = self.ratios.iter().flatten().count();
        let alone = |path: usize| (measured as f64).ln() + self.ln_chance(path);
        let together = |link: usize| {
            let of_link: Vec<usize> =
                slow.iter().zip(limits).filter(|(_, links)| links.contains(&link)).map(|(path, _)| *path).collect();
            let crossing = self.crossing[&link].iter().filter(|path| self.ratios[**path].is_some()).count();
            let chance: f64 = of_link.iter().map(|path| self.ln_chance(*path)).sum();
            (self.crossing.len() as f64).ln() + ln_choose(crossing, of_link.len()) + chance
        };
        let is_more = |(path, links): &(&usize, &Vec<usize>)| {
            alone(**path) < CHANCE.ln() || links.iter().any(|link| together(*link) < CHANCE.ln())
        };
        slow.iter().zip(limits).filter(is_more).map(|(path, _)| *path).collect()
    }

    fn judge(&self, question: &Question<'_>, matrix: &Matrix) -> Diagnosis {
        let host = question.host;
        let slow: Vec<usize> = (0..self.paths.len()).filter(|path| self.is_slow(*path)).collect();
        let is_bound = |path: usize, link: usize| self.paths[path].is_bound_of(host, link);
        let limits = candidates(&self.paths, (&self.crossing, &is_bound), &self.ratios, &slow, self.noise, ABNORMAL);
        let abnormal = self.confirmed(&slow, &limits);
        let settings = rerouted(host, &self.paths, &self.expected, &abnormal);
        let by_setting = |path: &usize| settings.iter().any(|setting| setting.paths.contains(path));
        let (of_links, limits): (Vec<usize>, Vec<Vec<usize>>) =
            slow.iter().copied().zip(limits).filter(|(path, _)| abnormal.contains(path) && !by_setting(path)).unzip();
        let mut explained = smallest(&limits);
        self.most_pointed_at_first(&mut explained);
        let states: Vec<State> = (0..self.paths.len()).map(|path| self.path_state(path, &abnormal)).collect();
        let links = self.link_states(host, &explained, &limits);
        let colours = published::colours(host.links().len(), &self.paths, &states);
        let by_name = |states: &[State]| -> IndexMap<String, State> {
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
        let verdict = if !abnormal.is_empty() || !late.is_empty() {
            Verdict::Abnormal
        } else if slow.is_empty() && self.ratios.iter().all(Option::is_some) && !self.busy.contains(&true) {
            Verdict::Healthy
        } else {
            Verdict::Undecided
        };
        let mut by_row: IndexMap<String, IndexMap<String, State>> =
            matrix.rows.iter().map(|row| (row.clone(), IndexMap::new())).collect();
        for (path, state) in states.iter().enumerate() {
            let [row, column] = cell(path);
            by_row.entry(row).or_default().insert(column, *state);
        }
        let larger = one_larger(&limits, &explained);
        let named = |sets: &[Vec<usize>]| -> Vec<Vec<String>> {
            sets.iter().map(|set| set.iter().map(|link| host.link_name(*link)).collect()).collect()
        };
        Diagnosis {
            verdict,
            paths: by_row,
            explanations: named(&explained.sets),
            cannot_be_excluded: named(&self.hidden(host, &explained.sets, larger)),
            more_explanations: explained.is_cut,
            misconfiguration,
            causes,
            unexplained,
            notes: self.notes(question, &slow, &abnormal, &links),
            links: by_name(&links),
            published: Published { links: by_name(&colours) },
            noise: self.noise,
        }
    }

    /// As published: what is slow is abnormal; only an affinitive path of an idle RNIC can be normal. So can one to
    /// another RNIC, because nothing else goes over its cables.
    fn path_state(&self, path: usize, abnormal: &[usize]) -> State {
        if abnormal.contains(&path) {
            State::Abnormal
        } else if self.ratios[path].is_some()
            && !self.is_slow(path)
            && (self.paths[path].is_affinitive() || self.paths[path].is_between_rnics())
            && !self.busy[path]
        {
            State::Normal
        } else {
            State::Undecided
        }
    }

    /// Abnormal is what every explanation names. Normal is what no explanation names, and what carried, in an idle
    /// RNIC's path, about the most that any path expects of it.
    fn link_states(&self, host: &HostTopology, explained: &Explanations, limits: &[Vec<usize>]) -> Vec<State> {
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
            0 if is_candidate(link) || !certified(link) => State::Undecided,
            0 => State::Normal,
            count if count == explained.sets.len() && !explained.is_cut => State::Abnormal,
            _ => State::Undecided,
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

    fn notes(&self, question: &Question<'_>, slow: &[usize], abnormal: &[usize], links: &[State]) -> Vec<String> {
        let mut notes = Vec::new();
        if slow.len() > abnormal.len() {
            notes.push(format!(
                "{} slow paths may be noise of {:.1} %: measure again and give all files, five are enough for 5 %",
                slow.len() - abnormal.len(),
                self.noise * 100.0
            ));
        }
        let unmeasured = self.paths.iter().filter(|path| path.bandwidth.is_none()).count();
        if unmeasured > 0 {
            notes.push(format!("{unmeasured} paths were not measured"));
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
        if question.baseline.is_none() {
            notes.push(
                "no baseline: what is slow on all siblings alike is not seen, except for memory and local GPUs"
                    .to_owned(),
            );
        }
        notes
    }
}
