// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries that have changed since the recording. Each is skipped, or read as far as it goes, and
//! counted. Nothing outside of the profile is read, followed or opened.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use foreread_linux_prefetcher::{Options, Report};
use foreread_profile::{PAGE_BYTES, Profile};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use rustix::fs::inotify;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::bed::{Bed, bed, replay, ways};
use super::tree;

/// A directory with three files, made anew for each case.
struct Case {
    top: PathBuf,
    a: PathBuf,
    b: PathBuf,
    sub: PathBuf,
    c: PathBuf,
    /// Not in the profile, with a file `c` of its own.
    outside: PathBuf,
}

const A_PAGES: u64 = 20;
const B_PAGES: u64 = 30;
const C_PAGES: u64 = 10;

impl Case {
    fn make(bed: &Bed) -> Self {
        let case = bed.root.join("case");
        if case.exists() {
            fs::remove_dir_all(&case).unwrap();
        }
        let top = case.join("top");
        let made = Self {
            a: top.join("a"),
            b: top.join("b"),
            c: top.join("sub/c"),
            sub: top.join("sub"),
            outside: case.join("outside"),
            top,
        };
        fs::create_dir_all(&made.sub).unwrap();
        fs::create_dir(&made.outside).unwrap();
        tree::write(&made.a, A_PAGES * PAGE_BYTES);
        tree::write(&made.b, B_PAGES * PAGE_BYTES - 100);
        tree::write(&made.c, C_PAGES * PAGE_BYTES);
        tree::write(&made.outside.join("c"), C_PAGES * PAGE_BYTES);
        made
    }

    fn profile(&self, bed: &Bed) -> Profile {
        tree::profile(&bed.root, &self.top, &tree::everything(&self.top))
    }
}

/// Counts of a replay besides pages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stale {
    gone: u64,
    replaced: u64,
    shrunk: u64,
    changed: u64,
    unreadable: u64,
}

impl Stale {
    fn of(report: &Report) -> Self {
        Self {
            gone: report.gone_files,
            replaced: report.replaced_files,
            shrunk: report.shrunk_files,
            changed: report.changed_files,
            unreadable: report.unreadable_files,
        }
    }
}

/// For each way of reading: makes the files, has `change` change them behind the profile's back,
/// replays, and compares.
fn case(
    change: impl Fn(&Case),
    undo: impl Fn(&Case),
    expected: &Stale,
    check: impl Fn(&Case, &Report),
) {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    for (way, options) in ways() {
        bed.undisturbed(|| {
            let case = Case::make(&bed);
            let profile = case.profile(&bed);
            change(&case);
            bed.drop_caches();
            let opened = Opened::watch(&case.top);
            let report = replay(&profile, &options);
            let opened = opened.names();
            assert_eq!(Stale::of(&report), *expected, "{way}: {report:?}");
            assert_eq!(
                report.arrived_pages, report.asked_pages,
                "{way}: {report:?}"
            );
            if report.skipped_pages >= B_PAGES && report.replaced_files > 0 {
                assert!(
                    !opened.contains(&OsString::from("b")),
                    "{way}: opened {opened:?}"
                );
            }
            assert_eq!(
                tree::resident(&case.a).len() as u64,
                A_PAGES,
                "{way}: the others"
            );
            check(&case, &report);
            undo(&case);
        });
    }
}

fn nothing(_: &Case) {}

/// Names of the files in a directory that are opened, seen by inotify (which doesn't see `O_PATH`).
struct Opened(std::os::fd::OwnedFd);

impl Opened {
    fn watch(directory: &Path) -> Self {
        let watcher = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watcher, directory, inotify::WatchFlags::OPEN).unwrap();
        Self(watcher)
    }

    fn names(self) -> BTreeSet<OsString> {
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        let mut names = BTreeSet::new();
        while let Ok(event) = events.next() {
            let name = event.file_name().map(|name| name.to_bytes().to_vec());
            names.extend(name.map(|name| std::ffi::OsStr::from_bytes(&name).to_owned()));
        }
        names
    }
}

#[test]
fn gone() {
    let expected = Stale {
        gone: 1,
        ..Stale::default()
    };
    case(
        |case| fs::remove_file(&case.b).unwrap(),
        nothing,
        &expected,
        |_, report| {
            assert_eq!(report.skipped_pages, B_PAGES);
            assert_eq!(report.asked_pages, A_PAGES + C_PAGES);
        },
    );
}

#[test]
fn a_whole_directory_gone() {
    let expected = Stale {
        gone: 2,
        ..Stale::default()
    };
    case(
        |case| fs::remove_dir_all(&case.sub).unwrap(),
        nothing,
        &expected,
        |_, report| {
            assert_eq!(report.skipped_pages, C_PAGES);
        },
    );
}

#[test]
fn shrunk() {
    let expected = Stale {
        shrunk: 1,
        ..Stale::default()
    };
    let shrink = |case: &Case| {
        let file = OpenOptions::new().write(true).open(&case.b).unwrap();
        file.set_len(5 * PAGE_BYTES + 1).unwrap();
        file.sync_all().unwrap();
    };
    case(shrink, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, B_PAGES - 6);
        assert_eq!(tree::resident(&case.b), (0..6).collect::<Vec<_>>());
    });
}

#[test]
fn shrunk_to_nothing() {
    let expected = Stale {
        shrunk: 1,
        ..Stale::default()
    };
    let shrink = |case: &Case| {
        let file = OpenOptions::new().write(true).open(&case.b).unwrap();
        file.set_len(0).unwrap();
        file.sync_all().unwrap();
    };
    case(shrink, nothing, &expected, |_, report| {
        assert_eq!(report.skipped_pages, B_PAGES)
    });
}

#[test]
fn grown() {
    let expected = Stale {
        changed: 1,
        ..Stale::default()
    };
    let grow = |case: &Case| {
        let mut file = OpenOptions::new().append(true).open(&case.b).unwrap();
        file.write_all(&[7; 20 * PAGE_BYTES as usize]).unwrap();
        file.sync_all().unwrap();
    };
    case(grow, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, 0);
        // The new pages aren't in the profile.
        assert_eq!(tree::resident(&case.b), (0..B_PAGES).collect::<Vec<_>>());
    });
}

#[test]
fn replaced_by_another_file_of_that_name() {
    let expected = Stale {
        replaced: 1,
        ..Stale::default()
    };
    let replace = |case: &Case| {
        let new = case.top.join("new");
        tree::write(&new, B_PAGES * PAGE_BYTES - 100);
        fs::rename(&new, &case.b).unwrap();
    };
    case(replace, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, B_PAGES);
        assert_eq!(tree::resident(&case.b), [0u64; 0]);
    });
}

#[test]
fn changed_in_place() {
    let expected = Stale {
        changed: 1,
        ..Stale::default()
    };
    let change = |case: &Case| {
        let file = OpenOptions::new().write(true).open(&case.b).unwrap();
        file.write_all_at(b"something else", 12_345).unwrap();
        file.sync_all().unwrap();
    };
    case(change, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, 0);
        assert_eq!(tree::resident(&case.b).len() as u64, B_PAGES);
    });
}

#[test]
fn moved_away() {
    let expected = Stale {
        gone: 1,
        ..Stale::default()
    };
    // The inode lives on: the layout still has it, its path doesn't.
    let away = |case: &Case| fs::rename(&case.b, case.outside.join("b")).unwrap();
    case(away, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, B_PAGES);
        assert_eq!(tree::resident(&case.outside.join("b")), [0u64; 0]);
    });
}

/// Replaces `b` by something that isn't a file.
fn replaced_by(make: impl Fn(&Case), check: impl Fn(&Case)) {
    let expected = Stale {
        replaced: 1,
        ..Stale::default()
    };
    let replace = |case: &Case| {
        fs::remove_file(&case.b).unwrap();
        make(case);
    };
    case(replace, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, B_PAGES);
        check(case);
    });
}

#[test]
fn replaced_by_a_fifo_which_is_not_opened() {
    let make = |case: &Case| {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &case.b, FileType::Fifo, mode, 0).unwrap();
    };
    replaced_by(make, |case| {
        // A writer that doesn't wait finds no reader.
        let writer = OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&case.b);
        assert_eq!(writer.unwrap_err().raw_os_error(), Some(libc::ENXIO));
    });
}

#[test]
fn replaced_by_a_device_node_which_is_not_opened() {
    for (kind, device) in [
        (FileType::CharacterDevice, makedev(1, 3)),
        (FileType::CharacterDevice, makedev(5, 0)),
        (FileType::BlockDevice, makedev(7, 0)),
    ] {
        let make = |case: &Case| mknodat(CWD, &case.b, kind, Mode::RUSR, device).unwrap();
        replaced_by(make, |_| {});
    }
}

#[test]
fn replaced_by_a_directory() {
    replaced_by(|case| fs::create_dir(&case.b).unwrap(), |_| {});
}

#[test]
fn replaced_by_a_socket() {
    let make = |case: &Case| drop(std::os::unix::net::UnixListener::bind(&case.b).unwrap());
    replaced_by(make, |_| {});
}

#[test]
fn replaced_by_a_symlink_which_is_not_followed() {
    let to_a_secret = |case: &Case| symlink("../outside/c", &case.b).unwrap();
    replaced_by(to_a_secret, |case| {
        assert_eq!(tree::resident(&case.outside.join("c")), [0u64; 0]);
    });
    replaced_by(|case| symlink("b", &case.b).unwrap(), |_| {});
}

#[test]
fn a_symlink_on_the_way_is_not_followed() {
    let elsewhere = |case: &Case| {
        fs::remove_dir_all(&case.sub).unwrap();
        symlink("../outside", &case.sub).unwrap();
    };
    let expected = Stale {
        replaced: 2,
        ..Stale::default()
    };
    case(elsewhere, nothing, &expected, |case, report| {
        assert_eq!(report.skipped_pages, C_PAGES);
        assert_eq!(tree::resident(&case.outside.join("c")), [0u64; 0]);
    });
}

#[test]
fn a_symlink_to_the_very_same_directory_is_not_followed_either() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    for (way, options) in ways() {
        bed.undisturbed(|| {
            let case = Case::make(&bed);
            let profile = case.profile(&bed);
            let moved = case.outside.join("sub");
            fs::rename(&case.sub, &moved).unwrap();
            symlink("../outside/sub", &case.sub).unwrap();
            bed.drop_caches();
            let report = replay(&profile, &options);
            // The layout of the device knows nothing of paths: only opening the file tells.
            assert!(report.replaced_files >= 1, "{way}: {report:?}");
            assert_eq!(report.skipped_pages, C_PAGES, "{way}: {report:?}");
            assert_eq!(tree::resident(&moved.join("c")), [0u64; 0], "{way}");
        });
    }
}

#[test]
fn another_file_system_mounted_over() {
    let over = |case: &Case| {
        mount("tmpfs", &case.sub, "tmpfs", MountFlags::empty(), None).unwrap();
        tree::write(&case.c, C_PAGES * PAGE_BYTES);
    };
    let undo = |case: &Case| unmount(&case.sub, UnmountFlags::empty()).unwrap();
    // Files that are in memory anyway aren't even looked at.
    case(over, undo, &Stale::default(), |_, report| {
        assert_eq!(report.skipped_pages, C_PAGES)
    });

    let bind = |case: &Case| mount_bind(&case.outside, &case.sub).unwrap();
    let expected = Stale {
        replaced: 1,
        ..Stale::default()
    };
    case(bind, undo, &expected, |case, report| {
        assert_eq!(report.skipped_pages, C_PAGES);
        assert_eq!(tree::resident(&case.outside.join("c")), [0u64; 0]);
    });
}

#[test]
fn another_device_mounted_over() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    let parameters = bed.testbed.parameters();
    let other = Testbed::start(TestbedConfig::new(parameters, 64 << 20)).unwrap();
    other.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let other_root = other.mount(FileSystem::Ext4, "").unwrap();
    for (way, options) in ways() {
        bed.undisturbed(|| {
            let case = Case::make(&bed);
            let profile = case.profile(&bed);
            let inode = fs::metadata(&case.c).unwrap().ino();
            mount_bind(&other_root, &case.sub).unwrap();
            // A file of the same name; as chance has it, of another inode number.
            while fs::metadata(&case.c).map_or(inode, |new| new.ino()) == inode {
                let parked = case.sub.join(format!(
                    "parked-{}",
                    fs::read_dir(&case.sub).unwrap().count()
                ));
                let _ = fs::rename(&case.c, parked);
                tree::write(&case.c, C_PAGES * PAGE_BYTES);
            }
            bed.drop_caches();
            let report = replay(&profile, &options);
            assert_eq!(report.replaced_files, 1, "{way}: {report:?}");
            assert_eq!(report.skipped_pages, C_PAGES, "{way}: {report:?}");
            assert_eq!(tree::resident(&case.c), [0u64; 0], "{way}");
            unmount(&case.sub, UnmountFlags::empty()).unwrap();
        });
    }
}

#[test]
fn a_profile_of_another_machine_reads_nothing() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    let top = bed.root.join("tree");
    tree::make(&top, 200);
    bed.remount("noatime");
    let needs = tree::everything(&top);
    let ours = tree::profile(&bed.root, &top, &needs);
    let files = ours.files().count() as u64;
    let others = ours.nodes.len() as u64;
    // Inodes of other files of this machine, of none, of the file system's own, of no file system.
    let shuffled = |inode: u64| inode + 1;
    let high = |inode: u64| inode + 20_000;
    let reserved = |inode: u64| inode % 11 + 1;
    let absurd = |inode: u64| u64::MAX - inode;
    let numbers: [&dyn Fn(u64) -> u64; 4] = [&shuffled, &high, &reserved, &absurd];
    for number in numbers {
        for forget_generation in [false, true] {
            let mut theirs = ours.clone();
            for node in theirs
                .nodes
                .iter_mut()
                .filter(|node| node.identity.inode != 0)
            {
                node.identity.inode = number(node.identity.inode);
                if forget_generation {
                    node.identity.generation = 0;
                }
            }
            for (way, options) in ways() {
                bed.undisturbed(|| {
                    bed.drop_caches();
                    let report = replay(&theirs, &options);
                    assert_eq!(report.asked_pages, 0, "{way}: {report:?}");
                    assert_eq!(
                        report.skipped_pages, report.planned_pages,
                        "{way}: {report:?}"
                    );
                    assert!(report.replaced_files <= others, "{way}: {report:?}");
                    assert!(
                        report.replaced_files >= files,
                        "{way}: {files} of {report:?}"
                    );
                    let found = tree::all_resident(&top);
                    assert!(found.values().all(Vec::is_empty), "{way}: {found:?}");
                });
            }
        }
    }
}

#[test]
fn read_only_mounts_and_times_stay_as_they_are() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    let top = bed.root.join("tree");
    tree::make(&top, 60);
    for options in ["strictatime", "relatime", "ro"] {
        bed.remount(options);
        let needs = tree::everything(&top);
        let profile = tree::profile(&bed.root, &top, &needs);
        bed.remount(options);
        for (way, how) in ways() {
            bed.undisturbed(|| {
                bed.drop_caches();
                let before = times(&profile);
                let report = replay(&profile, &how);
                assert!(report.asked_pages > 900, "{way}, {options}: {report:?}");
                assert_eq!(report.unreadable_files, 0, "{way}, {options}: {report:?}");
                assert_eq!(times(&profile), before, "{way}, {options}");
            });
        }
    }
    // A mount that is read-only, of a file system that isn't.
    bed.remount("strictatime");
    let read_only = bed.root.join("read-only");
    fs::create_dir(&read_only).unwrap();
    mount_bind(&top, &read_only).unwrap();
    mount_remount(&read_only, MountFlags::BIND | MountFlags::RDONLY, "").unwrap();
    assert!(File::create(read_only.join("new")).is_err());
    let needs = tree::everything(&read_only);
    let profile = tree::profile(&read_only, &read_only, &needs);
    for (way, how) in ways() {
        bed.undisturbed(|| {
            bed.drop_caches();
            let report = replay(&profile, &how);
            assert!(report.asked_pages > 900, "{way}: {report:?}");
            assert_eq!(Stale::of(&report), Stale::default(), "{way}: {report:?}");
        });
    }
    unmount(&read_only, UnmountFlags::empty()).unwrap();
}

/// Access, change of content and change of inode, of everything in a profile.
fn times(profile: &Profile) -> Vec<(PathBuf, [i64; 6])> {
    let mut times = Vec::new();
    for (id, node) in profile.iter().filter(|(_, node)| node.identity.inode != 0) {
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&profile.path(id)));
        let m = fs::symlink_metadata(&path).unwrap();
        assert_eq!(m.ino(), node.identity.inode);
        let seconds = [m.atime(), m.mtime(), m.ctime()];
        let rest = [m.atime_nsec(), m.mtime_nsec(), m.ctime_nsec()];
        times.push((
            path,
            [
                seconds[0], rest[0], seconds[1], rest[1], seconds[2], rest[2],
            ],
        ));
    }
    times
}

/// Runs `work` in a thread that has no privileges, and whose threads have none.
pub fn unprivileged<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let nobody = 65_534;
    let drop_rights = || {
        let (user, group) = (
            rustix::fs::Uid::from_raw(nobody),
            rustix::fs::Gid::from_raw(nobody),
        );
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
    };
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            drop_rights();
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn what_may_not_be_read_is_counted_and_the_rest_is_read() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    bed.remount("strictatime");
    bed.undisturbed(|| {
        let case = Case::make(&bed);
        let profile = case.profile(&bed);
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&case.b, 0o600);
        set(&case.sub, 0o700);
        bed.drop_caches();
        let report = unprivileged(|| replay(&profile, &Options::default()));
        // The device is closed to us as well.
        assert_eq!(
            (report.raw_file_systems, report.looked_file_systems),
            (0, 1)
        );
        let expected = Stale {
            unreadable: 2,
            ..Stale::default()
        };
        assert_eq!(Stale::of(&report), expected, "{report:?}");
        assert_eq!(report.asked_pages, A_PAGES, "{report:?}");
        assert_eq!(report.skipped_pages, B_PAGES + C_PAGES, "{report:?}");
        assert_eq!(tree::resident(&case.a).len() as u64, A_PAGES);
        assert_eq!(
            (tree::resident(&case.b), tree::resident(&case.c)),
            (vec![], vec![])
        );

        // Its own files keep their access times, also after those of others.
        chown(&case.b, Some(65_534), Some(65_534)).unwrap();
        bed.drop_caches();
        let before = fs::metadata(&case.b).unwrap();
        let report = unprivileged(|| replay(&profile, &Options::default()));
        assert_eq!(report.unreadable_files, 1, "{report:?}");
        assert_eq!(report.asked_pages, A_PAGES + B_PAGES, "{report:?}");
        let after = fs::metadata(&case.b).unwrap();
        assert_eq!(
            (before.atime(), before.atime_nsec()),
            (after.atime(), after.atime_nsec())
        );
    });
}
