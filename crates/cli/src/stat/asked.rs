// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics, for those who ask by HTTP at a socket.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use foreread_accounting::openmetrics::CONTENT_TYPE;

use crate::socket::{Client, Refusal, Socket};

/// A request is read to its end, and is no longer than this.
const REQUEST_BYTES_MAX: usize = 8192;

/// Lets each of those who ask now be answered by a thread. `text` is asked for only when somebody
/// does, and once for all of them.
pub fn answer_all(socket: &Socket, text: impl FnOnce() -> Result<String>) -> Result<()> {
    let mut clients = Vec::new();
    while let Some(client) = socket
        .next(|why| response(status(why), &format!("{}\n", why.words())))
        .context("cannot answer at the socket")?
    {
        clients.push(client);
    }
    if clients.is_empty() {
        return Ok(());
    }
    let text: Arc<str> = text()?.into();
    for client in clients {
        let text = Arc::clone(&text);
        let answer = move || {
            // A client that hangs up doesn't want to know.
            let _ = answer(client, &text);
        };
        // Without a thread the client is hung up on, and may ask again.
        let _ = thread::Builder::new().name("answer".into()).spawn(answer);
    }
    Ok(())
}

fn status(why: Refusal) -> &'static str {
    match why {
        Refusal::Forbidden => "403 Forbidden",
        Refusal::Busy | Refusal::BusyForUser => "503 Service Unavailable",
    }
}

fn answer(mut client: Client, text: &str) -> io::Result<()> {
    let mut request = Vec::new();
    let mut bytes = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = client.read(&mut bytes)?;
        request.extend_from_slice(&bytes[..read]);
        if read == 0 || request.len() > REQUEST_BYTES_MAX {
            break;
        }
    }
    let response = match request.starts_with(b"GET ") {
        true => response("200 OK", text),
        false => response("400 Bad Request", "ask by HTTP: GET /metrics\n"),
    };
    client.write_all(response.as_bytes())
}

fn response(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::For;
    use std::os::unix::net::UnixStream;

    fn asked(request: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = Socket::listen(&path, For::Us).unwrap();
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

    #[test]
    fn a_slow_client_holds_up_nobody_and_the_ninth_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let socket = Socket::listen(&path, For::Us).unwrap();
        let mut waiting: Vec<UnixStream> = Vec::new();
        let mut connect = || waiting.push(UnixStream::connect(&path).unwrap());
        for _ in 0..7 {
            connect();
        }
        let mut quick = UnixStream::connect(&path).unwrap();
        quick.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut ninth = UnixStream::connect(&path).unwrap();
        ninth.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // Seven never say what they want.
        answer_all(&socket, || Ok("# EOF\n".into())).unwrap();
        let mut heard = String::new();
        quick.read_to_string(&mut heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"), "{heard}");
        heard.clear();
        ninth.read_to_string(&mut heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 503 "), "{heard}");
        assert!(heard.ends_with("ask again later\n"), "{heard}");
    }
}
