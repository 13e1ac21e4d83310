#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Runs a command of the shell in the root directory of a file system in an image:
#
#   on-image.sh IMAGE COMMAND [ARGUMENT...]
#
# Needs root. The mount is seen by nobody else, so that nobody else can keep it busy.

set -eu

PATH="$PATH:/usr/sbin:/sbin"
export PATH
if [ -z "${ON_IMAGE_ALONE-}" ]; then
    ON_IMAGE_ALONE=1 exec unshare --mount "$0" "$@"
fi
image=$1 command=$2
shift 2
top=$(mktemp -d)
trap 'cd /; umount "$top" 2>/dev/null || :; rmdir "$top"' EXIT
mount -o loop "$image" "$top"
cd "$top"
sh -euc "$command" sh "$@"
