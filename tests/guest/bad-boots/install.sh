# SPDX-License-Identifier: MIT OR Apache-2.0
# shellcheck shell=sh
#
# Puts what makes boots bad on the root disk of a guest: run by on-image.sh in its root directory, with the
# folder of this file as its argument. Prints inode and size of the files that profiles name.

here=$1
units=etc/systemd/system
install -m 755 "$here/bad-boot" usr/local/sbin/bad-boot
install -m 644 "$here/bad-boot.service" "$units/bad-boot.service"
mkdir -p "$units/sysinit.target.wants" "$units/multi-user.target.wants"
ln -sf /etc/systemd/system/bad-boot.service "$units/sysinit.target.wants/bad-boot.service"
# Nobody can type a password here: the guest's script takes the place of the shell.
for unit in emergency rescue; do
    mkdir -p "$units/$unit.service.d"
    install -m 644 "$here/shell.conf" "$units/$unit.service.d/guest.conf"
done
bad=var/lib/bad
mkdir -p "$bad"
mkfifo "$bad/fifo"
ln -s loop "$bad/loop"
ln -s /proc/kmsg "$bad/log"
ln -s /dev/zero "$bad/zero"
truncate -s 20G "$bad/holes"
touch -h -d @1700000000 "$bad"/*
for name in fifo loop log zero holes; do stat -c "$name %i %s" "$bad/$name"; done
