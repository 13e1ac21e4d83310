#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Installs what Foreread's own targets need and is not there yet, by apt, and says first what and
# why. With everything in place it touches neither apt nor the network.
#
#   scripts/setup.sh build    what `make build` needs
#   scripts/setup.sh demo     the same, and what `foreread demo` runs
#   scripts/setup.sh test     the same, and what the lints and tests need
#   scripts/setup.sh fuzz     what builds the fuzz targets
#   scripts/setup.sh bench    the same, and what some benches compare with
#   scripts/setup.sh guests   what `make guests` needs; a part of test
#   scripts/setup.sh deb      what `make build` needs, and what builds and tests the Debian package
#
# Exit status: 0 everything is there; 2 something is missing and it is said how to get it.

set -eu

# Tools such as mkfs.ext4 are outside an ordinary user's PATH, cargo outside that of a fresh login.
PATH="$PATH:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export PATH
top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

rustup_command="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"

# One line a package: profile, package, what shows that it is there, why it is needed.
# A word that starts with / is a file that must exist; any other is a command.
packages() {
    cat <<'LIST'
build  gcc           gcc                      C compiler and linker: libbpf, zstd and Rust's own link step
build  libc6-dev     /usr/include/stdlib.h    C headers for the same
build  make          make                     builds libbpf
build  pkg-config    pkg-config               tells libbpf's build where libelf and zlib are
build  libelf-dev    /usr/include/libelf.h    libbpf reads BPF object files with it
build  zlib1g-dev    /usr/include/zlib.h      libelf needs it
build  clang         clang                    compiles the BPF programs that watch a program read
demo   e2fsprogs     mkfs.ext4                makes the file system on the modelled disk
demo   mount         losetup                  loop devices and mounts for the modelled disk
demo   git           git                      one of the three programs that the demo runs
demo   python3       python3                  another of them
test   util-linux    lsblk                    block device tools that tests compare with
test   xfsprogs      mkfs.xfs                 tests on xfs
test   btrfs-progs   mkfs.btrfs               tests on btrfs
test   squashfs-tools mksquashfs              builds an image in the order of need
test   strace        strace                   fails system calls in tests
bench   fio           fio                      what a disk reaches at best, to compare streams with
test   clang-format  clang-format             checks the layout of the C sources
fuzz   g++           c++                      compiles libFuzzer
guests mmdebstrap    mmdebstrap               makes the root file system of the guests
guests e2fsprogs     mke2fs                   makes its image
guests cpio          cpio                     makes the archive that a guest starts from
guests kmod          depmod                   indexes the modules of the guests' kernels
guests binutils      objcopy                  takes the kernels' BTF out of their images
guests xz-utils      xz                       unpacks kernels and modules
guests zstd          zstd                     the same
guests lz4           lz4                      the same
deb    debhelper     dh                       builds the Debian package
deb    dpkg-dev      dpkg-buildpackage        the same
deb    lintian       lintian                  checks it
deb    mmdebstrap    mmdebstrap               roots of Debian 12 and 13 in which it is installed
test   libclang-rt-dev /usr/share/doc/libclang-rt-dev  sanitizers and fuzzer that the policy core is tested with
LIST
}

say() { printf 'setup: %s\n' "$*"; }

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 2
}

is_there() {
    case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# Whether packages of profile $1 are wanted in profile $2.
wanted() {
    case "$2:$1" in
    build:build | demo:build | demo:demo | deb:build | deb:deb) return 0 ;;
    fuzz:fuzz | fuzz:build) return 0 ;;
    bench:guests | bench:deb | bench:fuzz) return 1 ;;
    bench:*) return 0 ;;
    test:build | test:demo | test:test | test:guests) return 0 ;;
    guests:build | guests:guests) return 0 ;;
    *) return 1 ;;
    esac
}

# Prints "package why" for each package of the profile that is missing.
missing_packages() {
    packages | while read -r of package sign why; do
        if wanted "$of" "$1" && ! is_there "$sign"; then
            printf '%s %s\n' "$package" "$why"
        fi
    done
}

# The command prefix that makes us root: empty as root, else sudo; fails where there is neither.
root_prefix() {
    if [ "$(id -u)" -eq 0 ]; then
        echo ""
    elif command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        echo sudo
    else
        return 1
    fi
}

install_missing() {
    missing=$(missing_packages "$1")
    [ -n "$missing" ] || return 0
    names=$(printf '%s\n' "$missing" | cut -d ' ' -f 1 | tr '\n' ' ' | sed 's/ $//')
    if ! command -v apt-get >/dev/null 2>&1; then
        printf '%s\n' "$missing" | sed 's/^\([^ ]*\) /  \1: /' >&2
        fail "apt-get is not here; install the packages above (Debian's names) by hand, then again"
    fi

    say "installs by apt:"
    printf '%s\n' "$missing" | while read -r package why; do
        printf '  %-13s %s\n' "$package" "$why"
    done

    if ! prefix=$(root_prefix); then
        fail "needs root for that; run: sudo apt-get install --no-install-recommends $names"
    fi
    # $prefix and $names are lists of words on purpose.
    # shellcheck disable=SC2086
    $prefix apt-get -qq -o DPkg::Lock::Timeout=120 update \
        || say "could not refresh the package lists; trying with what is there"
    # shellcheck disable=SC2086
    $prefix env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends $names \
        </dev/null || fail "apt could not install: $names"

    still=$(missing_packages "$1" | cut -d ' ' -f 1 | tr '\n' ' ')
    [ -z "$still" ] || fail "apt is done, yet what these bring was not found: $still"
    say "done"
}

# Whether version $1 (such as 1.90.0) is at least $2 (such as 1.88).
version_at_least() {
    major=${1%%.*} minor=${1#*.} && minor=${minor%%.*}
    major_least=${2%%.*} minor_least=${2#*.} && minor_least=${minor_least%%.*}
    [ "$major" -gt "$major_least" ] \
        || { [ "$major" -eq "$major_least" ] && [ "$minor" -ge "$minor_least" ]; }
}

# The version of Debian package $1 that apt would install, up to its first `+`, `-` or `~`; nothing
# where there is no such package.
candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9][0-9.]*\).*/\1/p'
}

# Installs cargo, rustc and rustfmt from Debian packages where these are at least version $1, and
# returns 1 where they are not. Debian 12 and 13 have a recent Rust as rustc-web, for building web
# browsers; clippy is in no package of that family.
install_rust() {
    command -v apt-get >/dev/null 2>&1 || return 1
    for family in "" -web; do
        version=$(candidate "rustc$family")
        if [ -z "$version" ] && [ -z "${refreshed-}" ]; then
            # A fresh root file system has no package lists yet.
            refreshed=yes
            prefix=$(root_prefix) && $prefix apt-get -qq -o DPkg::Lock::Timeout=120 update
            version=$(candidate "rustc$family")
        fi
        [ -n "$version" ] && version_at_least "$version" "$1" || continue
        say "installs by apt the Rust toolchain $version: rustc$family cargo$family rustfmt$family"
        if ! prefix=$(root_prefix); then
            fail "needs root for that; run: sudo apt-get install --no-install-recommends rustc$family cargo$family rustfmt$family ca-certificates"
        fi
        # cargo fetches dependencies over HTTPS: hence ca-certificates.
        # shellcheck disable=SC2086
        $prefix env DEBIAN_FRONTEND=noninteractive \
            apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends \
            "rustc$family" "cargo$family" "rustfmt$family" ca-certificates \
            </dev/null || fail "apt could not install rustc$family, cargo$family and rustfmt$family"
        return 0
    done
    return 1
}

check_rust() {
    least=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$top/Cargo.toml")
    if command -v rustup >/dev/null 2>&1; then
        version=$(rustc --version 2>/dev/null | cut -d ' ' -f 2) && [ -n "$version" ] \
            || fail "rustc does not run; with rustup: rustup default stable"
        version_at_least "$version" "$least" \
            || fail "Rust $version is too old, $least is needed; run: rustup update stable"
        return 0
    fi
    have="no Rust toolchain"
    if command -v cargo >/dev/null 2>&1 && command -v rustc >/dev/null 2>&1; then
        version=$(rustc --version | cut -d ' ' -f 2) || fail "rustc does not run"
        ! version_at_least "$version" "$least" || return 0
        have="Rust $version is too old"
    fi
    install_rust "$least" || fail "$have: $least or newer is needed, and no package of this system has it.
       Get it from https://rustup.rs with this line, then open a new shell:
         $rustup_command"
}

# rustup's minimal profile leaves these two out: the generator of the BPF skeletons runs rustfmt and
# fails where rustup's stand-in for it is there without it; the lints need both.
check_rust_components() {
    lacking=""
    rustfmt --version >/dev/null 2>&1 || lacking="$lacking rustfmt"
    [ "$1" != test ] || cargo clippy --version >/dev/null 2>&1 || lacking="$lacking clippy"
    [ -n "$lacking" ] || return 0
    if ! command -v rustup >/dev/null 2>&1; then
        # Debian's rustc-web comes without clippy: scripts/lint.sh then leaves that lint out and says so.
        [ "$lacking" != " clippy" ] || return 0
        fail "the Rust toolchain lacks:$lacking. The one from https://rustup.rs has them"
    fi
    say "adds to the Rust toolchain, for the build and the lints:$lacking"
    # shellcheck disable=SC2086
    rustup component add $lacking || fail "rustup could not add:$lacking"
}

case ${1-} in
build | demo | test | fuzz | bench | guests | deb) profile=$1 ;;
*) fail "usage: scripts/setup.sh build|demo|test|fuzz|bench|guests|deb" ;;
esac

# Rust first: nothing else is installed for a build that can't start.
check_rust
check_rust_components "$profile"
install_missing "$profile"
