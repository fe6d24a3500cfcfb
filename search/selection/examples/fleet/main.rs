//! A fleet whose true hazards are known: `fleet models rare|frequent FIRST LAST` compares models of the next
//! incident over seeds, `fleet samples rare|frequent SEED FOLDER` writes what they are fitted to and judged by.

mod assumptions;
mod draw;
mod models;
mod policies;

use models::Often;
use policies::Lead;

/// A mean, and the interval that holds it with 95 % of chance if seeds are drawn again.
fn interval(values: &[f64]) -> String {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt();
    format!("{mean:.4} ± {:.4}", 1.96 * spread / count.sqrt())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().expect("a seed");
    let of = |word: &str| if word == "rare" { Often::Rare } else { Often::Frequent };
    match words[..] {
        ["models", often, first, last] => models::run(number(first)..=number(last), of(often)),
        ["samples", often, seed, folder] => {
            models::write(number(seed), of(often), folder.as_ref()).expect("a folder");
        }
        ["policies", first, last] => {
            let mut settings = Vec::new();
            for (is_rate, nth) in [(true, 0), (true, 3), (true, 4), (false, 1), (false, 3)] {
                for lead in [Lead::Job, Lead::Hours(24.0), Lead::Hours(96.0)] {
                    let truth = draw::TRUTHS[nth];
                    let setting = policies::agreeing(truth, is_rate, lead, 0);
                    let name = format!(
                        "{}, {lead:?}, {:.1} h, minutes times {:.3}",
                        truth.name, setting.truth.hours, setting.minutes
                    );
                    println!("{name}");
                    settings.push((name, setting));
                }
            }
            policies::run(number(first)..=number(last), &settings, &[0.01, 0.05, 0.2, 0.63]);
        }
        _ => eprintln!("usage: fleet models rare|frequent FIRST LAST | samples rare|frequent SEED FOLDER"),
    }
}
