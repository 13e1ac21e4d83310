// SPDX-License-Identifier: MIT OR Apache-2.0
//! Profiles that slow a boot, or worse, if they are believed.
//!
//! In: the profile of a machine's own boot, what `tests/guest/bad-boots/install.sh` made on its
//! disk, and random numbers. Out: the bytes of a profile with the key of a machine's own one. All
//! are made by the library of profiles; only what that refuses to build is changed afterwards.

use std::collections::HashMap;

use foreread_boot::portable::OWN_KEY;
use foreread_guest::GuestError;
use foreread_profile::limits::{DEVICE_PAGES_MAX, NODES_MAX, PAGE_END_MAX, RANGES_MAX};
use foreread_profile::types::DevicePages;
use foreread_profile::{
    Identity, Mount, NodeId, NodeKind, PAGE_BYTES, Profile, ProfileBuilder, Program, Source, Uses,
    encode,
};

use crate::random::Random;

/// The folder of `tests/guest/bad-boots/install.sh`.
const FOLDER: &str = "/var/lib/bad";
/// Pages of the file `holes` there, 20 GiB: ten times the memory of a guest.
const HOLES_PAGES: u64 = (20 << 30) / PAGE_BYTES;
/// Pages of the root disk of a guest.
const DISK_PAGES: u64 = (2 << 30) / PAGE_BYTES;
/// Paths that no program should read to their end, or at all.
const PATHS: [&str; 12] = [
    "/dev/fra",
    "/dev/kmsg",
    "/dev/mem",
    "/dev/ttyS0",
    "/dev/zero",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/self/mem",
    "/proc/sysrq-trigger",
    "/run/initctl",
    "/sys/kernel/mm/page_idle/bitmap",
    "/sys/power/state",
];

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Ranges of each file that begin behind its end.
    BeyondEnds,
    /// Devices, FIFOs and files of `/proc` and `/sys` as regular files of the root file system.
    SpecialFiles,
    /// All of a file of 20 GiB.
    TenfoldMemory,
    /// As many single pages of the root disk as a profile can have, all over it.
    ScatteredDevice,
    /// As many paths as a profile can have, in vain.
    ManyPaths,
    /// As many ranges as a profile can have, of files that are there.
    ManyRanges,
    /// Each path twice.
    DuplicatePaths,
    /// Symbolic links to themselves and to devices, as regular files.
    Links,
}

impl Harm {
    pub const ALL: [Self; 8] = [
        Self::BeyondEnds,
        Self::SpecialFiles,
        Self::TenfoldMemory,
        Self::ScatteredDevice,
        Self::ManyPaths,
        Self::ManyRanges,
        Self::DuplicatePaths,
        Self::Links,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::BeyondEnds => "ranges behind the ends of files",
            Self::SpecialFiles => "devices, FIFOs, /proc and /sys",
            Self::TenfoldMemory => "ten times the memory",
            Self::ScatteredDevice => "65,536 pages all over the disk",
            Self::ManyPaths => "524,288 paths in vain",
            Self::ManyRanges => "1,048,576 ranges",
            Self::DuplicatePaths => "each path twice",
            Self::Links => "symbolic links as files",
        }
    }
}

/// Inode and size of each file in [`FOLDER`].
pub struct Traps(HashMap<String, Identity>);

impl Traps {
    /// Reads what `install.sh` printed.
    pub fn parse(printed: &str) -> Result<Self, GuestError> {
        let identity = |line: &str| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            let identity = Identity {
                inode: words.next()?.parse().ok()?,
                size_bytes: words.next()?.parse().ok()?,
                generation: 0,
                mtime_ns: 1_700_000_000_000_000_000,
            };
            Some((name, identity))
        };
        let traps: Option<HashMap<_, _>> = printed.lines().map(identity).collect();
        let traps = traps.filter(|traps| traps.contains_key("holes"));
        let traps = traps.map(Self);
        traps.ok_or_else(|| GuestError::Unexpected(format!("install.sh printed: {printed}")))
    }
}

/// A harmful profile for the machine whose own one is `own`.
pub fn harmful(own: &Profile, traps: &Traps, harm: Harm, random: &mut Random) -> Vec<u8> {
    let mut profile = match harm {
        Harm::BeyondEnds => beyond_ends(own, random),
        Harm::SpecialFiles => special_files(own, traps, random),
        Harm::TenfoldMemory => tenfold_memory(own, traps),
        Harm::ScatteredDevice => own.clone(),
        Harm::ManyPaths => many_paths(own),
        Harm::ManyRanges => many_ranges(own),
        Harm::DuplicatePaths => own.clone(),
        Harm::Links => links(own, traps),
    };
    match harm {
        Harm::ScatteredDevice => {
            let pages = (0..DEVICE_PAGES_MAX).map(|_| (random.below(DISK_PAGES), 0));
            profile.devices = vec![DevicePages::new(b"/".to_vec(), false, pages.collect())];
        }
        // The builder knows each path once.
        Harm::DuplicatePaths => {
            let again: Vec<_> = profile.nodes.iter().skip(1).copied().collect();
            profile.nodes.extend(again);
        }
        _ => {}
    }
    encode(&profile)
}

/// A builder with the nodes of a profile. `pages` says which pages are needed of each regular
/// file, from its size in pages.
fn rebuilt(own: &Profile, mut pages: impl FnMut(u64) -> Vec<(u64, u64)>) -> ProfileBuilder {
    let program = Program {
        key: OWN_KEY.to_vec(),
        ..Program::default()
    };
    let mut builder = ProfileBuilder::new(program, Source::default());
    let root = root_mount(own, &mut builder);
    for (id, node) in own.iter() {
        let Ok(new) = builder.node(&own.path(id)) else {
            continue;
        };
        builder.set_kind(new, node.kind);
        builder.set_identity(new, node.identity);
        builder.set_mount(new, root);
        builder.used(new, node.uses, node.need_ns);
        if node.kind == NodeKind::File && node.range_count > 0 {
            let size_pages = node.identity.size_bytes.div_ceil(PAGE_BYTES);
            for (start_page, pages) in pages(size_pages) {
                builder.pages(new, start_page, pages, node.need_ns);
            }
        }
    }
    builder
}

fn root_mount(own: &Profile, builder: &mut ProfileBuilder) -> u16 {
    let root = own.mounts.iter().find(|mount| mount.mount_point == b"/");
    builder.mount(root.cloned().unwrap_or_else(|| Mount {
        fs_type: b"ext4".to_vec(),
        mount_point: b"/".to_vec(),
        ..Mount::default()
    }))
}

fn file(builder: &mut ProfileBuilder, path: &str, identity: Identity) -> Option<NodeId> {
    let id = builder.node(path.as_bytes()).ok()?;
    builder.set_kind(id, NodeKind::File);
    builder.set_identity(id, identity);
    builder.used(id, Uses::OPENED.union(Uses::READ), 0);
    Some(id)
}

fn beyond_ends(own: &Profile, random: &mut Random) -> Profile {
    let pages = |size_pages: u64| {
        let start_page = size_pages + random.below(1 << 40);
        vec![
            (size_pages, 1 + random.below(1 << 20)),
            (start_page, 1 << 30),
            (PAGE_END_MAX - 1, 1),
        ]
    };
    rebuilt(own, pages).finish()
}

fn special_files(own: &Profile, traps: &Traps, random: &mut Random) -> Profile {
    let mut builder = rebuilt(own, |size_pages| vec![(0, size_pages)]);
    let root = root_mount(own, &mut builder);
    let fifo = traps.0.get("fifo").copied().unwrap_or_default();
    let fifo_path = format!("{FOLDER}/fifo");
    for path in PATHS.into_iter().chain([fifo_path.as_str()]) {
        let identity = Identity {
            inode: if path == fifo_path {
                fifo.inode
            } else {
                1 + random.below(4096)
            },
            size_bytes: 1 << 30,
            ..fifo
        };
        if let Some(id) = file(&mut builder, path, identity) {
            builder.set_mount(id, root);
            builder.pages(id, 0, 1 << 18, 0);
        }
    }
    builder.finish()
}

fn tenfold_memory(own: &Profile, traps: &Traps) -> Profile {
    let mut builder = rebuilt(own, |size_pages| vec![(0, size_pages)]);
    let root = root_mount(own, &mut builder);
    let holes = traps.0.get("holes").copied().unwrap_or_default();
    if let Some(id) = file(&mut builder, &format!("{FOLDER}/holes"), holes) {
        builder.set_mount(id, root);
        builder.pages(id, 0, HOLES_PAGES, 0);
    }
    builder.finish()
}

fn many_paths(own: &Profile) -> Profile {
    let mut builder = rebuilt(own, |size_pages| vec![(0, size_pages)]);
    let root = root_mount(own, &mut builder);
    for number in 0..NODES_MAX {
        let identity = Identity {
            inode: 1 << 30,
            size_bytes: PAGE_BYTES,
            ..Identity::default()
        };
        let path = format!("/usr/lib/none-{}/{number}", number / 1024);
        // The builder is full.
        let Some(id) = file(&mut builder, &path, identity) else {
            break;
        };
        builder.set_mount(id, root);
        builder.pages(id, 0, 1, 0);
    }
    builder.finish()
}

fn many_ranges(own: &Profile) -> Profile {
    let files = own.nodes.iter().filter(|node| node.range_count > 0);
    let each = (RANGES_MAX / files.count().max(1)) as u64;
    let every_other = |_| (0..each).map(|number| (2 * number, 1)).collect();
    rebuilt(own, every_other).finish()
}

fn links(own: &Profile, traps: &Traps) -> Profile {
    let mut builder = rebuilt(own, |size_pages| vec![(0, size_pages)]);
    let root = root_mount(own, &mut builder);
    for name in ["loop", "log", "zero"] {
        let identity = traps.0.get(name).copied().unwrap_or_default();
        if let Some(id) = file(&mut builder, &format!("{FOLDER}/{name}"), identity) {
            builder.set_mount(id, root);
            builder.pages(id, 0, 1 << 18, 0);
        }
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_profile::decode;

    fn own() -> Profile {
        let mut builder = ProfileBuilder::new(Program::default(), Source::default());
        let identity = Identity {
            inode: 12,
            size_bytes: 3 * PAGE_BYTES,
            ..Identity::default()
        };
        let id = file(&mut builder, "/usr/bin/dash", identity).unwrap();
        builder.pages(id, 0, 3, 5);
        builder.finish()
    }

    #[test]
    fn each_is_a_profile_but_those_that_no_builder_makes() {
        let traps = Traps::parse("fifo 7 0\nloop 8 4\nlog 9 10\nzero 10 9\nholes 11 1\n").unwrap();
        let own = own();
        for harm in Harm::ALL {
            let bytes = harmful(&own, &traps, harm, &mut Random::of_part(1, 0));
            let profile = decode(&bytes);
            assert_eq!(profile.is_err(), harm == Harm::DuplicatePaths, "{harm:?}");
            let Ok(profile) = profile else { continue };
            assert_eq!(
                profile.program.key == OWN_KEY,
                harm != Harm::ScatteredDevice,
                "{harm:?}"
            );
        }
        assert!(Traps::parse("holes 11").is_err());
        assert!(Traps::parse("").is_err());
    }
}
