// SPDX-License-Identifier: MIT OR Apache-2.0
//! Logged calls of a profile replay, and their replay.

use foreread_core::Device;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::call_numbers::CallNumbers;
use super::long::fnv1a;
use super::planner::Planner;
use super::text::{device, numbers, small};
use crate::rest::{FilePart, Next, Parts, Piece, Rest, Why};

/// A call of the replay of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename = "replay")]
pub struct RestCall {
    /// Number of the replay, from 1, among those of the watcher.
    pub replay: u64,
    /// Number from 1, in the order of the calls of the replay. A gap in the numbers is a lost call.
    pub number: u64,
    /// The call and its answer.
    #[serde(flatten)]
    pub what: RestCalled,
}

/// A call of a replay: its arguments and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum RestCalled {
    /// The replay begins.
    Begin {
        /// Most bytes that are fetched and not used yet.
        budget_bytes: u64,
        /// The parts of the profile that are needed.
        #[serde(with = "parts")]
        parts: Parts,
    },
    /// The replay decided.
    Decide(Answer),
    /// The program has read this file from memory.
    Hit {
        /// The file system.
        #[serde(with = "device")]
        device: Device,
        /// The inode number of the file.
        inode: u64,
        /// Whether this was its first access to a file of the rest.
        is_first: bool,
    },
    /// The program has missed this file.
    Missed {
        /// The file system.
        #[serde(with = "device")]
        device: Device,
        /// The inode number of the file.
        inode: u64,
        /// Whether this was its first access to a file of the rest.
        is_first: bool,
    },
    /// The fetch of a window has ended.
    Fetched {
        /// Pages that came in.
        #[serde(with = "small")]
        pages: u64,
        /// Files that are gone, replaced or unreadable.
        #[serde(with = "small")]
        gone_files: u64,
    },
    /// The fetch of a window was stopped.
    Stopped {
        /// Pages of it that were cached or had come in.
        #[serde(with = "small")]
        pages: u64,
    },
    /// The replay is ended.
    End {
        /// The reason.
        why: Why,
    },
}

/// A decision, with a hash in place of the pieces of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Answer {
    /// Fetch a window.
    Fetch {
        /// Pieces of the window.
        pieces: u64,
        /// Pages of these pieces.
        pages: u64,
        /// Hash of their places in the profile, first pages and pages.
        pieces_hash: u64,
        /// Most bytes.
        budget_bytes: u64,
    },
    /// Wait for the program.
    Wait,
    /// The replay has ended.
    End {
        /// The reason.
        why: Why,
    },
}

impl Answer {
    /// The part of a decision that is logged.
    #[must_use]
    pub fn of(next: &Next) -> Self {
        match next {
            Next::Fetch(window, budget_bytes) => Self::Fetch {
                pieces: window.len() as u64,
                pages: window.iter().map(|piece| piece.pages).sum(),
                pieces_hash: hash(window),
                budget_bytes: *budget_bytes,
            },
            Next::Wait => Self::Wait,
            Next::End(why) => Self::End { why: *why },
        }
    }
}

/// Hash of the pieces' places, first pages and pages.
fn hash(window: &[Piece]) -> u64 {
    let numbers = window
        .iter()
        .flat_map(|piece| [piece.number as u64, piece.start_page, piece.pages]);
    fnv1a(numbers.flat_map(u64::to_le_bytes))
}

/// Converts parts to lists of numbers, of the files and of the pieces, and back.
mod parts {
    use super::*;

    /// The fields of the lists. `file_devices` has places in the list of file systems.
    #[derive(Serialize, Deserialize)]
    struct Line {
        devices: Vec<Name>,
        #[serde(with = "numbers")]
        file_devices: Vec<u64>,
        #[serde(with = "numbers")]
        inodes: Vec<u64>,
        /// Places of the files that the program has not needed before.
        #[serde(with = "numbers")]
        ahead: Vec<u64>,
        /// Places of the files whose use will be seen.
        #[serde(with = "numbers")]
        counted: Vec<u64>,
        /// Places of the files of the pieces; one more than the last for a piece without file.
        #[serde(with = "numbers")]
        piece_files: Vec<u64>,
        #[serde(with = "numbers")]
        start_pages: Vec<u64>,
        #[serde(with = "numbers")]
        pages: Vec<u64>,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    struct Name(#[serde(with = "device")] Device);

    pub fn serialize<S: Serializer>(parts: &Parts, to: S) -> Result<S::Ok, S::Error> {
        let files = &parts.files;
        let mut devices: Vec<Name> = Vec::new();
        let file_devices = files.iter().map(|file| {
            let known = devices.iter().position(|name| name.0 == file.device);
            known.unwrap_or_else(|| {
                devices.push(Name(file.device));
                devices.len() - 1
            }) as u64
        });
        let file_devices = file_devices.collect();
        let those = |is_one: fn(&FilePart) -> bool| {
            let places = (0..).zip(files).filter(|(_, file)| is_one(file));
            places.map(|(place, _)| place).collect()
        };
        let places: std::collections::HashMap<(Device, u64), u64> = files
            .iter()
            .zip(0..)
            .map(|(file, place)| ((file.device, file.inode), place))
            .collect();
        let place_of = |piece: &Piece| {
            let place = piece.file.and_then(|file| places.get(&file).copied());
            place.unwrap_or(files.len() as u64)
        };
        let pieces = &parts.pieces;
        let line = Line {
            devices,
            file_devices,
            inodes: files.iter().map(|file| file.inode).collect(),
            ahead: those(|file| file.is_ahead),
            counted: those(|file| file.counts),
            piece_files: pieces.iter().map(place_of).collect(),
            start_pages: pieces.iter().map(|piece| piece.start_page).collect(),
            pages: pieces.iter().map(|piece| piece.pages).collect(),
        };
        line.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Parts, D::Error> {
        let line = Line::deserialize(from)?;
        parts(&line).ok_or_else(|| D::Error::custom("the lists don't fit each other"))
    }

    fn parts(line: &Line) -> Option<Parts> {
        let files = line.file_devices.iter().zip(&line.inodes);
        let mut files: Vec<FilePart> = files
            .map(|(place, inode)| {
                let device = line.devices.get(usize::try_from(*place).ok()?)?;
                Some(FilePart {
                    device: device.0,
                    inode: *inode,
                    is_ahead: false,
                    counts: false,
                })
            })
            .collect::<Option<_>>()?;
        for place in &line.ahead {
            files.get_mut(usize::try_from(*place).ok()?)?.is_ahead = true;
        }
        for place in &line.counted {
            files.get_mut(usize::try_from(*place).ok()?)?.counts = true;
        }
        let ranges = line.start_pages.iter().zip(&line.pages);
        let pieces = line.piece_files.iter().zip(ranges).enumerate();
        let pieces = pieces.map(|(number, (place, (start_page, pages)))| {
            let place = usize::try_from(*place).ok()?;
            let file = files.get(place).map(|file| (file.device, file.inode));
            (place <= files.len()).then_some(Piece {
                number,
                file,
                start_page: *start_page,
                pages: *pages,
            })
        });
        let pieces = pieces.collect::<Option<Vec<_>>>()?;
        let fits = files.len() == line.inodes.len()
            && files.len() == line.file_devices.len()
            && [&line.piece_files, &line.start_pages, &line.pages]
                .iter()
                .all(|list| list.len() == pieces.len());
        fits.then_some(Parts { files, pieces })
    }
}

/// Takes calls for the log.
pub type NoteRest<'a> = Box<dyn FnMut(RestCall) + 'a>;

/// Wraps a [`Rest`] and notes its calls.
pub struct NotedRest<'a> {
    rest: Rest,
    numbers: CallNumbers<'a, RestCall>,
}

impl<'a> NotedRest<'a> {
    /// Begins the replay with this number. Calls are copied only if there is a `note`.
    #[must_use]
    pub fn begin(
        parts: &Parts,
        budget_bytes: u64,
        replay: u64,
        note: Option<NoteRest<'a>>,
    ) -> Self {
        let mut noted = Self {
            rest: Rest::new(parts, budget_bytes),
            numbers: CallNumbers::new(replay, note),
        };
        noted.note(|| RestCalled::Begin {
            budget_bytes,
            parts: parts.clone(),
        });
        noted
    }

    fn note(&mut self, what: impl FnOnce() -> RestCalled) {
        self.numbers.note(|replay, number| RestCall {
            replay,
            number,
            what: what(),
        });
    }

    /// The rest as it is now.
    #[must_use]
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Calls [`Rest::decide`], and notes the call; repeated waits are noted once.
    pub fn decide(&mut self) -> Next {
        let next = self.rest.decide();
        let waits = next == Next::Wait;
        self.numbers
            .note_decision(waits, |replay, number| RestCall {
                replay,
                number,
                what: RestCalled::Decide(Answer::of(&next)),
            });
        next
    }

    /// Calls [`Rest::hit`], and notes the call.
    pub fn hit(&mut self, device: Device, inode: u64) -> bool {
        let is_first = self.rest.hit(device, inode);
        self.note(|| RestCalled::Hit {
            device,
            inode,
            is_first,
        });
        is_first
    }

    /// Calls [`Rest::missed`], and notes the call.
    pub fn missed(&mut self, device: Device, inode: u64) -> bool {
        let is_first = self.rest.missed(device, inode);
        self.note(|| RestCalled::Missed {
            device,
            inode,
            is_first,
        });
        is_first
    }

    /// Calls [`Rest::fetched`], and notes the call.
    pub fn fetched(&mut self, pages: u64, gone_files: u64) {
        self.rest.fetched(pages, gone_files);
        self.note(|| RestCalled::Fetched { pages, gone_files });
    }

    /// Calls [`Rest::stopped`], and notes the call.
    pub fn stopped(&mut self, pages: u64) {
        self.rest.stopped(pages);
        self.note(|| RestCalled::Stopped { pages });
    }

    /// Calls [`Rest::end_for`], and notes the call.
    pub fn end_for(&mut self, why: Why) {
        self.rest.end_for(why);
        self.note(|| RestCalled::End { why });
    }
}

/// Replays the logged calls of a profile replay.
#[derive(Debug)]
pub struct RestAgain(Rest);

impl RestAgain {
    /// Begins with the first call; `None` if that is not a beginning.
    #[must_use]
    pub fn begin(first: &RestCalled) -> Option<Self> {
        match first {
            RestCalled::Begin {
                budget_bytes,
                parts,
            } => Some(Self(Rest::new(parts, *budget_bytes))),
            _ => None,
        }
    }

    /// Makes a call, and returns it with the present answer. A second beginning changes nothing.
    pub fn make(&mut self, call: &RestCalled) -> RestCalled {
        let mut made = call.clone();
        match &mut made {
            RestCalled::Begin { .. } => {}
            RestCalled::Decide(answer) => *answer = Answer::of(&self.0.decide()),
            RestCalled::Hit {
                device,
                inode,
                is_first,
            } => *is_first = self.0.hit(*device, *inode),
            RestCalled::Missed {
                device,
                inode,
                is_first,
            } => *is_first = self.0.missed(*device, *inode),
            RestCalled::Fetched { pages, gone_files } => self.0.fetched(*pages, *gone_files),
            RestCalled::Stopped { pages } => self.0.stopped(*pages),
            RestCalled::End { why } => self.0.end_for(*why),
        }
        made
    }
}

impl Planner for RestAgain {
    type Call = RestCall;
    /// The number of the replay.
    type Key = u64;

    const NAME: &'static str = "replays";
    const WHATS: &'static [&'static str] = &["replay"];
    const COUNTED: &'static [[&'static str; 2]] =
        &[["replay", "replays"], ["decision", "decisions"]];

    fn number(call: &RestCall) -> u64 {
        call.number
    }

    fn key(_: u32, call: &RestCall) -> u64 {
        call.replay
    }

    fn words(replay: &u64) -> String {
        format!("replay {replay}")
    }

    fn begin(call: &RestCall) -> Option<Self> {
        Self::begin(&call.what)
    }

    fn again(&mut self, call: &RestCall) -> Option<RestCall> {
        Some(RestCall {
            what: self.make(&call.what),
            ..call.clone()
        })
    }

    fn count(call: &RestCall, counts: &mut [u64]) {
        if let [replays, decisions] = counts {
            *replays += u64::from(matches!(call.what, RestCalled::Begin { .. }));
            *decisions += u64::from(matches!(call.what, RestCalled::Decide(_)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEVICE: Device = Device { major: 8, minor: 1 };

    #[derive(Clone, Debug)]
    enum Happens {
        Hit(u64),
        Missed(u64),
        Carried(u64),
        Stopped(u64),
        Ended,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            20 => (1u64..120).prop_map(Happens::Hit),
            4 => (1u64..160).prop_map(Happens::Missed),
            8 => (0u64..4).prop_map(Happens::Carried),
            1 => (0u64..400).prop_map(Happens::Stopped),
            1 => Just(Happens::Ended),
        ]
    }

    /// A hundred files with a piece each, and metadata between them.
    fn parts(pages: &[u64]) -> Parts {
        let file = |(inode, pages): (u64, &u64)| FilePart {
            device: DEVICE,
            inode,
            is_ahead: inode > 3,
            counts: pages.is_multiple_of(2),
        };
        let pieces = (1u64..).zip(pages).enumerate();
        let pieces = pieces.map(|(number, (inode, pages))| Piece {
            number,
            file: (!inode.is_multiple_of(5)).then_some((DEVICE, inode)),
            start_page: 0,
            pages: if inode.is_multiple_of(5) { 0 } else { *pages },
        });
        Parts {
            files: (1..).zip(pages).map(file).collect(),
            pieces: pieces.collect(),
        }
    }

    fn play(rest: &mut NotedRest<'_>, happens: &Happens) {
        match happens {
            Happens::Hit(inode) => {
                rest.hit(DEVICE, *inode);
            }
            Happens::Missed(inode) => {
                rest.missed(DEVICE, *inode);
            }
            Happens::Carried(gone_files) => {
                if let Next::Fetch(window, _) = rest.decide() {
                    rest.fetched(window.iter().map(|piece| piece.pages).sum(), *gone_files);
                }
            }
            Happens::Stopped(pages) => rest.stopped(*pages),
            Happens::Ended => rest.end_for(Why::Idle),
        }
    }

    fn calls(parts: &Parts, budget_bytes: u64, all: &[Happens]) -> Vec<RestCall> {
        let mut calls = Vec::new();
        let note: NoteRest<'_> = Box::new(|call| calls.push(call));
        let mut rest = NotedRest::begin(parts, budget_bytes, 1, Some(note));
        all.iter().for_each(|happens| play(&mut rest, happens));
        drop(rest);
        calls
    }

    proptest! {
        #[test]
        fn calls_are_made_again_and_another_answer_differs(
            pages in prop::collection::vec(1u64..200, 100),
            budget_pages in 0u64..20_000,
            all in prop::collection::vec(happens(), 1..200),
        ) {
            let parts = parts(&pages);
            let mut calls = calls(&parts, budget_pages * 4096, &all);
            let again = |calls: &[RestCall]| {
                let mut again = RestAgain::begin(&calls[0].what).unwrap();
                calls.iter().find(|call| again.make(&call.what) != call.what).map(|c| c.number)
            };
            prop_assert_eq!(again(&calls), None);
            for call in &mut calls {
                if let RestCalled::Decide(answer) = &mut call.what {
                    let other = Answer::End { why: Why::Left };
                    prop_assert_ne!(&*answer, &other);
                    *answer = other;
                    let number = call.number;
                    prop_assert_eq!(again(&calls), Some(number));
                    break;
                }
            }
        }
    }
}
