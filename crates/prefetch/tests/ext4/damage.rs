// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests every parser with random bytes, and real images with random damage. The result is an
//! error, or an answer that lies inside the file system. It is never a panic, an overflow or an
//! endless walk.

use std::sync::OnceLock;

use foreread_prefetch::ext4::{
    Answer, BlockMap, Extent, Geometry, Inode, Limits, Name, NodeKind, NodeRef, Survey, WHOLE_FILE,
    Wanted, find_names, parse_inode, parse_node,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::image::{Image, Tree, have_e2fsprogs};
use super::limits::{geometry, put, superblock};

/// Few enough that a walk that goes astray is over soon.
const LIMITS: Limits = Limits {
    nodes_max: 2000,
    extents_max: 20_000,
};

fn assert_map_inside(map: &BlockMap, geometry: &Geometry) {
    let mut logical_free = 0;
    for extent in &map.extents {
        assert!(u64::from(extent.logical_block) >= logical_free);
        assert!(extent.length_blocks > 0);
        logical_free = extent.logical_end();
        assert!(logical_free <= 1 << 32);
        assert!(extent.physical_block + u64::from(extent.length_blocks) <= geometry.blocks());
    }
    for node in &map.nodes {
        assert!(node.block < geometry.blocks());
        assert!(node.logical_start < node.logical_end && node.logical_end <= 1 << 32);
    }
}

fn assert_extents_inside(extents: &[Extent], geometry: &Geometry) {
    let end = geometry.blocks() * u64::from(geometry.block_bytes());
    assert!(
        extents
            .windows(2)
            .all(|pair| pair[0].end_bytes() < pair[1].offset_bytes)
    );
    assert!(extents.iter().all(|extent| extent.end_bytes() <= end));
}

fn assert_inode_inside(inode: &Inode, geometry: &Geometry) {
    if let foreread_prefetch::ext4::Mapping::Blocks(map) = &inode.mapping {
        assert_map_inside(map, geometry);
    }
    assert_extents_inside(&inode.metadata_extents(geometry), geometry);
    let end = geometry.blocks() * u64::from(geometry.block_bytes());
    let ranges = inode.physical_ranges(geometry, &[3..40, 1000..u64::MAX]);
    for range in &ranges {
        assert!(range.pages > 0);
        // The last page may reach over the end of its block.
        assert!(range.offset_bytes + (range.pages - 1) * 4096 < end);
    }
    let in_order = |pair: &[foreread_prefetch::ext4::PhysicalRange]| {
        pair[0].file_page + pair[0].pages <= pair[1].file_page
    };
    assert!(ranges.windows(2).all(in_order));
}

/// Everything that can be done with an image.
fn read_all(image: &[u8]) -> Option<usize> {
    let mut source = image;
    let mut geometry = Geometry::read(&mut source).ok()?;
    let last = u64::from(geometry.inodes()).min(600);
    let numbers = || 0..=last + 1;
    assert_extents_inside(&geometry.descriptor_extents(numbers()), &geometry);
    // Groups that could be loaded stay loaded, so go on after an error.
    let _ = geometry.load_groups(&mut source, numbers());
    assert_extents_inside(&geometry.inode_table_extents(numbers()), &geometry);
    let wanted = numbers().map(|inode| Wanted {
        inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(&geometry, wanted, LIMITS);
    let mut steps = 0;
    while !survey.is_finished() {
        assert_extents_inside(&survey.next_extents(), &geometry);
        survey.step(&mut source);
        steps += 1;
        assert!(steps <= 6, "more levels than a block map has");
    }
    let found = survey.finish();
    let inodes = found.iter().filter_map(|found| found.inode.as_ref().ok());
    let mut extents = 0;
    let mut count = 0;
    for inode in inodes {
        assert_inode_inside(inode, &geometry);
        extents += inode.extents().len();
        count += 1;
    }
    assert!(extents <= LIMITS.extents_max);
    find_all(source, &mut geometry);
    Some(count)
}

/// Looks for names at the root, and for the same names in each of these.
fn find_all(mut image: &[u8], geometry: &mut Geometry) {
    let names: [&[u8]; 5] = [b"small", b"directory", b"link", b"lost+found", b"missing"];
    let mut wanted = vec![Name {
        parent: None,
        name: b"",
    }];
    for parent in 0..=names.len() {
        wanted.extend(names.map(|name| Name {
            parent: Some(parent),
            name,
        }));
    }
    let before = geometry.clone();
    let answers = find_names(&wanted, geometry, &mut image, LIMITS, |extents| {
        assert_extents_inside(extents, &before);
        true
    });
    for answer in answers {
        if let Answer::Found { number, inode } = answer {
            assert!((1..=u64::from(before.inodes())).contains(&number));
            assert_inode_inside(&inode, geometry);
        }
    }
}

/// A place and the value to put there: bits, and values at the edges of a field's range.
fn damage() -> impl Strategy<Value = (usize, Vec<u8>)> {
    let value = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop_oneof![
            Just(0_u16),
            Just(1),
            Just(0x8000),
            Just(0x8001),
            Just(0xffff),
            any::<u16>()
        ]
        .prop_map(|value| value.to_le_bytes().to_vec()),
        prop_oneof![
            Just(0_u32),
            Just(1),
            Just(0x7fff_ffff),
            Just(u32::MAX),
            0_u32..5000
        ]
        .prop_map(|value| value.to_le_bytes().to_vec()),
    ];
    (
        any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20)),
        value,
    )
}

/// A small image with every kind of block map, and where its metadata is.
struct Original {
    bytes: Vec<u8>,
    metadata: Vec<Extent>,
}

/// Images with extents and with indirect blocks; none without e2fsprogs.
fn originals() -> &'static [Original] {
    static ORIGINALS: OnceLock<Vec<Original>> = OnceLock::new();
    ORIGINALS.get_or_init(|| {
        if !have_e2fsprogs() {
            return Vec::new();
        }
        let extents: &[&str] = &["-t", "ext4", "-b", "1024", "-N", "128", "-O", "inline_data"];
        let indirect: &[&str] = &["-t", "ext2", "-b", "1024", "-N", "128"];
        let spread: &[&str] = &[
            "-t",
            "ext4",
            "-b",
            "1024",
            "-N",
            "128",
            "-O",
            "meta_bg,^resize_inode",
            "-J",
            "size=1",
        ];
        [extents, indirect, spread]
            .into_iter()
            .map(original)
            .collect()
    })
}

fn original(options: &[&str]) -> Original {
    let directory = TempDir::new().unwrap();
    let mut tree = Tree::new(directory.path().join("tree"));
    tree.file("small", 5000);
    tree.file_with_holes("few-pieces", 6, 4096);
    tree.file_with_holes("many-pieces", 500, 4096);
    tree.symlink("link", "small");
    tree.symlink("link-long", &"l/".repeat(200));
    tree.directory("directory");
    let image = Image::make(&directory, &tree, options, 12);
    let bytes = image.bytes();
    let metadata = metadata(&bytes);
    assert!(read_all(&bytes).unwrap() >= 7);
    Original { bytes, metadata }
}

/// All that the reader reads of an image.
fn metadata(image: &[u8]) -> Vec<Extent> {
    let mut source = image;
    let mut geometry = Geometry::read(&mut source).unwrap();
    let numbers = || 1..=24;
    let mut extents = vec![Extent {
        offset_bytes: 1024,
        length_bytes: 1024,
    }];
    extents.extend(geometry.descriptor_extents(numbers()));
    geometry.load_groups(&mut source, numbers()).unwrap();
    let wanted = numbers().map(|inode| Wanted {
        inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(&geometry, wanted, Limits::default());
    while !survey.is_finished() {
        extents.extend(survey.next_extents());
        survey.step(&mut source);
    }
    let found = survey.finish();
    let found = found.iter().filter_map(|found| found.inode.as_ref().ok());
    extents.extend(found.flat_map(|inode| inode.metadata_extents(&geometry)));
    extents
}

impl Original {
    /// Damages metadata in `part` of the stages, so that the few bytes of the superblock are hit as
    /// often as the many of nodes.
    fn damaged(&self, part: usize, damage: &[(usize, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let extent = self.metadata[part % self.metadata.len()];
        let start = extent.offset_bytes as usize;
        for (at, value) in damage {
            put(
                &mut bytes,
                start + at % (extent.length_bytes as usize - 4),
                value,
            );
        }
        bytes
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn damaged_images_give_errors_or_answers_inside(
        which in 0_usize..3,
        part in any::<usize>(),
        damage in prop::collection::vec(damage(), 1..12),
    ) {
        let originals = originals();
        prop_assume!(!originals.is_empty() || which == 0);
        if let Some(original) = originals.get(which) {
            read_all(&original.damaged(part, &damage));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damaged_superblocks(damage in prop::collection::vec(damage(), 1..8)) {
        let mut bytes = superblock();
        for (at, value) in damage {
            put(&mut bytes, at % 0x260, &value);
        }
        // Most of them hit nothing that counts, or the magic.
        put(&mut bytes, 0x38, &[0x53, 0xef]);
        let mut image = vec![0; 1 << 16];
        put(&mut image, 1024, &bytes);
        read_all(&image);
    }

    #[test]
    fn random_superblocks(mut bytes in prop::collection::vec(any::<u8>(), 0..1100), magic: bool) {
        if magic && bytes.len() >= 0x68 {
            put(&mut bytes, 0x38, &[0x53, 0xef]);
            put(&mut bytes, 0x60, &[0xc2, 0, 0, 0]);
            put(&mut bytes, 0x18, &[2, 0, 0, 0]);
        }
        if let Ok(geometry) = Geometry::parse(&bytes) {
            prop_assert!(geometry.blocks() > 0 && geometry.groups() > 0);
        }
    }

    #[test]
    fn random_inodes(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        extents: bool,
        depth in 0_u16..7,
    ) {
        if extents && bytes.len() > 128 {
            put(&mut bytes, 0x20, &[0, 0, 8, 0]);
            put(&mut bytes, 0x28, &[0x0a, 0xf3, 3, 0, 4, 0]);
            put(&mut bytes, 0x2e, &depth.to_le_bytes());
        }
        let geometry = geometry();
        if let Ok(inode) = parse_inode(&bytes, &geometry) {
            assert_inode_inside(&inode, &geometry);
        }
    }

    #[test]
    fn random_nodes(
        random in prop::collection::vec(any::<u16>(), 0..2100),
        small: bool,
        header: bool,
        depth in 0_u16..7,
        extents: bool,
        logical_start in any::<u32>(),
        length in 0_u64..1 << 32,
    ) {
        // Small numbers make blocks and lengths that are allowed.
        let mask = if small { 0x0f } else { 0xffff };
        let mut bytes: Vec<u8> =
            random.iter().flat_map(|value| (value & mask).to_le_bytes()).collect();
        if header && bytes.len() >= 12 {
            put(&mut bytes, 0, &[0x0a, 0xf3, 40, 0, 40, 1]);
            put(&mut bytes, 6, &depth.to_le_bytes());
        }
        let kind = if extents {
            NodeKind::Extents { depth }
        } else {
            NodeKind::Indirect { level: depth }
        };
        let logical_start = u64::from(logical_start);
        let logical_end = (logical_start + length).min(1 << 32);
        let node = NodeRef { block: 5, kind, logical_start, logical_end };
        let geometry = geometry();
        if let Ok(map) = parse_node(&bytes, &node, &geometry) {
            assert_map_inside(&map, &geometry);
            let inside = |start: u64, end: u64| logical_start <= start && end <= logical_end;
            for extent in &map.extents {
                prop_assert!(inside(u64::from(extent.logical_block), extent.logical_end()));
            }
            prop_assert!(map.nodes.iter().all(|n| inside(n.logical_start, n.logical_end)));
        }
    }

    /// The caller may make up a node; nothing must overflow.
    #[test]
    fn made_up_nodes(start in any::<u64>(), end in any::<u64>(), level in any::<u16>()) {
        let geometry = geometry();
        let bytes = 7_u32.to_le_bytes().repeat(1024);
        for kind in [NodeKind::Indirect { level }, NodeKind::Extents { depth: level }] {
            let node = NodeRef { block: u64::MAX, kind, logical_start: start, logical_end: end };
            if let Ok(map) = parse_node(&bytes, &node, &geometry) {
                prop_assert!(map.extents.iter().all(|e| e.logical_end() <= 1 << 32));
            }
        }
    }
}
