//! Plots of a symptom over one feature, with the bounds of a condition. What is plotted lives in `edges`.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use kelpie_spaces::{Feature, FeatureValue};

use super::style::{Scale, Spot, colour, detail, draw_limit_name, in_style, is_drawable, text};
use crate::wording;

/// What a symptom goes by over the values of an ordered feature, on a scale of doublings.
#[derive(Debug)]
pub(in crate::site) struct Edge {
    pub feature: Feature,
    pub y_label: String,
    pub scale: Scale,
    /// Value of the feature, share, whether it was anomalous.
    pub points: Vec<(u64, f64, bool)>,
    /// The ends of the condition.
    pub bounds: Vec<u64>,
    pub limit: (f64, String),
}

/// Where a value is on the axis; 0 is where 1 is.
fn doublings(value: u64) -> f64 {
    (value.max(1) as f64).log2()
}

impl Edge {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<Vec<Spot>, String> {
        let scale = self.scale;
        let drawn = || self.points.iter().filter(|(_, share, _)| is_drawable(*share));
        let places = || self.points.iter().map(|(value, ..)| *value).chain(self.bounds.iter().copied()).map(doublings);
        let (low, high) = (places().fold(64.0, f64::min), places().fold(0.0, f64::max));
        let low = low.min(high);
        let (limit, limit_name) = &self.limit;
        let y = scale.axis(drawn().map(|(_, share, _)| *share).fold(*limit, f64::max), 1.08);
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(64)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(low - 0.5..high + 0.5, y.clone())
            .map_err(detail)?;
        let x_label = |place: &f64| {
            let is_whole = (place - place.round()).abs() < 1e-6 && *place > -1e-6;
            let value = || wording::value(self.feature, &FeatureValue::Number(place.round().exp2() as u64));
            if is_whole { value() } else { String::new() }
        };
        in_style(&mut chart.configure_mesh())
            .x_desc(self.feature.phrase())
            .y_desc(self.y_label.as_str())
            .x_labels(12)
            .x_label_formatter(&x_label)
            .y_labels(6)
            .y_label_formatter(&|place| scale.label(*place))
            .draw()
            .map_err(detail)?;
        for bound in &self.bounds {
            let place = doublings(*bound);
            let line = PathElement::new([(place, y.start), (place, y.end)], colour::INK.stroke_width(1));
            chart.draw_series([line]).map_err(detail)?;
            let at = chart.backend_coord(&(place, y.end));
            let name = wording::value(self.feature, &FeatureValue::Number(*bound));
            let style = text(15, colour::INK).pos(Pos::new(HPos::Left, VPos::Top));
            area.draw(&Text::new(name, (at.0 + 4, at.1), style)).map_err(detail)?;
        }
        let line = PathElement::new(
            [(low - 0.5, scale.place(*limit)), (high + 0.5, scale.place(*limit))],
            colour::LIMIT.stroke_width(2),
        );
        chart.draw_series([line]).map_err(detail)?;
        draw_limit_name(area, limit_name, chart.backend_coord(&(high + 0.5, scale.place(*limit))))?;
        let mut spots = Vec::new();
        // Told apart by shape too.
        for (value, share, is_anomalous) in drawn() {
            let at = chart.backend_coord(&(doublings(*value), scale.place(*share)));
            let state = if *is_anomalous { "anomalous" } else { "healthy" };
            let value = wording::value(self.feature, &FeatureValue::Number(*value));
            spots.push(Spot { at, words: format!("{value}: {}, {state}", wording::percent(*share)) });
            if *is_anomalous {
                area.draw(&Cross::new(at, 4, colour::ALARM.stroke_width(1))).map_err(detail)?;
            } else {
                area.draw(&Circle::new(at, 4, colour::CALM.stroke_width(1))).map_err(detail)?;
            }
        }
        Ok(spots)
    }
}
