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

/// A metric of pairs without its distance: those of all distances are judged together.
pub fn pair_name(name: &str) -> String {
    name.split_once('[').map_or_else(|| stem(name).to_owned(), |(_, component)| format!("{}[{component}", stem(name)))
}
