#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# `foreread kernel install` from the package of `make deb`, in fresh roots of Debian 12 and 13 with DKMS
# and headers of their kernel. The module is built; kernels are installed that it was tested on and
# not; the package is upgraded and removed. Loads nothing. Needs root and mmdebstrap.
#
#   tests/deb/dkms.sh [SUITE...]      by default bookworm and trixie
#
# MIRROR and CACHE as in install.sh.
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
    printf 'dkms: %s: %s\n' "$suite" "$*"
    failed=yes
}

package=$(ls "$target"/deb/foreread_*.deb 2>/dev/null | head -n 1)
[ -n "$package" ] || skip "no package in $target/deb; run make deb"
[ "$(id -u)" -eq 0 ] || skip "roots of other systems need root"
command -v mmdebstrap >/dev/null 2>&1 || skip "no mmdebstrap here"

# What was mounted below $work goes with this namespace.
if [ -z "${FOREREAD_TEST_DKMS-}" ]; then
    FOREREAD_TEST_DKMS=inside unshare --mount "$0" "$@" && exit 0 || exit $?
fi
work=$(mktemp -d)
trap 'umount -R "$work/root" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
trap 'exit 1' INT TERM

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

install() {
    cp "$1" "$work/root/tmp/foreread.deb"
    does "$2" apt-get -qq -y install --no-install-recommends /tmp/foreread.deb
    rm "$work/root/tmp/foreread.deb"
}

# The module of kernel $1 that modprobe would load; nothing if there is none.
module() {
    find "$work/root/lib/modules/$1/" -name 'foreread.ko*'
}

# The description of the module of kernel $1 begins with $2.
describes() {
    built=$(module "$1")
    case $(inside modinfo -F description "${built#"$work/root"}" 2>&1) in
    "$2"*) ;;
    *) wrong "the module of $1 is not described as $2" ;;
    esac
}

# A kernel of release $1 is installed: its headers are those of $2, and its package calls the hooks.
add_kernel() {
    mkdir -p "$work/root/lib/modules/$1"
    ln -s "$(readlink "$work/root/lib/modules/$2/build")" "$work/root/lib/modules/$1/build"
    does "installing the kernel $1" run-parts --exit-on-error --arg="$1" /etc/kernel/postinst.d
}

try_suite() {
    suite=$1
    mkdir -p "$cache"
    if [ ! -e "$cache/$suite-dkms.tar" ]; then
        mmdebstrap --quiet --variant=minbase --include=systemd,udev,dkms,linux-headers-amd64 "$suite" \
            "$cache/$suite-dkms.tar.new" "deb $mirror $suite main" --format=tar \
            || { printf 'skipped: %s: mmdebstrap could not make a root\n' "$suite"; return 0; }
        mv "$cache/$suite-dkms.tar.new" "$cache/$suite-dkms.tar"
    fi
    mkdir "$work/root"
    mount -t tmpfs none "$work/root"
    tar xpf "$cache/$suite-dkms.tar" -C "$work/root" --numeric-owner --exclude='./dev/*'
    mknod -m 666 "$work/root/dev/null" c 1 3
    ln -s /proc/self/fd "$work/root/dev/fd"
    mount -t proc none "$work/root/proc"
    cp /etc/resolv.conf "$work/root/etc/" 2>/dev/null || true
    release=$(basename "$(dirname "$(ls -d "$work"/root/lib/modules/*/build | head -n 1)")")
    series=$(echo "$release" | cut -d. -f1,2)

    install "$package" "the installation"
    version=$(inside foreread --version | cut -d' ' -f2)
    [ -z "$(module "$release")" ] || wrong "a module by itself"
    [ -z "$(inside dkms status)" ] || wrong "registered by itself"

    does "kernel install" foreread kernel install --kernel "$release"
    built=$(module "$release")
    [ -n "$built" ] || wrong "no module for $release"
    told=$(inside modinfo -F version "${built#"$work/root"}")
    [ "$told" = "$version" ] || wrong "the module is of version $told, the program $version"

    # A later kernel of the same series gets its module. One that it was not tested on gets one that refuses to be
    # loaded, and the installation of the kernel goes on.
    add_kernel "$series.999-later" "$release"
    [ -n "$(module "$series.999-later")" ] || wrong "no module for a later kernel"
    describes "$series.999-later" "Readahead policies for"
    # Its version is that of the headers' makefile.
    common=$(sed -n 's/^include \(.*\)\/Makefile$/\1/p' "$work/root/usr/src/linux-headers-$release/Makefile")
    sed -i 's/^PATCHLEVEL = .*/PATCHLEVEL = 2/' "$work/root$common/Makefile"
    add_kernel "6.2.0-untested" "$release"
    describes 6.2.0-untested "Readahead policies, left out"
    sed -i "s/^PATCHLEVEL = .*/PATCHLEVEL = ${series#*.}/" "$work/root$common/Makefile"

    install "$work/next.deb" "the upgrade"
    [ -n "$(module "$release")" ] || wrong "an upgrade lost the module of $release"
    [ -n "$(module "$series.999-later")" ] || wrong "an upgrade lost the module of a later kernel"

    does "kernel uninstall" foreread kernel uninstall
    [ -z "$(module "$release")$(module "$series.999-later")" ] || wrong "uninstall leaves a module"
    [ -z "$(inside dkms status)" ] || wrong "uninstall leaves it in DKMS"
    [ ! -e "$work/root/var/lib/dkms/foreread" ] || wrong "uninstall leaves /var/lib/dkms/foreread"

    does "kernel install --without-dkms" foreread kernel install --kernel "$release" --without-dkms
    [ -e "$work/root/lib/modules/$release/updates/foreread.ko" ] || wrong "no module by make"
    inside modinfo -k "$release" foreread >/dev/null 2>&1 || wrong "modprobe would not find it"
    does "removing the package" dpkg --remove foreread
    [ -z "$(module "$release")" ] || wrong "removing the package leaves a module"
    does "purging" dpkg --purge foreread
    [ ! -e "$work/root/var/lib/foreread" ] || wrong "a purge leaves /var/lib/foreread"
    printf 'dkms: %s: %s built for %s and %s\n' "$suite" "$version" "$release" "$series.999-later"
    umount -R "$work/root"
    rmdir "$work/root"
}

# The same package with a higher version.
dpkg-deb -R "$package" "$work/next"
sed -i 's/^Version: .*/&+1/' "$work/next/DEBIAN/control"
dpkg-deb -b "$work/next" "$work/next.deb" >/dev/null

[ $# -gt 0 ] || set -- bookworm trixie
for suite in "$@"; do
    try_suite "$suite"
done
[ -z "$failed" ] || exit 1
echo "dkms: passed"
