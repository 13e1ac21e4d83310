#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# What reads of a file cost the processor, in virtual time: an instruction takes 1 ns.
#
#   cost.py FILE
#
# One line: ns of a read of 4 KiB from the cache, ns of processor time for a page that is read from the disk
# in order, and for a page that is dropped from the cache. The first is the median of 11 rounds.
import os
import sys
import time

PAGE = 4096
CACHED_READS = 1024
COLD_PAGES = 4096


def drop(file):
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def cached(file):
    """ns of a read of one page that is in memory, marks being used up."""
    rounds = []
    os.pread(file, CACHED_READS * PAGE, 0)
    for place in range(CACHED_READS):
        os.pread(file, PAGE, place * PAGE)
    buffers = [bytearray(PAGE)]
    for _ in range(11):
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for place in range(CACHED_READS):
            os.preadv(file, buffers, place * PAGE)
        rounds.append(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin)
    return sorted(rounds)[5] / CACHED_READS


def main():
    file = os.open(sys.argv[1], os.O_RDONLY)
    drop(file)
    buffers = [bytearray(32 * PAGE)]
    begin = time.process_time_ns()
    for place in range(0, COLD_PAGES, 32):
        os.preadv(file, buffers, place * PAGE)
    read = time.process_time_ns() - begin
    begin = time.process_time_ns()
    drop(file)
    dropped = time.process_time_ns() - begin
    print(round(cached(file)), round(read / COLD_PAGES), round(dropped / COLD_PAGES))


main()
