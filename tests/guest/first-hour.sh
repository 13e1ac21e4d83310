#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# The first hour of a new user: seven commands from the package to its removal. Each must stand in
# what an earlier one has printed, word for word but for COMMAND. Runs as root in the guest, with the
# package beside it:
#
#   foreread_VERSION_ARCH.deb     from `make deb`
#
# TREE is a directory of small files on a slow disk. The session goes to /run/out/session.txt.
#
# Exit status: 0 all held; 1 something did not, each with a line.

set -u

failed=0
wrong() {
    echo "first-hour: $*"
    failed=1
}

tree=${TREE:?a directory of small files}
# What the user waits for: a backup of the tree.
command="tar -cf /dev/shm/tree.tar $tree"
package=$(ls ./foreread_*.deb | head -n 1)
session=/run/out/session.txt
commands=0
: >"$session"

drop() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
}

# A command that a user types: $1, and $2 as it runs here if that is another. The guest has no sudo,
# and asks nobody.
type_in() {
    commands=$((commands + 1))
    drop
    echo "\$ $1" >>"$session"
    sh -c "${2:-${1#sudo }}" >/tmp/said 2>&1
    status=$?
    sed 's/^/    /' /tmp/said >>"$session"
    [ $status -eq 0 ] || wrong "\`$1\` ended with $status: $(tail -n 1 /tmp/said)"
}

# The output so far has the line to type next. COMMAND is filled in.
printed() {
    grep -qF -e "$1" "$session" || wrong "nothing printed \`$1\`: $(tail -n 1 "$session")"
}

# Install.
type_in "sudo apt install $package" "dpkg -i $package"
printed "sudo foreread try -- COMMAND"

# First success.
type_in "sudo foreread try -- $command"
printed "sudo foreread run -- $command"

# From now on, and what that means.
type_in "sudo foreread run -- $command"
printed "foreread show -- $command"
type_in "sudo foreread show -- $command"
printed "sudo systemctl enable --now foreread-watch"

# Permanent, for all programs.
type_in "sudo systemctl enable --now foreread-watch"
printed "foreread status"
type_in "foreread status"
printed "sudo apt purge foreread"
grep -q '^ *watch *on' /tmp/said || wrong "the service does not run: $(head -n 1 /tmp/said)"

# Undo.
type_in "sudo apt purge foreread" "dpkg --purge foreread"
[ "$commands" -le 7 ] || wrong "$commands commands"
systemctl --quiet is-active foreread-watch && wrong "a purge left the service running"
for path in /usr/bin/foreread /etc/foreread /var/lib/foreread /var/log/foreread /run/foreread; do
    [ ! -e "$path" ] || wrong "a purge left $path"
done
cat "$session"
[ $failed -eq 0 ] && echo "first-hour: passed"
exit $failed
