#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# `foreread kernel install` from the package of `make deb`, in fresh roots of Debian 12 and 13 with DKMS
# and headers of their kernel. The module is built; kernels are installed that it was tested on and
# not; the package is upgraded and removed. Loads nothing. Needs root and mmdebstrap.
#
#   tests/deb/dkms.sh [SUITE...]      by default bookworm and trixie
#
# MIRROR and CACHE as in root.sh.
#
# Exit status: 0 all held, or skipped with the reason; 1 something did not, each with a line.

set -eu

cd -- "$(dirname -- "$0")/../.."
name=dkms
. tests/deb/root.sh

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
    open_root systemd,udev,dkms,linux-headers-amd64 || return 0
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
    close_root
}

next_version
try_suites "$@"
