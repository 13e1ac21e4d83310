// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the latest notes of `watch` of the machine and answers queries of `foreread explain`.

use std::collections::{HashMap, VecDeque};
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
use crate::socket::{Client, For, Refusal, Socket};

/// Limit of kept lines, for each of the two lists.
const LINES_MAX: usize = 4096;
/// Limit of their bytes: paths can be long, and an answer is a copy.
const BYTES_MAX: usize = 1 << 20;

/// Why another user is told of no streams.
const ROOT_ONLY: &str = "of these only root is told";

/// Lines as the log has them, without calls, and where they are asked for.
pub struct Asked {
    socket: Option<Socket>,
    recent: Recent,
    started: Instant,
}

impl Asked {
    /// Listens there, if anywhere. Where that can't be, nobody can ask, and all else works.
    pub fn listen(path: Option<PathBuf>) -> Self {
        let socket = path.map(|path| Socket::listen(&path, For::All)).transpose();
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
        for note in notes.iter().filter(|note| is_kept(&note.what)) {
            let is_of_sharing = matches!(note.what, What::Shares { .. });
            let line = line::of_note(note, since_start);
            self.recent.push(is_of_sharing, note.owner, line);
        }
    }

    /// Lets each of those who ask now and may be answered by a thread: they may be slow. For them
    /// alone it is asked which streams are followed.
    pub fn answer(&mut self, ask_streams: impl Fn() -> AskedStreams) {
        let Some(socket) = &self.socket else { return };
        let refuse = |why: Refusal| line::of_refusal(&why.words());
        // One text for all clients of a user: it may be of megabytes.
        let mut texts: HashMap<Option<u32>, Arc<str>> = HashMap::new();
        while let Ok(Some(client)) = socket.next(refuse) {
            let user = client.only_user();
            let text = texts.entry(user);
            let text = text.or_insert_with(|| Arc::from(self.recent.text(user)));
            let (text, started) = (Arc::clone(text), self.started);
            let asked = user.is_none().then(&ask_streams);
            let answer = move || {
                // A client that hangs up doesn't want to know.
                let _ = tell(client, &text, asked, started);
            };
            // Without a thread the client hears nothing, and may ask again.
            let _ = thread::Builder::new().name("answer".into()).spawn(answer);
        }
    }
}

/// Calls, and sums so far, would displace what happened.
fn is_kept(what: &What) -> bool {
    match what {
        What::Called(_) => false,
        What::Streamed(streamed) => streamed.is_over,
        _ => true,
    }
}

/// Without `asked`, the client is another user: file systems and streams aren't only its own.
fn tell(
    mut client: Client,
    text: &str,
    asked: Option<AskedStreams>,
    started: Instant,
) -> io::Result<()> {
    client.write_all(text.as_bytes())?;
    let Some(asked) = asked else {
        let why = ROOT_ONLY.to_owned();
        let line = line::of_watcher(started.elapsed(), Told::Unknown { why });
        return client.write_all(line.as_bytes());
    };
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

/// A line, with its number and the user who may be told of it besides root.
struct Kept {
    number: u64,
    owner: Option<u32>,
    line: String,
}

#[derive(Default)]
struct Lines {
    lines: VecDeque<Kept>,
    bytes: usize,
}

impl Lines {
    fn push(&mut self, kept: Kept) {
        self.bytes += kept.line.len();
        self.lines.push_back(kept);
        while self.lines.len() > LINES_MAX || self.bytes > BYTES_MAX {
            let oldest = self.lines.pop_front();
            self.bytes -= oldest.map_or(0, |kept| kept.line.len());
        }
    }
}

impl Recent {
    fn push(&mut self, is_of_sharing: bool, owner: Option<u32>, line: String) {
        self.count += 1;
        let lines = match is_of_sharing {
            true => &mut self.shares,
            false => &mut self.lines,
        };
        lines.push(Kept {
            number: self.count,
            owner,
            line,
        });
    }

    /// All of them in order, after the line of a start; those of one user, after a line that says
    /// so.
    fn text(&self, only_user: Option<u32>) -> String {
        let lines = self.lines.lines.iter().chain(&self.shares.lines);
        let may_know = |kept: &&Kept| only_user.is_none() || kept.owner == only_user;
        let mut lines: Vec<&Kept> = lines.filter(may_know).collect();
        lines.sort_unstable_by_key(|kept| kept.number);
        let lines = lines.into_iter().map(|kept| kept.line.as_str());
        let only_own = only_user.map(|_| line::of_own_only());
        let start = [Some(line::of_start()), only_own];
        let start = start.iter().flatten().map(String::as_str);
        start.chain(lines).collect()
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
            owner: None,
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
    fn a_user_is_told_what_was_done_for_its_own_processes_and_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let mut asked = Asked::listen(Some(directory.path().join("socket")));
        let owned = |process, owner| Note {
            owner,
            ..refused(process, 9)
        };
        // The number of a process that has ended may be that of another one later on.
        let all = [(5, Some(1000)), (5, Some(1001)), (6, None), (7, Some(1000))];
        asked.take(&all.map(|(process, owner)| owned(process, owner)));
        let of = |user: Option<u32>| {
            let text = asked.recent.text(user);
            let lines = text.lines().filter(|line| line.contains("\"refused\""));
            let processes = lines.map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                line["process"].as_u64().unwrap()
            });
            (text.contains(line::OWN_ONLY), processes.collect::<Vec<_>>())
        };
        assert_eq!(of(Some(1000)), (true, vec![5, 7]));
        assert_eq!(of(Some(1001)), (true, vec![5]));
        assert_eq!(of(Some(1002)), (true, vec![]));
        assert_eq!(of(None), (false, vec![5, 5, 6, 7]));
    }

    #[test]
    fn without_a_socket_nothing_is_kept() {
        let mut asked = Asked::listen(None);
        asked.take(&[refused(1, 9)]);
        asked.answer(|| panic!("nobody asks"));
        assert!(asked.recent.text(None).lines().count() == 1);
        // One where nothing can be is told, and no failure.
        assert!(
            Asked::listen(Some("/no/such/directory/socket".into()))
                .socket
                .is_none()
        );
    }
}
