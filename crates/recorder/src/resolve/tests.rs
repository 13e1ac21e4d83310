// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings of a tree that is made up, and the profiles that they become.

use std::cell::RefCell;

use super::*;
use crate::recording::{Chunk, GroupRecord};

const MOUNTS: &[u8] = b"\
1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
2 1 0:5 / /proc rw - proc proc rw\n\
3 1 0:50 / /over rw - overlay overlay rw,lowerdir=/low,upperdir=/up,workdir=/w\n";

const ROOT: u32 = 8 << 20 | 1;

#[derive(Clone, Debug)]
enum File {
    Regular,
    Directory,
    Link(&'static str),
}

/// Files by path; their inode numbers are their places in the list, from 1.
#[derive(Default)]
struct Tree {
    files: Vec<(&'static str, File)>,
    generations: HashMap<Vec<u8>, u32>,
    ctime_s: i64,
    looked_at: RefCell<Vec<String>>,
}

impl Tree {
    fn new(files: &[(&'static str, File)]) -> Self {
        Self {
            files: files.to_vec(),
            ..Self::default()
        }
    }

    fn find(&self, path: &[u8]) -> Option<(u64, &File)> {
        let mut files = (1..).zip(&self.files);
        let (inode, (_, file)) = files.find(|(_, (name, _))| name.as_bytes() == path)?;
        Some((inode, file))
    }
}

impl FileTree for Tree {
    fn status(&self, path: &[u8]) -> Result<FileStatus, LookupError> {
        let text = String::from_utf8_lossy(path).into_owned();
        self.looked_at.borrow_mut().push(text);
        let (inode, file) = self.find(path).ok_or(LookupError::Absent)?;
        let mode = match file {
            File::Regular => 0o100_644,
            File::Directory => 0o040_755,
            File::Link(_) => 0o120_777,
        };
        Ok(FileStatus {
            inode,
            mode,
            size_bytes: 9000,
            ctime_s: self.ctime_s,
            ..FileStatus::default()
        })
    }

    fn link_target(&self, path: &[u8]) -> Option<Vec<u8>> {
        match self.find(path)?.1 {
            File::Link(target) => Some(target.as_bytes().to_vec()),
            _ => None,
        }
    }

    fn generation(&self, path: &[u8]) -> Option<u32> {
        self.generations.get(path).copied()
    }

    fn entries(&self, directory: &[u8], max: usize) -> Vec<(u64, Vec<u8>)> {
        let inside = |(path, _): &&(&str, File)| parent(path.as_bytes()) == directory;
        let numbered = (1..).zip(&self.files);
        let entries = numbered
            .filter(|(_, file)| inside(file))
            .map(|(inode, (path, _))| {
                let name = path.rsplit('/').next().unwrap_or_default();
                (inode, name.as_bytes().to_vec())
            });
        entries.take(max).collect()
    }

    fn interpreter(&self, path: &[u8]) -> Option<Vec<u8>> {
        (path == b"/run").then(|| b"/lib/ld.so".to_vec())
    }

    fn now_s(&self) -> i64 {
        1_000_000
    }
}

/// A recording in which the root directory is node 1.
fn recording() -> Recording {
    let root = NodeRecord {
        id: 1,
        number: 1,
        device: ROOT,
        mode: 0o040_755,
        ..NodeRecord::default()
    };
    Recording {
        nodes: HashMap::from([(1, root)]),
        ..Recording::default()
    }
}

fn looked_up(path: &str, no_follow: bool) -> Recording {
    let path = PathRecord {
        directory: 1,
        uses: u32::from(Uses::OPENED.0),
        need_ns: 5,
        path: path.as_bytes().to_vec(),
        no_follow,
        ..PathRecord::default()
    };
    Recording {
        paths: vec![path],
        ..recording()
    }
}

/// Adds a file in the root directory with three of its pages.
fn add_file(recording: &mut Recording, id: u32, name: &str, number: u64, uses: Uses) {
    let node = NodeRecord {
        id,
        parent: 1,
        number,
        device: ROOT,
        mode: 0o100_644,
        name: name.as_bytes().to_vec(),
        ..NodeRecord::default()
    };
    recording.nodes.insert(id, node);
    recording.inodes.push(InodeEntry {
        number,
        generation: 9,
        device: ROOT,
        first: Chunk {
            need_ns: 7,
            used: 0b111,
            group: 3,
            ..Chunk::default()
        },
        need_ns: 7,
        id,
        uses: u32::from(uses.0),
        size_bytes: 9000,
        mode: 0o100_644,
        group: 2,
    });
}

#[test]
fn a_file_whose_name_the_kernel_has_dropped_is_found_in_a_directory() {
    let files = [
        ("/", File::Directory),
        ("/other", File::Regular),
        ("/file", File::Regular),
    ];
    let mut recording = recording();
    add_file(&mut recording, 2, "", 3, Uses::READ);
    recording.nodes.get_mut(&2).unwrap().parent = 0;
    let (profile, unresolved) = resolved(&recording, &Tree::new(&files));
    assert_eq!(unresolved, Unresolved::default());
    let id = profile.find(b"/file").unwrap();
    assert_eq!(profile.ranges(id)[0].pages, 3);
    assert!(profile.find(b"/other").is_none());

    // Its number was given to another file.
    let mut tree = Tree::new(&files);
    tree.generations.insert(b"/file".to_vec(), 10);
    let (profile, unresolved) = resolved(&recording, &tree);
    assert!(profile.find(b"/file").is_none());
    assert_eq!(unresolved.unreachable, 1);
    // On another file system nothing is searched.
    recording.nodes.get_mut(&2).unwrap().device = ROOT + 1;
    recording.inodes[0].device = ROOT + 1;
    let (profile, _) = resolved(&recording, &Tree::new(&files));
    assert!(profile.find(b"/file").is_none());
}

#[test]
fn what_is_needed_tells_by_which_group() {
    let mut recording = looked_up("/link", false);
    recording.paths[0].group = 3;
    add_file(&mut recording, 2, "file", 2, Uses::READ);
    let group = |number, parent, name: &[u8]| {
        let name = name.to_vec();
        let group = GroupRecord {
            number,
            parent,
            name,
        };
        (number, group)
    };
    // The file's first chunk is of a group whose name was lost with the record of its parent.
    recording.groups = HashMap::from([
        group(1, 0, b""),
        group(2, 1, b"ssh.service"),
        group(3, 4, b"lost"),
    ]);
    let files = [
        ("/", File::Directory),
        ("/file", File::Regular),
        ("/link", File::Link("file")),
    ];
    let (profile, _) = resolved(&recording, &Tree::new(&files));
    let unit = |path: &[u8]| {
        let node = profile.node(profile.find(path).unwrap()).unwrap();
        profile.unit(node.unit).to_vec()
    };
    assert_eq!(unit(b"/link"), b"");
    let id = profile.find(b"/file").unwrap();
    assert_eq!(profile.unit(profile.ranges(id)[0].unit), b"");
    assert_eq!(
        profile.units.len(),
        0,
        "the file was opened before by an unknown one"
    );
    recording.paths.clear();
    let group_of_chunk = &mut recording.inodes[0].first.group;
    *group_of_chunk = 2;
    let (profile, _) = resolved(&recording, &Tree::new(&files));
    let id = profile.find(b"/file").unwrap();
    let range = profile.ranges(id)[0];
    assert_eq!(profile.unit(range.unit), b"/ssh.service");
    assert_eq!(
        profile.unit(profile.node(id).unwrap().unit),
        b"/ssh.service"
    );
}

fn resolved(recording: &Recording, tree: &Tree) -> (Profile, Unresolved) {
    let (program, source) = (Program::default(), Source::default());
    let mounts = Mounts::parse(MOUNTS);
    resolve(recording, &mounts, program, source, None, tree)
}

fn kind_at(profile: &Profile, path: &str) -> Option<NodeKind> {
    let id = profile.find(path.as_bytes())?;
    Some(profile.node(id)?.kind)
}

#[test]
fn each_step_of_a_path_is_noted_and_links_are_followed() {
    let tree = Tree::new(&[
        ("/", File::Directory),
        ("/a", File::Directory),
        ("/a/link", File::Link("../b/file")),
        ("/b", File::Directory),
        ("/b/file", File::Regular),
    ]);
    let (profile, unresolved) = resolved(&looked_up("a/link", false), &tree);
    assert_eq!(unresolved, Unresolved::default());
    let found = ["/a", "/a/link", "/b", "/b/file"].map(|path| kind_at(&profile, path));
    let expected = [
        NodeKind::Directory,
        NodeKind::Symlink,
        NodeKind::Directory,
        NodeKind::File,
    ];
    assert_eq!(found, expected.map(Some));
}

#[test]
fn a_name_that_is_not_there_is_noted_as_absent() {
    let tree = Tree::new(&[("/", File::Directory), ("/a", File::Directory)]);
    let (profile, _) = resolved(&looked_up("a/none", false), &tree);
    assert_eq!(kind_at(&profile, "/a/none"), Some(NodeKind::Absent));
}

#[test]
fn a_link_that_was_not_followed_leads_nowhere() {
    let tree = Tree::new(&[
        ("/", File::Directory),
        ("/link", File::Link("/file")),
        ("/file", File::Regular),
    ]);
    let (profile, _) = resolved(&looked_up("link", true), &tree);
    assert_eq!(kind_at(&profile, "/link"), Some(NodeKind::Symlink));
    assert_eq!(kind_at(&profile, "/file"), None);
}

#[test]
fn links_in_a_ring_come_to_an_end() {
    let tree = Tree::new(&[
        ("/", File::Directory),
        ("/one", File::Link("two")),
        ("/two", File::Link("one")),
    ]);
    let (profile, _) = resolved(&looked_up("one", false), &tree);
    assert_eq!(kind_at(&profile, "/two"), Some(NodeKind::Symlink));
    assert!(tree.looked_at.borrow().len() < 200);
}

#[test]
fn a_name_on_an_overlay_is_looked_up_in_its_layers_until_it_is_found() {
    let tree = Tree::new(&[
        ("/", File::Directory),
        ("/over", File::Directory),
        ("/over/file", File::Regular),
        ("/low/file", File::Regular),
    ]);
    let (profile, _) = resolved(&looked_up("over/file", false), &tree);
    assert_eq!(kind_at(&profile, "/low/file"), Some(NodeKind::File));
    let looked_at = tree.looked_at.borrow();
    let at = |path: &str| looked_at.iter().position(|looked| looked == path);
    assert!(at("/up/file") < at("/low/file"));
}

#[test]
fn an_inode_is_found_by_its_number_or_gone() {
    let tree = Tree::new(&[
        ("/", File::Directory),
        ("/file", File::Regular),
        ("/other", File::Regular),
    ]);
    let mut recording = recording();
    add_file(&mut recording, 2, "file", 2, Uses::READ);
    // Another file has its name now.
    add_file(&mut recording, 3, "other", 77, Uses::READ);
    // Its name was lost.
    recording.inodes.push(InodeEntry {
        id: 4,
        uses: u32::from(Uses::READ.0),
        ..InodeEntry::default()
    });
    let (profile, unresolved) = resolved(&recording, &tree);
    let ranges = profile.ranges(profile.find(b"/file").unwrap()).iter();
    let ranges: Vec<_> = ranges
        .map(|range| (range.start_page, range.end_page()))
        .collect();
    assert_eq!(ranges, [(0, 3)]);
    assert_eq!(kind_at(&profile, "/other"), None);
    assert_eq!((unresolved.gone, unresolved.unreachable), (1, 1));
}

#[test]
fn a_number_that_was_given_to_a_new_file_is_told_by_its_generation() {
    let gone = |ctime_s| {
        let tree = Tree {
            generations: HashMap::from([(b"/file".to_vec(), 10)]),
            ctime_s,
            ..Tree::new(&[("/", File::Directory), ("/file", File::Regular)])
        };
        let mut recording = recording();
        add_file(&mut recording, 2, "file", 2, Uses::READ);
        resolved(&recording, &tree).1.gone
    };
    assert_eq!(gone(999_000), 1);
    assert_eq!(gone(100_000), 0, "it has not changed for long");
}

#[test]
fn the_linker_that_a_program_names_is_in_its_profile() {
    let tree = Tree::new(&[
        ("/", File::Directory),
        ("/run", File::Regular),
        ("/lib", File::Directory),
        ("/lib/ld.so", File::Regular),
    ]);
    let linker_of = |uses| {
        let mut recording = recording();
        add_file(&mut recording, 2, "run", 2, uses);
        kind_at(&resolved(&recording, &tree).0, "/lib/ld.so")
    };
    assert_eq!(linker_of(Uses::EXECUTED), Some(NodeKind::File));
    assert_eq!(linker_of(Uses::READ), None, "it was not run");
}
