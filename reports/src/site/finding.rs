//! The page of one finding: conditions, cures, the anomalous workload beside a healthy one. No judgement of its own.

use std::collections::BTreeSet;

use kelpie_monitor::attained::attained;
use kelpie_monitor::verdict::{LOW_SHARE, PAUSE_RATIO};
use kelpie_monitor::{PerHost, Sample, Severity, Verdict, counters};
use kelpie_search::{Cure, FindingEvidence};
use kelpie_spaces::{Direction, Feature, Host, Workload, workload_to_yaml};
use kelpie_store::{Ended, FindingRecord};
use maud::{Markup, html};

use super::edges::edges;
use super::error::SiteError;
use super::page::{campaign_title, figure, named, page, wide};
use super::plot::{BarGroup, Bars, Plot, Scale, Titled};
use crate::brief;
use crate::explained::{Explained, Weighed};
use crate::repeats::Repeats;
use crate::stored_campaign::{ExperimentSummary, StoredCampaign};
use crate::wording;

/// A finding with what its page shows.
#[derive(Debug)]
pub(super) struct FindingPage<'d> {
    stored: &'d StoredCampaign,
    record: &'d FindingRecord,
    explained: &'d Explained<'d>,
    severity: Option<Severity>,
    seen: usize,
    /// `None` if it was stored by a version of Kelpie that kept something else.
    evidence: Option<FindingEvidence>,
    /// What shows it: of its own workload if that was measured, else the experiment that found it.
    witness: Option<&'d ExperimentSummary>,
    neighbour: Option<&'d ExperimentSummary>,
    plots: Vec<Titled>,
    edges: Vec<Titled>,
    /// Whether a recipe lies beside the page.
    has_recipe: bool,
}

impl<'d> FindingPage<'d> {
    pub(super) fn new(
        stored: &'d StoredCampaign,
        found: Weighed<'d>,
        explained: &'d Explained<'d>,
        has_recipe: bool,
    ) -> Self {
        let Weighed { finding: record, severity, seen } = found;
        let witness = stored.witness(record);
        let neighbour = stored.healthy_neighbour(record);
        let evidence = record.evidence();
        let edges = if record.is_candidate() { Vec::new() } else { edges(stored, record) };
        let mut shown = Self {
            stored,
            record,
            explained,
            severity,
            seen,
            evidence,
            witness,
            neighbour,
            plots: Vec::new(),
            edges,
            has_recipe,
        };
        shown.plots = [shown.throughput(), shown.pause()].into_iter().flatten().collect();
        shown
    }

    pub(super) fn into_plots(self) -> impl Iterator<Item = Titled> {
        self.plots.into_iter().chain(self.edges)
    }

    pub(super) fn page(&self) -> Result<String, SiteError> {
        let Self { stored, record, .. } = self;
        let figures = self.plots.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
        let edges = self.edges.iter().map(figure).collect::<Result<Vec<_>, _>>()?;
        let trail =
            html! { nav aria-label="Report" { a href="index.html" { (campaign_title(stored)) } (self.beside()) } };
        let content = html! {
            p {
                span.badge.alarm { (record.symptom.name()) }
                " This is " (wording::symptom(record.symptom)) "."
            }
            p { "Severity: " (wording::severity(self.severity)) ", with " (record.workload.summary()) "." }
            section aria-labelledby="conditions" { h2 #conditions { "Conditions" } (self.conditions()) }
            section aria-labelledby="cures" { h2 #cures { "How to avoid it" } (self.cures()) }
            section aria-labelledby="how" { h2 #how { "How it was found" } (self.how()) }
            section aria-labelledby="compared" {
                h2 #compared { "Beside a healthy workload" }
                (self.compared())
                @for figure in &figures { (figure) }
                @if self.mean(self.witness).is_some_and(|mean| mean.pause.is_none()) {
                    p { "The subsystem has no pause counters." }
                }
                (self.counters())
            }
            @if !edges.is_empty() {
                section aria-labelledby="edges" {
                    h2 #edges { "Where the symptom ends" }
                    @for edge in &edges { (edge) }
                }
            }
            section aria-labelledby="workload" { h2 #workload { "Workload" } (self.workload()) }
            section aria-labelledby="recipe" { h2 #recipe { "Recipe" } (self.recipe()) }
        };
        let title = format!("Finding {}.{}: {}", stored.campaign.id, record.number, record.symptom.name());
        Ok(page(&title, &trail, &content))
    }

    /// Links to the findings that are a little worse and a little better.
    fn beside(&self) -> Markup {
        let findings: Vec<&Weighed<'_>> = self.explained.firsts().collect();
        let at = findings.iter().position(|found| found.finding.number == self.record.number);
        let link = |at: Option<usize>, words: &str| {
            let found = at.and_then(|at| findings.get(at));
            html! { @if let Some(found) = found { " · " a href={ "finding-" (found.finding.number) ".html" } { (words) } } }
        };
        html! {
            (link(at.and_then(|at| at.checked_sub(1)), "Finding before"))
            (link(at.map(|at| at + 1), "Next finding"))
        }
    }

    fn conditions(&self) -> Markup {
        let conditions = self.record.region_by_need().conditions;
        html! {
            @if conditions.is_empty() {
                p { "It has none: every workload of the space meets them." }
            } @else {
                ul.plain {
                    @for condition in &conditions {
                        li { (wording::condition(condition)) " " code.soft { (condition.feature) } }
                    }
                }
            }
            @if self.record.is_candidate() {
                p { span.badge { "not measured" } " The bounds are those of the workload, and not every condition may be needed." }
            }
            p { (self.sure()) }
            @if let Some(repeats) = Repeats::of(&self.stored.again, self.record.number, self.witness.map(|point| point.number)) {
                p { "The workload was " (repeats) "." }
            }
            @if self.record.is_pinned() {
                p {
                    span.badge { "pinned" } " The conditions name every feature of the workload, because no single \
                    change cured it or because the algorithm does not reduce anomalies. A wider region may show it too."
                }
            }
            (self.beside_conditions())
        }
    }

    /// What random workloads say that meet the conditions.
    fn sure(&self) -> String {
        let evidence = self.evidence.as_ref();
        let Some(FindingEvidence { validated: of @ 1.., shows_inside, healthy_inside, .. }) = evidence else {
            return "No random workload was measured that meets these conditions, so that nobody knows how many show it."
                .to_owned();
        };
        format!(
            "Random workloads measured that meet these conditions: {of}. {shows_inside} of them show the symptom, {} show \
             another one, {healthy_inside} are healthy; with 95 % confidence at least {} show it.",
            of.saturating_sub(shows_inside.saturating_add(*healthy_inside)),
            wording::percent(self.record.confidence)
        )
    }

    /// Transports, counters, variants and the paper's anomaly.
    fn beside_conditions(&self) -> Markup {
        let Some(evidence) = &self.evidence else { return html! {} };
        let without = brief::joined(&evidence.transports, false);
        let falls = brief::falls(evidence);
        let variants = self.explained.variants_of(self.record.number).collect::<Vec<_>>();
        html! {
            dl.facts {
                @if !evidence.transports.is_empty() {
                    dt { "Shows with" } dd { (brief::joined(&evidence.transports, true)) }
                    @if !without.is_empty() { dt { "Not with" } dd { (without) } }
                }
                @if !falls.is_empty() {
                    dt { "Counters" }
                    dd {
                        ul.plain {
                            @for (name, times) in &falls {
                                li { code { (name) } " falls " (format!("{times:.0}")) " times, whichever condition is broken" }
                            }
                        }
                    }
                }
                @if let Some(paper) = brief::like_the_papers(self.record) {
                    dt { "Like" } dd { "anomaly " (paper) " of the Collie paper, table 2" }
                }
                dt { "Explains" } dd { (self.seen) " anomalous experiments" }
                @if !variants.is_empty() {
                    dt { "Variants" }
                    dd {
                        ul.plain {
                            @for variant in &variants {
                                li {
                                    (self.stored.campaign.id) "." (variant.finding.number) ", "
                                    (brief::shows_with(variant.finding)) ": " (brief::conditions(variant.finding))
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn cures(&self) -> Markup {
        let Some(evidence) = &self.evidence else {
            return html! { p { "The effect of breaking a condition was not stored." } };
        };
        let row = |cure: &Cure| {
            let advice = wording::cure(&cure.condition).unwrap_or_else(|| wording::condition(&cure.condition));
            let (class, outcome) = match cure.cured {
                Some(true) if self.is_anomalous_beyond(cure) => {
                    ("badge", "rids it of this symptom, but not at once of all")
                }
                Some(true) => ("badge calm", "cures it"),
                Some(false) => ("badge alarm", "does not cure it alone"),
                None => ("badge", "not tried"),
            };
            html! {
                li {
                    (advice) " " span class=(class) { (outcome) }
                    @for side in &cure.sides { br; (self.side(cure.condition.feature, side)) }
                }
            }
        };
        html! {
            @if evidence.cures.is_empty() {
                p {
                    "No condition was broken on its own. " code { "kelpie mfs check" } " names the nearest workload \
                    outside every finding."
                }
            } @else {
                p { "What each does to the workload below if nothing else is changed:" }
                ul.plain { @for cure in &evidence.cures { (row(cure)) } }
            }
        }
    }

    /// Whether a workload right beyond a bound is anomalous all the same: by another symptom, or less badly.
    fn is_anomalous_beyond(&self, cure: &Cure) -> bool {
        let is_anomalous = |gone: &Workload| {
            let mut measured = self.stored.points.iter().filter(|point| point.workload == *gone);
            measured.any(|point| point.ended == Ended::Judged(Verdict::Anomalous))
        };
        cure.sides.iter().any(|[_, gone]| is_anomalous(gone))
    }

    /// What was measured on both sides of a bound.
    fn side(&self, feature: Feature, [shows, gone]: &[Workload; 2]) -> Markup {
        let one = |workload: &Workload| {
            let value = wording::value(feature, &workload.feature(feature));
            let point = self.stored.points.iter().find(|point| point.workload == *workload);
            let seen = point.map(|point| {
                let severity =
                    point.severity.map_or_else(|| wording::ended(point.ended).to_owned(), |one| one.to_string());
                format!(" (experiment {}: {severity})", point.number)
            });
            format!("{value}{}", seen.unwrap_or_default())
        };
        html! { span.soft { "measured: there at " (one(shows)) ", gone at " (one(gone)) } }
    }

    fn how(&self) -> Markup {
        let Self { record, stored, evidence, .. } = self;
        let purpose = stored.point(record.found_at).map(|point| &point.purpose);
        html! {
            dl.facts {
                dt { "Found at" }
                dd {
                    "experiment " (record.found_at) " of " (stored.points.len())
                    @if let Some(purpose) = purpose { ", which " (wording::purpose(purpose)) }
                }
                dt { "Reduced in" } dd { (record.experiments_for_mfs) " experiments" }
                @if let Some(evidence) = evidence {
                    @if !evidence.symptoms.is_empty() {
                        dt { "Symptoms" }
                        dd { (evidence.symptoms.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")) }
                    }
                }
                @if let Some(events) = self.events().filter(|events| !events.is_empty()) {
                    dt { "Hardware" } dd { ul.plain { @for event in events { li { (event) } } } }
                }
            }
        }
    }

    fn compared(&self) -> Markup {
        let Some(witness) = self.witness else {
            return html! { p { "The experiment of this finding is not in the database." } };
        };
        let Some(neighbour) = self.neighbour else {
            let why =
                "This campaign measured no healthy workload outside the conditions, so there is none to compare with.";
            return html! { p { (why) } };
        };
        let differing = witness.workload.differing(&neighbour.workload);
        let table = html! {
            table.cards {
                caption #features-caption { "The features in which the two workloads differ." }
                thead {
                    tr { th scope="col" { "Feature" } th scope="col" { "Healthy" } th scope="col" { "Anomalous" } }
                }
                tbody {
                    @for feature in &differing {
                        tr {
                            th scope="row" { (named(*feature)) }
                            td data-label="Healthy" { (wording::value(*feature, &neighbour.workload.feature(*feature))) }
                            td data-label="Anomalous" { (wording::value(*feature, &witness.workload.feature(*feature))) }
                        }
                    }
                }
            }
        };
        html! {
            p {
                "Anomalous is experiment " (witness.number) ". Of the healthy ones experiment " (neighbour.number)
                " is nearest: its workload differs in " (differing.len())
                @if differing.len() == 1 { " feature." } @else { " features." }
            }
            @if !differing.is_empty() { (wide("features-caption", &table)) }
        }
    }

    fn counters(&self) -> Markup {
        let (healthy, anomalous) = (self.mean(self.neighbour), self.mean(self.witness));
        let rows = counter_rows(healthy, anomalous);
        if rows.is_empty() {
            return html! { p { "All counters are 0." } };
        }
        let cell = |label: &str, name: &str, value: Option<f64>| {
            html! {
                td.figure data-label=(label) data-value=(value.unwrap_or(-1.0)) {
                    @if let Some(value) = value { (counters::shown(name, value)) } @else { "–" }
                }
            }
        };
        let table = html! {
            table.sortable.cards {
                caption #counters-caption { "Counters, the mean of the samples; those at 0 in both are left out." }
                thead {
                    tr {
                        th scope="col" { "Counter" }
                        th scope="col" { "Host" }
                        th.figure scope="col" data-number { "Healthy" }
                        th.figure scope="col" data-number { "Anomalous" }
                    }
                }
                tbody {
                    @for (name, host, healthy, anomalous) in rows {
                        tr {
                            th scope="row" { code { (name) } }
                            td data-label="Host" { (host) }
                            (cell("Healthy", name, healthy)) (cell("Anomalous", name, anomalous))
                        }
                    }
                }
            }
        };
        html! { h3 { "Counters" } (wide("counters-caption", &table)) }
    }

    fn workload(&self) -> Markup {
        let name = format!("finding-{}.yaml", self.record.number);
        html! {
            p {
                "As a file: " a href=(name) { (name) } ". "
                code { "kelpie measure " (name) " --subsystem …" } " runs it."
            }
            pre tabindex="0" role="region" aria-label="Workload as YAML" {
                code { (workload_to_yaml(&self.record.workload)) }
            }
        }
    }

    fn recipe(&self) -> Markup {
        let number = self.record.number;
        let name = format!("finding-{number}.tar.gz");
        html! {
            @if self.has_recipe {
                p {
                    "For someone else's bench, without names of hosts: " a href=(name) download { (name) } ". "
                    code { "kelpie recipe replay " (name) } " runs it there, and a README in it says the rest. "
                    code { "kelpie recipe export " (self.stored.campaign.id) "." (number) } " adds what "
                    code { "kelpie doctor" } " says of the hosts."
                }
            } @else {
                p {
                    "There is none: no measurement of this workload that shows the symptom is stored, or its conditions do \
                    not hold for it."
                }
            }
        }
    }

    fn titled(&self, kind: &str, title: &str, caption: &str, bars: Bars) -> Titled {
        Titled {
            slug: format!("finding-{}-{kind}", self.record.number),
            title: title.to_owned(),
            caption: caption.to_owned(),
            plot: Plot::Bars(bars),
        }
    }

    /// The mean of the anomalous experiment, and of the healthy one if there is one.
    fn means(&self) -> Option<(Option<&Sample>, &Sample)> {
        Some((self.mean(self.neighbour), self.mean(self.witness)?))
    }

    /// The mean of an experiment's samples.
    fn mean(&self, point: Option<&ExperimentSummary>) -> Option<&'d Sample> {
        self.stored.detail(point?)?.mean.as_ref()
    }

    /// What went wrong on the hardware's side in the anomalous experiment.
    fn events(&self) -> Option<&'d Vec<String>> {
        Some(&self.stored.detail(self.witness?)?.events)
    }

    fn throughput(&self) -> Option<Titled> {
        let (healthy, anomalous) = self.means()?;
        let bounds = |point: Option<&ExperimentSummary>| {
            let capacity = point.and_then(|point| self.stored.detail(point)?.capacity);
            self.stored.campaign.definition.bounds.at(capacity)
        };
        let mut ways: Vec<(Host, Host)> = Vec::new();
        for rates in [Some(anomalous), healthy].into_iter().flatten().flat_map(|mean| &mean.directions) {
            if !ways.contains(&(rates.from, rates.to)) {
                ways.push((rates.from, rates.to));
            }
        }
        ways.sort_by_key(|(from, to)| (from.index(), to.index()));
        let nearest = |mean: &Sample, point: Option<&ExperimentSummary>, (from, to): (Host, Host)| {
            attained(&point?.workload, &bounds(point), Direction { from, to }, mean).filter(|one| one.share.is_finite())
        };
        let group = |way: (Host, Host)| {
            let ill = nearest(anomalous, self.witness, way)?;
            let well = healthy.and_then(|mean| nearest(mean, self.neighbour, way));
            let name = format!("{} to {}: {}", way.0, way.1, ill.limit);
            Some(BarGroup { name, healthy: well.map(|one| one.share), anomalous: Some(ill.share) })
        };
        let bars = Bars {
            y_label: "share of the nearest bound".to_owned(),
            scale: Scale::Linear,
            groups: ways.into_iter().filter_map(group).collect(),
            limit: (LOW_SHARE, format!("{:.0} %", LOW_SHARE * 100.0)),
        };
        let caption = "How much each direction reaches of the bound that it is nearest to, which is named for the \
                       anomalous workload. Below the line throughput is low. Traffic within a host crosses no port.";
        (!bars.groups.is_empty()).then(|| self.titled("throughput", "Throughput", caption, bars))
    }

    fn pause(&self) -> Option<Titled> {
        let (healthy, anomalous) = self.means()?;
        let ratios = |mean: &Sample, host: Host| mean.pause.as_ref().map(|pause| *pause.get(host));
        let longest = [healthy, Some(anomalous)].into_iter().flatten().filter_map(|mean| mean.pause.as_ref());
        let longest = longest.map(PerHost::longest).fold(0.0, f64::max);
        anomalous.pause.as_ref().filter(|_| longest > PAUSE_RATIO)?;
        let groups = Host::BOTH.iter().flat_map(|host| {
            let (well, ill) = (healthy.and_then(|mean| ratios(mean, *host)), ratios(anomalous, *host));
            [
                BarGroup { name: format!("sent by {host}"), healthy: well.map(|r| r.tx), anomalous: ill.map(|r| r.tx) },
                BarGroup {
                    name: format!("received by {host}"),
                    healthy: well.map(|r| r.rx),
                    anomalous: ill.map(|r| r.rx),
                },
            ]
        });
        let bars = Bars {
            y_label: "share of the time".to_owned(),
            scale: Scale::Logarithmic,
            groups: groups.collect(),
            limit: (PAUSE_RATIO, wording::percent(PAUSE_RATIO)),
        };
        let caption = "Share of the time in which pause frames held a port, by the frames that each host sent and \
                       received, on a logarithmic axis. Above the line there is a pause symptom.";
        Some(self.titled("pause", "Pause", caption, bars))
    }
}

/// Name, host, healthy and anomalous value of every counter that is other than 0 in one of them.
fn counter_rows<'s>(
    healthy: Option<&'s Sample>,
    anomalous: Option<&'s Sample>,
) -> Vec<(&'s str, Host, Option<f64>, Option<f64>)> {
    let both = [healthy, anomalous];
    let names =
        both.iter().flatten().flat_map(|mean| Host::BOTH.iter().flat_map(|host| mean.counters.get(*host).keys()));
    let names: BTreeSet<&'s String> = names.collect();
    let value = |mean: Option<&Sample>, host: Host, name: &String| mean?.counters.get(host).get(name).copied();
    let rows = names.into_iter().flat_map(|name| {
        Host::BOTH.map(|host| (name.as_str(), host, value(healthy, host, name), value(anomalous, host, name)))
    });
    rows.filter(|(_, _, well, ill)| [well, ill].into_iter().flatten().any(|value| *value != 0.0)).collect()
}
