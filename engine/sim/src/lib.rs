//! The simulated subsystem: a mechanistic discrete-event model of two hosts and a lossless switch.
