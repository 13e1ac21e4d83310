# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
#
# Commands that every script of a guest has.

# Notes the counters of all disks under a name: one line a disk on the control port.
point() {
    for stat in /sys/block/*/stat; do
        kernel_name=${stat%/stat}
        kernel_name=${kernel_name##*/}
        case $kernel_name in
        ram* | nbd*) continue ;;
        # Only one that has a file.
        loop*) [ -d "/sys/block/$kernel_name/loop" ] || continue ;;
        esac
        disk_name=$(cat "/sys/block/$kernel_name/serial" 2>/dev/null \
            || cat "/sys/block/$kernel_name/device/serial" 2>/dev/null || true)
        # shellcheck disable=SC2046
        echo counters "$1" ${disk_name:-$kernel_name} $(cat "$stat") >/dev/ttyS2
    done
    # Disks in virtual time: what the model counted.
    models=/sys/module/foreread_disk/parameters/counters
    [ ! -e "$models" ] || sed "s/^/model $1 /" "$models" >/dev/ttyS2
}

# Prints the device of the disk with this name.
disk() {
    for link in "/dev/disk/by-id/virtio-$1" /dev/disk/by-id/nvme-*_"$1"; do
        [ ! -e "$link" ] || { readlink -f "$link"; return 0; }
    done
    for serial in /sys/block/fr*/serial; do
        if [ -e "$serial" ] && [ "$(cat "$serial")" = "$1" ]; then
            serial=${serial%/serial}
            echo "/dev/${serial##*/}"
            return 0
        fi
    done
    echo "no disk $1" >&2
    return 1
}

# Empties the page cache and the caches of names and inodes.
drop_caches() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}
