// SPDX-License-Identifier: MIT OR Apache-2.0
//! A UNIX socket where metrics are asked for, by HTTP.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use foreread_watch::openmetrics::CONTENT_TYPE;

/// How long somebody who asks may keep us waiting.
const PATIENCE: Duration = Duration::from_millis(200);
/// A request is read to its end, and is no longer than this.
const REQUEST_BYTES_MAX: usize = 8192;
/// Answered between two looks at the kernel.
const ANSWERS_MAX: usize = 16;

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

    /// Answers those who ask now. `text` is asked for only when somebody does.
    pub fn answer(&self, mut text: impl FnMut() -> Result<String>) -> Result<()> {
        for _ in 0..ANSWERS_MAX {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot answer at the socket"),
            };
            let text = text()?;
            // Whoever hangs up doesn't want to know.
            let _ = answer(stream, &text);
        }
        Ok(())
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // What can't be removed is replaced by the next one.
        let _ = fs::remove_file(&self.path);
    }
}

fn answer(mut stream: UnixStream, text: &str) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut bytes = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut bytes)?;
        request.extend_from_slice(&bytes[..read]);
        if read == 0 || request.len() > REQUEST_BYTES_MAX {
            break;
        }
    }
    let (status, body) = match request.starts_with(b"GET ") {
        true => ("200 OK", text),
        false => ("400 Bad Request", "ask by HTTP: GET /metrics\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(request: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = Socket::listen(&path).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        socket.answer(|| Ok("# EOF\n".into())).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn who_asks_by_http_gets_the_metrics() {
        let text = asked(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("Content-Length: 6\r\n") && text.ends_with("\r\n\r\n# EOF\n"));
    }

    #[test]
    fn who_asks_otherwise_is_told_how() {
        for wrong in [&b"give"[..], b"", b"\xff\r\n\r\n"] {
            assert!(asked(wrong).starts_with("HTTP/1.1 400 "));
        }
    }

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
