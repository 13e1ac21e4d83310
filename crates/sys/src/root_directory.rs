// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths of a system below another root directory, such as an image that is being built.
//!
//! In: a root directory, and paths of that system. Out: paths by which this process reaches the
//! same files. Symbolic links lead where they lead in that system: an absolute one begins at its
//! root directory, and `..` doesn't leave it.
//!
//! A path that comes out is below the root directory, and none of its directories is a link. That
//! holds until somebody changes these directories. It needs `/proc`, which names open directories.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// How often a path is resolved anew after a rename or a mount came between.
const TRIES: u32 = 64;

/// The root directory of a system.
#[derive(Debug)]
pub struct RootDirectory {
    path: PathBuf,
    /// `None` for that of this process, which the kernel resolves all paths in.
    opened: Option<OwnedFd>,
}

impl RootDirectory {
    /// The directory at `path`, which may be relative.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let opened = match path == Path::new("/") {
            true => None,
            false => Some(openat(CWD, &path, directory_flags(), Mode::empty())?),
        };
        Ok(Self { path, opened })
    }

    /// Its path, absolute.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is the root directory of this system.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.opened.is_none()
    }

    /// What a path of the system leads to. A link at its end is followed, too.
    ///
    /// # Errors
    /// The kernel's. `ENOTDIR` for a link where openat2(2) is missing.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        match &self.opened {
            None => fs::metadata(Path::new("/").join(path)),
            Some(root) => {
                let found = open_inside(root, path, OFlags::PATH | OFlags::CLOEXEC)?;
                File::from(found).metadata()
            }
        }
    }

    /// Where a directory of the system is, or would be made. A link at its end is followed, too.
    ///
    /// # Errors
    /// The kernel's. `ENOENT` for a link that leads nowhere.
    pub fn directory(&self, path: &Path) -> io::Result<PathBuf> {
        let Some(root) = &self.opened else {
            return Ok(Path::new("/").join(path));
        };
        match open_inside(root, path, directory_flags()) {
            Ok(found) => fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())),
            Err(Errno::NOENT) => {
                let missing = self.entry(path)?;
                match fs::symlink_metadata(&missing) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(missing),
                    Err(error) => Err(error),
                    Ok(_) => Err(Errno::NOENT.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Where an entry of a directory of the system is, or would be made. A link at its end is the
    /// entry itself.
    ///
    /// # Errors
    /// As [`RootDirectory::directory`]; `EINVAL` if the path ends in no name.
    pub fn entry(&self, path: &Path) -> io::Result<PathBuf> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(self.directory(parent)?.join(name)),
            _ => Err(Errno::INVAL.into()),
        }
    }
}

fn directory_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// Opens a path as a process would whose root directory is `root`.
fn open_inside(root: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // An empty path is no path for the kernel.
    let path = Path::new(".").join(path.strip_prefix("/").unwrap_or(path));
    for _ in 0..TRIES {
        match openat2(root, &path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => return open_by_names(root, &path, flags),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Before Linux 5.6, or where a filter hides openat2 (some say `EPERM`): name by name. A link is
/// not followed.
fn open_by_names(root: &OwnedFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let above = directory_flags() | OFlags::NOFOLLOW;
    let mut at = openat(root, ".", above, Mode::empty())?;
    let mut names = path.components().peekable();
    while let Some(name) = names.next() {
        let flags = match names.peek() {
            Some(_) => above,
            None => flags | OFlags::NOFOLLOW,
        };
        at = match name {
            Component::Normal(name) => openat(at.as_fd(), name, flags, Mode::empty())?,
            Component::CurDir => at,
            _ => return Err(Errno::INVAL),
        };
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_an_image_stay_in_the_image() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (image, outside) = (top.join("image"), top.join("outside"));
        fs::create_dir_all(image.join("data")).unwrap();
        fs::create_dir_all(image.join("etc")).unwrap();
        fs::create_dir_all(outside.join("deep")).unwrap();
        // The path of a directory that is outside, and of one that is inside.
        symlink(&outside, image.join("etc/away")).unwrap();
        symlink("../../../../outside", image.join("etc/up")).unwrap();
        symlink("/data", image.join("etc/inside")).unwrap();
        symlink("loop", image.join("etc/loop")).unwrap();
        let root = RootDirectory::open(&image).unwrap();
        assert!(!root.is_here() && root.path() == image);

        let inside = root.entry(Path::new("etc/inside/unit")).unwrap();
        assert_eq!(inside, image.join("data/unit"));
        assert_eq!(
            root.directory(Path::new("etc/inside/a/b")).unwrap(),
            image.join("data/a/b")
        );
        assert_eq!(root.directory(Path::new("")).unwrap(), image);
        // A link at the end is an entry of its own.
        assert_eq!(
            root.entry(Path::new("etc/inside")).unwrap(),
            image.join("etc/inside")
        );
        for link in ["etc/away", "etc/up"] {
            let link = Path::new(link);
            let below = link.join("deep/unit");
            assert!(root.metadata(link).is_err(), "{link:?}");
            assert!(root.directory(link).is_err(), "{link:?}");
            assert!(root.entry(&below).is_err(), "{link:?}");
        }
        assert!(root.directory(Path::new("etc/loop")).is_err());
        assert!(root.metadata(Path::new("etc/inside")).unwrap().is_dir());
        assert!(RootDirectory::open(&top.join("none")).is_err());
    }

    #[test]
    fn paths_of_this_system_are_left_to_the_kernel() {
        let root = RootDirectory::open(Path::new("/")).unwrap();
        assert!(root.is_here());
        assert_eq!(
            root.entry(Path::new("no/such")).unwrap(),
            Path::new("/no/such")
        );
        assert!(root.metadata(Path::new("proc/self/exe")).unwrap().is_file());
    }

    #[test]
    fn without_openat2_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("etc/systemd")).unwrap();
        symlink("/etc", directory.path().join("etc/link")).unwrap();
        let root = openat(CWD, directory.path(), directory_flags(), Mode::empty()).unwrap();
        let open = |path: &str| open_by_names(&root, Path::new(path), directory_flags());
        assert!(open("./etc/systemd").is_ok() && open(".").is_ok());
        assert_eq!(open("./etc/link").unwrap_err(), Errno::NOTDIR);
        assert_eq!(open("./etc/link/systemd").unwrap_err(), Errno::NOTDIR);
        assert_eq!(open("./none").unwrap_err(), Errno::NOENT);
        assert_eq!(open("./etc/..").unwrap_err(), Errno::INVAL);
    }
}
