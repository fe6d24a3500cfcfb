#!/usr/bin/env bash
# Brings the lab up, runs its tests against it, and takes it down again whatever happens; once for each kernel.
# usage: scripts/lab-test.sh [6.1] [6.12]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cargo-env.sh

scripts/setup.sh lab
trap 'cargo xtask lab down' EXIT
for kernel in "${@:-6.1}"; do
    # Guests that run already are kept, if they run this kernel.
    cargo xtask lab up --kernel "$kernel" || { cargo xtask lab down && cargo xtask lab up --kernel "$kernel"; }
    # `lab up` and the other checks build the whole workspace with the feature, so these options build nothing again.
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace --features verbs --profile lab --run-ignored only lab::
    else
        cargo test --workspace --features verbs --tests -- --ignored --test-threads=1 lab::
    fi
done
