// SPDX-License-Identifier: MIT OR Apache-2.0
//! A UNIX socket where others ask, between two looks at the kernel.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// How long somebody who asks may keep us waiting.
const PATIENCE: Duration = Duration::from_millis(200);

/// Removed when dropped.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Listens. A socket at the path that nobody listens at any more is replaced.
    pub fn listen(path: &Path) -> Result<Self> {
        if let Ok(about) = fs::symlink_metadata(path) {
            if !about.file_type().is_socket() {
                bail!(
                    "{} is there and is no socket; give another path",
                    path.display()
                );
            }
            if UnixStream::connect(path).is_ok() {
                bail!("something listens at {} already", path.display());
            }
            fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let listen = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().with_context(|| format!("cannot listen at {}", path.display()))?;
        let path = path.to_owned();
        Ok(Self { listener, path })
    }

    /// Somebody who asks now, who keeps no read or write waiting for long.
    pub fn next(&self) -> io::Result<Option<UnixStream>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Some(stream))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // If the socket cannot be removed, the next listener replaces it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_socket_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let live = Socket::listen(&path).unwrap();
        assert!(Socket::listen(&path).is_err());
        drop(live);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(Socket::listen(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
