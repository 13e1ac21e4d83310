// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main loop of a helper process.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use foreread_prefetch::helper::{FetchRequest, Reply, Request};
use foreread_sys::helper_process;
use rustix::io::Errno;

use super::link::{Link, Lost};

/// Answers some kinds of requests; `None` to others.
pub type Answer = fn(&Request) -> Option<Reply>;

/// Nothing has to be done meanwhile.
const LONG: Duration = Duration::from_secs(3600);

/// Answers requests until the asker is gone.
pub fn serve(
    socket: UnixStream,
    mut fetch: impl FnMut(FetchRequest, &mut Link) -> Result<(), Lost>,
    answers: &[Answer],
) {
    // Without the thread it would end after its next answer.
    let _ = helper_process::end_with(&socket);
    let mut link = Link::new(socket);
    let mut goes_on = send(
        &mut link,
        &Reply::Begun {
            process: std::process::id(),
        },
    );
    while goes_on.is_ok() {
        goes_on = answer_next(&mut link, &mut fetch, answers);
    }
}

/// Sends a reply.
fn send(link: &mut Link, reply: &Reply) -> Result<(), Lost> {
    link.send(&reply.to_bytes())
}

fn answer_next(
    link: &mut Link,
    fetch: &mut impl FnMut(FetchRequest, &mut Link) -> Result<(), Lost>,
    answers: &[Answer],
) -> Result<(), Lost> {
    let Some(message) = link.receive(LONG)? else {
        return Ok(());
    };
    match Request::from_bytes(&message).map_err(|_| Lost)? {
        Request::Fetch(request) => {
            fetch(*request, link)?;
            send(link, &Reply::Over)
        }
        // They came after the end of their fetch.
        Request::Release | Request::Stop => Ok(()),
        request => {
            let answer = answers.iter().find_map(|answer| answer(&request));
            let answer = answer.unwrap_or(Reply::Failed(Errno::NOSYS.raw_os_error()));
            send(link, &answer)
        }
    }
}
