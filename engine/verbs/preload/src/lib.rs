//! `libkelpie_preload.so`: preloaded into a verbs program by `kelpie trace`, it takes the place of some functions of
//! libibverbs and writes down what passes. What is written is decided in `kelpie-trace`.
//!
//! Posting is inlined into the program from `verbs.h`, through function pointers of a context or a QP; so these
//! pointers are exchanged when the program gets hold of the object (`contexts`, `extended`). Everything else is a
//! symbol that the dynamic linker finds here first (`exports`), or that a program which opens libibverbs by itself asks
//! for (`next`).

#[cfg(feature = "verbs")]
mod addresses;
#[cfg(feature = "verbs")]
mod contexts;
#[cfg(feature = "verbs")]
mod exports;
#[cfg(feature = "verbs")]
mod extended;
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
