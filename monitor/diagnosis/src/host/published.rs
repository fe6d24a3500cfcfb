//! The three colours of Hostping: all links grey, those of normal paths green, what is grey of abnormal paths red.
//!
//! Source: Hostping (Liu et al., NSDI 2023), "Binary network tomography" of the slides.

use super::paths::{Path, State};

/// The state of each of `links` links by the states of the paths.
pub fn colours(links: usize, paths: &[Path], states: &[State]) -> Vec<State> {
    let mut colours = vec![State::Undecided; links];
    let of = |state| paths.iter().zip(states).filter(move |(_, known)| **known == state).map(|(path, _)| path);
    for path in of(State::Normal) {
        for &link in &path.links {
            colours[link] = State::Normal;
        }
    }
    for path in of(State::Abnormal) {
        for &link in &path.links {
            if colours[link] == State::Undecided {
                colours[link] = State::Abnormal;
            }
        }
    }
    colours
}
