// SPDX-License-Identifier: MIT OR Apache-2.0
//! UNIX sockets at paths, for their owner or for all users.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::umask;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 64;
/// A umask that leaves reading and writing to all: both are needed to connect.
const NOT_FOR_ALL: u32 = 0o111;

/// Listens at a path, where nothing may be yet. Only the owner may connect, whatever the umask;
/// accepting doesn't wait.
///
/// The kernel makes the file with the mode of the unbound socket, less the umask. So there is no
/// moment at which others may connect. A filter of system calls may refuse to set that mode, as the
/// unit of the service does; then the umask has to keep others away.
///
/// # Errors
/// As the kernel says, or when others could connect.
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let socket = unbound()?;
    let is_set = match fchmod(&socket, Mode::RUSR | Mode::WUSR) {
        Ok(()) => true,
        Err(Errno::PERM) => false,
        Err(error) => return Err(error.into()),
    };
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    if !is_set {
        remove_unless_private(path)?;
    }
    // Until now nobody can connect.
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// A socket file that others may connect to is removed again.
fn remove_unless_private(path: &Path) -> io::Result<()> {
    let mode = fs::symlink_metadata(path)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::remove_file(path)?;
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "others could connect: its mode can't be set, and the umask leaves them rights",
    ))
}

/// The same, but every user may connect, whatever the umask. The caller decides by
/// [`peer`](crate::peer::peer) what each may know.
///
/// The mode of the file follows from the umask alone, since a filter of system calls may refuse to
/// set it. A thread of its own has that umask, so no other file is made with it.
///
/// # Errors
/// As the kernel says.
pub fn listen_for_all_at(path: &Path) -> io::Result<UnixListener> {
    let bound = std::thread::scope(|scope| {
        let bound = scope.spawn(|| -> io::Result<OwnedFd> {
            let socket = unbound()?;
            own_umask(Mode::from_raw_mode(NOT_FOR_ALL))?;
            bind(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        });
        bound.join()
    });
    let socket = bound.map_err(|_| io::Error::other("the thread that makes the socket died"))??;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Gives the current thread a umask of its own.
fn own_umask(mask: Mode) -> io::Result<()> {
    // SAFETY: it shares its working directory, root directory and umask with no thread from now on.
    // It ends soon, and uses the first two like all others.
    unsafe { unshare_unsafe(UnshareFlags::FS) }?;
    umask(mask);
    Ok(())
}

/// Whether a process listens at a path. Doesn't wait for it to accept.
#[must_use]
pub fn is_listened_at(path: &Path) -> bool {
    let connected = || connect(&unbound()?, &SocketAddrUnix::new(path)?);
    // More than its backlog have connected: it exists.
    matches!(connected(), Ok(()) | Err(Errno::AGAIN))
}

fn unbound() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn a_socket_that_others_may_connect_to_does_not_stay() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("socket");
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode));
        let _socket = UnixListener::bind(&path)?;
        set(0o700)?;
        remove_unless_private(&path)?;
        assert!(path.exists());
        set(0o660)?;
        let error = remove_unless_private(&path).expect_err("a group may connect");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(!path.exists());
        Ok(())
    }

    #[test]
    fn a_socket_for_all_is_one_whatever_the_umask_and_that_stays() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let before = directory.path().join("before");
        fs::write(&before, "")?;
        let path = directory.path().join("socket");
        let _socket = listen_for_all_at(&path)?;
        assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o666);
        assert!(is_listened_at(&path) && listen_for_all_at(&path).is_err());
        let after = directory.path().join("after");
        fs::write(&after, "")?;
        let mode = |path: &Path| path.metadata().map(|of| of.permissions().mode());
        assert_eq!(mode(&before)?, mode(&after)?);
        Ok(())
    }

    #[test]
    fn a_socket_is_private_and_found_while_it_is_listened_at() -> io::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("socket");
        assert!(!is_listened_at(&path));
        let listener = listen_at(&path)?;
        assert_eq!(path.metadata()?.permissions().mode() & 0o777, 0o600);
        assert!(is_listened_at(&path));
        // Also if its backlog is full.
        let mut waiting = Vec::new();
        loop {
            let socket = unbound()?;
            let connected = connect(&socket, &SocketAddrUnix::new(&path)?);
            waiting.push(socket);
            if connected.is_err() || waiting.len() > 1000 {
                break;
            }
        }
        assert!(waiting.len() <= 1000 && is_listened_at(&path));
        drop(listener);
        // A process that another test forks has the socket, too, until it calls exec or closes it.
        let is_over = || !is_listened_at(&path) && UnixStream::connect(&path).is_err();
        let mut looks = (0..1000).map(|_| sleep(Duration::from_millis(10)));
        assert!(is_over() || looks.any(|()| is_over()));
        assert!(listen_at(&path).is_err(), "the file is still there");
        Ok(())
    }
}
