//! A fleet whose true hazards are known: `fleet models rare|frequent FIRST LAST` compares models of the next
//! incident over seeds, `fleet samples rare|frequent SEED FOLDER` writes what they are fitted to and judged by.

mod assumptions;
mod draw;
mod models;

use models::Often;

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
        ["models", often, first, last] => models::run(number(first)..number(last) + 1, of(often)),
        ["samples", often, seed, folder] => {
            models::write(number(seed), of(often), folder.as_ref()).expect("a folder");
        }
        _ => eprintln!("usage: fleet models rare|frequent FIRST LAST | samples rare|frequent SEED FOLDER"),
    }
}
