#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs foreread on the root disk of a machine, and enables its boot.
#
#   boot-machine.sh IMAGE FOREREAD                              begins with a unit
#   boot-machine.sh IMAGE FOREREAD RELEASE CONFIG DRIVER INITRD begins in the initramfs
#
# With the latter, the initramfs of kernel RELEASE is built by initramfs-tools, and left in INITRD.
# Needs root. The mount is seen by nobody else, so that nobody else can keep it busy.

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH
if [ -z "${BOOT_MACHINE_ALONE-}" ]; then
    BOOT_MACHINE_ALONE=1 exec unshare --mount "$0" "$@"
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
image=$1 foreread=$2
top=$(mktemp -d)
trap 'umount -R "$top" 2>/dev/null || :; rmdir "$top" 2>/dev/null || :' EXIT
mount -o loop "$image" "$top"
cp "$foreread" "$top/usr/bin/foreread"
if [ $# -eq 2 ]; then
    "$foreread" boot enable --root "$top" >/dev/null
    exit 0
fi

release=$3 config=$4 driver=$5 initrd=$6
cp "$config" "$top/boot/config-$release"
cp "$driver" "$top/usr/lib/modules/$release/kernel/drivers/block/"
depmod -b "$top" "$release"
scripts=$top/etc/initramfs-tools
install -m 755 "$here/initramfs/hook" "$scripts/hooks/guest"
mkdir -p "$scripts/scripts/init-bottom"
install -m 755 "$here/initramfs/init-bottom" "$scripts/scripts/init-bottom/guest"
"$foreread" boot enable --initramfs --root "$top" >/dev/null
mount -t proc proc "$top/proc"
mount --bind /dev "$top/dev"
mount -t tmpfs tmp "$top/tmp"
# It complains of a root file system that it can't look at.
chroot "$top" mkinitramfs -o "/boot/initrd.img-$release" "$release" >/dev/null 2>&1
umount "$top/tmp" "$top/dev" "$top/proc"
mv "$top/boot/initrd.img-$release" "$initrd"
