// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the latest notes of `watch` of the machine and answers queries of `foreread explain`.

use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use foreread_linux_watch::{AskedStreams, NotFollowed};
use foreread_watch::log::followed::{FollowedFile, Told};
use foreread_watch::log::left_alone::LeftAlone;
use foreread_watch::log::note::{Note, What};

use super::line;
use crate::output;
use crate::socket::{Client, Refusal, Socket};

/// Limit of kept lines, for each of the two lists.
const LINES_MAX: usize = 4096;
/// Limit of their bytes: paths can be long, and an answer is a copy.
const BYTES_MAX: usize = 1 << 20;

/// Lines as the log has them, without calls, and where they are asked for.
pub struct Asked {
    socket: Option<Socket>,
    recent: Recent,
    started: Instant,
}

impl Asked {
    /// Listens there, if anywhere. Where that can't be, nobody can ask, and all else works.
    pub fn listen(path: Option<PathBuf>) -> Self {
        let socket = path.map(|path| Socket::listen(&path)).transpose();
        let socket = socket.unwrap_or_else(|error| {
            output::note(&format!("`foreread explain` can't ask: {error:#}"));
            None
        });
        Self {
            socket,
            recent: Recent::default(),
            started: Instant::now(),
        }
    }

    /// Keeps what was done.
    pub fn take(&mut self, notes: &[Note]) {
        if self.socket.is_none() {
            return;
        }
        let since_start = self.started.elapsed();
        for note in notes
            .iter()
            .filter(|note| !matches!(note.what, What::Called(_)))
        {
            let is_of_sharing = matches!(note.what, What::Shares { .. });
            self.recent
                .push(is_of_sharing, line::of_note(note, since_start));
        }
    }

    /// Lets each of those who ask now and may be answered by a thread: they may be slow. For them
    /// alone it is asked which streams are followed.
    pub fn answer(&mut self, ask_streams: impl Fn() -> AskedStreams) {
        let Some(socket) = &self.socket else { return };
        let refuse = |why: Refusal| line::of_refusal(&why.words());
        // One text for all of them: it may be of megabytes.
        let mut text = None;
        while let Ok(Some(client)) = socket.next(refuse) {
            let text = text.get_or_insert_with(|| Arc::from(self.recent.text()));
            let (text, started) = (Arc::clone(text), self.started);
            let asked = ask_streams();
            let answer = move || {
                // A client that hangs up doesn't want to know.
                let _ = tell(client, &text, asked, started);
            };
            // Without a thread the client hears nothing, and may ask again.
            let _ = thread::Builder::new().name("answer".into()).spawn(answer);
        }
    }
}

fn tell(mut client: Client, text: &str, asked: AskedStreams, started: Instant) -> io::Result<()> {
    client.write_all(text.as_bytes())?;
    let mut client = BufWriter::new(client);
    for left in foreread_linux_helper::left_alone() {
        let line = line::of_watcher(started.elapsed(), told_left_alone(left));
        client.write_all(line.as_bytes())?;
    }
    for what in told(asked.wait()) {
        let line = line::of_watcher(started.elapsed(), what);
        client.write_all(line.as_bytes())?;
    }
    client.flush()
}

/// What is told of a file system that is left alone.
fn told_left_alone(left: foreread_linux_helper::LeftAlone) -> LeftAlone {
    LeftAlone {
        mount_point: left.superblock.mount_point,
        fs_type: left.superblock.fs_type,
        still_ns: u64::try_from(left.still.as_nanos()).unwrap_or(u64::MAX),
        stuck_helpers: left.stuck_helpers as u64,
    }
}

/// Notes about the streams that are followed, or why there are none.
fn told(followed: Result<Vec<FollowedFile>, NotFollowed>) -> Vec<Told> {
    match followed {
        Ok(files) => files.into_iter().map(Told::File).collect(),
        Err(error) => vec![Told::Unknown {
            why: error.to_string(),
        }],
    }
}

#[derive(Default)]
struct Recent {
    lines: Lines,
    /// Notes about processes that share a walk, in a list of their own: thousands of these must not
    /// displace the other notes.
    shares: Lines,
    count: u64,
}

/// With their numbers.
#[derive(Default)]
struct Lines {
    lines: VecDeque<(u64, String)>,
    bytes: usize,
}

impl Lines {
    fn push(&mut self, number: u64, line: String) {
        self.bytes += line.len();
        self.lines.push_back((number, line));
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let oldest = self.lines.pop_front();
            self.bytes -= oldest.map_or(0, |(_, line)| line.len());
        }
    }
}

impl Recent {
    fn push(&mut self, is_of_sharing: bool, line: String) {
        self.count += 1;
        let lines = match is_of_sharing {
            true => &mut self.shares,
            false => &mut self.lines,
        };
        lines.push(self.count, line);
    }

    /// All of them in order, after the line of a start.
    fn text(&self) -> String {
        let lines = self.lines.lines.iter().chain(&self.shares.lines);
        let mut lines: Vec<&(u64, String)> = lines.collect();
        lines.sort_unstable_by_key(|(number, _)| *number);
        let lines = lines.into_iter().map(|(_, line)| line.as_str());
        let start = line::of_start();
        std::iter::once(start.as_str()).chain(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn refused(process: u32, bytes: usize) -> Note {
        Note {
            process,
            began_by_reads: true,
            what: What::Refused {
                directory: vec![b'd'; bytes],
            },
        }
    }

    fn ask(asked: &mut Asked, path: &std::path::Path) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        asked.answer(AskedStreams::of_none);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        // Why no streams are told of comes last.
        let lines = text.trim_end().rsplit_once('\n');
        let (text, last) = lines.unwrap_or_else(|| panic!("{text}"));
        assert!(last.contains("\"streams_unknown\""), "{last}");
        text.to_owned()
    }

    #[test]
    fn the_last_notes_are_told_and_the_older_ones_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let mut asked = Asked::listen(Some(path.clone()));
        assert!(ask(&mut asked, &path).contains("\"started\""));
        let notes: Vec<Note> = (1..=5000).map(|process| refused(process, 9)).collect();
        asked.take(&notes);
        let text = ask(&mut asked, &path);
        assert_eq!(text.lines().count(), LINES_MAX + 1);
        assert!(text.lines().last().unwrap().contains("\"process\":5000"));
        assert!(text.lines().nth(1).unwrap().contains("\"process\":905,"));
        asked.take(&[refused(1, BYTES_MAX / 2), refused(2, BYTES_MAX / 2)]);
        let lines = &asked.recent.lines;
        assert!(lines.bytes <= BYTES_MAX && lines.lines.len() == 1);
        // Notes about shared walks displace no other note.
        let shares = (1..=5000).map(|process| Note {
            what: What::Shares { leader: 1 },
            ..refused(process, 9)
        });
        asked.take(&shares.collect::<Vec<_>>());
        asked.take(&[refused(3, 9)]);
        let text = ask(&mut asked, &path);
        let what = |line: &str| line.contains("\"refused\"");
        let places = text.lines().enumerate().filter(|(_, line)| what(line));
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        assert_eq!(places, [1, LINES_MAX + 2]);
    }

    #[test]
    fn without_a_socket_nothing_is_kept() {
        let mut asked = Asked::listen(None);
        asked.take(&[refused(1, 9)]);
        asked.answer(|| panic!("nobody asks"));
        assert!(asked.recent.text().lines().count() == 1);
        // One where nothing can be is told, and no failure.
        assert!(
            Asked::listen(Some("/no/such/directory/socket".into()))
                .socket
                .is_none()
        );
    }
}
