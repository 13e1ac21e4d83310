// SPDX-License-Identifier: MIT OR Apache-2.0
//! File systems on the modelled disk.

use std::ffi::CString;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::MountFlags;

use crate::error::{Lacking, TestbedError};
use crate::sys;

/// A file system that a testbed can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// ext4, its inode tables and journal written when it is made and not later.
    Ext4,
    /// XFS; needs a capacity of 300 MiB.
    Xfs,
    /// Btrfs; needs a capacity of 256 MiB.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name, as `mount -t` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::Ext4 => "e2fsprogs",
            Self::Xfs => "xfsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            // Lazy initialisation would write, and read bitmaps, behind a measurement's back. The
            // fixed seed gives directories the same order in every image. Without the type, a small
            // device would get blocks of 1 KiB.
            Self::Ext4 => &[
                "-q",
                "-F",
                "-T",
                "default",
                "-E",
                "lazy_itable_init=0,lazy_journal_init=0,\
                 hash_seed=6f72e5ad-0000-4000-8000-000000000001",
            ],
            Self::Xfs | Self::Btrfs => &["-q", "-f"],
        }
    }

    /// The options it is mounted with where `options` are asked for.
    pub(crate) fn mount_options(self, options: &str) -> String {
        match self {
            // Within 5 s of a mount, a thread of ext4 reads all block bitmaps (since Linux 5.13):
            // behind the back of a test that counts reads.
            Self::Ext4 => format!("no_prefetch_block_bitmaps,{options}"),
            Self::Xfs | Self::Btrfs => options.to_owned(),
        }
    }

    /// Whether the program that makes it is installed.
    ///
    /// # Errors
    /// It is not; the error names the package.
    pub fn available(self) -> Result<(), Lacking> {
        let program = format!("mkfs.{}", self.name());
        let path = std::env::var_os("PATH").unwrap_or_default();
        // An ordinary user's PATH may lack them, and mkfs lives there.
        let found = std::env::split_paths(&path)
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .any(|directory| directory.join(&program).is_file());
        if found {
            Ok(())
        } else {
            Err(Lacking::Program(program, self.package()))
        }
    }

    pub(crate) fn make(self, device: &Path, options: &[&str]) -> Result<(), TestbedError> {
        self.available()?;
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        command.args(self.arguments()).args(options).arg(device);
        run(&mut command)
    }
}

/// Runs a program to its end; it dies with the calling thread.
pub(crate) fn run(command: &mut Command) -> Result<(), TestbedError> {
    let text = format!("{command:?}");
    let output = sys::die_with_parent(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(TestbedError::system(format!("start {text}")))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let mut lines: Vec<&str> = message.lines().rev().take(5).collect();
    lines.reverse();
    Err(TestbedError::Program {
        command: text,
        status: output.status.to_string(),
        message: lines.join("; "),
    })
}

/// Splits `mount -o` options into the kernel's flags and the options that the file system reads
/// itself.
pub(crate) fn split_options(options: &str) -> Result<(MountFlags, CString), TestbedError> {
    let mut flags = MountFlags::empty();
    let mut data = Vec::new();
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "defaults" | "rw" => {}
            "ro" => flags |= MountFlags::RDONLY,
            "noatime" => flags |= MountFlags::NOATIME,
            "nodiratime" => flags |= MountFlags::NODIRATIME,
            "relatime" => flags |= MountFlags::RELATIME,
            "strictatime" => flags |= MountFlags::STRICTATIME,
            "nodev" => flags |= MountFlags::NODEV,
            "nosuid" => flags |= MountFlags::NOSUID,
            "noexec" => flags |= MountFlags::NOEXEC,
            "sync" => flags |= MountFlags::SYNCHRONOUS,
            "lazytime" => flags |= MountFlags::LAZYTIME,
            other => data.push(other),
        }
    }
    let data = CString::new(data.join(","))
        .map_err(|_| TestbedError::Misuse("a mount option contains a zero byte".to_owned()))?;
    Ok((flags, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_part_into_flags_and_data() {
        let (flags, data) = split_options("noatime,ro,inode_readahead_blks=0,,subvol=/a").unwrap();
        assert_eq!(flags, MountFlags::NOATIME | MountFlags::RDONLY);
        assert_eq!(data.as_c_str(), c"inode_readahead_blks=0,subvol=/a");
        assert!(split_options("a\0b").is_err());
    }

    #[test]
    fn ext4_reads_no_bitmaps_after_a_mount() {
        let (flags, data) = split_options(&FileSystem::Ext4.mount_options("noatime")).unwrap();
        assert_eq!(flags, MountFlags::NOATIME);
        assert_eq!(data.as_c_str(), c"no_prefetch_block_bitmaps");
        assert_eq!(FileSystem::Xfs.mount_options("noatime"), "noatime");
    }

    #[test]
    fn a_failed_program_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo what went wrong >&2; exit 3"]);
        let text = run(&mut command).unwrap_err().to_string();
        assert!(
            text.contains("what went wrong") && text.contains("exit status: 3"),
            "{text}"
        );
    }
}
