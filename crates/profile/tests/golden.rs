// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles that were stored once stay readable.
//!
//! `tests/profiles/v1.foreread` was written by the first version of the format and is never written
//! again; `v1.txt` is its content.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use foreread_profile::{
    BlindSpots, Identity, Mount, NodeKind, Profile, ProfileBuilder, Program, Recorder, Run,
    RunMode, Source, Uses, decode, dump, encode,
};

fn stored(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/profiles")
        .join(name)
}

/// The profile in the golden file: each kind of entry once.
fn example() -> Profile {
    let program = Program {
        executable: b"/usr/bin/grep".to_vec(),
        arguments: [b"grep".as_slice(), b"-r", b"n\xf6thing\n", b""]
            .map(<[u8]>::to_vec)
            .to_vec(),
        directory: b"/srv/data".to_vec(),
        key: b"grep -r".to_vec(),
        scripts: Vec::new(),
    };
    let source = Source {
        recorder: Recorder::Tracefs,
        blind_spots: BlindSpots(BlindSpots::NO_LOOKUPS.0 | BlindSpots::NO_STALL.0),
        events_lost: 300,
        recorded_unix_s: 1_760_000_000,
        kernel: b"6.18.44".to_vec(),
    };
    let mut builder = ProfileBuilder::new(program, source);
    add_files(&mut builder);
    builder.run(Run {
        wall_ns: 42_800_000_000,
        missed_pages: Some(34_000),
        ..Run::default()
    });
    builder.run(Run {
        started_unix_s: 1_760_000_100,
        mode: RunMode::ReplayedRecorded,
        wall_ns: 1_660_000_000,
        stall_ns: Some(200_000_000),
        cached_before_permille: Some(17),
        missed_pages: Some(0),
        fetched_pages: 33_900,
        used_on_time_pages: Some(30_000),
        used_late_pages: Some(3_800),
    });
    builder.finish()
}

fn add_files(builder: &mut ProfileBuilder) {
    let mount = builder.mount(Mount {
        fs_type: b"ext4".to_vec(),
        mount_point: b"/srv".to_vec(),
        device_major: 259,
        device_minor: 70_000,
    });
    let paths: [(&[u8], NodeKind, Uses); 6] = [
        (b"/srv/data", NodeKind::Directory, Uses::LISTED),
        (
            b"/srv/data/one.txt",
            NodeKind::File,
            Uses::READ.union(Uses::OPENED),
        ),
        (
            b"/srv/data/two\xff.bin",
            NodeKind::File,
            Uses::MAPPED.union(Uses::OPENED),
        ),
        (b"/srv/data/link", NodeKind::Symlink, Uses::STATTED),
        (b"/srv/data/none", NodeKind::Absent, Uses::LOOKED_UP),
        (b"/usr/bin/grep", NodeKind::File, Uses::EXECUTED),
    ];
    for (at, (path, kind, uses)) in (1u64..).zip(paths) {
        let id = builder.node(path).unwrap();
        builder.set_kind(id, kind);
        builder.set_mount(id, if path.starts_with(b"/srv") { mount } else { 0 });
        builder.used(id, uses, at * 1_000_000);
        if kind == NodeKind::Absent {
            continue;
        }
        builder.set_identity(
            id,
            Identity {
                inode: 4_000_000_000 + at,
                generation: 3_000_000_000,
                size_bytes: at * 100_000,
                mtime_ns: if at == 2 {
                    -1
                } else {
                    1_750_000_000_123_456_789
                },
            },
        );
        builder.pages(id, 0, at * 2, at * 1_000_000);
        builder.pages(id, 20, 1, 900_000_000);
        builder.pages(id, 21, 4, 950_000_000);
    }
}

#[test]
fn the_first_version_stays_readable() {
    let bytes = std::fs::read(stored("v1.foreread")).unwrap();
    let profile = decode(&bytes).unwrap();
    assert_eq!(
        dump(&profile),
        std::fs::read_to_string(stored("v1.txt")).unwrap()
    );
    assert_eq!(profile, example());
}

#[test]
fn what_is_written_now_says_the_same() {
    let text = dump(&decode(&encode(&example())).unwrap());
    assert_eq!(text, std::fs::read_to_string(stored("v1.txt")).unwrap());
}
