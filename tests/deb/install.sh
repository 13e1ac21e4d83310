#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs the packages of `make deb` in fresh roots of Debian 12 and 13, upgrades, removes and purges
# them, and compares lists of all files: a purge must leave nothing. Needs root and mmdebstrap.
#
#   tests/deb/install.sh [SUITE...]      by default bookworm and trixie
#
# MIRROR names another mirror than http://deb.debian.org/debian; CACHE a directory where the roots are
# kept as tar files, so that a second run takes seconds (target/deb-roots by default).
#
# Exit status: 0 all held, or skipped with the reason; 1 something did not, each with a line.

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH
cd -- "$(dirname -- "$0")/../.."

target=${CARGO_TARGET_DIR:-target}
cache=${CACHE:-$target/deb-roots}
mirror=${MIRROR:-http://deb.debian.org/debian}
failed=""

skip() {
    printf 'skipped: %s\n' "$*"
    exit 0
}

wrong() {
    printf 'test-deb: %s: %s\n' "$suite" "$*"
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

# The same package with a higher version: `dpkg-deb` takes it apart and puts it together again.
next_version() {
    dpkg-deb -R "$package" "$work/next"
    sed -i 's/^Version: .*/&+1/' "$work/next/DEBIAN/control"
    dpkg-deb -b "$work/next" "$work/next.deb" >/dev/null
}

# Every file but what dpkg, ldconfig and others keep for themselves.
list() {
    (cd "$work/root" && find . -xdev \
        ! -path './var/lib/dpkg/*' ! -path './var/lib/apt/*' ! -path './var/cache/*' ! -path './var/log/*' ! -path './proc/*' \
        ! -path './tmp/*' | sort) >"$work/list.$1"
    # Of the log directory only what is ours.
    (cd "$work/root" && find ./var/log -path '*foreread*') >>"$work/list.$1"
}

inside() {
    chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}

install() {
    cp "$1" "$work/root/tmp/foreread.deb"
    inside apt-get -qq -y install --no-install-recommends /tmp/foreread.deb >"$work/log" 2>&1 \
        || { cat "$work/log"; wrong "$2 failed"; }
    rm "$work/root/tmp/foreread.deb"
}

try_suite() {
    suite=$1
    mkdir -p "$cache"
    if [ ! -e "$cache/$suite.tar" ]; then
        mmdebstrap --quiet --variant=minbase --include=systemd,udev "$suite" \
            "$cache/$suite.tar.new" "deb $mirror $suite main" --format=tar \
            || { printf 'skipped: %s: mmdebstrap could not make a root\n' "$suite"; return 0; }
        mv "$cache/$suite.tar.new" "$cache/$suite.tar"
    fi
    mkdir "$work/root"
    mount -t tmpfs none "$work/root"
    tar xpf "$cache/$suite.tar" -C "$work/root" --numeric-owner --exclude='./dev/*'
    mknod -m 666 "$work/root/dev/null" c 1 3
    mount -t proc none "$work/root/proc"
    cp /etc/resolv.conf "$work/root/etc/" 2>/dev/null || true

    list before
    install "$package" "the installation"
    list installed
    inside foreread --version >/dev/null || wrong "the program does not run"
    inside man -w foreread >/dev/null 2>&1 || [ -e "$work/root/usr/share/man/man1/foreread.1.gz" ] \
        || [ ! -e "$work/root/usr/share/man/man1" ] || wrong "no manual page"
    for file in usr/bin/foreread usr/lib/systemd/system/foreread-watch.service etc/foreread/watch.toml \
        usr/share/bash-completion/completions/foreread usr/share/zsh/vendor-completions/_foreread; do
        [ -e "$work/root/$file" ] || wrong "no /$file"
    done
    enabled=$(find "$work/root/etc/systemd" -name 'foreread*')
    [ -z "$enabled" ] || wrong "enabled by itself: $enabled"
    [ ! -e "$work/root/etc/udev/rules.d/59-foreread-read-ahead.rules" ] || wrong "a udev rule by itself"
    size_kib=$(dpkg-deb -f "$package" Installed-Size)
    [ "$size_kib" -lt 8192 ] || wrong "$size_kib KiB installed, not under 8 MiB"

    # State and settings of a user, which an upgrade must keep.
    mkdir -p -m 700 "$work/root/var/lib/foreread"
    echo profile >"$work/root/var/lib/foreread/cat-00000000.frp"
    echo 'budget = "64M"' >>"$work/root/etc/foreread/watch.toml"
    mkdir -p "$work/root/etc/udev/rules.d"
    inside foreread package udev-rule --program /usr/bin/foreread \
        >"$work/root/etc/udev/rules.d/59-foreread-read-ahead.rules"
    mkdir -p "$work/root/var/log/foreread" "$work/root/run/foreread"
    inside systemctl enable foreread-watch.service >/dev/null 2>&1 || wrong "enabling failed"

    install "$work/next.deb" "the upgrade"
    case $(inside dpkg-query -W -f '${Version}' foreread) in
    *+1) ;;
    *) wrong "not upgraded" ;;
    esac
    grep -q profile "$work/root/var/lib/foreread/cat-00000000.frp" || wrong "an upgrade lost a profile"
    grep -q 64M "$work/root/etc/foreread/watch.toml" || wrong "an upgrade lost settings"
    [ -n "$(find "$work/root/etc/systemd" -name 'foreread*')" ] || wrong "an upgrade disabled the service"

    inside dpkg --remove foreread >"$work/log" 2>&1 || { cat "$work/log"; wrong "removing failed"; }
    [ ! -e "$work/root/usr/bin/foreread" ] || wrong "the program stays when it is removed"
    grep -q 64M "$work/root/etc/foreread/watch.toml" || wrong "removing lost settings"
    grep -q profile "$work/root/var/lib/foreread/cat-00000000.frp" || wrong "removing lost a profile"

    inside dpkg --purge foreread >"$work/log" 2>&1 || { cat "$work/log"; wrong "purging failed"; }
    list purged
    left=$(comm -13 "$work/list.before" "$work/list.purged")
    [ -z "$left" ] || wrong "left by a purge:
$left"
    lost=$(comm -23 "$work/list.before" "$work/list.purged")
    [ -z "$lost" ] || wrong "taken away by a purge:
$lost"
    printf 'test-deb: %s: %s files installed, %s KiB\n' "$suite" \
        "$(comm -13 "$work/list.before" "$work/list.installed" | wc -l)" "$size_kib"
    umount -R "$work/root"
    rmdir "$work/root"
}

next_version
[ $# -gt 0 ] || set -- bookworm trixie
for suite in "$@"; do
    try_suite "$suite"
done
[ -z "$failed" ] || exit 1
echo "test-deb: passed"
