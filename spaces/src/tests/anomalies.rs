//! The triggers of the paper's 18 anomalies as workloads of the full space.

use super::full;
use crate::known::anomalies;
use crate::{Feature, FeatureValue, Host, Workload, check, workload_from_yaml, workload_to_yaml};

fn triggers() -> Vec<(u32, Workload)> {
    anomalies().into_iter().map(|anomaly| (anomaly.id, anomaly.trigger.workload())).collect()
}

#[test]
fn every_trigger_fulfils_the_conditions() {
    let anomalies = anomalies();
    assert!(anomalies.iter().map(|anomaly| anomaly.id).eq(1..=18));
    for anomaly in anomalies {
        let workload = anomaly.trigger.workload();
        assert!(!anomaly.conditions.conditions.is_empty(), "anomaly {}", anomaly.id);
        for condition in &anomaly.conditions.conditions {
            assert!(condition.holds(&workload), "anomaly {}: {condition}", anomaly.id);
        }
    }
}

#[test]
fn every_trigger_is_a_valid_workload_of_the_full_space() {
    let (full, triggers) = (full(), triggers());
    assert_eq!(triggers.len(), 18);
    for (id, workload) in triggers {
        assert_eq!(check(&workload), Ok(()), "anomaly {id}");
        assert!(full.contains(&workload), "anomaly {id} lies outside full.yaml: {workload:?}");
        let yaml = workload_to_yaml(&workload);
        assert_eq!(workload_from_yaml("round trip", &yaml).as_ref(), Ok(&workload), "{yaml}");
    }
}

#[test]
fn triggers_have_the_features_of_the_paper() {
    let triggers = triggers();
    let check = |id: u32, feature: Feature, expected: &str| {
        let (_, workload) = triggers.iter().find(|(other, _)| *other == id).expect("18 triggers");
        assert_eq!(workload.feature(feature).to_string(), expected, "anomaly {id}, {feature}");
    };
    check(1, Feature::QpType, "UD");
    check(4, Feature::TotalQps, "160");
    check(4, Feature::SgeCount, "4");
    check(4, Feature::MessageMax, "512");
    check(7, Feature::TotalMrs, "24576");
    check(9, Feature::MessageMix, "true");
    check(9, Feature::SgeCount, "3");
    check(10, Feature::MessageMix, "true");
    check(10, Feature::SgeCount, "1");
    check(10, Feature::TotalQps, "640");
    check(11, Feature::MemoryRequester, "dram:0");
    check(11, Feature::MemoryResponder, "dram:1");
    check(11, Feature::Bidirectional, "true");
    check(11, Feature::MemoryWritten, "dram:1");
    check(12, Feature::MemoryRequester, "gpu:0");
    check(13, Feature::Loopback, "true");
    check(13, Feature::Bidirectional, "false");
    check(13, Feature::TotalQps, "16");
    check(14, Feature::TotalMrs, "167936");
    check(15, Feature::MessageMix, "false");
    check(15, Feature::MessageMin, "64");
    check(18, Feature::Loopback, "false");
}

#[test]
fn each_host_keeps_its_memory_in_both_directions() {
    let (_, eleven) = triggers().into_iter().find(|(id, _)| *id == 11).expect("18 triggers");
    for flow in &eleven.flows {
        let at = |host| if flow.from == host { flow.memory.from.device } else { flow.memory.to.device };
        assert_eq!(at(Host::A).to_string(), "dram:0");
        assert_eq!(at(Host::B).to_string(), "dram:1");
    }
}

#[test]
fn triggers_can_be_moved_feature_by_feature() {
    let full = full();
    for (id, workload) in triggers() {
        for feature in Feature::ALL {
            let now = workload.feature(feature);
            for value in full.feature_values(feature).into_iter().filter(|value| *value != now) {
                let Some(moved) = full.with_feature(&workload, feature, &value) else { continue };
                assert!(full.contains(&moved), "anomaly {id}: {feature} to {value}");
                if feature == Feature::TotalMrs {
                    let reached = moved.feature(feature).number().expect("a count");
                    assert!(FeatureValue::Number(reached) <= value, "anomaly {id}: {feature} to {value}: {reached}");
                } else {
                    assert_eq!(moved.feature(feature), value, "anomaly {id}");
                }
            }
        }
    }
}

/// Breaking one condition changes what is named here and nothing else.
#[test]
fn a_moved_feature_takes_along_only_what_depends_on_it() {
    let (full, triggers) = (full(), triggers());
    let check = |id: u32, feature: &str, value: &str, expected: &[&str]| {
        let (_, workload) = triggers.iter().find(|(other, _)| *other == id).expect("18 triggers");
        let feature: Feature = feature.parse().expect("a feature");
        let value = match value.parse() {
            Ok(number) => FeatureValue::Number(number),
            Err(_) => FeatureValue::Category(value.to_owned()),
        };
        let moved = full.with_feature(workload, feature, &value).unwrap_or_else(|| panic!("anomaly {id}: {feature}"));
        let changed: Vec<String> = Feature::ALL
            .into_iter()
            .filter(|other| workload.feature(*other) != moved.feature(*other))
            .map(|other| format!("{other}={}", moved.feature(other)))
            .collect();
        assert_eq!(changed, expected, "anomaly {id}: {feature} to {value}");
    };
    check(1, "qp_type", "RC", &["qp_type=RC"]);
    check(1, "recv_wq_depth", "128", &["recv_wq_depth=128"]);
    check(1, "recv_wq_depth", "32", &["recv_batch=32", "recv_wq_depth=32"]);
    check(1, "opcode", "WRITE", &["qp_type=RC", "opcode=WRITE"]);
    check(1, "mtu", "1024", &["mtu=1024", "message_min=1024", "message_max=1024", "sge_min=1024"]);
    check(1, "message_max", "512", &["message_min=512", "message_max=512", "sge_min=512"]);
    check(3, "qp_type", "UC", &["qp_type=UC", "opcode=WRITE"]);
    check(3, "qp_type", "UD", &["qp_type=UD", "opcode=SEND", "message_min=1024", "message_max=1024", "sge_min=1024"]);
    check(3, "mtu", "4096", &["mtu=4096"]);
    check(3, "mr_size", "65536", &["message_min=65536", "message_max=65536", "sge_min=65536", "mr_size=65536"]);
    check(4, "bidirectional", "false", &["total_qps=80", "total_mrs=80", "bidirectional=false"]);
    check(4, "sge_count", "1", &["sge_count=1", "sge_min=512"]);
    check(4, "send_wq_depth", "64", &["send_batch=64", "send_wq_depth=64"]);
    check(4, "total_qps", "20", &["qps=10", "total_qps=20", "total_mrs=20"]);
    check(7, "total_mrs", "48", &["mrs=2", "total_mrs=48"]);
    check(7, "total_mrs", "12", &["qps=12", "total_qps=12", "mrs=1", "total_mrs=12"]);
    check(7, "send_batch", "128", &["send_batch=128"]);
    check(8, "send_batch", "64", &["send_batch=64", "send_wq_depth=64"]);
    check(9, "message_mix", "false", &["sge_min=22229", "message_mix=false"]);
    check(9, "sge_min", "64", &["sge_min=64"]);
    check(9, "sge_min", "1024", &["sge_min=1024", "message_mix=false"]);
    check(10, "message_mix", "false", &["message_min=65536", "sge_min=65536", "message_mix=false"]);
    check(11, "memory_responder", "dram:0", &["memory_responder=dram:0", "memory_written=dram:0"]);
    check(11, "memory_written", "gpu:0", &["memory_responder=gpu:0", "memory_written=gpu:0"]);
    check(13, "loopback", "false", &["total_qps=8", "total_mrs=256", "loopback=false"]);
    check(18, "message_mix", "true", &["message_min=1024", "sge_min=1024", "message_mix=true"]);
}
