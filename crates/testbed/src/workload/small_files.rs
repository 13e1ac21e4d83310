// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of small text files, like a program's source.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::random::Random;
use crate::error::TestbedError;

/// The files of the tree that results are given for.
pub const SMALL_FILES: usize = 8_000;
/// Their bytes. With the rest of each last block, and with metadata, ext4 reads 139 MB for them.
pub const SMALL_FILES_BYTES: u64 = 117_500_000;
/// Occurs in no file: they hold no capital letters.
pub const ABSENT_PATTERN: &str = "NOWHERE";

/// How unlike the sizes are: as among the files of large source trees.
const SIZE_DEVIATION: f64 = 1.2;
const FILES_PER_DIRECTORY: usize = 12;
const DEPTH_MAX: usize = 7;

const WORDS: [&str; 48] = [
    "access",
    "buffer",
    "cache",
    "device",
    "entry",
    "folio",
    "group",
    "header",
    "index",
    "journal",
    "kernel",
    "length",
    "marker",
    "number",
    "offset",
    "page",
    "queue",
    "readahead",
    "sector",
    "thread",
    "user",
    "value",
    "window",
    "yield",
    "alloc",
    "block",
    "count",
    "drain",
    "extent",
    "fault",
    "grow",
    "hash",
    "inode",
    "join",
    "keep",
    "lock",
    "mount",
    "next",
    "order",
    "path",
    "quota",
    "return",
    "size",
    "table",
    "unit",
    "vector",
    "write",
    "zone",
];

/// Makes `files` text files of `total_bytes` together in nested directories under `directory`,
/// which must not exist. The same arguments give the same tree.
///
/// # Errors
/// The file system is full, or refuses something.
pub fn small_files(
    directory: &Path,
    files: usize,
    total_bytes: u64,
    seed: u64,
) -> Result<(), TestbedError> {
    make(directory, files, total_bytes, seed).map_err(TestbedError::system(format!(
        "fill {}",
        directory.display()
    )))
}

fn make(directory: &Path, files: usize, total_bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut random = Random::new(seed);
    let directories = directory_names(&mut random, files.div_ceil(FILES_PER_DIRECTORY));
    let sizes = sizes(&mut random, files, total_bytes);
    let mut paths: Vec<PathBuf> = (0..files)
        .map(|number| {
            let parent = &directories[random.below(directories.len())];
            parent.join(format!("{}-{number}.c", WORDS[random.below(WORDS.len())]))
        })
        .collect();
    // As a checkout or an unpacked archive makes them: directory by directory.
    paths.sort();
    fs::create_dir(directory)?;
    for relative in &directories {
        fs::create_dir_all(directory.join(relative))?;
    }
    for (path, size_bytes) in paths.iter().zip(sizes) {
        let mut file = BufWriter::with_capacity(64 << 10, File::create(directory.join(path))?);
        write_text(&mut file, size_bytes, &mut random)?;
        file.flush()?;
    }
    Ok(())
}

/// Relative paths of nested directories, parents before children.
fn directory_names(random: &mut Random, count: usize) -> Vec<PathBuf> {
    let mut directories = vec![PathBuf::new()];
    while directories.len() < count {
        let parent = &directories[random.below(directories.len())];
        if parent.components().count() < DEPTH_MAX {
            let name = format!("{}{}", WORDS[random.below(WORDS.len())], directories.len());
            directories.push(parent.join(name));
        }
    }
    directories
}

/// Sizes of log-normal distribution that add up to `total_bytes`.
fn sizes(random: &mut Random, files: usize, total_bytes: u64) -> Vec<u64> {
    let weights: Vec<f64> = (0..files)
        .map(|_| random.log_normal(SIZE_DEVIATION))
        .collect();
    let weight_of_all: f64 = weights.iter().sum();
    let share = |weight: &f64| (weight / weight_of_all * total_bytes as f64) as u64;
    let mut sizes: Vec<u64> = weights.iter().map(share).collect();
    let given_bytes: u64 = sizes.iter().sum();
    if let Some(last) = sizes.last_mut() {
        *last += total_bytes.saturating_sub(given_bytes);
    }
    sizes
}

fn write_text(out: &mut impl Write, size_bytes: u64, random: &mut Random) -> std::io::Result<()> {
    let mut left = usize::try_from(size_bytes).unwrap_or(usize::MAX);
    let mut column = 0;
    while left > 0 {
        let word = WORDS[random.below(WORDS.len())].as_bytes();
        let word = &word[..word.len().min(left)];
        out.write_all(word)?;
        left -= word.len();
        column += word.len() + 1;
        if left > 0 {
            out.write_all(if column > 80 { b"\n" } else { b" " })?;
            left -= 1;
        }
        column %= 81;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::files_below;

    /// Paths and contents, in order.
    fn listing(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let named = |file: PathBuf| {
            let bytes = fs::read(&file).unwrap();
            (file.strip_prefix(directory).unwrap().to_owned(), bytes)
        };
        let files = files_below(directory).unwrap();
        files.into_iter().map(named).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_tree() {
        let scratch = tempfile::tempdir().unwrap();
        for (name, seed) in [("a", 1), ("b", 1), ("c", 2)] {
            small_files(&scratch.path().join(name), 300, 2_000_000, seed).unwrap();
        }
        let [a, b, c] = ["a", "b", "c"].map(|name| listing(&scratch.path().join(name)));
        assert!(a == b, "one seed, two trees");
        assert!(a != c, "two seeds, one tree");
        assert_eq!(a.len(), 300);
        assert_eq!(a.iter().map(|file| file.1.len()).sum::<usize>(), 2_000_000);
        assert!(
            a.iter().any(|file| file.0.components().count() > 3),
            "a flat tree"
        );
        assert!(
            a.iter()
                .all(|file| !String::from_utf8_lossy(&file.1).contains(ABSENT_PATTERN))
        );
    }
}
