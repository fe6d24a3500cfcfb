//! `kelpie host watch`: measures a host by and by, and says what is news. What is due and what is news is decided in
//! `kelpie_diagnosis::host::watch`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use kelpie_diagnosis::discover::discover;
use kelpie_diagnosis::host::watch::{HostNews, HostRound, LastWord, RoundHistory, Signs, WatchSchedule, WatchStep};
use kelpie_diagnosis::host::{HostDiagnosis, HostVerdict};
use kelpie_engine::MeasureError;
use kelpie_engine::loopback::Activity;
use kelpie_examine::host::{OpenedHost, RoundPlan};
use kelpie_examine::outbox::Outbox;
use kelpie_monitor::check::CheckState;
use kelpie_monitor::checks::CheckKind;
use kelpie_monitor::machine::Machine;
use kelpie_reports::folder::write_file;
use kelpie_text::clean_json;
use kelpie_watch::host_metrics::HostMetrics;
use serde_json::json;

use super::matrix;
use crate::args::Common;
use crate::cli::WatchHostArgs;
use crate::exit;
use crate::output::{note, print};
use crate::stop;

/// How long the watch sleeps before it looks whether it should stop. Source: our choice.
const SLICE: Duration = Duration::from_millis(100);
/// Longest history. Units: bytes. Source: our choice, a week of hourly rounds of the largest host.
const MOST_HISTORY: u64 = 16 << 20;

/// Runs `kelpie host watch` until the user has had enough.
pub fn run(args: &WatchHostArgs, common: Common) -> anyhow::Result<ExitCode> {
    let opened = matrix::open(&args.host, common.seed)?;
    let history = args.history.as_deref().map(read_history).transpose()?.unwrap_or_default();
    let metrics = HostMetrics::default();
    if let Some(listen) = args.listen {
        note(&format!("metrics at http://{}/metrics until Ctrl-C", metrics.serve(listen)?));
    }
    let stop = stop::on_signals("stopping after this cell; once more ends at once")?;
    let outbox = Outbox::new(args.notify.hearers());
    let mut watch = HostWatch {
        args,
        common,
        opened,
        history,
        metrics,
        outbox,
        events: 0,
        stop,
        last_word: LastWord::default(),
        last: None,
    };
    watch.run();
    Ok(match watch.last {
        Some(HostVerdict::Healthy) => exit::HEALTHY,
        Some(HostVerdict::Abnormal) => exit::anomalous(),
        Some(HostVerdict::Undecided) | None => exit::failed(),
    })
}

fn read_history(path: &Path) -> anyhow::Result<RoundHistory> {
    if !path.exists() {
        return Ok(RoundHistory::default());
    }
    let bytes = kelpie_examine::files::read_file_up_to(path, MOST_HISTORY)?;
    let name = path.display().to_string();
    let text =
        String::from_utf8(bytes).ok().with_context(|| format!("{name}: no UTF-8; move it away, or name another"))?;
    Ok(RoundHistory::read(&name, &text)?)
}

struct HostWatch<'a> {
    args: &'a WatchHostArgs,
    common: Common,
    opened: OpenedHost,
    history: RoundHistory,
    metrics: HostMetrics,
    outbox: Outbox,
    events: u64,
    stop: Arc<AtomicBool>,
    last_word: LastWord,
    last: Option<HostVerdict>,
}

impl HostWatch<'_> {
    fn run(&mut self) {
        let begin = Instant::now();
        let mut schedule = WatchSchedule::new(self.args.period.into(), self.args.pause.into());
        let mut rounds = 0;
        while !self.is_stopped() {
            match self.look() {
                Ok(signs) => {
                    let next = schedule.next(begin.elapsed(), &signs);
                    if next != WatchStep::Wait {
                        match self.round(next == WatchStep::Busy) {
                            Ok(true) => rounds += 1,
                            Ok(false) => schedule.interrupted(),
                            Err(error) => self.lost(&error),
                        }
                    }
                }
                Err(error) => self.lost(&error.into()),
            }
            self.outbox.flush().iter().for_each(|problem| note(&format!("error: {problem}")));
            if self.args.rounds.is_some_and(|most| rounds >= most) {
                break;
            }
            self.sleep(self.args.look.into());
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn sleep(&self, span: Duration) {
        let until = Instant::now() + span;
        while !self.is_stopped() && Instant::now() < until {
            std::thread::sleep(SLICE.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// A host that does not answer is asked again at the next look.
    fn lost(&self, error: &anyhow::Error) {
        self.metrics.lost();
        note(&format!("error: {error:#}; trying again in {}", self.args.look));
    }

    fn look(&mut self) -> Result<Vec<Signs>, MeasureError> {
        let rnics = self.opened.host.rnics().to_vec();
        let activity: Vec<Activity> =
            (0..rnics.len()).map(|rnic| self.opened.host.activity(rnic)).collect::<Result<_, _>>()?;
        self.metrics.looked(&rnics, &activity);
        let signs = |seen: &Activity| Signs { is_busy: seen.is_busy(), is_abnormal: seen.is_abnormal() };
        Ok(activity.iter().map(signs).collect())
    }

    /// Measures and judges; whether it came to its end.
    fn round(&mut self, is_busy: bool) -> anyhow::Result<bool> {
        let baseline = self.history.baseline(self.opened.host.rnics(), self.opened.host.endpoints());
        let by = format!("kelpie {} on {}", env!("CARGO_PKG_VERSION"), self.args.host.subsystem);
        let (share, stop) = (self.args.host.share.0, Arc::clone(&self.stop));
        let goes_on = || !stop.load(Ordering::Relaxed);
        let plan = RoundPlan { is_busy, share, by: &by, baseline: baseline.as_ref(), goes_on: &goes_on };
        let (matrix, found) = match self.opened.round(&plan)? {
            Ok(measured) => measured,
            Err(why) => {
                note(&format!("round stopped: {why}"));
                return Ok(false);
            }
        };
        self.metrics.judged(&matrix, &found);
        let at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let narrow = self.narrow_links();
        self.last = Some(if narrow.is_empty() { found.verdict } else { HostVerdict::Abnormal });
        let (verdict, steady) = (found.verdict, found.is_steady);
        self.history.push(HostRound { at: at.clone(), verdict, busy: is_busy, steady, matrix });
        if let Some(path) = &self.args.history {
            write_file(path, self.history.lines().as_bytes(), true).with_context(|| path.display().to_string())?;
        }
        if let Some(news) = self.last_word.hear(&found, &narrow) {
            self.say(news, &at, is_busy, &found, &narrow)?;
        }
        Ok(true)
    }

    /// Links that are narrow by their own status. GPUs slow idle links, so theirs say nothing here.
    fn narrow_links(&self) -> Vec<String> {
        if !self.args.live {
            return self.opened.host.narrow_links();
        }
        let is_of_gpu = |name: &String| name.starts_with("gpu");
        let readings = discover(&Machine::live()).map(|found| found.readings).unwrap_or_default();
        let narrow = readings
            .into_iter()
            .filter(|check| check.name == CheckKind::PcieLink.name() && check.state == CheckState::Warn);
        narrow.map(|check| check.about).filter(|name| !is_of_gpu(name)).collect()
    }

    fn say(
        &mut self,
        news: HostNews,
        at: &str,
        is_busy: bool,
        found: &HostDiagnosis,
        narrow: &[String],
    ) -> anyhow::Result<()> {
        let event = json!({
            "event": news, "at": at, "host": self.args.host.subsystem, "busy": is_busy, "verdict": found.verdict,
            "explanations": found.explanations, "cannot_be_excluded": found.cannot_be_excluded,
            "slow": found.slow, "intermittent": found.intermittent, "misconfiguration": found.misconfiguration, "narrow_links": narrow, "causes": found.causes,
            "unexplained": found.unexplained, "notes": found.notes,
        });
        self.metrics.said();
        let line = clean_json(event.to_string());
        self.events += 1;
        if let Some(given_up) = self.outbox.push(self.events, line.clone()) {
            note(&format!("error: {given_up}"));
        }
        if self.common.json {
            return print(&(line + "\n"));
        }
        let explanations: Vec<String> = found.explanations.iter().map(|set| set.join(" and ")).collect();
        let mut parts = Vec::new();
        let come_and_gone: Vec<String> = found.intermittent.iter().map(|fault| fault.links.join(" or ")).collect();
        for (what, names) in [
            ("slow", explanations.join(" or ")),
            ("comes and goes", come_and_gone.join(", ")),
            ("wrong setting", found.misconfiguration.join(", ")),
            ("narrow", narrow.join(", ")),
        ] {
            if !names.is_empty() {
                parts.push(format!("{what}: {names}"));
            }
        }
        let causes: Vec<&str> = found.causes.iter().map(|cause| cause.cause.as_str()).collect();
        if !causes.is_empty() {
            parts.push(format!("cause: {}", causes.join(", ")));
        }
        let word = json!(news).as_str().unwrap_or_default().to_owned();
        let busy = if is_busy { " (busy)" } else { "" };
        print(&format!("{at} {word}{busy}{}{}\n", if parts.is_empty() { "" } else { ": " }, parts.join("; ")))
    }
}
