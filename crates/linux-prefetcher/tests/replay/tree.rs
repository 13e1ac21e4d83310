// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees, profiles of them, and what of them is in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use foreread_profile::{
    Identity, NodeId, NodeKind, PAGE_BYTES, Profile, ProfileBuilder, Program, Source, Uses,
};
use foreread_testbed::workload::files_below;

/// About 9 MB in `files` files of all sizes in nested directories, and one of each special kind:
/// empty, with a hole, large, a symlink, long names.
pub fn make(top: &Path, files: u32) {
    for at in 0..files {
        let directory = top.join(format!("d{}/e{}", at % 7, at % 23));
        fs::create_dir_all(&directory).unwrap();
        // From a few bytes to 100 KB, most of them small.
        let length = 10 + u64::from(at) * 7919 % 20_000 * (1 + u64::from(at % 13 / 12) * 4);
        write(&directory.join(format!("file-{at}")), length);
    }
    let special = top.join("special");
    fs::create_dir(&special).unwrap();
    write(&special.join("empty"), 0);
    write(&special.join("large"), 3_000_001);
    write(&special.join("x".repeat(255)), 5000);
    let hole = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(special.join("hole"))
        .unwrap();
    hole.write_all_at(&[1; 8192], 0).unwrap();
    hole.write_all_at(&[2; 8192], 400 * PAGE_BYTES).unwrap();
    symlink("large", special.join("link")).unwrap();
    File::open(top).unwrap().sync_all().unwrap();
}

/// Writes a file of `length_bytes` bytes, each unlike its neighbours.
pub fn write(path: &Path, length_bytes: u64) {
    let bytes = (0..length_bytes).map(|at| (at % 251) as u8);
    let mut file = File::create(path).unwrap();
    file.write_all(&bytes.collect::<Vec<_>>()).unwrap();
    file.sync_all().unwrap();
}

/// Pages of a tree that a program needs: page ranges by file, in order of need.
pub type Needs = Vec<(PathBuf, Vec<(u64, u64)>)>;

/// Every page of every file.
pub fn everything(top: &Path) -> Needs {
    let whole = |path: PathBuf| {
        let pages = fs::metadata(&path).unwrap().len().div_ceil(PAGE_BYTES);
        (path, if pages > 0 { vec![(0, pages)] } else { vec![] })
    };
    files_below(top).unwrap().into_iter().map(whole).collect()
}

/// Some pages of some files, others of others; nothing of every fifth.
pub fn something(top: &Path) -> Needs {
    let some = |(at, (path, whole)): (usize, (PathBuf, Vec<(u64, u64)>))| {
        let pages = whole.first().map_or(0, |(_, pages)| *pages);
        let ranges = match at % 5 {
            0 => vec![],
            1 => whole,
            2 => vec![(0, 1)],
            3 => vec![(pages / 2, pages - pages / 2)],
            _ => vec![(0, pages / 4), (pages / 2, 1), (pages.max(3) - 1, 1)],
        };
        let inside = |(start, length): &(u64, u64)| *length > 0 && start + length <= pages;
        (path, ranges.into_iter().filter(inside).collect())
    };
    everything(top).into_iter().enumerate().map(some).collect()
}

/// A profile of a tree as a recorder makes it: everything looked at, directories listed, and the
/// pages given, a millisecond after one another. `below` is where the file system is mounted.
pub fn profile(below: &Path, top: &Path, needs: &Needs) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    let mut directories = vec![top.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                directories.push(path.clone());
            }
            add(&mut builder, &path);
        }
    }
    for path in top.ancestors().take_while(|path| path.starts_with(below)) {
        add(&mut builder, path);
    }
    for ((path, ranges), at) in needs.iter().zip(0..) {
        let id = builder.node(path.as_os_str().as_bytes()).unwrap();
        for (start, pages) in ranges {
            builder.pages(id, *start, *pages, at * 1_000_000);
        }
    }
    let profile = builder.finish();
    profile.validate().unwrap();
    profile
}

/// A node with its identity as of now.
fn add(builder: &mut ProfileBuilder, path: &Path) -> NodeId {
    let metadata = fs::symlink_metadata(path).unwrap();
    let id = builder.node(path.as_os_str().as_bytes()).unwrap();
    let (kind, uses) = match metadata.file_type() {
        t if t.is_dir() => (NodeKind::Directory, Uses::LISTED),
        t if t.is_symlink() => (NodeKind::Symlink, Uses::STATTED),
        _ => (NodeKind::File, Uses::READ),
    };
    builder.set_kind(id, kind);
    builder.used(id, uses, 0);
    let generation = if kind == NodeKind::Symlink {
        0
    } else {
        generation(path)
    };
    builder.set_identity(
        id,
        Identity {
            inode: metadata.ino(),
            generation,
            size_bytes: metadata.len(),
            mtime_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
        },
    );
    id
}

/// The inode's generation; 0 where the file system has none to tell.
fn generation(path: &Path) -> u32 {
    const FS_IOC_GETVERSION: libc::c_ulong = 0x8008_7601;
    let file = File::open(path).unwrap();
    let mut generation = 0_u64;
    // SAFETY: the call writes an `int` or a `long` to a `u64` that outlives it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) };
    if result < 0 { 0 } else { generation as u32 }
}

/// Which pages of a file are in memory. It asks mincore, for the replay asks cachestat.
pub fn resident(path: &Path) -> Vec<u64> {
    let file = File::open(path).unwrap();
    let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
    if length == 0 {
        return Vec::new();
    }
    let mut pages = vec![0_u8; length.div_ceil(PAGE_BYTES as usize)];
    // SAFETY: maps a file without touching it, asks about all of the mapping with room for the
    // answer, and unmaps it.
    let asked = unsafe {
        let protection = (libc::PROT_READ, libc::MAP_SHARED);
        let fd = file.as_raw_fd();
        let map = libc::mmap(
            std::ptr::null_mut(),
            length,
            protection.0,
            protection.1,
            fd,
            0,
        );
        assert_ne!(map, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let asked = libc::mincore(map, length, pages.as_mut_ptr());
        libc::munmap(map, length);
        asked
    };
    assert_eq!(asked, 0, "{}", io::Error::last_os_error());
    let resident = pages.iter().zip(0..).filter(|(page, _)| *page & 1 == 1);
    resident.map(|(_, at)| at).collect()
}

/// Pages in memory of all files of a tree, by path.
pub fn all_resident(top: &Path) -> BTreeMap<PathBuf, Vec<u64>> {
    let files = files_below(top).unwrap().into_iter();
    files.map(|path| (path.clone(), resident(&path))).collect()
}

/// The pages that needs name, by path, as [`all_resident`] gives them.
pub fn named(needs: &Needs) -> BTreeMap<PathBuf, Vec<u64>> {
    let pages = |ranges: &[(u64, u64)]| {
        let pages = ranges
            .iter()
            .flat_map(|(start, pages)| *start..start + pages);
        let distinct: BTreeSet<u64> = pages.collect();
        distinct.into_iter().collect()
    };
    let needs = needs.iter();
    needs
        .map(|(path, ranges)| (path.clone(), pages(ranges)))
        .collect()
}

/// Fails with the first few files of which not exactly the pages named are in memory.
pub fn assert_exactly(top: &Path, needs: &Needs) {
    let found = all_resident(top);
    let expected = named(needs);
    let differing = expected
        .iter()
        .filter(|(path, pages)| found[*path] != **pages);
    let differing: Vec<_> = differing
        .map(|(path, pages)| format!("{}: {pages:?}, found {:?}", path.display(), found[path]))
        .collect();
    let shown = &differing[..differing.len().min(5)];
    assert!(
        shown.is_empty(),
        "{} files differ:\n{}",
        differing.len(),
        shown.join("\n")
    );
}

/// Does what the program does: lists, looks, and reads the pages named.
pub fn use_tree(top: &Path, needs: &Needs) {
    fn walk(directory: &Path) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                walk(&path);
            }
        }
    }
    walk(top);
    for (path, ranges) in needs {
        let file = File::open(path).unwrap();
        for (start, pages) in ranges {
            let mut buffer = vec![0; (pages * PAGE_BYTES) as usize];
            let read = file.read_at(&mut buffer, start * PAGE_BYTES).unwrap();
            assert!(read > 0, "{} is shorter than page {start}", path.display());
        }
    }
}
