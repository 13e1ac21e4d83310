// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as an ext4 file system: inodes by number, and by name. Answers lie inside
//! of the file system, and walks end. The bytes repeat up to the end of the device, so that every
//! block can be read.
#![no_main]

use foreread_prefetch::ext4::{
    Answer, BlockReadError, BlockSource, Extent, Geometry, Inode, Limits, Mapping, Name, Survey,
    WHOLE_FILE, Wanted, find_names,
};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    nodes_max: 200,
    extents_max: 2000,
};
/// Inodes that are surveyed from the first one on.
const INODES_MAX: u64 = 64;
/// A smaller input has no superblock.
const BYTES_MIN: usize = 2048;

struct Image<'a>(&'a [u8]);

impl BlockSource for Image<'_> {
    fn read_at(&mut self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), BlockReadError> {
        let mut at = (offset_bytes % self.0.len() as u64) as usize;
        let mut rest = buffer;
        while !rest.is_empty() {
            let length = rest.len().min(self.0.len() - at);
            let (now, later) = rest.split_at_mut(length);
            now.copy_from_slice(&self.0[at..at + length]);
            (rest, at) = (later, 0);
        }
        Ok(())
    }
}

fuzz_target!(|input: &[u8]| {
    if input.len() < BYTES_MIN {
        return;
    }
    let mut image = Image(input);
    let Ok(mut geometry) = Geometry::read(&mut image) else {
        return;
    };
    let last = u64::from(geometry.inodes()).min(INODES_MAX);
    let numbers = || 0..=last + 1;
    check_extents(&geometry.descriptor_extents(numbers()), &geometry);
    // Groups that were loaded before an error stay loaded.
    let _ = geometry.load_groups(&mut image, numbers());
    check_extents(&geometry.inode_table_extents(numbers()), &geometry);
    let wanted = numbers().map(|inode| Wanted {
        inode,
        pages: match inode % 3 {
            0 => vec![WHOLE_FILE],
            1 => vec![0..4, 3..u64::MAX],
            _ => Vec::new(),
        },
    });
    let mut survey = Survey::new(&geometry, wanted, LIMITS);
    for step in 0.. {
        if survey.is_finished() {
            break;
        }
        assert!(step <= 6, "more levels than a block map has");
        check_extents(&survey.next_extents(), &geometry);
        survey.step(&mut image);
    }
    let found = survey.finish();
    let found = found.iter().filter_map(|found| found.inode.as_ref().ok());
    let extents = found
        .map(|inode| check_inode(inode, &geometry))
        .sum::<usize>();
    assert!(extents <= LIMITS.extents_max);
    check_names(&mut image, &mut geometry);
});

/// Looks for names of the seeds at the root, and for the same in each of these, and so on.
fn check_names(image: &mut Image<'_>, geometry: &mut Geometry) {
    const NAMES: [&[u8]; 4] = [b"lost+found", b"dir", b"file", b".."];
    const DIRECTORIES: usize = 1 + NAMES.len() + NAMES.len() * NAMES.len();
    let mut names = vec![Name {
        parent: None,
        name: b"",
    }];
    for directory in 0..DIRECTORIES {
        names.extend(NAMES.map(|name| Name {
            parent: Some(directory),
            name,
        }));
    }
    let shape = geometry.clone();
    let answers = find_names(&names, geometry, image, LIMITS, |extents| {
        check_extents(extents, &shape);
        true
    });
    for answer in answers {
        if let Answer::Found { number, inode } = answer {
            assert!((1..=u64::from(shape.inodes())).contains(&number));
            check_inode(&inode, &shape);
        }
    }
}

fn check_inode(inode: &Inode, geometry: &Geometry) -> usize {
    check_extents(&inode.metadata_extents(geometry), geometry);
    if let Mapping::Blocks(map) = &inode.mapping {
        let ordered = |pair: &[foreread_prefetch::ext4::FileExtent]| {
            pair[0].logical_end() <= u64::from(pair[1].logical_block)
        };
        assert!(map.extents.windows(2).all(ordered));
    }
    let end = geometry.blocks() * u64::from(geometry.block_bytes());
    let ranges = inode.physical_ranges(geometry, &[3..40, 1000..u64::MAX]);
    for range in &ranges {
        assert!(range.pages > 0 && range.offset_bytes + (range.pages - 1) * 4096 < end);
    }
    inode.extents().len()
}

fn check_extents(extents: &[Extent], geometry: &Geometry) {
    let end = geometry.blocks() * u64::from(geometry.block_bytes());
    let apart = |pair: &[Extent]| pair[0].end_bytes() < pair[1].offset_bytes;
    assert!(extents.windows(2).all(apart));
    assert!(extents.iter().all(|extent| extent.end_bytes() <= end));
}
