//! A link: what is on its way from one end to the other. What it takes to put something on it is in `wire`.

use std::collections::VecDeque;

use kelpie_events::Picos;

/// One way of a link. All that is on it takes equally long, so that it arrives in the order in which it was sent.
#[derive(Debug, Clone)]
pub struct Link<P> {
    delay: Picos,
    under_way: VecDeque<P>,
}

impl<P> Link<P> {
    /// A link with nothing on it.
    pub fn new(delay: Picos) -> Self {
        Self { delay, under_way: VecDeque::new() }
    }

    /// From one end to the other.
    #[inline]
    pub fn delay(&self) -> Picos {
        self.delay
    }

    /// Something begins its way; says when [`Link::arrive`] is due.
    #[inline]
    pub fn send(&mut self, now: Picos, packet: P) -> Picos {
        self.under_way.push_back(packet);
        now + self.delay
    }

    /// What has come to the other end: the first that was sent.
    #[inline]
    pub fn arrive(&mut self) -> Option<P> {
        self.under_way.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_arrives_once_in_order_and_after_the_delay() {
        let mut link = Link::new(Picos::new(300));
        let due: Vec<Picos> = (0..3).map(|number| link.send(Picos::new(10 * number), number)).collect();
        assert_eq!(due, [300, 310, 320].map(Picos::new));
        assert_eq!([(); 4].map(|()| link.arrive()), [Some(0), Some(1), Some(2), None]);
    }
}
