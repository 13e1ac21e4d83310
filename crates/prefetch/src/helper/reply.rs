// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replies of a helper process.

use foreread_profile::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX};
use foreread_profile::{NodeId, PagesOf};

use super::Malformed;
use super::wire::{Putter, Taker};

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The first message of a helper.
    Begun {
        /// Its process number.
        process: u32,
    },
    /// What a fetch has come to.
    Progress {
        /// Its counters, in the order of the executor's report.
        counters: Vec<u64>,
        /// Pages that have arrived since the last such reply.
        fetched: Vec<PagesOf>,
    },
    /// A fetch is over.
    Over,
    /// The entries of a directory.
    Listed {
        /// The directory's inode number.
        inode: u64,
        /// Its files and directories.
        entries: Vec<ListedEntry>,
    },
    /// The status of a file.
    Status(FileState),
    /// The target of a link, a dynamic linker; `None` if there is none.
    Path(Option<Vec<u8>>),
    /// A generation.
    Generation(Option<u32>),
    /// One number for each range.
    Pages(Vec<u64>),
    /// The kernel's error number.
    Failed(i32),
}

/// A file or a directory in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode number.
    pub inode: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// The status of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    /// Inode number.
    pub inode: u64,
    /// Type and permissions.
    pub mode: u32,
    /// Size.
    pub size_bytes: u64,
    /// When its data changed, from 1970 on.
    pub mtime_ns: i64,
    /// When its inode changed, from 1970 on.
    pub ctime_s: i64,
    /// Whether no name leads to it any more.
    pub is_deleted: bool,
}

/// More counters than any report has.
const COUNTERS_MAX: usize = 256;

const BEGUN: u8 = 1;
const PROGRESS: u8 = 2;
const OVER: u8 = 3;
const LISTED: u8 = 4;
const STATUS: u8 = 5;
const PATH: u8 = 6;
const GENERATION: u8 = 7;
const PAGES: u8 = 8;
const FAILED: u8 = 9;

impl Reply {
    /// The message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Putter::default();
        match self {
            Self::Begun { process } => {
                to.u8(BEGUN);
                to.u32(*process);
            }
            Self::Progress { counters, fetched } => {
                to.u8(PROGRESS);
                to.list(counters, |to, counter| to.u64(*counter));
                to.list(fetched, |to, pages| {
                    to.u32(pages.node.0);
                    to.u64(pages.start_page);
                    to.u64(pages.pages);
                });
            }
            Self::Over => to.u8(OVER),
            Self::Listed { inode, entries } => {
                to.u8(LISTED);
                to.u64(*inode);
                to.list(entries, |to, entry| {
                    to.bytes(&entry.name);
                    to.u64(entry.inode);
                    to.flag(entry.is_directory);
                });
            }
            Self::Status(state) => {
                to.u8(STATUS);
                to.u64(state.inode);
                to.u32(state.mode);
                to.u64(state.size_bytes);
                to.i64(state.mtime_ns);
                to.i64(state.ctime_s);
                to.flag(state.is_deleted);
            }
            Self::Path(path) => {
                to.u8(PATH);
                to.list(path.as_slice(), |to, path| to.bytes(path));
            }
            Self::Generation(generation) => {
                to.u8(GENERATION);
                to.list(generation.as_slice(), |to, generation| to.u32(*generation));
            }
            Self::Pages(pages) => {
                to.u8(PAGES);
                to.list(pages, |to, pages| to.u64(*pages));
            }
            Self::Failed(number) => {
                to.u8(FAILED);
                to.i64((*number).into());
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
        let reply = match from.u8()? {
            BEGUN => Self::Begun {
                process: from.u32()?,
            },
            PROGRESS => {
                let counters = from.list(8, Taker::u64)?;
                if counters.len() > COUNTERS_MAX {
                    return Err(Malformed);
                }
                let fetched = from.list(20, |from| {
                    Ok(PagesOf {
                        node: NodeId(from.u32()?),
                        start_page: from.u64()?,
                        pages: from.u64()?,
                    })
                })?;
                Self::Progress { counters, fetched }
            }
            OVER => Self::Over,
            LISTED => Self::Listed {
                inode: from.u64()?,
                entries: from.list(13, |from| {
                    Ok(ListedEntry {
                        name: name(from)?,
                        inode: from.u64()?,
                        is_directory: from.flag()?,
                    })
                })?,
            },
            STATUS => Self::Status(FileState {
                inode: from.u64()?,
                mode: from.u32()?,
                size_bytes: from.u64()?,
                mtime_ns: from.i64()?,
                ctime_s: from.i64()?,
                is_deleted: from.flag()?,
            }),
            PATH => Self::Path(at_most_one(
                from.list(4, |from| Ok(from.bytes(PATH_BYTES_MAX)?.to_vec()))?,
            )?),
            GENERATION => Self::Generation(at_most_one(from.list(4, Taker::u32)?)?),
            PAGES => Self::Pages(from.list(8, Taker::u64)?),
            FAILED => Self::Failed(i32::try_from(from.i64()?).map_err(|_| Malformed)?),
            _ => return Err(Malformed),
        };
        std::mem::replace(from, Taker::new(&[])).end()?;
        Ok(reply)
    }
}

fn at_most_one<T>(list: Vec<T>) -> Result<Option<T>, Malformed> {
    let mut list = list.into_iter();
    let first = list.next();
    list.next().is_none().then_some(first).ok_or(Malformed)
}

/// A name in a directory. A server makes names up: one that leads elsewhere is refused.
fn name(from: &mut Taker<'_>) -> Result<Vec<u8>, Malformed> {
    let name = from.bytes(NAME_BYTES_MAX)?;
    let leads_elsewhere = matches!(name, b"" | b"." | b"..");
    let is_name = !leads_elsewhere && !name.contains(&b'/') && !name.contains(&0);
    is_name.then(|| name.to_vec()).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_sent_comes_and_nothing_else_does() {
        let entry = |name: &[u8]| ListedEntry {
            name: name.to_vec(),
            inode: 5,
            is_directory: true,
        };
        let listed = |name: &[u8]| Reply::Listed {
            inode: 3,
            entries: vec![entry(name)],
        };
        let replies = [
            Reply::Begun { process: 7 },
            Reply::Progress {
                counters: vec![1, 2],
                fetched: vec![PagesOf {
                    node: NodeId(1),
                    start_page: 2,
                    pages: 3,
                }],
            },
            Reply::Over,
            listed(b"name"),
            Reply::Status(FileState {
                inode: 1,
                mtime_ns: -5,
                is_deleted: true,
                ..FileState::default()
            }),
            Reply::Path(None),
            Reply::Path(Some(b"/x".to_vec())),
            Reply::Generation(Some(9)),
            Reply::Pages(vec![1, 2, 3]),
            Reply::Failed(libc_like_error()),
        ];
        for reply in replies {
            let bytes = reply.to_bytes();
            assert_eq!(Reply::from_bytes(&bytes), Ok(reply));
            for length in 0..bytes.len() {
                assert_eq!(Reply::from_bytes(&bytes[..length]), Err(Malformed));
            }
        }
        for wrong in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            let bytes = listed(wrong).to_bytes();
            assert_eq!(Reply::from_bytes(&bytes), Err(Malformed), "{wrong:?}");
        }
    }

    const fn libc_like_error() -> i32 {
        116
    }

    proptest! {
        #[test]
        fn any_bytes_are_borne(
            kind in 0u8..12, bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let bytes = [&[kind][..], &bytes].concat();
            if let Ok(reply) = Reply::from_bytes(&bytes) {
                prop_assert_eq!(Reply::from_bytes(&reply.to_bytes()), Ok(reply));
            }
        }
    }
}
