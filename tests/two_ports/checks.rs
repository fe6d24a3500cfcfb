//! Checks of pairs of ports, with faults.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{DualPortLab, leading, serde_yaml_to_json, state};

#[test]
#[ignore = "needs the lab"]
fn checks_pass_on_the_plan_and_fail_on_each_fault_with_its_evidence() {
    let lab = DualPortLab::up();
    let file = lab.catalog();
    let text = fs::read_to_string(&file).expect("just written");
    let catalog: Value = serde_yaml_to_json(&text);
    let planned = lab.check(0, &["--plan", file.to_str().expect("UTF-8")]);
    for name in ["links", "pairing", "balance", "diversity", "collision", "loss"] {
        assert_eq!(state(&planned, name), "pass", "{}", planned[name]);
    }
    assert_eq!(state(&planned, "failover"), "unknown", "nobody took a port down");
    let ports = |pairs: &[(&str, &str)]| {
        let ports = pairs.iter().flat_map(|(leaves, arrives)| leading(&catalog, leaves, arrives).into_iter().take(2));
        ports.map(|port| port.to_string()).collect::<Vec<_>>().join(",")
    };
    let collided = lab.check(1, &["--source-ports", &ports(&[("left", "left")])]);
    assert_eq!((state(&collided, "balance"), state(&collided, "collision")), ("fail".to_owned(), "fail".to_owned()));
    assert!(collided["balance"]["evidence"].to_string().contains("100 % off"), "{}", collided["balance"]);
    let crossed = lab.check(1, &["--source-ports", &ports(&[("left", "right"), ("right", "left")])]);
    assert_eq!(state(&crossed, "pairing"), "fail");
    assert!(crossed["pairing"]["evidence"].to_string().contains("8 of 8"), "{}", crossed["pairing"]);
    // A port goes down and comes back while traffic runs.
    let xtask = Path::new(env!("CARGO_BIN_EXE_kelpie")).with_file_name("xtask");
    let link = |state: &str| {
        format!("KELPIE_LAB_DIR={} {} lab link --dual-port b-right {state}", lab.common.display(), xtask.display())
    };
    let failed_over = lab
        .check(0, &["--plan", file.to_str().expect("UTF-8"), "--port-down", &link("down"), "--port-up", &link("up")]);
    assert_eq!(state(&failed_over, "failover"), "pass", "{}", failed_over["failover"]);
    // It stays down: the catalog does not fit any more, and without it the check says which port.
    lab.xtask(&["link", "--dual-port", "b-right", "down"]);
    let args = ["paths", "check", "--subsystem", "dual-lab", "--plan", file.to_str().expect("UTF-8")];
    let stale = lab.bench.run(&args);
    let down = lab.check(1, &[]);
    lab.xtask(&["link", "--dual-port", "b-right", "up"]);
    assert!(stale.status == Some(2) && stale.stderr.contains("now eth1"), "{stale:?}");
    assert_eq!(state(&down, "links"), "fail");
    assert!(down["links"]["evidence"].to_string().contains("eth1 of host b"), "{}", down["links"]);
}
