#!/usr/bin/env bash
# Brings the lab up, runs its tests against it, and takes it down again whatever happens.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/cargo-env.sh

cargo xtask lab install
trap 'cargo xtask lab down' EXIT
cargo xtask lab up
if cargo nextest --version >/dev/null 2>&1; then
    KELPIE_LAB=1 cargo nextest run --test main --no-tests=fail lab::
else
    KELPIE_LAB=1 cargo test --test main lab:: -- --test-threads=1
fi
