//! A workload in one line, for lists; `yaml` writes all of it.

use std::fmt::Write as _;

use crate::dimensions::TABLE;
use crate::workload::{Flow, Request, Workload};

/// Flows that are named; of more only their number. Source: our choice, because a direction each is what most have.
const MOST_FLOWS: usize = 2;

impl Workload {
    /// What most decides how it behaves, such as `a to b RC WRITE 64KiB, 8 QPs, depth 128, batch 1, MTU 4096`.
    pub fn summary(&self) -> String {
        let mut flows: Vec<String> = self.flows.iter().take(MOST_FLOWS).map(flow).collect();
        if let [one, other] = &self.flows[..]
            && *other == one.mirrored()
        {
            flows = vec![flow(one).replacen(" to ", " and ", 1)];
        }
        if self.flows.len() > MOST_FLOWS {
            let more = self.flows.len() - MOST_FLOWS;
            flows.push(format!("and {more} more flow{}", if more == 1 { "" } else { "s" }));
        }
        flows.join("; ")
    }
}

fn flow(flow: &Flow) -> String {
    let mut operations: Vec<String> = flow.pattern.iter().map(|request| request.op.to_string()).collect();
    operations.sort_unstable();
    operations.dedup();
    let sizes = flow.pattern.iter().map(Request::message);
    let (least, most) = (sizes.clone().min().unwrap_or_default(), sizes.max().unwrap_or_default());
    let mut text = format!("{} to {} {} {} {least}", flow.from, flow.to, flow.qp_type, operations.join("+"));
    if least != most {
        let _ = write!(text, " to {most}");
    }
    let elements = flow.pattern.iter().map(|request| request.sge.len()).max().unwrap_or(0);
    if elements > 1 {
        let _ = write!(text, " of {elements} elements");
    }
    let both = |send: u32, receive: u32| if send == receive { send.to_string() } else { format!("{send}/{receive}") };
    let _ = write!(
        text,
        ", {}, depth {}, batch {}, MTU {}",
        if flow.qps == 1 { "1 QP".to_owned() } else { format!("{} QPs", flow.qps) },
        both(flow.wq_depth.send, flow.wq_depth.recv),
        both(flow.batch.send, flow.batch.recv),
        flow.mtu.bytes()
    );
    let [from, to] = [&flow.memory.from, &flow.memory.to];
    if from.mrs.max(to.mrs) > 1 {
        let _ = write!(text, ", {} MRs of {}", from.mrs.max(to.mrs), from.mr_size.max(to.mr_size));
    }
    for row in TABLE {
        let (Some((get, _)), Some(feature)) = (row.optional(), row.features.first()) else { continue };
        if get(flow) > 0 {
            let _ = write!(text, ", {feature} {}", feature.written(get(flow)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::units::Bytes;
    use crate::workload::{Flow, Host, Workload};

    #[test]
    fn a_workload_fits_on_a_line() {
        let plain = Flow::plain(Host::A, Host::B);
        let mut lists = Flow { qps: 1, ..plain.clone() };
        lists.pattern.push(lists.pattern[0].clone());
        let busy = Flow { inline: Bytes(64), qps_made_per_sec: 2000, ..plain.clone() };
        lists.pattern[0].sge = vec![Bytes(8); 4];
        (lists.wq_depth.recv, lists.memory.to.mrs) = (16, 3);
        for (flows, expected) in [
            (vec![plain.clone()], "a to b RC WRITE 64KiB, 8 QPs, depth 128, batch 1, MTU 4096"),
            (vec![plain.clone(), plain.mirrored()], "a and b RC WRITE 64KiB, 8 QPs, depth 128, batch 1, MTU 4096"),
            (
                vec![lists],
                "a to b RC WRITE 32B to 64KiB of 4 elements, 1 QP, depth 128/16, batch 1, MTU 4096, 3 MRs of 4MiB",
            ),
            (
                vec![busy],
                "a to b RC WRITE 64KiB, 8 QPs, depth 128, batch 1, MTU 4096, inline 64B, qps_made_per_sec 2000",
            ),
        ] {
            assert_eq!(Workload::new(flows).summary(), expected);
        }
        assert!(Workload::new(vec![plain.clone(); 3]).summary().ends_with("; and 1 more flow"));
        assert!(Workload::new(vec![plain; 5]).summary().ends_with("; and 3 more flows"));
    }
}
