//! What a path that loses packets leaves of a rate, whatever the NIC: the rest is up to the hardware.

use kelpie_spaces::{Flow, QpType};

use crate::measurement::Bounds;

/// Parts of a whole. Source: the unit of `loss_ppm`.
const MILLION: f64 = 1e6;

/// Share of the packets of a flow that are lost, each way.
pub(crate) fn loss(flow: &Flow) -> f64 {
    f64::from(flow.loss_ppm) / MILLION
}

/// A round trip of a flow. Units: seconds.
pub(crate) fn round_trip(flow: &Flow, base_rtt: f64) -> f64 {
    base_rtt + 2e-9 * f64::from(flow.path_delay_ns)
}

/// Share of its rate that a flow can carry at best over its path.
///
/// A reliable connection sends all packets of a round trip again for each that is lost (go-back-N): 1 / (1 + p W), with
/// as many packets W of a QP on their way as its share of the line and its queue allow. A message without reliability
/// ends at its first lost packet. Source: Bertsekas and Gallager, Data Networks, section 2.4.
pub(crate) fn carried(flow: &Flow, bounds: &Bounds, base_rtt: f64) -> f64 {
    let lost = loss(flow);
    if lost == 0.0 {
        return 1.0;
    }
    let requests = flow.pattern.len().max(1) as f64;
    let mtu = flow.mtu.bytes();
    let packets = flow.pattern.iter().map(|request| request.message().0.div_ceil(mtu).max(1)).sum::<u64>() as f64;
    let of_message = packets / requests;
    if flow.qp_type == QpType::Rc {
        let bytes: u64 = flow.pattern.iter().map(|request| request.message().0).sum();
        let line = bounds.max_pps.min(bounds.max_bps / 8.0 / (bytes as f64 / packets).max(1.0));
        let of_qp = line * round_trip(flow, base_rtt) / f64::from(flow.qps.max(1));
        let on_their_way = of_qp.clamp(1.0, (f64::from(flow.wq_depth.send) * of_message).max(1.0));
        return (1.0 - lost) / (1.0 + lost * on_their_way);
    }
    // The mean over the packets of a message of the share of messages that have come so far.
    let stays = 1.0 - lost;
    stays * (1.0 - stays.powf(of_message)) / (of_message * lost)
}

#[cfg(test)]
mod tests {
    use kelpie_spaces::{Bytes, Host, Mtu, Opcode, Request};

    use super::*;

    #[test]
    fn what_is_carried_falls_with_loss_with_the_round_trip_and_with_the_length_of_messages() {
        let bounds = Bounds { base_rtt_seconds: Some(5e-6), ..Bounds::new(100e9, 100e6) };
        let flow = |qp_type, message, loss_ppm, path_delay_ns| Flow {
            qp_type,
            qps: 1,
            mtu: Mtu::try_from(1024).expect("an MTU"),
            pattern: vec![Request { op: Opcode::Write, sge: vec![Bytes(message)] }],
            loss_ppm,
            path_delay_ns,
            ..Flow::plain(Host::A, Host::B)
        };
        let carried = |flow: Flow| carried(&flow, &bounds, 5e-6);
        assert_eq!(carried(flow(QpType::Rc, 1024, 0, 50_000)).to_bits(), 1.0_f64.to_bits());
        // 61 packets of 1 KiB are on their way in 5 us, 128 at most in a queue of 128.
        for (delay, on_their_way) in [(0, 61.0), (50_000, 128.0)] {
            let share = carried(flow(QpType::Rc, 1024, 10_000, delay));
            assert!((share - 0.99 / (1.0 + 0.01 * on_their_way)).abs() < 2e-3, "{delay}: {share}");
        }
        assert!((carried(flow(QpType::Ud, 1024, 10_000, 0)) - 0.99).abs() < 1e-9);
        let long = carried(flow(QpType::Uc, 1 << 20, 10_000, 0));
        assert!((long - 0.99 / 10.24).abs() < 1e-3, "a hundred of 1,024 packets come before the first is lost: {long}");
    }
}
