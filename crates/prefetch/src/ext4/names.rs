// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds inodes by their names, from the blocks of directories.
//!
//! The kernel looks up one path after another: for each directory on the way it waits for the
//! directory's inode, then for its blocks. Here all paths go down together, one directory deeper at
//! a time. So the blocks of one depth can be fetched together, in order of the device.

use std::collections::HashMap;

use super::directory::directory_entries;
use super::{
    BlockSource, Ext4Error, Extent, FileType, Geometry, Inode, InodeFlags, Limits, Survey,
    WHOLE_FILE, Wanted, merge_extents,
};

/// The number of the root directory.
const ROOT: u64 = 2;
/// A larger directory is left out. One of this size has some 30,000 names.
const DIRECTORY_BYTES_MAX: u64 = 1 << 20;
/// Bytes of directories that are read in all.
const DIRECTORIES_BYTES_MAX: u64 = 64 << 20;

/// A name to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'n> {
    /// The index of the directory that it is in, which comes before it; `None` for the root.
    pub parent: Option<usize>,
    /// The name in that directory.
    pub name: &'n [u8],
}

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is there.
    Found {
        /// The number of the inode.
        number: u64,
        /// The inode. Its block map is that of a directory with wanted names in it, or has only
        /// what lies in the inode itself.
        inode: Box<Inode>,
    },
    /// It isn't there, by the content of its directory.
    Missing,
    /// To be asked of the kernel: names are encrypted, lie in the inode, or are compared without
    /// case; the directory is large, or damaged; or it was told to stop.
    Unknown,
}

/// Finds names. `bring` is called with what is read next; it brings that into memory, and returns
/// `false` to stop. Answers are in the order of `names`.
#[must_use]
pub fn find_names<S: BlockSource>(
    names: &[Name<'_>],
    geometry: &mut Geometry,
    source: &mut S,
    limits: Limits,
    mut bring: impl FnMut(&[Extent]) -> bool,
) -> Vec<Answer> {
    let mut search = Search::new(names);
    let mut level: Vec<(usize, u64)> = (names.iter().enumerate())
        .filter(|(_, name)| name.parent.is_none())
        .map(|(index, _)| (index, ROOT))
        .collect();
    while !level.is_empty() {
        let Some(mut directories) =
            search.read_inodes(&level, geometry, source, limits, &mut bring)
        else {
            break;
        };
        let content = directories.iter();
        let content = content.flat_map(|(_, inode)| inode.metadata_extents(geometry));
        if !bring(&merge_extents(content.collect(), 0)) {
            break;
        }
        level.clear();
        // In order of the device, as all else is read.
        directories
            .sort_by_key(|(_, inode)| inode.extents().first().map(|first| first.physical_block));
        for (index, inode) in &directories {
            search.read_directory(*index, inode, geometry, source, &mut level);
        }
    }
    search.finish()
}

struct Search<'n> {
    names: &'n [Name<'n>],
    /// The index of each name, by its directory and itself.
    index_of: HashMap<(usize, &'n [u8]), usize>,
    has_names: Vec<bool>,
    answers: Vec<Answer>,
    /// Whether a name was met in its directory.
    is_met: Vec<bool>,
    /// Whether all names in a directory are known.
    is_read: Vec<bool>,
    directory_bytes_left: u64,
}

impl<'n> Search<'n> {
    fn new(names: &'n [Name<'n>]) -> Self {
        let mut has_names = vec![false; names.len()];
        let mut index_of = HashMap::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let Some(parent) = name.parent.filter(|parent| *parent < index) else {
                continue;
            };
            has_names[parent] = true;
            index_of.insert((parent, name.name), index);
        }
        Self {
            names,
            index_of,
            has_names,
            answers: vec![Answer::Unknown; names.len()],
            is_met: vec![false; names.len()],
            is_read: vec![false; names.len()],
            directory_bytes_left: DIRECTORIES_BYTES_MAX,
        }
    }

    /// Reads the inodes of one depth. Returns the directories whose content is to be read, with
    /// their block maps; `None` to stop.
    fn read_inodes<S: BlockSource>(
        &mut self,
        level: &[(usize, u64)],
        geometry: &mut Geometry,
        source: &mut S,
        limits: Limits,
        bring: &mut impl FnMut(&[Extent]) -> bool,
    ) -> Option<Vec<(usize, Inode)>> {
        let numbers = || level.iter().map(|(_, number)| *number);
        if !bring(&geometry.descriptor_extents(numbers())) {
            return None;
        }
        // Inodes of groups that can't be read have errors of their own.
        let _ = geometry.load_groups(source, numbers());
        let wanted = level.iter().map(|(index, inode)| Wanted {
            inode: *inode,
            pages: match self.has_names[*index] {
                true => vec![WHOLE_FILE],
                false => Vec::new(),
            },
        });
        let mut survey = Survey::new(geometry, wanted, limits);
        while !survey.is_finished() {
            if !bring(&survey.next_extents()) {
                return None;
            }
            survey.step(source);
        }
        let mut directories = Vec::new();
        for ((index, number), surveyed) in level.iter().zip(survey.finish()) {
            // A name without an inode is about to go, or the block that holds it is damaged.
            let Ok(inode) = surveyed.inode else {
                continue;
            };
            if self.has_names[*index] && self.may_read(&inode) {
                directories.push((*index, inode.clone()));
            }
            self.answers[*index] = Answer::Found {
                number: *number,
                inode: Box::new(inode),
            };
        }
        Some(directories)
    }

    /// Whether names of a directory can be told from its blocks, within the limits.
    fn may_read(&mut self, inode: &Inode) -> bool {
        let is_plain = inode.file_type == FileType::Directory
            && !inode.flags.contains(InodeFlags::ENCRYPT)
            && !inode.flags.contains(InodeFlags::CASEFOLD)
            && !inode.flags.contains(InodeFlags::INLINE_DATA);
        let most = DIRECTORY_BYTES_MAX.min(self.directory_bytes_left);
        let is_read = is_plain && inode.size_bytes <= most;
        if is_read {
            self.directory_bytes_left -= inode.size_bytes;
        }
        is_read
    }

    /// Reads the content of a directory, and adds those of its names that are wanted to `found`.
    fn read_directory<S: BlockSource>(
        &mut self,
        directory: usize,
        inode: &Inode,
        geometry: &Geometry,
        source: &mut S,
        found: &mut Vec<(usize, u64)>,
    ) {
        let (index_of, is_met) = (&self.index_of, &mut self.is_met);
        let read = for_each_block(inode, geometry, source, |block| {
            for entry in directory_entries(block) {
                let entry = entry?;
                let Some(index) = index_of.get(&(directory, entry.name)) else {
                    continue;
                };
                // A damaged directory may have a name twice.
                if !std::mem::replace(&mut is_met[*index], true) {
                    found.push((*index, entry.inode.into()));
                }
            }
            Ok(())
        });
        self.is_read[directory] = read.is_ok();
    }

    fn finish(mut self) -> Vec<Answer> {
        for (index, name) in self.names.iter().enumerate() {
            let Some(parent) = name.parent.filter(|parent| *parent < index) else {
                continue;
            };
            let is_absent = self.is_read[parent] && !self.is_met[index];
            if is_absent || self.answers[parent] == Answer::Missing {
                self.answers[index] = Answer::Missing;
            }
        }
        self.answers
    }
}

/// Reads the blocks of a directory, as far as it is long.
fn for_each_block<S: BlockSource>(
    inode: &Inode,
    geometry: &Geometry,
    source: &mut S,
    mut each: impl FnMut(&[u8]) -> Result<(), Ext4Error>,
) -> Result<(), Ext4Error> {
    let block_bytes = u64::from(geometry.block_bytes());
    let blocks = inode.size_bytes.div_ceil(block_bytes);
    let mut buffer = vec![0; geometry.block_bytes() as usize];
    for extent in inode.extents().iter().filter(|extent| !extent.unwritten) {
        let first = u64::from(extent.logical_block);
        let end = extent.logical_end().min(blocks);
        for logical in first..end {
            let block = extent.physical_block + (logical - first);
            source.read_at(block * block_bytes, &mut buffer)?;
            each(&buffer)?;
        }
    }
    Ok(())
}
