// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are written whole or not at all.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Replaces a file by new content: written beside it, synced, renamed over it, and the directory
/// synced. Killed at any point, or with the disk full, the file is the old or the new one, whole.
///
/// Only its owner may read it.
///
/// # Errors
/// As the kernel says; then the old file is untouched.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with_mode(path, content, 0o600)
}

/// As [`replace`], for a file that everybody may read.
///
/// # Errors
/// As [`replace`].
pub fn replace_for_all(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with_mode(path, content, 0o644)
}

fn replace_with_mode(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let directory = parent(path);
    let temporary = temporary_beside(path);
    remove_leftovers_of(path);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if let Err(error) = written {
        // It may not exist: then there is nothing to remove.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(directory)?.sync_all()
}

/// Replaces a file by new content. Readers see the old or the new content, never a part. It does
/// not wait for the disk: for files that mean nothing after a reboot. Only its owner may use it.
///
/// # Errors
/// As the kernel says; then the old file is untouched.
pub fn replace_until_reboot(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path);
    let written = write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // It may not exist: then there is nothing to remove.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Creates a directory, and its missing parents, that only their owner may enter, whatever the
/// umask. One that is there stays as it is.
///
/// # Errors
/// As the kernel says.
pub fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The same for directories that everybody may list and only their owner may change.
///
/// # Errors
/// As the kernel says.
pub fn create_directory_for_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Creates or empties a file of a user's choice that may name paths. A new one only its owner may
/// read, whatever the umask.
///
/// # Errors
/// As the kernel says.
pub fn create(path: &Path) -> io::Result<File> {
    private().truncate(true).open(path)
}

/// The same, and keeps what is in the file; writes at its end.
///
/// # Errors
/// As the kernel says.
pub fn append(path: &Path) -> io::Result<File> {
    private().append(true).open(path)
}

/// Writes a file that [`create`] makes.
///
/// # Errors
/// As the kernel says.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    create(path)?.write_all(content)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

const TEMPORARY_SUFFIX: &str = ".foreread-tmp";

fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}{TEMPORARY_SUFFIX}", std::process::id()));
    parent(path).join(name)
}

/// A new file beside another one, to be renamed over it once it is whole. Only its owner may read
/// it. Returns its path, too.
///
/// # Errors
/// As the kernel says.
pub fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    remove_leftovers_of(path);
    let temporary = temporary_beside(path);
    Ok((create(&temporary)?, temporary))
}

/// Removes what processes that were killed while saving left in a directory.
pub fn remove_leftovers(directory: &Path) {
    remove_leftovers_if(directory, |_| true);
}

/// Removes what processes left that were killed while saving this file.
fn remove_leftovers_of(path: &Path) {
    let wanted = path.file_name().unwrap_or_default().as_bytes();
    remove_leftovers_if(parent(path), |saved| saved == wanted);
}

/// Removes the temporary files of killed processes, of those files whose name is wanted.
fn remove_leftovers_if(directory: &Path, is_wanted: impl Fn(&[u8]) -> bool) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((saved, owner)) = saved_by(name.as_bytes()) else {
            continue;
        };
        if is_wanted(saved) && !Path::new(&format!("/proc/{owner}")).exists() {
            // Another process may have removed it just now.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The name of the file that a temporary file was to replace, and the process that wrote it. `None`
/// if it isn't named as such a file.
#[must_use]
pub fn saved_by(name: &[u8]) -> Option<(&[u8], u32)> {
    let stem = name.strip_prefix(b".")?;
    let stem = stem.strip_suffix(TEMPORARY_SUFFIX.as_bytes())?;
    let dot = stem.iter().rposition(|byte| *byte == b'.')?;
    let owner = std::str::from_utf8(&stem[dot + 1..]).ok()?;
    Some((&stem[..dot], owner.parse().ok()?))
}

/// Held while a directory of profiles is changed; let go when dropped, or when the process dies.
pub struct Lock {
    file: File,
}

/// Another process that has a copy of the descriptor, or a thread that hangs with it in the kernel,
/// doesn't keep the lock.
impl Drop for Lock {
    fn drop(&mut self) {
        // It is given up with the descriptor otherwise.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    /// Leaves a text in its file, for a process that finds the lock taken.
    ///
    /// # Errors
    /// As the kernel says.
    pub fn note(&self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

/// Waits for the lock of a directory.
///
/// # Errors
/// When the lock file can't be made.
pub fn lock(directory: &Path) -> io::Result<Lock> {
    let file = lock_file(&directory.join(".lock"))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(Lock { file }),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes the lock of a file, without waiting. `None` if another process has it; the kernel releases
/// it when a process dies. The file is made if need be, and stays.
///
/// # Errors
/// When the file can't be made.
pub fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let file = lock_file(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock { file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // A FIFO in its place must not hold us up.
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other(format!(
            "{} is no regular file",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        replace(&path, b"old")?;
        replace(&path, b"new")?;
        assert_eq!(fs::read(&path)?, b"new");
        assert_eq!(fs::read_dir(directory.path())?.count(), 1);
        Ok(())
    }

    #[test]
    fn a_failure_leaves_the_old_file() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        replace(&path, b"old")?;
        // A directory in the way of the temporary file makes writing fail at its first step.
        fs::create_dir(temporary_beside(&path))?;
        assert!(replace(&path, b"new").is_err());
        assert_eq!(fs::read(&path)?, b"old");
        Ok(())
    }

    #[test]
    fn nothing_but_a_file_is_a_lock() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("lock");
        let made = std::process::Command::new("mkfifo").arg(&path).status()?;
        assert!(made.success());
        assert!(try_lock(&path).is_err());
        // Somebody reads it.
        let _reader = OpenOptions::new().read(true).write(true).open(&path)?;
        let error = try_lock(&path).err().expect("no file");
        assert!(error.to_string().contains("no regular file"), "{error}");
        Ok(())
    }

    #[test]
    fn a_lock_says_whose_it_is() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("lock");
        for text in ["12345", "6"] {
            let lock = try_lock(&path)?;
            assert!(try_lock(&path)?.is_none());
            lock.expect("it is free").note(text)?;
            assert_eq!(fs::read_to_string(&path)?, text);
        }
        Ok(())
    }

    #[test]
    fn who_replaces_a_file_removes_its_leftovers() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let left = |name: &str| {
            let name = format!(".{name}.99999999{TEMPORARY_SUFFIX}");
            directory.path().join(name)
        };
        for name in ["p", "other"] {
            fs::write(left(name), b"")?;
        }
        replace(&directory.path().join("p"), b"new")?;
        assert!(!left("p").exists() && left("other").exists());
        fs::write(left("p"), b"")?;
        let (_file, unfinished) = create_beside(&directory.path().join("p"))?;
        assert!(!left("p").exists() && unfinished.exists());
        Ok(())
    }

    #[test]
    fn leftovers_of_the_dead_go_and_those_of_the_living_stay() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        // No process has this number: it is above the largest that Linux gives out.
        let dead = directory
            .path()
            .join(format!(".p.99999999{TEMPORARY_SUFFIX}"));
        let alive = temporary_beside(&directory.path().join("p"));
        fs::write(&dead, b"")?;
        fs::write(&alive, b"")?;
        fs::write(directory.path().join("p"), b"")?;
        remove_leftovers(directory.path());
        assert!(!dead.exists() && alive.exists() && directory.path().join("p").exists());
        Ok(())
    }
}
