//! Priority flow control as text: what `dcb` and `mlnx_qos` print, and the short lines of this project's recordings.
//!
//! Source: iproute2 `dcb/dcb_pfc.c`, `dcb/dcb_app.c`, `dcb/dcb_apptrust.c`, `man/man8/dcb-pfc.8`, `etc/iproute2/
//! rt_dsfield`; mlnx-tools `python/mlnx_qos`, `python/dcbnetlink.py`.

use serde_json::Value;

use super::Dcb;

/// What is known so far. The parts come in any order, from one tool or from several.
#[derive(Debug, Default)]
struct Found {
    dcb: Dcb,
    /// Whether a part told of priority flow control; without one nothing is known of it.
    has_pfc: bool,
    /// Whether DSCP is trusted, if a part said so.
    trusts_dscp: Option<bool>,
}

/// The settings in a text; `None` if no part of it is of priority flow control, as of an error message.
pub fn parse(text: &str) -> Option<Dcb> {
    let mut found = Found::default();
    if text.trim_start().starts_with(['{', '[']) {
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>().map_while(Result::ok) {
            found.json(&value);
        }
    } else {
        text.lines().for_each(|line| found.line(line));
    }
    let Found { mut dcb, has_pfc, trusts_dscp } = found;
    if trusts_dscp == Some(false) {
        dcb.dscp.clear();
    }
    dcb.dscp.sort_unstable();
    dcb.dscp.dedup();
    has_pfc.then_some(dcb)
}

impl Found {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["pfc", ref priorities @ ..] if priorities.iter().all(|word| !word.contains(':')) => {
                self.has_pfc = true;
                priorities.iter().filter_map(|word| word.parse().ok()).for_each(|priority| self.enable(priority));
            }
            ["dscp", dscp, priority] => self.map(dscp, priority),
            // `mlnx_qos`: one column for each priority.
            ["enabled", ref columns @ ..] if columns.iter().all(|word| matches!(*word, "0" | "1")) => {
                self.has_pfc = true;
                (0..).zip(columns).filter(|(_, word)| **word == "1").for_each(|(priority, _)| self.enable(priority));
            }
            ["Priority", "trust", "state:", state, ..] => self.trusts_dscp = Some(state == "dscp"),
            // `mlnx_qos`: `prio:3 dscp:31,30,`, and for the default priority `prio:3` alone.
            [priority, ref values @ ..] if priority.starts_with("prio:") => {
                let priority = priority.trim_start_matches("prio:");
                let values = values.iter().filter_map(|word| word.strip_prefix("dscp:"));
                for value in values.flat_map(|list| list.split(',')) {
                    self.map(value, priority);
                }
                if words.len() == 1 {
                    self.default_priority(priority);
                }
            }
            _ => self.dcb_words(&words),
        }
    }

    /// `dcb`: a name, and behind it values such as `3:on` and `AF31:3`, up to the next name; on one line or several.
    fn dcb_words(&mut self, words: &[&str]) {
        let mut name = "";
        for word in words {
            match (name, word.split_once(':')) {
                ("prio-pfc" | "pg-pfc", Some((priority, state))) => {
                    if let (Ok(priority), "on" | "1") = (priority.parse(), state) {
                        self.enable(priority);
                    }
                }
                ("dscp-prio", Some((dscp, priority))) => self.map(dscp, priority),
                ("default-prio", None) if word.parse::<u8>().is_ok() => self.default_priority(word),
                ("order", None) if matches!(*word, "dscp" | "pcp") => {
                    self.trusts_dscp = Some(self.trusts_dscp == Some(true) || *word == "dscp");
                }
                (_, None) => {
                    name = word;
                    self.has_pfc |= matches!(name, "prio-pfc" | "pg-pfc");
                }
                _ => {}
            }
        }
    }

    /// `dcb -j`: objects, of which each command prints one.
    fn json(&mut self, value: &Value) {
        if let Some(list) = value.as_array() {
            for value in list {
                self.json(value);
            }
        }
        let list = |name: &str| value.get(name).and_then(Value::as_array);
        if let Some(states) = list("prio_pfc").or(list("pg_pfc")) {
            self.has_pfc = true;
            let is_on = |state: &Value| state.as_bool() == Some(true) || state == "on" || state == 1;
            (0..).zip(states).filter(|(_, state)| is_on(state)).for_each(|(priority, _)| self.enable(priority));
        }
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for pair in list("dscp_prio").into_iter().flatten() {
            if let Some([dscp, priority]) = pair.as_array().map(Vec::as_slice) {
                self.map(&text(dscp), &text(priority));
            }
        }
        list("default_prio").into_iter().flatten().for_each(|priority| self.default_priority(&text(priority)));
        if let Some(order) = list("order") {
            self.trusts_dscp = Some(order.iter().any(|selector| selector == "dscp"));
        }
    }

    fn enable(&mut self, priority: u8) {
        self.dcb.pfc_enabled |= 1_u8.checked_shl(priority.into()).unwrap_or(0);
    }

    fn map(&mut self, dscp: &str, priority: &str) {
        let priority = priority.parse().ok().filter(|priority| *priority < 8);
        self.dcb.dscp.extend(dscp_of(dscp).zip(priority));
    }

    /// Of several the kernel's drivers take the highest.
    fn default_priority(&mut self, priority: &str) {
        let priority = priority.parse().ok().filter(|priority| *priority < 8);
        self.dcb.default_priority = self.dcb.default_priority.max(priority.unwrap_or(0));
    }
}

/// The value of a DSCP that is a number or has a name. Source: RFC 2474, 2597, 3246, 5865, 8622.
fn dscp_of(name: &str) -> Option<u16> {
    if let Ok(value) = name.parse() {
        return Some(value).filter(|value| *value < 64);
    }
    let upper = name.to_ascii_uppercase();
    match upper.as_str() {
        "DEFAULT" | "BE" => return Some(0),
        "LE" => return Some(1),
        "EF" => return Some(46),
        "VOICE-ADMIT" | "VA" => return Some(44),
        _ => {}
    }
    let digit = |at: usize| upper.get(at..=at)?.parse::<u16>().ok();
    match (upper.get(..2)?, upper.len()) {
        ("CS", 3) => digit(2).filter(|class| *class < 8).map(|class| class * 8),
        ("AF", 4) => digit(2)
            .zip(digit(3))
            .filter(|(class, drop)| (1..=4).contains(class) && (1..=3).contains(drop))
            .map(|(class, drop)| class * 8 + drop * 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MLNX_QOS: &str = "DCBX mode: OS controlled\nPriority trust state: dscp\ndscp2prio mapping:\n\
        \tprio:0 dscp:07,06,05,04,03,02,01,00,\n\tprio:3 dscp:31,30,29,28,27,26,25,24,\n\tprio:6 dscp:48,\n\
        default priority:\nReceive buffer size (bytes): 130944,130944,0,0,0,0,0,0,\nCable len: 7\n\
        PFC configuration:\n\tpriority    0   1   2   3   4   5   6   7\n\
        \tenabled     0   0   0   1   0   0   0   0   \n\tbuffer      0   0   0   1   0   0   0   0   \n\
        tc: 0 ratelimit: unlimited, tsa: vendor\n\t priority:  1\ntc: 3 ratelimit: unlimited, tsa: ets, bw: 50%\n\
        \t priority:  3\n";

    #[test]
    fn every_form_of_the_tools_says_the_same() {
        for text in [
            "pfc 3\ndscp 26 3\ndscp 48 6\n",
            // `dcb pfc show` and `dcb app show`, as text, with numbers, with statistics, on one line, and older.
            "pfc-cap 8 macsec-bypass off delay 0 \nprio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off \n\
             dscp-prio AF31:3 CS6:6 \n",
            "pfc-cap 8 macsec-bypass on delay 4096\nprio-pfc 0:off 3:on\nrequests 0:0 3:217\nindications 0:0 3:179\n\
             ethtype-prio 8906:5\ndscp-prio 26:3 48:6\nstream-port-prio 4420:2\n",
            "pfc-cap 8 prio-pfc 0:off 1:off 2:off 3:on 4:off 5:off 6:off 7:off delay 0\ndscp-prio 26:3 48:6\n",
            "pfc-cap 8 macsec-bypass on delay 0\npg-pfc 0:off 3:on 7:off\ndscp-prio AF31:3 CS6:6\n",
            // With `dcb ets show`, `dcb buffer show` and `dcb apptrust show` beside them.
            "willing off ets-cap 8 cbs off \nprio-tc 0:0 1:1 3:3 5:1 \ntc-tsa 0:strict 3:ets \ntc-bw 0:0 3:50 \n\
             prio-buffer 0:0 3:1 4:1 \nbuffer-size 0:10Kb 1:20Kb total-size 30Kb \nprio-pfc 3:on 4:off \n\
             order dscp pcp \ndscp-prio AF31:3 CS6:6 \n",
            "{\"pfc_cap\":8,\"macsec_bypass\":false,\"delay\":0,\"prio_pfc\":[false,false,false,true,false,false,false,\
             false]}\n{\"dscp_prio\":[[26,3],[48,6]]}\n",
            "[{\"prio_pfc\":[\"off\",\"off\",\"off\",\"on\"],\"dscp_prio\":[[\"AF31\",3],[\"48\",6]]}]",
            "Priority trust state: dscp\ndscp2prio mapping:\nprio:3 dscp:26,\nprio:6 dscp:48,\nPFC configuration:\n\
             priority 0 1 2 3 4 5 6 7\nenabled 0 0 0 1 0 0 0 0\n",
        ] {
            let dcb = parse(text).unwrap_or_else(|| panic!("nothing in {text:?}"));
            let expected = Dcb { pfc_enabled: 0b1000, dscp: vec![(26, 3), (48, 6)], default_priority: 0 };
            assert_eq!(dcb, expected, "{text:?}");
        }
        let dcb = parse(MLNX_QOS).expect("priority flow control");
        assert_eq!((dcb.pfc_priorities(), dcb.priority_of(26), dcb.priority_of(7)), (vec![3], 3, 0));
        assert_eq!(dcb.dscp.len(), 17);
    }

    #[test]
    fn nothing_lossless_is_told_from_nothing_known() {
        for (text, expected) in [
            ("pfc\n", Some(0)),
            ("pfc-cap 8 delay 0\nprio-pfc 0:off 3:off\n", Some(0)),
            ("PFC configuration:\n\tpriority    0   1\n\tenabled     0   0\n", Some(0)),
            ("{\"prio_pfc\":[false,false]}", Some(0)),
            ("pfc 0 7 8 200 x", Some(0b1000_0001)),
            ("dscp-prio AF31:3\n", None),
            ("Attribute read: Operation not supported\n", None),
            ("{\"prio_pfc\":", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|dcb| dcb.pfc_enabled), expected, "{text:?}");
        }
    }

    #[test]
    fn an_interface_that_trusts_the_vlan_tag_gives_untagged_packets_its_default() {
        for text in [
            "Priority trust state: pcp\ndefault priority:\n\tprio:3\nPFC configuration:\n\tenabled 0 0 0 1 0 0 0 0\n",
            "prio-pfc 3:on\ndefault-prio 1 3\norder pcp\ndscp-prio AF31:5\n",
            "{\"prio_pfc\":[false,false,false,true],\"default_prio\":[3],\"order\":[\"pcp\"],\"dscp_prio\":[[26,5]]}",
        ] {
            let dcb = parse(text).expect("priority flow control");
            assert_eq!((dcb.priority_of(26), dcb.dscp.len(), dcb.pfc_priorities()), (3, 0, vec![3]), "{text:?}");
        }
    }

    #[test]
    fn classes_of_service_have_names() {
        for (name, expected) in [
            ("26", Some(26)),
            ("64", None),
            ("default", Some(0)),
            ("CS0", Some(0)),
            ("CS6", Some(48)),
            ("CS8", None),
            ("AF11", Some(10)),
            ("af43", Some(38)),
            ("AF44", None),
            ("AF51", None),
            ("EF", Some(46)),
            ("LE", Some(1)),
            ("ÄF1", None),
            ("", None),
        ] {
            assert_eq!(dscp_of(name), expected, "{name}");
        }
    }
}
