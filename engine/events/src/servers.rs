//! Servers that are busy until a time: one by itself, and equal ones side by side.

use crate::time::Picos;

/// A first-come, first-served server.
#[derive(Debug, Clone, Default)]
pub struct Server {
    free: Picos,
    /// Time spent serving.
    pub busy: Picos,
}

impl Server {
    /// Serves for `span` from `now` or from when the work before is done; says when it is done.
    #[inline]
    pub fn serve(&mut self, now: Picos, span: Picos) -> Picos {
        self.free = self.free.max(now) + span;
        self.busy += span;
        self.free
    }

    /// Keeps the server from serving again before `time`, without counting it as busy.
    #[inline]
    pub fn hold_until(&mut self, time: Picos) {
        self.free = self.free.max(time);
    }

    /// When the work so far is done.
    #[inline]
    pub fn free(&self) -> Picos {
        self.free
    }
}

/// Equal servers side by side, such as the misses that a cache can have in flight.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    free: Vec<Picos>,
    /// Time spent serving, over all servers.
    pub busy: Picos,
}

impl Pool {
    /// `servers` of them.
    pub fn new(servers: u32) -> Self {
        Self { free: vec![Picos::ZERO; servers as usize], busy: Picos::ZERO }
    }

    /// Servers in the pool.
    #[inline]
    pub fn servers(&self) -> u64 {
        self.free.len() as u64
    }

    /// Time that a server spent serving, in the mean.
    pub fn mean_busy(&self) -> Picos {
        self.busy / self.servers()
    }

    /// Whether a server is idle at `now`.
    #[inline]
    pub fn is_idle(&self, now: Picos) -> bool {
        self.free.iter().any(|free| *free <= now)
    }

    /// Serves on the server that is free first; says when it is done.
    #[inline]
    pub fn serve(&mut self, now: Picos, span: Picos) -> Picos {
        let first = self.free.iter_mut().min().expect("a pool has at least one server");
        *first = (*first).max(now) + span;
        self.busy += span;
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(picos: u64) -> Picos {
        Picos::new(picos)
    }

    #[test]
    fn a_server_serves_one_after_the_other() {
        let mut server = Server::default();
        assert_eq!(server.serve(at(10), at(5)), at(15));
        assert_eq!(server.serve(at(11), at(5)), at(20));
        assert_eq!(server.serve(at(30), at(5)), at(35));
        assert_eq!(server.busy, at(15));
        server.hold_until(at(50));
        assert_eq!((server.serve(at(36), at(1)), server.busy), (at(51), at(16)));
    }

    #[test]
    fn a_pool_serves_side_by_side() {
        let mut pool = Pool::new(2);
        assert_eq!(pool.serve(at(0), at(10)), at(10));
        assert_eq!(pool.serve(at(0), at(10)), at(10));
        assert!(!pool.is_idle(at(5)));
        assert_eq!(pool.serve(at(0), at(10)), at(20));
        assert_eq!((pool.servers(), pool.mean_busy()), (2, at(15)));
    }
}
