//! The three colours of Hostping: all links grey, those of normal paths green, what is grey of abnormal paths red.
//!
//! Source: Hostping (Liu et al., NSDI 2023), "Binary network tomography" of the slides.

use super::paths::{LoopbackPath, PathState};

/// The state of each of `links` links by the states of the paths.
pub fn colours(links: usize, paths: &[LoopbackPath], states: &[PathState]) -> Vec<PathState> {
    let mut colours = vec![PathState::Undecided; links];
    let of = |state| paths.iter().zip(states).filter(move |(_, known)| **known == state).map(|(path, _)| path);
    for path in of(PathState::Normal) {
        for &link in &path.links {
            colours[link] = PathState::Normal;
        }
    }
    for path in of(PathState::Abnormal) {
        for &link in &path.links {
            if colours[link] == PathState::Undecided {
                colours[link] = PathState::Abnormal;
            }
        }
    }
    colours
}
