// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the pages of a replay that nobody used.

use foreread_profile::PagesOf;

use crate::known::Known;
use crate::recording::{Chunk, Recording, runs};

/// Pages that the replay of `known` fetched and that weren't used, file by file.
#[must_use]
pub fn unused(recording: &Recording, known: &Known<'_>) -> Vec<PagesOf> {
    let mut found = Vec::new();
    let mut chunk = 0;
    for inode in &recording.inodes {
        let mut chunks = vec![(0, inode.first)];
        while let Some((_, number, value)) = recording
            .chunks
            .get(chunk)
            .filter(|(id, _, _)| *id == inode.id)
        {
            chunks.push((u64::from(*number), *value));
            chunk += 1;
        }
        chunks.retain(|(_, chunk)| unused_bits(chunk) != 0);
        if chunks.is_empty() {
            continue;
        }
        let Some(node) = known.file(recording, inode) else {
            continue;
        };
        for (number, value) in chunks {
            let runs = runs(number, unused_bits(&value));
            found.extend(runs.map(|(start_page, pages)| PagesOf {
                node,
                start_page,
                pages,
            }));
        }
    }
    found
}

fn unused_bits(chunk: &Chunk) -> u64 {
    chunk.fetched & !chunk.used
}

#[cfg(test)]
mod tests {
    use foreread_core::mounts::Mounts;
    use foreread_profile::{Identity, NodeKind, ProfileBuilder, Program, Source};

    use super::*;
    use crate::recording::InodeEntry;

    #[test]
    fn fetched_pages_without_a_use_are_found_in_all_chunks() {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let id = builder.node(b"/file").unwrap();
        builder.set_kind(id, NodeKind::File);
        let identity = Identity {
            inode: 7,
            generation: 9,
            ..Identity::default()
        };
        builder.set_identity(id, identity);
        let profile = builder.finish();
        let chunk = |fetched, used| Chunk {
            need_ns: 1,
            used,
            fetched,
            group: 0,
        };
        let inode = |id, number, first| InodeEntry {
            id,
            number,
            generation: 9,
            first,
            ..InodeEntry::default()
        };
        let recording = Recording {
            // The second is in no profile.
            inodes: vec![inode(1, 7, chunk(0b111, 0b010)), inode(2, 8, chunk(1, 0))],
            chunks: vec![
                (1, 1, chunk(0b11, 0b11)),
                (1, 2, chunk(0b11, 0)),
                (2, 1, chunk(1, 0)),
            ],
            ..Recording::default()
        };
        let mounts = Mounts::default();
        let unused = unused(&recording, &Known::new(&profile, &mounts));
        let unused: Vec<_> = unused
            .iter()
            .map(|pages| (profile.path(pages.node), pages.start_page, pages.pages))
            .collect();
        let of = |start_page, pages| (b"/file".to_vec(), start_page, pages);
        assert_eq!(unused, [of(0, 1), of(2, 1), of(128, 2)]);
    }
}
