# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
#
# What the tests of the package share: fresh roots of Debian, and commands inside of them. Read by install.sh
# and dkms.sh, which set $name, the first word of their messages.
#
# MIRROR names another mirror than http://deb.debian.org/debian; CACHE a directory where the roots are
# kept as tar files, so that a second run takes seconds (target/deb-roots by default).
#
# Gives: $package, the package of `make deb`; $work, a directory that goes at the end; $failed, not empty
# once something did not hold.

PATH="$PATH:/usr/sbin:/sbin"
export PATH

target=${CARGO_TARGET_DIR:-target}
cache=${CACHE:-$target/deb-roots}
mirror=${MIRROR:-http://deb.debian.org/debian}
failed=""

skip() {
    printf 'skipped: %s\n' "$*"
    exit 0
}

wrong() {
    printf '%s: %s: %s\n' "$name" "$suite" "$*"
    failed=yes
}

package=$(ls "$target"/deb/foreread_*.deb 2>/dev/null | head -n 1)
[ -n "$package" ] || skip "no package in $target/deb; run make deb"
[ "$(id -u)" -eq 0 ] || skip "roots of other systems need root"
command -v mmdebstrap >/dev/null 2>&1 || skip "no mmdebstrap here"

# What was mounted below $work goes with this namespace.
if [ -z "${FOREREAD_TEST_DEB-}" ]; then
    FOREREAD_TEST_DEB=inside unshare --mount "$0" "$@" && exit 0 || exit $?
fi
work=$(mktemp -d)
trap 'umount -R "$work/root" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM

# $work/next.deb is the same package with a higher version: `dpkg-deb` takes it apart and puts it together again.
next_version() {
    dpkg-deb -R "$package" "$work/next"
    sed -i 's/^Version: .*/&+1/' "$work/next/DEBIAN/control"
    dpkg-deb -b "$work/next" "$work/next.deb" >/dev/null
}

# $work/root is a fresh root of $suite with the packages $1, between commas. Fails after a line if there is none.
open_root() {
    tar="$cache/$suite-$(echo "$1" | tr , -).tar"
    mkdir -p "$cache"
    if [ ! -e "$tar" ]; then
        mmdebstrap --quiet --variant=minbase --include="$1" "$suite" "$tar.new" "deb $mirror $suite main" --format=tar \
            || { printf 'skipped: %s: mmdebstrap could not make a root\n' "$suite"; return 1; }
        mv "$tar.new" "$tar"
    fi
    mkdir "$work/root"
    mount -t tmpfs none "$work/root"
    tar xpf "$tar" -C "$work/root" --numeric-owner --exclude='./dev/*'
    mknod -m 666 "$work/root/dev/null" c 1 3
    ln -s /proc/self/fd "$work/root/dev/fd"
    mount -t proc none "$work/root/proc"
    cp /etc/resolv.conf "$work/root/etc/" 2>/dev/null || true
}

close_root() {
    umount -R "$work/root"
    rmdir "$work/root"
}

inside() {
    chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}

# Runs a command inside; $1 says what it is.
does() {
    what=$1
    shift
    inside "$@" >"$work/log" 2>&1 || { cat "$work/log"; wrong "$what failed"; }
}

# Installs the package $1; $2 says what that is.
install() {
    cp "$1" "$work/root/tmp/foreread.deb"
    does "$2" apt-get -qq -y install --no-install-recommends /tmp/foreread.deb
    rm "$work/root/tmp/foreread.deb"
}

# Calls `try_suite` for each of the suites in $@.
try_suites() {
    [ $# -gt 0 ] || set -- bookworm trixie
    for suite in "$@"; do
        try_suite
    done
    [ -z "$failed" ] || exit 1
    echo "$name: passed"
}
