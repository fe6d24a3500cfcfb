//! A server that is busy until a time.

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
}
