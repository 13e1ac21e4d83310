// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics, for those who ask by HTTP at a socket.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use foreread_accounting::openmetrics::CONTENT_TYPE;

use crate::socket::Socket;

/// A request is read to its end, and is no longer than this.
const REQUEST_BYTES_MAX: usize = 8192;
/// Answered between two looks at the kernel.
const ANSWERS_MAX: usize = 16;

/// Answers those who ask now. `text` is asked for only when somebody does.
pub fn answer_all(socket: &Socket, mut text: impl FnMut() -> Result<String>) -> Result<()> {
    for _ in 0..ANSWERS_MAX {
        let next = socket.next().context("cannot answer at the socket")?;
        let Some(stream) = next else {
            return Ok(());
        };
        let text = text()?;
        // The client may hang up before the end of the answer; that is no error here.
        let _ = answer(stream, &text);
    }
    Ok(())
}

fn answer(mut stream: UnixStream, text: &str) -> io::Result<()> {
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
        answer_all(&socket, || Ok("# EOF\n".into())).unwrap();
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
}
