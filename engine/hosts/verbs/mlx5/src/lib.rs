//! The calls of mlx5 devices that verbs do not have, for the engine's QPs and for those of programs that are steered.

#[cfg(feature = "verbs")]
mod lag;

#[cfg(feature = "verbs")]
pub use lag::{LagRefusal, leave_by, leave_from};
