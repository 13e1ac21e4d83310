#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Unpacks the programs that build images, as Debian 13 has them, into a directory; nothing of the
# system is changed. Debian 12's mkfs.erofs and mke2fs take no archive, so they keep no order.
#
#   scripts/image-tools.sh DIRECTORY     for `foreread-bench --only image --image-tools DIRECTORY`
#
# Needs root, mmdebstrap and a mirror (MIRROR).

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH
[ $# -eq 1 ] || {
    echo "image-tools: give a directory to unpack into" >&2
    exit 2
}
mirror=${MIRROR:-http://deb.debian.org}
[ ! -e "$1/usr/bin/mkfs.erofs" ] || exit 0
rm -rf "$1.new"
mmdebstrap --quiet --variant=extract --format=directory --mode=root \
    --include=erofs-utils,e2fsprogs,libarchive13t64,squashfs-tools trixie "$1.new" \
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror/debian trixie main"
mv "$1.new" "$1"
