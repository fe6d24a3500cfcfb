//! Tests of the picture: whole at common sizes, without a panic at any, and never with what steers a terminal.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::testing::{HOSTILE, NOW, campaign, empty, finding, hostile, news, running};

fn drawn(progress: &CampaignProgress, view: &mut View, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, progress, view, Theme::new(true), NOW)).unwrap();
    terminal.backend().clone()
}

fn press(view: &mut View, code: KeyCode, findings: usize) {
    view.press(KeyEvent::new(code, KeyModifiers::NONE), findings);
}

#[test]
fn common_sizes() {
    let progress = running();
    for (width, height) in [(80, 24), (120, 32), (60, 12), (40, 9), (30, 5)] {
        let backend = drawn(&progress, &mut View::default(), width, height);
        insta::assert_snapshot!(format!("running_{width}x{height}"), backend);
    }
    insta::assert_snapshot!("nothing_yet", drawn(&empty(), &mut View::default(), 80, 24));
}

#[test]
fn a_selected_finding_is_told_in_full_and_scrolls() {
    let progress = running();
    let mut view = View::default();
    press(&mut view, KeyCode::Down, 3);
    press(&mut view, KeyCode::Char('?'), 3);
    insta::assert_snapshot!("second_selected", drawn(&progress, &mut view, 80, 24));
    for _ in 0..100 {
        press(&mut view, KeyCode::PageDown, 3);
        press(&mut view, KeyCode::Right, 3);
    }
    insta::assert_snapshot!("scrolled_to_the_end", drawn(&progress, &mut view, 80, 24));
    let (details, signals) = (view.details, view.signals);
    press(&mut view, KeyCode::PageUp, 3);
    assert!(details > 0 && view.details == details - 5, "scrolling back begins at the end, not beyond it");
    assert!(signals < 3);
}

fn every_size_is_drawn(widths: &[u16], heights: &[u16]) {
    let mut many = CampaignProgress::new(campaign(None));
    many.take(news(Vec::new(), (1..=300).map(|number| finding(number, "UD")).collect()));
    for progress in [running(), empty(), hostile(), many] {
        let mut view = View { help: true, ..View::default() };
        press(&mut view, KeyCode::End, progress.findings.len());
        // The same view throughout, as when a terminal is resized.
        for width in widths {
            for height in heights {
                let backend = drawn(&progress, &mut view, *width, *height);
                assert_eq!(backend.buffer().area, Rect::new(0, 0, *width, *height));
            }
        }
    }
}

/// The sizes around nothing, those of common terminals, and some between.
#[test]
fn every_size_is_drawn_without_a_panic() {
    every_size_is_drawn(&[0, 1, 2, 5, 10, 79, 80, 200], &[0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 40]);
}

/// All sizes, by `make test-long`.
mod long {
    #[test]
    #[ignore = "long: make test-long runs it"]
    fn every_size_is_drawn_without_a_panic() {
        let widths: Vec<u16> = (0..=10).chain([20, 79, 80, 99, 100, 200]).collect();
        super::every_size_is_drawn(&widths, &(0..=40).collect::<Vec<u16>>());
    }
}

#[test]
fn the_selected_one_of_many_findings_is_seen() {
    let mut many = CampaignProgress::new(campaign(None));
    many.take(news(Vec::new(), (1..=300).map(|number| finding(number, "UD")).collect()));
    let mut view = View::default();
    press(&mut view, KeyCode::End, 300);
    let picture = drawn(&many, &mut view, 80, 24).to_string();
    assert!(picture.contains("3.300") && picture.contains("finding 300 of 300"), "{picture}");
    press(&mut view, KeyCode::Home, 300);
    let picture = drawn(&many, &mut view, 80, 24).to_string();
    assert!(picture.contains("3.1 ") && !picture.contains("3.300"), "{picture}");
}

#[test]
fn nothing_of_the_database_steers_a_terminal() {
    let progress = hostile();
    let mut view = View { note: Some(HOSTILE.to_owned()), ..View::default() };
    for (width, height) in [(300, 60), (80, 24), (20, 10)] {
        let backend = drawn(&progress, &mut view, width, height);
        let cells = backend.buffer().content();
        assert!(!cells.iter().any(|cell| cell.symbol().contains(|c: char| c.is_control() || c == '\u{202e}')));
    }
    let picture = drawn(&progress, &mut view, 300, 60).to_string();
    assert!(picture.matches(r"\u{1b}[2J").count() >= 5, "shown as text, wherever it stands: {picture}");
}

#[test]
fn without_colours_there_are_none() {
    let progress = running();
    for (is_coloured, expected) in [(true, true), (false, false)] {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        let theme = Theme::new(is_coloured);
        terminal.draw(|frame| draw(frame, &progress, &mut View::default(), theme, NOW)).unwrap();
        let cells = terminal.backend().buffer().content();
        let coloured = cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(coloured, expected);
    }
}
