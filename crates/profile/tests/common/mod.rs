// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary valid profiles for the property tests.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;

use foreread_profile::{
    BlindSpots, Identity, Mount, NodeKind, Phase, PhaseKind, Profile, ProfileBuilder, Program,
    Recorder, Run, RunMode, Script, Source, Uses,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// A page of a path.
pub type Page = (Vec<u8>, u64);

/// Every page of a profile with its weight.
pub fn page_weights(profile: &Profile) -> BTreeMap<Page, u8> {
    let mut pages = BTreeMap::new();
    for (id, _) in profile.iter() {
        for range in profile.ranges(id) {
            for page in range.start_page..range.end_page() {
                let twice = pages.insert((profile.path(id), page), range.weight);
                assert!(twice.is_none(), "a page is in two ranges");
            }
        }
    }
    pages
}

/// Every path of a profile.
pub fn paths(profile: &Profile) -> Vec<Vec<u8>> {
    profile.iter().map(|(id, _)| profile.path(id)).collect()
}

/// Arguments of one access that is added to a builder.
#[derive(Clone, Debug)]
struct Access {
    path: Vec<Vec<u8>>,
    kind: NodeKind,
    uses: u8,
    identity: Identity,
    mount: u8,
    unit: u8,
    need_ns: u64,
    ranges: Vec<(u64, u64, u64)>,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    // Few names, so that paths meet; some with bytes that aren't text.
    prop_oneof![
        8 => vec(prop::sample::select(b"abc".as_slice()), 1..3),
        1 => vec(prop::sample::select([0xff, b' ', b'\n', b'.', b'-', 1].as_slice()), 3..6),
        1 => vec(Just(b'x'), 255),
    ]
}

fn kind() -> impl Strategy<Value = NodeKind> {
    prop_oneof![
        6 => Just(NodeKind::File),
        1 => Just(NodeKind::Directory),
        1 => Just(NodeKind::Symlink),
        1 => Just(NodeKind::Absent),
    ]
}

fn identity() -> impl Strategy<Value = Identity> {
    // Sizes hold all the pages that `access` makes: clipping has tests of its own.
    (0..5u64, any::<u32>(), 1u64 << 20..1 << 21, any::<i64>()).prop_map(
        |(inode, generation, size_bytes, mtime_ns)| Identity {
            inode,
            generation,
            size_bytes,
            mtime_ns,
        },
    )
}

fn access() -> impl Strategy<Value = Access> {
    let need = || prop_oneof![0..20_000_000u64, 0..20_000_000_000u64];
    (
        vec(name(), 1..5),
        kind(),
        any::<u8>(),
        identity(),
        (0..4u8, 0..4u8),
        need(),
        vec((0..60u64, 1..20u64, need()), 0..5),
    )
        .prop_map(
            |(path, kind, uses, identity, (mount, unit), need_ns, ranges)| Access {
                path,
                kind,
                uses: uses & 0x7f,
                identity,
                mount,
                unit,
                need_ns,
                ranges,
            },
        )
}

pub fn run() -> impl Strategy<Value = Run> {
    let mode = prop::sample::select(vec![
        RunMode::Recorded,
        RunMode::Replayed,
        RunMode::ReplayedRecorded,
        RunMode::Plain,
    ]);
    let count = || option::of(any::<u64>());
    (
        (any::<u64>(), mode, any::<u64>(), count()),
        (
            option::of(0..=1000u16),
            count(),
            any::<u64>(),
            count(),
            count(),
        ),
    )
        .prop_map(|((started_unix_s, mode, wall_ns, stall_ns), pages)| Run {
            started_unix_s,
            mode,
            wall_ns,
            stall_ns,
            cached_before_permille: pages.0,
            missed_pages: pages.1,
            fetched_pages: pages.2,
            used_on_time_pages: pages.3,
            used_late_pages: pages.4,
        })
}

fn program() -> impl Strategy<Value = Program> {
    let text = || vec(any::<u8>(), 0..20);
    let script = (text(), any::<u64>(), any::<u32>());
    let script = script.prop_map(|(path, size_bytes, checksum)| Script {
        path,
        size_bytes,
        checksum,
    });
    let scripts = vec(script, 0..3);
    (text(), vec(text(), 0..4), text(), text(), scripts).prop_map(
        |(executable, arguments, directory, key, scripts)| Program {
            executable,
            arguments,
            directory,
            key,
            scripts,
        },
    )
}

fn source() -> impl Strategy<Value = Source> {
    let recorder = prop::sample::select(vec![Recorder::Bpf, Recorder::Tracefs, Recorder::Fanotify]);
    (
        recorder,
        any::<u32>(),
        any::<u64>(),
        vec(any::<u8>(), 0..20),
    )
        .prop_map(|(recorder, blind_spots, recorded_unix_s, kernel)| Source {
            recorder,
            blind_spots: BlindSpots(blind_spots),
            events_lost: 0,
            recorded_unix_s,
            kernel,
        })
}

/// The parts of a boot, or none.
fn phases() -> impl Strategy<Value = Vec<Phase>> {
    let kinds = [
        PhaseKind::Initramfs,
        PhaseKind::Sysinit,
        PhaseKind::Target,
        PhaseKind::Session,
    ];
    (0..5usize, any::<[u32; 4]>()).prop_map(move |(count, mut starts)| {
        starts.sort_unstable();
        let phases = kinds.iter().zip(starts).take(count);
        let phase = |(kind, start): (&PhaseKind, u32)| Phase {
            kind: *kind,
            start_ns: u64::from(start),
        };
        phases.map(phase).collect()
    })
}

/// A profile that a recorder might make.
pub fn profile() -> impl Strategy<Value = Profile> {
    let parts = (
        program(),
        source(),
        vec(access(), 0..30),
        vec(run(), 0..3),
        phases(),
    );
    parts.prop_map(|(program, source, accesses, runs, phases)| {
        let mut builder = ProfileBuilder::new(program, source);
        for access in accesses {
            add(&mut builder, &access);
        }
        for run in runs {
            builder.run(run);
        }
        for phase in phases {
            builder.phase(phase);
        }
        builder.finish()
    })
}

/// As [`profile`], by a recorder that misses nothing.
pub fn complete_profile() -> impl Strategy<Value = Profile> {
    profile().prop_map(|mut profile| {
        profile.source.blind_spots = BlindSpots(0);
        profile
    })
}

fn add(builder: &mut ProfileBuilder, access: &Access) {
    let mut path = Vec::new();
    for name in &access.path {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    let id = builder.node(&path).unwrap();
    let mount = builder.mount(Mount {
        fs_type: b"ext4".to_vec(),
        mount_point: vec![b'/', b'm' + access.mount],
        device_major: 8,
        device_minor: 300 + u32::from(access.mount),
    });
    builder.set_kind(id, access.kind);
    builder.set_identity(id, access.identity);
    builder.set_mount(id, mount);
    // The first of them is the unknown one.
    let unit = match access.unit {
        0 => 0,
        number => builder.unit(format!("/system.slice/{number}.service").as_bytes()),
    };
    builder.used_by(id, Uses(access.uses), access.need_ns, unit);
    for (start_page, pages, need_ns) in &access.ranges {
        builder.pages_by(id, *start_page, *pages, *need_ns, unit);
    }
}
