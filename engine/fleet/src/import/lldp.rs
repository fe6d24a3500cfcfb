//! `lldpctl -f json` or `json0` of hosts: the neighbour of an interface is the host's leaf. The structure of `json`
//! depends on how many interfaces and neighbours there are, which `json0` does not (lldpcli(8)); both are read.

use serde_json::Value;

use super::source::{ImportError, LldpPort, Place, Places, Source, plain};

/// What makes the file.
const COMMAND: &str = "lldpctl -f json0";

pub(super) fn places(files: &[(LldpPort, Source)]) -> Result<Places, ImportError> {
    let mut places = Places::default();
    for (LldpPort { host, interface }, source) in files {
        let document: Value = source.json(COMMAND)?;
        let leaf = neighbour(&document, interface).ok_or_else(|| {
            source.whole(format!("no neighbour of {interface}: look at `lldpctl {interface}` on {host}, and whether the switch speaks LLDP"))
        })?;
        places.hosts.insert(host.clone(), Place { leaf: Some(leaf), ..Place::default() });
    }
    Ok(places)
}

/// The name of the first neighbour's chassis, or its number if it has none.
fn neighbour(document: &Value, interface: &str) -> Option<String> {
    let interfaces = listed(document.get("lldp")?).into_iter().filter_map(|part| part.get("interface"));
    let parts: Vec<&Value> = interfaces.flat_map(listed).collect();
    // {"eth0": {...}}, or {"name": "eth0", ...}.
    let of_name = |part: &&Value| part.get("name").and_then(Value::as_str) == Some(interface);
    let found = parts.iter().copied().find(of_name).or_else(|| parts.iter().find_map(|part| part.get(interface)))?;
    let chassis = listed(found.get("chassis")?).into_iter().next()?;
    let text = |value: &Value| {
        let first = listed(value).into_iter().next()?;
        first.as_str().or_else(|| first.get("value")?.as_str()).map(plain)
    };
    let named = chassis.get("name").and_then(text);
    // {"switch1": {"id": ...}} without a key `name`.
    let key = || chassis.as_object().filter(|_| chassis.get("id").is_none())?.keys().next().map(|key| plain(key));
    named.or_else(key).or_else(|| chassis.get("id").and_then(text)).filter(|name| !name.is_empty())
}

/// The parts of a list, or the value as its only part.
fn listed(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |list| list.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::source;
    use super::*;

    #[test]
    fn all_structures_of_lldpctl_name_the_switch_of_an_interface() {
        let id = r#""id": {"type": "mac", "value": "00:11:22:33:44:55"}"#;
        let one = format!(r#"{{"lldp": {{"interface": {{"eth1": {{"chassis": {{"leaf7": {{{id}}}}}}}}}}}}}"#);
        let several = format!(
            r#"{{"lldp": {{"interface": [{{"eth0": {{"chassis": {{"mgmt": {{{id}}}}}}}}}, {{"eth1": {{"chassis": {{"leaf7": {{{id}}}}}}}}}]}}}}"#
        );
        let named = format!(
            r#"{{"lldp": {{"interface": [{{"name": "eth0", "chassis": {{"mgmt": {{{id}}}}}}}, {{"name": "eth1", "chassis": {{"leaf7": {{{id}}}}}}}]}}}}"#
        );
        let json0 = r#"{"lldp": [{"interface": [{"name": "eth1", "via": "LLDP", "chassis": [{"id": [{"type": "mac", "value": "00:11"}], "name": [{"value": "leaf7"}]}]}]}]}"#;
        for text in [&one, &several, &named, json0] {
            let document = serde_json::from_str(text).expect("JSON");
            assert_eq!(neighbour(&document, "eth1").as_deref(), Some("leaf7"), "{text}");
            assert_eq!(neighbour(&document, "eth9"), None);
        }
        let nameless = json0.replace(r#", "name": [{"value": "leaf7"}]"#, "");
        assert_eq!(neighbour(&serde_json::from_str(&nameless).expect("JSON"), "eth1").as_deref(), Some("00:11"));
    }

    #[test]
    fn an_interface_without_a_neighbour_is_named() {
        let port = LldpPort { host: "n1".to_owned(), interface: "eth1".to_owned() };
        let error = places(&[(port, source("n1.json", r#"{"lldp": {}}"#))]).expect_err("none").to_string();
        assert!(error.starts_with("n1.json: no neighbour of eth1: look at `lldpctl eth1` on n1"), "{error}");
    }
}
