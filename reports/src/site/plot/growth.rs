//! Plots of how much of something had been seen after each experiment. What is plotted lives in `timeline`.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{Spot, colour, detail, in_style, text};

/// Most steps of a line that are drawn. Source: our choice, because a plot has not many more pixels.
const MOST_STEPS: usize = 800;

/// Lines that rise to 100 % as what they count is seen.
#[derive(Debug)]
pub(in crate::site) struct Growth {
    pub experiments: u64,
    /// What is counted, and the experiments at which there was one more, in order; at most two.
    pub lines: Vec<(String, Vec<u64>)>,
}

impl Growth {
    pub(super) fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>) -> Result<Vec<Spot>, String> {
        let end = self.experiments.max(1) + 1;
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(64)
            .x_label_area_size(46)
            .y_label_area_size(68)
            .build_cartesian_2d(0..end, 0.0..1.08)
            .map_err(detail)?;
        in_style(&mut chart.configure_mesh())
            .x_desc("experiment")
            .y_desc("share of all")
            .y_labels(6)
            .y_label_formatter(&|share| format!("{:.0} %", share * 100.0))
            .draw()
            .map_err(detail)?;
        let mut spots = Vec::new();
        for ((name, at), (colour, height)) in self.lines.iter().zip([(colour::ALARM, 22), (colour::CALM, 42)]) {
            chart.draw_series([PathElement::new(steps(at, end), colour.stroke_width(2))]).map_err(detail)?;
            let style = text(16, colour).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(name.clone(), (96, height), style)).map_err(detail)?;
            let middle = at[at.len() / 2];
            let words = format!("half of the {name} had been seen after experiment {middle}");
            spots.push(Spot { at: chart.backend_coord(&(middle, 0.5)), words });
        }
        Ok(spots)
    }
}

/// A line with a step up at each of these, or at every few of them.
fn steps(at: &[u64], end: u64) -> Vec<(u64, f64)> {
    let mut line = vec![(0, 0.0)];
    let mut height = 0.0;
    for (index, number) in at.iter().enumerate() {
        if index % at.len().div_ceil(MOST_STEPS) == 0 || index + 1 == at.len() {
            line.push((*number, height));
            height = (index + 1) as f64 / at.len() as f64;
            line.push((*number, height));
        }
    }
    line.push((end, height));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_all_of_them() {
        assert_eq!(steps(&[2, 5], 9), [(0, 0.0), (2, 0.0), (2, 0.5), (5, 0.5), (5, 1.0), (9, 1.0)]);
        let many = steps(&(1..=100_000).collect::<Vec<u64>>(), 100_001);
        assert!(many.len() < 4 * MOST_STEPS && many.last() == Some(&(100_001, 1.0)), "{}", many.len());
    }
}
