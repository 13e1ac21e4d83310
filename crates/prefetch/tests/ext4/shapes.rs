// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every shape of file system that mke2fs makes, compared with the output of debugfs and with the
//! files that were put on it.

use std::collections::HashMap;

use foreread_prefetch::ext4::{
    Answer, BlockSource, Ext4Error, FileType, Geometry, Inode, InodeFlags, Limits, Mapping, Name,
    Survey, WHOLE_FILE, Wanted, find_names, merge_extents,
};
use tempfile::TempDir;

use super::image::{Image, Stat, Tree, have_e2fsprogs, host_content, joined};

/// Defaults of mke2fs for images above 512 MiB; smaller ones get blocks of 1 KiB.
const DEFAULT: [&str; 4] = ["-t", "ext4", "-b", "4096"];

const NAMES: usize = 400;

fn name_in_big_directory(number: usize) -> String {
    format!("big/{number:06}-a-name-that-is-long-enough-to-fill-the-blocks-of-a-directory")
}

/// One of everything that has a different layout.
fn varied_tree(directory: &TempDir) -> Tree {
    let mut tree = Tree::new(directory.path().join("tree"));
    tree.file("empty", 0);
    tree.file("tiny", 40);
    tree.file("hundred", 100);
    tree.file("medium", 300_000);
    tree.file("large", 9_000_000);
    tree.file_with_holes("few-pieces", 6, 4096);
    tree.file_with_holes("many-pieces", 1500, 4096);
    tree.file_with_holes("far-apart", 3, 100 << 20);
    tree.directory("a");
    tree.directory("a/b");
    tree.file("a/b/deep", 5000);
    tree.directory("big");
    for number in 0..NAMES {
        tree.file(&name_in_big_directory(number), 0);
    }
    tree.symlink("link-short", "a/b/deep");
    tree.symlink("link-59", &"s".repeat(59));
    tree.symlink("link-60", &"s".repeat(60));
    tree.symlink("link-long", &"l/".repeat(400));
    tree
}

/// All that a survey finds, and how many steps it took.
fn survey(image: &Image, wanted: &[Wanted]) -> (Geometry, HashMap<u64, Inode>, usize) {
    let mut source = image;
    let mut geometry = Geometry::read(&mut source).unwrap();
    let numbers = || wanted.iter().map(|wanted| wanted.inode);
    let mut descriptors = Recorded::new(image);
    let announced = geometry.descriptor_extents(numbers());
    geometry.load_groups(&mut descriptors, numbers()).unwrap();
    descriptors.assert_within(&announced);
    assert_eq!(geometry.descriptor_extents(numbers()), [], "all are loaded");

    let mut survey = Survey::new(&geometry, wanted.to_vec(), Limits::default());
    assert_eq!(
        survey.next_extents(),
        geometry.inode_table_extents(numbers())
    );
    let mut steps = 0;
    while !survey.is_finished() {
        let announced = survey.next_extents();
        let mut source = Recorded::new(image);
        survey.step(&mut source);
        source.assert_within(&announced);
        steps += 1;
    }
    let found = survey.finish();
    let inodes = found
        .into_iter()
        .map(|found| (found.number, found.inode.unwrap()))
        .collect();
    (geometry, inodes, steps)
}

/// Records the reads.
struct Recorded<'a> {
    image: &'a Image,
    reads: Vec<(u64, u64)>,
}

impl<'a> Recorded<'a> {
    fn new(image: &'a Image) -> Self {
        Self {
            image,
            reads: Vec::new(),
        }
    }

    /// Asserts that all reads were announced, and came in the order of the device.
    fn assert_within(&self, announced: &[foreread_prefetch::ext4::Extent]) {
        assert!(self.reads.is_sorted());
        for &(start, end) in &self.reads {
            let inside = |e: &foreread_prefetch::ext4::Extent| {
                e.offset_bytes <= start && end <= e.end_bytes()
            };
            assert!(
                announced.iter().any(inside),
                "{start}..{end} was not in {announced:?}"
            );
        }
    }
}

impl BlockSource for Recorded<'_> {
    fn read_at(
        &mut self,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), foreread_prefetch::ext4::BlockReadError> {
        self.reads
            .push((offset_bytes, offset_bytes + buffer.len() as u64));
        self.image.read_at(offset_bytes, buffer)
    }
}

fn everything(stats: &HashMap<String, Stat>) -> Vec<Wanted> {
    let wanted = |stat: &Stat| Wanted {
        inode: stat.inode,
        pages: vec![WHOLE_FILE],
    };
    stats.values().map(wanted).collect()
}

/// Makes an image of the varied tree and compares every file of it. Gives it back for more.
fn check_shape(options: &[&str], size_mib: u64) -> Option<Checked> {
    if !have_e2fsprogs() {
        return None;
    }
    let directory = TempDir::new().unwrap();
    let tree = varied_tree(&directory);
    let image = Image::make(&directory, &tree, options, size_mib);
    image.change(&[
        "mknod pipe p".into(),
        "write /dev/null reserved".into(),
        "fallocate reserved 3 40".into(),
        "set_inode_field reserved size 100000".into(),
        "set_inode_field tiny generation 123456".into(),
        "set_inode_field hundred mtime 20330102030405".into(),
        format!("ea_set medium user.large {}", "x".repeat(700)),
    ]);
    let mut paths = tree.paths.clone();
    paths.extend(["pipe".into(), "reserved".into()]);
    let stats = image.stat(&paths);
    let (geometry, inodes, steps) = survey(&image, &everything(&stats));
    for (path, stat) in &stats {
        compare(path, stat, &inodes[&stat.inode], &geometry);
    }
    compare_places(&image, &geometry, &stats);
    compare_names(&image, &stats);
    for path in &tree.paths {
        compare_content(&image, &tree, path, &inodes[&stats[path].inode], &geometry);
    }
    Some(Checked {
        image,
        geometry,
        inodes,
        stats,
        steps,
        _directory: directory,
    })
}

struct Checked {
    image: Image,
    geometry: Geometry,
    inodes: HashMap<u64, Inode>,
    stats: HashMap<String, Stat>,
    steps: usize,
    _directory: TempDir,
}

impl Checked {
    fn inode(&self, path: &str) -> &Inode {
        &self.inodes[&self.stats[path].inode]
    }
}

fn compare(path: &str, stat: &Stat, inode: &Inode, geometry: &Geometry) {
    let file_type = match stat.kind.as_str() {
        "regular" => FileType::Regular,
        "directory" => FileType::Directory,
        "symlink" => FileType::Symlink,
        _ => FileType::Special,
    };
    assert_eq!(inode.file_type, file_type, "{path}");
    assert_eq!(inode.mode & 0o7777, stat.mode, "{path}");
    assert_eq!(inode.flags.0, stat.flags, "{path}");
    assert_eq!(inode.generation, stat.generation, "{path}");
    assert_eq!(inode.size_bytes, stat.size_bytes, "{path}");
    assert_eq!(inode.links, stat.links, "{path}");
    assert_eq!(inode.xattr_block.unwrap_or(0), stat.xattr_block, "{path}");
    assert_eq!(
        inode.mtime_ns.div_euclid(1_000_000_000),
        stat.mtime_s as i64,
        "{path}"
    );
    assert_eq!(
        joined(inode.extents().iter().copied()),
        stat.extents,
        "{path}"
    );
    match &inode.mapping {
        Mapping::None => assert_eq!(file_type, FileType::Special, "{path}"),
        // debugfs says the same of both kinds of link.
        Mapping::Inline => assert!(stat.inline || stat.fast_link, "{path}"),
        Mapping::FastSymlink => assert!(stat.fast_link, "{path}"),
        Mapping::Blocks(map) => {
            assert!(!stat.inline && !stat.fast_link, "{path}");
            assert_eq!(map.nodes, [], "{path}");
        }
    }
    compare_metadata(path, stat, inode, geometry);
}

/// Directory blocks, the block of a slow link and that of attributes are metadata; data isn't.
fn compare_metadata(path: &str, stat: &Stat, inode: &Inode, geometry: &Geometry) {
    let block_bytes = u64::from(geometry.block_bytes());
    let mut expected = Vec::new();
    if stat.xattr_block != 0 {
        expected.push(stat.xattr_block);
    }
    if matches!(inode.file_type, FileType::Directory | FileType::Symlink) {
        let blocks = |e: &foreread_prefetch::ext4::FileExtent| {
            e.physical_block..e.physical_block + u64::from(e.length_blocks)
        };
        expected.extend(stat.extents.iter().flat_map(blocks));
    }
    expected.sort_unstable();
    let extents = inode.metadata_extents(geometry);
    let blocks = |e: &foreread_prefetch::ext4::Extent| {
        e.offset_bytes / block_bytes..e.end_bytes() / block_bytes
    };
    let found: Vec<_> = extents.iter().flat_map(blocks).collect();
    assert_eq!(found, expected, "{path}");
}

/// The place of inodes of every group, in use or not.
fn compare_places(image: &Image, geometry: &Geometry, stats: &HashMap<String, Stat>) {
    let mut geometry = geometry.clone();
    let last = u64::from(geometry.inodes());
    let step = (last / 600).max(1) as usize;
    let mut numbers: Vec<u64> = (1..=last).step_by(step).collect();
    numbers.push(last);
    numbers.extend(stats.values().take(50).map(|stat| stat.inode));
    geometry
        .load_groups(&mut { image }, numbers.iter().copied())
        .unwrap();
    for (&number, (block, offset)) in numbers.iter().zip(image.inode_places(&numbers)) {
        let location = geometry.inode_location(number).unwrap();
        let expected = block * u64::from(geometry.block_bytes()) + offset;
        assert_eq!(location.offset_bytes, expected, "inode {number}");
    }
    let outside = geometry.inode_location(last + 1);
    assert_eq!(
        outside,
        Err(Ext4Error::NoSuchInode {
            inode: last + 1,
            inodes: last as u32
        })
    );
    assert!(geometry.inode_location(0).is_err());
}

/// The directory that a path is in, and its name there; `None` for the root.
fn split(path: &str) -> Option<(&str, &str)> {
    (!path.is_empty()).then(|| path.rsplit_once('/').unwrap_or(("", path)))
}

/// All paths are found by their names, and none that isn't there; what can't be told isn't.
fn compare_names(image: &Image, stats: &HashMap<String, Stat>) {
    let mut paths: Vec<&str> = stats.keys().map(String::as_str).collect();
    paths.extend([
        "missing",
        "missing/below",
        "big/missing",
        "tiny/below",
        "a/b/deep/below",
    ]);
    // Directories before what is in them.
    paths.sort_unstable();
    let names: Vec<Name<'_>> = (paths.iter())
        .map(|path| match split(path) {
            Some((parent, name)) => Name {
                parent: paths.binary_search(&parent).ok(),
                name: name.as_bytes(),
            },
            None => Name {
                parent: None,
                name: b"",
            },
        })
        .collect();
    let mut source = image;
    let mut geometry = Geometry::read(&mut source).unwrap();
    let mut announced = Vec::new();
    let mut rounds = 0;
    let mut recorded = Recorded::new(image);
    let answers = find_names(
        &names,
        &mut geometry,
        &mut recorded,
        Limits::default(),
        |next| {
            announced.extend_from_slice(next);
            rounds += 1;
            true
        },
    );
    recorded.reads.sort_unstable();
    recorded.assert_within(&merge_extents(announced, 0));
    // Three directories deep, each with descriptors, inodes, nodes of a block map, and content.
    assert!(rounds <= 4 * 4, "{rounds}");
    for (path, answer) in paths.iter().zip(&answers) {
        let parent = split(path).map(|(parent, _)| parent);
        let is_told = parent.is_none_or(|parent| {
            stats
                .get(parent)
                .is_none_or(|stat| stat.kind == "directory" && !stat.inline)
        });
        match (answer, stats.get(*path)) {
            (Answer::Found { number, inode }, Some(stat)) => {
                assert_eq!(*number, stat.inode, "{path}");
                assert_eq!(inode.size_bytes, stat.size_bytes, "{path}");
            }
            (Answer::Missing, None) => assert!(is_told, "{path}"),
            (Answer::Unknown, _) => assert!(!is_told, "{path}"),
            (answer, stat) => panic!("{path}: {answer:?}, expected {:?}", stat.map(|s| s.inode)),
        }
    }

    let stopped = find_names(
        &names,
        &mut geometry,
        &mut source,
        Limits::default(),
        |_| false,
    );
    assert!(stopped.iter().all(|answer| *answer == Answer::Unknown));
}

/// Asserts that the extents and the ranges point at the content that was put into the file.
fn compare_content(image: &Image, tree: &Tree, path: &str, inode: &Inode, geometry: &Geometry) {
    let block_bytes = u64::from(geometry.block_bytes());
    if inode.file_type == FileType::Directory || !matches!(inode.mapping, Mapping::Blocks(_)) {
        return;
    }
    let expected = host_content(&tree.on_host(path));
    let mut source = image;
    let mut content = vec![0; expected.len().next_multiple_of(65536)];
    for extent in inode.extents().iter().filter(|extent| !extent.unwritten) {
        let place = geometry
            .block_extent(extent.physical_block, extent.length_blocks)
            .unwrap();
        let start = extent.logical_block as usize * block_bytes as usize;
        let target = &mut content[start..start + place.length_bytes as usize];
        source.read_at(place.offset_bytes, target).unwrap();
    }
    assert!(content[..expected.len()] == expected, "{path}");

    compare_ranges(image, path, inode, geometry, &expected);
}

fn compare_ranges(image: &Image, path: &str, inode: &Inode, geometry: &Geometry, expected: &[u8]) {
    let block_bytes = geometry.block_bytes() as usize;
    let mut source = image;
    let mut on_device = [0; 4096];
    let mut pages_found = 0;
    for range in inode.physical_ranges(geometry, &[WHOLE_FILE]) {
        pages_found += range.pages;
        for page in (0..range.pages).step_by(1 + range.pages as usize / 4) {
            let place = range.offset_bytes + page * 4096;
            source.read_at(place, &mut on_device).unwrap();
            let start = (range.file_page + page) as usize * 4096;
            // The last page may end early; a page in pieces is only its first piece.
            let length = if range.pages == 1 {
                block_bytes.min(4096)
            } else {
                4096
            };
            let end = expected.len().min(start + length);
            assert!(
                on_device[..end - start] == expected[start..end],
                "{path} at {start}"
            );
        }
    }
    // A block that is partly a hole is written as a whole.
    let chunks = expected.chunks(block_bytes.max(4096));
    let with_data = chunks.filter(|chunk| chunk.iter().any(|&byte| byte != 0));
    let pages_with_data: usize = with_data.map(|chunk| chunk.len().div_ceil(4096)).sum();
    assert_eq!(pages_found, pages_with_data as u64, "{path}");
}

#[test]
fn default_ext4() {
    let Some(checked) = check_shape(&DEFAULT, 128) else {
        return;
    };
    let features = checked.geometry.features();
    assert!(features.has_extents() && features.has_flex_bg() && features.is_64bit());
    assert_eq!(checked.geometry.block_bytes(), 4096);
    // Inodes, then three levels of the tree of `many-pieces`, of which one is in the inode.
    assert_eq!(checked.steps, 3);
    assert!(checked.inode("many-pieces").extents().len() == 1500);
    assert!(checked.inode("medium").xattr_block.is_some());
    assert_eq!(checked.inode("link-59").mapping, Mapping::FastSymlink);
    assert_eq!(checked.inode("link-60").extents().len(), 1);
    assert!(checked.inode("reserved").extents()[0].unwritten);
    assert_eq!(
        checked
            .inode("reserved")
            .physical_ranges(&checked.geometry, &[WHOLE_FILE]),
        []
    );
    assert_eq!(checked.inode("tiny").generation, 123_456);
}

#[test]
fn times_have_an_epoch_and_nanoseconds() {
    if !have_e2fsprogs() {
        return;
    }
    let directory = TempDir::new().unwrap();
    let mut tree = Tree::new(directory.path().join("tree"));
    tree.file("f", 1);
    let image = Image::make(&directory, &tree, &["-t", "ext4"], 16);
    // mke2fs copies whole seconds; the low two bits are the epoch.
    image.change(&[
        "set_inode_field f mtime @100".into(),
        format!(
            "set_inode_field f mtime_extra {}",
            (123_456_789_u32 << 2) | 1
        ),
    ]);
    let stats = image.stat(&["f".into()]);
    let (_, inodes, _) = survey(&image, &everything(&stats));
    let expected = (100 + (1_i64 << 32)) * 1_000_000_000 + 123_456_789;
    assert_eq!(inodes[&stats["f"].inode].mtime_ns, expected);
}

#[test]
fn blocks_of_1k() {
    let Some(checked) = check_shape(&["-t", "ext4", "-b", "1024"], 128) else {
        return;
    };
    assert_eq!(checked.geometry.block_bytes(), 1024);
    assert!(checked.geometry.groups() > 4);
    assert!(checked.steps >= 3);
}

#[test]
fn blocks_of_2k_with_large_inodes() {
    let options = ["-t", "ext4", "-b", "2048", "-I", "1024"];
    let Some(checked) = check_shape(&options, 128) else {
        return;
    };
    assert_eq!(checked.geometry.inode_bytes(), 1024);
}

#[test]
fn blocks_of_64k() {
    let Some(checked) = check_shape(&["-t", "ext4", "-b", "65536"], 512) else {
        return;
    };
    assert_eq!(checked.geometry.block_bytes(), 65536);
}

#[test]
fn without_64bit() {
    let Some(checked) = check_shape(&["-t", "ext4", "-b", "4096", "-O", "^64bit"], 128) else {
        return;
    };
    assert!(!checked.geometry.features().is_64bit());
}

#[test]
fn without_flex_bg() {
    let options = ["-t", "ext4", "-b", "1024", "-O", "^flex_bg", "-N", "8192"];
    let Some(checked) = check_shape(&options, 128) else {
        return;
    };
    assert!(!checked.geometry.features().has_flex_bg());
    // Without flex_bg every group has its own table, so the inodes lie in many places.
    let numbers = checked.stats.values().map(|stat| stat.inode);
    assert!(checked.geometry.inode_table_extents(numbers).len() > 1);
}

#[test]
fn without_checksums_and_with_small_inodes() {
    let options = [
        "-t",
        "ext4",
        "-b",
        "4096",
        "-I",
        "128",
        "-O",
        "^metadata_csum",
    ];
    let Some(checked) = check_shape(&options, 128) else {
        return;
    };
    assert!(!checked.geometry.features().has_metadata_csum());
    assert_eq!(checked.geometry.inode_bytes(), 128);
}

#[test]
fn inline_data() {
    let options = ["-t", "ext4", "-b", "4096", "-O", "inline_data", "-I", "256"];
    let Some(checked) = check_shape(&options, 128) else {
        return;
    };
    assert!(checked.geometry.features().has_inline_data());
    assert_eq!(checked.inode("tiny").mapping, Mapping::Inline);
    assert_eq!(checked.inode("hundred").mapping, Mapping::Inline);
    assert_eq!(checked.inode("a").mapping, Mapping::Inline);
    assert!(matches!(
        checked.inode("medium").mapping,
        Mapping::Blocks(_)
    ));
}

#[test]
fn descriptors_spread_over_the_device() {
    // 38 groups, 16 descriptors a block: three meta groups.
    let options = ["-t", "ext4", "-b", "1024", "-O", "meta_bg,^resize_inode"];
    let Some(checked) = check_shape(&options, 300) else {
        return;
    };
    assert!(checked.geometry.features().has_meta_bg());
    let all = 1..=u64::from(checked.geometry.inodes());
    let mut fresh = Geometry::read(&mut { &checked.image }).unwrap();
    assert_eq!(fresh.descriptor_extents(all.clone()).len(), 3);
    fresh.load_groups(&mut { &checked.image }, all).unwrap();
    assert!(fresh.inode_location(u64::from(fresh.inodes())).is_ok());
}

#[test]
fn descriptors_spread_with_few_superblocks() {
    let options = [
        "-t",
        "ext4",
        "-b",
        "1024",
        "-O",
        "meta_bg,^resize_inode,sparse_super2",
    ];
    check_shape(&options, 300);
    let options = [
        "-t",
        "ext4",
        "-b",
        "1024",
        "-O",
        "meta_bg,^resize_inode,^sparse_super",
    ];
    check_shape(&options, 300);
}

#[test]
fn clusters() {
    let Some(checked) = check_shape(
        &["-t", "ext4", "-b", "4096", "-O", "bigalloc", "-C", "65536"],
        512,
    ) else {
        return;
    };
    assert!(checked.geometry.features().has_bigalloc());
}

#[test]
fn clusters_of_1k_blocks_with_spread_descriptors() {
    let options = [
        "-t",
        "ext4",
        "-b",
        "1024",
        "-C",
        "8192",
        "-O",
        "bigalloc,meta_bg,^resize_inode",
    ];
    let Some(checked) = check_shape(&options, 400) else {
        return;
    };
    assert!(checked.geometry.features().has_bigalloc());
    assert!(checked.geometry.features().has_meta_bg());
}

#[test]
fn ext3_indirect_blocks() {
    let Some(checked) = check_shape_without_fallocate("ext3", "4096") else {
        return;
    };
    assert!(!checked.geometry.features().has_extents());
    assert!(!checked.inode("large").flags.contains(InodeFlags::EXTENTS));
    assert!(
        checked.stats["large"].nodes.len() > 2,
        "double indirect blocks are in use"
    );
}

#[test]
fn ext2_indirect_blocks_of_three_levels() {
    let Some(checked) = check_shape_without_fallocate("ext2", "1024") else {
        return;
    };
    // Blocks of 1 KiB: two levels reach to 64 MiB, and `far-apart` is 300 MiB long.
    assert_eq!(checked.steps, 4);
}

/// As [`check_shape`], for file systems that can't reserve space.
fn check_shape_without_fallocate(kind: &str, block_bytes: &str) -> Option<Checked> {
    if !have_e2fsprogs() {
        return None;
    }
    let directory = TempDir::new().unwrap();
    let tree = varied_tree(&directory);
    let image = Image::make(&directory, &tree, &["-t", kind, "-b", block_bytes], 128);
    let stats = image.stat(&tree.paths);
    let (geometry, inodes, steps) = survey(&image, &everything(&stats));
    for (path, stat) in &stats {
        compare(path, stat, &inodes[&stat.inode], &geometry);
        compare_content(&image, &tree, path, &inodes[&stat.inode], &geometry);
    }
    compare_places(&image, &geometry, &stats);
    Some(Checked {
        image,
        geometry,
        inodes,
        stats,
        steps,
        _directory: directory,
    })
}

#[test]
fn all_names_are_in_the_blocks_of_a_directory() {
    let Some(checked) = check_shape(&DEFAULT, 128) else {
        return;
    };
    let mut bytes = Vec::new();
    for extent in checked.inode("big").metadata_extents(&checked.geometry) {
        let start = bytes.len();
        bytes.resize(start + extent.length_bytes as usize, 0);
        (&mut &checked.image)
            .read_at(extent.offset_bytes, &mut bytes[start..])
            .unwrap();
    }
    for number in 0..NAMES {
        let name = name_in_big_directory(number);
        let name = name.trim_start_matches("big/").as_bytes();
        assert!(
            bytes.windows(name.len()).any(|window| window == name),
            "{number}"
        );
    }
}

#[test]
fn only_nodes_over_the_wanted_pages_are_read() {
    let Some(checked) = check_shape(&DEFAULT, 128) else {
        return;
    };
    let number = checked.stats["many-pieces"].inode;
    let pages = vec![100..103, 2000..2001];
    let wanted = [Wanted {
        inode: number,
        pages: pages.clone(),
    }];
    let mut survey = Survey::new(&checked.geometry, wanted, Limits::default());
    let mut bytes_read = 0;
    while !survey.is_finished() {
        bytes_read += survey
            .next_extents()
            .iter()
            .map(|e| e.length_bytes)
            .sum::<u64>();
        survey.step(&mut { &checked.image });
    }
    let found = survey.finish().remove(0).inode.unwrap();
    // The block of the inode, one index, two of the leaves.
    assert!(bytes_read <= 4 * 4096, "{bytes_read}");
    let whole = checked.inode("many-pieces");
    assert_eq!(
        found.physical_ranges(&checked.geometry, &pages),
        whole.physical_ranges(&checked.geometry, &pages),
    );
    assert_eq!(found.physical_ranges(&checked.geometry, &pages).len(), 3);
}
