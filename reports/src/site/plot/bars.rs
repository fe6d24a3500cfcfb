//! Plots of a few values side by side. What is plotted lives in `finding`.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{colour, detail, draw_limit_name, in_style, is_drawable, text};

/// Values side by side: a healthy and an anomalous one in each group.
#[derive(Debug)]
pub(in crate::site) struct Bars {
    pub y_label: String,
    pub groups: Vec<Group>,
    pub limit: (f64, String),
}

/// The bars of one group, as shares.
#[derive(Debug)]
pub(in crate::site) struct Group {
    pub name: String,
    pub healthy: Option<f64>,
    pub anomalous: Option<f64>,
}

impl Bars {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<(), String> {
        let shown = self.groups.iter().flat_map(|group| [group.healthy, group.anomalous]).flatten();
        let shown = shown.filter(|share| is_drawable(*share));
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
        in_style(&mut chart.configure_mesh())
            .x_labels(0)
            .y_desc(self.y_label.as_str())
            .y_labels(6)
            .y_label_formatter(&|share| crate::wording::percent(*share))
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
                let value_text = value.map_or_else(|| "none".to_owned(), crate::wording::percent);
                let height = value.filter(|share| is_drawable(*share)).unwrap_or(0.0);
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
