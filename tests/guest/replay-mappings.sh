#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# What a replay fetches on each kind of block device: one line each, with the requests that a cold
# grep makes at the lowest disk, alone and in its first and second run under foreread.
#
#   replay-mappings.sh [MAPPING...]     beside it: foreread; for bcache also make-bcache
#
# Runs as root in a guest with an empty disk named "data" of 2 GiB. Everything on it is overwritten.
# Exit status: 0 when each second run made fewer requests than grep alone, or on memory fetched
# something; 1 otherwise.

set -u
here=$PWD
foreread=$here/foreread
[ "$#" -gt 0 ] || set -- plain linear striped mirror crypt thin raid0 raid1 loop zram brd pmem nbd bcache nvme
data=$(readlink -f /dev/disk/by-id/virtio-data) || data=
part_sectors=$((700 * 2048))
failed=0

skip() {
    printf '%-8s skipped: %s\n' "$mapping" "$1"
    return 1
}

module() { modprobe -q "$1" || skip "this kernel has no $1"; }

# Its first 4 MiB are zeroed before, so that nobody assembles what lay there before.
part() { # NAME START_SECTOR
    dd if=/dev/zero of="$data" bs=1M seek=$(($2 / 2048)) count=4 conv=fsync,notrunc status=none
    dmsetup create "$1" --table "0 $part_sectors linear $data $2"
}

parts() {
    part one 0 && part two "$part_sectors"
}

mapped() { # TABLE
    dmsetup create top --table "$1" || { skip "device mapper refused"; return 1; }
    device=/dev/mapper/top
}

# Serves a file as a network block device, over a socket pair.
serve() {
    cat >/run/nbd.py <<'PYTHON'
import fcntl, os, socket, struct, sys
device, path = os.open(sys.argv[1], os.O_RDWR), sys.argv[2]
ours, theirs = socket.socketpair()
SET_SOCK, SET_BLKSIZE, DO_IT, CLEAR_SOCK, SET_BLOCKS = 0xAB00, 0xAB01, 0xAB03, 0xAB04, 0xAB07
if os.fork():
    theirs_fd = theirs.fileno()
    fcntl.ioctl(device, CLEAR_SOCK)
    fcntl.ioctl(device, SET_BLKSIZE, 4096)
    fcntl.ioctl(device, SET_BLOCKS, os.stat(path).st_size // 4096)
    fcntl.ioctl(device, SET_SOCK, theirs_fd)
    ours.close()
    fcntl.ioctl(device, DO_IT)
    sys.exit()
theirs.close()
os.close(device)
file = os.open(path, os.O_RDWR)
def whole(length):
    data = b""
    while len(data) < length:
        more = ours.recv(length - len(data))
        if not more:
            sys.exit()
        data += more
    return data
while True:
    magic, kind, handle, offset, length = struct.unpack(">II8sQI", whole(28))
    kind &= 0xFFFF
    answer = struct.pack(">II8s", 0x67446698, 0, handle)
    if kind == 0:
        ours.sendall(answer + os.pread(file, length, offset))
    elif kind == 1:
        os.pwrite(file, whole(length), offset)
        ours.sendall(answer)
    elif kind == 2:
        sys.exit()
    else:
        ours.sendall(answer)
PYTHON
    python3 /run/nbd.py "$1" "$2" &
    server=$!
}

# Makes the device; sets $device, and $lowest to the disk whose requests count.
make() {
    lowest=${data##*/}
    case $mapping in
    plain) device=$data ;;
    linear) mapped "0 $part_sectors linear $data 0" ;;
    striped)
        parts && mapped "0 $((2 * part_sectors / 256 * 256)) striped 2 128 /dev/mapper/one 0 /dev/mapper/two 0"
        ;;
    mirror)
        module dm-mirror && parts \
            && mapped "0 $part_sectors mirror core 2 1024 nosync 2 /dev/mapper/one 0 /dev/mapper/two 0"
        ;;
    crypt)
        key=$(printf '%064d' 0)$(printf '%064d' 1)
        module dm-crypt && mapped "0 $part_sectors crypt aes-xts-plain64 $key 0 $data 0"
        ;;
    thin)
        module dm-thin-pool && parts || return 1
        dmsetup create meta --table "0 8192 linear /dev/mapper/two 0"
        dmsetup create pool --table "0 $part_sectors thin-pool /dev/mapper/meta /dev/mapper/one 128 0"
        dmsetup message /dev/mapper/pool 0 'create_thin 0'
        mapped "0 $part_sectors thin /dev/mapper/pool 0"
        ;;
    raid0 | raid1)
        module "$mapping" && parts || return 1
        mdadm --quiet --create /dev/md9 --run --assume-clean --metadata=1.2 --level="${mapping#raid}" --raid-devices=2 \
            /dev/mapper/one /dev/mapper/two 2>/dev/null || { skip "mdadm refused"; return 1; }
        device=/dev/md9
        ;;
    loop)
        mkfs.ext4 -q -F "$data" && mkdir -p /mnt/below && mount "$data" /mnt/below || return 1
        truncate -s 512M /mnt/below/image
        device=$(losetup --find --show /mnt/below/image)
        ;;
    zram)
        module zram || return 1
        lowest=zram$(cat /sys/class/zram-control/hot_add)
        echo 512M >"/sys/block/$lowest/disksize"
        device=/dev/$lowest
        ;;
    brd)
        modprobe -q brd rd_nr=1 rd_size=262144 || { skip "this kernel has no brd"; return 1; }
        device=/dev/ram0
        lowest=ram0
        ;;
    pmem)
        modprobe -q nd_e820
        modprobe -q nd_pmem
        [ -b /dev/pmem0 ] || { skip "no persistent memory (memmap=SIZE!START on the kernel's command line)"; return 1; }
        device=/dev/pmem0
        lowest=pmem0
        ;;
    nbd)
        module nbd || return 1
        mkfs.ext4 -q -F "$data" && mkdir -p /mnt/below && mount "$data" /mnt/below || return 1
        truncate -s 512M /mnt/below/image
        serve /dev/nbd0 /mnt/below/image
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            [ "$(cat /sys/block/nbd0/size)" -gt 0 ] && break
            sleep 0.5
        done
        device=/dev/nbd0
        lowest=nbd0
        ;;
    bcache)
        [ -x "$here/make-bcache" ] || { skip "no make-bcache"; return 1; }
        module bcache && parts || return 1
        "$here/make-bcache" -B /dev/mapper/one -C /dev/mapper/two >/dev/null || { skip "make-bcache failed"; return 1; }
        for disk in one two; do
            readlink -f "/dev/mapper/$disk" >/sys/fs/bcache/register 2>/dev/null
        done
        udevadm settle
        device=/dev/bcache0
        [ -b "$device" ] || { skip "bcache made no device"; return 1; }
        ;;
    nvme)
        device=/dev/nvme0n1
        lowest=nvme0n1
        [ -b "$device" ] || { skip "no NVMe disk"; return 1; }
        ;;
    *) skip "unknown mapping" ;;
    esac
}

unmake() {
    cd "$here" || return
    umount /mnt/tree 2>/dev/null
    case $mapping in
    raid0 | raid1) mdadm --quiet --stop /dev/md9 ;;
    loop) losetup -d "$device" ;;
    nbd)
        # The server ends with its client, and then lets go of its file.
        kill "$server" 2>/dev/null
        wait "$server" 2>/dev/null
        sleep 1
        ;;
    zram) echo 1 >"/sys/block/$lowest/reset" ;;
    brd) rmmod brd ;;
    bcache)
        echo 1 >/sys/block/bcache0/bcache/stop 2>/dev/null
        for set in /sys/fs/bcache/*-*; do echo 1 >"$set/stop" 2>/dev/null; done
        sleep 2
        ;;
    esac
    umount /mnt/below 2>/dev/null
    dmsetup remove_all --retry 2>/dev/null
}

# 700 files of 1 to 39 KiB in 35 directories; what it makes is the same each time.
tree() {
    python3 - <<'PYTHON'
import os
state = 1
for directory in range(35):
    path = f"/mnt/tree/t/d{directory % 10}/e{directory}"
    os.makedirs(path)
    for name in range(20):
        state = (state * 1103515245 + 12345) % 2**31
        with open(f"{path}/f{name}", "wb") as file:
            file.write(b"hay " * (256 * (1 + state // 65536 % 39)))
PYTHON
}

requests() { awk '{ print $1 }' "/sys/block/$lowest/stat"; }

# Requests of a command whose files aren't cached.
cold() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    before=$(requests)
    "$@"
    count=$(($(requests) - before))
}

measure() {
    mkfs.ext4 -q -F "$device" && mkdir -p /mnt/tree && mount "$device" /mnt/tree || return 1
    tree
    umount /mnt/tree
    mount "$device" /mnt/tree && cd /mnt/tree/t || return 1
    rm -rf /run/state
    export FOREREAD_STATE_DIR=/run/state
    cold grep -rq needle .
    alone=$count
    cold "$foreread" run ${FOREREAD_RUN_OPTIONS-} -- grep -rq needle . 2>/run/line
    first=$count
    cold "$foreread" run ${FOREREAD_RUN_OPTIONS-} --json --output /run/out/"$mapping".json -- grep -rq needle . 2>/run/line
    second=$count
    said=$(cat /run/line)
    printf '%-8s %6d %6d %6d  %s\n' "$mapping" "$alone" "$first" "$second" "${said#foreread: }"
    case $mapping in
    # Memory makes no requests that could merge; what counts is that something was fetched.
    zram | brd) grep -q '"arrived_pages": [1-9]' /run/out/"$mapping".json || failed=1 ;;
    *) [ "$second" -lt "$alone" ] || failed=1 ;;
    esac
}

mkdir -p /run/out
modprobe -q dm-mod
modprobe -q loop
printf '%s\n%-8s %6s %6s %6s\n' "$(uname -r)" mapping alone first second
for mapping; do
    device='' lowest=''
    if make; then measure || failed=1; fi
    unmake
done
exit "$failed"
