// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names, directories and symbolic links that are looked up but not read, and names that don't
//! exist.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use foreread_profile::{NodeKind, Uses};
use foreread_testbed::race;

use crate::setting::{Place, Recorded, make, or_skip, record};

/// `a/`, `a/file`, `a/b/`, `a/b/other` and symlinks to them.
fn make_tree(place: &Place) {
    fs::create_dir_all(place.join("a/b")).unwrap();
    make(&place.join("a/file"), 5000);
    make(&place.join("a/b/other"), 9000);
    symlink("a", place.join("to-a")).unwrap();
    symlink("a/file", place.join("to-file")).unwrap();
    symlink(place.join("a/b"), place.join("absolute-to-b")).unwrap();
    symlink("to-to-nowhere", place.join("to-nowhere")).unwrap();
    symlink("nowhere", place.join("to-to-nowhere")).unwrap();
    symlink("loop-2", place.join("loop-1")).unwrap();
    symlink("loop-1", place.join("loop-2")).unwrap();
}

fn probe(place: &Place, operations: &[&str]) -> Recorded {
    let with_place = operations
        .iter()
        .map(|word| word.replace('@', place.path().to_str().unwrap()));
    let recorded = record(&mut place.probe(&with_place.collect::<Vec<_>>()));
    assert_eq!(recorded.unresolved, Default::default(), "{operations:?}");
    recorded
}

fn assert_node(recorded: &Recorded, path: &Path, kind: NodeKind, uses: Uses) {
    let text = path.display();
    assert_eq!(recorded.kind(path), Some(kind), "{text}");
    let found = recorded.uses(path);
    assert!(found.contains(uses), "{text}: {found:?} lacks {uses:?}");
}

/// Each of these names of the place was looked up, and is of this kind.
fn assert_looked_up(recorded: &Recorded, place: &Place, kind: NodeKind, names: &[&str]) {
    for name in names {
        assert_node(recorded, &place.join(name), kind, Uses::LOOKED_UP);
    }
}

#[test]
fn files_looked_at_are_there_without_pages() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    let file = place.join("a/file");
    for way in ["stat", "lstat", "statx", "access", "stat-descriptor"] {
        let recorded = probe(&place, &[way, "@/a/file"]);
        assert_node(
            &recorded,
            &file,
            NodeKind::File,
            Uses::LOOKED_UP.union(Uses::STATTED),
        );
        assert!(!recorded.uses(&file).contains(Uses::READ), "{way}");
        assert_eq!(recorded.pages(&file), [], "{way}");
        assert_looked_up(&recorded, &place, NodeKind::Directory, &["a"]);
        assert_eq!(recorded.kind(place.join("a/b")), None, "{way}: a sibling");
        let id = recorded.profile.find(file.as_os_str().as_bytes()).unwrap();
        let identity = recorded.profile.node(id).unwrap().identity;
        assert_eq!(identity.size_bytes, 5000, "{way}");
        assert_ne!(identity.inode, 0, "{way}");
    }
    let recorded = probe(&place, &["open", "@/a/file", "statfs", "@/a/b/other"]);
    assert_node(&recorded, &file, NodeKind::File, Uses::OPENED);
    assert_eq!(recorded.pages(&file), []);
    assert_looked_up(&recorded, &place, NodeKind::File, &["a/b/other"]);
}

#[test]
fn what_is_not_there_is_absent_in_its_parent() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    let operations = [
        "stat",
        "@/a/none",
        "open",
        "@/a/b/c",
        "access",
        "@/gone/deep/er",
        "stat-at",
        "@/a",
        "b/d",
        "chdir",
        "@/a/b",
        "lstat",
        "e",
        "stat",
        "../../f",
        "stat",
        "other/g",
    ];
    let recorded = probe(&place, &operations);
    let absent = ["a/none", "a/b/c", "gone", "a/b/d", "a/b/e", "f"];
    assert_looked_up(&recorded, &place, NodeKind::Absent, &absent);
    // Below what isn't there nothing was looked for, and below a file nothing can be.
    assert_eq!(recorded.kind(place.join("gone/deep")), None);
    assert_eq!(recorded.kind(place.join("a/b/other")), Some(NodeKind::File));
    assert_looked_up(&recorded, &place, NodeKind::Directory, &["a"]);
}

#[test]
fn directories_listed_and_opened_differ() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    let recorded = probe(&place, &["opendir", "@/a", "list", "@/a/b"]);
    assert_node(
        &recorded,
        &place.join("a"),
        NodeKind::Directory,
        Uses::OPENED,
    );
    assert!(!recorded.uses(place.join("a")).contains(Uses::LISTED));
    assert_node(
        &recorded,
        &place.join("a/b"),
        NodeKind::Directory,
        Uses::LISTED,
    );
    // Listing a directory looks at none of its entries.
    assert_eq!(recorded.kind(place.join("a/b/other")), None);
}

#[test]
fn symlinks_on_the_way_and_at_the_end_are_there() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    let recorded = probe(&place, &["read", "@/to-a/b/other", "read", "@/to-file"]);
    assert_looked_up(&recorded, &place, NodeKind::Symlink, &["to-a", "to-file"]);
    assert_eq!(recorded.pages(place.join("a/b/other")), [(0, 3)]);
    assert_eq!(recorded.pages(place.join("a/file")), [(0, 2)]);
    // Nothing is named through a link.
    assert_eq!(recorded.kind(place.join("to-a/b")), None);

    let recorded = probe(
        &place,
        &["stat", "@/absolute-to-b/other", "readlink", "@/to-file"],
    );
    assert_looked_up(&recorded, &place, NodeKind::Symlink, &["absolute-to-b"]);
    assert_looked_up(&recorded, &place, NodeKind::File, &["a/b/other"]);
    assert_looked_up(&recorded, &place, NodeKind::Symlink, &["to-file"]);

    let recorded = probe(&place, &["stat", "@/to-nowhere"]);
    assert_looked_up(
        &recorded,
        &place,
        NodeKind::Symlink,
        &["to-nowhere", "to-to-nowhere"],
    );
    assert_looked_up(&recorded, &place, NodeKind::Absent, &["nowhere"]);
}

#[test]
fn what_is_only_read_as_a_link_is_not_followed() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    for way in ["readlink", "lstat"] {
        let recorded = probe(&place, &[way, "@/to-file"]);
        assert_looked_up(&recorded, &place, NodeKind::Symlink, &["to-file"]);
        assert_eq!(recorded.kind(place.join("a/file")), None, "{way}");
    }
}

#[test]
fn a_loop_of_symlinks_ends() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    let recorded = probe(&place, &["stat", "@/loop-1", "open", "@/loop-2/deeper"]);
    assert_looked_up(&recorded, &place, NodeKind::Symlink, &["loop-1", "loop-2"]);
}

#[test]
fn relative_names_are_found_from_where_they_start() {
    let place = or_skip!(Place::new());
    make_tree(&place);
    let there: [&[&str]; 7] = [
        &["chdir", "@/a/b", "read", "other"],
        &["chdir", "@/a", "read", "b/other"],
        &["chdir", "@/a/b", "read", "../b/./other"],
        &["chdir", "@/to-a", "read", "../a/b/other"],
        &["read-at", "@/a", "b/other"],
        &["chdir", "@", "read-at", "to-a/b", "other"],
        &["chdir", "@/a", "chdir", "b", "read", "../../to-a/b/other"],
    ];
    for operations in there {
        let recorded = probe(&place, operations);
        assert_eq!(
            recorded.pages(place.join("a/b/other")),
            [(0, 3)],
            "{operations:?}"
        );
        assert_node(
            &recorded,
            &place.join("a/b/other"),
            NodeKind::File,
            Uses::OPENED,
        );
        assert_looked_up(&recorded, &place, NodeKind::Directory, &["a/b"]);
    }
}

#[test]
fn names_may_hold_any_bytes_and_be_long() {
    let place = or_skip!(Place::new());
    let odd: [&[u8]; 5] = [
        b"new\nline",
        b"\xff\xfe invalid",
        "umläut ☃".as_bytes(),
        b"back\\slash \t",
        &[b'n'; 255],
    ];
    let mut files = Vec::new();
    for name in odd {
        let directory = place.join(OsStr::from_bytes(name));
        fs::create_dir(&directory).unwrap();
        files.push(make(&directory.join(OsStr::from_bytes(name)), 4097));
    }
    let mut operations: Vec<PathBuf> = Vec::new();
    for file in &files {
        operations.extend([
            "read".into(),
            file.clone(),
            "stat".into(),
            file.with_extension("no"),
        ]);
    }
    let recorded = record(&mut place.probe(&operations));
    for file in &files {
        assert_eq!(recorded.pages(file), [(0, 2)], "{file:?}");
    }
    for file in &files[..4] {
        let absent = file.with_extension("no");
        assert_node(&recorded, &absent, NodeKind::Absent, Uses::LOOKED_UP);
    }
    // The kernel refuses a name of more than 255 bytes before it looks.
    assert_eq!(recorded.kind(files[4].with_extension("no")), None);
}

/// A path as deep as one system call can name it, and a file deeper than that.
#[test]
fn deep_directories_are_seen() {
    let place = or_skip!(Place::new());
    let mut deep = place.path().to_owned();
    let mut depth = 0;
    while deep.as_os_str().len() + 30 < 4096 {
        deep.push("directory-of-20-bytes");
        fs::create_dir(&deep).unwrap();
        depth += 1;
    }
    assert!(depth > 150, "{depth}");
    let file = make(&deep.join("file"), 4096);
    let deep_text = deep.to_str().unwrap();
    let recorded = record(&mut place.probe(&["chdir", deep_text, "read", "file", "stat", "none"]));
    assert_eq!(recorded.pages(&file), [(0, 1)]);
    assert_node(
        &recorded,
        &deep.join("none"),
        NodeKind::Absent,
        Uses::LOOKED_UP,
    );
    let mut above = deep.as_path();
    for _ in 0..depth {
        assert_node(&recorded, above, NodeKind::Directory, Uses::LOOKED_UP);
        above = above.parent().unwrap();
    }
    assert_eq!(recorded.unresolved, Default::default());
}

/// More than 64 directories below the root, of which nothing is known yet.
#[test]
fn a_file_far_below_is_found_by_an_inherited_descriptor() {
    let place = or_skip!(Place::new());
    let mut deep = place.path().to_owned();
    for level in 0..100 {
        deep.push(level.to_string());
    }
    fs::create_dir_all(&deep).unwrap();
    let file = make(&deep.join("file"), 4096);
    let input = fs::File::open(&file).unwrap();
    let recorded = record(std::process::Command::new("cat").stdin(input));
    assert_eq!(recorded.pages(&file), [(0, 1)], "{:?}", recorded.unresolved);
}

#[test]
fn hard_links_are_found_by_a_name_that_leads_there() {
    let place = or_skip!(Place::new());
    fs::create_dir_all(place.join("store")).unwrap();
    fs::create_dir_all(place.join("used")).unwrap();
    let stored = make(&place.join("store/file"), 4096);
    let used = place.join("used/link");
    fs::hard_link(&stored, &used).unwrap();
    let recorded = probe(&place, &["read", "@/used/link"]);
    let pages = [recorded.pages(&stored), recorded.pages(&used)].concat();
    assert_eq!(pages, [(0, 1)]);
    assert_node(&recorded, &used, NodeKind::File, Uses::OPENED);
    let recorded = probe(
        &place,
        &[
            "chdir", "@/store", "read", "file", "chdir", "@/used", "read", "link",
        ],
    );
    assert_node(&recorded, &used, NodeKind::File, Uses::OPENED);
    assert_node(&recorded, &stored, NodeKind::File, Uses::OPENED);
}

/// A link of /proc leads where it leads for the program, not for us.
#[test]
fn links_of_proc_are_not_followed() {
    let place = or_skip!(Place::new());
    let recorded = probe(
        &place,
        &[
            "stat",
            "/proc/self/exe",
            "readlink",
            "/proc/self/exe",
            "open",
            "/proc/self/cwd",
            "stat",
            "/dev/stdin",
        ],
    );
    let own = std::env::current_exe().unwrap();
    assert_eq!(recorded.kind(&own), None);
}

#[test]
fn a_hot_loop_of_lookups_loses_nothing() {
    // On busy processors the recorder may not get its turn before its buffer is full.
    race(|| {
        let place = or_skip!(Place::new());
        make_tree(&place);
        let recorded = probe(
            &place,
            &[
                "times", "300000", "stat", "@/a/file", "times", "100000", "access", "@/a/none",
            ],
        );
        assert_looked_up(&recorded, &place, NodeKind::Absent, &["a/none"]);
        assert_eq!(recorded.recording.counts.lost(), 0);
    });
}
