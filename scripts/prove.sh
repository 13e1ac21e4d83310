#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Proves that no input makes the policy core overflow, divide by zero, shift too far or reach
# outside of its arguments: Frama-C's Eva on fuzz/core/prove.c, with relations between variables
# (octagons), because sums and differences here are guarded by comparisons. Installs frama-c-base by apt when
# it is missing (600 MB). Fails when there is an alarm.

set -eu

cd -- "$(dirname -- "$0")/.."

if ! command -v frama-c >/dev/null 2>&1; then
    echo "prove: installs frama-c-base by apt"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends frama-c-base \
        </dev/null
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
frama-c -c11 -machdep gcc_x86_64 -cpp-extra-args='-Icore' \
    -warn-unsigned-overflow -warn-unsigned-downcast \
    -eva -eva-domains octagon -eva-precision 4 -main prove fuzz/core/prove.c >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
}
sed -n '/====== ANALYSIS SUMMARY ======/,$p' "$log"
grep '\[eva:alarm\]' "$log" >&2 || true
if ! grep -q 'No alarm\|^  0 alarms' "$log"; then
    echo "prove: there are alarms" >&2
    exit 1
fi
echo "prove: no run-time error is possible"
