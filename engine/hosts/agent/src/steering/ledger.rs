//! What an agent knows of its host's QPs and their source ports: who has which, which paths there are to choose from,
//! and what its planner has yet to learn. No clock, no socket.

use std::collections::{BTreeMap, BTreeSet};

use kelpie_paths::leases::{AddressPaths, Lease, Leases, PortHolder};

use super::words::{PlannerRequest, ProgramQp, QPS_OF_ONE_ASK};

/// Most QPs that ports are remembered for. Source: our choice, above the paper's 20,000.
pub const MOST_QPS: usize = 1 << 16;

/// Leases of this host's QPs. A planner that is quick chooses; else the agent does, by the same rules, and says so
/// later.
#[derive(Debug, Default)]
pub struct Ledger {
    leases: Leases,
    /// Chosen here, while the planner may not know it yet.
    chosen: BTreeSet<ProgramQp>,
    /// Gone, while the planner may not know it yet.
    gone: Vec<ProgramQp>,
}

impl Ledger {
    /// Whether no further QP gets a port.
    pub fn is_full(&self) -> bool {
        self.leases.held().len() >= MOST_QPS
    }

    /// Whether a program has half of what there is for all, so that one that lies about its QPs leaves the rest.
    pub fn takes_too_many(&self, process: &str) -> bool {
        let held = self.leases.held();
        held.len() >= MOST_QPS / 2 && held.filter(|(holder, _)| holder.process == process).count() >= MOST_QPS / 2
    }

    /// Whether a QP has a port.
    pub fn has(&self, qp: &ProgramQp) -> bool {
        self.of(qp).is_some()
    }

    /// The paths from now on.
    pub fn set_ways(&mut self, ways: Vec<AddressPaths>) {
        self.leases.set_ways(ways);
    }

    /// Whether there is something to choose between these two.
    pub fn knows(&self, from: &str, to: &str) -> bool {
        self.leases.has_way(from, to)
    }

    /// The planner has granted this.
    pub fn granted(&mut self, qp: &ProgramQp, lease: Lease) {
        self.leases.restore(holder(qp), lease);
        self.chosen.remove(qp);
    }

    /// Chooses a path itself, if one is known.
    pub fn choose(&mut self, qp: &ProgramQp, from: &str, to: &str) -> Option<Lease> {
        let lease = self.leases.grant(&holder(qp), from, to).ok()?;
        self.chosen.insert(qp.clone());
        Some(lease)
    }

    /// These QPs are gone.
    pub fn gone(&mut self, qps: Vec<ProgramQp>) {
        for qp in &qps {
            self.leases.release(&holder(qp));
        }
        self.gone.extend(qps);
        // One that is left out here is found by what the planner holds, when it is there again.
        self.gone.truncate(MOST_QPS);
    }

    /// What the planner has to learn next, if it is to learn something; who cannot say it gives it back.
    pub fn news(&mut self) -> Option<PlannerRequest> {
        // A number that has come again is held by another QP, of which the planner knows or will know.
        while let rest @ 1.. = self.gone.len() {
            let gone = self.gone.split_off(rest.saturating_sub(QPS_OF_ONE_ASK));
            let gone: Vec<ProgramQp> = gone.into_iter().filter(|qp| self.of(qp).is_none()).collect();
            if !gone.is_empty() {
                return Some(PlannerRequest::Gone(gone));
            }
        }
        let mut chosen = std::mem::take(&mut self.chosen);
        if let Some(later) = chosen.iter().nth(QPS_OF_ONE_ASK).cloned() {
            self.chosen = chosen.split_off(&later);
        }
        let chosen = chosen.into_iter();
        let chosen: Vec<(ProgramQp, Lease)> =
            chosen.filter_map(|qp| Some((qp.clone(), self.of(&qp)?.clone()))).collect();
        (!chosen.is_empty()).then_some(PlannerRequest::Has(chosen))
    }

    /// The planner could not be told.
    pub fn untold(&mut self, news: PlannerRequest) {
        match news {
            PlannerRequest::Gone(qps) => self.gone.extend(qps),
            PlannerRequest::Has(chosen) => self.chosen.extend(chosen.into_iter().map(|(qp, _)| qp)),
            _ => {}
        }
    }

    /// Compares with what the planner holds, which may be of this agent's predecessor, whose programs still run, or of
    /// programs that ended while it was away. What it lacks, it has to learn again.
    pub fn compare(&mut self, theirs: Vec<(ProgramQp, Lease)>, is_alive: impl Fn(&str) -> bool) {
        let known: Vec<ProgramQp> = self.qps();
        let held: BTreeSet<&ProgramQp> = theirs.iter().map(|(qp, _)| qp).collect();
        self.chosen.extend(known.iter().filter(|qp| !held.contains(qp)).cloned());
        let mut gone = Vec::new();
        for (qp, lease) in theirs {
            let of_predecessor = !known.iter().any(|own| own.process == qp.process) && is_alive(&qp.process);
            if of_predecessor {
                self.leases.restore(holder(&qp), lease);
            } else if self.of(&qp).is_none() {
                gone.push(qp);
            }
        }
        self.gone(gone);
    }

    /// QPs of processes that are not alive are gone.
    pub fn forget_dead(&mut self, is_alive: impl Fn(&str) -> bool) {
        let mut alive = BTreeMap::new();
        let mut qps = self.qps();
        qps.retain(|qp| !*alive.entry(qp.process.clone()).or_insert_with(|| is_alive(&qp.process)));
        if !qps.is_empty() {
            self.gone(qps);
        }
    }

    fn qps(&self) -> Vec<ProgramQp> {
        self.leases.held().map(|(holder, _)| ProgramQp { process: holder.process.clone(), qp: holder.qp }).collect()
    }

    fn of(&self, qp: &ProgramQp) -> Option<&Lease> {
        self.leases.of(&holder(qp))
    }
}

/// All are of this agent.
fn holder(qp: &ProgramQp) -> PortHolder {
    PortHolder { agent: String::new(), process: qp.process.clone(), qp: qp.qp }
}

#[cfg(test)]
mod tests {
    use kelpie_topology::PortSide;

    use super::*;

    fn qp(qp: u32) -> ProgramQp {
        ProgramQp { process: "7:1".to_owned(), qp }
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        let ports = [vec![50_000, 50_002], vec![50_001]];
        ledger.set_ways(vec![AddressPaths { from: "x".to_owned(), to: "y".to_owned(), ports, first: PortSide::Left }]);
        ledger
    }

    #[test]
    fn it_chooses_both_sides_in_turn_and_says_so_once() {
        let mut ledger = ledger();
        let chosen: Vec<Lease> = (0..4).map(|number| ledger.choose(&qp(number), "x", "y").expect("a port")).collect();
        let sides: Vec<PortSide> = chosen.iter().map(|lease| lease.side).collect();
        assert_eq!(sides, [PortSide::Left, PortSide::Right, PortSide::Left, PortSide::Right]);
        assert_eq!(chosen.iter().map(|lease| lease.source_port).collect::<Vec<_>>(), [50_000, 50_001, 50_002, 50_001]);
        assert!(ledger.choose(&qp(9), "x", "z").is_none() && !ledger.knows("x", "z") && ledger.knows("x", "y"));
        let Some(PlannerRequest::Has(said)) = ledger.news() else { panic!("four are news") };
        assert_eq!(said.len(), 4);
        assert_eq!(ledger.news(), None);
        ledger.untold(PlannerRequest::Has(said));
        ledger.gone(vec![qp(0)]);
        assert_eq!(ledger.news(), Some(PlannerRequest::Gone(vec![qp(0)])));
        assert!(matches!(ledger.news(), Some(PlannerRequest::Has(said)) if said.len() == 3), "one of them is gone");
    }

    #[test]
    fn a_number_that_comes_again_is_not_given_back_for_the_one_before() {
        let mut ledger = ledger();
        let lease = ledger.choose(&qp(1), "x", "y").expect("a port");
        ledger.gone(vec![qp(1)]);
        ledger.granted(&qp(1), lease.clone());
        assert_eq!(ledger.news(), None, "the planner has granted it anew");
        ledger.gone(vec![qp(1)]);
        let said = ledger.news().expect("it is gone");
        ledger.choose(&qp(1), "x", "y").expect("a port");
        ledger.untold(said);
        assert!(matches!(ledger.news(), Some(PlannerRequest::Has(_))), "not given back");
    }

    #[test]
    fn what_a_planner_holds_of_the_dead_is_given_back_and_of_a_predecessor_kept() {
        let mut ledger = ledger();
        let lease = ledger.choose(&qp(1), "x", "y").expect("a port");
        _ = ledger.news();
        let of = |process: &str, number| ProgramQp { process: process.to_owned(), qp: number };
        let theirs = [qp(1), qp(2), of("8:1", 1), of("9:1", 1)].map(|qp| (qp, lease.clone()));
        ledger.compare(theirs.to_vec(), |process| process != "9:1");
        assert_eq!(ledger.news(), Some(PlannerRequest::Gone(vec![qp(2), of("9:1", 1)])));
        ledger.forget_dead(|process| process == "7:1");
        assert_eq!(ledger.news(), Some(PlannerRequest::Gone(vec![of("8:1", 1)])));
        assert!(!ledger.is_full() && ledger.of(&qp(1)).is_some());
    }

    #[test]
    fn a_planner_that_lost_what_it_knew_learns_it_again() {
        let mut ledger = ledger();
        for number in 1..4 {
            assert!(ledger.choose(&qp(number), "x", "y").is_some());
        }
        let Some(PlannerRequest::Has(told)) = ledger.news() else { panic!("it was told nothing") };
        assert_eq!(ledger.news(), None);
        ledger.compare(vec![told[1].clone()], |_| true);
        assert_eq!(ledger.news(), Some(PlannerRequest::Has(vec![told[0].clone(), told[2].clone()])));
    }

    #[test]
    fn a_program_that_claims_qps_without_end_leaves_half_to_others() {
        let mut ledger = ledger();
        let claimed =
            (0..).take_while(|number| !ledger.takes_too_many("7:1") && ledger.choose(&qp(*number), "x", "y").is_some());
        assert_eq!(claimed.count(), MOST_QPS / 2);
        assert!(!ledger.is_full() && !ledger.takes_too_many("8:1"));
    }
}
