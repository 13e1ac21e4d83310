#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Records the corpus of traces in tests/traces/corpus: common programs on small trees that this
# script makes, each with every file out of memory at its start. As root, with the BPF recorder.
# What each is is in tests/traces/corpus/README.md.
#
#     scripts/record-corpus.sh [DIRECTORY]

set -eu

cd -- "$(dirname -- "$0")/.."
foreread=${FOREREAD:-${CARGO_TARGET_DIR:-target}/release/foreread}
corpus=${1:-tests/traces/corpus}
# Not one that a version manager puts before it.
python=/usr/bin/python3
mkdir -p "$corpus"
corpus=$(cd "$corpus" && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/foreread-corpus.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# Nobody's own settings are part of a trace.
HOME=$work
export HOME

# Drops what the page cache has of all files below $1.
evict() {
    sync
    find "$1" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \;
}

# Records the rest of the arguments as the trace $1, without what is in memory of $work.
record() {
    name=$1
    shift
    evict "$work"
    "$foreread" record --quiet --trace "$corpus/$name.frt" -- "$@" >"$work/out" ||
        echo "record-corpus: $name ended with $?" >&2
}

# Whether a program is there.
has() {
    command -v "$1" >/dev/null 2>&1 || {
        echo "record-corpus: left out, there is no $1: $2" >&2
        return 1
    }
}

# 400 files of 200 bytes to 60 KB in 20 directories, the same each time.
make_tree() {
    awk -v root="$1" 'BEGIN {
        srand(7)
        for (d = 0; d < 20; d++) {
            system("mkdir -p " root "/d" d)
            for (f = 0; f < 20; f++) {
                lines = int(3 * 300 ^ rand())
                name = root "/d" d "/f" f ".txt"
                for (i = 0; i < lines; i++)
                    print "line " i " of a file that nobody reads for itself " rand() > name
                close(name)
            }
        }
    }'
}

make_tree "$work/tree"
record grep grep -rc "line 42 of" "$work/tree"
record tar tar -cf - -C "$work" tree
has git git-status && {
    git -C "$work/tree" init --quiet
    git -C "$work/tree" -c core.autocrlf=false add .
    find "$work/tree" -name '*.txt' -exec touch {} +
    record git-status git -C "$work/tree" status --short
}
has "$python" python-start && record python-start "$python" -c 'import json, http.client, sqlite3'
has sqlite3 sqlite-scan,sqlite-lookups && {
    sqlite3 "$work/db" "CREATE TABLE t (id INTEGER PRIMARY KEY, key TEXT, value TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
        INSERT INTO t SELECT i, hex(i * 7919 % 60000), printf('%0100d', i) FROM n;
        CREATE INDEX k ON t (key);"
    record sqlite-scan sqlite3 "$work/db" "SELECT sum(length(value)) FROM t;"
    record sqlite-lookups sqlite3 "$work/db" "WITH RECURSIVE n(i) AS
        (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
        SELECT count(value) FROM n JOIN t ON key = hex(i * 104729 % 60000);"
}
has "$python" mapped-8-threads,column-reader && {
    head -c 33554432 /dev/zero | tr '\0' x >"$work/tensors"
    record mapped-8-threads "$python" -c '
import mmap, sys, threading
f = open(sys.argv[1], "rb")
m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
def part(n, each=len(m) // 8):
    for at in range(n * each, (n + 1) * each, 65536):
        m[at:at + 65536].count(b"y")
threads = [threading.Thread(target=part, args=(n,)) for n in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]' "$work/tensors"
    record column-reader "$python" -c '
import os, sys
f = os.open(sys.argv[1], os.O_RDONLY)
for group in range(8):
    for column in (1, 4, 5):
        for at in range(0, 131072, 32768):
            os.pread(f, 32768, group * 4194304 + column * 524288 + at)' "$work/tensors"
}
has gcc compilation && {
    # Headers as those of a system: small files that include each other, in a few directories.
    mkdir -p "$work/include/base" "$work/include/net" "$work/source"
    awk -v root="$work/include" 'BEGIN {
        srand(11)
        for (h = 0; h < 160; h++) {
            name = root "/" (h % 2 ? "net" : "base") "/h" h ".h"
            print "#ifndef H" h "\n#define H" h > name
            for (i = 1; i <= 3; i++) {
                next_one = h * 3 + i
                if (next_one < 160)
                    print "#include <" (next_one % 2 ? "net" : "base") "/h" next_one ".h>" > name
            }
            for (i = int(rand() * 200); i > 0; i--)
                print "struct s" h "_" i " { int a; long b; char name[" i "]; };" > name
            print "#endif" > name
            close(name)
        }
        for (c = 0; c < 6; c++) {
            name = root "/../source/file" c ".c"
            print "#include <base/h0.h>\n#include <stdio.h>\n#include <stdlib.h>" > name
            print "int f" c "(int n) { return printf(\"%d\", abs(n)); }" > name
            close(name)
        }
    }'
    # The compiler itself, a big file of which a part is used, from where it is out of memory too.
    cc1=$(gcc -print-prog-name=cc1)
    mkdir -p "$work/compiler"
    cp "$cc1" "$work/compiler/cc1"
    record compilation sh -c 'cd "$1" && for file in source/*.c; do
        gcc -B "$1/compiler/" -I "$1/include" -O1 -c "$file" -o "${file%.c}.o" || exit
    done' sh "$work"
}
has dpkg-deb package-installation && {
    # A package of 400 files, installed into a root of its own.
    make_tree "$work/package/usr/share/made-up"
    mkdir -p "$work/package/DEBIAN" "$work/root/var/lib/dpkg/updates" "$work/root/var/lib/dpkg/info"
    : >"$work/root/var/lib/dpkg/status"
    cat >"$work/package/DEBIAN/control" <<CONTROL
Package: made-up
Version: 1.0
Architecture: all
Maintainer: Nobody <nobody@localhost>
Description: files that nobody needs
CONTROL
    dpkg-deb --root-owner-group -Zxz --build "$work/package" "$work/made-up.deb" >/dev/null
    rm -rf "$work/package"
    record package-installation dpkg --root="$work/root" --force-not-root --log=/dev/null \
        --install "$work/made-up.deb"
}
du -sh "$corpus"
