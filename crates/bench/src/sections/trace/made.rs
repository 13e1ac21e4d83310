// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces made up in each format: threads that read files of a source tree, partly in order.

use std::io::{self, Write};

/// Files that are read.
const FILES: u64 = 10_000;
/// Reads of a file one after another.
const RUN: u64 = 8;

/// A read, told by its number alone.
struct Made {
    time_us: u64,
    pid: u64,
    file: u64,
    offset_bytes: u64,
    length_bytes: u64,
}

impl Made {
    fn new(number: u64) -> Self {
        // Spread, so that it doesn't compress to nothing.
        let noise = (number / RUN + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let length_bytes = 4096 << (noise >> 60 & 3);
        Self {
            time_us: number * 25,
            pid: 4000 + noise % 16,
            file: (noise >> 20) % FILES,
            offset_bytes: (noise >> 40 & 0xfff) * 4096 + number % RUN * length_bytes,
            length_bytes,
        }
    }

    fn path(&self) -> String {
        let file = self.file;
        format!("/srv/project/part_{:03x}/source_{file:04x}.c", file / 20)
    }
}

/// How a format is made up.
pub struct Format {
    pub name: &'static str,
    first: &'static str,
    record: fn(&mut dyn Write, u64) -> io::Result<()>,
}

pub const FIO_V3: Format = Format {
    name: "fio iolog v3",
    first: "fio version 3 iolog\n",
    record: fio,
};

pub const FORMATS: [Format; 6] = [
    Format {
        name: "fio iolog v2",
        first: "fio version 2 iolog\n",
        record: fio_v2,
    },
    FIO_V3,
    Format {
        name: "strace -f -ttt -T",
        first: "",
        record: strace,
    },
    Format {
        name: "blkparse",
        first: "",
        record: blkparse,
    },
    Format {
        name: "JuiceFS access log",
        first: "",
        record: juicefs,
    },
    Format {
        name: "oracleGeneral",
        first: "",
        record: oracle_general,
    },
];

impl Format {
    /// Writes `records` records.
    pub fn write(&self, out: &mut dyn Write, records: u64) -> io::Result<()> {
        out.write_all(self.first.as_bytes())?;
        (0..records).try_for_each(|number| (self.record)(out, number))
    }

    /// Writes records until there are `bytes` bytes.
    pub fn write_bytes(&self, out: &mut dyn Write, bytes: u64) -> io::Result<u64> {
        out.write_all(self.first.as_bytes())?;
        let mut counted = Counted { out, bytes: 0 };
        let mut records = 0;
        while counted.bytes < bytes {
            (self.record)(&mut counted, records)?;
            records += 1;
        }
        counted.out.flush()?;
        Ok(records)
    }
}

struct Counted<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Without times.
fn fio_v2(out: &mut dyn Write, number: u64) -> io::Result<()> {
    let made = Made::new(number);
    let (offset, length) = (made.offset_bytes, made.length_bytes);
    writeln!(out, "{} read {offset} {length}", made.path())
}

fn fio(out: &mut dyn Write, number: u64) -> io::Result<()> {
    let made = Made::new(number);
    let (offset, length) = (made.offset_bytes, made.length_bytes);
    writeln!(
        out,
        "{} {} read {offset} {length}",
        made.time_us,
        made.path()
    )
}

/// Each file is opened, read several times, and closed.
fn strace(out: &mut dyn Write, number: u64) -> io::Result<()> {
    let made = Made::new(number);
    let time_s = 1_700_000_000 + made.time_us / 1_000_000;
    write!(
        out,
        "{}  {time_s}.{:06} ",
        made.pid,
        made.time_us % 1_000_000
    )?;
    let length = made.length_bytes;
    match number % RUN {
        0 => {
            let path = made.path();
            writeln!(
                out,
                "openat(AT_FDCWD, \"{path}\", O_RDONLY|O_CLOEXEC) = 3 <0.000012>"
            )
        }
        7 => writeln!(out, "close(3)                = 0 <0.000004>"),
        6 => writeln!(
            out,
            "pread64(3, \"int main\"..., {length}, 65536) = {length} <0.000031>"
        ),
        _ => writeln!(
            out,
            "read(3, \"\\t/* \\\"x\\\" */\\n\"..., {length}) = {length} <0.000031>"
        ),
    }
}

/// Each request is queued, issued and completed.
fn blkparse(out: &mut dyn Write, number: u64) -> io::Result<()> {
    let made = Made::new(number / 3);
    let time_us = made.time_us + number % 3 * 8;
    let steps = [(made.pid, 'Q', "cc"), (made.pid, 'D', "cc"), (0, 'C', "0")];
    let (pid, action, last) = steps[(number % 3) as usize];
    let sectors = made.length_bytes / 512;
    let sector = made.file * 65_536 + made.offset_bytes / 512;
    let (time_s, below) = (time_us / 1_000_000, time_us % 1_000_000);
    writeln!(
        out,
        "  8,16   1 {number:8} {time_s:5}.{below:06}000 {pid:5}  {action}   R {sector} + {sectors} \
         [{last}]"
    )
}

fn juicefs(out: &mut dyn Write, number: u64) -> io::Result<()> {
    let made = Made::new(number);
    let (time_s, below) = (made.time_us / 1_000_000, made.time_us % 1_000_000);
    let (hours, minutes, seconds) = (time_s / 3600 % 24, time_s / 60 % 60, time_s % 60);
    let (inode, length, offset) = (made.file + 2, made.length_bytes, made.offset_bytes);
    writeln!(
        out,
        "2021.01.15 {hours:02}:{minutes:02}:{seconds:02}.{below:06} [uid:0,gid:0,pid:{}] read \
         ({inode},{length},{offset},7): OK ({length}) <0.000123>",
        made.pid
    )
}

fn oracle_general(out: &mut dyn Write, number: u64) -> io::Result<()> {
    let made = Made::new(number);
    let mut record = [0; 24];
    let time_s = (made.time_us / 1_000_000) as u32;
    record[..4].copy_from_slice(&time_s.to_le_bytes());
    record[4..12].copy_from_slice(&made.file.to_le_bytes());
    record[12..16].copy_from_slice(&(made.length_bytes as u32).to_le_bytes());
    record[16..].copy_from_slice(&(-1_i64).to_le_bytes());
    out.write_all(&record)
}
