#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Starts foreread beside the boot; see packaging/initramfs-tools/local-bottom.

[ -x /usr/bin/foreread ] || return 0
# shellcheck disable=SC2154 # set by dracut
/usr/bin/foreread boot serve --new-root "$NEWROOT" </dev/null >/dev/null 2>&1 &
