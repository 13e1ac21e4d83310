#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The Debian package in a guest: installed, its service started, a first cold grep with and without
# it, removed, purged. Runs as root in the guest, with the package beside it:
#
#   foreread_VERSION_ARCH.deb     from `make deb`
#
# Exit status: 0 all held; 1 something did not, each with a line.

set -u

failed=0
wrong() {
    echo "deb: $*"
    failed=1
}

package=$(ls ./foreread_*.deb | head -n 1)
tree=/var/tmp/foreread-deb-tree
root_device=$(findmnt -n -o SOURCE / | sed 's|^/dev/||')
# The device may be called /dev/root there.
[ -e "/sys/class/block/$root_device/stat" ] || root_device=vda
requests() { awk '{ print $1 }' "/sys/class/block/$root_device/stat"; }

drop() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# Requests of a cold grep over the tree.
cold_grep() {
    drop
    before=$(requests)
    grep -rq "no such text" "$tree"
    echo $(($(requests) - before))
}

dpkg -i "$package" >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be installed"; exit 1; }
[ "$(systemctl is-enabled foreread-watch 2>/dev/null)" = disabled ] || wrong "the service is not disabled"
[ "$(systemctl is-active foreread-watch)" = inactive ] || wrong "the service was started"

# 2,000 files in 100 directories, written in an order that is not that of a walk.
for directory in $(seq 100); do mkdir -p "$tree/$directory"; done
for file in $(seq 20); do
    for directory in $(seq 100); do
        head -c 6000 /dev/urandom >"$tree/$directory/$file"
    done
done
alone=$(cold_grep)

if systemctl start foreread-watch; then
    watched=$(cold_grep)
    echo "deb: cold grep of 2,000 files: $alone requests alone, $watched with the service"
    [ $((watched * 2)) -lt "$alone" ] || wrong "the service does not halve the requests"
else
    journalctl -u foreread-watch -n 5 --no-pager -o cat
    wrong "the service does not start"
fi

# An upgrade restarts what runs.
first=$(systemctl show -p MainPID --value foreread-watch)
dpkg -i "$package" >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be installed again"; }
if [ "$first" != 0 ]; then
    [ "$(systemctl show -p MainPID --value foreread-watch)" != "$first" ] || wrong "not restarted"
    [ "$(systemctl is-active foreread-watch)" = active ] || wrong "an upgrade stopped the service"
fi

# Sizes that were applied go back with the package.
setting=/sys/class/block/$root_device/queue/read_ahead_kb
was=$(cat "$setting")
foreread apply "$root_device" --read-ahead 768K >/dev/null || wrong "apply does not work"
[ "$(cat "$setting")" = 768 ] || wrong "apply has set nothing"
foreread run --quiet -- grep -rq "no such text" "$tree/1"
ls /var/lib/foreread/*.frp >/dev/null 2>&1 || wrong "run has recorded nothing"

dpkg --remove foreread >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be removed"; }
[ "$(cat "$setting")" = "$was" ] || wrong "removing left read_ahead_kb at $(cat "$setting")"
[ "$(systemctl is-active foreread-watch)" != active ] || wrong "removing left the service running"
ls /var/lib/foreread/*.frp >/dev/null 2>&1 || wrong "removing took profiles away"
dpkg --purge foreread >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be purged"; }
for path in /usr/bin/foreread /etc/foreread /var/lib/foreread /var/log/foreread /run/foreread; do
    [ ! -e "$path" ] || wrong "a purge left $path"
done
rm -rf "$tree"
[ $failed -eq 0 ] && echo "deb: passed"
exit $failed
