// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages over the socket between a helper process and its asker.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use foreread_prefetch::helper::frame::{HEAD_BYTES, framed, message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The other side is gone, or says what makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// One end of the socket.
pub struct Link {
    stream: UnixStream,
    /// What has come of the next messages.
    buffer: Vec<u8>,
}

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The other side reads whatever comes, or hangs.
const WRITE_LIMIT: Duration = Duration::from_secs(2);

impl Link {
    /// Of a connected socket.
    #[must_use]
    pub fn new(stream: UnixStream) -> Self {
        // A socket without the limit waits longer for a side that hangs; it still ends with it.
        let _ = stream.set_write_timeout(Some(WRITE_LIMIT));
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// The socket.
    #[must_use]
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a message.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), Lost> {
        let framed = framed(message).ok_or(Lost)?;
        self.stream.write_all(&framed).map_err(|_| Lost)
    }

    /// The next message; `None` if none has come within `limit`.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn receive(&mut self, limit: Duration) -> Result<Option<Vec<u8>>, Lost> {
        let began = Instant::now();
        loop {
            if let Some(message) = message(&self.buffer).map_err(|_| Lost)? {
                let message = message.to_vec();
                self.buffer.drain(..HEAD_BYTES + message.len());
                return Ok(Some(message));
            }
            let left = limit.saturating_sub(began.elapsed());
            if !self.is_readable(left)? {
                return Ok(None);
            }
            let length = self.buffer.len();
            self.buffer.resize(length + CHUNK_BYTES, 0);
            let read = self.stream.read(&mut self.buffer[length..]);
            let bytes = match read {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    self.buffer.truncate(length);
                    continue;
                }
                Err(_) => 0,
            };
            self.buffer.truncate(length + bytes);
            if bytes == 0 {
                return Err(Lost);
            }
        }
    }

    /// Waits until something has come, or the other side is gone.
    fn is_readable(&self, limit: Duration) -> Result<bool, Lost> {
        let timeout = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let mut fds = [PollFd::from_borrowed_fd(self.stream.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(_) => Err(Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_and_in_order() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (Link::new(one), Link::new(other));
        assert_eq!(other.receive(Duration::ZERO), Ok(None));
        let long = vec![7; 1 << 20];
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                one.send(b"short").unwrap();
                one.send(&long).unwrap();
                drop(one);
            });
            let limit = Duration::from_secs(60);
            assert_eq!(other.receive(limit), Ok(Some(b"short".to_vec())));
            assert_eq!(other.receive(limit).unwrap().unwrap().len(), long.len());
            assert_eq!(other.receive(limit), Err(Lost));
            sender.join().unwrap();
        });
    }
}
