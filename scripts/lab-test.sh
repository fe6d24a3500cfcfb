#!/usr/bin/env bash
# Brings a lab up, runs its tests against it, and takes it down again whatever happens; once for each kernel, and for the
# lab of two ports behind a leaf if it is named.
# usage: scripts/lab-test.sh [6.1] [6.12] [dual-port]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cargo-env.sh

scripts/setup.sh lab
trap 'cargo xtask lab down; cargo xtask lab down --dual-port' EXIT
[ $# -gt 0 ] || set -- 6.1

# `lab up` and the other checks build the whole workspace with the feature, so these options build nothing again.
tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace --features verbs --profile "$1" --run-ignored only "$2::"
    else
        cargo test --workspace --features verbs --tests -- --ignored --test-threads=1 "$2::"
    fi
}

for lab in "$@"; do
    if [ "$lab" = dual-port ]; then
        # One lab at a time has the machine.
        cargo xtask lab down
        cargo xtask lab up --dual-port || { cargo xtask lab down --dual-port && cargo xtask lab up --dual-port; }
        tests dual-port two_ports
    else
        # Guests that run already are kept, if they run this kernel.
        cargo xtask lab up --kernel "$lab" || { cargo xtask lab down && cargo xtask lab up --kernel "$lab"; }
        tests lab lab
    fi
done
