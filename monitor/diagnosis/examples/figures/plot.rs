//! Draws `docs/measured/diagnosis-power.svg` from the rows that `figures power` printed.

use std::collections::BTreeMap;

use plotters::prelude::*;

type Failure = Box<dyn std::error::Error>;
/// Slowdown, share found by the own past, share found by the published rule.
type SlowdownRow = (f64, f64, f64);

const FONT: &[u8] = include_bytes!("../../../../reports/assets/roboto-latin.ttf");
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measured/diagnosis-power.svg");
/// Units: pixels.
const CELL: (u32, u32) = (190, 120);
const PLACES: [&str; 4] = ["cell", "row", "column", "rank"];
const NOISES: [&str; 4] = ["0.01", "0.03", "0.05", "0.1"];

/// One panel per place and noise: the share found against the slowdown, ours and the published rule's.
pub fn draw(file: &str) -> Result<(), Failure> {
    plotters::style::register_font("roboto", FontStyle::Normal, FONT).map_err(|_| "the font is none")?;
    let mut panels: BTreeMap<(String, String), Vec<SlowdownRow>> = BTreeMap::new();
    for line in std::fs::read_to_string(file)?.lines() {
        let cells: Vec<&str> = line.split(',').collect();
        if let [place, noise, slowdown, ours, published, _] = cells[..]
            && PLACES.contains(&place)
        {
            let row: SlowdownRow = (slowdown.parse()?, ours.parse()?, published.parse()?);
            panels.entry((place.to_owned(), noise.to_owned())).or_default().push(row);
        }
    }
    let size = (4 * CELL.0, 4 * CELL.1 + 24);
    let root = SVGBackend::new(PLOT, size).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: f64| ("roboto", size).into_font();
    let heading = "share found within 50 iterations against the slowdown: own past blue, 1.5 times the median red";
    root.draw_text(heading, &text(13.0).into(), (8, 5))?;
    let below = root.margin(24, 0, 0, 0);
    let names = PLACES.iter().flat_map(|place| NOISES.map(|noise| (*place, noise)));
    for (cell, (place, noise)) in below.split_evenly((4, 4)).iter().zip(names) {
        let rows = panels.get(&(place.to_owned(), noise.to_owned())).cloned().unwrap_or_default();
        let mut chart = ChartBuilder::on(cell)
            .margin(5)
            .caption(format!("{place}, noise {:.0} %", noise.parse::<f64>()? * 100.0), text(11.0))
            .x_label_area_size(16)
            .y_label_area_size(26)
            .build_cartesian_2d(0.0f64..1.12, 0.0..1.05)?;
        // The axis is logarithmic, from 1 to 3.
        chart
            .configure_mesh()
            .disable_mesh()
            .x_labels(4)
            .y_labels(3)
            .x_label_formatter(&|power| format!("{:.2}", power.exp()))
            .label_style(text(9.0))
            .draw()?;
        let line = |share: fn(&SlowdownRow) -> f64| -> Vec<(f64, f64)> {
            rows.iter().map(|row| (row.0.ln(), share(row))).collect()
        };
        chart.draw_series([PathElement::new(line(|row| row.2), RED.stroke_width(2))])?;
        chart.draw_series([PathElement::new(line(|row| row.1), BLUE.stroke_width(2))])?;
    }
    root.present()?;
    println!("{PLOT}");
    Ok(())
}
