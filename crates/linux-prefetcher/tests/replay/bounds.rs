// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bounds on what is brought in, and on what that takes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use foreread_linux_prefetcher::{Options, Report};
use foreread_profile::{NodeKind, PAGE_BYTES, Profile};
use foreread_testbed::{FileSystem, Testbed, TestbedConfig};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::bed::{Bed, bed, replay, ways};
use super::tree;

fn budget(pages: u64, options: &Options) -> Options {
    Options {
        budget_bytes: Some(pages * PAGE_BYTES),
        ..options.clone()
    }
}

/// A tree and a profile of it in which need doesn't follow names.
fn made() -> Option<(Bed, tree::Needs, Profile)> {
    let bed = bed(FileSystem::Ext4, &[])?;
    let top = bed.root.join("tree");
    tree::make(&top, 200);
    let mut needs = tree::everything(&top);
    // The hole has pages for which nothing is read; they would only blur the sums.
    needs.retain(|(path, _)| !path.ends_with("special/hole"));
    let files = needs.len();
    let mixed = (0..files)
        .map(|at| needs[at * 89 % files].clone())
        .collect();
    let profile = tree::profile(&bed.root, &top, &mixed);
    bed.remount("noatime");
    Some((bed, mixed, profile))
}

#[test]
fn a_budget_goes_to_what_is_needed_first() {
    let Some((bed, needs, profile)) = made() else {
        return;
    };
    let planned = profile.total_pages();
    for pages in [0, 1, 100, 777, planned - 1, planned, u64::MAX / PAGE_BYTES] {
        let fitting = pages.min(planned);
        let mut left = fitting;
        let first: tree::Needs = needs
            .iter()
            .map(|(path, ranges)| {
                let wanted = ranges.first().map_or(0, |(_, pages)| *pages);
                let given = wanted.min(left);
                left -= given;
                (
                    path.clone(),
                    if given > 0 { vec![(0, given)] } else { vec![] },
                )
            })
            .collect();
        for (way, options) in ways() {
            bed.undisturbed(|| {
                bed.drop_caches();
                let report = replay(&profile, &budget(pages, &options));
                assert_eq!(report.arrived_pages, fitting, "{way}, {pages}: {report:?}");
                assert_eq!(
                    report.over_budget_pages,
                    planned - fitting,
                    "{way}: {report:?}"
                );
                tree::assert_exactly(&bed.root.join("tree"), &first);
            });
        }
    }
}

#[test]
fn what_is_cached_takes_nothing_of_a_budget() {
    const PAGES: u64 = 300;
    let Some((bed, _, profile)) = made() else {
        return;
    };
    let planned = profile.total_pages();
    assert!(planned > 2 * PAGES, "{planned}");
    for (way, options) in ways() {
        bed.undisturbed(|| {
            bed.drop_caches();
            let options = budget(PAGES, &options);
            let first = replay(&profile, &options);
            assert_eq!(first.arrived_pages, PAGES, "{way}: {first:?}");
            let second = replay(&profile, &options);
            assert_eq!(second.cached_pages, PAGES, "{way}: {second:?}");
            assert_eq!(second.arrived_pages, PAGES, "{way}: {second:?}");
            let left = planned - 2 * PAGES;
            assert_eq!(second.over_budget_pages, left, "{way}: {second:?}");
        });
    }
}

#[test]
fn a_budget_is_one_for_all_file_systems() {
    let Some((bed, _, profile)) = made() else {
        return;
    };
    let other = Testbed::start(TestbedConfig::new(bed.testbed.parameters(), 64 << 20)).unwrap();
    other.make_file_system(FileSystem::Ext4, &[]).unwrap();
    let other_root = other.mount(FileSystem::Ext4, "noatime").unwrap();
    tree::make(&other_root.join("tree"), 100);
    other.remount(FileSystem::Ext4, "noatime").unwrap();
    let top = other_root.join("tree");
    let others = tree::profile(&other_root, &top, &tree::everything(&top));
    let mut needs = tree::everything(&top);
    needs.extend(tree::everything(&bed.root.join("tree")));
    // Both in one profile: a common top directory of both mounts is the root.
    let both = foreread_profile::merge_profiles(&profile, &others);
    bed.undisturbed(|| {
        bed.drop_caches();
        let report = replay(&both, &budget(500, &Options::default()));
        assert_eq!(report.raw_file_systems, 2, "{report:?}");
        assert!(report.arrived_pages <= 500, "{report:?}");
        // Holes are given a share too, which then isn't used.
        assert!(report.arrived_pages >= 500 - 398, "{report:?}");
        let resident: usize = needs
            .iter()
            .map(|(path, _)| tree::resident(path).len())
            .sum();
        assert_eq!(resident as u64, report.arrived_pages, "{report:?}");
    });
}

const CHILD: &str = "FOREREAD_REPLAY_TEST";

/// Replays a profile in a process of its own, that `prepare` changes before; returns the lines it
/// prints. Its memory and limits are then its own.
fn in_child(bed: &Bed, profile: &Profile, options: &str, prepare: &dyn Fn(&mut Command)) -> String {
    let stored = tempfile::NamedTempFile::new().unwrap();
    fs::write(stored.path(), foreread_profile::encode(profile)).unwrap();
    let mut command = bed.testbed.command(std::env::current_exe().unwrap());
    command.args(["bounds::replays_for_another_test", "--exact", "--nocapture"]);
    command.env(CHILD, format!("{options} {}", stored.path().display()));
    prepare(&mut command);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    text
}

/// The child of [`in_child`]; by itself it checks that there is nothing to replay.
#[test]
fn replays_for_another_test() {
    let Ok(task) = std::env::var(CHILD) else {
        let empty = Profile::default();
        assert_eq!(replay(&empty, &Options::default()), Report::default());
        return;
    };
    let (way, path) = task.rsplit_once(' ').unwrap();
    let bytes = fs::read(path).unwrap();
    let profile = foreread_profile::decode(&bytes).unwrap();
    drop(bytes);
    let before = peak_kib();
    let options = ways().into_iter().find(|(name, _)| *name == way).unwrap().1;
    let report = replay(&profile, &options);
    println!("grown_kib={}", peak_kib() - before);
    println!("peak_kib={}", peak_kib());
    println!("arrived={}", report.arrived_pages);
    println!("over={}", report.over_budget_pages);
    println!("skipped={}", report.skipped_pages);
    println!("unreadable={}", report.unreadable_files);
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn number(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("no {name} in {text}"))
        .parse()
        .unwrap()
}

/// A cgroup of the memory controller, removed when dropped.
struct Cgroup {
    path: PathBuf,
    limit_file: &'static str,
}

impl Cgroup {
    fn make() -> Option<Self> {
        let name = format!("foreread-test-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let v2 = Path::new("/sys/fs/cgroup");
        let (top, limit_file) = if v1.exists() {
            (v1, "memory.limit_in_bytes")
        } else {
            (v2, "memory.max")
        };
        let path = top.join(name);
        if fs::create_dir(&path).is_err() || !path.join(limit_file).exists() {
            let _ = fs::remove_dir(&path);
            println!("skipped: no cgroup with a memory limit can be made");
            return None;
        }
        Some(Self { path, limit_file })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        super::bed::wait_for(
            || fs::remove_dir(&self.path).is_ok(),
            "the cgroup to be empty",
        );
    }
}

#[test]
fn the_limit_of_a_cgroup_bounds_what_is_brought_in() {
    let Some((bed, _, profile)) = made() else {
        return;
    };
    let Some(cgroup) = Cgroup::make() else { return };
    // The tree alone would fit, but not in the half that a replay may take.
    let planned = profile.total_pages() * PAGE_BYTES;
    let limit = (planned * 3 / 2).next_multiple_of(1 << 20);
    fs::write(cgroup.path.join(cgroup.limit_file), limit.to_string()).unwrap();
    let procs = std::ffi::CString::new(
        cgroup
            .path
            .join("cgroup.procs")
            .into_os_string()
            .into_encoded_bytes(),
    )
    .unwrap();
    let prepare = |command: &mut Command| {
        let procs = procs.clone();
        // SAFETY: between fork and exec it opens, writes and closes a file, and allocates nothing.
        unsafe {
            command.pre_exec(move || {
                let mode = rustix::fs::Mode::empty();
                let file = rustix::fs::open(&procs, rustix::fs::OFlags::WRONLY, mode)?;
                rustix::io::write(&file, b"0")?;
                Ok(())
            });
        }
    };
    bed.undisturbed(|| {
        bed.drop_caches();
        let text = in_child(&bed, &profile, "raw", &prepare);
        let arrived = number(&text, "arrived") * PAGE_BYTES;
        assert!(arrived > 0 && arrived <= limit / 2, "{arrived} of {limit}");
        assert!(number(&text, "over") > 0, "{text}");
    });
    bed.undisturbed(|| {
        bed.drop_caches();
        let text = in_child(&bed, &profile, "raw", &|_| {});
        assert_eq!(
            number(&text, "arrived") * PAGE_BYTES,
            planned,
            "without a limit: {text}"
        );
    });
}

#[test]
fn few_descriptors_suffice() {
    let Some(bed) = bed(FileSystem::Ext4, &[]) else {
        return;
    };
    let top = bed.root.join("tree");
    for at in 0..900 {
        let directory = top.join(format!("directory-{at}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), [7; 5000]).unwrap();
    }
    bed.remount("noatime");
    let needs = tree::everything(&top);
    let profile = tree::profile(&bed.root, &top, &needs);
    for (way, _) in ways() {
        bed.undisturbed(|| {
            bed.drop_caches();
            let few = |command: &mut Command| {
                // SAFETY: between fork and exec it makes two system calls.
                unsafe {
                    command.pre_exec(|| {
                        let maximum = getrlimit(Resource::Nofile).maximum;
                        let current = Some(100);
                        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
                        Ok(())
                    });
                }
            };
            let text = in_child(&bed, &profile, way, &few);
            assert_eq!(number(&text, "arrived"), 1800, "{way}: {text}");
            assert_eq!(number(&text, "unreadable"), 0, "{way}: {text}");
            tree::assert_exactly(&top, &needs);
        });
    }
}

#[test]
fn fifty_thousand_files_take_little_memory() {
    let Some(bed) = bed(FileSystem::Ext4, &["-N", "70000"]) else {
        return;
    };
    let top = bed.root.join("tree");
    for at in 0..50_000 {
        let directory = top.join(format!("d{}", at / 50));
        if at % 50 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        fs::write(directory.join(format!("file-{at}")), [7; 1000]).unwrap();
    }
    bed.remount("noatime");
    let needs = tree::everything(&top);
    let profile = tree::profile(&bed.root, &top, &needs);
    for (way, _) in ways() {
        bed.undisturbed(|| {
            bed.drop_caches();
            let text = in_child(&bed, &profile, way, &|_| {});
            assert_eq!(number(&text, "arrived"), 50_000, "{way}: {text}");
            println!(
                "{way}: {}",
                text.lines()
                    .filter(|l| l.contains("_kib="))
                    .collect::<Vec<_>>()
                    .join(" ")
            );
            assert!(number(&text, "peak_kib") < 64 << 10, "{way}: {text}");
        });
    }
}

/// Has the kernel refuse io_uring to this thread and those it starts.
fn without_io_uring<T: Send>(errno: u32, work: impl FnOnce() -> T + Send) -> T {
    let instruction = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let setup = u32::try_from(libc::SYS_io_uring_setup).unwrap();
    let filter = [
        // The number of the call is the first field.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, setup),
        instruction(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | errno,
        ),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the program is only read, and outlives the calls; it concerns this thread alone.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(
                    libc::PR_SET_SECCOMP,
                    libc::SECCOMP_MODE_FILTER,
                    &raw const program,
                ) == 0
        };
        assert!(installed, "{}", std::io::Error::last_os_error());
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            install();
            work()
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn where_io_uring_is_refused_threads_read_the_same() {
    let Some((bed, needs, profile)) = made() else {
        return;
    };
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
        bed.undisturbed(|| {
            bed.drop_caches();
            let report = without_io_uring(errno as u32, || {
                let refused = foreread_sys::uring::BatchReader::<()>::new(8, 4096);
                assert_eq!(refused.err().unwrap().raw_os_error(), Some(errno));
                replay(&profile, &Options::default())
            });
            assert_eq!(report.raw_file_systems, 1, "{report:?}");
            assert_eq!(report.arrived_pages, profile.total_pages(), "{report:?}");
            tree::assert_exactly(&bed.root.join("tree"), &needs);
        });
    }
}

#[test]
fn what_is_in_the_profile_twice_over_is_read_once() {
    let Some((bed, _, profile)) = made() else {
        return;
    };
    // Every file in single pages, each with a need of its own: as fragmented as can be.
    let mut builder_needs: tree::Needs = Vec::new();
    let mut seen = BTreeSet::new();
    for (id, node) in profile
        .iter()
        .filter(|(_, node)| node.kind == NodeKind::File)
    {
        use std::os::unix::ffi::OsStrExt;
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&profile.path(id)));
        assert!(seen.insert(node.identity.inode));
        for range in profile.ranges(id) {
            let pages = (range.start_page..range.end_page()).rev();
            builder_needs.extend(pages.map(|page| (path.clone(), vec![(page, 1)])));
        }
    }
    // Neighbours that are needed at once would be one again.
    builder_needs.sort_by_key(|(_, ranges)| ranges[0].0);
    let single = tree::profile(&bed.root, &bed.root.join("tree"), &builder_needs);
    assert!(single.ranges.len() > 500);
    let single = Arc::new(single);
    bed.undisturbed(|| {
        bed.drop_caches();
        let report = replay(&single, &Options::default());
        assert_eq!(report.arrived_pages, profile.total_pages(), "{report:?}");
        assert_eq!(
            report.files,
            seen.len() as u64 - 2,
            "each counts once: {report:?}"
        );
    });
}
