#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Builds the Debian packages foreread and foreread-dbgsym into target/deb, for `make deb`. Their
# dependencies are those of the system that it runs on: built on Debian 12, they install on Debian
# 12, 13 and Ubuntu 24.04. DEB_VERSION names another version than that of debian/changelog.

set -eu

PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export PATH
cd -- "$(dirname -- "$0")/.."

# With what is built already: in another directory cargo would build all of it anew.
cargo build --release --locked --package foreread
target=${CARGO_TARGET_DIR:-target}
FOREREAD=$(realpath "$target/release/foreread")
export FOREREAD

out=$target/deb
mkdir -p "$out"
rm -f "$out"/*.deb

# A tree of its own, so that packaging leaves nothing in this one but target/.
tree=$target/deb-tree/foreread
rm -rf "$target/deb-tree"
mkdir -p "$tree"
{ git -c safe.directory='*' ls-files 2>/dev/null || find . -path ./target -prune -o -type f -print; } \
    | tar -cf - -T - | tar -xf - -C "$tree"
if [ -n "${DEB_VERSION-}" ]; then
    sed -i "1s/(.*)/($DEB_VERSION)/" "$tree/debian/changelog"
fi

# -d: a Rust toolchain of rustup is none of the packages that debian/control asks for;
# scripts/setup.sh has looked whether everything is there.
(cd "$tree" && dpkg-buildpackage -b -uc -us -d)
mv "$target"/deb-tree/*.deb "$out/"
rm -rf "$target/deb-tree"
ls -l "$out"/*.deb
