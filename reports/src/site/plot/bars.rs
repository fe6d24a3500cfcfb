//! Plots of a few values side by side. What is plotted lives in `finding`.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Scale, Spot, colour, detail, draw_limit_name, in_style, is_drawable, text};

/// Values side by side: a healthy and an anomalous one in each group.
#[derive(Debug)]
pub(in crate::site) struct Bars {
    pub y_label: String,
    pub scale: Scale,
    pub groups: Vec<BarGroup>,
    pub limit: (f64, String),
}

/// The bars of one group, as shares.
#[derive(Debug)]
pub(in crate::site) struct BarGroup {
    pub name: String,
    pub healthy: Option<f64>,
    pub anomalous: Option<f64>,
}

impl Bars {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<Vec<Spot>, String> {
        let scale = self.scale;
        let shown = self.groups.iter().flat_map(|group| [group.healthy, group.anomalous]).flatten();
        let shown = shown.filter(|share| is_drawable(*share));
        let (limit, limit_name) = &self.limit;
        let y = scale.axis(shown.fold(*limit, f64::max), 1.15);
        let foot = y.start;
        let count = self.groups.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(64)
            .margin_bottom(56)
            .y_label_area_size(76)
            .build_cartesian_2d(0.0..count, y)
            .map_err(detail)?;
        in_style(&mut chart.configure_mesh())
            .x_labels(0)
            .y_desc(self.y_label.as_str())
            .y_labels(6)
            .y_label_formatter(&|place| scale.label(*place))
            .draw()
            .map_err(detail)?;
        let centred = |size, colour| text(size, colour).pos(Pos::new(HPos::Center, VPos::Top));
        let above = |colour| text(15, colour).pos(Pos::new(HPos::Center, VPos::Bottom));
        let mut spots = Vec::new();
        for (index, group) in self.groups.iter().enumerate() {
            let start = index as f64;
            let bars = [
                (0.14, 0.46, group.healthy, "healthy", colour::CALM),
                (0.54, 0.86, group.anomalous, "anomalous", colour::ALARM),
            ];
            for (from, to, value, name, colour) in bars {
                let below = chart.backend_coord(&(start + f64::midpoint(from, to), foot));
                area.draw(&Text::new(name, (below.0, below.1 + 6), centred(15, colour::INK))).map_err(detail)?;
                let value_text = value.map_or_else(|| "none".to_owned(), crate::wording::percent);
                let height = scale.place(value.filter(|share| is_drawable(*share)).unwrap_or(0.0));
                let bar = Rectangle::new([(start + from, foot), (start + to, height)], colour.filled());
                chart.draw_series([bar]).map_err(detail)?;
                let top = chart.backend_coord(&(start + f64::midpoint(from, to), height));
                let words = format!("{}, {name}: {value_text}", group.name);
                spots.push(Spot { at: (top.0, i32::midpoint(top.1, below.1)), words });
                area.draw(&Text::new(value_text, (top.0, top.1 - 4), above(colour::INK))).map_err(detail)?;
            }
            let middle = chart.backend_coord(&(start + 0.5, foot));
            area.draw(&Text::new(group.name.clone(), (middle.0, middle.1 + 28), centred(16, colour::INK)))
                .map_err(detail)?;
        }
        let line =
            PathElement::new([(0.0, scale.place(*limit)), (count, scale.place(*limit))], colour::LIMIT.stroke_width(2));
        chart.draw_series([line]).map_err(detail)?;
        draw_limit_name(area, limit_name, chart.backend_coord(&(count, scale.place(*limit))))?;
        Ok(spots)
    }
}
