#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Finds out which pages of a built foreread its `run` and its `boot serve` touch, and writes them into
# it, so that a cold start reads these in one pass and little else (crates/sys/src/start_pages.rs).
#
#   scripts/start-pages.sh target/release/foreread
#
# The program is copied to a file system on a loop device that reads nothing ahead, so that only
# what is touched gets into the page cache. There it records and replays a small program, and a
# boot in which that program is all that reads. Needs root for the loop devices; without it the
# program is left as it is, which costs only speed. Run again after each build.
#
# Exit status: 0 done, or not possible here (one line says why); 1 the program can't be measured.

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH

section=.foreread.start

skip() {
    printf 'start-pages: skipped: %s\n' "$*" >&2
    exit 0
}

fail() {
    printf 'start-pages: %s\n' "$*" >&2
    exit 1
}

program=${1-}
[ -f "$program" ] || fail "usage: scripts/start-pages.sh PROGRAM"
[ "$(id -u)" -eq 0 ] || skip "finding the pages of a start needs root"
for tool in losetup mke2fs readelf mount; do
    command -v $tool >/dev/null 2>&1 || skip "no $tool here"
done

# Offset and length of the section in the file, in bytes.
place=$(readelf -SW "$program" | sed -n "s/.* $section  *PROGBITS  *[0-9a-f]*  *\([0-9a-f]*\)  *\([0-9a-f]*\) .*/\1 \2/p")
[ -n "$place" ] || fail "$program has no section $section"
offset=$((0x${place% *}))
length=$((0x${place#* }))

# A namespace of its own: what is mounted here is seen by nobody else, and goes with the script.
if [ -z "${FOREREAD_START_PAGES-}" ]; then
    FOREREAD_START_PAGES=inside unshare --mount "$0" "$@" && exit 0 || exit $?
fi

work=$(mktemp -d)
devices=""
server=""
clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    umount "$work/program" "$work/files" 2>/dev/null || true
    for device in $devices; do losetup -d "$device" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

# Makes and mounts a file system of $2 MiB as $work/$1, on a loop device that reads $3 KiB ahead.
file_system() {
    truncate -s "$2M" "$work/$1.img"
    mke2fs -q -F -t ext4 "$work/$1.img" || return 1
    device=$(losetup -f --show "$work/$1.img" 2>/dev/null) || return 1
    devices="$devices $device"
    echo "$3" >"/sys/block/${device#/dev/}/queue/read_ahead_kb" 2>/dev/null || return 1
    mkdir "$work/$1"
    mount "$device" "$work/$1" 2>/dev/null || return 1
}
# Room for the program and for what ext4 keeps for itself.
program_mib=$(($(stat -L -c %s "$program") * 5 / 4 / 1048576 + 16))
file_system program $program_mib 0 && program_device=$device && file_system files 16 128 && files_device=$device \
    || skip "no loop device can be set up and mounted here"

# As it comes, without what an earlier pass has marked.
copy=$work/program/foreread
cp "$program" "$copy"
dd if=/dev/zero of="$copy" bs=1 seek=$offset count=$length conv=notrunc status=none
mkdir "$work/files/tree"
# So many that their profile is compressed by all means of zstd.
for number in $(seq 1000); do
    echo "$number" >"$work/files/tree/$number"
done

# The command of each run first notes what of the program is cached by then.
command="$(realpath "$program") package start-pages $copy $work/until_command
cat $work/files/tree/*"

# Waits until no process executes the copy: what a run still does when its command has ended is done in the background.
until_ended() {
    tries=200
    while readlink /proc/[0-9]*/exe 2>/dev/null | grep -qxF "$copy"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "$program does not end"
        sleep 0.1
    done
}

# Nothing of $work/$1, which lies on the device $2, is cached any more.
make_cold() {
    umount "$work/$1"
    mount "$2" "$work/$1"
}

# Recorded, replayed twice, and with all that the command reads in the page cache.
for run in 1 2 3 4; do
    make_cold program "$program_device"
    [ $run -gt 3 ] || make_cold files "$files_device"
    FOREREAD_STATE_DIR=$work/state "$copy" run --quiet -- sh -c "$command" >/dev/null \
        || fail "$program run does not work"
    [ $run -gt 1 ] || mv "$work/until_command" "$work/without_profile"
    until_ended
    "$program" package start-pages "$copy" "$work/at_all"
done

# A boot that is recorded, and one that is replayed: this kernel's command line says so.
for word in record replay; do
    make_cold program "$program_device"
    make_cold files "$files_device"
    echo "foreread.boot=$word" >"$work/command_line"
    if ! mount --bind "$work/command_line" /proc/cmdline 2>/dev/null; then
        # A container may forbid that. Then a boot is taken for a run.
        cp "$work/at_all" "$work/boot_pages"
        break
    fi
    : >"$work/said"
    FOREREAD_STATE_DIR=$work/boot "$copy" boot serve --idle 0 --reached "$work/reached" --lock "$work/lock" \
        2>"$work/said" &
    server=$!
    tries=200
    until grep -q "this boot is ${word}ed" "$work/said"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "$program boot serve does not work: $(cat "$work/said")"
        sleep 0.05
    done
    cat "$work"/files/tree/* >/dev/null
    # Its recorder is attached by then, and its replay has been done.
    sleep 1
    "$program" package start-pages "$copy" "$work/boot_pages"
    touch "$work/reached"
    wait $server || fail "$program boot serve failed: $(cat "$work/said")"
    server=""
    umount /proc/cmdline
    rm "$work/reached"
    # The next one is another boot.
    sed -i "s/$(cat /proc/sys/kernel/random/boot_id)/00000000-0000-4000-8000-000000000000/" \
        "$work/boot/boot/history.json"
done

cat "$work/until_command" "$work/without_profile" "$work/at_all" "$work/boot_pages" >"$work/bitmaps"
[ "$(wc -c <"$work/bitmaps")" -eq $length ] || fail "$program is of another version than this script"
dd if="$work/bitmaps" of="$program" bs=1 seek=$offset conv=notrunc status=none 2>/dev/null \
    || skip "$program can't be written to: is it running?"

# The KiB that a bitmap stands for.
kib() {
    od -An -v -tx1 "$1" | tr -d ' \n' | awk '{
        split("0 1 1 2 1 2 2 3 1 2 2 3 2 3 3 4", bits)
        for (i = 1; i <= length($0); i++) pages += bits[index("0123456789abcdef", substr($0, i, 1))]
        print pages * 4
    }'
}
printf 'start-pages: %s touches %s KiB of itself until the command starts, recording %s KiB, %s KiB in all; in a boot %s KiB\n' \
    "$program" "$(kib "$work/until_command")" "$(kib "$work/without_profile")" "$(kib "$work/at_all")" \
    "$(kib "$work/boot_pages")"
