//! Plots as SVG and PNG, drawn by `plotters` with a font of our own. Each kind of plot is a file below.

mod bars;
mod curves;
mod edge;
mod series;
mod style;

use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;

use super::error::SiteError;
use style::{FAMILY, detail};

pub(super) use bars::{Bars, Group};
pub use curves::{Curve, Curves, Dot};
pub(super) use edge::Edge;
pub(super) use series::Series;

/// Roboto, reduced to Latin letters. Source: Debian's fonts-roboto-unhinted 20170802; see assets/README.md.
const FONT: &[u8] = include_bytes!("../../assets/roboto-latin.ttf");

/// Units: pixels. Source: our choice, because it fills a page and its text is still read at half the size.
const SIZE: (u32, u32) = (880, 320);

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
    /// Values over the experiments of a campaign.
    Series(Series),
    /// A few values side by side.
    Bars(Bars),
    /// A symptom over one feature.
    Edge(Edge),
}

impl Plot {
    /// The plot as an `svg` element.
    pub fn svg(&self) -> Result<String, SiteError> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        self.draw(&area).and_then(|()| area.present().map_err(detail)).map_err(SiteError::Plot)?;
        drop(area);
        Ok(text)
    }

    /// The plot as the bytes of a PNG file, on white.
    pub fn png(&self) -> Result<Vec<u8>, SiteError> {
        let mut pixels = vec![0xFF; SIZE.0 as usize * SIZE.1 as usize * 3];
        let area = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
        self.draw(&area).and_then(|()| area.present().map_err(detail)).map_err(SiteError::Plot)?;
        drop(area);
        encode(&pixels).map_err(|error| SiteError::Plot(error.to_string()))
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        with_font(|| match self {
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

    fn series(values: Vec<(u64, f64)>, experiments: u64) -> Plot {
        Plot::Series(Series {
            y_label: HOSTILE.to_owned(),
            experiments,
            searching: values,
            reducing: vec![(1, 0.2)],
            is_line: true,
            limit: Some((0.8, HOSTILE.to_owned())),
            marks: vec![(1, 1, 0.5)],
        })
    }

    #[test]
    fn text_in_a_plot_stays_text() {
        let svg = series(vec![(1, 0.5), (2, 1.0)], 2).svg().unwrap();
        assert!(!svg.contains("<script") && !svg.contains("<img"), "{svg}");
        assert!(svg.contains("&lt;script&gt;"), "{svg}");
    }

    #[test]
    fn whatever_a_database_holds_is_no_endless_axis() {
        let wild = [f64::MAX, f64::INFINITY, f64::NAN, -1.0, 5e-324, 0.5];
        let values: Vec<(u64, f64)> = (1..).zip(wild).collect();
        let groups = wild.map(|share| Group { name: String::new(), healthy: Some(share), anomalous: None });
        let limit = (0.8, String::new());
        let points = wild.map(|share| (1, share, true));
        for plot in [
            series(values, 6),
            Plot::Bars(Bars { y_label: String::new(), groups: groups.into(), limit: limit.clone() }),
            Plot::Edge(Edge {
                feature: kelpie_spaces::Feature::Qps,
                y_label: String::new(),
                points: points.into(),
                bounds: vec![1],
                limit,
            }),
        ] {
            assert!(plot.svg().unwrap().len() < 20_000);
            plot.png().unwrap();
        }
    }

    #[test]
    fn nothing_can_be_plotted_too() {
        let bars = Plot::Bars(Bars { y_label: String::new(), groups: Vec::new(), limit: (0.8, String::new()) });
        let edge = |points: Vec<(u64, f64, bool)>, bounds: Vec<u64>| {
            let feature = kelpie_spaces::Feature::MessageMax;
            Plot::Edge(Edge { feature, y_label: String::new(), points, bounds, limit: (0.001, String::new()) })
        };
        let far = vec![(0, 0.0, false), (u64::MAX, 1.0, true)];
        for plot in [series(Vec::new(), 0), bars, edge(Vec::new(), Vec::new()), edge(far, vec![0, u64::MAX])] {
            assert!(plot.svg().unwrap().ends_with("</svg>\n"));
            assert!(plot.png().unwrap().starts_with(b"\x89PNG"));
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
