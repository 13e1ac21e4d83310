// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes cpio archives of the form that the kernel unpacks as its initial root ("newc").

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
/// Every header and every file begins at a multiple of this.
const ALIGN_BYTES: usize = 4;
const TRAILER: &str = "TRAILER!!!";

/// An archive under way. Owners are root and times 0, so that the same files give the same bytes.
pub(crate) struct Archive<W: Write> {
    out: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, entries: 0 }
    }

    pub(crate) fn directory(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, DIRECTORY | 0o755, &[])
    }

    pub(crate) fn file(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.entry(name, REGULAR | 0o755, content)
    }

    /// Writes the last entry and returns the output of the archive.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.entries = 0;
        self.entry(TRAILER, 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let too_large = |_| io::Error::other(format!("{name} is too large for a cpio archive"));
        let size_bytes = u32::try_from(content.len()).map_err(too_large)?;
        let name_bytes = u32::try_from(name.len() + 1).map_err(too_large)?;
        self.entries += 1;
        // Inode, mode, user, group, links, time, size, device of file, device in file, length of
        // the name, checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size_bytes,
            0,
            0,
            0,
            0,
            name_bytes,
            0,
        ];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08X}"));
        }
        let header_bytes = header.len() + name.len() + 1;
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(header_bytes)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, written_bytes: usize) -> io::Result<()> {
        let rest = written_bytes.next_multiple_of(ALIGN_BYTES) - written_bytes;
        self.out.write_all(&[0; ALIGN_BYTES][..rest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn archive() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.directory("x").unwrap();
        archive.file("x/a", b"hello").unwrap();
        archive.file("x/empty", b"").unwrap();
        archive.finish().unwrap()
    }

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let bytes = archive();
        assert_eq!(bytes.len() % ALIGN_BYTES, 0);
        let magic = |at: &usize| bytes[*at..].starts_with(b"070701");
        let starts: Vec<usize> = (0..bytes.len()).filter(magic).collect();
        assert_eq!(starts.len(), 4, "three entries and the trailer");
        assert!(starts.iter().all(|at| at % ALIGN_BYTES == 0));
    }

    #[test]
    fn cpio_lists_what_was_put_in() {
        let cpio = Command::new("cpio")
            .args(["-t", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut cpio) = cpio else {
            println!("skipped: cpio is not installed");
            return;
        };
        cpio.stdin.take().unwrap().write_all(&archive()).unwrap();
        let listed = cpio.wait_with_output().unwrap();
        assert!(listed.status.success());
        assert_eq!(String::from_utf8_lossy(&listed.stdout), "x\nx/a\nx/empty\n");
    }
}
