#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds what guests are made of, from Debian's packages: QEMU, kernels, and a root file system.
#
#   lab.sh build [KERNEL...]          builds what is missing; without network when all is there
#   lab.sh update [KERNEL...]         the same, and takes newer package versions where there are any
#   lab.sh virtual [KERNEL...]        builds what guests in virtual time need besides: the driver of their disks,
#                                     and the system with many services
#   lab.sh module [KERNEL...]         builds what is missing, and the kernel module (module/) for each kernel
#   lab.sh image FILE                 writes the image of the root disk to FILE, to compare it
#   lab.sh ext4 FOLDER FILE MIB       writes an ext4 file system with what FOLDER holds to FILE
#
# build, update, virtual and module print the folder of the lab; module also prints KEY of its modules, on a
# second line. `foreread-guests run` boots what was built. Some kernels of kernels.list belong to a lab only once
# a call has named them.
#
# Everything lies in $FOREREAD_GUESTS (default ~/.cache/foreread-guests), cached by package version:
#
#   qemu/                  QEMU 10 or newer, unpacked, unless the machine has one
#   kernels/NAME/          vmlinuz, config, vmlinux.btf, initrd.cpio, version, modules/
#   kernels/NAME/virtual-KEY/  foreread_disk.ko and an initrd.cpio with it; KEY is made from the driver's source
#   kernels/NAME/module-KEY/   foreread.ko; KEY is made from the module's source
#   compiler/              a Debian 13 with a compiler and the headers of all kernels; builds their modules
#   KIND-KEY.tar           the root file system; KEY is made from the versions of its packages. KIND is root,
#                          or services: a system with many services, for whole boots in virtual time
#   KIND-KEY.ext4          the image: that and all kernels' modules; the same bytes each time it is built
#   lab                    names what belongs together: written last, so that it marks a complete lab
#
# build needs root for the root file system. Exit status: 0 done; 2 it can't be built here, with the
# reason in one line on standard error.

set -euo pipefail

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
PATH="$PATH:/usr/sbin:/sbin"
export PATH LC_ALL=C TZ=UTC
umask 022
lab=${FOREREAD_GUESTS:-${XDG_CACHE_HOME:-$HOME/.cache}/foreread-guests}
mirror=${FOREREAD_MIRROR:-http://deb.debian.org}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
epoch=1700000000
uuid=7ad1cd9c-1a2b-4c3d-8e4f-5a6b7c8d9e0f
work=""
action=${1-}
asked=${*:2}
virtual_key=""

say() { printf 'guests: %s\n' "$*" >&2; }

fail() {
    printf 'guests: %s\n' "$*" >&2
    exit 2
}

clean_up() { [ -z "$work" ] || rm -rf "$work"; }
trap clean_up EXIT

need() {
    for tool; do
        command -v "$tool" >/dev/null 2>&1 || fail "$tool is not installed; scripts/setup.sh guests installs what guests need"
    done
}

# Lines of a list without comments.
lines() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1"; }

# The lines of the kernels of this lab.
kernels() {
    local name flavour when rest
    while read -r name flavour when rest; do
        if [ "$when" = always ] || [ -e "$lab/kernels/$name/done" ] || [[ " $asked " == *" $name "* ]]; then
            echo "$name $flavour $when $rest"
        fi
    done < <(lines "$here/kernels.list")
}

# Sets $apt to the options for the apt directory named $1, whose sources are the rest: PATH SUITE pairs.
# The machine's own sources and lists are left alone.
apt_directory() {
    local folder=$lab/apt/$1 status=$2
    shift 2
    mkdir -p "$folder/lists/partial" "$folder/archives/partial"
    while [ $# -gt 0 ]; do
        printf 'deb [signed-by=%s] %s/%s %s main\n' "$keyring" "$mirror" "$1" "$2"
        shift 2
    done | uniq >"$folder/sources.list"
    apt=(-o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::Etc::preferencesparts=/dev/null -o "Dir::State::lists=$folder/lists"
        -o "Dir::Cache=$folder" -o "Dir::Cache::archives=$folder/archives" -o "Dir::State::status=$status"
        -o APT::Sandbox::User=root -o APT::Architecture=amd64 -o APT::Install-Recommends=false
        -o Debug::NoLocking=1 -o Acquire::Languages=none -o Acquire::Retries=3 -qq)
    if [ -n "${refresh-}" ] || [ ! -e "$folder/updated" ]; then
        apt-get "${apt[@]}" -o APT::Update::Error-Mode=any update >"$folder/update.log" 2>&1 \
            || fail "no package lists from $mirror: $(grep -m 1 '^[EW]:' "$folder/update.log")"
        touch "$folder/updated"
    fi
}

# Downloads the packages named and unpacks them into folder $1.
unpack_packages() {
    local into=$1 folder=$lab/debs
    shift
    mkdir -p "$folder" "$into"
    (cd "$folder" && apt-get "${apt[@]}" download "$@" >&2) || fail "can't download $*"
    for package; do
        # The newest by version is the one just named.
        dpkg-deb -x "$(find "$folder" -name "${package%%=*}_*.deb" -print | sort -V | tail -n 1)" "$into"
    done
}

build_qemu() {
    local version list
    version=$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9]*\).*/\1/p') || true
    if [ "${version:-0}" -ge 10 ]; then
        qemu=qemu-system-x86_64
        return 0
    fi
    local to=$lab/qemu
    qemu=qemu/run
    if [ -x "$to/run" ] && [ -z "${refresh-}" ]; then return 0; fi
    local codename suite
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    case $codename in
    bookworm) suite=bookworm-backports ;;
    trixie) suite=trixie ;;
    *) fail "QEMU ${version:-0} is too old for guests, and QEMU 10 is unpacked on Debian 12 and 13 only; install one" ;;
    esac
    say "unpacking QEMU from $suite"
    apt_directory qemu /var/lib/dpkg/status debian "$codename" debian "$suite"
    # Every package that an installation would bring, libraries included, unpacked beside the machine's own.
    list=$(apt-get "${apt[@]}" -t "$suite" -s install qemu-system-x86 | sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' \
        | grep -v -e '^ipxe-qemu=' -e '^qemu-system-gui=') || fail "QEMU 10 can't be had for this system from $suite"
    rm -rf "$to.new"
    # shellcheck disable=SC2086
    unpack_packages "$to.new" $list
    cat >"$to.new/run" <<'RUN'
#!/bin/sh
q=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
lib=$q/usr/lib/x86_64-linux-gnu
LD_LIBRARY_PATH=$lib:$lib/pulseaudio:$q/lib/x86_64-linux-gnu exec "$q/usr/bin/qemu-system-x86_64" \
    -L "$q/usr/share/qemu" -L "$q/usr/share/seabios" "$@"
RUN
    chmod 755 "$to.new/run"
    "$to.new/run" --version >/dev/null || fail "the unpacked QEMU does not start"
    rm -rf "$to"
    mv "$to.new" "$to"
}

# Number of $2 bytes at offset $3 of file $1.
number_at() { od -An -t "u$2" -j "$3" -N "$2" "$1" | tr -d ' '; }

# Uncompresses the kernel inside vmlinuz $1 to $2. Where it lies is in the x86 boot protocol's header:
# sectors before the protected-mode code (0x1f1), offset (0x248) and length (0x24c) of the payload.
extract_vmlinux() {
    local start
    start=$((($(number_at "$1" 1 $((0x1f1))) + 1) * 512 + $(number_at "$1" 4 $((0x248)))))
    tail -c "+$((start + 1))" "$1" | head -c "$(number_at "$1" 4 $((0x24c)))" >"$2.payload"
    # Behind the compressed data comes its size, which each tool but gzip complains of in the end.
    case $(od -An -t x1 -N 4 "$2.payload") in
    " fd 37 7a 58") xz -dc <"$2.payload" >"$2" 2>/dev/null || true ;;
    " 28 b5 2f fd") zstd -dcq <"$2.payload" >"$2" 2>/dev/null || true ;;
    " 02 21 4c 18") lz4 -dcq <"$2.payload" >"$2" 2>/dev/null || true ;;
    " 1f 8b 08"*) gzip -dc <"$2.payload" >"$2" 2>/dev/null || true ;;
    esac
    rm "$2.payload"
    readelf -h "$2" >/dev/null 2>&1
}

# One kernel of the list: packages, modules as files that busybox can load, BTF, initrd.
build_kernel() {
    local name=$1 flavour=$2 path=$3 suite=$4 pattern=$5 kinds=$6 to=$lab/kernels/$1 version tree package list
    if [ -e "$to/done" ] && [ -z "${refresh-}" ]; then return 0; fi
    apt_directory "$suite" /dev/null "$path" "$suite"
    version=$(apt-cache "${apt[@]}" pkgnames linux-image- \
        | sed -n -E "s/^linux-image-($pattern-$flavour-amd64)\$/\1/p" | sort -V | tail -n 1)
    [ -n "$version" ] || fail "no linux-image-$pattern-$flavour-amd64 in $suite"
    if [ -e "$to/done" ] && [ "$(cat "$to/done")" = "$version" ]; then return 0; fi
    say "kernel $name is $version of $suite"
    rm -rf "$to" "$to.new"
    tree=$to.new/tree
    list=""
    for package in ${kinds//,/ }; do list="$list $package-$version"; done
    # shellcheck disable=SC2086
    unpack_packages "$tree" $list
    mkdir -p "$to.new/modules/lib"
    if [ -d "$tree/usr/lib/modules" ]; then mv "$tree/usr/lib/modules" "$to.new/modules/lib/"; else mv "$tree/lib/modules" "$to.new/modules/lib/"; fi
    local modules=$to.new/modules/lib/modules/$version
    if [ -e "$modules/vmlinuz" ]; then
        mv "$modules/vmlinuz" "$to.new/vmlinuz"
        mv "$modules/config" "$to.new/config"
    else
        mv "$tree/boot/vmlinuz-$version" "$to.new/vmlinuz"
        mv "$tree/boot/config-$version" "$to.new/config"
    fi
    rm -rf "$tree"
    (cd "$modules" && rm -rf build source vmlinux kernel/drivers/gpu kernel/drivers/media kernel/drivers/net \
        kernel/drivers/infiniband kernel/drivers/iio kernel/sound kernel/drivers/staging)
    find "$modules" -name '*.ko.xz' -exec xz -d {} +
    find "$modules" -name '*.ko.zst' -exec zstd -dq --rm {} +
    depmod -b "$to.new/modules" "$version"

    extract_vmlinux "$to.new/vmlinuz" "$to.new/vmlinux" || fail "can't uncompress the kernel in $name's vmlinuz"
    objcopy --dump-section ".BTF=$to.new/vmlinux.btf" "$to.new/vmlinux" "$to.new/vmlinux.stripped"
    rm "$to.new/vmlinux" "$to.new/vmlinux.stripped"

    echo "$version" >"$to.new/version"
    echo "$version" >"$to.new/done"
    mv "$to.new" "$to"
}

# The archive that a kernel starts from: busybox, the modules of the root disk, and our init.
build_initrd() {
    local to=$lab/kernels/$1 version key base module number
    key=$(cat "$here/init" "$here/lab.sh" "$to/version" | sha256sum)
    if [ -e "$to/initrd.cpio" ] && [ "$(cat "$to/initrd.key" 2>/dev/null)" = "$key" ]; then return 0; fi
    version=$(cat "$to/version")
    rm -rf "$to/initrd.new"
    base=$to/initrd.new
    mkdir -p "$base/bin" "$base/dev" "$base/proc" "$base/r" "$base/modules"
    cp "$busybox" "$base/bin/busybox"
    for applet in sh cat mount umount insmod sleep mkdir cp switch_root poweroff; do ln -s busybox "$base/bin/$applet"; done
    install -m 755 "$here/init" "$base/init"
    number=10
    # In the order of their dependencies; what is built in brings no file.
    for module in $(modprobe -d "$to/modules" -S "$version" --show-depends -a virtio_pci virtio_blk ext4 \
        | sed -n 's/^insmod //p' | awk '!seen[$0]++'); do
        cp "$module" "$base/modules/$number-${module##*/}"
        number=$((number + 1))
    done
    archive "$base" >"$to/initrd.cpio"
    rm -rf "$base"
    echo "$key" >"$to/initrd.key"
}

# Folder $1 as a cpio archive with owners, times and order that do not depend on the machine.
archive() {
    find "$1" -exec touch -h -d "@$epoch" {} +
    (cd "$1" && find . -mindepth 1 | sort | cpio --quiet --reproducible -o -H newc -R 0:0)
}

# The root file system of kind $1 as a tar: the packages of its list from bookworm, one root for all kernels.
# Sets $root to its key.
build_root() {
    local kind=$1 packages key
    packages=$(lines "$here/$kind.list" | tr '\n' ',' | sed 's/,$//')
    if [ -e "$lab/$kind" ] && [ -z "${refresh-}" ]; then
        key=$(cat "$lab/$kind")
        if [ -e "$lab/$kind-$key.tar" ] && [ "$(cat "$lab/$kind-$key.packages")" = "$packages" ]; then root=$key; return 0; fi
    fi
    apt_directory root /dev/null debian bookworm debian-security bookworm-security
    key=$( (echo "$packages"; apt-get "${apt[@]}" -s install '?essential' ${packages//,/ } | sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p') \
        | sha256sum | cut -c 1-12)
    if [ ! -e "$lab/$kind-$key.tar" ]; then
        [ "$(id -u)" -eq 0 ] || fail "the root file system of the guests is made as root: run sudo tests/guest/lab.sh build"
        say "building the root file system of $(lines "$here/$kind.list" | wc -l) packages and those they need"
        SOURCE_DATE_EPOCH=$epoch mmdebstrap --quiet --variant=minbase --format=tar --mode=root --include="$packages" \
            --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
            --dpkgopt='path-exclude=/usr/share/doc/*' \
            bookworm "$lab/$kind-$key.tar.new" \
            "deb [signed-by=$keyring] $mirror/debian bookworm main" \
            "deb [signed-by=$keyring] $mirror/debian-security bookworm-security main" >&2 \
            || fail "mmdebstrap could not make the root file system"
        mv "$lab/$kind-$key.tar.new" "$lab/$kind-$key.tar"
    fi
    echo "$packages" >"$lab/$kind-$key.packages"
    echo "$key" >"$lab/$kind"
    root=$key
}

# Writes an ext4 file system of $3 MiB with what folder $1 holds to file $2; the same folder gives the
# same bytes. Times of change are the host's at first, since nobody can set those of files; debugfs
# sets them in the image. mke2fs gives out inodes in one row, from 11 on.
make_ext4() {
    local last
    find "$1" -exec touch -h -d "@$epoch" {} +
    rm -f "$2"
    E2FSPROGS_FAKE_TIME=$epoch mke2fs -q -F -t ext4 -b 4096 -U "$uuid" \
        -E hash_seed=2b1cd9c0-1a2b-4c3d-8e4f-5a6b7c8d9e0f,lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0 \
        -d "$1" "$2" "$3M" >/dev/null || fail "mke2fs could not write $2"
    last=$(dumpe2fs -h "$2" 2>/dev/null | awk '/^Inode count/ { all = $3 } /^Free inodes/ { free = $3 } END { print all - free }')
    seq 11 "$last" | sed "s/.*/set_inode_field <&> ctime @$epoch/" \
        | E2FSPROGS_FAKE_TIME=$epoch debugfs -w -f - "$2" >/dev/null 2>&1 || fail "debugfs could not set times in $2"
}

# The image of kind $1, to file $2: root file system, modules of all kernels, and the unit that runs the script.
write_image() {
    local kind=$1 to=$2 tree name version unit
    work=$(mktemp -d "$lab/work.XXXXXX")
    tree=$work/root
    mkdir "$tree"
    tar xpf "$lab/$kind-$root.tar" -C "$tree" --exclude='./dev/*' --numeric-owner
    for name in $(kernels | awk '{ print $1 }'); do
        version=$(cat "$lab/kernels/$name/version")
        mkdir -p "$tree/usr/lib/modules"
        cp -a "$lab/kernels/$name/modules/lib/modules/$version" "$tree/usr/lib/modules/"
        chown -R 0:0 "$tree/usr/lib/modules/$version"
    done
    install -m 755 "$here/guest-run" "$tree/usr/local/sbin/guest-run"
    install -m 644 "$here/guest.sh" "$tree/usr/local/lib/guest.sh"
    unit=$tree/etc/systemd/system
    cat >"$unit/guest.service" <<'UNIT'
[Unit]
Description=Runs the script that came with the guest
After=multi-user.target
[Service]
Type=exec
ExecStart=/usr/local/sbin/guest-run
TimeoutStartSec=infinity
LimitMEMLOCK=infinity
[Install]
WantedBy=graphical.target
UNIT
    mkdir -p "$unit/default.target.wants" "$unit/graphical.target.wants" "$tree/etc/systemd/journald.conf.d"
    ln -sf /lib/systemd/system/graphical.target "$unit/default.target"
    ln -sf /etc/systemd/system/guest.service "$unit/graphical.target.wants/guest.service"
    for name in apt-daily.timer apt-daily-upgrade.timer fstrim.timer dpkg-db-backup.timer e2scrub_all.timer \
        e2scrub_reap.service serial-getty@.service getty@.service getty.target systemd-update-utmp.service \
        systemd-hwdb-update.service mdmonitor.service mdcheck_start.timer mdcheck_continue.timer \
        mdmonitor-oneshot.timer systemd-timesyncd.service xfs_scrub_all.timer nfs-server.service nfs-client.target \
        nfs-blkmap.service rpc-statd-notify.service rpcbind.service rpcbind.socket; do
        ln -sf /dev/null "$unit/$name"
    done
    printf '[Journal]\nStorage=volatile\n' >"$tree/etc/systemd/journald.conf.d/guest.conf"
    printf 'UUID=%s / ext4 defaults 0 0\n' "$uuid" >"$tree/etc/fstab"
    printf 'guest\n' >"$tree/etc/hostname"
    printf '0123456789abcdef0123456789abcdef\n' >"$tree/etc/machine-id"
    sed -i 's/^root:[^:]*:/root::/' "$tree/etc/shadow"
    if [ -d "$here/$kind" ]; then cp -r --no-preserve=ownership "$here/$kind/." "$tree/"; fi
    rm -rf "$tree/var/cache/apt" "$tree/var/lib/apt/lists" "$tree/var/cache/ldconfig"
    # Services need their folders.
    find "$tree/var/log" -type f -delete
    mkdir -p "$tree/var/cache/apt" "$tree/var/lib/apt/lists"
    make_ext4 "$tree" "$to" "${FOREREAD_GUEST_IMAGE_MIB:-2048}"
    rm -rf "$work"
    work=""
}

# The image of kind $1. Sets $image to its file.
build_image() {
    local kind=$1 key
    build_root "$kind"
    key=$( (echo "$root"; cat "$here/guest-run" "$here/guest.sh" "$here/lab.sh"; cat "$lab"/kernels/*/version
        if [ -d "$here/$kind" ]; then find "$here/$kind" -type f -print0 | sort -z | xargs -0 cat; fi) | sha256sum | cut -c 1-12)
    image=$lab/$kind-$key.ext4
    if [ ! -e "$image" ]; then
        [ "$(id -u)" -eq 0 ] || fail "the image of the guests is made as root: run sudo tests/guest/lab.sh build"
        say "writing the image of $kind"
        write_image "$kind" "$image.new"
        find "$lab" -maxdepth 1 -name "$kind-*.ext4" -delete
        mv "$image.new" "$image"
    fi
}

# A Debian 13 in which modules are compiled, for every kernel of the list: its compiler takes them all, and 7.x
# needs its C library. Headers are unpacked beside each other.
build_compiler() {
    local to=$lab/compiler name path suite version packages package
    if [ ! -e "$to/done" ]; then
        [ "$(id -u)" -eq 0 ] || fail "the root file system with the compiler is made as root: run sudo tests/guest/lab.sh virtual"
        say "building the root file system of the compiler"
        rm -rf "$to" "$to.new"
        mmdebstrap --quiet --variant=minbase --format=directory --mode=root --include=gcc-14,make,libc6-dev,libelf1t64,libssl3t64,pahole \
            --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
            --dpkgopt='path-exclude=/usr/share/doc/*' trixie "$to.new" \
            "deb [signed-by=$keyring] $mirror/debian trixie main" >&2 || fail "mmdebstrap could not make the root of the compiler"
        mv "$to.new" "$to"
        touch "$to/done"
    fi
    while read -r name _ _ path suite _; do
        version=$(cat "$lab/kernels/$name/version")
        [ ! -e "$to/headers-$version" ] || continue
        apt_directory "$suite" /dev/null "$path" "$suite"
        packages=$(apt-cache "${apt[@]}" depends "linux-headers-$version" \
            | sed -n -E 's/^ *Depends: (linux-(headers|kbuild)-.*)/\1/p')
        mkdir -p "$lab/debs"
        for package in "linux-headers-$version" $packages; do
            (cd "$lab/debs" && apt-get "${apt[@]}" download "$package" >&2) || fail "can't download $package"
            # /lib is a link there, and stays one.
            dpkg-deb --fsys-tarfile "$(find "$lab/debs" -name "${package}_*.deb" -print | sort -V | tail -n 1)" \
                | tar -x -C "$to" --keep-directory-symlink
        done
        touch "$to/headers-$version"
    done < <(kernels)
}

# Compiles the modules in folder $2 for kernel version $1; they are left in folder $3.
compile_modules() {
    local build=$lab/compiler/build
    rm -rf "$build"
    cp -r "$2" "$build"
    # The mount of /proc, which objtool needs, ends with the namespace.
    unshare --mount sh -c "mount -t proc proc '$lab/compiler/proc' && exec chroot '$lab/compiler' \
        make -s -C '/usr/src/linux-headers-$1' M=/build CC=gcc-14 HOSTCC=gcc-14 modules" >"$lab/compile.log" 2>&1 \
        || fail "the modules in $2 don't compile for $1: $(grep -m 1 -E 'error|Error' "$lab/compile.log")"
    mkdir -p "$3"
    find "$build" -name '*.ko' -exec cp {} "$3/" \;
    find "$3" -name '*.ko' -exec strip -g {} +
    rm -rf "$build"
}

# The driver of disks in virtual time, and an initrd with it, for each kernel.
build_virtual() {
    local name version key to base
    key=$(cat "$here/disk"/* "$here/init" "$here/lab.sh" | sha256sum | cut -c 1-12)
    for name in $(kernels | awk '{ print $1 }'); do
        to=$lab/kernels/$name/virtual-$key
        [ ! -e "$to" ] || continue
        build_compiler
        version=$(cat "$lab/kernels/$name/version")
        say "compiling the driver of disks in virtual time for $name"
        rm -rf "$lab/kernels/$name"/virtual-*
        compile_modules "$version" "$here/disk" "$to.new"
        base=$to.new/initrd
        mkdir "$base"
        (cd "$base" && cpio --quiet -id <"$lab/kernels/$name/initrd.cpio")
        rm -f "$base"/modules/*virtio*
        cp "$to.new/foreread_disk.ko" "$base/modules/90-foreread_disk.ko"
        archive "$base" >"$to.new/initrd.cpio"
        rm -rf "$base"
        mv "$to.new" "$to"
    done
    virtual_key=$key
}

# The kernel module of Foreread for each kernel. Folders of other sources stay for a week: another checkout
# may share the lab. Sets $module_key.
build_module() {
    local top=$here/../.. name version to
    module_key=$(cat "$top"/module/* "$top"/core/foreread/* "$here/lab.sh" | sha256sum | cut -c 1-12)
    for name in $(kernels | awk '{ print $1 }'); do
        to=$lab/kernels/$name/module-$module_key
        [ ! -e "$to" ] || continue
        build_compiler
        version=$(cat "$lab/kernels/$name/version")
        say "compiling the kernel module for $name"
        find "$lab/kernels/$name" -maxdepth 1 -name 'module-*' -mtime +7 -exec rm -rf {} +
        work=$(mktemp -d "$lab/work.XXXXXX")
        cp "$top"/module/* "$work/"
        mkdir "$work/core"
        cp -r "$top/core/foreread" "$work/core/"
        rm -rf "$to.new"
        compile_modules "$version" "$work" "$to.new"
        rm -rf "$work"
        work=""
        mv "$to.new" "$to"
    done
}

# Where busybox is: its static build, since it runs before any library is there.
build_busybox() {
    busybox=$lab/busybox/bin/busybox
    [ ! -x "$busybox" ] || return 0
    apt_directory root /dev/null debian bookworm debian-security bookworm-security
    unpack_packages "$lab/busybox" busybox-static
}

build() {
    need apt-get dpkg-deb mmdebstrap mke2fs cpio xz zstd lz4 depmod modprobe objcopy readelf
    [ -e "$keyring" ] || fail "$keyring is not there; install debian-archive-keyring"
    [ "$(uname -m)" = x86_64 ] || fail "guests are x86_64 machines; this one is $(uname -m)"
    mkdir -p "$lab"
    if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        # shellcheck disable=SC2086
        exec sudo -n env "FOREREAD_GUESTS=$lab" "$here/lab.sh" "$action" $asked
    fi
    exec 9>"$lab/lock"
    flock 9
    build_qemu
    build_busybox
    local name flavour when path suite pattern kinds
    for name in $asked; do
        lines "$here/kernels.list" | grep -q "^$name " || fail "kernels.list has no kernel $name"
    done
    while read -r name flavour when path suite pattern kinds; do
        build_kernel "$name" "$flavour" "$path" "$suite" "$pattern" "$kinds" </dev/null
        build_initrd "$name" </dev/null
    done < <(kernels)
    local services=""
    if [ "$action" = virtual ]; then
        build_virtual
        build_image services
        services=${image##*/}
    fi
    [ "$action" != module ] || build_module
    build_image root
    {
        echo "qemu $qemu"
        echo "image ${image##*/}"
        [ -z "$services" ] || echo "services $services"
        while read -r name _ when _; do
            echo "kernel $name $(cat "$lab/kernels/$name/version") $when"
        done < <(kernels)
        [ -z "$virtual_key" ] || echo "virtual $virtual_key"
    } >"$lab/lab.new"
    mv "$lab/lab.new" "$lab/lab"
    # Whoever runs a guest holds one of these.
    touch "$lab/slot-0" "$lab/slot-1"
    chmod 666 "$lab/slot-0" "$lab/slot-1"
    exec 9>&-
    echo "$lab"
    [ "$action" != module ] || echo "$module_key"
}

case ${1-} in
build | virtual | module) build ;;
update)
    refresh=1
    build
    ;;
image)
    [ $# -eq 2 ] || fail "usage: lab.sh image FILE"
    [ -e "$lab/lab" ] || fail "there is no lab in $lab yet"
    root=$(cat "$lab/root")
    write_image root "$2"
    ;;
ext4)
    [ $# -eq 4 ] || fail "usage: lab.sh ext4 FOLDER FILE MIB"
    make_ext4 "$2" "$3" "$4"
    ;;
*) fail "usage: lab.sh build|update|virtual|module [KERNEL...] or image FILE or ext4 FOLDER FILE MIB" ;;
esac
