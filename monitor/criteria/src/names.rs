//! Names of metrics: `pair_bandwidth.leaf[rail0]` has a distance and a component.

/// A metric with its component.
pub fn full_name(metric: &str, component: &str) -> String {
    if component.is_empty() { metric.to_owned() } else { format!("{metric}[{component}]") }
}

/// A metric without its component.
pub fn base_name(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}

/// A metric without its distance and its component.
pub fn stem(name: &str) -> &str {
    let base = base_name(name);
    base.split('.').next().unwrap_or(base)
}

/// Distances of pairs, from the nearest on, as names of metrics end in them.
const DISTANCES: [&str; 3] = ["leaf", "pod", "core"];

/// The place of a metric's distance from the nearest on, if it has one.
pub fn distance(name: &str) -> Option<usize> {
    let (_, last) = base_name(name).split_once('.')?;
    DISTANCES.iter().position(|distance| *distance == last)
}

/// A metric of pairs without its distance: those of all distances are judged together.
pub fn pair_name(name: &str) -> String {
    name.split_once('[').map_or_else(|| stem(name).to_owned(), |(_, component)| format!("{}[{component}", stem(name)))
}
