#!/usr/bin/env bash
# Brings a lab up, runs its tests against it, and takes it down again whatever happens; once for each kernel, and for the
# lab of two ports behind a leaf: all of its tests, or those of probing and steering, which `make test` has.
# usage: scripts/lab-test.sh [6.1] [6.12] [dual-port | dual-port-paths]; without arguments 6.1 and dual-port-paths
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cargo-env.sh

scripts/setup.sh lab
trap 'cargo xtask lab down; cargo xtask lab down --dual-port' EXIT
[ $# -gt 0 ] || set -- 6.1 dual-port-paths

# `lab up` and the other checks build the whole workspace with the feature, so these options build nothing again.
tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace --features verbs --profile "$1" --run-ignored only "${@:2}"
    else
        cargo test --workspace --features verbs --tests -- --ignored --test-threads=1 "${@:2}"
    fi
}

dual_port() {
    # One lab at a time has the machine.
    cargo xtask lab down
    cargo xtask lab up --dual-port || { cargo xtask lab down --dual-port && cargo xtask lab up --dual-port; }
    tests dual-port "$@"
}

for lab in "$@"; do
    case $lab in
        dual-port) dual_port two_ports:: ;;
        dual-port-paths) dual_port two_ports::probing two_ports::steering ;;
        *)
            # Guests that run already are kept, if they run this kernel. The tests compare the clocks of two guests.
            up=(cargo xtask lab up --kernel "$lab" --clock machine)
            "${up[@]}" || { cargo xtask lab down && "${up[@]}"; }
            tests lab lab::
            ;;
    esac
done
