//! The thread of a host that makes and destroys QPs and MRs beside traffic: which command it posts next. When is in
//! `pair`.

use kelpie_events::Picos;
use kelpie_nic::command::{Command, Object};

/// Objects that its numbers go round. Source: our choice, so that keys of caches stay within their bits.
const NUMBERS: u32 = 1 << 20;

/// A thread that posts one command at a time: what it makes it destroys at once.
#[derive(Debug, Clone)]
pub struct ControlThread {
    /// From one QP, or MR, that is to be made to the next; none if none is.
    periods: [Option<Picos>; 2],
    /// Numbers of QPs and regions that the traffic leaves free.
    first: [u32; 2],
    next: u32,
    /// Whether a QP, or an MR, is due.
    due: [bool; 2],
    /// What the NIC is carrying out.
    posted: Option<Command>,
    /// QPs and MRs that were made and destroyed so far.
    made: [u64; 2],
}

impl ControlThread {
    /// So many QPs and MRs per second; `first` are the numbers from which on QPs and regions are free.
    pub fn new(per_sec: [u64; 2], first: [u32; 2]) -> Self {
        let period = |rate: u64| (rate > 0).then(|| Picos::from_nanos(1e9 / rate as f64));
        Self { periods: per_sec.map(period), first, next: 0, due: [false; 2], posted: None, made: [0; 2] }
    }

    /// From one object of a kind to the next.
    pub fn period(&self, object: Object) -> Option<Picos> {
        self.periods[object as usize]
    }

    /// An object is due; the command to post for it, if none is at work. One that is due still is not made twice.
    pub fn is_due(&mut self, object: Object) -> Option<Command> {
        self.due[object as usize] = true;
        if self.posted.is_some() { None } else { self.begin() }
    }

    /// The command that was posted is carried out; the one to post now.
    pub fn is_done(&mut self) -> Option<Command> {
        let done = self.posted.take()?;
        if done.makes {
            self.posted = Some(Command { makes: false, ..done });
            return self.posted;
        }
        self.made[done.object as usize] += 1;
        self.begin()
    }

    fn begin(&mut self) -> Option<Command> {
        let object = [Object::Qp, Object::Region].into_iter().find(|object| self.due[*object as usize])?;
        self.due[object as usize] = false;
        self.next = (self.next + 1) % NUMBERS;
        self.posted = Some(Command { object, number: self.first[object as usize] + self.next, makes: true });
        self.posted
    }

    /// QPs and MRs that were made and destroyed so far.
    pub fn made(&self) -> [u64; 2] {
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_destroyed_before_the_next_and_nothing_piles_up() {
        let mut thread = ControlThread::new([1000, 0], [7, 9]);
        assert_eq!(
            [Object::Qp, Object::Region].map(|object| thread.period(object)),
            [Some(Picos::from_nanos(1e6)), None]
        );
        let make = Command { object: Object::Qp, number: 8, makes: true };
        assert_eq!(thread.is_due(Object::Qp), Some(make));
        assert_eq!([thread.is_due(Object::Region), thread.is_due(Object::Qp), thread.is_due(Object::Qp)], [None; 3]);
        assert_eq!(thread.is_done(), Some(Command { makes: false, ..make }));
        assert_eq!(thread.is_done(), Some(Command { number: 9, ..make }), "the one that came due meanwhile");
        assert_eq!(thread.is_done().map(|command| command.makes), Some(false));
        assert_eq!(thread.is_done(), Some(Command { object: Object::Region, number: 12, makes: true }));
        assert_eq!((thread.is_done().map(|command| command.makes), thread.is_done()), (Some(false), None));
        assert_eq!((thread.made(), thread.is_done()), ([2, 1], None));
    }
}
