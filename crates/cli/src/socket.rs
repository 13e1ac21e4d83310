// SPDX-License-Identifier: MIT OR Apache-2.0
//! A UNIX socket where other processes ask: clients go in, those that may ask come out.
//!
//! Root and our own user may ask, and other users where the socket is [for all](For::All). The
//! latter are told only what concerns them. Up to [`CLIENTS_MAX`] clients are there at once, each
//! for [`REQUEST_TIME`] in all. Other users have bounds of their own, so that none keeps root or
//! another user away. Whoever takes a client from here should answer it by a thread of its own.
//! Others hear why not.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_sys::peer::{Peer, peer};
use foreread_sys::unix_socket;

/// Time for a request and its answer together. Both are small: a client that needs longer hangs.
pub const REQUEST_TIME: Duration = Duration::from_secs(5);
/// Clients at once. Each has a thread, and the memory of an answer.
pub const CLIENTS_MAX: usize = 8;
/// Clients at once of one user other than root and us.
pub const CLIENTS_OF_USER_MAX: usize = 2;
/// Clients at once of all these users together.
pub const CLIENTS_OF_USERS_MAX: usize = 6;
/// Clients that are refused between two looks at the kernel.
const REFUSALS_MAX: usize = 64;
/// Size of one write, in bytes. A write waits for room for all of it, so small ones keep the time
/// limit for a client that reads slowly.
const WRITE_BYTES: usize = 16 << 10;

/// Why a client isn't answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is of another user.
    Forbidden,
    /// [`CLIENTS_MAX`] others are being answered, or [`CLIENTS_OF_USERS_MAX`] of other users.
    Busy,
    /// [`CLIENTS_OF_USER_MAX`] others of the same user are being answered.
    BusyForUser,
}

impl Refusal {
    /// In a few words.
    pub fn words(self) -> String {
        match self {
            Self::Forbidden => "only root may ask; use sudo".to_owned(),
            Self::Busy => format!("{CLIENTS_MAX} others are being answered; ask again later"),
            Self::BusyForUser => format!(
                "{CLIENTS_OF_USER_MAX} others of this user are being answered; ask again later"
            ),
        }
    }
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Root and our own user.
    Us,
    /// All users.
    All,
}

/// The clients that are being answered, by their users.
type Clients = Arc<Mutex<Vec<Peer>>>;

/// Removed when dropped.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
    whom: For,
    clients: Clients,
}

/// A client that may ask. A read or write fails once its time is over.
pub struct Client {
    stream: UnixStream,
    until: Instant,
    peer: Peer,
    clients: Clients,
}

impl Socket {
    /// Listens. A socket at the path that nobody listens at any more is replaced.
    pub fn listen(path: &Path, whom: For) -> Result<Self> {
        if let Ok(about) = fs::symlink_metadata(path) {
            if !about.file_type().is_socket() {
                bail!(
                    "{} is there and is no socket; give another path",
                    path.display()
                );
            }
            if unix_socket::is_listened_at(path) {
                bail!("something listens at {} already", path.display());
            }
            fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let listener = match whom {
            For::Us => unix_socket::listen_at(path),
            For::All => match unix_socket::listen_for_all_at(path) {
                // Where that isn't allowed, root alone can ask.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    unix_socket::listen_at(path)
                }
                listener => listener,
            },
        };
        let listener = listener.with_context(|| format!("cannot listen at {}", path.display()))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            whom,
            clients: Clients::default(),
        })
    }

    /// The next client that may ask, if there is one now. Each client before it that may not is
    /// told so in the words of `refuse`.
    pub fn next(&self, refuse: impl Fn(Refusal) -> String) -> io::Result<Option<Client>> {
        for _ in 0..REFUSALS_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                // It has gone again.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let refusal = match peer(&stream) {
                Err(_) => Refusal::Forbidden,
                Ok(peer) => match self.admit(peer) {
                    Err(refusal) => refusal,
                    Ok(()) => {
                        return Ok(Some(Client {
                            stream,
                            until: Instant::now() + REQUEST_TIME,
                            peer,
                            clients: Arc::clone(&self.clients),
                        }));
                    }
                },
            };
            // A client that doesn't listen doesn't want to know.
            let _ = tell_at_once(&stream, &refuse(refusal));
        }
        Ok(None)
    }

    /// Counts a client, if it may be answered now.
    fn admit(&self, peer: Peer) -> Result<(), Refusal> {
        if !peer.is_trusted && self.whom == For::Us {
            return Err(Refusal::Forbidden);
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count =
            |is_one: &dyn Fn(&Peer) -> bool| clients.iter().filter(|one| is_one(one)).count();
        if clients.len() >= CLIENTS_MAX {
            return Err(Refusal::Busy);
        }
        if !peer.is_trusted {
            if count(&|one| *one == peer) >= CLIENTS_OF_USER_MAX {
                return Err(Refusal::BusyForUser);
            }
            if count(&|one| !one.is_trusted) >= CLIENTS_OF_USERS_MAX {
                return Err(Refusal::Busy);
            }
        }
        clients.push(peer);
        Ok(())
    }
}

/// Says what a socket has room for, which is never less than some kilobytes, without waiting.
fn tell_at_once(mut stream: &UnixStream, text: &str) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    // The kernel reports an error to the client if its request is left unread.
    let _ = stream.read(&mut [0; 4096]);
    stream.write_all(text.as_bytes())
}

impl Client {
    /// The user that asks, if it is to be told only what concerns it.
    pub fn only_user(&self) -> Option<u32> {
        (!self.peer.is_trusted).then_some(self.peer.user)
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Client {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let part = bytes.get(..WRITE_BYTES).unwrap_or(bytes);
        self.stream.write(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let own = clients.iter().position(|one| *one == self.peer);
        own.map(|at| clients.swap_remove(at));
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

    fn listening(directory: &Path) -> (Socket, PathBuf) {
        let path = directory.join("socket");
        (Socket::listen(&path, For::Us).unwrap(), path)
    }

    #[test]
    fn a_dead_socket_is_replaced_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        drop(UnixListener::bind(&path).unwrap());
        let live = Socket::listen(&path, For::Us).unwrap();
        assert!(Socket::listen(&path, For::Us).is_err());
        drop(live);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(Socket::listen(&path, For::Us).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }

    #[test]
    fn the_ninth_at_once_is_refused_until_another_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, path) = listening(directory.path());
        let next = || socket.next(Refusal::words).unwrap();
        let mut asking = Vec::new();
        let mut answered = Vec::new();
        for _ in 0..CLIENTS_MAX {
            asking.push(UnixStream::connect(&path).unwrap());
            answered.push(next().expect("a client"));
        }
        let mut ninth = UnixStream::connect(&path).unwrap();
        assert!(next().is_none());
        let mut heard = String::new();
        ninth.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "8 others are being answered; ask again later");
        answered.pop();
        let _tenth = UnixStream::connect(&path).unwrap();
        assert!(next().is_some());
    }

    #[test]
    fn no_user_keeps_another_one_or_root_away() {
        let directory = tempfile::tempdir().unwrap();
        let socket = Socket::listen(&directory.path().join("socket"), For::All).unwrap();
        let of = |user: u32| Peer {
            user,
            is_trusted: user == 0,
        };
        for user in [1, 2, 3] {
            assert_eq!(socket.admit(of(user)), Ok(()));
            assert_eq!(socket.admit(of(user)), Ok(()));
            assert_eq!(socket.admit(of(user)), Err(Refusal::BusyForUser));
        }
        assert_eq!(socket.admit(of(4)), Err(Refusal::Busy));
        assert_eq!(socket.admit(of(0)), Ok(()));
        assert_eq!(socket.admit(of(0)), Ok(()));
        assert_eq!(socket.admit(of(0)), Err(Refusal::Busy));
        let ours = Socket::listen(&directory.path().join("other"), For::Us).unwrap();
        assert_eq!(ours.admit(of(1)), Err(Refusal::Forbidden));
        assert_eq!(ours.admit(of(0)), Ok(()));
    }

    #[test]
    fn a_client_has_a_time_limit_in_all() {
        let directory = tempfile::tempdir().unwrap();
        let (socket, path) = listening(directory.path());
        let mut asking = UnixStream::connect(&path).unwrap();
        let mut client = socket.next(Refusal::words).unwrap().expect("a client");
        client.until = Instant::now() + Duration::from_millis(300);
        // It sends a little again and again.
        let sending = std::thread::spawn(move || {
            while asking.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut bytes = [0; 512];
        let ended = loop {
            if let Err(error) = client.read(&mut bytes) {
                break error.kind();
            }
        };
        assert!(matches!(ended, ErrorKind::TimedOut | ErrorKind::WouldBlock));
        assert!(client.write(b"late").is_err());
        drop(client);
        sending.join().unwrap();
    }
}
