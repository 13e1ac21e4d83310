// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that the tests of the built binary share.
#![allow(dead_code)]

pub mod browser;
pub mod machine;
pub mod played_boot;
pub mod schemas;
pub mod served;
pub mod service;
pub mod watched;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use foreread_profile::{
    Identity, NodeKind, Profile, ProfileBuilder, Program, Run, Source, Uses, decode, encode,
};
use rustix::fs::{Advice, fadvise};

/// A directory of profiles and a directory to play in, both removed at the end.
pub struct World {
    directory: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(directory.path().join("state")).expect("a state directory");
        Self { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// `foreread` with these arguments, without a terminal, in the directory to play in.
    pub fn foreread(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
        command
            .args(arguments)
            .env("FOREREAD_STATE_DIR", self.state())
            // Not that of this machine.
            .env("FOREREAD_CONFIG", self.path("foreread.toml"));
        command
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end. A document that it prints must be as its schema says.
    pub fn output(&self, arguments: &[&str]) -> Output {
        let output = self.foreread(arguments).output().expect("foreread starts");
        schemas::check(&output);
        output
    }

    /// Whether a command that loads programs into the kernel works here; says why not.
    pub fn can(&self, arguments: &[&str]) -> bool {
        let output = self.output(arguments);
        let can = output.status.code() == Some(0);
        if !can {
            println!("skipped: {}", stderr(&output).trim_end());
            // On the kernel that it is made for it must work.
            let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            let is_defect = stderr(&output).contains("refused") && release.starts_with("6.18.");
            assert!(!is_defect, "{}", stderr(&output));
        }
        can
    }

    /// The stored profiles.
    pub fn profiles(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state()).expect("the state directory");
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "frp"));
        paths
    }

    /// Makes files of `bytes` each, and says where.
    pub fn tree(&self, files: usize, bytes: usize) -> PathBuf {
        let top = self.path("tree");
        for index in 0..files {
            let directory = top.join(format!("{:02}", index % 32));
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(directory.join(format!("file-{index}")), vec![b'x'; bytes]).expect("a file");
        }
        top
    }
}

/// Has the pages of a file leave memory.
pub fn drop_pages(path: &Path) {
    let file = File::open(path).expect("a file");
    file.sync_all().expect("it is on the disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("it leaves memory");
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// One line for people, exit 2, nothing else.
pub fn assert_fails_in_one_line(output: &Output, what: &str) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{what}: {text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{what}: {text}");
    assert!(
        text.starts_with("foreread: ") && !text.contains("panicked"),
        "{what}: {text}"
    );
    assert!(output.stdout.is_empty(), "{what}: {}", stdout(output));
}

/// Whether tests that need root can run; says so when not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

/// Whether recording works here; says so when not.
pub fn can_record() -> bool {
    let output = World::new().output(&["doctor", "--json"]);
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("doctor prints one document");
    let can = document["recorder"] == "bpf";
    if !can {
        println!("skipped: needs the BPF recorder, which `foreread doctor` finds lacking");
    }
    can
}

/// A profile that names files as they are on the disk, whole.
pub fn profile_of(paths: &[&Path]) -> Profile {
    let program = Program {
        executable: b"/bin/cat".to_vec(),
        ..Program::default()
    };
    let mut builder = ProfileBuilder::new(program, Source::default());
    builder.run(Run::default());
    for path in paths {
        for (kind, path) in path.ancestors().map(|at| {
            (
                if at == *path {
                    NodeKind::File
                } else {
                    NodeKind::Directory
                },
                at,
            )
        }) {
            let metadata = fs::metadata(path).expect("a file that exists");
            let id = builder
                .node(path.as_os_str().as_encoded_bytes())
                .expect("a path");
            builder.set_kind(id, kind);
            builder.used(id, Uses::LOOKED_UP, 0);
            let identity = Identity {
                inode: metadata.ino(),
                size_bytes: metadata.len(),
                mtime_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
                ..Identity::default()
            };
            builder.set_identity(id, identity);
            if kind == NodeKind::File {
                builder.pages(id, 0, metadata.len().div_ceil(4096), 0);
            }
        }
    }
    builder.finish()
}

/// A profile of so many made-up files, some megabytes large when stored.
pub fn large_profile(files: u64, salt: u64) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    for index in 0..files {
        // Spread, so that it doesn't compress to nothing.
        let spread = (index + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let path = format!("/large/{:02x}/{spread:016x}", index % 251);
        let id = builder.node(path.as_bytes()).expect("a path");
        builder.set_identity(
            id,
            Identity {
                inode: spread >> 20,
                ..Identity::default()
            },
        );
        builder.pages(id, spread % 100, spread % 30 + 1, spread % 1_000_000_000);
    }
    builder.finish()
}

/// Writes a profile that all may read.
pub fn write(path: &Path, profile: &Profile) {
    fs::write(path, encode(profile)).expect("a profile is written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("and may be read");
}

/// Reads a profile, which must be whole.
pub fn read(path: &Path) -> Profile {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    decode(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A copy of the binary where everybody may run it: the target directory may be closed to others.
pub fn binary_for_all(world: &World) -> PathBuf {
    let copy = world.path("foreread");
    // By another process: while this one has the copy open for writing, a child that another test
    // starts just then inherits that until it calls exec, and it can't be executed (ETXTBSY).
    let status = Command::new("install")
        .args(["-m", "755", env!("CARGO_BIN_EXE_foreread")])
        .arg(&copy)
        .status();
    assert!(status.expect("install").success(), "a copy of the binary");
    fs::set_permissions(world.path(""), fs::Permissions::from_mode(0o755)).expect("open to all");
    copy
}

/// The golden profile of the repository.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/profiles/v1.foreread")
}

/// Whether a directory has a file that a save has begun and not ended.
pub fn has_temporary(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.as_encoded_bytes().ends_with(b".foreread-tmp"))
}
