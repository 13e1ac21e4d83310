#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Lints: rustfmt, clippy with warnings denied, clang-format, shell syntax. Runs all, then fails if
# one has. What else the house asks for (SPDX lines, links, words) is a test: crates/tidy.

set -eu

PATH="$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin"
export PATH
cd -- "$(dirname -- "$0")/.."

failed=""

# Runs the lint named $1: the rest is its command.
lint() {
    name=$1
    shift
    printf 'lint: %s\n' "$name"
    "$@" || failed="$failed $name"
}

# Passes its input on; fails where there is any.
none() {
    awk '{ print "  in " $0 } END { exit NR > 0 }'
}

c_sources() {
    for folder in bpf core fuzz module tests/guest; do
        # vmlinux*.h is a generated description of kernel types; `make fuzz` builds in fuzz/target.
        [ ! -d "$folder" ] || find "$folder" -path fuzz/target -prune -o \
            -name '*.[ch]' ! -name 'vmlinux*.h' -print
    done | sort
}

shell_sources() {
    find scripts .ci tests/guest -type f ! -name '*.list' | sort
}

clang_format() {
    c_sources | while read -r file; do
        clang-format --dry-run -Werror --style=file "$file" || echo "$file"
    done | none
}

# `sh -n` or `bash -n`, as the first line of the file says.
shell_syntax() {
    shell_sources | while read -r file; do
        case $(head -n 1 "$file") in
        '#!/bin/sh'*) sh -n "$file" || echo "$file" ;;
        '#!'*bash*) bash -n "$file" || echo "$file" ;;
        esac
    done | none
}

lint rustfmt cargo fmt --all --check
if cargo clippy --version >/dev/null 2>&1; then
    lint clippy cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
else
    echo "lint: clippy skipped: this Rust toolchain has none (Debian packages none for rustc-web)"
fi
lint clang-format clang_format
lint shell shell_syntax
if command -v shellcheck >/dev/null 2>&1; then
    # File names here have no blanks.
    # shellcheck disable=SC2046
    lint shellcheck shellcheck --severity=warning $(shell_sources)
fi

if [ -n "$failed" ]; then
    printf 'lint: failed:%s\n' "$failed" >&2
    exit 1
fi
echo "lint: clean"
