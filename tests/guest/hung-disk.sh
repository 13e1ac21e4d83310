#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The service beside a local disk that stops to answer in the middle of a traversal: it reads ahead
# on other disks, can be restarted, and the reader goes on once the disk answers. Runs as root in the
# guest, with the package beside it:
#
#   foreread_VERSION_ARCH.deb     from `make deb`
#
# TREE is a directory of small files, SPARE a block device that the tree fits on.
#
# Exit status: 0 all held; 1 something did not, each with a line.

set -u

failed=0
wrong() {
    echo "hung-disk: $*"
    failed=1
}

tree=${TREE:?a directory of small files}
spare=${SPARE:?a block device}
slow=/mnt/slow
device=$(findmnt -n -o SOURCE -T "$tree" | sed 's|^/dev/||')

drop() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# Requests of a cold grep over the tree on the disk that answers.
cold_grep() {
    # Caches are dropped file by file: a disk that does not answer would hold up the rest.
    find "$tree" -type f -exec dd if={} iflag=nocache count=0 status=none \;
    before=$(awk '{ print $1 }' "/sys/class/block/$device/stat")
    grep -rq "no such text" "$tree"
    echo $(($(awk '{ print $1 }' "/sys/class/block/$device/stat") - before))
}

# Waits up to $1 s until command $2 succeeds.
within() {
    limit=$(($(cut -d. -f1 /proc/uptime) + $1))
    until sh -c "$2" >/dev/null 2>&1; do
        [ "$(cut -d. -f1 /proc/uptime)" -lt "$limit" ] || return 1
        sleep 1
    done
}

status_text() { systemctl show -p StatusText --value foreread-watch; }

dpkg -i ./foreread_*.deb >/tmp/install.log 2>&1 || { cat /tmp/install.log; exit 1; }
modprobe dm-mod
dmsetup create slow --table "0 $(blockdev --getsz "$spare") linear $spare 0" || exit 1
mkfs.ext4 -q /dev/mapper/slow
mkdir -p $slow
mount /dev/mapper/slow $slow
# Large enough that a reader is still in it when the disk stops.
mkdir $slow/tree
for copy in 1 2 3 4 5 6; do
    cp -r "$tree" $slow/tree/$copy
done
alone=$(cold_grep)

systemctl start foreread-watch || wrong "the service does not start"
drop
# As grep reads, and slowly enough to be in the tree when the disk stops.
cat >/tmp/reader.py <<'END'
import os, sys, time

def read(directory):
    entries = list(os.scandir(directory))
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            read(entry.path)
        else:
            with open(entry.path, "rb") as file:
                file.read()
            time.sleep(0.03)

read(sys.argv[1])
END
python3 /tmp/reader.py $slow/tree &
reader=$!
# The service is well ahead of it by then.
sleep 40
dmsetup suspend --nolockfs --noflush slow
kill -0 $reader || wrong "the reader was faster than the script"
echo "hung-disk: suspended; $(status_text)"

# It names the disk only if one of its own threads waits there: reads by io_uring hold none.
within 60 "systemctl show -p StatusText --value foreread-watch | grep -q '$slow'" &&
    echo "hung-disk: the status names $slow"
echo "hung-disk: status: $(status_text)"
[ "$(systemctl is-active foreread-watch)" = active ] || wrong "the service is not active"
beside=$(cold_grep)
echo "hung-disk: cold grep on another disk: $alone requests alone, $beside beside the dead disk"
[ $((beside * 2)) -lt "$alone" ] || wrong "nothing is read ahead on another disk"

begun=$(cut -d. -f1 /proc/uptime)
timeout 300 systemctl restart foreread-watch || wrong "it can't be restarted"
echo "hung-disk: restarted in $(($(cut -d. -f1 /proc/uptime) - begun)) s"
within 60 "systemctl is-active foreread-watch" || wrong "not active after a restart"
again=$(cold_grep)
[ $((again * 2)) -lt "$alone" ] || wrong "after a restart nothing is read ahead: $again requests"

dmsetup resume slow
wait $reader || wrong "the reader did not end as without the service"
[ $failed -eq 0 ] && echo "hung-disk: passed"
exit $failed
