// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds profiles of arbitrary paths and pages. Each is valid and comes back from its file, alone
//! and merged with another one.
#![no_main]

use foreread_fuzz::bytes::Bytes;
use foreread_profile::merge::{Observation, merge};
use foreread_profile::{
    Identity, Mount, NodeKind, Profile, ProfileBuilder, Program, Run, Script, Source, Uses, decode,
    encode,
};
use libfuzzer_sys::fuzz_target;

const KINDS: [NodeKind; 3] = [NodeKind::File, NodeKind::Directory, NodeKind::Symlink];

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let old = comes_back(profile(&mut bytes));
    let new = comes_back(profile(&mut bytes));
    let refresh = Observation::Refresh {
        data: true,
        lookups: false,
    };
    for seen in [Observation::Full, refresh] {
        comes_back(merge(&old, &new, seen));
    }
});

fn comes_back(profile: Profile) -> Profile {
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(decode(&encode(&profile)).as_ref(), Ok(&profile));
    profile
}

fn profile(bytes: &mut Bytes<'_>) -> Profile {
    let program = Program {
        executable: bytes.path(),
        arguments: vec![bytes.text(), bytes.text()],
        directory: bytes.path(),
        key: bytes.text(),
        scripts: (0..bytes.byte() % 3).map(|_| script(bytes)).collect(),
    };
    let source = Source {
        events_lost: bytes.number(),
        recorded_unix_s: bytes.number(),
        kernel: bytes.text(),
        ..Source::default()
    };
    let mut builder = ProfileBuilder::new(program, source);
    for _ in 0..200 {
        if bytes.is_empty() {
            break;
        }
        if bytes.byte() % 16 == 15 {
            builder.run(run(bytes));
            continue;
        }
        let mount = builder.mount(Mount {
            fs_type: bytes.text(),
            mount_point: bytes.path(),
            device_major: bytes.number_32(),
            device_minor: bytes.number_32(),
        });
        let Ok(node) = builder.node(&bytes.path()) else {
            continue;
        };
        builder.set_mount(node, mount);
        builder.set_kind(node, bytes.one_of(&KINDS));
        builder.used(node, Uses(bytes.byte().into()), bytes.number());
        builder.set_identity(node, identity(bytes));
        for _ in 0..bytes.byte() % 4 {
            builder.pages(node, bytes.number(), bytes.number(), bytes.number());
        }
    }
    builder.finish()
}

fn script(bytes: &mut Bytes<'_>) -> Script {
    Script {
        path: bytes.path(),
        size_bytes: bytes.number(),
        checksum: bytes.number_32(),
    }
}

fn identity(bytes: &mut Bytes<'_>) -> Identity {
    Identity {
        inode: bytes.number(),
        generation: bytes.number_32(),
        size_bytes: bytes.number(),
        mtime_ns: bytes.number().cast_signed(),
    }
}

fn run(bytes: &mut Bytes<'_>) -> Run {
    Run {
        started_unix_s: bytes.number(),
        wall_ns: bytes.number(),
        stall_ns: bytes.maybe(),
        missed_pages: bytes.maybe(),
        fetched_pages: bytes.number(),
        used_on_time_pages: bytes.maybe(),
        used_late_pages: bytes.maybe(),
        ..Run::default()
    }
}
