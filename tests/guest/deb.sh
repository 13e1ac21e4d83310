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
tree=${TREE:?a directory of small files}
device=$(findmnt -n -o SOURCE -T "$tree" | sed 's|^/dev/||')
requests() { awk '{ print $1 }' "/sys/class/block/$device/stat"; }

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

alone=$(cold_grep)

if systemctl start foreread-watch; then
    watched=$(cold_grep)
    echo "deb: cold grep: $alone requests alone, $watched with the service"
    [ $((watched * 2)) -lt "$alone" ] || wrong "the service does not halve the requests"
else
    journalctl -u foreread-watch -n 5 --no-pager -o cat
    wrong "the service does not start"
fi

# Under the unit's filter of system calls it answers, too.
foreread explain $$ >/tmp/explain.log 2>&1
[ $? -le 1 ] || wrong "explain: $(cat /tmp/explain.log)"
# So can other users, about processes of their own: the unit's filters let it make such a socket.
mode=$(stat -c %a /run/foreread/watch.sock)
[ "$mode" = 666 ] || wrong "the socket has the mode $mode"
setpriv --reuid=nobody --clear-groups foreread explain $$ >/tmp/explain.log 2>&1
[ $? -le 1 ] || wrong "explain as nobody: $(cat /tmp/explain.log)"

# An upgrade restarts what runs.
first=$(systemctl show -p MainPID --value foreread-watch)
dpkg -i "$package" >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be installed again"; }
if [ "$first" != 0 ]; then
    [ "$(systemctl show -p MainPID --value foreread-watch)" != "$first" ] || wrong "not restarted"
    [ "$(systemctl is-active foreread-watch)" = active ] || wrong "an upgrade stopped the service"
fi

# Sizes that were applied go back with the package.
setting=/sys/class/block/$device/queue/read_ahead_kb
was=$(cat "$setting")
foreread apply "$device" --read-ahead 768K >/dev/null || wrong "apply does not work"
[ "$(cat "$setting")" = 768 ] || wrong "apply has set nothing"
foreread run --quiet -- grep -rq "no such text" "$tree"
foreread boot enable >/dev/null || wrong "boot enable does not work"
[ -e /etc/systemd/system/foreread-boot.service ] || wrong "boot enable has made no unit"
ls /var/lib/foreread/*.frp >/dev/null 2>&1 || wrong "run has recorded nothing"

dpkg --remove foreread >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be removed"; }
[ "$(cat "$setting")" = "$was" ] || wrong "removing left read_ahead_kb at $(cat "$setting")"
[ "$(systemctl is-active foreread-watch)" != active ] || wrong "removing left the service running"
ls /var/lib/foreread/*.frp >/dev/null 2>&1 || wrong "removing took profiles away"
for path in /etc/systemd/system/foreread-boot*.service /etc/systemd/system/*.wants/foreread-boot*; do
    [ ! -e "$path" ] || wrong "removing left $path"
done
dpkg --purge foreread >/tmp/deb.log 2>&1 || { cat /tmp/deb.log; wrong "cannot be purged"; }
for path in /usr/bin/foreread /etc/foreread /var/lib/foreread /var/log/foreread /run/foreread; do
    [ ! -e "$path" ] || wrong "a purge left $path"
done
[ $failed -eq 0 ] && echo "deb: passed"
exit $failed
