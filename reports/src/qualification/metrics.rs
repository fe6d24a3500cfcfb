//! The nodes of a qualification in OpenMetrics: for `/metrics`, and for the textfile collector of the node exporter.

use std::sync::atomic::AtomicU64;

use kelpie_criteria::{FleetState, FleetVerdict};
use kelpie_text::clean;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NodeLabels {
    node: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FaultLabels {
    node: String,
    metric: String,
    component: String,
}

/// How each node stands.
pub fn open_metrics(run: i64, verdict: &FleetVerdict) -> String {
    let mut all = Registry::with_prefix("kelpie_qualification");
    all.register("run", "The number of the qualification", ConstGauge::new(run));
    let states = Family::<NodeLabels, Gauge>::default();
    let faults = Family::<FaultLabels, Gauge<f64, AtomicU64>>::default();
    for (name, node) in &verdict.nodes {
        let node_label = clean(name);
        let state = match node.state {
            FleetState::In => 1,
            FleetState::Out => 0,
            FleetState::Unknown => -1,
        };
        states.get_or_create(&NodeLabels { node: node_label.clone() }).set(state);
        for fault in &node.faults {
            let (metric, share) =
                fault.measured.as_ref().map_or((&fault.check, 0.0), |measured| (&measured.metric, measured.similarity));
            let labels =
                FaultLabels { node: node_label.clone(), metric: clean(metric), component: clean(&fault.component) };
            faults.get_or_create(&labels).set(share);
        }
    }
    all.register("node", "Whether a node may take jobs: 1 in, 0 out, -1 unknown", states);
    all.register("fault_ratio", "How good what is wrong with a node is against its criterion, from 0 to 1", faults);
    let mut text = String::new();
    encode(&mut text, &all).expect("a string takes all that is written to it");
    text
}
