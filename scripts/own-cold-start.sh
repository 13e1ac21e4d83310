#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# How much `foreread run` reads from disk for itself before the command starts.
#
#   scripts/own-cold-start.sh [PROGRAM]     by default target/release/foreread
#
# Program and libraries are copied to an empty ext4 on a loop device with the kernel's default
# readahead of 128 KiB; before each run it is mounted anew, so that nothing of it is cached. The
# command is a static counter of what the device has read by then. Needs root. What the C library and
# the dynamic linker come to is said too: on a running machine these are in memory.
#
# Run scripts/start-pages.sh on a stripped copy of the program first to measure what gets installed.
#
# Exit status: 0 measured; 1 not possible, with one line that says why.

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH

fail() {
    printf 'own-cold-start: %s\n' "$*" >&2
    exit 1
}

program=${1-target/release/foreread}
[ -x "$program" ] || fail "no $program: run make build"
[ "$(id -u)" -eq 0 ] || fail "needs root, for a loop device"
if [ -z "${FOREREAD_OWN_COLD_START-}" ]; then
    FOREREAD_OWN_COLD_START=inside unshare --mount "$0" "$@" && exit 0 || exit $?
fi

work=$(mktemp -d)
root=$work/root
device=""
clean_up() {
    umount -R "$root" 2>/dev/null || true
    [ -z "$device" ] || losetup -d "$device" || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

truncate -s 128M "$work/image"
mke2fs -q -F -t ext4 "$work/image"
device=$(losetup --direct-io=on -f --show "$work/image" 2>/dev/null || losetup -f --show "$work/image") \
    || fail "no loop device"
echo 128 >"/sys/block/${device#/dev/}/queue/read_ahead_kb"
statistics=/sys/block/${device#/dev/}/stat
mkdir "$root"
mount "$device" "$root"
libraries=$(ldd "$program" | grep -o '/[^ ]*')
for library in $libraries; do
    mkdir -p "$root/$(dirname "$library")"
    cp -L "$library" "$root/$library"
done
mkdir -p "$root/bin" "$root/state" "$root/fast"
for mount in proc sys dev; do mkdir "$root/$mount"; done
cp "$program" "$root/bin/foreread"
strip "$root/bin/foreread"
"$(dirname -- "$0")/start-pages.sh" "$root/bin/foreread"
umount "$root"

reads() {
    awk '{ print $1, $3 }' "$1"
}

# The resident KiB of files.
resident() {
    for file in "$@"; do
        fincore --bytes --noheadings --output RES "$file"
    done | awk '{ bytes += $1 } END { print int(bytes / 1024) }'
}

# Runs `foreread run` cold, with a command that prints what the device has read when it starts.
measure() {
    mount "$device" "$root"
    for mount in proc sys dev; do mount --rbind /$mount "$root/$mount"; done
    mount -t tmpfs none "$root/fast"
    cp -L "$(command -v cat)" "$root/fast/cat"
    before=$(reads "$statistics")
    FOREREAD_STATE_DIR=/state chroot "$root" /bin/foreread run --quiet -- /fast/cat "$statistics" \
        >"$work/statistics" || fail "$program run does not work"
    # shellcheck disable=SC2086
    set -- $before $(reads "$work/statistics")
    requests=$(($3 - $1)) kib=$((($4 - $2) / 2))
    common=""
    for library in $libraries; do
        case $library in
        */libc.so.* | */ld-linux*) common="$common $root/$library" ;;
        esac
    done
    # shellcheck disable=SC2086
    common_kib=$(resident $common)
    printf '%-18s %5d KiB in %3d requests; without C library and dynamic linker %5d KiB\n' \
        "$name:" "$kib" "$requests" $((kib - common_kib))
    umount -R "$root"
}

printf 'read before the command starts, by a program of %s KiB:\n' "$(($(stat -c %s "$program") / 1024))"
name="without a profile" && measure
name="with a profile" && measure
name="again" && measure
