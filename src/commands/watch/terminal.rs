//! The loop of `kelpie watch`: read the store, draw, wait for keys; and the terminal as it was, whatever happens.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use kelpie_store::{CampaignFollower, StoreError, unix_ms};
use kelpie_watch::CampaignProgress;
use kelpie_watch::screen::{Theme, draw};
use kelpie_watch::view::{KeyAction, View};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::stop;

/// How long a picture stays. Source: our choice, because it is often enough to see a campaign move.
const REFRESH: Duration = Duration::from_millis(500);

/// How long a signal of the system may wait to be seen. Source: our choice.
const SLICE: Duration = Duration::from_millis(100);

/// Gives the terminal back when it goes out of scope; ratatui's panic hook does the same before it reports a panic.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        // If the terminal is gone, there is nothing to restore, and nobody to read an error.
        let _ = ratatui::try_restore();
    }
}

/// Follows a campaign until the user leaves.
pub fn watch(
    follower: &mut CampaignFollower,
    progress: &mut CampaignProgress,
    is_coloured: bool,
) -> anyhow::Result<()> {
    let is_over = stop::silently_on_signals()?;
    stop::when_terminal_goes(&is_over, || drop(ratatui::try_restore()))?;
    // Before the terminal changes hands, so that an error appears on the screen that the user knows.
    progress.take(follower.read()?);
    let _restored = Restored;
    let mut terminal = ratatui::try_init().context("the terminal cannot be drawn on; add --json, or use a pipe")?;
    let theme = Theme::new(is_coloured);
    let mut view = View::default();
    loop {
        show(&mut terminal, progress, &mut view, theme)?;
        let wait = if progress.is_read() { REFRESH } else { Duration::ZERO };
        let next = Instant::now() + wait;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            if event::poll(left.min(SLICE)).context("the terminal")? {
                match event::read().context("the terminal")? {
                    Event::Key(key) if key.kind != KeyEventKind::Release => {
                        if view.press(key, progress.rows()) == KeyAction::Quit {
                            return Ok(());
                        }
                        show(&mut terminal, progress, &mut view, theme)?;
                    }
                    Event::Resize(..) => show(&mut terminal, progress, &mut view, theme)?,
                    _ => {}
                }
            } else if left.is_zero() {
                break;
            }
        }
        view.note = match follower.read() {
            Ok(news) => {
                progress.take(news);
                None
            }
            // It will be free again; what is shown stays true until then.
            Err(error @ StoreError::Busy { .. }) => Some(error.to_string()),
            Err(error) => return Err(error.into()),
        };
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    progress: &CampaignProgress,
    view: &mut View,
    theme: Theme,
) -> anyhow::Result<()> {
    terminal.draw(|frame| draw(frame, progress, view, theme, unix_ms())).context("the terminal")?;
    Ok(())
}
