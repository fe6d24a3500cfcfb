//! Scores as tables: what was found and touched after so many experiments.

use std::fmt::Write as _;

use kelpie_search::Purpose;
use kelpie_text::{Table, percent};

use super::document::moments;
use super::known::Known;
use super::quality::QualityScore;
use super::score::{Reach, Score, Spread};

/// Weaknesses to which the experiments are shown. Source: those that the paper's own baselines end with, Figure 4.
const SHOWN_REACH: usize = 8;

/// Three tables, and more of findings and of what is known if there is anything.
pub fn table(budget: u64, scores: &[Score], known: &[Known]) -> String {
    let moments = moments(budget);
    let mut text = format!("Weaknesses found\n{}", counts(&moments, scores, Score::found, true));
    let _ = write!(text, "\nWeaknesses touched\n{}", counts(&moments, scores, Score::touched, false));
    let _ = write!(text, "\nExperiments by what they were for, in the mean\n{}", purposes(scores));
    if scores.iter().any(|score| score.quality().is_some()) {
        let _ = write!(text, "\nFindings judged (conditions: median / 95th percentile)\n{}", qualities(scores));
    }
    if !known.is_empty() {
        let share = |score: &Score, moment: u64| score.known_share(known, moment);
        let _ = write!(text, "\nShare found of the known weaknesses\n{}", shares(&moments, scores, share));
        let _ = write!(text, "\nKnown weaknesses\n{}", known_table(known));
    }
    text
}

fn heading(moments: &[u64], more: &[&str]) -> Vec<String> {
    let columns = ["subsystem", "algorithm", "campaigns"].map(str::to_owned).into_iter();
    columns.chain(moments.iter().map(u64::to_string)).chain(more.iter().map(|&column| column.to_owned())).collect()
}

fn rows(heading: &[String], scores: &[Score], cells: impl Fn(&Score) -> Vec<String>) -> String {
    let heading: Vec<&str> = heading.iter().map(String::as_str).collect();
    let mut table = Table::new(&heading, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    for score in scores {
        let own = [score.subsystem.clone(), score.name(), score.records.len().to_string()];
        table.row(own.into_iter().chain(cells(score)).collect());
    }
    table.render("")
}

fn counts(moments: &[u64], scores: &[Score], count: fn(&Score, u64) -> Option<Spread>, has_reach: bool) -> String {
    let to_eighth = format!("to the {SHOWN_REACH}th");
    let more: &[&str] = if has_reach { &[&to_eighth, "findings"] } else { &[] };
    rows(&heading(moments, more), scores, |score| {
        let mut cells: Vec<String> = moments.iter().map(|moment| shown(count(score, *moment), 1)).collect();
        if has_reach {
            let reach = score.to_found().into_iter().find(|reach| reach.weaknesses == SHOWN_REACH);
            cells.push(reach.map_or_else(
                || format!("never ({})", score.records.len()),
                |reach| reached(&reach, score.records.len()),
            ));
            cells.push(shown(score.findings(), 1));
        }
        cells
    })
}

fn purposes(scores: &[Score]) -> String {
    let names = Purpose::ALL.map(Purpose::name);
    let heading: Vec<String> =
        ["subsystem", "algorithm", "campaigns"].into_iter().chain(names).map(str::to_owned).collect();
    rows(&heading, scores, |score| {
        let means = score.purposes();
        names.iter().map(|name| means.get(name).map_or("-".to_owned(), |mean| format!("{mean:.0}"))).collect()
    })
}

fn shares(moments: &[u64], scores: &[Score], share: impl Fn(&Score, u64) -> Option<Spread>) -> String {
    rows(&heading(moments, &[]), scores, |score| {
        moments.iter().map(|moment| share(score, *moment).map_or("-".to_owned(), |share| percent(share.mean))).collect()
    })
}

/// What the findings of an algorithm are, and what they say.
fn qualities(scores: &[Score]) -> String {
    let table = |heading: &[&str], cells: &dyn Fn(&QualityScore) -> Vec<String>| {
        let columns = ["subsystem", "algorithm", "campaigns"].iter().chain(heading).map(|&column| column.to_owned());
        rows(&columns.collect::<Vec<_>>(), scores, |score| {
            score.quality().map_or_else(|| vec!["-".to_owned(); heading.len()], |quality| cells(&quality))
        })
    };
    let share = |share: Option<f64>| share.map_or("-".to_owned(), percent);
    let number = |number: Option<f64>| number.map_or("-".to_owned(), |number| format!("{number:.2}"));
    let both = |both: Option<[f64; 2]>| both.map_or("-".to_owned(), |[median, high]| format!("{median} / {high}"));
    let what = table(
        &[
            "findings",
            "candidates",
            "variants",
            "pure",
            "lost",
            "per limiting",
            "per part",
            "conditions",
            "necessary",
            "pinned",
        ],
        &|quality| {
            vec![
                format!("{:.1}", quality.findings),
                format!("{:.1}", quality.candidates),
                format!("{:.1}", quality.variants),
                share(quality.pure),
                format!("{:.1}", quality.lost),
                number(quality.for_each_limiting),
                number(quality.for_each_part),
                both(quality.conditions),
                share(quality.necessary),
                share(quality.pinned),
            ]
        },
    );
    let says = table(&["explain", "accuse", "own inside", "any inside", "state", "hold"], &|quality| {
        [quality.explained, quality.accused, quality.own_inside, quality.any_inside, quality.stated, quality.holds]
            .map(share)
            .to_vec()
    });
    let like = table(&["rows of Table 2", "precision", "recall"], &|quality| {
        let [precision, recall] = quality.like_rows.map_or([None; 2], |both| both.map(Some)).map(share);
        vec![format!("{:.1}", quality.rows), precision, recall]
    });
    format!("{what}\n{says}\n{like}")
}

fn known_table(known: &[Known]) -> String {
    let mut table = Table::new(&["subsystem", "symptom", "part", "points", "triggers"], &[3]);
    for known in known {
        for count in &known.weaknesses {
            let triggers: Vec<String> = count.triggers.iter().map(u32::to_string).collect();
            table.row(vec![
                known.subsystem.clone(),
                count.weakness.symptom.name().to_owned(),
                count.weakness.part.clone(),
                format!("{} of {}", count.points, known.points),
                triggers.join(" "),
            ]);
        }
    }
    table.render("")
}

fn shown(spread: Option<Spread>, digits: usize) -> String {
    match spread {
        Some(Spread { mean, deviation: Some(deviation) }) => format!("{mean:.digits$} ± {deviation:.digits$}"),
        Some(Spread { mean, deviation: None }) => format!("{mean:.digits$}"),
        None => "-".to_owned(),
    }
}

/// Such as `≥ 431 ± 20 (5 of 8)`: three campaigns ended before.
fn reached(reach: &Reach, campaigns: usize) -> String {
    let experiments = shown(Some(reach.experiments), 0);
    if reach.reached == campaigns {
        experiments
    } else {
        format!("≥ {experiments} ({} of {campaigns})", reach.reached)
    }
}
