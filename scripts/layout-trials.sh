#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Tries to make `layout apply` lose a byte, for as long as its promises say: docs/layout.md has what
# came of it. Needs root. Each argument is a trial; without one, all of them:
#
#   power-cuts          1,000 power cuts under the kernel of this machine
#   power-cuts=KERNEL   the same in a guest (a name of tests/guest/kernels.list)
#   races               files that others change meanwhile, for an hour
#   kills               SIGKILL at 1,000 moments of a pass
#
# FOREREAD_POWER_CUTS, FOREREAD_RACE_SECONDS and FOREREAD_KILLS change how many and how long.

set -eu

PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:/usr/sbin:/sbin"
export PATH
cd -- "$(dirname -- "$0")/.."

cuts=${FOREREAD_POWER_CUTS:-1000}
if [ $# -eq 0 ]; then
    set -- power-cuts races kills
    while read -r kernel _; do
        case $kernel in '' | '#'*) ;; *) set -- "$@" "power-cuts=$kernel" ;; esac
    done <tests/guest/kernels.list
fi

# Prints the program that holds the tests of file $2 in package $1.
test_program() {
    cargo test --locked --no-run --package "$1" --test "$2" 2>&1 |
        sed -n "s|.*Executable tests/.* (\(.*\))|\1|p"
}

failed=""
for trial in "$@"; do
    echo "trial: $trial"
    begun=$(date +%s)
    case $trial in
    power-cuts)
        FOREREAD_POWER_CUTS=$cuts "$(test_program foreread-linux-layout power_cuts)" --show-output
        ;;
    power-cuts=*)
        program=$(test_program foreread-linux-layout power_cuts)
        cargo build --locked --package foreread-guest
        # 1,000 cuts take 50 minutes in a guest without KVM.
        target/debug/foreread-guests run --kernel "${trial#*=}" --file "$program" \
            --memory 3000 --time-limit 14400 - <<-SCRIPT
			modprobe loop; modprobe fuse
			mkdir -p /run/foreread-testbed
			uname -r
			FOREREAD_POWER_CUTS=$cuts ./${program##*/} --show-output
		SCRIPT
        ;;
    races)
        FOREREAD_RACE_SECONDS=${FOREREAD_RACE_SECONDS:-3600} \
            "$(test_program foreread-linux-layout races)" --show-output
        ;;
    kills)
        FOREREAD_KILLS=${FOREREAD_KILLS:-1000} \
            "$(test_program foreread layout)" --show-output a_kill_at_any_time
        ;;
    *)
        echo "layout-trials: no trial is called $trial; the head of $0 has them" >&2
        exit 2
        ;;
    esac || failed="$failed $trial"
    echo "trial: $trial took $(($(date +%s) - begun)) s"
done
[ -z "$failed" ] || {
    echo "layout-trials: failed:$failed" >&2
    exit 1
}
