//! Plots over the experiments of a campaign, with the findings marked. What is plotted lives in `timeline`.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Spot, colour, detail, draw_limit_name, in_style, is_drawable, text};
use crate::wording;

/// Values over the experiments of a campaign, with the findings marked as in Figure 6 of the Collie paper.
#[derive(Debug)]
pub(in crate::site) struct Series {
    pub y_label: String,
    pub experiments: u64,
    /// Of experiments that search: dots, and no line, because what lies between two of them may be a reduction.
    pub searching: Vec<(u64, f64)>,
    /// Of experiments that reduce a finding: faint dots.
    pub reducing: Vec<(u64, f64)>,
    /// A level that means something, with its name.
    pub limit: Option<(f64, String)>,
    /// Finding, experiment, value.
    pub marks: Vec<(u64, u64, f64)>,
}

impl Series {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<Vec<Spot>, String> {
        let x: Range<u64> = 0..self.experiments.max(1) + 1;
        let values = self.searching.iter().chain(&self.reducing).map(|(_, value)| *value);
        let highest = values.filter(|value| is_drawable(*value)).fold(1.0, f64::max);
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(64)
            .x_label_area_size(46)
            .y_label_area_size(68)
            .build_cartesian_2d(x, 0.0..highest * 1.08)
            .map_err(detail)?;
        in_style(&mut chart.configure_mesh())
            .x_desc("experiment")
            .y_desc(self.y_label.as_str())
            .y_labels(6)
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()
            .map_err(detail)?;
        for (values, colour) in [(&self.reducing, colour::FAINT), (&self.searching, colour::CALM)] {
            let drawn = values.iter().filter(|(_, value)| is_drawable(*value));
            chart.draw_series(drawn.map(|value| Circle::new(*value, 2, colour.filled()))).map_err(detail)?;
        }
        if let Some((level, name)) = &self.limit {
            let line = PathElement::new([(0, *level), (self.experiments + 1, *level)], colour::LIMIT.stroke_width(2));
            chart.draw_series([line]).map_err(detail)?;
            draw_limit_name(area, name, chart.backend_coord(&(self.experiments + 1, *level)))?;
        }
        let mut labels: Vec<(i32, i32)> = Vec::new();
        let mut spots = Vec::new();
        for (finding, experiment, value) in self.marks.iter().filter(|(.., value)| is_drawable(*value)) {
            let at = chart.backend_coord(&(*experiment, *value));
            area.draw(&Cross::new(at, 5, colour::ALARM.stroke_width(2))).map_err(detail)?;
            let label = free_place((at.0 + 7, at.1 - 3), &labels);
            let style = text(16, colour::ALARM).pos(Pos::new(HPos::Left, VPos::Bottom));
            area.draw(&Text::new(finding.to_string(), label, style)).map_err(detail)?;
            labels.push(label);
            let words =
                format!("finding {finding}, first seen at experiment {experiment}: {}", wording::percent(*value));
            spots.push(Spot { at, words });
        }
        Ok(spots)
    }
}

/// The nearest place at or above this one where a label of two digits covers none that is there already.
fn free_place(wanted: (i32, i32), labels: &[(i32, i32)]) -> (i32, i32) {
    let mut place = wanted;
    while labels.iter().any(|label| (label.0 - place.0).abs() < 20 && (label.1 - place.1).abs() < 14) {
        // To the side if there is no room above.
        place = if place.1 > 28 { (place.0, place.1 - 2) } else { (place.0 + 4, place.1) };
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut labels = Vec::new();
        for _ in 0..30 {
            let place = free_place((100, 60), &labels);
            assert!(labels.iter().all(|(x, y): &(i32, i32)| (x - place.0).abs() >= 20 || (y - place.1).abs() >= 14));
            labels.push(place);
        }
    }
}
