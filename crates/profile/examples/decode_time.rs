// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a profile of 50,000 files: the time to build, store, read, merge and put it in order of
//! need, and its size.
//!
//! `cargo run --release -p foreread-profile --example decode_time [FILES]`
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use foreread_profile::need::{PhaseLimits, phases};
use foreread_profile::{
    Identity, Mount, NodeKind, Observation, Profile, ProfileBuilder, Program, Source, Uses, decode,
    encode, merge,
};

const ROUNDS: usize = 31;

fn main() {
    let files = std::env::args()
        .nth(1)
        .map_or(50_000, |text| text.parse().unwrap());
    let profile = build(files);
    let bytes = encode(&profile);
    assert_eq!(decode(&bytes).as_ref(), Ok(&profile));
    println!(
        "{files} files, {} nodes, {} ranges: {} bytes stored",
        profile.nodes.len(),
        profile.ranges.len(),
        bytes.len()
    );
    for (what, time) in [
        ("build", median(|| drop(black_box(build(files))))),
        (
            "encode",
            median(|| drop(black_box(encode(black_box(&profile))))),
        ),
        (
            "decode",
            median(|| drop(black_box(decode(black_box(&bytes))))),
        ),
        (
            "merge",
            median(|| drop(black_box(merge(&profile, &profile, Observation::Full)))),
        ),
        (
            "phases",
            median(|| drop(black_box(phases(&profile, &PhaseLimits::default())))),
        ),
        (
            "validate",
            median(|| black_box(black_box(&profile).validate()).unwrap()),
        ),
    ] {
        println!("{what:8} median {:7.2} ms", time.as_secs_f64() * 1e3);
    }
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[ROUNDS / 2]
}

/// Files as in a source tree: twenty to a directory, names that share prefixes, inodes mostly in
/// order, times without order, three ranges each.
fn build(files: u64) -> Profile {
    let mut builder = ProfileBuilder::new(Program::default(), Source::default());
    let mount = builder.mount(Mount {
        fs_type: b"ext4".to_vec(),
        ..Mount::default()
    });
    let mut noise = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise
    };
    for file in 0..files {
        let directory = file / 20;
        let path = format!(
            "/srv/data/project-{}/module_{}/part_{:x}/source_{:x}.c",
            directory / 400,
            directory / 20,
            directory,
            random() % (1 << 40)
        );
        let id = builder.node(path.as_bytes()).unwrap();
        let need_ns = file * 180_000 + random() % 100_000;
        builder.set_kind(id, NodeKind::File);
        builder.set_mount(id, mount);
        builder.set_identity(
            id,
            Identity {
                inode: 1_000_000 + file * 3 + random() % 3,
                generation: (random() >> 32) as u32,
                size_bytes: 40_000 + random() % 200_000,
                mtime_ns: 1_700_000_000_000_000_000 + (random() % (1 << 50)) as i64,
            },
        );
        builder.used(id, Uses::OPENED.union(Uses::READ), need_ns);
        let mut page = 0;
        for part in 0..3 {
            let pages = 1 + random() % 8;
            builder.pages(id, page, pages, need_ns + part * 5_000_000);
            page += pages + 1 + random() % 4;
        }
    }
    builder.finish()
}
