//! How work goes through the pipeline: at once or in its turn, and what is done then. Whose turn it is lives in
//! `pipeline`.

use kelpie_events::Picos;

use crate::nic::{Event, Nic, Outside};
use crate::pipeline::Claim;
use crate::waits::Side;

impl Nic {
    /// Takes work through the pipeline, at once or in its turn.
    pub(crate) fn pass_pipeline(&mut self, now: Picos, side: Side, claim: Claim, out: &mut impl Outside) {
        match self.pipeline.claim(now, side, claim) {
            Some(piped) => self.passes(side, claim, piped, out),
            None => self.kick_pipeline(now, out),
        }
    }

    /// The pipeline takes the next of those that wait.
    pub(crate) fn go_through(&mut self, now: Picos, out: &mut impl Outside) {
        if let Some((side, claim, piped)) = self.pipeline.next(now) {
            self.passes(side, claim, piped, out);
        }
        self.kick_pipeline(now, out);
    }

    fn kick_pipeline(&mut self, now: Picos, out: &mut impl Outside) {
        if let Some(time) = self.pipeline.is_due() {
            out.at(time.max(now), Event::Pipeline);
        }
    }

    /// Work passes the pipeline, and is done when all else is, too.
    fn passes(&self, side: Side, claim: Claim, piped: Picos, out: &mut impl Outside) {
        let done = claim.ready.max(piped);
        let cause = if done == claim.ready { claim.cause } else { self.pipeline.cause(claim.since) };
        out.waited(side, cause, claim.qp, done - claim.since);
        match side {
            Side::Send => out.at(done, Event::Worked(claim.id)),
            Side::Receive => out.at(done, Event::Processed(claim.id)),
        }
    }
}
