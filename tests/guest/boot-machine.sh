#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs foreread on the root disk of a machine, and enables its boot.
#
#   boot-machine.sh IMAGE FOREREAD                                      begins with a unit
#   boot-machine.sh IMAGE FOREREAD BUILDER RELEASE CONFIG DRIVER INITRD begins in the initramfs
#
# With the latter, the initramfs of kernel RELEASE is built by BUILDER, initramfs-tools or dracut, and
# left in INITRD.
# The file named by BOOT_MACHINE_PROFILE, if any, is a profile that came with the image.
#
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
if [ -n "${BOOT_MACHINE_PROFILE-}" ]; then
    install -D -m 644 "$BOOT_MACHINE_PROFILE" "$top/usr/lib/foreread/boot.d/guest.profile"
fi
if [ $# -eq 2 ]; then
    "$foreread" boot enable --root "$top" >/dev/null
    exit 0
fi

builder=$3 release=$4 config=$5 driver=$6 initrd=$7
cp "$config" "$top/boot/config-$release"
cp "$driver" "$top/usr/lib/modules/$release/kernel/drivers/block/"
depmod -b "$top" "$release"
case $builder in
initramfs-tools)
    scripts=$top/etc/initramfs-tools
    install -m 755 "$here/initramfs/hook" "$scripts/hooks/guest"
    mkdir -p "$scripts/scripts/init-bottom"
    install -m 755 "$here/initramfs/init-bottom" "$scripts/scripts/init-bottom/guest"
    ;;
dracut)
    # Where both are installed, Debian's own is in use.
    rm -f "$top/usr/sbin/update-initramfs"
    module=$top/usr/lib/dracut/modules.d/96guest
    mkdir -p "$module"
    install -m 755 "$here/dracut/module-setup.sh" "$here/dracut/pre-pivot.sh" "$module/"
    ;;
esac
"$foreread" boot enable --initramfs --root "$top" >/dev/null
mount -t proc proc "$top/proc"
mount --bind /dev "$top/dev"
mount -t tmpfs tmp "$top/tmp"
made=/boot/initrd.img-$release
case $builder in
# It complains of a root file system that it can't look at.
initramfs-tools) chroot "$top" mkinitramfs -o "$made" "$release" >/dev/null 2>&1 ;;
dracut)
    chroot "$top" dracut --quiet --force --no-hostonly --no-hostonly-cmdline --no-early-microcode \
        --force-drivers "foreread_disk ext4" --omit "plymouth network" "$made" "$release" >&2
    ;;
esac
umount "$top/tmp" "$top/dev" "$top/proc"
mv "$top$made" "$initrd"
