//! Rules, baselines and summaries as SuperBench's documentation describes them, and what they say of nodes.

use kelpie_criteria::NodeState;
use kelpie_criteria::superbench::{Baseline, Rules, Summary};

const RULES: &str = r#"
# SuperBench rules
version: v0.12
superbench:
  rules:
    failure-rule:
      function: failure_check
      criteria: lambda x:x>0
      categories: Failed
      metrics:
        - kernel-launch/return_code
        - ib-loopback/return_code
    rule0:
      # The latency of a launch may be 5 % above its baseline.
      function: variance
      criteria: lambda x:x>0.05
      categories: KernelLaunch
      metrics:
        - kernel-launch/event_overhead:\d+
    rule1:
      function: variance
      criteria: lambda x:x<-0.05
      categories: IB
      metrics:
        - ib-loopback/IB_write_8388608_Avg_\d+:\d+
    rule2:
      function: value
      criteria: lambda x:x>0
      categories: CNN
      store: true
      metrics:
        - bert_models/pytorch-bert-base/steptime_train_float(32|16)_nan
    rule3:
      function: value
      criteria: lambda x:x>0.5
      store: true
      metrics:
        - resnet_models/pytorch-resnet50/steptime
    rule4:
      function: multi_rules
      criteria: 'lambda label:True if label["rule2"]+label["rule3"]>=2 else False'
      categories: CNN
"#;

const BASELINE: &str =
    r#"{"kernel-launch/event_overhead:0": 0.00596, "ib-loopback/IB_write_8388608_Avg_0:0": 23600.0}"#;

fn line(node: &str, overhead: f64, bandwidth: f64, more: &str) -> String {
    format!(
        "{{\"node\": \"{node}\", \"kernel-launch/return_code\": 0, \"kernel-launch/event_overhead:0\": {overhead}, \
         \"ib-loopback/return_code\": 0, \"ib-loopback/IB_write_8388608_Avg_0:0\": {bandwidth}, \
         \"bert_models/pytorch-bert-base/steptime_train_float32_nan\": 0, \
         \"resnet_models/pytorch-resnet50/steptime\": 0.4, \"gpu_name\": \"A100\"{more}}}\n"
    )
}

fn judged(text: &str, baseline: &str) -> std::collections::BTreeMap<String, kelpie_criteria::superbench::RuleVerdict> {
    let rules = Rules::from_yaml(RULES).expect("rules");
    let mut summary = Summary::default();
    summary.add("results-summary.jsonl", &mut text.as_bytes()).expect("a summary");
    let baseline: Baseline = serde_json::from_str(baseline).expect("a baseline");
    rules.judge(&summary, &baseline)
}

#[test]
fn documented_rules_name_the_nodes_that_violate_them_and_what_is_broken() {
    let twice = ", \"bert_models/pytorch-bert-base/steptime_train_float16_nan\": 1, \
                 \"resnet_models/pytorch-resnet50/steptime\": 0.9";
    let text = [
        line("healthy", 0.0060, 23500.0, ""),
        line("slow-launch", 0.0100, 23500.0, ""),
        line("slow-loopback", 0.0060, 12000.0, ""),
        line("both-models", 0.0060, 23500.0, twice),
        "{\"node\": \"failed\", \"kernel-launch/return_code\": 3}\n".to_owned(),
    ]
    .concat();
    let verdicts = judged(&text, BASELINE);
    let said = |node: &str| {
        let violations = verdicts[node].violations.iter();
        violations.map(|one| (one.rule.as_str(), one.category.as_str())).collect::<Vec<_>>()
    };
    assert_eq!((verdicts["healthy"].state, said("healthy")), (NodeState::Pass, vec![]));
    assert_eq!(said("slow-launch"), [("rule0", "KernelLaunch")]);
    assert_eq!(said("slow-loopback"), [("rule1", "IB")]);
    assert_eq!(said("both-models"), [("rule4", "CNN")]);
    // A return code above 0, and one that is not there.
    assert_eq!(said("failed"), [("failure-rule", "Failed"); 2]);
    let variance = verdicts["slow-loopback"].violations[0].variance.expect("of a baseline");
    assert!((variance - (12000.0 - 23600.0) / 23600.0).abs() < 1e-12);
}

/// There it stops the diagnosis of all nodes.
#[test]
fn a_metric_without_a_baseline_is_unknown_by_itself() {
    let text = [line("n1", 0.0100, 23500.0, ""), line("n2", 0.0060, 23500.0, "")].concat();
    let verdicts = judged(&text, r#"{"kernel-launch/event_overhead:0": 0.00596}"#);
    assert_eq!((verdicts["n1"].state, verdicts["n2"].state), (NodeState::Fail, NodeState::Unknown));
    assert!(verdicts["n2"].missing.contains("ib-loopback/IB_write_8388608_Avg_0:0"));
}

#[test]
fn rules_that_break_ours_are_refused_by_their_key() {
    for (from, to, expected) in [
        ("lambda x:x>0.05", "lambda x:__import__('os')", "superbench.rules.rule0.criteria: `__import__` is not known"),
        ("label[\"rule2\"]", "label[\"rule9\"]", "superbench.rules.rule4.criteria: there is no rule `rule9`"),
        ("event_overhead:\\d+", "event_overhead:(", "superbench.rules.rule0.metrics: "),
        ("      categories: KernelLaunch\n", "", "superbench.rules.rule0.categories: write what is broken"),
        ("function: variance", "function: eval", "unknown variant `eval`"),
    ] {
        let error = Rules::from_yaml(&RULES.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
