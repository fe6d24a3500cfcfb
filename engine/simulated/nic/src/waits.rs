//! The causes for which work can wait, and the sides on which it waits. The NIC reports how long each wait took.

use kelpie_events::Picos;

/// What work waits for, its own service included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A context that is not there.
    Context,
    /// An entry of a region or a translation.
    Translation,
    /// A send WQE.
    SendWqe,
    /// A receive WQE.
    ReceiveWqe,
    /// A receive WQE of a long chain.
    ReceiveChain,
    /// A page of a long receive ring.
    RingPage,
    /// The list of a READ on its way.
    ReadList,
    /// A processing unit.
    Unit,
    /// The pipeline of both directions.
    Pipeline,
    /// The pipeline, which a command holds.
    Command,
    /// The engine for READ responses.
    Response,
    /// Payload from the memory of this number.
    Gather(u8),
    /// Room in the memory for packets, because QPs in the midst of messages hold much of it.
    Room,
    /// The wire, also while the neighbour asks for silence.
    Wire,
    /// Writes to the memory of this number.
    Write(u8),
    /// Somebody else who changes the same memory.
    Atomic,
    /// READs on their way, as many as may be.
    ReadWindow,
    /// The timer after a NAK that the receiver was not ready.
    NotReady,
    /// Work requests from the driver, because all are sent.
    SendQueue,
}

/// Where work waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// On its way out: a QP, or a burst.
    Send,
    /// On its way in: a burst.
    Receive,
}

/// Since when something waits, and for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub since: Picos,
    pub cause: Cause,
}
