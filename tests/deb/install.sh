#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs the packages of `make deb` in fresh roots of Debian 12 and 13, upgrades, removes and purges
# them, and compares lists of all files: a purge must leave nothing. Needs root and mmdebstrap.
#
#   tests/deb/install.sh [SUITE...]      by default bookworm and trixie
#
# MIRROR and CACHE as in root.sh.
#
# Exit status: 0 all held, or skipped with the reason; 1 something did not, each with a line.

set -eu

cd -- "$(dirname -- "$0")/../.."
name=test-deb
. tests/deb/root.sh

# Every file but what dpkg, ldconfig and others keep for themselves.
list() {
    (cd "$work/root" && find . -xdev \
        ! -path './var/lib/dpkg/*' ! -path './var/lib/apt/*' ! -path './var/cache/*' ! -path './var/log/*' ! -path './proc/*' \
        ! -path './tmp/*' | sort) >"$work/list.$1"
    # Of the log directory only what is ours.
    (cd "$work/root" && find ./var/log -path '*foreread*') >>"$work/list.$1"
}

try_suite() {
    open_root systemd,udev || return 0

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
    # It has 10.7 MiB with boot, layout and the laboratory. More is to be noticed.
    size_kib=$(dpkg-deb -f "$package" Installed-Size)
    [ "$size_kib" -lt 12288 ] || wrong "$size_kib KiB installed, not under 12 MiB"

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

    does "removing" dpkg --remove foreread
    [ ! -e "$work/root/usr/bin/foreread" ] || wrong "the program stays when it is removed"
    grep -q 64M "$work/root/etc/foreread/watch.toml" || wrong "removing lost settings"
    grep -q profile "$work/root/var/lib/foreread/cat-00000000.frp" || wrong "removing lost a profile"

    does "purging" dpkg --purge foreread
    list purged
    left=$(comm -13 "$work/list.before" "$work/list.purged")
    [ -z "$left" ] || wrong "left by a purge:
$left"
    lost=$(comm -23 "$work/list.before" "$work/list.purged")
    [ -z "$lost" ] || wrong "taken away by a purge:
$lost"
    printf 'test-deb: %s: %s files installed, %s KiB\n' "$suite" \
        "$(comm -13 "$work/list.before" "$work/list.installed" | wc -l)" "$size_kib"
    close_root
}

next_version
try_suites "$@"
