#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the fuzz targets and runs each of them for FUZZ_SECONDS (60), one on each processor.
# Prints a line for each target: executions, size of the corpus, crashes. Fails if one crashed.
#
#   FUZZ_TARGETS="mountinfo watch_log"   only these
#   FUZZ_SECONDS=3600                    for an hour each
#   FUZZ_SEED=1                          the same inputs in each run, as many as there is time for
#
# The toolchain is the stable one: the compiler's pass that counts coverage needs no nightly
# features. Most crates forbid unsafe code, so no address sanitizer is needed; overflows panic.
#
# Inputs that reach new code go to fuzz/corpus, inputs that crash to fuzz/artifacts. A target run
# with the path of such an input runs that input once.

set -euo pipefail

PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export PATH
cd -- "$(dirname -- "$0")/.."

seconds=${FUZZ_SECONDS:-60}
case $seconds in
'' | *[!0-9]* | 0)
    echo "fuzz: FUZZ_SECONDS is '$seconds'; give a number of seconds" >&2
    exit 2
    ;;
esac
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-fuzz/target}
programs=$target/$host/release

mapfile -t all < <(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v '^foreread-fuzz$')
read -r -a names <<<"${FUZZ_TARGETS:-${all[*]}}"
for name in "${names[@]}"; do
    if [ ! -f "fuzz/fuzz_targets/$name.rs" ]; then
        echo "fuzz: there is no target $name; there are: ${all[*]}" >&2
        exit 2
    fi
done

# As `cargo fuzz` sets them, but for the sanitizer. With --target they are not used for build
# scripts and macros.
export CARGO_ENCODED_RUSTFLAGS
CARGO_ENCODED_RUSTFLAGS=$(printf '%s\x1f' --cfg=fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares)
CARGO_ENCODED_RUSTFLAGS+=-Cdebug-assertions
bins=()
for name in "${names[@]}"; do bins+=(--bin "$name"); done
cargo build --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$target" --release \
    --locked "${bins[@]}"

# The directories with inputs of a target that are kept in the repository.
seeds_of() {
    case $1 in
    profile_decode) echo tests/profiles/corpus ;;
    blkparse_text) echo tests/blktrace ;;
    watch_log) echo tests/logs ;;
    watch_settings) echo packaging ;;
    sim_trace | trace_*) echo tests/traces tests/traces/corpus ;;
    esac
    [ ! -d "fuzz/seeds/$1" ] || echo "fuzz/seeds/$1"
}

# The longest input of a target: an ext4 file system needs more than a text. A record of oracleGeneral has
# 24 bytes, and up to 4 GiB that are counted in pieces: with 4,096 bytes there were 3 executions a second.
bytes_max_of() {
    case $1 in
    ext4_survey) echo 16384 ;;
    trace_oracle) echo 480 ;;
    *) echo 4096 ;;
    esac
}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run() {
    local name=$1 status=0 corpus=fuzz/corpus/$1 seeds
    read -r -a seeds <<<"$(seeds_of "$name" | tr '\n' ' ')"
    mkdir -p "$corpus" fuzz/artifacts
    "$programs/$name" "$corpus" "${seeds[@]}" -artifact_prefix="fuzz/artifacts/$name-" \
        -max_total_time="$seconds" -seed="${FUZZ_SEED:-0}" -max_len="$(bytes_max_of "$name")" -timeout=60 \
        -rss_limit_mb=1024 -print_final_stats=1 >"$logs/$name" 2>&1 || status=$?
    local done
    done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name")
    printf '%-16s %12s executions %6s inputs kept  %s\n' "$name" "${done:-?}" \
        "$(find "$corpus" -type f | wc -l)" "$([ "$status" -eq 0 ] && echo ok || echo CRASHED)"
    [ "$status" -eq 0 ] || : >"$logs/$name.crashed"
}

# A shell of its own, whose time is that of the targets alone: what the build took is no fuzzing.
(
    for name in "${names[@]}"; do
        while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || :; done
        run "$name" &
    done
    wait
    # The first line is this shell's own, the second that of all that it has waited for. In a pipe,
    # `times` would be run by another shell, which had none.
    times >"$logs/times"
)
spent="processor time $(sed -n '2s/ / user, /p' "$logs/times") system"
crashed=("$logs"/*.crashed)
if [ -e "${crashed[0]}" ]; then
    for log in "${crashed[@]%.crashed}"; do
        echo "fuzz: ${log##*/}:"
        grep -E -m 8 -A 3 'panicked at|^==.*ERROR|Test unit written' "$log" | sed 's/^/  /'
    done
    echo "fuzz: ${#crashed[@]} of ${#names[@]} targets crashed; inputs are in fuzz/artifacts; $spent" >&2
    exit 1
fi
echo "fuzz: no crash in ${#names[@]} targets of $seconds s; $spent"
