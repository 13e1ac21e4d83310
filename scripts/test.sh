#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs every test of the workspace and ends with the tests that were skipped, each with its reason.
#
# A test that can't run here prints `skipped: REASON` and returns. The test harness would count it
# as passed and hide the line, so all output is asked for, kept in a log, and searched at the end.
#
# TEST_ROOT=sudo runs the test programs (not the build) as root.
# TEST_SKIPS=tests/skips.list fails when a test is skipped that this list does not have.

set -euo pipefail

PATH="$PATH:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export PATH
cd -- "$(dirname -- "$0")/.."

target=${CARGO_TARGET_DIR:-target}
log=$target/test.log
mkdir -p "$target"

if [ -n "${TEST_ROOT-}" ]; then
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${host}_RUNNER=$TEST_ROOT -E"
elif [ "$(id -u)" -ne 0 ]; then
    echo "test: not root: tests of real devices will be skipped (TEST_ROOT=sudo make test runs them)"
fi

# Drops what passed tests printed; keeps results and what failed tests printed.
results() {
    awk '/^successes:$/ { quiet = 1 } /^(failures:|test result:)/ { quiet = 0 } !quiet'
}

# Prints "  PROGRAM TEST: REASON" for every skip in the log. The heading `---- TEST stdout ----` comes
# before what a test printed; a child process may print outside of one.
skips() {
    awk '
        /^ +Running .*\)$/ { program = $NF; gsub(/^.*\/|-[0-9a-f]+\)$/, "", program) }
        /^---- .* stdout ----$/ { test = " " $2 }
        /^(successes:|failures:|test result:|running )/ { test = "" }
        sub(/^(test .* \.\.\. )?skipped: /, "") { print "  " program test ": " $0 }
    ' "$log" | sort -u
}

# Prints which tests ran again, since a watcher lost a race on busy processors (`testbed::race`).
races() {
    sed -n 's/^\(test .* \.\.\. \)\{0,1\}raced again: /  /p' "$log" | sort | uniq -c
}

# Prints what failed tests said, with the program before it. The results of a whole suite are long,
# and who reads a log from its end, or is shown its end only, sees the cause.
failures() {
    awk '
        /^ +Running .*\)$/ { program = $NF; gsub(/^.*\/|-[0-9a-f]+\)$/, "", program) }
        /^ +Doc-tests / { program = "doc-tests of " $2 }
        /^failures:$/ { told = !told; if (told) print "test: failed in " program ":" ; next }
        /^test result:/ { told = 0 }
        told { print }
    ' "$log"
}

# Tests that compute for long, start many short commands, or wait for servers that hang, and need no
# device for themselves. They run beside the others, which mostly wait for devices: on two cores that
# takes some minutes less.
beside=(portable smoke module faults_calls faults_signals dead_servers supervising killed)

# Names of all test programs but those.
others() {
    for file in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
        name=$(basename "${file%/main.rs}" .rs)
        [[ " ${beside[*]} " == *" $name "* ]] || echo "$name"
    done | sort -u
}

# `cargo test` of the workspace with these arguments; nobody needs to see more of it than results.
tests() {
    cargo test --workspace --locked --no-fail-fast "$@" -- --show-output 2>&1
}

status=0
if [ $# -gt 0 ]; then
    tests "$@" | tee "$log" | results || status=$?
else
    # Both would wait for each other if they built.
    cargo test --workspace --locked --no-run
    mapfile -t names < <(others)
    { tests "${beside[@]/#/--test=}" && tests --doc; } >"$log.beside" &
    pid=$!
    tests --lib --bins "${names[@]/#/--test=}" | tee "$log" | results || status=$?
    wait "$pid" || status=$?
    results <"$log.beside"
    cat "$log.beside" >>"$log"
    rm "$log.beside"
fi

echo
skipped=$(skips)
if ! cargo clippy --version >/dev/null 2>&1; then
    skipped="  lint clippy: this Rust toolchain has none${skipped:+$'\n'$skipped}"
fi
if [ -n "$skipped" ]; then
    echo "test: skipped on this machine ($(wc -l <<<"$skipped")):"
    echo "$skipped"
else
    echo "test: none skipped"
fi
raced=$(races)
if [ -n "$raced" ]; then
    echo "test: ran again on busy processors, so often:"
    echo "$raced"
fi
unlisted=
if [ -n "${TEST_SKIPS-}" ] && [ -n "$skipped" ]; then
    unlisted=$(scripts/unlisted-skips.sh "$TEST_SKIPS" <<<"$skipped")
fi
if [ "$status" -ne 0 ]; then
    failures
    echo "test: FAILED; all output is in $log" >&2
    exit 1
fi
if [ -n "$unlisted" ]; then
    echo "test: FAILED; skipped, and not in $TEST_SKIPS:" >&2
    sed 's/^/  /' <<<"$unlisted" >&2
    exit 1
fi
echo "test: passed"
