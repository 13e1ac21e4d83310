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
du -sh "$corpus"
