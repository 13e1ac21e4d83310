// SPDX-License-Identifier: MIT OR Apache-2.0
//! Input that means harm: with checksums that are right, so that it gets past them.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use foreread_profile::{DecodeError, Profile, ProfileBuilder, Program, Source, decode, encode};
use proptest::prelude::*;

const PLAIN: u16 = 0;
const ZSTD: u16 = 1;

/// A header of any content, with its checksum right, and `stored` after it.
fn sealed(version: u16, method: u16, stored: &[u8], payload_bytes: usize) -> Vec<u8> {
    let mut out = b"FRPROFIL".to_vec();
    out.extend(version.to_le_bytes());
    out.extend(method.to_le_bytes());
    out.extend(u32::try_from(stored.len()).unwrap().to_le_bytes());
    out.extend(u32::try_from(payload_bytes).unwrap().to_le_bytes());
    out.extend(crc32fast::hash(stored).to_le_bytes());
    out.extend([0; 4]);
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(stored);
    out
}

fn plain(payload: &[u8]) -> Vec<u8> {
    sealed(1, PLAIN, payload, payload.len())
}

fn payload_of(bytes: &[u8]) -> Vec<u8> {
    if bytes[10] == 0 {
        return bytes[32..].to_vec();
    }
    zstd::bulk::decompress(&bytes[32..], 1 << 24).unwrap()
}

fn small() -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    let id = builder.node(b"/a/b").unwrap();
    builder.pages(id, 3, 4, 5);
    builder.finish()
}

/// The sections of a payload: tag and content.
fn sections(payload: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut rest = payload;
    let mut all = Vec::new();
    while let [tag, length, after @ ..] = rest {
        assert!(*length < 0x80, "small profiles have short sections");
        let (content, after) = after.split_at(usize::from(*length));
        all.push((*tag, content.to_vec()));
        rest = after;
    }
    all
}

fn joined(sections: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let part = |(tag, content): &(u8, Vec<u8>)| {
        [
            &[*tag, u8::try_from(content.len()).unwrap()],
            content.as_slice(),
        ]
        .concat()
    };
    plain(&sections.iter().flat_map(part).collect::<Vec<_>>())
}

fn with_section(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut all = sections(&payload_of(&encode(&small())));
    all.iter_mut().find(|(known, _)| *known == tag).unwrap().1 = content.to_vec();
    joined(&all)
}

fn message(bytes: &[u8]) -> String {
    let text = decode(bytes).unwrap_err().to_string();
    assert!(!text.contains('\n') && text.len() < 250, "{text}");
    text
}

#[test]
fn other_files_are_told_apart() {
    for bytes in [
        b"".as_slice(),
        b"#!/bin/sh\n",
        b"\x7fELF\x02\x01\x01",
        &[0; 100],
    ] {
        assert_eq!(decode(bytes), Err(DecodeError::NotAProfile));
    }
    assert!(message(b"FRPROF").contains("6 of 32 bytes"));
    assert!(message(b"#!/bin/sh").contains("not a Foreread profile"));
}

#[test]
fn a_newer_version_is_named_with_the_one_that_is_known() {
    let payload = payload_of(&encode(&small()));
    let bytes = sealed(2, PLAIN, &payload, payload.len());
    assert_eq!(
        decode(&bytes),
        Err(DecodeError::Newer { found: 2, known: 1 })
    );
    let text = message(&bytes);
    assert!(
        text.contains("version 2") && text.contains("version 1"),
        "{text}"
    );
}

#[test]
fn optional_sections_of_later_versions_are_skipped_and_others_are_not() {
    let mut all = sections(&payload_of(&encode(&small())));
    all.insert(2, (0x80 | 44, b"a later idea".to_vec()));
    all.push((0xff, Vec::new()));
    assert_eq!(decode(&joined(&all)), Ok(small()));
    all.push((44, Vec::new()));
    assert_eq!(decode(&joined(&all)), Err(DecodeError::UnknownSection(44)));
}

#[test]
fn a_section_is_there_once_and_nothing_is_after_it() {
    let all = sections(&payload_of(&encode(&small())));
    for at in 0..all.len() {
        let mut missing = all.clone();
        let (section, _) = missing.remove(at);
        assert_eq!(
            decode(&joined(&missing)),
            Err(DecodeError::Malformed {
                section,
                why: "is missing"
            })
        );
        let mut twice = all.clone();
        twice.push(all[at].clone());
        assert!(message(&joined(&twice)).contains("twice"));
        // Names have no end of their own; too many are found by the check of the whole.
        let mut longer = all.clone();
        longer[at].1.push(0);
        decode(&joined(&longer)).unwrap_err();
    }
    let mut bytes = encode(&small());
    bytes.push(0);
    assert_eq!(decode(&bytes), Err(DecodeError::Trailing(1)));
}

#[test]
fn huge_counts_and_sizes_are_refused_before_anything_is_made_for_them() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0x0f];
    for section in [1, 3, 4, 6, 7] {
        let counted = match section {
            1 => [&[0, 0, 0][..], &huge].concat(),
            6 => [&[3][..], &huge].concat(),
            _ => huge.to_vec(),
        };
        let bytes = with_section(section, &counted);
        assert!(
            matches!(
                decode(&bytes),
                Err(DecodeError::Malformed { section: told, .. }) if told == section
            ),
            "{section}"
        );
    }
    for payload_bytes in [1 << 20, 1 << 28, u32::MAX as usize] {
        let bytes = sealed(1, ZSTD, b"tiny", payload_bytes);
        assert_eq!(
            decode(&bytes),
            Err(DecodeError::TooLarge {
                stored: 4,
                payload: payload_bytes
            })
        );
    }
}

#[test]
fn a_frame_that_unpacks_to_more_or_less_than_it_says_is_refused() {
    let payload = payload_of(&encode(&small()));
    let frame = zstd::bulk::compress(&payload, 3).unwrap();
    assert_eq!(decode(&sealed(1, ZSTD, &frame, payload.len())), Ok(small()));
    for said in [0, 1, payload.len() - 1, payload.len() + 1] {
        assert_eq!(
            decode(&sealed(1, ZSTD, &frame, said)),
            Err(DecodeError::Unpack),
            "{said}"
        );
    }
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    assert!(bomb.len() < 10_000);
    assert!(matches!(
        decode(&sealed(1, ZSTD, &bomb, 64 << 20)),
        Err(DecodeError::TooLarge { .. })
    ));
    assert_eq!(
        decode(&sealed(1, ZSTD, &bomb, bomb.len())),
        Err(DecodeError::Unpack)
    );
    assert_eq!(
        decode(&sealed(1, 7, &payload, payload.len())),
        Err(DecodeError::Unpack)
    );
}

#[test]
fn what_compresses_beyond_belief_is_stored_as_it_is() {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    builder.program_mut().arguments = vec![vec![b'x'; 65_536]];
    let profile = builder.finish();
    let bytes = encode(&profile);
    assert_eq!(bytes[10], 0, "stored plain");
    assert_eq!(decode(&bytes), Ok(profile));
}

/// Breaks one promise of the types in each way that the stored form can express.
#[test]
fn profiles_that_break_a_promise_are_refused() {
    type Break = fn(&mut Profile);
    let breaks: [(&str, Break); 14] = [
        ("not the root", |profile| {
            profile.nodes[0].kind = foreread_profile::NodeKind::File
        }),
        ("no file can have", |profile| profile.names[0] = b'/'),
        ("no file can have", |profile| profile.names[0] = 0),
        ("no file can have", |profile| profile.names[0] = b'.'),
        ("unknown mount", |profile| profile.nodes[1].mount = 3),
        ("stands before its parent", |profile| {
            profile.nodes[1].parent = Some(foreread_profile::NodeId(1));
        }),
        ("not a directory", |profile| {
            profile.nodes[1].kind = foreread_profile::NodeKind::Symlink;
        }),
        ("not a file", |profile| {
            profile.nodes[2].kind = foreread_profile::NodeKind::Absent
        }),
        ("there twice", |profile| {
            profile.nodes[2].parent = Some(foreread_profile::NodeId(0));
            profile.names[1] = b'a';
        }),
        ("out of its range", |profile| profile.ranges[0].pages = 0),
        ("out of its range", |profile| {
            profile.ranges[0].start_page = 1 << 51
        }),
        ("should be one", |profile| {
            profile.ranges.push(profile.ranges[0]);
            profile.ranges[1].start_page = profile.ranges[0].end_page();
            profile.nodes[2].range_count = 2;
        }),
        ("names or ranges go on", |profile| profile.names.push(b'z')),
        ("1000 thousandths", |profile| {
            profile.runs.push(foreread_profile::Run {
                cached_before_permille: Some(1001),
                ..foreread_profile::Run::default()
            });
        }),
    ];
    for (told, spoil) in breaks {
        let mut profile = small();
        spoil(&mut profile);
        assert!(profile.validate().is_err(), "{told}");
        let text = message(&encode(&profile));
        assert!(text.contains(told), "{text} | {told}");
    }
}

/// A decoded profile is valid and survives a round trip; an error takes one line.
fn check(bytes: &[u8]) {
    match decode(bytes) {
        Ok(profile) => {
            assert_eq!(profile.validate(), Ok(()));
            assert_eq!(decode(&encode(&profile)), Ok(profile));
        }
        Err(_) => drop(message(bytes)),
    }
}

#[test]
fn the_corpus_does_no_harm() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/profiles/corpus");
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        check(&bytes);
        check(&plain(&bytes));
        files += 1;
    }
    assert!(files >= 20, "only {files} files in the corpus");
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = || any::<prop::sample::Index>();
    let byte = prop_oneof![any::<u8>(), Just(0xff), Just(0x7f), Just(0x80), Just(0)];
    prop_oneof![
        6 => (index(), byte).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        1 => index().prop_map(Mutation::Cut),
        2 => (index(), prop::collection::vec(any::<u8>(), 1..12))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => index().prop_map(Mutation::Remove),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: Mutation) {
    if bytes.is_empty() {
        return;
    }
    match mutation {
        Mutation::Set(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        Mutation::Cut(at) => bytes.truncate(at.index(bytes.len())),
        Mutation::Insert(at, new) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, new);
        }
        Mutation::Remove(at) => {
            bytes.remove(at.index(bytes.len()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn mutated_bytes_do_no_harm(
        profile in common::profile(),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut bytes = encode(&profile);
        for mutation in mutations {
            mutate(&mut bytes, mutation);
        }
        check(&bytes);
    }

    #[test]
    fn mutated_payloads_with_right_checksums_do_no_harm(
        profile in common::profile(),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        let mut payload = payload_of(&encode(&profile));
        for mutation in mutations {
            mutate(&mut payload, mutation);
        }
        check(&plain(&payload));
        if let Ok(frame) = zstd::bulk::compress(&payload, 1) {
            check(&sealed(1, ZSTD, &frame, payload.len()));
        }
    }

    #[test]
    fn noise_does_no_harm(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&noise);
        check(&plain(&noise));
        check(&sealed(1, ZSTD, &noise, 200));
    }
}
