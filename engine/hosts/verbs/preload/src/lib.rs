//! `libkelpie_preload.so`: `kelpie trace` preloads it into a verbs program, where it replaces some functions of
//! libibverbs and records their calls. `kelpie-trace` decides what is recorded. `kelpie paths steer` preloads it to
//! give QPs source ports (`steer`).
//!
//! Posting is inlined into the program from `verbs.h`, through function pointers of a context or a QP; so these
//! pointers are exchanged when the program gets hold of the object (`contexts`, `extended`). Everything else is a
//! symbol that the dynamic linker finds here first (`exports`), or that a program which opens libibverbs by itself asks
//! for (`next`).
//!
//! The program must never notice: what it posts is copied before, because it is the program's again afterwards; pages
//! of the record have their room on the disk before they are touched; and whatever fails ends the recording alone.

#[cfg(feature = "verbs")]
mod addresses;
#[cfg(feature = "verbs")]
mod contexts;
#[cfg(feature = "verbs")]
mod copies;
#[cfg(feature = "verbs")]
mod exports;
#[cfg(feature = "verbs")]
mod extended;
#[cfg(feature = "verbs")]
mod lock;
#[cfg(feature = "verbs")]
mod memory;
#[cfg(feature = "verbs")]
mod next;
#[cfg(feature = "verbs")]
mod pointers;
#[cfg(feature = "verbs")]
mod post;
#[cfg(feature = "verbs")]
mod state;
#[cfg(feature = "verbs")]
mod steer;
