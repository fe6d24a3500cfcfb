#!/usr/bin/env bash
# Brings labs up, runs their tests against them, and takes them down again whatever happens: the pair, then the lab of two
# ports behind a leaf.
# usage: xtask/scripts/lab-test.sh [short | long | emulated]
#   short      what `make test` runs: ten workloads, a campaign with kills, paths against captures (the default)
#   long       all tests, but for the one that needs NUMA, which user-mode Linux does not have
#   emulated   all tests on emulated guests, the pair's with both of Debian's kernels
set -euo pipefail
cd "$(dirname "$0")/../.."
. xtask/scripts/cargo-env.sh

suite=${1:-short}
case $suite in
    short | long) xtask/scripts/setup.sh lab ;;
    emulated) xtask/scripts/setup.sh emulated ;;
    *) echo "usage: xtask/scripts/lab-test.sh [short | long | emulated]" >&2; exit 2 ;;
esac

down() { cargo xtask lab down; cargo xtask lab down --dual-port; }
trap down EXIT

# Tests of a profile of nextest whose names contain one of the words, if there are some. `lab up` and the other checks
# build the whole workspace with the feature, so these options build nothing again.
tests() {
    local profile=$1
    shift
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace --features verbs --profile "$profile" --run-ignored only "$@"
    else
        cargo test --workspace --features verbs --test main -- --ignored --test-threads=1 "${@:-$(modules "$profile")}"
    fi
}
modules() { if [ "$1" = lab ]; then echo lab::; else echo two_ports::; fi; }

# Brings up one lab, which has the machine for itself.
up() {
    down
    cargo xtask lab up "$@"
}

# Emulated guests stall at times while they boot.
up_emulated() { up "$@" --emulated || up "$@" --emulated; }

case $suite in
    short)
        up
        tests lab ten_workloads survives_the_death
        up --dual-port
        tests dual-port the_catalog_agrees qps_leave_a_slow_port
        ;;
    long)
        up
        tests lab
        up --dual-port
        tests dual-port balance:: checks:: probing:: ring:: steering::
        up --dual-port --hosts 4
        tests dual-port fleet::
        ;;
    emulated)
        for kernel in 6.1 6.12; do
            up_emulated --kernel "$kernel"
            tests lab
        done
        up_emulated --dual-port
        tests dual-port
        ;;
esac
