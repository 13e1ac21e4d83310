#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs foreread on the root disk of a machine, and enables its boot.
#
#   boot-machine.sh IMAGE FOREREAD                                      begins with a unit
#   boot-machine.sh IMAGE FOREREAD BUILDER RELEASE CONFIG DRIVER INITRD begins in the initramfs
#
# With the latter, the initramfs of kernel RELEASE is built by BUILDER, initramfs-tools or dracut, and
# left in INITRD. With BOOT_MACHINE_UNIT, it has no hooks of foreread, which begins with a unit.
# The file named by BOOT_MACHINE_PROFILE, if any, is a profile that came with the image. With
# BOOT_MACHINE_RELAID, the same files are put on a new file system before: other inode numbers, another layout,
# another UUID, as on another machine with the same packages. BOOT_MACHINE_SUBVOLUME, a name such as var, puts them
# on a btrfs whose subvolumes are @ and one for the directory of this name. BOOT_MACHINE_XFS puts them on an XFS.
# BOOT_MACHINE_VAR is the image of a second disk, which is made, and gets /var.
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
uuid=c0ffee00-1a2b-4c3d-8e4f-5a6b7c8d9e0f
trap 'umount -R "$top" $old 2>/dev/null || :; rmdir "$top" $old 2>/dev/null || :; rm -f "$image.new"' EXIT

# Directories come in another order, and so do the files of each. The kernel gives out inodes and blocks.
relay() {
    truncate -s "$(stat -c %s "$image")" "$image.new"
    if [ -n "$subvolume" ]; then
        make_btrfs "$image.new"
    elif [ -n "$xfs" ]; then
        mkfs.xfs -q -f -m "uuid=$uuid" "$image.new"
    else
        mkfs.ext4 -q -F -b 4096 -U "$uuid" "$image.new"
    fi
    old=$(mktemp -d)
    mount -o loop,ro "$image" "$old"
    mount_all "$image.new"
    (cd "$old" && find . -mindepth 1 -printf '%h\t%p\0' |
        LC_ALL=C sort -z -t "$(printf '\t')" -k 1,1R -k 2,2r --random-source=/bin/sh | cut -z -f 2 |
        tar --create --format=posix --xattrs --null --no-recursion --files-from=-) |
        tar --extract --preserve-permissions --same-owner --xattrs --directory="$top"
    if [ -n "$subvolume" ]; then
        # udev makes no links by UUID for disks in virtual time.
        printf '/dev/fra %s btrfs subvol=%s 0 0\n' / @ "/$subvolume" "@$subvolume" >"$top/etc/fstab"
    elif [ -n "$xfs" ]; then
        printf '/dev/fra / xfs defaults 0 0\n' >"$top/etc/fstab"
    else
        sed -i "s/^UUID=[^ ]*/UUID=$uuid/" "$top/etc/fstab"
    fi
    umount "$old"
    umount -R "$top"
    mv "$image.new" "$image"
}

# The subvolume of the root is the default one: who mounts the file system need not name it.
make_btrfs() {
    mkfs.btrfs -q -f -U "$uuid" "$1"
    mount -o loop "$1" "$top"
    btrfs -q subvolume create "$top/@"
    btrfs -q subvolume create "$top/@$subvolume"
    mkdir "$top/@/$subvolume"
    btrfs subvolume set-default "$top/@"
    umount "$top"
}

# Another machine's XFS with the same UUID may be mounted here.
mount_all() {
    mount -o "loop${xfs:+,nouuid}" "$1" "$top"
    [ -z "$subvolume" ] || mount -o "subvol=@$subvolume" "$(findmnt -n -o SOURCE -v "$top")" "$top/$subvolume"
}

# /var moves to a disk of its own.
move_var() {
    truncate -s 512M "$var"
    mkfs.ext4 -q -F -b 4096 "$var"
    old=$(mktemp -d)
    mount -o loop "$var" "$old"
    cp -a "$top/var/." "$old/"
    find "$top/var" -mindepth 1 -delete
    umount "$old"
    mount -o loop "$var" "$top/var"
    printf '/dev/frb /var ext4 defaults 0 0\n' >>"$top/etc/fstab"
}

subvolume=${BOOT_MACHINE_SUBVOLUME-} xfs=${BOOT_MACHINE_XFS-} var=${BOOT_MACHINE_VAR-}
[ -z "${BOOT_MACHINE_RELAID-}$subvolume$xfs" ] || relay
mount_all "$image"
[ -z "$var" ] || move_var
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
if [ -n "${BOOT_MACHINE_UNIT-}" ]; then
    "$foreread" boot enable --root "$top" >/dev/null
else
    "$foreread" boot enable --initramfs --root "$top" >/dev/null
fi
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
