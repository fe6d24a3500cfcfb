//! How plots look: colours, letters, axes, and what can be drawn at all.

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::Ranged;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The family that plots ask for: the registered one in a PNG, the reader's own in an SVG.
pub(super) const FAMILY: &str = "sans-serif";

/// Highest share that is drawn. Source: our choice, because what a port does at most is about 1.
const MOST_SHARE: f64 = 1e6;

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
