#!/usr/bin/env bash
# Brings the lab up, runs its tests against it, and takes it down again whatever happens.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cargo-env.sh

cargo xtask lab install
trap 'cargo xtask lab down' EXIT
cargo xtask lab up
# With the feature that `lab up` built the binary with, so that it is not built again.
if cargo nextest --version >/dev/null 2>&1; then
    KELPIE_LAB=1 cargo nextest run --features verbs --test main --no-tests=fail lab::
else
    KELPIE_LAB=1 cargo test --features verbs --test main lab:: -- --test-threads=1
fi
