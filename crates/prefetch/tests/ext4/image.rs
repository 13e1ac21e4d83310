// SPDX-License-Identifier: MIT OR Apache-2.0
//! Images of file systems, made and examined by e2fsprogs. Neither root nor a mount is needed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use foreread_prefetch::ext4::{BlockReadError, BlockSource, FileExtent};
use tempfile::TempDir;

/// Whether images can be made here; says why not.
pub fn have_e2fsprogs() -> bool {
    for tool in ["mke2fs", "debugfs"] {
        let mut command = Command::new(tool);
        command
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let found = command.status().is_ok_and(|status| status.success());
        if !found {
            println!("skipped: {tool} (package e2fsprogs) is missing");
            return false;
        }
    }
    true
}

/// Runs a tool and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?} failed:\n{printed}\n{complaints}"
    );
    printed
}

/// A tree of files to put on an image.
pub struct Tree {
    root: PathBuf,
    /// Every path, relative, `""` for the root.
    pub paths: Vec<String>,
}

impl Tree {
    pub fn new(root: PathBuf) -> Self {
        fs::create_dir(&root).unwrap();
        Self {
            root,
            paths: vec![String::new()],
        }
    }

    pub fn on_host(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub fn directory(&mut self, path: &str) {
        fs::create_dir(self.on_host(path)).unwrap();
        self.paths.push(path.into());
    }

    pub fn symlink(&mut self, path: &str, target: &str) {
        symlink(target, self.on_host(path)).unwrap();
        self.paths.push(path.into());
    }

    pub fn file(&mut self, path: &str, length: usize) {
        fs::write(self.on_host(path), noise(length, path.len() as u64)).unwrap();
        self.paths.push(path.into());
    }

    /// A file of `pieces` blocks of 4 KiB, each followed by a hole of `hole_bytes`.
    pub fn file_with_holes(&mut self, path: &str, pieces: u64, hole_bytes: u64) {
        let file = File::create(self.on_host(path)).unwrap();
        for piece in 0..pieces {
            let block = noise(4096, piece + 1);
            file.write_all_at(&block, piece * (4096 + hole_bytes))
                .unwrap();
        }
        file.set_len(pieces * (4096 + hole_bytes)).unwrap();
        self.paths.push(path.into());
    }
}

/// Bytes that differ from place to place and are never all zero in a block.
fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8 | 1
    };
    (0..length).map(|_| next()).collect()
}

/// An image of a file system in a temporary directory.
pub struct Image {
    path: PathBuf,
    file: File,
}

impl Image {
    /// Makes a file system with `options` of mke2fs, filled from `tree`.
    pub fn make(directory: &TempDir, tree: &Tree, options: &[&str], size_mib: u64) -> Self {
        let path = directory.path().join("image");
        File::create(&path)
            .unwrap()
            .set_len(size_mib << 20)
            .unwrap();
        let mut command = Command::new("mke2fs");
        command
            .args(["-q", "-F", "-d"])
            .arg(&tree.root)
            .args(options)
            .arg(&path);
        run(&mut command);
        let file = File::open(&path).unwrap();
        Self { path, file }
    }

    /// All of it.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Changes the file system by commands of debugfs.
    pub fn change(&self, commands: &[String]) {
        self.debugfs(&["-w"], commands);
    }

    /// Asks debugfs; one answer a question.
    pub fn ask(&self, questions: &[String]) -> Vec<String> {
        let printed = self.debugfs(&[], questions);
        let answers: Vec<_> = printed
            .split("debugfs: ")
            .skip(1)
            .map(String::from)
            .collect();
        assert_eq!(answers.len(), questions.len(), "{printed}");
        answers
    }

    fn debugfs(&self, options: &[&str], commands: &[String]) -> String {
        let script = self.path.with_extension("commands");
        fs::write(&script, commands.join("\n") + "\n").unwrap();
        let mut command = Command::new("debugfs");
        // The pager would wait for a person.
        command
            .env("DEBUGFS_PAGER", "__none__")
            .arg("-f")
            .arg(&script)
            .args(options);
        run(command.arg(&self.path))
    }

    /// Output of debugfs for each path.
    pub fn stat(&self, paths: &[String]) -> HashMap<String, Stat> {
        let questions: Vec<_> = paths
            .iter()
            .map(|path| format!("stat \"/{path}\""))
            .collect();
        let answers = self.ask(&questions);
        paths
            .iter()
            .cloned()
            .zip(answers.iter().map(|answer| Stat::parse(answer)))
            .collect()
    }

    /// Block and offset in it of each inode, according to debugfs.
    pub fn inode_places(&self, inodes: &[u64]) -> Vec<(u64, u64)> {
        let questions: Vec<_> = inodes
            .iter()
            .map(|inode| format!("imap <{inode}>"))
            .collect();
        let place = |answer: &String| {
            let offset = word_after(answer, "offset 0x");
            (
                number_after(answer, "at block "),
                u64::from_str_radix(offset, 16).unwrap(),
            )
        };
        self.ask(&questions).iter().map(place).collect()
    }
}

impl BlockSource for &Image {
    fn read_at(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), BlockReadError> {
        let read = self.file.read_exact_at(buffer, offset_bytes);
        read.map_err(|error| BlockReadError {
            offset_bytes,
            length_bytes: buffer.len() as u64,
            reason: error.to_string(),
        })
    }
}

/// Output of debugfs for one inode.
#[derive(Debug)]
pub struct Stat {
    pub inode: u64,
    pub kind: String,
    pub mode: u16,
    pub flags: u32,
    pub generation: u32,
    pub size_bytes: u64,
    pub links: u16,
    pub xattr_block: u64,
    pub mtime_s: u64,
    pub fast_link: bool,
    pub inline: bool,
    pub extents: Vec<FileExtent>,
    /// Blocks of the map itself.
    pub nodes: Vec<u64>,
}

impl Stat {
    fn parse(answer: &str) -> Self {
        let mut extents = Vec::new();
        let mut nodes = Vec::new();
        for (label, blocks) in map_entries(answer) {
            match extent(label, blocks) {
                Some(extent) => extents.push(extent),
                None => nodes.push(blocks.parse().unwrap()),
            }
        }
        let hex = |label| u32::from_str_radix(word_after(answer, label), 16).unwrap();
        Self {
            inode: number_after(answer, "Inode: "),
            kind: word_after(answer, "Type: ").into(),
            mode: u16::from_str_radix(word_after(answer, "Mode: "), 8).unwrap(),
            flags: hex("Flags: 0x"),
            generation: number_after(answer, "Generation: ") as u32,
            size_bytes: number_after(answer, "Size: "),
            links: number_after(answer, "Links: ") as u16,
            xattr_block: number_after(answer, "File ACL: "),
            mtime_s: u64::from(hex("mtime: 0x")),
            fast_link: answer.contains("Fast link dest:"),
            inline: answer.contains("Size of inline data:"),
            extents: joined(extents),
            nodes,
        }
    }
}

/// Label and blocks of every `(label):blocks` of a stat.
fn map_entries(answer: &str) -> impl Iterator<Item = (&str, &str)> {
    let start = ["\nEXTENTS:\n", "\nBLOCKS:\n"]
        .iter()
        .find_map(|heading| answer.find(heading).map(|at| at + heading.len()));
    let map = start.map_or("", |start| &answer[start..]);
    map.split('(').skip(1).map(|entry| {
        let (label, blocks) = entry.split_once("):").unwrap();
        let end = blocks
            .find(|c: char| !c.is_ascii_digit() && c != '-')
            .unwrap_or(blocks.len());
        (label, &blocks[..end])
    })
}

/// From `0-3[u]` and `100-103`; nothing for nodes, such as `ETB0` and `DIND`.
fn extent(label: &str, blocks: &str) -> Option<FileExtent> {
    let span = |text: &str| -> Option<(u64, u64)> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    let (first, last) = span(label.trim_end_matches("[u]"))?;
    Some(FileExtent {
        logical_block: first as u32,
        length_blocks: (last - first + 1) as u32,
        physical_block: span(blocks)?.0,
        unwritten: label.ends_with("[u]"),
    })
}

/// Joins extents that continue in the file and on the device: debugfs, the format and this reader
/// split long runs at different places.
pub fn joined(extents: impl IntoIterator<Item = FileExtent>) -> Vec<FileExtent> {
    let mut joined: Vec<FileExtent> = Vec::new();
    for extent in extents {
        match joined.last_mut() {
            Some(last)
                if last.logical_end() == u64::from(extent.logical_block)
                    && last.physical_block + u64::from(last.length_blocks)
                        == extent.physical_block
                    && last.unwritten == extent.unwritten =>
            {
                last.length_blocks += extent.length_blocks;
            }
            _ => joined.push(extent),
        }
    }
    joined
}

fn word_after<'a>(text: &'a str, label: &str) -> &'a str {
    let start = text
        .find(label)
        .unwrap_or_else(|| panic!("no {label:?} in {text}"))
        + label.len();
    let word = text[start..].trim_start();
    &word[..word
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(word.len())]
}

fn number_after(text: &str, label: &str) -> u64 {
    word_after(text, label).parse().unwrap()
}

/// Reads a host file, or the target of a symbolic link.
pub fn host_content(path: &Path) -> Vec<u8> {
    match fs::symlink_metadata(path).unwrap().is_symlink() {
        true => fs::read_link(path)
            .unwrap()
            .into_os_string()
            .into_encoded_bytes(),
        false => fs::read(path).unwrap(),
    }
}
