#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# dracut's module of foreread. `foreread boot enable --initramfs` writes this.
# shellcheck disable=SC2154 # moddir is set by dracut

check() {
    [ -x /usr/local/bin/foreread ] || return 1
    return 0
}

depends() {
    return 0
}

install() {
    inst_binary /usr/local/bin/foreread /usr/bin/foreread
    # The root file system is mounted by then.
    inst_hook pre-pivot 10 "$moddir/pre-pivot.sh"
}
