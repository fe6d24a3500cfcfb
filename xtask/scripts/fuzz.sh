#!/usr/bin/env bash
# Fuzzes one target for some seconds with the stable compiler: coverage leads the fuzzer, and overflows and debug assertions
# count as faults. What a sanitizer alone would see, this does not; Kelpie's parsers have no unsafe code.
# usage: xtask/scripts/fuzz.sh frames|recipe|host|job [SECONDS]; findings and the corpus are in tests/fuzz/corpus and tests/fuzz/artifacts
set -euo pipefail
cd "$(dirname "$0")/../.."
. xtask/scripts/cargo-env.sh

target=${1:?usage: xtask/scripts/fuzz.sh frames|recipe|host|job [SECONDS]}
seconds=${2:-60}
case $target in
    host | job) feature=diagnosis ;;
    frames | recipe) feature=$target ;;
    *)
        echo "no target $target: write frames, recipe, host or job" >&2
        exit 2
        ;;
esac
# These passes are LLVM's, and the compiler has them on every channel; cargo-fuzz sets the same.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
host=$(rustc -vV | sed -n 's/^host: //p')
# With a target named, build scripts and macros are built without these flags.
RUSTFLAGS="--cfg fuzzing -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1 $coverage" cargo build --quiet --release \
    --manifest-path tests/fuzz/Cargo.toml --target "$host" --no-default-features --features "$feature" --bin "$target"
mkdir -p "tests/fuzz/corpus/$target" "tests/fuzz/artifacts/$target"
"tests/fuzz/target/$host/release/$target" "tests/fuzz/corpus/$target" -artifact_prefix="tests/fuzz/artifacts/$target/" \
    -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
