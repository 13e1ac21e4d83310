// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to a helper process.

use foreread_profile::limits::PATH_BYTES_MAX;

use super::wire::{Putter, Taker, path};
use super::{FetchRequest, Malformed};

/// A request. All but [`Request::Release`] and [`Request::Stop`] are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Carry a part of a plan out.
    Fetch(Box<FetchRequest>),
    /// Data may be read now.
    Release,
    /// Read no more.
    Stop,
    /// The entries of a directory.
    List {
        /// A directory on the way, by its absolute path. Neither links nor mounts are followed
        /// below it.
        top: Vec<u8>,
        /// The path below it, with a slash before it; empty for the directory itself.
        below: Vec<u8>,
    },
    /// The status of a file; a link is not followed.
    Status(Vec<u8>),
    /// The target of a link.
    LinkTarget(Vec<u8>),
    /// The generation of an inode.
    Generation(Vec<u8>),
    /// The dynamic linker that an executable names.
    Interpreter(Vec<u8>),
    /// How many pages of these ranges are cached.
    Cached {
        /// The absolute path.
        path: Vec<u8>,
        /// First page and number of pages.
        ranges: Vec<(u64, u64)>,
    },
    /// Have pages of a file read, by `readahead(2)`.
    ReadAhead {
        /// The absolute path.
        path: Vec<u8>,
        /// The inode that must be there.
        inode: u64,
        /// What is to be read.
        ranges: Vec<AheadRange>,
    },
}

/// Pages that are to be read, if they aren't cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AheadRange {
    /// First page.
    pub start_page: u64,
    /// Number of pages.
    pub pages: u64,
    /// First page and number of pages of each call.
    pub calls: Vec<(u64, u64)>,
}

const FETCH: u8 = 1;
const RELEASE: u8 = 2;
const STOP: u8 = 3;
const LIST: u8 = 4;
const STATUS: u8 = 5;
const LINK_TARGET: u8 = 6;
const GENERATION: u8 = 7;
const INTERPRETER: u8 = 8;
const CACHED: u8 = 9;
const READ_AHEAD: u8 = 10;

/// Bytes of a pair of numbers.
const PAIR_BYTES: usize = 16;

fn put_pair(to: &mut Putter, pair: &(u64, u64)) {
    to.u64(pair.0);
    to.u64(pair.1);
}

fn pair(from: &mut Taker<'_>) -> Result<(u64, u64), Malformed> {
    Ok((from.u64()?, from.u64()?))
}

impl Request {
    /// The message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Putter::default();
        let mut named = |kind: u8, path: &[u8]| {
            to.u8(kind);
            to.bytes(path);
        };
        match self {
            Self::Fetch(fetch) => {
                to.u8(FETCH);
                fetch.put(&mut to);
            }
            Self::Release => to.u8(RELEASE),
            Self::Stop => to.u8(STOP),
            Self::List { top, below } => {
                named(LIST, top);
                to.bytes(below);
            }
            Self::Status(path) => named(STATUS, path),
            Self::LinkTarget(path) => named(LINK_TARGET, path),
            Self::Generation(path) => named(GENERATION, path),
            Self::Interpreter(path) => named(INTERPRETER, path),
            Self::Cached { path, ranges } => {
                named(CACHED, path);
                to.list(ranges, put_pair);
            }
            Self::ReadAhead {
                path,
                inode,
                ranges,
            } => {
                named(READ_AHEAD, path);
                to.u64(*inode);
                to.list(ranges, |to, range| {
                    to.u64(range.start_page);
                    to.u64(range.pages);
                    to.list(&range.calls, put_pair);
                });
            }
        }
        to.bytes
    }

    /// Takes a message.
    ///
    /// # Errors
    /// [`Malformed`] if it is none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Taker::new(bytes);
        let from = &mut from;
        let request = match from.u8()? {
            FETCH => Self::Fetch(Box::new(FetchRequest::take(from)?)),
            RELEASE => Self::Release,
            STOP => Self::Stop,
            LIST => Self::List {
                top: path(from)?,
                below: below(from)?,
            },
            STATUS => Self::Status(path(from)?),
            LINK_TARGET => Self::LinkTarget(path(from)?),
            GENERATION => Self::Generation(path(from)?),
            INTERPRETER => Self::Interpreter(path(from)?),
            CACHED => Self::Cached {
                path: path(from)?,
                ranges: from.list(PAIR_BYTES, pair)?,
            },
            READ_AHEAD => Self::ReadAhead {
                path: path(from)?,
                inode: from.u64()?,
                ranges: from.list(PAIR_BYTES + 4, |from| {
                    Ok(AheadRange {
                        start_page: from.u64()?,
                        pages: from.u64()?,
                        calls: from.list(PAIR_BYTES, pair)?,
                    })
                })?,
            },
            _ => return Err(Malformed),
        };
        std::mem::replace(from, Taker::new(&[])).end()?;
        Ok(request)
    }
}

fn below(from: &mut Taker<'_>) -> Result<Vec<u8>, Malformed> {
    let below = from.bytes(PATH_BYTES_MAX)?;
    let is_path = below.is_empty() || below.starts_with(b"/");
    (is_path && !below.contains(&0))
        .then(|| below.to_vec())
        .ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_of_each() -> Vec<Request> {
        let path = b"/a/b".to_vec();
        vec![
            Request::Fetch(Box::default()),
            Request::Release,
            Request::Stop,
            Request::List {
                top: path.clone(),
                below: b"/c".to_vec(),
            },
            Request::Status(path.clone()),
            Request::LinkTarget(path.clone()),
            Request::Generation(path.clone()),
            Request::Interpreter(path.clone()),
            Request::Cached {
                path: path.clone(),
                ranges: vec![(1, 2), (u64::MAX, 0)],
            },
            Request::ReadAhead {
                path,
                inode: 7,
                ranges: vec![AheadRange {
                    start_page: 3,
                    pages: 4,
                    calls: vec![(3, 2), (5, 2)],
                }],
            },
        ]
    }

    #[test]
    fn what_is_sent_comes_and_nothing_else_does() {
        for request in some_of_each() {
            let bytes = request.to_bytes();
            assert_eq!(Request::from_bytes(&bytes), Ok(request));
            for length in 0..bytes.len() {
                assert_eq!(Request::from_bytes(&bytes[..length]), Err(Malformed));
            }
            let more = [&bytes[..], b"x"].concat();
            assert_eq!(Request::from_bytes(&more), Err(Malformed));
        }
        for relative in [&b"a"[..], b"", b"/a\0b"] {
            let bytes = Request::Status(relative.to_vec()).to_bytes();
            assert_eq!(Request::from_bytes(&bytes), Err(Malformed));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(
            kind in 0u8..12, bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let bytes = [&[kind][..], &bytes].concat();
            if let Ok(request) = Request::from_bytes(&bytes) {
                prop_assert_eq!(Request::from_bytes(&request.to_bytes()), Ok(request));
            }
        }
    }
}
