//! The published experiments of a planned fabric and ours in one table.

use std::fmt::Write as _;

use kelpie_text::Table;

/// An experiment, as it was published and as it was simulated.
#[derive(Debug)]
pub struct ComparedExperiment<'c> {
    /// Its name.
    pub experiment: &'c str,
    /// Least, mean and most over seeds, by ECMP. Units: Gbps.
    pub ecmp_gbps: [f64; 3],
    /// The same of the plan. Units: Gbps.
    pub planned_gbps: [f64; 3],
    /// What the plan gains on average. Units: percent.
    pub gain_percent: f64,
    /// What was published of ECMP, and of the plan.
    pub published: [&'c str; 2],
    /// The published gain, if there is one. Units: percent.
    pub published_gain_percent: Option<f64>,
}

/// The experiments with one setting.
#[derive(Debug)]
pub struct ComparedSetting<'c> {
    /// The setting in words.
    pub setting: String,
    /// Seeds of each experiment.
    pub seeds: u64,
    /// The experiments.
    pub rows: Vec<ComparedExperiment<'c>>,
}

/// Gains this close to the published ones count as equal. Units: percentage points. Source: our choice.
const NEAR: f64 = 10.0;

/// The table of a setting and what it rests on; the gains of other settings, and what they show.
pub fn compared(comparison: &ComparedSetting<'_>, assumptions: &[&str], sweep: &[ComparedSetting<'_>]) -> String {
    let heading = ["experiment", "ECMP", "published", "planned", "published", "gain", "published", "off by"];
    let mut table = Table::new(&heading, &[1, 3, 5, 6, 7]);
    let gbps = |[least, mean, most]: [f64; 3]| format!("{mean:.1} ({least:.0} to {most:.0})");
    for row in &comparison.rows {
        let published = row.published_gain_percent;
        table.row(vec![
            row.experiment.to_owned(),
            gbps(row.ecmp_gbps),
            row.published[0].to_owned(),
            gbps(row.planned_gbps),
            row.published[1].to_owned(),
            format!("{:+.1} %", row.gain_percent),
            published.map_or("-".to_owned(), |gain| format!("{gain:+.1} %")),
            published.map_or("-".to_owned(), |gain| format!("{:+.1}", row.gain_percent - gain)),
        ]);
    }
    let mut text = table.render("");
    let _ =
        writeln!(text, "\nbusbw in Gbps: mean (least to most) of jobs over {} seeds. Assumptions:", comparison.seeds);
    for line in assumptions.iter().copied().chain([comparison.setting.as_str()]) {
        let _ = writeln!(text, "- {line}");
    }
    if sweep.is_empty() {
        return text;
    }
    let mut table = Table::new(&["setting", "1:1", "2:1", "link lost", "largest miss"], &[1, 2, 3, 4]);
    for comparison in sweep {
        let rows: Vec<(f64, f64)> =
            comparison.rows.iter().filter_map(|row| Some((row.gain_percent, row.published_gain_percent?))).collect();
        let miss = rows.iter().map(|(gain, published)| (gain - published).abs()).fold(0.0, f64::max);
        let gains = rows.iter().map(|(gain, _)| format!("{gain:+.1} %"));
        let cells = [comparison.setting.clone()].into_iter().chain(gains).chain([format!("{miss:.1}")]);
        table.row(cells.collect());
    }
    let _ = writeln!(text, "\nGains with other settings (published +70.3 %, +65.5 %, +62.3 %):\n{}", table.render(""));
    text.push_str(&why_not(sweep));
    text
}

/// What the sweep shows: which settings have all published gains, and the one thing that none can have.
fn why_not(sweep: &[ComparedSetting<'_>]) -> String {
    let is_near = |comparison: &&ComparedSetting<'_>| {
        comparison
            .rows
            .iter()
            .all(|row| row.published_gain_percent.is_none_or(|gain| (row.gain_percent - gain).abs() <= NEAR))
    };
    let near: Vec<&str> = sweep.iter().filter(is_near).map(|comparison| comparison.setting.as_str()).collect();
    let mut text = if near.is_empty() {
        format!("No setting has all three gains within {NEAR:.0} points.\n")
    } else {
        format!("All three gains within {NEAR:.0} points: {}. More seeds decide (--seeds).\n", near.join("; "))
    };
    let planned = |name: &str| {
        let rows = sweep.iter().flat_map(|one| &one.rows).filter(|row| row.experiment.starts_with(name));
        rows.map(|row| row.planned_gbps[1]).fold(0.0, f64::max)
    };
    let _ = writeln!(
        text,
        "With any setting a plan gets {:.0} Gbps at most at 2:1, where 325 is published, and {:.0} after a lost uplink, where \
         315 is said to be the best: 7/8 of 360. One fabric cannot have both figures: if half of the spines carry 325, then \
         all of them carry 650, and one uplink of eight that is lost leaves more than a NIC needs.",
        planned("eight jobs, 2:1"),
        planned("the same, planned anew"),
    );
    text
}
