// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of another system's profile, found on a real ext4 of a modelled hard disk. Needs root and
//! a loop device; prints `skipped:` where they are missing.
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use foreread_boot::portable::{Fit, portable};
use foreread_linux_boot::place;
use foreread_model::DiskParameters;
use foreread_profile::{Identity, NodeKind, Profile, ProfileBuilder, Program, Source, Uses};
use foreread_testbed::workload::{files_below, small_files};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};

const FILES: usize = 1500;
const BYTES: u64 = 12_000_000;

/// A portable profile of these paths, as they are seen from `root`.
fn profile_of(root: &Path, paths: &[PathBuf]) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for path in paths {
        let metadata = fs::symlink_metadata(path).unwrap();
        let seen = Path::new("/").join(path.strip_prefix(root).unwrap());
        let id = builder.node(seen.as_os_str().as_bytes()).unwrap();
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => NodeKind::Directory,
            kind if kind.is_symlink() => NodeKind::Symlink,
            _ => NodeKind::File,
        };
        builder.set_kind(id, kind);
        builder.set_identity(
            id,
            Identity {
                inode: metadata.ino(),
                generation: 0,
                size_bytes: metadata.size(),
                mtime_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            },
        );
        builder.used(id, Uses::LOOKED_UP, 1);
    }
    portable(&builder.finish())
}

/// The profile on the system at `root`, and seeks of the disk until it was placed.
fn placed(testbed: &Testbed, profile: &Profile, root: &Path) -> (Profile, Fit, u64) {
    testbed.drop_caches().unwrap();
    testbed.reset_counters();
    let (placed, fit) = place(profile, root);
    testbed.wait_until_idle().unwrap();
    (placed, fit, testbed.counters().seeks)
}

#[test]
fn directories_of_an_ext4_are_read_depth_by_depth() {
    if let Err(lacking) = Testbed::available() {
        println!("skipped: {lacking}");
        return;
    }
    let hdd = DiskParameters::preset("hdd").unwrap();
    let testbed = Testbed::start(TestbedConfig::new(hdd, 256 << 20)).unwrap();
    testbed.enter().unwrap();
    testbed.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let root = testbed.mount(FileSystem::Ext4, "").unwrap();
    let tree = root.join("tree");
    testbed.instantly(|| {
        small_files(&tree, FILES, BYTES, 1).unwrap();
        symlink("/usr/lib", tree.join("link")).unwrap();
        // Another file system begins at a directory of the profile.
        fs::create_dir(tree.join("mounted")).unwrap();
        fs::write(tree.join("mounted/below"), "on the disk").unwrap();
    });
    let mut paths = files_below(&tree).unwrap();
    assert_eq!(paths.len(), FILES + 1);
    paths.extend([tree.clone(), tree.join("link"), tree.join("mounted")]);
    let from_root = profile_of(&root, &paths);
    let from_tree = profile_of(&tree, &paths);
    testbed.instantly(|| {
        fs::write(&paths[5], "another version").unwrap();
        fs::remove_file(&paths[6]).unwrap();
        rustix::fs::sync();
    });
    let mounted = tree.join("mounted");
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", &mounted, "tmpfs", flags, None).unwrap();

    let (own, fit, seeks) = placed(&testbed, &from_root, &root);
    // A directory that is not the root of its file system is looked up by the kernel.
    let (by_kernel, fit_by_kernel, seeks_by_kernel) = placed(&testbed, &from_tree, &tree);
    rustix::mount::unmount(&mounted, rustix::mount::UnmountFlags::DETACH).unwrap();

    // What the mount hides is missing, too.
    assert_eq!((fit.others, fit.missing), (1, 2), "{fit:?}");
    assert_eq!(
        (fit_by_kernel.others, fit_by_kernel.missing),
        (1, 2),
        "{fit_by_kernel:?}"
    );
    // One sees two directories more: the root, and the tree in it.
    assert_eq!(fit.same, fit_by_kernel.same + 1);
    for path in paths.iter().filter(|path| !path.starts_with(&mounted)) {
        let seen = Path::new("/").join(path.strip_prefix(&root).unwrap());
        let Some(id) = own.find(seen.as_os_str().as_bytes()) else {
            assert!(path == &paths[5] || path == &paths[6], "{}", seen.display());
            continue;
        };
        let identity = own.node(id).unwrap().identity;
        assert_eq!(identity.inode, fs::symlink_metadata(path).unwrap().ino());
        // The kernel doesn't tell it.
        assert_ne!(identity.generation, 0, "{}", seen.display());
    }
    assert!(
        by_kernel
            .nodes
            .iter()
            .all(|node| node.identity.generation == 0)
    );
    assert!(
        seeks * 2 <= seeks_by_kernel,
        "{seeks} seeks, {seeks_by_kernel} by the kernel"
    );
}
