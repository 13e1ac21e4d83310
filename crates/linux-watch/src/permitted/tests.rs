// SPDX-License-Identifier: MIT OR Apache-2.0
//! The answers are held against those of the kernel, as different users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use foreread_prefetch::plan::PlanBuilder;
use foreread_profile::Identity;
use rustix::fs::{XattrFlags, setxattr};

use super::super::cgroups::Cgroups;
use super::*;

/// A process of a user that waits until it is dropped.
struct Waiting(Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const USERS: [&[&str]; 4] = [
    &["--reuid", "1001", "--regid", "1001", "--clear-groups"],
    &[
        "--reuid",
        "1002",
        "--regid",
        "1002",
        "--groups",
        "1001,1003",
    ],
    &[
        "--reuid",
        "0",
        "--regid",
        "0",
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ],
    &["--reuid", "1003", "--regid", "0", "--clear-groups"],
];

fn can_be_others() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: needs root");
    }
    is_root
}

fn waiting(user: &[&str]) -> Waiting {
    let mut command = Command::new("setpriv");
    let child = command
        .args(user)
        .args(["sh", "-c", "echo; exec sleep 300"]);
    let mut child = child.stdout(Stdio::piped()).spawn().unwrap();
    // It has its credentials once it writes.
    let mut line = [0; 1];
    use std::io::Read;
    child.stdout.take().unwrap().read_exact(&mut line).unwrap();
    Waiting(child)
}

/// What the kernel says: read and search access of this user to each path.
fn of_kernel(user: &[&str], paths: &[PathBuf]) -> Vec<(bool, bool)> {
    let script = "for f; do (: < \"$f\") 2>/dev/null && r=1 || r=0; \
                  (cd \"$f\") 2>/dev/null && x=1 || x=0; echo $r$x; done";
    let mut command = Command::new("setpriv");
    let output = command
        .args(user)
        .args(["sh", "-c", script, "sh"])
        .args(paths)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answers = text
        .lines()
        .map(|line| (line.starts_with('1'), line.ends_with('1')));
    answers.collect()
}

fn limits_of(process: u32) -> Arc<Limits> {
    match Reader::of(process, true, &Cgroups::default()).rights() {
        Rights::Some(limits) => limits,
        other => panic!("{other:?}"),
    }
}

fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, bits, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(bits.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// A number that looks random, the same in each run.
fn scrambled(number: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9e37_79b9);
    (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b) >> 8
}

/// Files and directories with all kinds of modes, owners and lists.
fn make_inodes(top: &Path) -> Vec<PathBuf> {
    let mut made = Vec::new();
    for number in 0..240 {
        let path = top.join(number.to_string());
        match number % 2 {
            0 => fs::write(&path, "x").unwrap(),
            _ => fs::create_dir(&path).unwrap(),
        }
        let of = scrambled(number);
        let owners = [1001, 1002, 0];
        let owner = owners[of as usize % 3];
        let group = [1001, 1002, 1003, 0][(of >> 2) as usize % 4];
        chown(&path, Some(owner), Some(group)).unwrap();
        let mode = of >> 6 & 0o777;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        if number % 3 == 0 {
            let bits = |shift: u32| (scrambled(number + 1000) >> shift & 7) as u16;
            let value = list(&[
                (1, bits(0), u32::MAX),
                (2, bits(3), 1001),
                (4, bits(6), u32::MAX),
                (8, bits(9), 1003),
                (16, bits(12), u32::MAX),
                (32, bits(15), u32::MAX),
            ]);
            if let Err(error) = setxattr(&path, LIST_NAME, &value, XattrFlags::empty()) {
                println!("without access control lists: {error}");
            }
        }
        made.push(path);
    }
    made
}

#[test]
fn the_kernel_gives_the_same_answers() {
    if !can_be_others() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
    let paths = make_inodes(&top);
    let opened = open(top.as_os_str().as_bytes()).unwrap();
    for user in USERS {
        let reader = waiting(user);
        let limits = limits_of(reader.0.id());
        let kernel = of_kernel(user, &paths);
        assert_eq!(kernel.len(), paths.len());
        let mut granted = 0;
        for (path, (may_read, may_search)) in paths.iter().zip(kernel) {
            let name = path.file_name().unwrap().as_bytes();
            let inode = match path.is_dir() {
                true => {
                    let directory = open(path.as_os_str().as_bytes()).unwrap();
                    let inode = inode_of(&directory, &limits).unwrap();
                    let searches = permits(&limits.credentials, &inode, SEARCH);
                    assert_eq!(searches, may_search, "{user:?} {inode:?}");
                    inode
                }
                false => inode_of_file(opened.as_fd(), name, &limits).unwrap(),
            };
            let reads = permits(&limits.credentials, &inode, READ);
            assert_eq!(reads, may_read, "{user:?} {inode:?}");
            granted += u32::from(reads);
        }
        assert!(granted > 10 && granted < 230, "{granted}");
    }
}

/// A plan of the first page of each of these files.
fn plan_of(files: &[PathBuf]) -> ReadPlan {
    let mut builder = PlanBuilder::new();
    for (need, path) in files.iter().enumerate() {
        let identity = Identity {
            inode: 1,
            ..Identity::default()
        };
        let path = path.as_os_str().as_bytes();
        builder.add(path, NodeKind::File, identity, Uses::LOOKED_UP, need as u64);
        builder.pages(0, 1, need as u64);
    }
    builder.finish()
}

#[test]
fn a_plan_loses_what_its_reader_may_not_read() {
    if !can_be_others() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(top.join("closed")).unwrap();
    let files = ["open", "secret", "closed/open"].map(|name| top.join(name));
    for (file, mode) in files.iter().zip([0o644, 0o600, 0o644]) {
        fs::write(file, "x").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::set_permissions(top.join("closed"), fs::Permissions::from_mode(0o750)).unwrap();
    let reader = waiting(USERS[0]);
    let mut permitted = Permitted::new(Reader::of(reader.0.id(), true, &Cgroups::default()));
    assert_eq!(permitted.begin(), None);
    let mut looked_up = Vec::new();
    let checked = permitted.check(plan_of(&files), |plan| {
        assert_eq!(plan.files_with_pages().count(), 0);
        let wanted = plan.iter().filter(|(_, node)| node.identity.inode != 0);
        looked_up.extend(wanted.map(|(id, _)| path_of(&plan, id)));
    });
    let kept: Vec<Vec<u8>> = checked
        .plan
        .files_with_pages()
        .map(|(id, _)| path_of(&checked.plan, id))
        .collect();
    let is_kernel_local = {
        let mounts = foreread_sys::mounts::mounts_of_self().unwrap();
        let at = mounts.mount_of(top.as_os_str().as_bytes()).unwrap();
        is_local(&mounts.points()[at].fs_type) || mounts.points()[at].is_virtual()
    };
    if !is_kernel_local {
        return println!("skipped: temporary files are on an unknown file system");
    }
    assert_eq!(kept, [files[0].as_os_str().as_bytes()]);
    assert_eq!(checked.withheld, 2);
    // Nothing below a closed directory is even looked up.
    let paths = |files: &[PathBuf]| -> Vec<Vec<u8>> {
        files
            .iter()
            .map(|file| file.as_os_str().as_bytes().to_vec())
            .collect()
    };
    assert_eq!(looked_up, paths(&files[..2]));
    let path = |name: &str| top.join(name).as_os_str().as_bytes().to_vec();
    assert!(!permitted.may_list(&path("closed")) && permitted.may_list(top.as_os_str().as_bytes()));
    // Root has it all.
    let root = waiting(&["--reuid", "0"]);
    let mut all = Permitted::new(Reader::of(root.0.id(), true, &Cgroups::default()));
    assert_eq!(all.begin(), None);
    let checked = all.check(plan_of(&files), |_| panic!("root needs no check"));
    assert_eq!((checked.plan, checked.withheld), (plan_of(&files), 0));
}

#[test]
fn a_reader_in_another_mount_namespace_gets_what_it_sees() {
    if !can_be_others() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().canonicalize().unwrap();
    fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
    let (seen, hidden) = (top.join("seen"), top.join("hidden"));
    for at in [&seen, &hidden] {
        fs::create_dir(at).unwrap();
    }
    // Root of a container: it has a mount of its own over one of the directories.
    let script = format!(
        "mount -t tmpfs none {}; echo; exec sleep 300",
        hidden.display()
    );
    let mut command = Command::new("unshare");
    let command = command
        .args(["--mount", "sh", "-c", &script])
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = [0; 1];
    use std::io::Read;
    let told = child.stdout.take().unwrap().read_exact(&mut line);
    let reader = Waiting(child);
    if told.is_err() {
        return println!("skipped: no mount namespaces");
    }
    let mut permitted = Permitted::new(Reader::of(reader.0.id(), true, &Cgroups::default()));
    assert_eq!(permitted.begin(), None);
    assert!(permitted.may_list(seen.as_os_str().as_bytes()));
    assert!(!permitted.may_list(hidden.as_os_str().as_bytes()));
}
