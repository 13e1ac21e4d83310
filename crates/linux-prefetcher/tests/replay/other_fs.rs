// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems that tell nothing: no map of blocks, no generation, no device.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use foreread_linux_prefetcher::{Executor, Options};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::PAGE_BYTES;
use foreread_sys::fiemap;
use foreread_testbed::FileSystem;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEntry, ReplyOpen, Request,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::bed::{bed, replay, wait_for, ways};
use super::stale::unprivileged;
use super::stopping::threads;
use super::tree;

#[test]
fn what_is_in_memory_anyway_is_left_alone() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    let point = bed.root.join("tmpfs");
    fs::create_dir(&point).unwrap();
    mount("tmpfs", &point, "tmpfs", MountFlags::empty(), None).unwrap();
    let top = point.join("tree");
    tree::make(&top, 20);
    let profile = tree::profile(&point, &top, &tree::everything(&top));
    for (way, options) in ways() {
        let report = replay(&profile, &options);
        assert_eq!(
            report.skipped_pages, report.planned_pages,
            "{way}: {report:?}"
        );
        assert_eq!(
            report.looked_at + report.files + report.gone_files,
            0,
            "{way}: {report:?}"
        );
    }
    // An overlay on it is not in memory by its type; all that can be said is that it's all cached.
    let layers = ["upper", "work", "merged"].map(|name| point.join(name));
    layers
        .iter()
        .for_each(|layer| fs::create_dir(layer).unwrap());
    let data = format!(
        "lowerdir={},upperdir={},workdir={}",
        top.display(),
        layers[0].display(),
        layers[1].display()
    );
    let data = std::ffi::CString::new(data).unwrap();
    mount(
        "overlay",
        &layers[2],
        "overlay",
        MountFlags::empty(),
        data.as_c_str(),
    )
    .unwrap();
    let mut needs = tree::everything(&layers[2]);
    needs.retain(|(path, _)| !path.ends_with("special/hole"));
    let profile = tree::profile(&layers[2], &layers[2], &needs);
    let report = replay(&profile, &Options::default());
    assert_eq!(report.cached_pages, report.planned_pages, "{report:?}");
    unmount(&layers[2], UnmountFlags::empty()).unwrap();
    unmount(&point, UnmountFlags::empty()).unwrap();
}

/// Ten files of ten pages, told in no order; counts what is read of them. Like NFS it has no map of
/// blocks, refuses to leave access times alone, and answers when it likes.
struct Remote {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    bytes_read: AtomicU64,
    failing: AtomicBool,
    hanging: AtomicBool,
}

const FILES: u64 = 10;
const FILE_PAGES: u64 = 10;
const TIMEOUT: Duration = Duration::from_secs(3600);

impl Remote {
    /// Inode numbers that follow nothing.
    fn inode(at: u64) -> u64 {
        2 + (at * 7) % FILES
    }

    fn attributes(inode: u64) -> FileAttr {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let root = inode == 1;
        FileAttr {
            ino: INodeNo(inode),
            size: if root { 0 } else { FILE_PAGES * PAGE_BYTES },
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if root {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: if root { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Remote {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let at = name.to_str().and_then(|name| name.parse::<u64>().ok());
        match at.filter(|at| *at < FILES) {
            Some(at) => {
                let attributes = Self::attributes(Self::inode(at));
                reply.entry(&TIMEOUT, &attributes, Generation(0));
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TIMEOUT, &Self::attributes(inode.0));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.0 & libc::O_NOATIME != 0 {
            return reply.error(Errno::EPERM);
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset_bytes: u64,
        length_bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        while self.shared.hanging.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.shared.failing.load(Ordering::Relaxed) {
            return reply.error(Errno::EIO);
        }
        let left = (FILE_PAGES * PAGE_BYTES).saturating_sub(offset_bytes);
        let length = left.min(u64::from(length_bytes));
        self.shared.bytes_read.fetch_add(length, Ordering::Relaxed);
        reply.data(&vec![7; length as usize]);
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for at in offset..FILES {
            let inode = INodeNo(Self::inode(at));
            if reply.add(inode, at + 1, FileType::RegularFile, at.to_string()) {
                break;
            }
        }
        reply.ok();
    }
}

/// Mounts it; unmounted when dropped.
fn remote(point: &Path, shared: &Arc<Shared>) -> io::Result<BackgroundSession> {
    let remote = Remote {
        shared: Arc::clone(shared),
    };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::RO, MountOption::FSName("remote".into())];
    config.acl = fuser::SessionACL::All;
    fuser::spawn_mount(remote, point, &config)
}

#[test]
fn a_file_system_without_a_map_is_read_through_its_files() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    let point = bed.root.join("remote");
    fs::create_dir(&point).unwrap();
    let shared = Arc::new(Shared::default());
    let session = match remote(&point, &shared) {
        Ok(session) => session,
        Err(error) => return println!("skipped: FUSE can't be mounted: {error}"),
    };
    let needs: tree::Needs = (0..FILES)
        .map(|at| (point.join(at.to_string()), vec![(0, 3), (6, 4)]))
        .collect();
    let file = fs::File::open(&needs[0].0).unwrap();
    assert!(fiemap::runs(&file, 0, 4096, 10).is_err());
    drop(file);
    let profile = tree::profile(&point, &point, &needs);
    let pages = FILES * 7;
    for (way, options) in ways() {
        for with_rights in [true, false] {
            bed.undisturbed(|| {
                bed.drop_caches();
                shared.bytes_read.store(0, Ordering::Relaxed);
                let report = if with_rights {
                    replay(&profile, &options)
                } else {
                    unprivileged(|| replay(&profile, &options))
                };
                assert_eq!(
                    (report.looked_file_systems, report.raw_file_systems),
                    (1, 0)
                );
                assert_eq!(
                    (report.asked_pages, report.arrived_pages),
                    (pages, pages),
                    "{way}"
                );
                assert_eq!(report.files, FILES, "{way}: {report:?}");
                let bytes = shared.bytes_read.load(Ordering::Relaxed);
                assert_eq!(bytes, pages * PAGE_BYTES, "{way}: no more than is named");
                tree::assert_exactly(&point, &needs);
            });
        }
    }

    // Reads that fail are counted, and nothing is taken for arrived.
    bed.undisturbed(|| {
        bed.drop_caches();
        shared.failing.store(true, Ordering::Relaxed);
        let report = replay(&profile, &Options::default());
        shared.failing.store(false, Ordering::Relaxed);
        assert_eq!(
            (report.asked_pages, report.arrived_pages),
            (pages, 0),
            "{report:?}"
        );
        assert!(report.failed_reads > 0, "{report:?}");
        assert_eq!(report.first_error_number, 5, "not EIO: {report:?}");
        assert_eq!(report.short_reads, 0, "{report:?}");
    });

    // A server that doesn't answer does not delay a stop.
    bed.drop_caches();
    shared.hanging.store(true, Ordering::Relaxed);
    let hanging =
        Executor::default().start(Arc::new(ReadPlan::from(&profile)), &Options::default());
    wait_for(|| hanging.report().reads > 0, "reads");
    hanging.stop();
    let (report, _) = hanging.join();
    assert_eq!(report.arrived_pages, 0, "{report:?}");
    shared.hanging.store(false, Ordering::Relaxed);
    wait_for(|| threads() == 0, "the threads to end");

    // The server is gone: every call fails.
    drop(session);
    let gone = |path: &PathBuf| !path.exists();
    wait_for(|| gone(&needs[0].0), "the unmounting");
    let report = replay(&profile, &Options::default());
    assert_eq!(report.gone_files, FILES, "{report:?}");
    assert_eq!(report.skipped_pages, report.planned_pages, "{report:?}");
}
