#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# As tests/guest/initramfs/init-bottom.

mkdir -p /run/guest
# Programs in /run can't be executed.
mount -t tmpfs -o mode=755 guest /run/guest
cp -a /x/. /run/guest/
