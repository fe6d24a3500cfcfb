//! Connections of whoever has not yet said who it is: how many there may be, and which of them goes for a new one.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::lease::locked;

/// How many there may be.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// In all.
    pub all: usize,
    /// Of one address.
    pub of_one: usize,
}

/// A waiting room. It never refuses: a newcomer takes the place of the one that has been there the longest, of its own
/// address if that has many, else of the address with the most. So no address can keep another one out.
#[derive(Debug)]
pub struct Strangers {
    room: ConnectionLimits,
    /// The longest there first.
    waiting: Mutex<VecDeque<WaitingConnection>>,
}

#[derive(Debug)]
struct WaitingConnection {
    address: IpAddr,
    sent_away: Arc<Notify>,
}

/// A place in the room, given back with the value.
#[derive(Debug)]
pub struct Stranger<'a> {
    room: &'a Strangers,
    sent_away: Arc<Notify>,
}

impl Strangers {
    /// Nobody yet.
    pub fn new(room: ConnectionLimits) -> Self {
        Self { room, waiting: Mutex::default() }
    }

    /// Lets one in.
    pub fn admit(&self, address: IpAddr) -> Stranger<'_> {
        // Addresses of IPv6 are handed out by the network.
        let address = match address.to_canonical() {
            IpAddr::V6(long) => IpAddr::V6((long.to_bits() & !u128::from(u64::MAX)).into()),
            short @ IpAddr::V4(_) => short,
        };
        let mut waiting = locked(&self.waiting);
        let count = |wanted: IpAddr| waiting.iter().filter(|one| one.address == wanted).count();
        let crowded = if count(address) >= self.room.of_one {
            Some(address)
        } else if waiting.len() >= self.room.all {
            waiting.iter().map(|one| one.address).max_by_key(|one| count(*one))
        } else {
            None
        };
        if let Some(index) = crowded.and_then(|crowded| waiting.iter().position(|one| one.address == crowded))
            && let Some(gone) = waiting.remove(index)
        {
            gone.sent_away.notify_one();
        }
        let sent_away = Arc::new(Notify::new());
        waiting.push_back(WaitingConnection { address, sent_away: Arc::clone(&sent_away) });
        Stranger { room: self, sent_away }
    }
}

impl Stranger<'_> {
    /// Comes back once its place is another's.
    pub async fn sent_away(&self) {
        self.sent_away.notified().await;
    }
}

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        locked(&self.room.waiting).retain(|one| !Arc::ptr_eq(&one.sent_away, &self.sent_away));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_in_crowds_sends_its_own_away() {
        let strangers = Strangers::new(ConnectionLimits { all: 4, of_one: 3 });
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut places: Vec<_> = [1, 1, 2, 1, 1, 3].map(|last| Some(strangers.admit(address(last)))).into();
        let there = || locked(&strangers.waiting).iter().map(|one| one.address).collect::<Vec<_>>();
        // The fourth of 10.0.0.1 took the place of its first, and 10.0.0.3 that of its second.
        assert_eq!(there(), [2, 1, 1, 3].map(address));
        places[3] = None;
        assert_eq!(there(), [2, 1, 3].map(address));
        drop(places);
        assert!(there().is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_stranger() {
        let strangers = Strangers::new(ConnectionLimits { all: 9, of_one: 1 });
        let _one = strangers.admit("2001:db8::1".parse().expect("an address"));
        let _other = strangers.admit("2001:db8::2".parse().expect("an address"));
        assert_eq!(locked(&strangers.waiting).len(), 1);
    }
}
