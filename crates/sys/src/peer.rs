// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process at the other end of a UNIX socket.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

/// Whether it is root, or who this process runs as.
///
/// # Errors
/// When the kernel doesn't say.
pub fn is_root_or_us(socket: impl AsFd) -> io::Result<bool> {
    let peer = socket_peercred(socket)?;
    Ok(peer.uid.is_root() || peer.uid == geteuid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn we_are_who_we_are() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(is_root_or_us(&ours).unwrap());
    }
}
