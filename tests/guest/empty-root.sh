#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The two commands of the README in an empty root of Debian, with nothing but apt: makes the root,
# clones this repository into it, runs scripts/setup.sh and `make build`, and says how long each took.
#
#   tests/guest/empty-root.sh [SUITE [MAKE-TARGET...]]     by default bookworm and build
#
# Needs root, mmdebstrap and a mirror (MIRROR, SECURITY_MIRROR); about 3 GiB below TMPDIR. Takes some
# minutes on two idle cores. CARGO_HOME_CACHE names a directory with a crate registry to share.
#
# Exit status: 0 done, or skipped with the reason; 1 something failed.

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH

suite=${1-bookworm}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- build
mirror=${MIRROR:-http://deb.debian.org/debian}
security=${SECURITY_MIRROR:-http://deb.debian.org/debian-security}

skip() {
    printf 'skipped: %s\n' "$*"
    exit 0
}

[ "$(id -u)" -eq 0 ] || skip "an empty root needs root"
command -v mmdebstrap >/dev/null 2>&1 || skip "no mmdebstrap here"

# What is mounted in the root goes with this namespace.
if [ -z "${FOREREAD_EMPTY_ROOT-}" ]; then
    FOREREAD_EMPTY_ROOT=inside unshare --mount "$0" "$suite" "$@" && exit 0 || exit $?
fi
source=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
work=$(mktemp -d)
root=$work/root
trap 'umount -R "$root/proc" "$root/sys" "$root/dev" 2>/dev/null || true
      rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM

now() { date +%s; }
started=$(now)

# Says how long a step took.
step() {
    printf 'empty-root: %s: %s took %s s\n' "$suite" "$1" $(($(now) - started))
    started=$(now)
}

mkdir "$root"
mmdebstrap --quiet --variant=minbase --include=git,ca-certificates --format=directory "$suite" "$root" \
    "deb $mirror $suite main" "deb $security $suite-security main" \
    || skip "mmdebstrap could not make a root of $suite"
step "the empty root"
for mount in proc sys dev; do
    mount --rbind /$mount "$root/$mount"
    mount --make-rslave "$root/$mount"
done
cp /etc/resolv.conf "$root/etc/" 2>/dev/null || true
git -c safe.directory='*' clone --quiet --no-hardlinks "$source" "$root/foreread"

inside() {
    chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root TERM=dumb ${CARGO_BUILD_JOBS+"CARGO_BUILD_JOBS=$CARGO_BUILD_JOBS"} \
        sh -c 'cd /foreread && exec "$@"' sh "$@"
}

inside scripts/setup.sh build >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
step "scripts/setup.sh build"
# Once more: with everything in place it must do nothing.
inside scripts/setup.sh build >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ ! -s "$work/log" ] || { echo "empty-root: the second scripts/setup.sh build was not quiet:"; cat "$work/log"; exit 1; }
for target in "$@"; do
    inside make "$target" >"$work/log" 2>&1 || { tail -n 60 "$work/log"; exit 1; }
    step "make $target"
    grep -A 40 '^test: skipped' "$work/log" || true
done
inside target/release/foreread --version
inside target/release/foreread run --quiet -- true
step "foreread run"
