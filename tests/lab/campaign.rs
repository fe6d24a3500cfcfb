//! Campaigns on the lab: unattended, stored, and going on after whatever was killed.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Lab, in_lab};
use crate::support::Ran;

/// Experiments of the campaign that is killed; more by `KELPIE_LAB_BUDGET`.
const BUDGET: u64 = 12;

#[test]
#[ignore = "needs the lab"]
fn a_campaign_in_the_lab_by_its_name_is_stored() {
    in_lab(|lab| {
        let args =
            ["campaign", "run", "--subsystem", "lab", "--space", "lab", "--budget", "4", "--db", "lab.db", "--json"];
        let ran = lab.bench.run(&args);
        assert_eq!(ran.status, Some(0), "{ran:?}");
        let shown: Value =
            serde_json::from_str(&lab.bench.expect(0, &["campaign", "show", "--db", "lab.db", "--json"]))
                .expect("one document");
        assert_eq!(shown["experiments"], 4, "{shown}");
        assert_eq!(shown["subsystem"], "lab", "{shown}");
        lab.is_clean();
    });
}

/// A campaign that may be killed.
struct CampaignProcess<'a> {
    lab: &'a Lab,
    child: Child,
}

impl<'a> CampaignProcess<'a> {
    fn start(lab: &'a Lab, args: &[&str]) -> Self {
        let child = lab.bench.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Self { lab, child: child.expect("the binary starts") }
    }

    fn resume(lab: &'a Lab) -> Self {
        // An agent is back within seconds; a guest that was killed is not.
        Self::start(lab, &["campaign", "resume", "1", "--db", "k.db", "--host-patience", "10s"])
    }

    /// Waits until this many experiments are stored, and half a second into the next.
    fn reaches(&mut self, goal: u64) {
        let started = Instant::now();
        while stored(self.lab).is_none_or(|now| now.len() < goal as usize) {
            let ended = self.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "it ended before {goal} experiments: {ended:?}");
            assert!(started.elapsed() < Duration::from_secs(60 + 20 * goal), "{goal} experiments are not reached");
            std::thread::sleep(Duration::from_millis(200));
        }
        std::thread::sleep(Duration::from_millis(500));
    }

    fn ends(self) -> Ran {
        Ran::of(self.child.wait_with_output().expect("it ends"))
    }
}

/// Every stored experiment, whole.
fn stored(lab: &Lab) -> Option<Vec<Value>> {
    let ran = lab.bench.run(&["campaign", "show", "1", "--db", "k.db", "--json", "--experiments"]);
    let shown: Value = serde_json::from_str(&ran.stdout).ok()?;
    shown["log"].as_array().cloned()
}

#[test]
#[ignore = "needs the lab"]
fn a_campaign_survives_the_death_of_controller_agent_and_guest() {
    in_lab(|lab| {
        let budget = std::env::var("KELPIE_LAB_BUDGET").map_or(BUDGET, |text| text.parse().expect("a number"));
        let pair = lab.pair_with("{warm_up_ms: 200, sample_ms: 200, samples: 1}");
        let (words, budget_word) = (["campaign", "run", "--subsystem", pair, "--space", "lab"], budget.to_string());
        let mut before = Vec::new();
        let mut nothing_is_lost = |moment: &str| {
            let now = stored(lab).unwrap_or_else(|| panic!("the database is gone after {moment}"));
            assert!(now.starts_with(&before), "stored experiments differ after {moment}");
            before = now;
        };

        let mut run = CampaignProcess::start(lab, &[&words[..], &["--budget", &budget_word, "--db", "k.db"]].concat());
        run.reaches(budget / 4);
        run.child.kill().expect("it runs");
        run.ends();
        nothing_is_lost("the death of the controller");
        lab.is_clean();

        // The agent is started again by its host: the campaign waits for it and goes on by itself.
        let mut run = CampaignProcess::resume(lab);
        run.reaches(budget / 2);
        lab.in_guest("b", "kill -9 $(cat /run/agent.pid)");
        run.reaches(budget / 2 + 1);
        nothing_is_lost("the death of an agent");

        // A guest is not: the campaign ends and names it.
        let dir = lab.dir.join("a");
        let file =
            |name: &str| std::fs::read_to_string(dir.join(name)).expect("the guest was started").trim().to_owned();
        let killed = Command::new("kill").args(["-9", &file("pid")]).status().expect("kill is there");
        assert!(killed.success());
        lab.has_killed.store(true, Relaxed);
        let ran = run.ends();
        assert_eq!(ran.status, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("host a"), "{ran:?}");
        nothing_is_lost("the death of a guest");
        lab.wait_for("b", "the survivor tears down", |qps, mrs| qps == 1 && mrs == 0);
        // As a user does; the guest that runs stays.
        lab.xtask(&["up", "--kernel", &file("kernel")]);
        lab.has_killed.store(false, Relaxed);

        let ran = CampaignProcess::resume(lab).ends();
        assert_eq!(ran.status, Some(0), "{ran:?}");
        nothing_is_lost("the last resume");
        assert_eq!(before.len() as u64, budget);
        lab.is_clean();
    });
}
