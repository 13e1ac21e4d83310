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
# The file named by BOOT_MACHINE_PROFILE, if any, is a profile that came with the image. With
# BOOT_MACHINE_RELAID, the same files are put on a new file system before: other inode numbers, another layout,
# another UUID, as on another machine with the same packages.
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
old=""
trap 'umount -R "$top" $old 2>/dev/null || :; rmdir "$top" $old 2>/dev/null || :; rm -f "$image.new"' EXIT

# Directories come in another order, and so do the files of each. The kernel gives out inodes and blocks.
relay() {
    uuid=c0ffee00-1a2b-4c3d-8e4f-5a6b7c8d9e0f
    truncate -s "$(stat -c %s "$image")" "$image.new"
    mkfs.ext4 -q -F -b 4096 -U "$uuid" "$image.new"
    old=$(mktemp -d)
    mount -o loop,ro "$image" "$old"
    mount -o loop "$image.new" "$top"
    (cd "$old" && find . -mindepth 1 -printf '%h\t%p\0' |
        LC_ALL=C sort -z -t "$(printf '\t')" -k 1,1R -k 2,2r --random-source=/bin/sh | cut -z -f 2 |
        tar --create --format=posix --xattrs --null --no-recursion --files-from=-) |
        tar --extract --preserve-permissions --same-owner --xattrs --directory="$top"
    sed -i "s/^UUID=[^ ]*/UUID=$uuid/" "$top/etc/fstab"
    umount "$old" "$top"
    mv "$image.new" "$image"
}

[ -z "${BOOT_MACHINE_RELAID-}" ] || relay
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
