//! What lies on the way of a flow beyond the cables and the switch: it loses packets and takes time, as netem does.

use kelpie_events::Picos;
use kelpie_nic::packet::Burst;
use kelpie_switch::Link;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

use crate::rings::Rings;

/// Parts of a whole. Source: the unit of `loss_ppm`.
const MILLION: u32 = 1_000_000;

/// What became of a burst.
#[derive(Debug)]
pub enum Passed {
    /// It is gone.
    Lost,
    /// It comes out then.
    Late(Picos),
    /// It goes on at once.
    Through(Burst),
}

/// The part of the way that begins at a host. It tells the flows apart by the QPs that their packets go to.
#[derive(Debug)]
pub struct PathPart {
    /// For each flow what is lost, of a million packets, and what is under way.
    flows: Vec<(u32, Link<Burst>)>,
    random: Pcg32,
}

impl PathPart {
    /// The parts of both directions; none if no flow has one. Equal seeds give equal losses.
    pub fn both(rings: &Rings, seed: u64) -> Option<[Self; 2]> {
        let flows: Vec<(u32, Picos)> =
            rings.flows.iter().map(|flow| (flow.loss_ppm, Picos::from_nanos(flow.path_delay_ns.into()))).collect();
        let first = rings.hosts()[0].index() as u64;
        let part = |host: u64| Self {
            flows: flows.iter().map(|(loss, delay)| (*loss, Link::new(*delay))).collect(),
            random: Pcg32::seed_from_u64(seed ^ (host ^ first) << 32),
        };
        flows.iter().any(|flow| *flow != (0, Picos::ZERO)).then(|| [part(0), part(1)])
    }

    /// A burst of a flow comes. It is lost as a whole or not at all, so that the share of packets is as asked and
    /// losses are bursty.
    pub fn pass(&mut self, now: Picos, flow: u32, burst: Burst) -> Passed {
        let (loss, link) = &mut self.flows[flow as usize];
        if *loss > 0 && self.random.random_range(0..MILLION) < *loss {
            return Passed::Lost;
        }
        if link.delay() == Picos::ZERO {
            return Passed::Through(burst);
        }
        Passed::Late(link.send(now, burst))
    }

    /// A burst comes out: the one of its flow that came in first.
    pub fn is_through(&mut self, flow: u32) -> Option<Burst> {
        self.flows[flow as usize].1.arrive()
    }
}
