//! A campaign as text: its findings in one table, or one of them in full.

use std::fmt::Write as _;

use kelpie_monitor::Severity;
use kelpie_reports::brief;
use kelpie_reports::explained::{AnomalyGroup, Explained, Weighed};
use kelpie_reports::repeats::ControlReport;
use kelpie_reports::{identity, times};
use kelpie_search::{Cure, FindingEvidence};
use kelpie_spaces::{Feature, Region, Workload};
use kelpie_store::{Anomaly, Campaign, CampaignId, CampaignState, FindingRecord, Label, Store};
use kelpie_text::{Table, clean, plural, width};

use crate::document::{self, CampaignContents, Wanted};

/// Findings and groups that are shown if nobody asks for more. Source: our choice, because a campaign is to be read on
/// one screen, which has some 40 lines.
const MOST_FINDINGS: usize = 10;
const MOST_GROUPS: usize = 4;
/// Counters of a signature that are shown. Source: our choice.
const MOST_COUNTERS: usize = 4;

/// A campaign with its findings; `database` is the argument that names it in the commands that the text proposes.
///
/// # Errors
///
/// There is no such campaign, or the database cannot be read.
pub fn campaign(store: &mut Store, id: CampaignId, wanted: Wanted, database: &str) -> anyhow::Result<String> {
    let read = CampaignContents::of(store, id)?;
    let explained = read.explained();
    let mut text = head(store, &read.campaign, &explained)?;
    if let Some(absence) = document::none_found(store, id, &read.findings)? {
        let _ = writeln!(text, "  {absence}");
    }
    text += &table(&read, &explained, wanted, database);
    Ok(text + &unexplained(id, &explained))
}

fn head(store: &mut Store, campaign: &Campaign, explained: &Explained<'_>) -> anyhow::Result<String> {
    let (id, definition) = (campaign.id, &campaign.definition);
    let mut text = format!(
        "campaign {id} ({}): {} over {}, {}, seed {}\n  {}, {} skipped, {}\n",
        campaign.state,
        clean(&definition.subsystem),
        clean(&definition.space),
        clean(&definition.algorithm),
        definition.seed,
        plural(campaign.experiments, "experiment"),
        campaign.skipped,
        explained.findings_in_words()
    );
    let changed = document::changed(definition);
    if !changed.is_empty() {
        let _ = writeln!(text, "  with {}", identity::in_words(&changed));
    }
    let clock = store.clock(id)?;
    let _ = writeln!(text, "  begun {}, measured for {}", times::started(clock), times::measured(clock));
    let label = words(&store.label(id)?);
    if !label.is_empty() {
        let _ = writeln!(text, "  {label}");
    }
    if let Some(control) = ControlReport::of(&store.measured_again(id)?) {
        let _ = writeln!(text, "  {control}");
    }
    Ok(text)
}

/// A label in a line; empty if nothing is said.
pub fn words(label: &Label) -> String {
    [label.name.as_deref(), label.note.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// The findings and candidates, the worst first, each in a row.
fn table(read: &CampaignContents, explained: &Explained<'_>, wanted: Wanted, db: &str) -> String {
    let id = read.campaign.id;
    let shown: Vec<&Weighed<'_>> = explained.firsts().filter(|found| wanted.has(found)).collect();
    let most = if wanted.all { usize::MAX } else { wanted.top.unwrap_or(MOST_FINDINGS) };
    let Some(first) = shown.first() else { return String::new() };
    let has_again = read.again.iter().any(|row| row.finding.is_some());
    let heading = ["finding", "symptom", "lost", "with", "conditions", "inside", "seen", "again"];
    let mut table = Table::new(&heading[..if has_again { 8 } else { 7 }], &[2, 5, 6, 7]);
    let mut row = |found: &Weighed<'_>| {
        let finding = found.finding;
        let is_variant = finding.variant_of().is_some();
        let mut cells = vec![
            format!("{}{id}.{}", if is_variant { " " } else { "" }, finding.number),
            finding.symptom.name().to_owned(),
            brief::lost(found.severity),
            brief::shows_with(finding),
            brief::conditions(finding),
            if finding.is_candidate() { "?".to_owned() } else { brief::inside(finding) },
            if is_variant { String::new() } else { found.seen.to_string() },
        ];
        if has_again {
            let repeats = read.repeats(finding);
            cells.push(repeats.map_or("-".to_owned(), |repeats| format!("{}/{}", repeats.anomalous, repeats.runs)));
        }
        table.row(cells);
    };
    for found in shown.iter().take(most) {
        row(found);
        explained.variants_of(found.finding.number).filter(|_| wanted.all).for_each(&mut row);
    }
    let mut text = format!("\n{}", table.render_within("", width()));
    let left = shown.get(most..).unwrap_or_default();
    let lost = left.iter().filter_map(|found| found.severity).map(Severity::share).fold(0.0, f64::max) * 100.0;
    let candidates = left.iter().filter(|found| found.finding.is_candidate()).count();
    let counts = [(left.len() - candidates, "finding"), (candidates, "candidate")].into_iter();
    let counts = counts.filter(|(count, _)| *count > 0).map(|(count, noun)| plural(count as u64, noun));
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        let _ = writeln!(text, "and {} more, of at most {lost:.0} % lost (--all)", counts.join(" and "));
    }
    text += "lost: below the nearest bound, or of the time paused; seen: anomalous experiments explained\n\
             inside: random workloads with these conditions that show it +another symptom (?: bounds not measured)\n";
    let _ = writeln!(text, "one in full: `kelpie campaign show {id}.{}{db}`", first.finding.number);
    if let Some(budget) = more(&read.campaign, explained) {
        let _ = writeln!(text, "to measure bounds: `kelpie campaign resume {id} --budget {budget}{db}`");
    }
    text
}

/// The budget with which a campaign would measure its candidates, if it has ended with some.
fn more(campaign: &Campaign, explained: &Explained<'_>) -> Option<u64> {
    /// Experiments for each. Source: `docs/explained/search.md`: some 20 for its conditions, ten to twenty random
    /// workloads, and what is found meanwhile.
    const FOR_EACH: u64 = 50;
    let open = explained.firsts().filter(|found| found.finding.is_candidate()).count() as u64;
    let has_ended = campaign.state == CampaignState::Finished && open > 0;
    has_ended.then(|| (campaign.experiments + open * FOR_EACH).next_multiple_of(100))
}

/// What no finding explains, by what it has in common.
pub fn unexplained(id: CampaignId, explained: &Explained<'_>) -> String {
    let mut text = format!("\n{explained}\n");
    let groups = explained.groups();
    for group in groups.iter().take(MOST_GROUPS) {
        let _ = writeln!(text, "  {:>4}  {}", group.count, in_common(id, group));
    }
    if groups.len() > MOST_GROUPS {
        let rest: usize = groups[MOST_GROUPS..].iter().map(|group| group.count).sum();
        let _ = writeln!(text, "  {rest:>4}  others");
    }
    text
}

/// What the anomalies of a group have in common.
fn in_common(id: CampaignId, group: &AnomalyGroup<'_>) -> String {
    if let Some((finding, missed)) = &group.nearest {
        let missed: Vec<&str> = missed.iter().map(|feature| feature.name()).collect();
        return format!("{id}.{finding} but for {}", missed.join(" and "));
    }
    let Anomaly { number, symptom, severity, reason, .. } = group.worst;
    let reason = reason.as_deref().map_or_else(|| severity.to_string(), clean);
    format!("near no finding (the worst: experiment {number}, {}, {reason})", symptom.name())
}

/// One finding in full; `database` is the argument that names it in the commands that the text proposes.
///
/// # Errors
///
/// There is no such finding, or the database cannot be read.
pub fn finding(store: &mut Store, id: CampaignId, number: u64, database: &str) -> anyhow::Result<String> {
    let read = CampaignContents::of(store, id)?;
    let found = read.weighed(number)?;
    let (finding, evidence) = (found.finding, found.finding.evidence().unwrap_or_default());
    let mut text = format!(
        "finding {id}.{number}: {}, {}\n  {}\n",
        finding.symptom.name(),
        Severity::in_words(found.severity),
        finding.workload.summary()
    );
    if let Some(first) = finding.variant_of() {
        let _ = writeln!(text, "  a variant of {id}.{first}");
    }
    if finding.is_candidate() {
        text += "  a candidate: it needs what is listed, but from where on was not measured; the values are its workload's\n";
    }
    if finding.is_pinned() {
        text += "  pinned: no wider region held or was searched\n";
    } else {
        text += &needs(&evidence.cures, &finding.mfs, |gone| read.shown(gone));
    }
    let _ = writeln!(text, "\n{}", sure(&evidence, finding));
    if !evidence.transports.is_empty() {
        text += &transports(&evidence);
    }
    text += &counters(&evidence);
    let mut limiter = read.limiter()?;
    if let Some(limiting) = limiter.as_mut().and_then(|subsystem| document::limiting(subsystem, &finding.workload)) {
        let _ = writeln!(text, "limiting part, as the simulator says, which no search sees: {limiting}");
    }
    if let Some(paper) = brief::like_the_papers(finding) {
        let _ = writeln!(
            text,
            "like anomaly {paper} of the Collie paper (`kelpie recipe export anomaly:{paper} --out anomaly-{paper}.tar.gz`)"
        );
    }
    if let Some(repeats) = read.repeats(finding) {
        let _ = writeln!(text, "its workload was {repeats}");
    }
    let _ = writeln!(
        text,
        "found at experiment {}, reduced in {}; {} explained",
        finding.found_at,
        plural(finding.experiments_for_mfs, "experiment"),
        plural(found.seen as u64, "anomalous experiment")
    );
    let explained = read.explained();
    for variant in explained.variants_of(number) {
        let (other, needs) = (variant.finding, brief::conditions(variant.finding));
        let _ = writeln!(text, "variant {id}.{}: {}; {needs}", other.number, brief::shows_with(other));
    }
    for way in brief::ways_out(&evidence) {
        let _ = writeln!(text, "to avoid it: {way}");
    }
    let _ = writeln!(text, "next: `kelpie recipe export {id}.{number} --out finding-{number}.tar.gz{database}`");
    Ok(text)
}

/// Each condition on a line, with the workloads on both sides of its bounds.
fn needs(cures: &[Cure], region: &Region, shown: impl Fn(&Workload) -> Option<String>) -> String {
    if region.conditions.is_empty() {
        return "  every workload of the space meets its conditions: there are none\n".to_owned();
    }
    if cures.iter().all(|cure| cure.sides.is_empty()) {
        return condition_lines(region);
    }
    conditions_table(cures, shown)
}

/// Conditions that were measured, with the values on both sides of their bounds; `anomalous` says what the side without
/// the symptom shows instead, if that is known.
pub fn conditions_table(cures: &[Cure], anomalous: impl Fn(&Workload) -> Option<String>) -> String {
    let mut table = Table::new(&["condition", "shows at", "gone at", ""], &[]);
    for Cure { condition, sides, .. } in cures {
        let feature = condition.feature;
        let there: Vec<String> = sides.iter().map(|[shows, _]| shown(feature, shows)).collect();
        let gone = sides.iter().map(|[_, gone]| {
            let instead = anomalous(gone).map_or_else(String::new, |instead| format!(" ({instead})"));
            shown(feature, gone) + &instead
        });
        let gone: Vec<String> = gone.collect();
        table.row(vec![condition.brief(), there.join(" and "), gone.join(" and "), feature.phrase().to_owned()]);
    }
    table.render_within("  ", width())
}

fn shown(feature: Feature, workload: &Workload) -> String {
    let value = workload.feature(feature);
    value.number().map_or_else(|| value.to_string(), |number| feature.written(number))
}

/// What random workloads say that meet the conditions.
fn sure(evidence: &FindingEvidence, finding: &FindingRecord) -> String {
    let FindingEvidence { validated, shows_inside, healthy_inside, .. } = *evidence;
    if validated == 0 {
        return "no random workload was measured that meets these conditions, so that nobody knows how many show it"
            .to_owned();
    }
    let others = validated.saturating_sub(shows_inside.saturating_add(healthy_inside));
    format!(
        "of {} that {} these conditions {shows_inside} show it, {others} show another symptom, {healthy_inside} are healthy: \
         with 95 % confidence at least {:.0} % show it",
        plural(validated, "random workload"),
        if validated == 1 { "meets" } else { "meet" },
        100.0 * finding.confidence
    )
}

/// With which transports and operations it shows, and with which not.
pub fn transports(evidence: &FindingEvidence) -> String {
    let mut text = format!("shows with {}", brief::joined(&evidence.transports, true));
    let without = brief::joined(&evidence.transports, false);
    if !without.is_empty() {
        let _ = write!(text, "; not, or by other counters, with {without}");
    }
    text + "\n"
}

/// The counters by which it shows.
fn counters(evidence: &FindingEvidence) -> String {
    let falls = brief::falls(evidence);
    if falls.is_empty() {
        return "no counter tells it from healthy traffic\n".to_owned();
    }
    let words = falls.iter().take(MOST_COUNTERS).map(|(name, times)| format!("{} by {times:.0}", clean(name)));
    format!("counters that fall whichever condition is broken: {} times\n", words.collect::<Vec<_>>().join(", "))
}

/// Each condition on a line, with the phrase that says what its feature means.
pub fn condition_lines(region: &Region) -> String {
    if region.conditions.is_empty() {
        return format!("    {region}\n");
    }
    let lines = region.conditions.iter().map(|condition| (condition.to_string(), condition.feature.phrase()));
    let width = lines.clone().map(|(condition, _)| condition.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (condition, phrase) in lines {
        let _ = writeln!(text, "    {condition:width$}   {phrase}");
    }
    text
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Condition, Test};

    use super::*;

    #[test]
    fn the_terminal_names_every_feature_as_the_table_does() {
        for feature in Feature::ALL {
            let word = || Test::In(vec!["true".to_owned()]);
            let test = if feature.is_ordered() { Test::Range { min: Some(3), max: None } } else { word() };
            let lines = condition_lines(&Region { conditions: vec![Condition { feature, test }] });
            assert!(lines.trim_start().starts_with(&format!("{feature} ")), "{lines}");
            assert!(lines.trim_end().ends_with(&format!("   {}", feature.phrase())), "{lines}");
        }
    }
}
