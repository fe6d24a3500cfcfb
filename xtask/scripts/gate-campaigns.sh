#!/usr/bin/env bash
# Runs thirty short campaigns of A to H with the gate, and says where it was not red exactly if an experiment was
# anomalous; then each again with its own baseline, which has to be green.
# usage: [KELPIE=binary] xtask/scripts/gate-campaigns.sh [first seed]
set -euo pipefail
kelpie=${KELPIE:-}
if [ -n "$kelpie" ]; then
    kelpie=$(realpath "$kelpie")
fi
cd "$(dirname "$0")/../.."
if [ -z "$kelpie" ]; then
    . xtask/scripts/cargo-env.sh
    cargo build --release
    kelpie=$PWD/target/release/kelpie
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
first=${1:-5000}
models=(A B C D E F G H)
wrong=0 red=0
for number in $(seq 0 29); do
    subsystem=sim:${models[number % 8]}
    space=full
    if [ $((number / 8 % 2)) = 1 ]; then space=rpc-library; fi
    run=(campaign run -s "$subsystem" --space "$space" --budget $((100 + number % 3 * 100)) --seed $((first + number))
        --gate --quiet --db "$number.db")
    status=0
    "$kelpie" "${run[@]}" >shown.txt || status=$?
    anomalous=$("$kelpie" campaign show --experiments --json --db "$number.db" |
        { grep -o '"verdict": *"anomalous"' || true; } | wc -l)
    "$kelpie" campaign baseline --unexplained --out "$number.yaml" --db "$number.db" >shown.txt
    again=0
    "$kelpie" "${run[@]}" --gate-baseline "$number.yaml" >shown.txt || again=$?
    expected=0
    if [ "$anomalous" -gt 0 ]; then expected=1; fi
    red=$((red + (status == 1)))
    verdict=right
    if [ $status != $expected ] || [ $again != 0 ]; then
        verdict=WRONG
        wrong=$((wrong + 1))
    fi
    echo "$subsystem $space: $anomalous anomalous, exit $status, with its baseline $again: $verdict"
done
echo "30 campaigns, $red red, $wrong wrong"
[ "$wrong" = 0 ]
