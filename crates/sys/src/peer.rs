// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process at the other end of a UNIX socket.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

/// The user that a process had when it connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its effective user.
    pub user: u32,
    /// Whether that is root, or the user of this process.
    pub is_trusted: bool,
}

/// The process at the other end, as the kernel has it.
///
/// # Errors
/// When the kernel doesn't say.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    let user = socket_peercred(socket)?.uid;
    Ok(Peer {
        user: user.as_raw(),
        is_trusted: user.is_root() || user == geteuid(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn we_are_who_we_are() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = peer(&ours).unwrap();
        assert!(peer.is_trusted);
        assert_eq!(peer.user, geteuid().as_raw());
    }
}
