// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builder: the events of a recorder, in whatever order, give one canonical profile.

#![allow(clippy::unwrap_used)]

mod common;

use foreread_profile::limits::{MOUNTS_MAX, PAGE_END_MAX};
use foreread_profile::{
    Identity, Mount, NodeId, NodeKind, PathError, Profile, ProfileBuilder, Program, RUNS_MAX, Run,
    Source, Uses,
};
use proptest::prelude::*;

fn builder() -> ProfileBuilder {
    ProfileBuilder::new(Program::default(), Source::default())
}

fn find(profile: &Profile, path: &str) -> NodeId {
    profile
        .find(path.as_bytes())
        .unwrap_or_else(|| panic!("{path} is not there"))
}

#[test]
fn an_empty_profile_is_the_root_alone() {
    let profile = builder().finish();
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(common::paths(&profile), [b"/"]);
    assert_eq!(profile.total_pages(), 0);
}

#[test]
fn parents_are_made_as_directories_and_needed_no_later_than_children() {
    let mut builder = builder();
    let late = builder.node(b"/usr/lib/late").unwrap();
    builder.used(late, Uses::OPENED, 900);
    let soon = builder.node(b"/usr/bin/soon").unwrap();
    builder.pages(soon, 0, 1, 70);
    let profile = builder.finish();
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(
        common::paths(&profile),
        [
            "/",
            "/usr",
            "/usr/bin",
            "/usr/lib",
            "/usr/bin/soon",
            "/usr/lib/late"
        ]
        .map(|path| path.as_bytes().to_vec())
    );
    for (path, need_ns) in [
        ("/", 70),
        ("/usr", 70),
        ("/usr/lib", 900),
        ("/usr/bin/soon", 70),
    ] {
        let node = profile.node(find(&profile, path)).unwrap();
        assert_eq!(node.need_ns, need_ns, "{path}");
    }
    let usr = profile.node(find(&profile, "/usr")).unwrap();
    assert_eq!((usr.kind, usr.uses), (NodeKind::Directory, Uses::LOOKED_UP));
    assert_eq!(profile.directories().count(), 4);
    assert_eq!(profile.files().count(), 2);
}

#[test]
fn the_same_path_is_the_same_node_by_either_way() {
    let mut builder = builder();
    let by_path = builder.node(b"/a/b/c").unwrap();
    let directory = builder.node(b"/a/b").unwrap();
    assert_eq!(builder.child(directory, b"c"), Ok(by_path));
    assert_eq!(builder.node(b"/"), Ok(ProfileBuilder::ROOT));
    assert_eq!(builder.nodes_len(), 4);
}

#[test]
fn what_is_set_is_kept() {
    let mut builder = builder();
    let identity = Identity {
        inode: 12,
        generation: 3,
        size_bytes: 8192,
        mtime_ns: -1_000_000_000,
    };
    let link = builder.node(b"/bin/sh").unwrap();
    let mount = Mount {
        fs_type: b"xfs".to_vec(),
        ..Mount::default()
    };
    let index = builder.mount(mount.clone());
    assert_eq!(builder.mount(mount.clone()), index);
    builder.set_kind(link, NodeKind::Symlink);
    builder.set_identity(link, identity);
    builder.set_mount(link, index);
    builder.set_mount(link, 77);
    builder.used(link, Uses::STATTED, 50);
    builder.used(link, Uses::READ, 40);
    builder.used(link, Uses::READ, 60);
    let profile = builder.finish();
    let node = profile.node(find(&profile, "/bin/sh")).unwrap();
    assert_eq!(node.kind, NodeKind::Symlink);
    assert_eq!(node.identity, identity);
    assert_eq!(profile.mounts[usize::from(node.mount)], mount);
    assert_eq!(
        node.uses,
        Uses::LOOKED_UP.union(Uses::STATTED).union(Uses::READ)
    );
    assert_eq!(node.need_ns, 40);
}

#[test]
fn a_file_with_children_is_a_directory_without_pages() {
    let mut builder = builder();
    let id = builder.node(b"/a").unwrap();
    builder.pages(id, 0, 9, 0);
    builder.child(id, b"b").unwrap();
    builder.set_kind(id, NodeKind::File);
    let profile = builder.finish();
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(
        profile.node(find(&profile, "/a")).unwrap().kind,
        NodeKind::Directory
    );
    assert_eq!(profile.total_pages(), 0);
}

#[test]
fn pages_keep_their_earliest_need_and_join() {
    let mut builder = builder();
    let id = builder.node(b"/f").unwrap();
    builder.pages(id, 8, 4, 900_000_000);
    builder.pages(id, 4, 4, 1_000);
    builder.pages(id, 0, 4, 2_000);
    builder.pages(id, 10, 1, 500);
    builder.pages(id, 0, 0, 0);
    builder.pages(id, PAGE_END_MAX - 1, 100, 3);
    builder.pages(id, u64::MAX, 1, 3);
    let profile = builder.finish();
    assert_eq!(profile.validate(), Ok(()));
    let ranges: Vec<_> = profile
        .ranges(find(&profile, "/f"))
        .iter()
        .map(|range| (range.start_page, range.pages, range.need_ns))
        .collect();
    assert_eq!(
        ranges,
        [
            (0, 8, 1_000),
            (8, 2, 900_000_000),
            (10, 1, 500),
            (11, 1, 900_000_000),
            (PAGE_END_MAX - 1, 1, 3)
        ]
    );
}

#[test]
fn bad_paths_are_refused() {
    let mut builder = builder();
    let long_name = [b"/".as_slice(), &[b'a'; 256]].concat();
    let long_path = b"/abcdefg".repeat(513);
    for path in [b"".as_slice(), b"a/b", b"./a"] {
        assert!(
            matches!(builder.node(path), Err(PathError::NotAbsolute(_))),
            "{path:?}"
        );
    }
    for path in [
        b"//".as_slice(),
        b"/a/",
        b"/a//b",
        b"/a/../b",
        b"/.",
        b"/a/./b",
    ] {
        assert!(
            matches!(builder.node(path), Err(PathError::NotResolved(_))),
            "{path:?}"
        );
    }
    assert!(matches!(builder.node(b"/a\0b"), Err(PathError::BadByte(_))));
    assert!(matches!(
        builder.child(ProfileBuilder::ROOT, b"a/b"),
        Err(PathError::BadByte(_))
    ));
    assert_eq!(builder.node(&long_name), Err(PathError::TooLong(256)));
    assert_eq!(
        builder.node(&long_path),
        Err(PathError::TooLong(long_path.len()))
    );
    assert_eq!(
        builder.child(NodeId(999), b"a"),
        Err(PathError::NoSuchNode(999))
    );
    assert_eq!(builder.finish().validate(), Ok(()));
}

#[test]
fn a_path_can_be_as_long_as_the_kernel_allows_and_no_longer() {
    let mut builder = builder();
    let path = b"/abcdefg".repeat(512);
    let id = builder.node(&path).unwrap();
    assert!(matches!(
        builder.child(id, b"x"),
        Err(PathError::TooLong(_))
    ));
    let profile = builder.finish();
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(profile.path(profile.find(&path).unwrap()), path);
}

#[test]
fn too_many_mounts_and_runs_are_bounded() {
    let mut builder = builder();
    for minor in 0..400 {
        let index = builder.mount(Mount {
            device_minor: minor + 1,
            ..Mount::default()
        });
        assert!(usize::from(index) < MOUNTS_MAX);
        let id = builder.node(format!("/{minor}").as_bytes()).unwrap();
        builder.set_mount(id, index);
        builder.run(Run {
            started_unix_s: u64::from(minor),
            ..Run::default()
        });
    }
    let profile = builder.finish();
    assert_eq!(profile.validate(), Ok(()));
    assert_eq!(profile.mounts.len(), MOUNTS_MAX);
    assert_eq!(profile.runs.len(), RUNS_MAX);
    assert_eq!(profile.runs[RUNS_MAX - 1].started_unix_s, 399);
}

#[test]
fn many_single_pages_are_compacted_on_the_way() {
    let mut builder = builder();
    let id = builder.node(b"/f").unwrap();
    for round in 0..3 {
        for page in 0..400_000 {
            builder.pages(id, page, 1, round);
        }
    }
    let profile = builder.finish();
    let ranges = profile.ranges(find(&profile, "/f"));
    assert_eq!(ranges.len(), 1);
    assert_eq!((ranges[0].pages, ranges[0].need_ns), (400_000, 0));
}

proptest! {
    #[test]
    fn the_order_of_reports_does_not_matter(
        reports in prop::collection::vec(
            (0..6u8, 0..4u8, 0..30u64, 1..9u64, 0..9_000_000u64),
            1..40,
        ),
        seed in any::<u64>(),
    ) {
        let mut shuffled = reports.clone();
        let mut state = seed | 1;
        for at in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(at, (state >> 33) as usize % (at + 1));
        }
        let build = |reports: &[(u8, u8, u64, u64, u64)]| {
            let mut builder = builder();
            for (directory, file, start_page, pages, need_ns) in reports {
                let id = builder.node(format!("/{directory}/{file}").as_bytes()).unwrap();
                builder.pages(id, *start_page, *pages, *need_ns);
            }
            builder.finish()
        };
        prop_assert_eq!(build(&reports), build(&shuffled));
    }

    #[test]
    fn every_reported_page_is_there_at_its_earliest_need(
        reports in prop::collection::vec((0..40u64, 1..15u64, 0..40_000_000u64), 1..30),
    ) {
        let mut builder = builder();
        let id = builder.node(b"/f").unwrap();
        let mut expected = std::collections::BTreeMap::new();
        for (start_page, pages, need_ns) in &reports {
            builder.pages(id, *start_page, *pages, *need_ns);
            for page in *start_page..start_page + pages {
                let need = expected.entry(page).or_insert(*need_ns);
                *need = (*need).min(*need_ns);
            }
        }
        let profile = builder.finish();
        let mut seen = std::collections::BTreeMap::new();
        for range in profile.ranges(profile.find(b"/f").unwrap()) {
            for page in range.start_page..range.end_page() {
                prop_assert!(seen.insert(page, range.need_ns).is_none());
            }
        }
        prop_assert_eq!(seen.len(), expected.len());
        for (page, need_ns) in expected {
            let kept = seen[&page];
            prop_assert!(kept <= need_ns);
            prop_assert_eq!(
                foreread_profile::need_bucket(kept),
                foreread_profile::need_bucket(need_ns)
            );
        }
    }
}
