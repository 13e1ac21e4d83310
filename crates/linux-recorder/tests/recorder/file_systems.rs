// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems, subvolumes, bind mounts and device numbers: what is recorded leads to the real
//! files.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_profile::{Mount, NodeKind, Uses};
use foreread_testbed::FileSystem;

use crate::mounted::{Image, Mounted};
use crate::setting::{Disk, Place, Recorded, make, or_skip, pages_of_bytes, record};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The mount that a node is on.
fn mount_of(recorded: &Recorded, path: &Path) -> Mount {
    let id = recorded
        .profile
        .find(path.as_os_str().as_encoded_bytes())
        .unwrap();
    let node = recorded.profile.node(id).unwrap();
    recorded.profile.mounts[usize::from(node.mount)].clone()
}

/// A path of a profile must lead to what was read: same inode, when it is opened today.
fn assert_identity(recorded: &Recorded, path: &Path) {
    let id = recorded
        .profile
        .find(path.as_os_str().as_encoded_bytes())
        .unwrap();
    let identity = recorded.profile.node(id).unwrap().identity;
    let metadata = fs::symlink_metadata(path).unwrap();
    assert_eq!(identity.inode, metadata.ino(), "{}", path.display());
    assert_eq!(identity.size_bytes, metadata.size(), "{}", path.display());
}

const SIZES_BYTES: [u64; 8] = [0, 1, 1500, 4096, 4097, 262_145, 1_100_000, 9_000_001];

fn reads_known_files(file_system: FileSystem, mkfs: &[&str]) {
    let what = format!("{} {mkfs:?}", file_system.name());
    let disk = or_skip!(Disk::new(file_system, mkfs));
    fs::create_dir_all(disk.join("a/b")).unwrap();
    let make_one = |bytes: &u64| (make(&disk.join(format!("a/b/{bytes}")), *bytes), *bytes);
    let files: Vec<(PathBuf, u64)> = SIZES_BYTES.iter().map(make_one).collect();
    for state in ["cold", "warm"] {
        if state == "cold" {
            disk.forget("noatime");
        }
        let recorded = record(Command::new("cat").args(files.iter().map(|(path, _)| path)));
        let full = files.iter().filter(|(_, bytes)| *bytes > 0);
        let expected = full
            .map(|(path, bytes)| (path.clone(), vec![(0, pages_of_bytes(*bytes))]))
            .collect();
        assert_eq!(recorded.pages_below(&disk.root), expected, "{what} {state}");
        assert_eq!(recorded.unresolved, Default::default(), "{what} {state}");
        for (path, _) in &files {
            assert_identity(&recorded, path);
            let mount = mount_of(&recorded, path);
            assert_eq!(
                mount.fs_type,
                file_system.name().as_bytes(),
                "{what} {state}"
            );
            assert_eq!(mount.mount_point, disk.root.as_os_str().as_encoded_bytes());
        }
        assert!(recorded.uses(disk.join("a/b")).contains(Uses::LOOKED_UP));
        let list = "0,3,63,64,1000,2197";
        let large = &files[7].0;
        if state == "cold" {
            disk.forget("noatime");
        }
        let recorded = record(&mut disk.probe(&["pread", text(large), list]));
        let expected = [(0, 1), (3, 4), (63, 65), (1000, 1001), (2197, 2198)];
        assert_eq!(recorded.pages(large), expected, "{what} {state}");
    }
}

#[test]
fn ext4_is_seen_exactly() {
    reads_known_files(FileSystem::Ext4, &[]);
}

#[test]
fn ext4_with_small_blocks_is_seen_exactly() {
    reads_known_files(FileSystem::Ext4, &["-b", "1024"]);
}

#[test]
fn xfs_is_seen_exactly() {
    reads_known_files(FileSystem::Xfs, &[]);
}

#[test]
fn btrfs_is_seen_exactly() {
    reads_known_files(FileSystem::Btrfs, &[]);
}

fn btrfs(arguments: &[&str]) {
    let output = Command::new("btrfs").args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Two subvolumes and a snapshot in which the same numbers of inodes stand for different files.
#[test]
fn files_of_btrfs_subvolumes_are_told_apart() {
    let disk = or_skip!(Disk::new(FileSystem::Btrfs, &[]));
    for name in ["one", "two", "one/inner"] {
        btrfs(&["subvolume", "create", text(&disk.join(name))]);
        make(&disk.join(name).join("file"), 20_000);
        make(&disk.join(name).join("other"), 20_000);
    }
    btrfs(&[
        "subvolume",
        "snapshot",
        text(&disk.join("one")),
        text(&disk.join("snapshot")),
    ]);
    let inode = |name: &str| fs::metadata(disk.join(name)).unwrap().ino();
    assert_eq!(inode("one/file"), inode("two/file"));
    assert_eq!(inode("one/file"), inode("snapshot/file"));
    for state in ["cold", "warm"] {
        if state == "cold" {
            disk.forget("noatime");
        }
        let recorded = record(&mut disk.probe(&[
            "pread",
            text(&disk.join("one/file")),
            "0",
            "pread",
            text(&disk.join("two/file")),
            "1",
            "pread",
            text(&disk.join("snapshot/file")),
            "2",
            "pread",
            text(&disk.join("one/inner/file")),
            "3",
            "stat",
            text(&disk.join("two/none")),
        ]));
        let found = recorded.pages_below(&disk.root);
        let expected = [
            ("one/file", 0),
            ("two/file", 1),
            ("snapshot/file", 2),
            ("one/inner/file", 3),
        ];
        let expected = expected.map(|(name, page)| (disk.join(name), vec![(page, page + 1)]));
        assert_eq!(found, expected.into_iter().collect(), "{state}");
        assert_eq!(recorded.kind(disk.join("two/none")), Some(NodeKind::Absent));
        assert_eq!(recorded.unresolved, Default::default(), "{state}");
    }
}

#[test]
fn a_subvolume_mounted_alone_is_found_where_it_is_mounted() {
    let disk = or_skip!(Disk::new(FileSystem::Btrfs, &[]));
    for name in ["one", "two", "two/inner"] {
        btrfs(&["subvolume", "create", text(&disk.join(name))]);
        make(&disk.join(name).join("file"), 20_000);
    }
    let device = disk.testbed.device().to_owned();
    disk.testbed.unmount().unwrap();
    let point = disk.root.with_file_name("alone");
    let mounted = or_skip!(Mounted::new(
        &["-o", "noatime,subvol=two", text(&device)],
        &point
    ));
    for state in ["cold", "warm"] {
        let file = mounted.join("file");
        let inner = mounted.join("inner/file");
        let recorded = record(Command::new("cat").arg(&file).arg(&inner));
        assert_eq!(recorded.pages(&file), [(0, 5)], "{state}");
        assert_eq!(recorded.pages(&inner), [(0, 5)], "{state}");
        assert_eq!(recorded.pages_below(&point).len(), 2, "{state}");
        assert_eq!(
            mount_of(&recorded, &file).mount_point,
            text(&point).as_bytes()
        );
        assert_identity(&recorded, &inner);
    }
    drop(mounted);
    fs::remove_dir(point).unwrap();
}

#[test]
fn a_bind_mount_leads_to_the_real_file() {
    let place = or_skip!(Place::new());
    fs::create_dir_all(place.join("real/deep")).unwrap();
    let file = make(&place.join("real/deep/file"), 9000);
    let bound = or_skip!(Mounted::bind(
        &place.join("real/deep"),
        &place.join("bound")
    ));
    let recorded = record(Command::new("cat").arg(bound.join("file")));
    assert_eq!(recorded.pages(&file), [(0, 3)]);
    assert_identity(&recorded, &file);
    let found = recorded.pages_below(place.path());
    assert_eq!(found.len(), 1, "once, by one name: {found:?}");
}

/// Only a part of the file system is to be seen, under another name.
#[test]
fn a_bind_mount_is_used_when_nothing_else_leads_there() {
    let place = or_skip!(Place::new());
    let image = or_skip!(Image::new(&place, "image", None));
    let whole = or_skip!(image.mount(&place.join("whole")));
    fs::create_dir_all(whole.join("part/deep")).unwrap();
    make(&whole.join("part/deep/file"), 9000);
    let part = or_skip!(Mounted::bind(&whole.join("part"), &place.join("part")));
    whole.detach();
    let recorded = record(Command::new("cat").arg(part.join("deep/file")));
    assert_eq!(recorded.pages(part.join("deep/file")), [(0, 3)]);
    assert_identity(&recorded, &part.join("deep/file"));
    assert_eq!(recorded.unresolved, Default::default());
}

/// A bind mount of a single file, as containers have for their resolver's settings.
#[test]
fn a_file_bound_over_a_file_is_found_as_itself() {
    let place = or_skip!(Place::new());
    let real = make(&place.join("real"), 9000);
    let hidden = make(&place.join("hidden"), 20_000);
    let output = Command::new("mount")
        .arg("--bind")
        .arg(&real)
        .arg(&hidden)
        .output()
        .unwrap();
    if !output.status.success() {
        println!("skipped: a file can't be bound here");
        return;
    }
    let _bound = Mounted(hidden.clone());
    let recorded = record(Command::new("cat").arg(&hidden));
    assert_eq!(recorded.pages(&real), [(0, 3)]);
    assert_eq!(recorded.pages(&hidden), []);
}

#[test]
fn minors_above_255_are_right() {
    let place = or_skip!(Place::new());
    let number = 1300 + std::process::id() % 4000;
    let image = or_skip!(Image::new(&place, "image", Some(number)));
    let mounted = or_skip!(image.mount(&place.join("mounted")));
    let file = make(&mounted.join("file"), 9000);
    let recorded = record(Command::new("cat").arg(&file));
    assert_eq!(recorded.pages(&file), [(0, 3)]);
    let mount = mount_of(&recorded, &file);
    assert_eq!((mount.device_major, mount.device_minor), (7, number));
    assert_eq!(recorded.unresolved, Default::default());
}

/// The same inode number and name on both file systems, one over the other.
#[test]
fn a_file_under_another_mount_is_not_taken_for_what_covers_it() {
    let place = or_skip!(Place::new());
    let below = or_skip!(Image::new(&place, "below", None));
    let above = or_skip!(Image::new(&place, "above", None));
    let point = place.join("point");
    let first = or_skip!(below.mount(&point));
    fs::create_dir(first.join("sub")).unwrap();
    let hidden = make(&first.join("sub/file"), 40_000);
    let inode = fs::metadata(&hidden).unwrap().ino();
    let input = File::open(&hidden).unwrap();
    let second = or_skip!(above.mount(&point));
    fs::create_dir(second.join("sub")).unwrap();
    let covering = make(&second.join("sub/file"), 9000);
    assert_eq!(fs::metadata(&covering).unwrap().ino(), inode);
    let recorded = record(Command::new("cat").arg("-").arg(&covering).stdin(input));
    assert_eq!(recorded.pages(&covering), [(0, 3)]);
    assert!(
        recorded.unresolved.unreachable > 0,
        "{:?}",
        recorded.unresolved
    );
    drop(recorded);
    drop(second);
    drop(first);
}

#[test]
fn renamed_and_deleted_files_are_reported_and_not_mistaken() {
    let place = or_skip!(Place::new());
    let old = make(&place.join("old"), 20_000);
    let new = place.join("new");
    let gone = make(&place.join("gone"), 20_000);
    let recorded = record(&mut place.probe(&[
        "read",
        text(&old),
        "rename",
        text(&old),
        text(&new),
        "read",
        text(&gone),
        "unlink",
        text(&gone),
        "touch",
        text(&gone),
        "read",
        text(&new),
    ]));
    // The name is that of the first use, and what has it now is another file, or nothing.
    assert_eq!(recorded.pages(&old), []);
    assert_eq!(recorded.pages(&gone), []);
    assert_eq!(recorded.kind(&gone), Some(NodeKind::File));
    assert_eq!(recorded.unresolved.gone, 2, "{:?}", recorded.unresolved);
    // The new name is known, but not what was read before under the old one.
    assert_eq!(recorded.kind(&new), Some(NodeKind::File));
}
