//! What the simulated fleet rests on, each number with its source. "Paper" is SuperBench (Xiong et al., ATC 2024).

/// A check: its name, the share of nodes whose defects it found in percent, and how long it takes in minutes.
pub struct Check {
    pub name: &'static str,
    pub found: f64,
    pub minutes: f64,
}

const fn check(name: &'static str, found: f64, minutes: f64) -> Check {
    Check { name, found, minutes }
}

/// Source: table 6 for what checks found. Minutes are our choice, relative to each other; all are scaled by one factor,
/// so that the full set takes as much time as published.
pub const CHECKS: [Check; 13] = [
    check("ib_hca_loopback", 6.04, 4.0),
    check("h2d_d2h_bandwidth", 2.03, 4.0),
    check("bert", 1.59, 25.0),
    check("cpu_latency", 1.33, 4.0),
    check("ib_single_node_all_reduce", 1.10, 6.0),
    check("resnet", 0.73, 20.0),
    check("gpt2", 0.53, 25.0),
    check("lstm", 0.46, 15.0),
    check("densenet", 0.40, 20.0),
    check("matmul_all_reduce_overlap", 0.33, 10.0),
    check("nvlink_all_reduce", 0.30, 6.0),
    check("gpu_gemm", 0.23, 6.0),
    // The twelve benchmarks of table 2 that table 6 does not name, a long stress among them.
    check("others", 0.0, 95.0),
];
/// Nodes with a defect. Units: percent. Source: table 6's text.
pub const DEFECTIVE: f64 = 10.36;
/// Defects that coverage is learnt from. Source: the same share of "3k+" nodes.
pub const PAST_DEFECTS: usize = 311;

/// Categories of incidents, and their shares. Our choice: figure 1 has more than eight without numbers.
pub const CATEGORIES: [f64; 5] = [0.35, 0.25, 0.2, 0.12, 0.08];
/// Nodes and hours of the trace that models are fitted to. Source: section 5.1, and the 2,400 hours of section 5.2.
pub const TRACE_NODES: usize = 1000;
pub const TRACE_HOURS: f64 = 2400.0;
/// Statuses of a node in the trace. Source: 46,808 samples of 1,000 nodes.
pub const STATUSES: usize = 47;
/// Share of the samples that a model is not fitted to. Source: section 5.2. Here whole nodes are held out.
pub const HELD_OUT: f64 = 0.2;
/// The mean time before the next incident of the paper's samples, capped at 2,400 h. Source: table 3: a constant
/// prediction of 2,400 h has an accuracy of 75.12 %, which is this mean by 2,400 h.
pub const MEAN_TBNI: f64 = 0.7512 * TRACE_HOURS;
/// By how much the hazard rises with incidents, as a power. Source: figure 4: 719.4 h after the first and 151.7 h after
/// the twentieth incident, if all of that is wear: ln(719.4 / 151.7) / ln(20).
pub const WEAR: f64 = 0.52;
pub const FIRST: f64 = 719.4;
/// Incidents after which the hazard rises no more. Source: figure 4 ends there.
pub const MOST_WORN: usize = 20;

/// How long is simulated. Source: section 5.2.
pub const HOURS: f64 = 720.0;
/// Repair without and with checks. Units: hours. Source: section 5.2, step 7.
pub const REPAIR: f64 = 36.0;
pub const REPLACE: f64 = 1.0;
/// Nodes of the simulated cluster, and jobs that wait at all times. Our choice.
pub const NODES: usize = 128;
pub const WAITING: usize = 64;
/// Nodes of a job, and how many such jobs there are. Our choice: most jobs are small.
pub const SIZES: [(usize, f64); 5] = [(1, 0.5), (2, 0.2), (4, 0.15), (8, 0.1), (16, 0.05)];
/// Spread of the logarithm of the jobs' hours. Our choice.
pub const DURATION_SPREAD: f64 = 1.0;
/// Mean hours of a job. Our choice.
pub const DURATION: f64 = 24.0;

/// What is published and agreed with. Source: table 4: hours between incidents without checks, hours of checks with
/// all.
pub const MTBI: f64 = 11.59;
pub const CHECKED: f64 = 100.40;
