//! What the user has chosen to see, and how keys change it. Pure: knows no terminal and draws nothing.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

/// Lines by which the details scroll at once. Source: our choice.
const PAGE: usize = 5;

/// What is chosen, and how far each pane is scrolled.
#[derive(Debug, Default)]
pub struct View {
    /// Which finding is selected, and the first that is seen.
    pub table: TableState,
    /// Lines of the details above those that are seen.
    pub details: usize,
    /// Signals above those that are seen.
    pub signals: usize,
    /// Whether the last line names all keys.
    pub help: bool,
    /// A message that stands instead of the keys.
    pub note: Option<String>,
}

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAction {
    /// Nothing beyond what has changed in the view.
    Stay,
    /// To leave.
    Quit,
}

impl View {
    /// The selected one of so many findings; without a choice the first.
    pub fn selected(&self, findings: usize) -> Option<usize> {
        findings.checked_sub(1).map(|last| self.table.selected().unwrap_or(0).min(last))
    }

    /// Does what a key asks for, with so many findings to choose from. Drawing puts right what is scrolled too far.
    pub fn press(&mut self, key: KeyEvent, findings: usize) -> KeyAction {
        let last = findings.saturating_sub(1);
        let at = self.selected(findings).unwrap_or(0);
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return KeyAction::Quit,
            // Other keys with Ctrl or Alt mean something else than the letter.
            _ if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {}
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.select((at + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.select(at.saturating_sub(1)),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(last),
            KeyCode::PageDown | KeyCode::Char(' ') => self.details = self.details.saturating_add(PAGE),
            KeyCode::PageUp | KeyCode::Char('b') => self.details = self.details.saturating_sub(PAGE),
            KeyCode::Right | KeyCode::Char('l') => self.signals = self.signals.saturating_add(1),
            KeyCode::Left | KeyCode::Char('h') => self.signals = self.signals.saturating_sub(1),
            KeyCode::Char('?') => self.help = !self.help,
            _ => {}
        }
        KeyAction::Stay
    }

    fn select(&mut self, index: usize) {
        if self.table.selected().unwrap_or(0) != index {
            self.details = 0;
        }
        self.table.select(Some(index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(view: &mut View, code: KeyCode, findings: usize) -> KeyAction {
        view.press(KeyEvent::new(code, KeyModifiers::NONE), findings)
    }

    #[test]
    fn keys_select_and_stay_within_the_findings() {
        let mut view = View::default();
        assert_eq!((view.selected(0), view.selected(3)), (None, Some(0)));
        for (code, findings, expected) in [
            (KeyCode::Down, 3, Some(1)),
            (KeyCode::Char('j'), 3, Some(2)),
            (KeyCode::Down, 3, Some(2)),
            (KeyCode::Up, 3, Some(1)),
            (KeyCode::Char('k'), 3, Some(0)),
            (KeyCode::Up, 3, Some(0)),
            (KeyCode::End, 3, Some(2)),
            (KeyCode::Char('x'), 4, Some(2)),
            (KeyCode::Char('G'), 4, Some(3)),
            (KeyCode::Home, 4, Some(0)),
            (KeyCode::Down, 0, None),
            (KeyCode::Char('g'), 1, Some(0)),
        ] {
            assert_eq!(pressed(&mut view, code, findings), KeyAction::Stay, "{code:?}");
            assert_eq!(view.selected(findings), expected, "{code:?} of {findings}");
        }
    }

    #[test]
    fn another_finding_is_read_from_its_beginning() {
        let mut view = View::default();
        pressed(&mut view, KeyCode::PageDown, 2);
        pressed(&mut view, KeyCode::Char(' '), 2);
        pressed(&mut view, KeyCode::PageUp, 2);
        assert_eq!(view.details, PAGE);
        pressed(&mut view, KeyCode::Up, 2);
        assert_eq!(view.details, PAGE, "the first stays selected");
        pressed(&mut view, KeyCode::Down, 2);
        assert_eq!(view.details, 0);
        pressed(&mut view, KeyCode::Char('b'), 2);
        assert_eq!(view.details, 0);
        pressed(&mut view, KeyCode::Right, 2);
        pressed(&mut view, KeyCode::Char('l'), 2);
        pressed(&mut view, KeyCode::Char('h'), 2);
        assert_eq!(view.signals, 1);
        pressed(&mut view, KeyCode::Char('?'), 2);
        assert!(view.help);
    }

    #[test]
    fn leaving_takes_the_right_key() {
        for (code, modifiers, expected) in [
            (KeyCode::Char('q'), KeyModifiers::NONE, KeyAction::Quit),
            (KeyCode::Esc, KeyModifiers::NONE, KeyAction::Quit),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, KeyAction::Quit),
            (KeyCode::Char('c'), KeyModifiers::NONE, KeyAction::Stay),
            (KeyCode::Char('q'), KeyModifiers::ALT, KeyAction::Stay),
            (KeyCode::Enter, KeyModifiers::NONE, KeyAction::Stay),
        ] {
            assert_eq!(View::default().press(KeyEvent::new(code, modifiers), 1), expected, "{code:?} {modifiers:?}");
        }
    }
}
