#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Reads skips, a line each as scripts/test.sh prints them, and prints those that the list $1 doesn't
# have. A line of the list is a pattern of the shell; empty lines and lines with # are comments.

set -euo pipefail

patterns=()
while IFS= read -r line; do
    case $line in '' | '#'*) ;; *) patterns+=("$line") ;; esac
done <"$1"

while read -r skip; do
    listed=
    for pattern in "${patterns[@]}"; do
        # shellcheck disable=SC2053 # The right side is a pattern.
        if [[ $skip == $pattern ]]; then listed=1; fi
    done
    [ -n "$listed" ] || printf '%s\n' "$skip"
done
