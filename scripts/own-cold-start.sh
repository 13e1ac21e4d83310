#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# How much `foreread run` reads from disk for itself before the command starts.
#
#   scripts/own-cold-start.sh [PROGRAM]     by default target/release/foreread
#
# Program and libraries are copied to an empty ext4 on a loop device with the kernel's default
# readahead of 128 KiB; before each run it is mounted anew, so that nothing of it is cached. The
# kernel's trace events tell what the device was asked for until the command was executed; what is
# read beside the command doesn't count. Needs root, and tracefs. What the C library and the dynamic
# linker come to is said too: on a running machine these are in memory.
#
# The copy is stripped, and marked by scripts/start-pages.sh as an installed program is; START_PAGES
# names another program for that, or `true` for a copy that is marked already.
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
events=""
clean_up() {
    [ -z "$events" ] || rmdir "$events" || true
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
number=$(tr : , <"/sys/block/${device#/dev/}/dev")
[ -d /sys/kernel/tracing/instances ] || mount -t tracefs none /sys/kernel/tracing || fail "no tracefs"
mkdir "/sys/kernel/tracing/instances/own-cold-start-$$" || fail "no trace events"
events=/sys/kernel/tracing/instances/own-cold-start-$$
echo 4096 >"$events/buffer_size_kb"
echo 1 >"$events/events/block/block_rq_issue/enable"
echo 1 >"$events/events/sched/sched_process_exec/enable"
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
if command -v strip >/dev/null 2>&1; then strip "$root/bin/foreread"; fi
"${START_PAGES-$(dirname -- "$0")/start-pages.sh}" "$root/bin/foreread"
umount "$root"

# Requests of the device and their sectors, until the command was executed:
#     foreread-123 [000] d..2. 12.3: block_rq_issue: 7,0 RA 4096 () 776 + 8 none,0,0 [foreread]
#     cat-124 [001] ..... 12.4: sched_process_exec: filename=/fast/cat pid=124 old_pid=124
reads() {
    awk -v number="$number" '
        / sched_process_exec: filename=\/fast\/cat / { executed = 1; exit }
        / block_rq_issue: / {
            for (at = 1; $at != "block_rq_issue:"; at++) continue
            if ($(at + 1) != number || $(at + 2) !~ /R/) next
            for (; $at != "+"; at++) continue
            requests++
            sectors += $(at + 1)
        }
        END {
            if (!executed) exit 1
            print requests + 0, sectors + 0
        }' "$events/trace"
}

# The resident KiB of files.
resident() {
    for file in "$@"; do
        fincore --bytes --noheadings --output RES "$file"
    done | awk '{ bytes += $1 } END { print int(bytes / 1024) }'
}

# Runs `foreread run` cold.
measure() {
    mount "$device" "$root"
    for mount in proc sys dev; do mount --rbind /$mount "$root/$mount"; done
    mount -t tmpfs none "$root/fast"
    cp -L "$(command -v cat)" "$root/fast/cat"
    echo >"$events/trace"
    FOREREAD_STATE_DIR=/state chroot "$root" /bin/foreread run --quiet -- /fast/cat /dev/null \
        || fail "$program run does not work"
    counted=$(reads) || fail "the trace events don't show the command"
    # shellcheck disable=SC2086
    set -- $counted
    requests=$1 kib=$(($2 / 2))
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
    # A copy of foreread saves the profile while the command has ended already.
    tries=50
    until umount -R "$root" 2>/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "$root stays in use"
        sleep 0.1
    done
}

printf 'read before the command starts, by a program of %s KiB:\n' "$(($(stat -c %s "$program") / 1024))"
name="without a profile" && measure
name="with a profile" && measure
name="again" && measure
