//! Curves side by side, each with the spread of its points; of benchmarks, on a page of their own. What they show lives
//! with those who ask.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::error::SiteError;
use super::style::{colour, detail, in_style, text};
use super::with_font;

/// Units: pixels. Source: our choice, because ten curves need more height than one.
const SIZE: (u32, u32) = (880, 480);
/// Where the names begin. Units: pixels.
const LEGEND: (i32, i32) = (730, 24);

/// Colours that those who are colour-blind tell apart too. Source: Okabe and Ito 2008, without yellow.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0xE6, 0x9F, 0x00),
];

/// Curves over the same axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// What the horizontal axis shows.
    pub x_label: String,
    /// What the vertical axis shows.
    pub y_label: String,
    /// Each with a colour of its own, up to seven; further ones begin again.
    pub curves: Vec<Curve>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name beside the plot.
    pub name: String,
    /// Points that a line joins.
    pub path: Vec<(f64, f64)>,
    /// Points that are marked.
    pub dots: Vec<Dot>,
}

/// A marked point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Where.
    pub at: (f64, f64),
    /// Half the length of its error bar; none if it is 0.
    pub deviation: f64,
    /// Whether the true value is larger; it is drawn hollow.
    pub is_bound: bool,
}

impl Dot {
    /// The upper end of its error bar.
    fn top(&self) -> (f64, f64) {
        (self.at.0, self.at.1 + self.deviation)
    }
}

/// With two digits after the point at most.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "it is what plotters asks for")]
fn short(number: &f64) -> String {
    ((number * 100.0).round() / 100.0).to_string()
}

fn is_finite((x, y): &(f64, f64)) -> bool {
    x.is_finite() && y.is_finite()
}

impl Curves {
    /// The curves as an SVG file on white.
    ///
    /// # Errors
    /// They cannot be drawn.
    pub fn svg(&self) -> Result<String, SiteError> {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        with_font(|| area.fill(&WHITE).map_err(detail).and_then(|()| self.draw(&area)))
            .and_then(|()| area.present().map_err(detail))
            .map_err(SiteError::Plot)?;
        drop(area);
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let points =
            self.curves.iter().flat_map(|curve| curve.path.iter().copied().chain(curve.dots.iter().map(Dot::top)));
        let far = points.filter(is_finite).fold((1.0_f64, 1e-9_f64), |far, (x, y)| (far.0.max(x), far.1.max(y)));
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(160)
            .x_label_area_size(46)
            .y_label_area_size(68)
            .build_cartesian_2d(0.0..far.0 * 1.03, 0.0..far.1 * 1.05)
            .map_err(detail)?;
        in_style(&mut chart.configure_mesh())
            .x_desc(self.x_label.as_str())
            .y_desc(self.y_label.as_str())
            .x_label_formatter(&short)
            .y_label_formatter(&short)
            .draw()
            .map_err(detail)?;
        for (index, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let path: Vec<(f64, f64)> = curve.path.iter().copied().filter(is_finite).collect();
            chart.draw_series([PathElement::new(path, colour)]).map_err(detail)?;
            for dot in curve.dots.iter().filter(|dot| is_finite(&dot.top())) {
                let (x, y) = dot.at;
                if dot.deviation > 0.0 {
                    let (low, high) = ((y - dot.deviation).max(0.0), y + dot.deviation);
                    chart.draw_series([PathElement::new([(x, low), (x, high)], colour)]).map_err(detail)?;
                }
                let fill = if dot.is_bound { WHITE.filled() } else { colour.filled() };
                chart.draw_series([Circle::new((x, y), 4, fill)]).map_err(detail)?;
                chart.draw_series([Circle::new((x, y), 4, colour)]).map_err(detail)?;
            }
            let place = (LEGEND.0, LEGEND.1 + 20 * i32::try_from(index).unwrap_or(i32::MAX / 40));
            area.draw(&Circle::new((place.0, place.1), 4, colour.filled())).map_err(detail)?;
            let style = text(14, colour::INK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(curve.name.clone(), (place.0 + 10, place.1), style)).map_err(detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_bound_is_hollow_and_names_stay_text() {
        let dot = |is_bound| Dot { at: (1.0, 2.0), deviation: 0.5, is_bound };
        let draw = |is_bound| {
            let curve = Curve { name: "<b>".to_owned(), path: vec![(0.0, 1.0), (1.0, 2.0)], dots: vec![dot(is_bound)] };
            let curves = Curves { x_label: "weaknesses".into(), y_label: "experiments".into(), curves: vec![curve] };
            curves.svg().unwrap()
        };
        let white =
            |svg: &str| svg.matches("<circle").count() - svg.matches("fill=\"#0072B2\" stroke=\"none\"").count();
        assert_eq!(white(&draw(true)), white(&draw(false)) + 1);
        assert!(draw(true).contains("&lt;b&gt;") && !draw(true).contains("<b>"));
    }

    #[test]
    fn nothing_and_what_has_no_end_can_be_drawn() {
        let wild = Curve {
            name: String::new(),
            path: vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)],
            dots: vec![Dot { at: (f64::INFINITY, 0.0), deviation: f64::NAN, is_bound: false }],
        };
        for curves in [Vec::new(), vec![wild]] {
            let curves = Curves { x_label: String::new(), y_label: String::new(), curves };
            assert!(curves.svg().unwrap().ends_with("</svg>\n"));
        }
    }
}
