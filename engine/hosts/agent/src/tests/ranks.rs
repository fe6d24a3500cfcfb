//! A ring over fake hosts: who is connected to whom, what is given of it, and a rank that stops.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use kelpie_collectives::rounds::{RankCluster, Rounds, Transfer};
use kelpie_engine::plan::{GroupId, HostPlan, Role};
use kelpie_engine::rank::{RankJob, RankMessage, RankReading};
use kelpie_engine::verbs_host::{GroupEndpoint, HostError, HostReading, Port, PortReport, QpEndpoint, VerbsHost};

use crate::fake::FakeAgent;
use crate::pair::HostSpec;
use crate::ranks::{AgentRanks, AgentRanksError, DelayedRank, RanksFile};

/// A rank whose messages take a millisecond each, and which stops answering after so many if that is said.
struct FakeRank {
    number: u32,
    ranks: u32,
    stops_after: Option<u32>,
    job: Option<RankJob>,
    is_started: bool,
    given: Mutex<u32>,
}

impl FakeRank {
    fn agents(ranks: u32, stopped: Option<(u32, u32)>) -> Vec<FakeAgent> {
        let rank = |number: u32| {
            let stops_after = stopped.filter(|(rank, _)| *rank == number).map(|(_, after)| after);
            FakeAgent::of(Box::new(Self {
                number,
                ranks,
                stops_after,
                job: None,
                is_started: false,
                given: Mutex::default(),
            }))
        };
        (0..ranks).map(rank).collect()
    }

    fn number_of(rank: u32, role: Role) -> u32 {
        100 * rank + u32::from(role == Role::Responder)
    }
}

impl VerbsHost for FakeRank {
    fn inspect(&mut self, _: &Port) -> Result<PortReport, HostError> {
        Err(HostError::Failed("nobody asks".to_owned()))
    }

    fn set_up(&mut self, _: &Port, _: &HostPlan) -> Result<Vec<GroupEndpoint>, HostError> {
        Err(HostError::Failed("nobody asks".to_owned()))
    }

    fn set_up_rank(&mut self, _: &Port, job: &RankJob) -> Result<Vec<GroupEndpoint>, HostError> {
        self.job = Some(*job);
        let end = |role| GroupEndpoint {
            id: GroupId { flow: 0, role },
            gid: [0; 16],
            lid: 0,
            needs_grh: false,
            reads: 1,
            qps: vec![QpEndpoint { qpn: Self::number_of(self.number, role), psn: 0, mrs: Vec::new() }],
        };
        Ok([Role::Requester, Role::Responder].map(end).into())
    }

    fn connect(&mut self, peers: &[GroupEndpoint]) -> Result<(), HostError> {
        let next = Self::number_of((self.number + 1) % self.ranks, Role::Responder);
        let before = Self::number_of((self.number + self.ranks - 1) % self.ranks, Role::Requester);
        let named: Vec<u32> = peers.iter().flat_map(|peer| &peer.qps).map(|qp| qp.qpn).collect();
        if named == [next, before] { Ok(()) } else { Err(HostError::Failed(format!("{named:?}"))) }
    }

    fn start(&mut self) -> Result<(), HostError> {
        self.is_started = true;
        Ok(())
    }

    fn read_rank(&mut self) -> Result<RankReading, HostError> {
        let job = self.job.expect("it was set up");
        if !self.is_started {
            return Ok(RankReading::default());
        }
        let mut given = self.given.lock().expect("no test panics");
        if self.stops_after.is_some_and(|after| *given >= after) {
            std::thread::sleep(Duration::from_secs(3));
        }
        let all = job.rounds * job.iterations;
        let until = self.stops_after.unwrap_or(all).min(all);
        let moved = |turn: u32| {
            let entered_us = f64::from(job.late_us as u32);
            let begin = entered_us + 1e3 * f64::from(turn);
            let (iteration, round) = (turn / job.rounds, turn % job.rounds);
            RankMessage { iteration, round, entered_us, begin_us: Some(begin), end_us: Some(begin + 1e3) }
        };
        let moved: Vec<RankMessage> = (*given..until).map(moved).collect();
        *given = until;
        // Neighbours of one that stops never come further than it lets them.
        let open = self.stops_after.map(|after| RankMessage { begin_us: None, end_us: None, ..moved_at(job, after) });
        Ok(RankReading { now_us: 0.0, moved, open, is_over: until == all, ..RankReading::default() })
    }

    fn sample(&mut self) -> Result<HostReading, HostError> {
        Err(HostError::Failed("nobody asks".to_owned()))
    }

    fn stop(&mut self, _: Duration) -> Result<HostReading, HostError> {
        Err(HostError::Failed("nobody asks".to_owned()))
    }

    fn recycle(&mut self) {}

    fn tear_down(&mut self) {}
}

fn moved_at(job: RankJob, turn: u32) -> RankMessage {
    RankMessage {
        iteration: turn / job.rounds,
        round: turn % job.rounds,
        entered_us: 0.0,
        begin_us: None,
        end_us: None,
    }
}

fn run(agents: &[FakeAgent], ranks: u32, late: Vec<DelayedRank>) -> (Result<(), AgentRanksError>, Vec<Transfer>) {
    let spec = |agent: &FakeAgent| HostSpec { agent: agent.address.to_string(), port: Port::default() };
    let file = RanksFile { ranks: agents.iter().map(spec).collect(), tls: None, plain: false };
    let mut cluster = AgentRanks {
        file,
        pause: Duration::from_millis(1),
        late,
        patience: Duration::from_millis(1500),
        qps: 1,
        balance: None,
        say: |_| (),
    };
    let mut given = Vec::new();
    let done = cluster.run(&Rounds::ring_all_reduce(ranks, 4096, 5), &mut |transfer| given.push(transfer));
    (done, given)
}

#[test]
fn a_ring_is_closed_and_everything_that_moved_is_given() {
    let agents = FakeRank::agents(4, None);
    let late = DelayedRank { rank: 2, by_us: 777, from_iteration: 1 };
    let (done, given) = run(&agents, 4, vec![late]);
    done.expect("all answer");
    assert_eq!(given.len(), 4 * 6 * 5);
    assert!(given.iter().all(|one| one.to == (one.from + 1) % 4 && one.bytes == 1024));
    let took = |one: &Transfer| one.end.expect("done") - one.begin.expect("done");
    assert!(given.iter().all(|one| (took(one) - 1e3).abs() < 1e-3));
    let first = |rank: u32| given.iter().find(|one| one.from == rank).expect("it moved").entered.expect("it came");
    assert!(first(2) - first(1) >= 777.0, "who was to be late, and by the job's clock");
    // A job that is no ring, or of another size, is refused.
    let (refused, _) = run(&agents[..3], 4, Vec::new());
    assert!(matches!(refused, Err(AgentRanksError::Job(_))));
}

#[test]
fn a_rank_that_stops_is_waited_for_no_longer_than_the_patience() {
    let agents = FakeRank::agents(3, Some((1, 7)));
    let started = Instant::now();
    let (done, given) = run(&agents, 3, Vec::new());
    done.expect("a rank that stops is no error");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let of = |rank: u32| given.iter().filter(|one| one.from == rank && one.end.is_some()).count();
    assert_eq!([of(0), of(1), of(2)], [20, 7, 20]);
    let open: Vec<&Transfer> = given.iter().filter(|one| one.end.is_none()).collect();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].from, open[0].iteration, open[0].round), (1, 1, 3));
    assert!(given.last().is_some_and(|last| last.end.is_none()), "what is open comes last");
}
