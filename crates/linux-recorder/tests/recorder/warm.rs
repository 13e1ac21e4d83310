// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile recorded warm is as good as one recorded cold: of real programs, on a file system of
//! their own, each first with nothing in memory and then with everything.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;

use foreread_testbed::FileSystem;
use foreread_testbed::workload::{ABSENT_PATTERN, git_repository, python_tree, small_files};

use crate::setting::{Disk, Recorded, or_skip, record_whatever_it_returns};

/// Nodes and pages below the disk's root.
struct Seen {
    nodes: BTreeSet<PathBuf>,
    pages: BTreeMap<PathBuf, BTreeSet<u64>>,
}

impl Seen {
    fn of(recorded: &Recorded, disk: &Disk) -> Self {
        let profile = &recorded.profile;
        let root = disk.root.as_os_str().as_bytes();
        let paths = profile.iter().map(|(id, _)| profile.path(id));
        let below = paths.filter(|path| path.starts_with(root));
        let nodes = below
            .map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(&path)))
            .collect();
        let pages = recorded.pages_below(&disk.root).into_iter();
        let each = |ranges: Vec<(u64, u64)>| ranges.iter().flat_map(|(s, e)| *s..*e).collect();
        Self {
            nodes,
            pages: pages.map(|(path, ranges)| (path, each(ranges))).collect(),
        }
    }

    fn pages_len(&self) -> usize {
        self.pages.values().map(BTreeSet::len).sum()
    }

    /// Pages that `other` has too.
    fn pages_in(&self, other: &Self) -> usize {
        let none = BTreeSet::new();
        let common = self.pages.iter().map(|(path, pages)| {
            pages
                .intersection(other.pages.get(path).unwrap_or(&none))
                .count()
        });
        common.sum()
    }
}

/// Disables address randomization. Fault-around maps other pages at other addresses.
fn without_random_addresses(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: one system call without memory, between fork and exec.
    unsafe {
        command.pre_exec(
            || match libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            },
        );
    }
}

/// Records cold, then warm, and compares.
fn compare(disk: &Disk, what: &str, command: &mut Command) {
    without_random_addresses(command);
    disk.forget("noatime");
    let recorded = record_whatever_it_returns(command);
    assert!(
        recorded.recording.counts.missed_pages > 0,
        "{what}: it wasn't cold"
    );
    let cold = Seen::of(&recorded, disk);
    let recorded = record_whatever_it_returns(command);
    let warm = Seen::of(&recorded, disk);
    let missing: Vec<_> = cold.nodes.difference(&warm.nodes).collect();
    let more: Vec<_> = warm.nodes.difference(&cold.nodes).collect();
    let (common, pages) = (cold.pages_in(&warm), cold.pages_len());
    println!(
        "{what}: cold {} nodes {pages} pages, warm {} nodes {} pages; {} nodes only cold, {} only \
         warm; {} pages only cold, {} only warm",
        cold.nodes.len(),
        warm.nodes.len(),
        warm.pages_len(),
        missing.len(),
        more.len(),
        pages - common,
        warm.pages_len() - common,
    );
    for (path, pages) in &cold.pages {
        let others = warm.pages.get(path).cloned().unwrap_or_default();
        let only: Vec<_> = pages.difference(&others).collect();
        if !only.is_empty() {
            println!(
                "{what}: only cold: {} {only:?} of {pages:?}",
                path.display()
            );
        }
    }
    assert!(pages > 50, "{what}");
    assert!(
        missing.len() * 100 <= cold.nodes.len(),
        "{what}: only cold: {missing:?}"
    );
    assert!(
        more.len() * 100 <= warm.nodes.len(),
        "{what}: only warm: {more:?}"
    );
    assert!(
        (pages - common) * 100 <= pages,
        "{what}: {common} of {pages}"
    );
    // Neither does a warm cache make a program look larger than it is.
    assert!(
        warm.pages_len() <= pages * 3 / 2,
        "{what}: {} for {pages}",
        warm.pages_len()
    );
}

const FILE_SYSTEMS: [FileSystem; 3] = FileSystem::ALL;

#[test]
fn grep_is_seen_warm_as_cold() {
    for file_system in FILE_SYSTEMS {
        let disk = or_skip!(Disk::new(file_system, &[]));
        small_files(&disk.join("tree"), 1500, 22_000_000, 7).unwrap();
        let mut grep = Command::new("grep");
        grep.args(["-rq", ABSENT_PATTERN]).arg(disk.join("tree"));
        compare(&disk, &format!("grep on {}", file_system.name()), &mut grep);
    }
}

#[test]
fn git_status_is_seen_warm_as_cold() {
    let disk = or_skip!(Disk::new(FileSystem::Ext4, &[]));
    if let Err(error) = git_repository(&disk.join("repository"), 1500, 7) {
        println!("skipped: {error}");
        return;
    }
    // With threads, mappings have another address each time after all.
    let one = ["-c", "index.threads=1", "-c", "core.preloadIndex=false"];
    let mut git = Command::new("git");
    git.args(one)
        .arg("-C")
        .arg(disk.join("repository"))
        .args(["status", "--short"]);
    // It would write the index with the times that it finds.
    git.env("GIT_OPTIONAL_LOCKS", "0");
    compare(&disk, "git status", &mut git);
    // All of it, as a run that looks at each file's content does.
    let mut git = Command::new("git");
    git.args(one).arg("-C").arg(disk.join("repository")).args([
        "grep",
        "--threads=1",
        "-q",
        ABSENT_PATTERN,
    ]);
    compare(&disk, "git grep", &mut git);
}

#[test]
fn python_imports_are_seen_warm_as_cold() {
    let disk = or_skip!(Disk::new(FileSystem::Ext4, &[]));
    let tree = match python_tree(&disk.join("python")) {
        Ok(tree) => tree,
        Err(error) => {
            println!("skipped: {error}");
            return;
        }
    };
    let mut python = Command::new(&tree.binary);
    tree.set_environment(&mut python);
    compare(&disk, "python", python.args(tree.import_arguments()));
}
