#!/usr/bin/python3
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# Random programs of reads, the same for the same seed, and what each of them asked of the disk.
#
#   readers.py DIRECTORY SEED PROGRAMS [PAUSE_MS [NUMBER...]]
#
# Makes files in DIRECTORY where there are none yet. A program is some 10 to 60 reads of one file:
# in order, in steps, downward, several streams in turns, at random, or all of that; by one or
# several descriptors, with and without advice, by read(2) and through a mapping. Before each program
# the file's pages are dropped, and the reader sleeps for PAUSE_MS. With NUMBERs only these programs are run. A line
# for each program: its number, the disk's reads and sectors.
import mmap
import os
import random
import sys
import time

PAGE = 4096
SIZES = [1, 3, 17, 64, 333, 1000, 2048, 4000]  # pages
SHAPES = ["order", "steps", "down", "turns", "random", "mixed", "mapped"]


class Disk:
    """The counters of the disk below a directory."""

    def __init__(self, directory):
        number = os.stat(directory).st_dev
        self.folder = f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"

    def counts(self):
        """Reads and sectors, once nothing is in flight."""
        while True:
            with open(f"{self.folder}/inflight", encoding="ascii") as file:
                if file.read().split() == ["0", "0"]:
                    break
            time.sleep(0.0005)
        with open(f"{self.folder}/stat", encoding="ascii") as file:
            fields = file.read().split()
        return int(fields[0]), int(fields[2])


def make_files(directory):
    for number, pages in enumerate(SIZES):
        path = f"{directory}/reads-{number}"
        if not os.path.exists(path):
            with open(path, "wb") as file:
                # The last page is cut.
                for _ in range(pages):
                    file.write(os.urandom(PAGE))
                file.truncate(pages * PAGE - 100)
    os.sync()


def drop(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)


def lengths(chance):
    """The bytes of a read: small ones more often."""
    return chance.choice([1, 100, PAGE, PAGE, 2 * PAGE, 3 * PAGE, 16 * PAGE, 32 * PAGE, 150 * PAGE])


def places(chance, shape, size, count):
    """(place, length) of each read."""
    length = lengths(chance)
    at = chance.choice([0, 0, chance.randrange(size)])
    if shape == "order":
        for number in range(count):
            yield at + number * length, length
    elif shape == "steps":
        step = length + chance.choice([1, 2, 3, 8, 40]) * PAGE
        for number in range(count):
            yield at + number * step, length
    elif shape == "down":
        at = chance.choice([size, at])
        for number in range(1, count + 1):
            yield max(at - number * length, 0), length
    elif shape == "turns":
        streams = [chance.randrange(size) for _ in range(chance.choice([2, 3, 5]))]
        for number in range(count):
            which = number % len(streams)
            yield streams[which], length
            streams[which] += length
    elif shape == "random":
        for _ in range(count):
            yield chance.randrange(size), lengths(chance)
    else:
        for _ in range(count):
            at = chance.choice([at, at, at, chance.randrange(size)])
            length = lengths(chance)
            yield at, length
            at += length


def advise(chance, file):
    advice = chance.choice(
        [None] * 6 + [os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_RANDOM, os.POSIX_FADV_NORMAL]
    )
    if advice is not None:
        os.posix_fadvise(file, 0, 0, advice)


def touch(chance, path, size, count):
    """Faults of a mapping, in order or at random, with and without advice."""
    file = os.open(path, os.O_RDONLY)
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as mapping:
        advice = chance.choice([None, mmap.MADV_SEQUENTIAL, mmap.MADV_RANDOM])
        if advice is not None:
            mapping.madvise(advice)
        at = chance.randrange(size)
        for _ in range(count):
            mapping[at % size]
            at = chance.choice([at + PAGE, at + PAGE, chance.randrange(size)])
    os.close(file)


def run(chance, path):
    size = os.stat(path).st_size
    count = chance.randrange(10, 60)
    shape = chance.choice(SHAPES)
    if shape == "mapped":
        touch(chance, path, size, count)
        return
    files = [os.open(path, os.O_RDONLY) for _ in range(chance.choice([1, 1, 1, 2]))]
    advise(chance, files[0])
    for place, length in places(chance, shape, size, count):
        os.pread(chance.choice(files), length, place)
    for file in files:
        os.close(file)


def main():
    directory, seed, programs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pause_ms = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    numbers = [int(number) for number in sys.argv[5:]] or range(programs)
    make_files(directory)
    disk = Disk(directory)
    # Metadata comes from the disk once.
    for number, pages in enumerate(SIZES):
        file = os.open(f"{directory}/reads-{number}", os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
        for page in (0, pages // 2, pages - 1):
            os.pread(file, 1, page * PAGE)
        os.close(file)
    for number in numbers:
        chance = random.Random(seed * 1000003 + number)
        path = f"{directory}/reads-{chance.randrange(len(SIZES))}"
        drop(path)
        time.sleep(pause_ms / 1000)
        before = disk.counts()
        run(chance, path)
        after = disk.counts()
        print(number, after[0] - before[0], after[1] - before[1])


if __name__ == "__main__":
    main()
