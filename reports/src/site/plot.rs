//! Plots as SVG and PNG, drawn by `plotters` with a font of our own. Each kind of plot is a file below.

mod bars;
mod curves;
mod edge;
mod growth;
mod series;
mod style;

use std::sync::Once;

use maud::html;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;

use super::error::SiteError;
use style::{FAMILY, Spot, detail};

pub(super) use bars::{BarGroup, Bars};
pub use curves::{Curve, Curves, Dot};
pub(super) use edge::Edge;
pub(super) use growth::Growth;
pub(super) use series::Series;
pub(super) use style::Scale;

/// Roboto, reduced to Latin letters. Source: Debian's fonts-roboto-unhinted 20170802; see assets/README.md.
const FONT: &[u8] = include_bytes!("../../assets/roboto-latin.ttf");

/// Units: pixels. Source: our choice, because it fills a page and its text is still read at half the size.
const SIZE: (u32, u32) = (880, 320);

/// Most places of a plot that say something to a pointer. Source: our choice, because a page is not to grow without
/// end.
const MOST_SPOTS: usize = 400;

/// A plot with what to call it.
#[derive(Debug)]
pub(super) struct Titled {
    /// For a file name: letters, digits and dashes.
    pub slug: String,
    pub title: String,
    /// What it shows, for those who cannot see it too.
    pub caption: String,
    pub plot: Plot,
}

/// Something to draw.
#[derive(Debug)]
pub(super) enum Plot {
    /// What had been seen after each experiment.
    Growth(Growth),
    /// Values over the experiments of a campaign.
    Series(Series),
    /// A few values side by side.
    Bars(Bars),
    /// A symptom over one feature.
    Edge(Edge),
}

impl Titled {
    /// The plot as an `svg` element that says what it is, and what is below the pointer.
    pub fn svg(&self) -> Result<String, SiteError> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        let drawn = self.plot.draw(&area).and_then(|spots| area.present().map_err(detail).map(|()| spots));
        let spots = drawn.map_err(SiteError::Plot)?;
        drop(area);
        let name = html! { title { (self.title) } desc { (self.caption) } };
        let spots = html! {
            g.spots { @for Spot { at, words } in spots.iter().take(MOST_SPOTS) {
                circle cx=(at.0) cy=(at.1) r="8" fill="transparent" { title { (words) } }
            } }
        };
        let (open, rest) = text.split_once('>').unwrap_or_default();
        let inside = rest.trim_end().strip_suffix("</svg>").unwrap_or(rest);
        Ok(format!("{open}>{}{inside}{}</svg>\n", name.into_string(), spots.into_string()))
    }
}

impl Plot {
    /// The plot as the bytes of a PNG file, on white.
    pub fn png(&self) -> Result<Vec<u8>, SiteError> {
        let mut pixels = vec![0xFF; SIZE.0 as usize * SIZE.1 as usize * 3];
        let area = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
        self.draw(&area).and_then(|_| area.present().map_err(detail)).map_err(SiteError::Plot)?;
        drop(area);
        encode(&pixels).map_err(|error| SiteError::Plot(error.to_string()))
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<Vec<Spot>, String> {
        with_font(|| match self {
            Plot::Growth(growth) => growth.draw(area),
            Plot::Series(series) => series.draw(area),
            Plot::Bars(bars) => bars.draw(area),
            Plot::Edge(edge) => edge.draw(area),
        })
    }
}

/// Draws once our font is known to `plotters`.
fn with_font<T>(draw: impl FnOnce() -> T) -> T {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        register_font(FAMILY, FontStyle::Normal, FONT).unwrap_or_else(|_| unreachable!("the font is a font"));
    });
    draw()
}

fn encode(pixels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::style::colour;
    use super::*;
    use crate::testing::HOSTILE;

    fn titled(plot: Plot) -> Titled {
        let text = || HOSTILE.to_owned();
        Titled { slug: "plot".to_owned(), title: text(), caption: text(), plot }
    }

    fn series(values: Vec<(u64, f64)>, experiments: u64) -> Plot {
        Plot::Series(Series {
            y_label: HOSTILE.to_owned(),
            experiments,
            searching: values,
            reducing: vec![(1, 0.2)],
            limit: Some((0.8, HOSTILE.to_owned())),
            marks: vec![(1, 1, 0.5)],
        })
    }

    #[test]
    fn text_in_a_plot_stays_text() {
        let svg = titled(series(vec![(1, 0.5), (2, 1.0)], 2)).svg().unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
        assert!(svg.contains("&lt;script&gt;"), "{svg}");
        assert!(svg.contains("<title>finding 1, first seen at experiment 1: 50.0 %</title>"), "{svg}");
        assert_eq!(svg.matches("<svg").count(), 1);
    }

    #[test]
    fn whatever_a_database_holds_is_no_endless_axis() {
        let wild = [f64::MAX, f64::INFINITY, f64::NAN, -1.0, 5e-324, 0.5];
        let values: Vec<(u64, f64)> = (1..).zip(wild).collect();
        let groups = wild.map(|share| BarGroup { name: String::new(), healthy: Some(share), anomalous: None });
        let limit = (0.8, String::new());
        let points = wild.map(|share| (1, share, true));
        for plot in [
            series(values, 6),
            Plot::Bars(Bars {
                y_label: String::new(),
                scale: Scale::Logarithmic,
                groups: groups.into(),
                limit: limit.clone(),
            }),
            Plot::Edge(Edge {
                feature: kelpie_spaces::Feature::Qps,
                y_label: String::new(),
                scale: Scale::Logarithmic,
                points: points.into(),
                bounds: vec![1],
                limit,
            }),
        ] {
            plot.png().unwrap();
            assert!(titled(plot).svg().unwrap().len() < 20_000);
        }
    }

    #[test]
    fn nothing_can_be_plotted_too() {
        let scale = Scale::Linear;
        let limit = (0.8, String::new());
        let bars = Plot::Bars(Bars { y_label: String::new(), scale, groups: Vec::new(), limit });
        let edge = |points: Vec<(u64, f64, bool)>, bounds: Vec<u64>| {
            let feature = kelpie_spaces::Feature::MessageMax;
            Plot::Edge(Edge { feature, y_label: String::new(), scale, points, bounds, limit: (0.001, String::new()) })
        };
        let far = vec![(0, 0.0, false), (u64::MAX, 1.0, true)];
        for plot in [series(Vec::new(), 0), bars, edge(Vec::new(), Vec::new()), edge(far, vec![0, u64::MAX])] {
            assert!(plot.png().unwrap().starts_with(b"\x89PNG"));
            assert!(titled(plot).svg().unwrap().ends_with("</svg>\n"));
        }
    }

    #[test]
    fn the_colours_are_those_of_the_style_sheet() {
        let style = include_str!("style.css");
        for RGBColor(red, green, blue) in
            [colour::INK, colour::GRID, colour::CALM, colour::FAINT, colour::ALARM, colour::LIMIT]
        {
            assert!(
                style.contains(&format!("=\"#{red:02X}{green:02X}{blue:02X}\"]")),
                "{red:02X}{green:02X}{blue:02X}"
            );
        }
    }
}
