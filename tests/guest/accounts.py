#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Random programs of reads, and whether the module's account of their pages is right.
#
#   accounts.py DIRECTORY STAT SEED PROGRAMS [exact] [declines]
#
# DIRECTORY has the files of readers.py; STAT is the file of that name of its device in sysfs. Before and
# behind each program the file's pages are dropped. What the program read is known here, and mincore(2)
# tells what lies in memory. So it is known what the module has to come to: pages that were
# fetched, used, and left memory unused. That holds for each page with `exact`, where folios have one page. Of a larger
# folio all pages count as used when one was. `declines`: the policy leaves some misses to the kernel, which then reads
# the missing page alone; the module has not fetched it.
#
# A line for each program: its number, `right` or what is wrong.
import ctypes
import mmap
import os
import random
import sys
import time

from readers import PAGE, SIZES, advise, drop, make_files, places

SHAPES = ["order", "steps", "down", "turns", "random", "mixed"]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


class Account:
    """The counters of a device, once nothing is in flight."""

    def __init__(self, path):
        for _ in range(1000):
            with open(path, encoding="ascii") as file:
                pairs = (line.split() for line in file)
                self.counts = {name: int(count) for name, count in pairs}
            if self["in_flight"] == 0:
                break
            time.sleep(0.005)

    def __getitem__(self, name):
        return self.counts[f"{name}_pages"]

    @property
    def used(self):
        return self["used_on_time"] + self["used_late"]

    @property
    def held(self):
        return self["resident_unused"] + self["in_flight"]

    def adds_up(self):
        return self["fetched"] == self.used + self["wasted"] + self["unknown"] + self.held


def resident(path):
    """Which pages of a file are in memory."""
    size = os.stat(path).st_size
    file = os.open(path, os.O_RDONLY)
    address = LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    pages = (size + PAGE - 1) // PAGE
    answer = ctypes.create_string_buffer(pages)
    LIBC.mincore(address, size, answer)
    LIBC.munmap(address, size)
    os.close(file)
    return {number for number in range(pages) if answer.raw[number] & 1}


def run(chance, path):
    """Reads, and returns the pages that were read."""
    size = os.stat(path).st_size
    files = [os.open(path, os.O_RDONLY) for _ in range(chance.choice([1, 1, 1, 2]))]
    advise(chance, files[0])
    pages = set()
    for place, length in places(chance, chance.choice(SHAPES), size, chance.randrange(10, 60)):
        got = len(os.pread(chance.choice(files), length, place))
        if got:
            pages.update(range(place // PAGE, (place + got - 1) // PAGE + 1))
    for file in files:
        os.close(file)
    return pages


def faults(before, during, after, in_memory, read, words):
    """What is wrong with the accounts of one program."""
    fetched = during["fetched"] - before["fetched"]
    misses = during.counts["sync"] - before.counts["sync"]
    # The classic LRU makes a page active by and by: until then its use does not show.
    if during.used - before.used > fetched:
        yield f"used {during.used - before.used} of {fetched}"
    used = after.used - before.used
    wasted = after["wasted"] - before["wasted"]
    for moment, account in (("before", before), ("during", during), ("after", after)):
        if not account.adds_up():
            yield f"{moment}: {account.counts}"
    if after["unknown"] != before["unknown"]:
        yield f"unknown {after['unknown'] - before['unknown']}"
    declined = len(in_memory) - fetched if "declines" in words else 0
    if fetched + declined != len(in_memory) or not 0 <= declined <= misses:
        yield f"fetched {fetched} of {len(in_memory)}"
    if not read <= in_memory:
        yield f"{len(read - in_memory)} pages were read and are gone"
    expected = len(read) - declined
    if used < expected or ("exact" in words and used != expected):
        yield f"used {used} of {expected}"
    late = after["used_late"] - before["used_late"]
    late_most = misses + during.counts["waits"] - before.counts["waits"]
    if late > late_most or (fetched and late == 0):
        yield f"late {late} of {late_most}"
    if wasted != fetched - used:
        yield f"wasted {wasted} of {fetched - used}"
    if after.held != before.held:
        yield f"held {after.held}, before {before.held}"


def main():
    directory, stat, seed, programs = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    words = sys.argv[5:]
    make_files(directory)
    for number in range(programs):
        chance = random.Random(seed * 1000003 + number)
        path = f"{directory}/reads-{chance.randrange(len(SIZES))}"
        drop(path)
        before = Account(stat)
        read = run(chance, path)
        during = Account(stat)
        in_memory = resident(path)
        drop(path)
        after = Account(stat)
        wrong = "; ".join(faults(before, during, after, in_memory, read, words))
        print(number, wrong or "right")


main()
