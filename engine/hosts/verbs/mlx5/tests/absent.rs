//! A process without libmlx5.

#![cfg(feature = "verbs")]

use kelpie_mlx5::{LagRefusal, leave_by};

#[test]
fn without_the_library_a_qp_is_left_alone() {
    // SAFETY: without the library the QP is not looked at.
    let refused = unsafe { leave_by(std::ptr::null_mut(), 1) };
    assert_eq!(refused, Err(LagRefusal::NoCall));
}
