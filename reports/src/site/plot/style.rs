//! How plots look: colours, letters, axes, and what can be drawn at all.

use std::ops::Range;

use kelpie_monitor::Symptom;
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::wording;

/// The family that plots ask for: the registered one in a PNG, the reader's own in an SVG.
pub(super) const FAMILY: &str = "sans-serif";

/// Highest share that is drawn. Source: our choice, because what a port does at most is about 1.
const MOST_SHARE: f64 = 1e6;

/// Something to point at: where it is and what is said of it.
#[derive(Debug)]
pub(super) struct Spot {
    /// Units: pixels.
    pub at: (i32, i32),
    pub words: String,
}

/// How shares are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::site) enum Scale {
    Linear,
    /// By powers of ten down to [`SMALLEST`], below which everything is at the foot.
    Logarithmic,
}

/// Smallest share of a logarithmic axis. Source: our choice, a hundredth of the pause that is a symptom.
const SMALLEST: f64 = 1e-5;

impl Scale {
    /// Pauses that matter lie between a thousandth and all of the time.
    pub(in crate::site) fn of(symptom: Symptom) -> Self {
        if symptom == Symptom::Pause { Scale::Logarithmic } else { Scale::Linear }
    }

    /// Where a share is on the axis.
    pub(in crate::site) fn place(self, share: f64) -> f64 {
        match self {
            Scale::Linear => share,
            Scale::Logarithmic => share.max(SMALLEST).log10(),
        }
    }

    /// The axis up to this share, with some room above.
    pub(super) fn axis(self, highest: f64, room: f64) -> Range<f64> {
        match self {
            Scale::Linear => 0.0..highest * room,
            Scale::Logarithmic => SMALLEST.log10()..self.place(highest) + 0.25,
        }
    }

    /// What stands at a tick.
    pub(super) fn label(self, place: f64) -> String {
        match self {
            Scale::Linear => wording::percent(place),
            Scale::Logarithmic if (place - place.round()).abs() > 1e-6 => String::new(),
            Scale::Logarithmic if place <= SMALLEST.log10() => "0".to_owned(),
            Scale::Logarithmic => format!("{} %", 10_f64.powi(place.round() as i32 + 2)),
        }
    }
}

/// Each colour below is a name too: the page's style sheet gives it another shade if the page is dark.
pub(in crate::site) mod colour {
    use plotters::style::RGBColor;

    pub const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
    pub const GRID: RGBColor = RGBColor(0xD8, 0xDC, 0xE2);
    pub const CALM: RGBColor = RGBColor(0x1A, 0x62, 0xB0);
    pub const FAINT: RGBColor = RGBColor(0x8B, 0x94, 0x9E);
    pub const ALARM: RGBColor = RGBColor(0xC6, 0x22, 0x1E);
    pub const LIMIT: RGBColor = RGBColor(0x8A, 0x5A, 0x00);
}

/// Whether a share can be drawn: a database may hold anything, and an axis without end has no ticks.
pub(super) fn is_drawable(share: f64) -> bool {
    (0.0..=MOST_SHARE).contains(&share)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` is given")]
pub(super) fn detail<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> String {
    error.to_string()
}

pub(super) fn text(size: u32, colour: RGBColor) -> TextStyle<'static> {
    (FAMILY, size).into_font().color(&colour)
}

/// Colours and letters that plots with two axes share.
pub(super) fn in_style<'s, 'a, 'b, X, Y, B>(
    mesh: &'s mut MeshStyle<'a, 'b, X, Y, B>,
) -> &'s mut MeshStyle<'a, 'b, X, Y, B>
where
    X: Ranged,
    Y: Ranged,
    B: DrawingBackend,
{
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(colour::GRID)
        .axis_style(colour::INK)
        .label_style(text(15, colour::INK))
        .axis_desc_style(text(16, colour::INK))
}

/// The name of a limit, right of the end of its line.
pub(super) fn draw_limit_name<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    name: &str,
    end: (i32, i32),
) -> Result<(), String> {
    let style = text(15, colour::LIMIT).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(name.to_owned(), (end.0 + 6, end.1), style)).map_err(detail)
}
