#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# `foreread kernel` with the real module. Runs as root in the guest; `foreread` and foreread.ko lie
# beside it, and DISK is an empty disk.
#
# Exit status: 0 all held; 1 something did not, each with a line.

set -u

failed=0
wrong() {
    echo "kernel: $*"
    failed=1
}

# Runs foreread kernel with these arguments; its output goes to /tmp/said.
kernel() {
    ./foreread kernel "$@" >/tmp/said 2>&1
}

# The last output has this.
said() {
    grep -qF -e "$1" /tmp/said || wrong "not said: $1; but: $(cat /tmp/said)"
}

# It ends with status $1.
ends_with() {
    wanted=$1
    shift
    kernel "$@"
    status=$?
    [ $status -eq "$wanted" ] || wrong "\`kernel $*\` ended with $status: $(cat /tmp/said)"
}

disk=${DISK:?a disk}
name=$(basename "$disk")
mkfs.ext4 -q "$disk"
mkdir -p /mnt/data
mount "$disk" /mnt/data
# More than what the first windows hold.
dd if=/dev/urandom of=/mnt/data/file bs=1M count=64 2>/dev/null
sync

ends_with 1 status
ends_with 2 load "$name"
said "kernel install"

# As `kernel install` would have put it there; the guest has no compiler.
updates=/lib/modules/$(uname -r)/updates
mkdir -p "$updates"
cp foreread.ko "$updates/"
depmod

ends_with 1 status
said "kernel load"
ends_with 2 load no-such-disk
ends_with 2 load "$name" --policy no-such
said "it has: off, linux"
[ ! -d /sys/kernel/foreread ] || wrong "a wrong policy leaves the module loaded"

# By name, and by mount point: the file system has the number of its disk.
ends_with 0 load "$name" --policy foreread
ends_with 0 status
said "foreread"
echo 3 >/proc/sys/vm/drop_caches
cat /mnt/data/file >/dev/null
./foreread kernel status --json >/tmp/status.json || wrong "no document"
pages=$(sed -n 's/.*"fetched_pages": *\([0-9]*\).*/\1/p' /tmp/status.json | sort -n | tail -n 1)
[ "${pages:-0}" -gt 1000 ] || wrong "a read of 16,384 pages was not read ahead of: $(cat /tmp/status.json)"
# `stat` has the same counts.
./foreread stat --module --device "$name" --json >/tmp/stat.json || wrong "stat --module fails"
counted=$(sed -n 's/.*"since_load":{"fetched_pages":\([0-9]*\),.*/\1/p' /tmp/stat.json)
[ "$counted" = "$pages" ] || wrong "stat --module has other counts: $(cat /tmp/stat.json)"
./foreread stat --module
./foreread kernel status
ends_with 0 set /mnt/data --policy leap --window-max 256K --read-by issue
folder=/sys/kernel/foreread/devices/$(mountpoint -d /mnt/data)
[ "$(cat "$folder/policy") $(cat "$folder/pages_max") $(cat "$folder/act")" = "leap 64 issue" ] \
    || wrong "set to leap, 64 pages and issue: $(cat "$folder"/policy "$folder"/pages_max "$folder"/act)"
ends_with 0 set --all --policy linux
[ "$(cat /sys/kernel/foreread/devices/default/policy)" = linux ] || wrong "the default was not set"
ends_with 0 load "$name" --policy foreread
said "loaded already"

ends_with 0 unload --json
said '"was_loaded": true'
[ ! -d /sys/kernel/foreread ] || wrong "unload leaves it loaded"
ends_with 1 unload
ends_with 0 load
ends_with 0 unload

[ $failed -eq 0 ] || exit 1
echo "kernel: passed"
