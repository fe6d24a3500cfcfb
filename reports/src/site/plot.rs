//! Plots as SVG and PNG, drawn by `plotters` with a font of our own. What is plotted lives in `timeline` and `finding`.

use std::ops::Range;
use std::sync::Once;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::SiteError;

/// Roboto, reduced to Latin letters. Source: Debian's fonts-roboto-unhinted 20170802; see assets/README.md.
const FONT: &[u8] = include_bytes!("../../assets/roboto-latin.ttf");

/// The family that plots ask for: the registered one in a PNG, the reader's own in an SVG.
const FAMILY: &str = "sans-serif";

/// Units: pixels. Source: our choice, because it fills a page and its text is still read at half the size.
const SIZE: (u32, u32) = (880, 320);

/// Most points of one series. Source: our choice, because there is not more than one for each pixel.
const MOST_POINTS: usize = 1600;

/// Each colour below is a name too: the page's style sheet gives it another shade where the page is dark.
pub(super) mod colour {
    use plotters::style::RGBColor;

    pub const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
    pub const GRID: RGBColor = RGBColor(0xD8, 0xDC, 0xE2);
    pub const CALM: RGBColor = RGBColor(0x1A, 0x62, 0xB0);
    pub const FAINT: RGBColor = RGBColor(0x8B, 0x94, 0x9E);
    pub const ALARM: RGBColor = RGBColor(0xC6, 0x22, 0x1E);
    pub const LIMIT: RGBColor = RGBColor(0x8A, 0x5A, 0x00);
}

/// Something to draw.
#[derive(Debug)]
pub(super) enum Plot {
    /// Values over the experiments of a campaign.
    Series(Series),
    /// A few values side by side.
    Bars(Bars),
}

/// Values over the experiments of a campaign, with the findings marked as in Figure 6 of the Collie paper.
#[derive(Debug)]
pub(super) struct Series {
    pub y_label: String,
    pub experiments: u64,
    /// Of experiments that search.
    pub searching: Vec<(u64, f64)>,
    /// Of experiments that reduce a finding: faint dots.
    pub reducing: Vec<(u64, f64)>,
    /// Whether those that search are joined by a line, else they are dots.
    pub is_line: bool,
    /// A level that means something, with its name.
    pub limit: Option<(f64, String)>,
    /// Finding, experiment, value.
    pub marks: Vec<(u64, u64, f64)>,
}

/// Values side by side: a healthy and an anomalous one in each group.
#[derive(Debug)]
pub(super) struct Bars {
    pub y_label: String,
    pub groups: Vec<Group>,
    pub limit: (f64, String),
}

/// The bars of one group, as shares.
#[derive(Debug)]
pub(super) struct Group {
    pub name: String,
    pub healthy: Option<f64>,
    pub anomalous: Option<f64>,
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
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            register_font(FAMILY, FontStyle::Normal, FONT).unwrap_or_else(|_| unreachable!("the font is a font"));
        });
        match self {
            Plot::Series(series) => series.draw(area),
            Plot::Bars(bars) => bars.draw(area),
        }
    }
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

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` is given")]
fn detail<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> String {
    error.to_string()
}

fn text(size: u32, colour: RGBColor) -> TextStyle<'static> {
    (FAMILY, size).into_font().color(&colour)
}

impl Series {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let x: Range<u64> = 0..self.experiments.max(1) + 1;
        let values = self.searching.iter().chain(&self.reducing).map(|(_, value)| *value);
        let highest = values.fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(64)
            .x_label_area_size(46)
            .y_label_area_size(68)
            .build_cartesian_2d(x, 0.0..highest * 1.08)
            .map_err(detail)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(colour::GRID)
            .axis_style(colour::INK)
            .label_style(text(15, colour::INK))
            .axis_desc_style(text(16, colour::INK))
            .x_desc("experiment")
            .y_desc(self.y_label.as_str())
            .y_labels(6)
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()
            .map_err(detail)?;
        let dots = |values: &[(u64, f64)], colour: RGBColor| {
            thinned(values).into_iter().map(move |value| Circle::new(value, 2, colour.filled()))
        };
        chart.draw_series(dots(&self.reducing, colour::FAINT)).map_err(detail)?;
        if self.is_line {
            // One pixel: thicker lines get spikes at their bends in the PNG.
            chart.draw_series([PathElement::new(thinned(&self.searching), colour::CALM)]).map_err(detail)?;
        } else {
            chart.draw_series(dots(&self.searching, colour::CALM)).map_err(detail)?;
        }
        if let Some((level, name)) = &self.limit {
            let line = PathElement::new([(0, *level), (self.experiments + 1, *level)], colour::LIMIT.stroke_width(2));
            chart.draw_series([line]).map_err(detail)?;
            draw_limit_name(area, name, chart.backend_coord(&(self.experiments + 1, *level)))?;
        }
        let mut labels: Vec<(i32, i32)> = Vec::new();
        for (finding, experiment, value) in &self.marks {
            let at = chart.backend_coord(&(*experiment, *value));
            area.draw(&Cross::new(at, 5, colour::ALARM.stroke_width(2))).map_err(detail)?;
            let label = free_place((at.0 + 7, at.1 - 3), &labels);
            let style = text(16, colour::ALARM).pos(Pos::new(HPos::Left, VPos::Bottom));
            area.draw(&Text::new(finding.to_string(), label, style)).map_err(detail)?;
            labels.push(label);
        }
        Ok(())
    }
}

/// The name of a limit, right of the end of its line.
fn draw_limit_name<B: DrawingBackend>(area: &DrawingArea<B, Shift>, name: &str, end: (i32, i32)) -> Result<(), String> {
    let style = text(15, colour::LIMIT).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw(&Text::new(name.to_owned(), (end.0 + 6, end.1), style)).map_err(detail)
}

/// The nearest place at or above this one where a label of two digits covers none that is there already.
fn free_place(wanted: (i32, i32), labels: &[(i32, i32)]) -> (i32, i32) {
    let mut place = wanted;
    while labels.iter().any(|label| (label.0 - place.0).abs() < 20 && (label.1 - place.1).abs() < 14) && place.1 > 28 {
        place.1 -= 2;
    }
    place
}

/// At most [`MOST_POINTS`] of the values: the lowest and the highest of each stretch, in order.
fn thinned(values: &[(u64, f64)]) -> Vec<(u64, f64)> {
    if values.len() <= MOST_POINTS {
        return values.to_vec();
    }
    let stretch = values.len().div_ceil(MOST_POINTS / 2);
    let by_value = |one: &&(u64, f64), other: &&(u64, f64)| one.1.total_cmp(&other.1);
    let ends = values.chunks(stretch).flat_map(|chunk| {
        let mut ends: Vec<(u64, f64)> =
            [chunk.iter().min_by(by_value), chunk.iter().max_by(by_value)].into_iter().flatten().copied().collect();
        ends.sort_unstable_by_key(|(experiment, _)| *experiment);
        ends.dedup();
        ends
    });
    ends.collect()
}

impl Bars {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let shown = self.groups.iter().flat_map(|group| [group.healthy, group.anomalous]).flatten();
        let (limit, limit_name) = &self.limit;
        let highest = shown.fold(*limit, f64::max) * 1.15;
        let count = self.groups.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(64)
            .margin_bottom(56)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..count, 0.0..highest)
            .map_err(detail)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .light_line_style(TRANSPARENT)
            .bold_line_style(colour::GRID)
            .axis_style(colour::INK)
            .label_style(text(15, colour::INK))
            .axis_desc_style(text(16, colour::INK))
            .y_desc(self.y_label.as_str())
            .y_labels(6)
            .y_label_formatter(&|share| crate::words::percent(*share))
            .draw()
            .map_err(detail)?;
        let centred = |size, colour| text(size, colour).pos(Pos::new(HPos::Center, VPos::Top));
        let above = |colour| text(15, colour).pos(Pos::new(HPos::Center, VPos::Bottom));
        for (index, group) in self.groups.iter().enumerate() {
            let start = index as f64;
            let bars = [
                (0.14, 0.46, group.healthy, "healthy", colour::CALM),
                (0.54, 0.86, group.anomalous, "anomalous", colour::ALARM),
            ];
            for (from, to, value, name, colour) in bars {
                let foot = chart.backend_coord(&(start + f64::midpoint(from, to), 0.0));
                area.draw(&Text::new(name, (foot.0, foot.1 + 6), centred(15, colour::INK))).map_err(detail)?;
                let value_text = value.map_or_else(|| "none".to_owned(), crate::words::percent);
                let height = value.unwrap_or(0.0);
                let bar = Rectangle::new([(start + from, 0.0), (start + to, height)], colour.filled());
                chart.draw_series([bar]).map_err(detail)?;
                let top = chart.backend_coord(&(start + f64::midpoint(from, to), height));
                area.draw(&Text::new(value_text, (top.0, top.1 - 4), above(colour::INK))).map_err(detail)?;
            }
            let middle = chart.backend_coord(&(start + 0.5, 0.0));
            area.draw(&Text::new(group.name.clone(), (middle.0, middle.1 + 28), centred(16, colour::INK)))
                .map_err(detail)?;
        }
        let line = PathElement::new([(0.0, *limit), (count, *limit)], colour::LIMIT.stroke_width(2));
        chart.draw_series([line]).map_err(detail)?;
        draw_limit_name(area, limit_name, chart.backend_coord(&(count, *limit)))
    }
}

#[cfg(test)]
mod tests {
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
    fn nothing_can_be_plotted_too() {
        let bars = Plot::Bars(Bars { y_label: String::new(), groups: Vec::new(), limit: (0.8, String::new()) });
        for plot in [series(Vec::new(), 0), bars] {
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

    #[test]
    fn long_campaigns_keep_their_peaks() {
        let values: Vec<(u64, f64)> = (1..=100_000).map(|n| (n, if n == 50_000 { 9.0 } else { 0.1 })).collect();
        let thin = thinned(&values);
        assert!(thin.len() <= MOST_POINTS, "{}", thin.len());
        assert!(thin.contains(&(50_000, 9.0)));
        assert!(thin.is_sorted_by_key(|(experiment, _)| *experiment));
    }
}
