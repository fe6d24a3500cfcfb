//! The picture of a campaign: a head, signals, findings and one finding's details, in whatever room there is. No I/O.

use kelpie_monitor::Severity;
use kelpie_reports::explained::{Explained, Weighed};
use kelpie_store::{Anomaly, CampaignId, CampaignState};
use kelpie_text::clean;
use kelpie_text::plural;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Block, Gauge, Paragraph, Row, Scrollbar, ScrollbarOrientation, ScrollbarState, Sparkline, Table,
};

use crate::campaign_progress::{CampaignProgress, SignalSeries};
use crate::for_people::{signal_name, signal_value};
use crate::view::View;
use crate::{details, text};

/// Columns from which details stand beside the findings. Source: our choice, because a condition is 40 columns wide.
const WIDE: u16 = 100;

/// Heights of a bar, of 1 for the highest value. Source: our choice, because a bar has eight steps.
const STEPS: f64 = 800.0;

/// Widest name of a signal. Units: columns. Source: our choice; longer ones are cut.
const NAME: u16 = 28;

/// Columns of a signal's value, such as `187.3 M/s`.
const VALUE: u16 = 10;

/// How things look; without colours they differ by weight alone.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    good: Style,
    bad: Style,
    accent: Style,
    faint: Style,
    strong: Style,
    selected: Style,
}

impl Theme {
    /// A theme, with colours or without.
    pub fn new(is_coloured: bool) -> Self {
        let colour = |colour| if is_coloured { Style::new().fg(colour) } else { Style::new() };
        Self {
            good: colour(Color::Green),
            bad: colour(Color::Red).add_modifier(Modifier::BOLD),
            accent: colour(Color::Cyan),
            faint: Style::new().add_modifier(Modifier::DIM),
            strong: Style::new().add_modifier(Modifier::BOLD),
            selected: Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// The places of the panes; those without room are empty.
#[derive(Debug, Default, PartialEq)]
struct Panes {
    head: Rect,
    signals: Rect,
    findings: Rect,
    details: Rect,
    foot: Rect,
}

/// Lines of the head: title, gauge, pace, verdicts, phase.
const HEAD: u16 = 5;

/// Places for so many signals and findings; findings come first if there is little room, then details, then signals.
fn panes(area: Rect, signals: usize, findings: usize) -> Panes {
    let foot = u16::from(area.height > HEAD);
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(HEAD), Constraint::Fill(1), Constraint::Length(foot)]).areas(area);
    let none = Panes { head, foot, ..Panes::default() };
    let is_wide = area.width >= WIDE;
    if body.height < 3 {
        return none;
    }
    let rows = |rows: usize| u16::try_from(rows).unwrap_or(u16::MAX);
    if findings == 0 && body.height >= 6 {
        let wanted = rows(signals + 2).clamp(3, body.height - 3);
        let heights = [Constraint::Length(wanted), Constraint::Length(3), Constraint::Fill(1)];
        let [signals, findings, _] = Layout::vertical(heights).areas(body);
        return Panes { signals, findings, ..none };
    }
    let wanted = rows(signals + 2).clamp(3, (body.height / 3).max(3));
    if is_wide {
        let [left, details] = Layout::horizontal([Constraint::Percentage(55), Constraint::Fill(1)]).areas(body);
        let wanted = if body.height < 7 { 0 } else { wanted };
        let [signals, findings] = Layout::vertical([Constraint::Length(wanted), Constraint::Fill(1)]).areas(left);
        return Panes { signals, findings, details, ..none };
    }
    let wanted = if body.height < 12 { 0 } else { wanted };
    let rest = body.height - wanted;
    // With the header and borders, and at most half of the room.
    let table = if body.height < 7 { rest } else { rows(findings + 3).clamp(4, (rest / 2).max(4)) };
    let heights = [Constraint::Length(wanted), Constraint::Length(table), Constraint::Fill(1)];
    let [signals, findings, details] = Layout::vertical(heights).areas(body);
    Panes { signals, findings, details, ..none }
}

/// Draws everything, and puts right what was scrolled too far.
pub fn draw(frame: &mut Frame<'_>, progress: &CampaignProgress, view: &mut View, theme: Theme, now_unix_ms: i64) {
    let (signals, silent) = progress.signals();
    let explained = progress.explained();
    let rows = rows(&explained);
    let panes = panes(frame.area(), signals.len(), rows.len());
    draw_head(frame, panes.head, progress, &explained, theme, now_unix_ms);
    draw_signals(frame, panes.signals, (&signals, silent), view, theme);
    draw_rows(frame, panes.findings, progress, &rows, view, theme);
    draw_details(frame, panes.details, progress, &rows, view, theme);
    draw_foot(frame, panes.foot, view, theme);
}

/// What can be selected: the findings, then the anomalies that none explains, each the worst first.
#[derive(Debug, Clone, Copy)]
enum ListEntry<'a> {
    Found(Weighed<'a>),
    Unexplained(&'a Anomaly),
}

fn rows<'a>(explained: &Explained<'a>) -> Vec<ListEntry<'a>> {
    let found = explained.findings.iter().map(|found| ListEntry::Found(*found));
    found.chain(explained.unexplained.iter().map(|anomaly| ListEntry::Unexplained(anomaly))).collect()
}

impl ListEntry<'_> {
    fn title(&self, campaign: CampaignId) -> String {
        match self {
            ListEntry::Found(found) => {
                format!(" {campaign}.{} {} ", found.finding.number, found.finding.symptom.name())
            }
            ListEntry::Unexplained(anomaly) => format!(" experiment {} {} ", anomaly.number, anomaly.symptom.name()),
        }
    }

    /// The cells of its row.
    fn cells(&self, campaign: CampaignId) -> [String; 5] {
        let share = |severity: Option<Severity>| severity.map_or_else(|| "-".to_owned(), |one| percent(one.share()));
        match self {
            ListEntry::Found(Weighed { finding, severity, .. }) => [
                format!("{campaign}.{}", finding.number),
                finding.symptom.name().to_owned(),
                share(*severity),
                finding.found_at.to_string(),
                clean(&finding.region_by_need().to_string()),
            ],
            ListEntry::Unexplained(anomaly) => [
                "-".to_owned(),
                anomaly.symptom.name().to_owned(),
                share(Some(anomaly.severity)),
                anomaly.number.to_string(),
                clean(&format!("not explained: {}", anomaly.workload.summary())),
            ],
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn draw_head(
    frame: &mut Frame<'_>,
    area: Rect,
    progress: &CampaignProgress,
    explained: &Explained<'_>,
    theme: Theme,
    now_unix_ms: i64,
) {
    let lines: [Rect; HEAD as usize] = Layout::vertical([Constraint::Length(1); HEAD as usize]).areas(area);
    let campaign = &progress.campaign;
    let state = match campaign.state {
        CampaignState::Running => theme.good,
        CampaignState::Stopped => theme.bad,
        CampaignState::Finished => theme.accent,
    };
    let title = Line::from_iter([
        Span::styled(format!("campaign {} ", campaign.id), theme.strong),
        Span::styled(campaign.state.to_string(), state.patch(theme.strong)),
        Span::raw(format!("  {}", text::title(progress))),
    ]);
    frame.render_widget(title, lines[0]);
    draw_gauge(frame, lines[1], progress, theme);
    let reading = if progress.is_read() { String::new() } else { format!(", reading on to {}", progress.stored) };
    let pace = text::pace(progress, now_unix_ms);
    frame.render_widget(Line::raw(format!("{pace}, {} skipped{reading}", campaign.skipped)), lines[2]);
    let mut ends = Vec::new();
    for (ended, word) in text::ENDS {
        let style = match word {
            "healthy" => theme.good,
            "anomalous" => theme.bad,
            _ => Style::new(),
        };
        ends.push(Span::styled(format!("{} {word}  ", progress.count(ended)), style));
    }
    if !explained.unexplained.is_empty() {
        ends.insert(2, Span::styled(format!("({} not explained)  ", explained.unexplained.len()), theme.bad));
    }
    frame.render_widget(Line::from(ends), lines[3]);
    frame.render_widget(Line::styled(text::phase(progress), theme.accent), lines[4]);
}

fn draw_gauge(frame: &mut Frame<'_>, area: Rect, progress: &CampaignProgress, theme: Theme) {
    let done = progress.campaign.experiments;
    match progress.campaign.definition.budget.zip(progress.budget_ratio()) {
        Some((budget, share)) => {
            let label = format!("{done} of {budget} experiments");
            let gauge = Gauge::default().ratio(share).label(label).gauge_style(theme.accent).use_unicode(true);
            frame.render_widget(gauge, area);
        }
        None => frame.render_widget(Line::raw(format!("{}, no budget", plural(done, "experiment"))), area),
    }
}

fn draw_signals(
    frame: &mut Frame<'_>,
    area: Rect,
    (signals, silent): (&[SignalSeries], usize),
    view: &mut View,
    theme: Theme,
) {
    let rows = area.height.saturating_sub(2);
    view.signals = view.signals.min(signals.len().saturating_sub(usize::from(rows)));
    if area.is_empty() {
        return;
    }
    let seen = signals.first().map_or(0, |signal| signal.values.len());
    let names = signals.iter().map(|signal| Span::raw(signal_name(&signal.name)).width()).max().unwrap_or(0);
    let names = u16::try_from(names).unwrap_or(NAME).min(NAME).min(area.width / 3);
    let inner = area.inner(Margin::new(1, 1));
    let columns = [Constraint::Length(names), Constraint::Fill(1), Constraint::Length(VALUE)];
    let [name_column, bars, value_column] = Layout::horizontal(columns).spacing(1).areas(inner);
    let shown = seen.min(usize::from(bars.width));
    let silent = if silent == 0 { String::new() } else { format!(", {silent} at 0") };
    let hidden = signals.len().saturating_sub(usize::from(rows));
    let hidden = if hidden == 0 { String::new() } else { format!(", {hidden} more by ← →") };
    let title = format!(" signals of the last {}{silent}{hidden} ", plural(shown as u64, "experiment"));
    frame.render_widget(Block::bordered().border_style(theme.faint).title(Span::raw(title)), area);
    for (row, signal) in (0..rows).zip(signals.iter().skip(view.signals)) {
        let line = |column: Rect| Rect { y: column.y + row, height: 1, ..column };
        frame.render_widget(Line::raw(signal_name(&signal.name)), line(name_column));
        let bar = Sparkline::default().data(heights(signal, shown)).max(STEPS as u64).style(theme.accent);
        frame.render_widget(bar.absent_value_symbol("·").absent_value_style(theme.faint), line(bars));
        let value = signal.latest().map_or_else(|| "-".to_owned(), |value| signal_value(&signal.name, value));
        frame.render_widget(Line::raw(value).right_aligned(), line(value_column));
    }
}

/// Bars of the last `shown` experiments: shares of the port as they are, counters as shares of their highest.
fn heights(signal: &SignalSeries, shown: usize) -> Vec<Option<u64>> {
    let values = &signal.values[signal.values.len().saturating_sub(shown)..];
    let highest = if signal.name == kelpie_search::UTILISATION {
        1.0
    } else {
        values.iter().flatten().copied().fold(0.0, f64::max)
    };
    let height = |value: f64| {
        let share = if highest > 0.0 { (value / highest).clamp(0.0, 1.0) } else { 0.0 };
        (share * STEPS) as u64
    };
    values.iter().map(|value| value.map(height)).collect()
}

fn draw_rows(
    frame: &mut Frame<'_>,
    area: Rect,
    progress: &CampaignProgress,
    rows: &[ListEntry<'_>],
    view: &mut View,
    theme: Theme,
) {
    if area.is_empty() {
        return;
    }
    let selected = view.selected(rows.len());
    view.table.select(selected);
    let findings = progress.findings.len();
    let title = match selected {
        Some(index) if index < findings => format!(" finding {} of {findings} ", index + 1),
        Some(index) => format!(" unexplained {} of {} ", index - findings + 1, rows.len() - findings),
        None => " no finding yet ".to_owned(),
    };
    let has_header = area.height >= 5;
    let lines = rows.iter().map(|row| Row::new(row.cells(progress.campaign.id)));
    let widths = [7, 14, 6, 7].map(Constraint::Length).into_iter().chain([Constraint::Fill(1)]);
    let header = Row::new(["id", "symptom", "share", "seen at", "conditions"]).style(theme.faint);
    let table = Table::new(lines, widths)
        .header(header.height(u16::from(has_header)))
        .row_highlight_style(theme.selected)
        .block(Block::bordered().border_style(theme.faint).title(Span::raw(title)));
    frame.render_stateful_widget(table, area, &mut view.table);
    let seen = usize::from(area.height.saturating_sub(2 + u16::from(has_header)));
    draw_scrollbar(frame, area, rows.len().saturating_sub(seen), view.table.offset());
}

fn draw_details(
    frame: &mut Frame<'_>,
    area: Rect,
    progress: &CampaignProgress,
    rows: &[ListEntry<'_>],
    view: &mut View,
    theme: Theme,
) {
    if area.is_empty() {
        return;
    }
    let block = Block::bordered().border_style(theme.faint);
    let Some(row) = view.selected(rows.len()).and_then(|index| rows.get(index)) else {
        frame.render_widget(block, area);
        return;
    };
    let inner = block.inner(area);
    let lines = match row {
        ListEntry::Found(found) => details::of_finding(found, usize::from(inner.width)),
        ListEntry::Unexplained(anomaly) => details::of_anomaly(anomaly, usize::from(inner.width)),
    };
    let beyond = lines.len().saturating_sub(usize::from(inner.height));
    view.details = view.details.min(beyond);
    let title = row.title(progress.campaign.id);
    let shown: Vec<Line<'_>> = lines.into_iter().skip(view.details).map(Line::raw).collect();
    frame.render_widget(Paragraph::new(shown).block(block.title(Span::styled(title, theme.bad))), area);
    draw_scrollbar(frame, area, beyond, view.details);
}

/// A scrollbar on the right border, if `beyond` lines do not fit.
fn draw_scrollbar(frame: &mut Frame<'_>, area: Rect, beyond: usize, at: usize) {
    let track = area.inner(Margin::new(0, 1));
    if beyond > 0 && !track.is_empty() {
        // The position runs up to one less than the length.
        let mut state = ScrollbarState::new(beyond + 1).position(at);
        let bar = Scrollbar::new(ScrollbarOrientation::VerticalRight).begin_symbol(None).end_symbol(None);
        frame.render_stateful_widget(bar, track, &mut state);
    }
}

/// The keys, as the foot of the picture names them.
const KEYS: &str = "↑ ↓ j k g G finding   PgUp PgDn details   ← → signals   q Esc quit   ? less";

fn draw_foot(frame: &mut Frame<'_>, area: Rect, view: &View, theme: Theme) {
    let line = match (&view.note, view.help) {
        (Some(note), _) => Line::styled(clean(note), theme.bad),
        (None, true) => Line::raw(KEYS),
        (None, false) => Line::styled("q quit   ? keys", theme.faint),
    };
    frame.render_widget(line, area);
}

#[cfg(test)]
mod tests;
