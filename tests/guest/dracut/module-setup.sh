#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Dracut's module of the guest: takes along what came in the first archive, as tests/guest/init does.
# shellcheck disable=SC2154 # moddir is set by dracut

check() {
    return 0
}

depends() {
    return 0
}

install() {
    inst_multiple cp mkdir mount
    inst_hook pre-pivot 50 "$moddir/pre-pivot.sh"
}
