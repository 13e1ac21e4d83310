#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints what a disk in virtual time was asked for, from the records of its driver.

    reads.py RECORDS [FROM TO]

RECORDS is a copy of /sys/kernel/debug/foreread_disk/NAME of a guest. Without times: for each tenth
of a second the reads of Foreread's fetching threads and those of all others, with the time that the
others waited; then the seeks by thread. With times, in seconds of the guest's clock: each read.
"""

import collections
import struct
import sys

# struct fr_record of tests/guest/disk/foreread_disk.c
RECORD = struct.Struct("<QQQII16s")
# A gap that a head reads through: gap_limit_bytes of the model hdd.
GAP_BYTES = 256 << 10
OURS = ("fetch-device", "iou-wrk")

Read = collections.namedtuple("Read", "arrived done offset length ahead thread")


def reads(path):
    with open(path, "rb") as file:
        data = file.read()
    found = []
    for arrived, done, offset, length, ahead, name in RECORD.iter_unpack(data):
        if arrived == 0:
            break
        thread = name.split(b"\0")[0].decode(errors="replace")
        found.append(Read(arrived / 1e9, done / 1e9, offset, length, ahead, thread))
    return found


def each(found, start, end):
    for read in found:
        if start <= read.arrived < end:
            waited_ms = (read.done - read.arrived) * 1e3
            print(
                f"{read.arrived:.4f} s, {waited_ms:6.1f} ms, at {read.offset / 2**20:8.1f} MiB,"
                f" {read.length // 1024:5} KiB, {read.thread}"
            )


def summary(found):
    print(" time | ours: reads, KiB | others: reads, KiB, waited ms, longest ms")
    tenths = collections.OrderedDict()
    for read in found:
        ours, others = tenths.setdefault(int(read.arrived * 10), ([], []))
        (ours if read.thread.startswith(OURS) else others).append(read)
    for tenth, (ours, others) in tenths.items():
        size = lambda part: sum(read.length for read in part) // 1024
        waits = [(read.done - read.arrived) * 1e3 for read in others] or [0.0]
        print(
            f"{tenth / 10:5.1f} | {len(ours):4} {size(ours):6} |"
            f" {len(others):4} {size(others):6} {sum(waits):7.0f} {max(waits):6.0f}"
        )
    head = 0
    seeks = collections.Counter()
    for read in sorted(found, key=lambda read: read.done):
        if not 0 <= read.offset - head < GAP_BYTES:
            seeks[read.thread] += 1
        head = read.offset + read.length
    print("seeks:", ", ".join(f"{thread} {count}" for thread, count in seeks.most_common(12)))


def main(arguments):
    if len(arguments) not in (1, 3):
        raise SystemExit(__doc__.strip())
    found = reads(arguments[0])
    if len(arguments) == 3:
        each(found, float(arguments[1]), float(arguments[2]))
    else:
        summary(found)


if __name__ == "__main__":
    main(sys.argv[1:])
