// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hand-made structures that the reader must refuse, with its error messages, and the limits at
//! which it must stop.

use foreread_prefetch::ext4::{
    BlockReadError, BlockSource, Ext4Error, FileExtent, FileType, Geometry, Inode, Limits, Mapping,
    NodeKind, NodeRef, PhysicalRange, Survey, WHOLE_FILE, Wanted, parse_inode, parse_node,
};

const BLOCK_BYTES: usize = 4096;
const INODE_TABLE: u32 = 10;

pub fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

pub fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, &value.to_le_bytes());
}

pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, &value.to_le_bytes());
}

/// The superblock of a file system of one group with 32,768 blocks of 4 KiB and 1,024 inodes.
pub fn superblock() -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    put_u32(&mut bytes, 0x0, 1024); // s_inodes_count
    put_u32(&mut bytes, 0x4, 32768); // s_blocks_count_lo
    put_u32(&mut bytes, 0x18, 2); // s_log_block_size
    put_u32(&mut bytes, 0x20, 32768); // s_blocks_per_group
    put_u32(&mut bytes, 0x28, 1024); // s_inodes_per_group
    put_u16(&mut bytes, 0x38, 0xef53); // s_magic
    put_u32(&mut bytes, 0x4c, 1); // s_rev_level
    put_u16(&mut bytes, 0x58, 256); // s_inode_size
    put_u32(&mut bytes, 0x60, 0x42); // filetype, extents
    put_u32(&mut bytes, 0x64, 0x1); // sparse_super
    bytes
}

pub fn geometry() -> Geometry {
    Geometry::parse(&superblock()).unwrap()
}

/// A regular file with these 60 bytes in place of its block map.
fn inode(flags: u32, i_block: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 256];
    put_u16(&mut bytes, 0, 0o100_644);
    put_u32(&mut bytes, 0x4, u32::MAX);
    put_u32(&mut bytes, 0x6c, 0xff); // size_high
    put_u16(&mut bytes, 0x1a, 1);
    put_u32(&mut bytes, 0x20, flags);
    put(&mut bytes, 0x28, i_block);
    bytes
}

const EXTENTS: u32 = 0x8_0000;

/// A node with entries of three words. An extent is (logical, length and high half, low half). An
/// index entry is (logical, low half, high half).
fn node(depth: u16, entries: &[[u32; 3]], length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    put_u16(&mut bytes, 0, 0xf30a);
    put_u16(&mut bytes, 2, entries.len() as u16);
    put_u16(&mut bytes, 4, (length / 12 - 1) as u16);
    put_u16(&mut bytes, 6, depth);
    for (index, entry) in entries.iter().enumerate() {
        for (word, value) in entry.iter().enumerate() {
            put_u32(&mut bytes, 12 + index * 12 + word * 4, *value);
        }
    }
    bytes
}

fn parse_root(root: &[u8]) -> Result<Inode, Ext4Error> {
    parse_inode(&inode(EXTENTS, root), &geometry())
}

/// An image of the file system above, with these inodes from number 1 on, and these blocks.
fn image(inodes: &[Vec<u8>], blocks: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut image = vec![0; 64 * BLOCK_BYTES];
    put(&mut image, 1024, &superblock());
    put_u32(&mut image, BLOCK_BYTES + 8, INODE_TABLE);
    for (index, inode) in inodes.iter().enumerate() {
        put(
            &mut image,
            INODE_TABLE as usize * BLOCK_BYTES + index * 256,
            inode,
        );
    }
    for (block, bytes) in blocks {
        put(&mut image, *block as usize * BLOCK_BYTES, bytes);
    }
    image
}

fn survey(image: &[u8], count: u64, limits: Limits) -> Vec<Result<Inode, Ext4Error>> {
    let mut source = image;
    let mut geometry = Geometry::read(&mut source).unwrap();
    geometry.load_groups(&mut source, 1..=count).unwrap();
    let wanted = (1..=count).map(|inode| Wanted {
        inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(&geometry, wanted, limits);
    survey.run(&mut source);
    survey
        .finish()
        .into_iter()
        .map(|found| found.inode)
        .collect()
}

#[test]
fn no_superblock() {
    let error = Geometry::parse(&[0; 1024]).unwrap_err();
    assert_eq!(error, Ext4Error::NotExt4 { magic: 0 });
    assert!(error.to_string().contains("no ext4 superblock"), "{error}");
    let error = Geometry::read(&mut [0_u8; 1500].as_slice()).unwrap_err();
    let expected = "could not read 1024 bytes at byte 1024 of the device: \
                    the image has only 1500 bytes";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn features_that_are_not_known() {
    let mut bytes = superblock();
    // Compression and a bit that is not in use yet; RECOVER is set on everything mounted.
    put_u32(&mut bytes, 0x60, 0x8000_0047);
    let error = Geometry::parse(&bytes).unwrap_err();
    assert_eq!(error, Ext4Error::UnknownFeatures { bits: 0x8000_0001 });
    put_u32(&mut bytes, 0x60, 0x46);
    assert!(Geometry::parse(&bytes).is_ok());
}

#[test]
fn superblocks_that_no_file_system_has() {
    let cases: [(&str, usize, u32); 9] = [
        ("s_blocks_count", 0x150, u32::MAX),
        ("s_first_data_block", 0x14, 32768),
        ("s_log_block_size", 0x18, 7),
        ("s_blocks_per_group", 0x20, 0),
        ("s_inodes_per_group", 0x28, 0),
        ("s_inodes_per_group", 0x28, 32769),
        ("s_inodes_count", 0x0, 1025),
        ("s_inode_size", 0x58, 300),
        ("s_inode_size", 0x58, 8192),
    ];
    for (expected, at, value) in cases {
        let mut bytes = superblock();
        put_u32(&mut bytes, 0x60, 0xc2); // with 64bit
        put_u16(&mut bytes, 0xfe, 64);
        assert!(Geometry::parse(&bytes).is_ok());
        put_u32(&mut bytes, at, value);
        match Geometry::parse(&bytes) {
            Err(Ext4Error::BadSuperblock { field, .. }) => assert_eq!(field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    for descriptor_bytes in [0, 32, 96, 2048] {
        let mut bytes = superblock();
        put_u32(&mut bytes, 0x60, 0xc2);
        put_u16(&mut bytes, 0xfe, descriptor_bytes);
        let error = Geometry::parse(&bytes).unwrap_err();
        let value = u64::from(descriptor_bytes);
        assert_eq!(
            error,
            Ext4Error::BadSuperblock {
                field: "s_desc_size",
                value
            }
        );
    }
}

#[test]
fn numbers_above_32_bits() {
    // 2^33 blocks of 4 KiB (32 TiB), 2^18 groups.
    let mut bytes = superblock();
    put_u32(&mut bytes, 0x60, 0xc2);
    put_u16(&mut bytes, 0xfe, 64);
    put_u32(&mut bytes, 0x4, 0);
    put_u32(&mut bytes, 0x150, 2);
    put_u32(&mut bytes, 0x0, u32::MAX);
    put_u32(&mut bytes, 0x28, 16384);
    let mut geometry = Geometry::parse(&bytes).unwrap();
    assert_eq!(geometry.groups(), 1 << 18);

    /// Gives descriptors whose inode table is at block 2^32 + 5.
    struct HighTables;
    impl BlockSource for HighTables {
        fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> Result<(), BlockReadError> {
            assert_eq!(at % 4096, 0);
            for descriptor in buffer.chunks_exact_mut(64) {
                put_u32(descriptor, 0x8, 5);
                put_u32(descriptor, 0x28, 1);
            }
            Ok(())
        }
    }
    // The second inode of group 200,000, whose descriptor is in block 1 + 200,000 / 64.
    let number = 200_000 * 16384 + 2;
    let extents = geometry.descriptor_extents([number].into_iter());
    assert_eq!(extents.len(), 1);
    assert_eq!(extents[0].offset_bytes, (1 + 200_000 / 64) * 4096);
    geometry
        .load_groups(&mut HighTables, [number].into_iter())
        .unwrap();
    let place = geometry.inode_location(number).unwrap().offset_bytes;
    assert_eq!(place, ((1 << 32) + 5) * 4096 + 256);

    let mut file = inode(EXTENTS, &node(0, &[[3, 0x0001_0002, 7]], 60));
    put_u32(&mut file, 0x68, 9); // file_acl_lo
    put_u16(&mut file, 0x76, 1); // file_acl_high
    put_u32(&mut file, 0x6c, 1); // size_high
    put_u32(&mut file, 0x4, 2);
    let file = parse_inode(&file, &geometry).unwrap();
    assert_eq!(file.size_bytes, (1 << 32) + 2);
    assert_eq!(file.xattr_block, Some((1 << 32) + 9));
    let expected = PhysicalRange {
        file_page: 3,
        pages: 2,
        offset_bytes: ((1 << 32) + 7) * 4096,
    };
    assert_eq!(file.physical_ranges(&geometry, &[WHOLE_FILE]), [expected]);
    let root = inode(EXTENTS, &node(1, &[[0, 8, 1]], 60));
    let Mapping::Blocks(map) = parse_inode(&root, &geometry).unwrap().mapping else {
        panic!("not mapped by blocks");
    };
    assert_eq!(map.nodes[0].block, (1 << 32) + 8);
}

#[test]
fn times_before_1970_and_after_2262() {
    let with_time = |seconds: u32, extra: u32| {
        let mut bytes = inode(EXTENTS, &node(0, &[], 60));
        put_u32(&mut bytes, 0x10, seconds);
        put_u16(&mut bytes, 0x80, 32);
        put_u32(&mut bytes, 0x88, extra);
        parse_inode(&bytes, &geometry()).unwrap().mtime_ns
    };
    assert_eq!(with_time(u32::MAX, 0), -1_000_000_000);
    assert_eq!(with_time(u32::MAX, 500 << 2), -999_999_500);
    assert_eq!(with_time(0, 1), (1 << 32) * 1_000_000_000);
    assert_eq!(with_time(0x7fff_ffff, 3), i64::MAX);
}

#[test]
fn free_inodes_and_special_files() {
    assert_eq!(
        parse_inode(&[0; 256], &geometry()),
        Err(Ext4Error::FreeInode)
    );
    let mut pipe = inode(0, &[0xff; 60]);
    put_u16(&mut pipe, 0, 0o010_644);
    let pipe = parse_inode(&pipe, &geometry()).unwrap();
    assert_eq!(
        (pipe.file_type, pipe.mapping),
        (FileType::Special, Mapping::None)
    );
    let error = parse_inode(&inode(0, &[0; 60])[..100], &geometry()).unwrap_err();
    assert_eq!(
        error,
        Ext4Error::Truncated {
            what: "inode",
            length_bytes: 100
        }
    );
}

#[test]
fn extent_roots_that_contradict_themselves() {
    let good = node(0, &[[0, 4, 100], [8, 4, 200]], 60);
    let found = parse_root(&good).unwrap();
    let expected = FileExtent {
        logical_block: 8,
        length_blocks: 4,
        physical_block: 200,
        unwritten: false,
    };
    assert_eq!(found.extents()[1], expected);

    let bad = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut root = good.clone();
        change(&mut root);
        parse_root(&root).unwrap_err().to_string()
    };
    let cases = [
        (bad(&|root| root[0] = 0), "magic"),
        (bad(&|root| put_u16(root, 6, 6)), "depth"),
        (bad(&|root| put_u16(root, 2, 5)), "number of entries"),
        (bad(&|root| put_u16(root, 4, 5)), "capacity"),
        (
            bad(&|root| put_u32(root, 24, 3)),
            "first block of an extent",
        ),
        (bad(&|root| put_u16(root, 16, 0)), "outside"),
        (bad(&|root| put_u32(root, 20, 0)), "outside"),
        (bad(&|root| put_u32(root, 20, 32765)), "outside"),
        (bad(&|root| put_u16(root, 18, 1)), "outside"),
        (
            bad(&|root| put_u32(root, 24, u32::MAX)),
            "first block of an extent",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "{error}, not {expected}");
    }
    // A long extent, and the shortest unwritten one.
    let extents = parse_root(&node(0, &[[0, 32768 - 1000, 1000], [40000, 32769, 9]], 60)).unwrap();
    assert!(!extents.extents()[0].unwritten);
    assert_eq!(
        (
            extents.extents()[1].unwritten,
            extents.extents()[1].length_blocks
        ),
        (true, 1)
    );
    let error = parse_root(&node(1, &[], 60)).unwrap_err().to_string();
    assert!(error.contains("number of entries"), "{error}");
}

#[test]
fn the_longest_extent_is_a_written_one() {
    let mut bytes = superblock();
    put_u32(&mut bytes, 0x4, 100_000);
    let geometry = Geometry::parse(&bytes).unwrap();
    let root = node(0, &[[0, 32768, 1000], [32768, 65535, 33768]], 60);
    let found = parse_inode(&inode(EXTENTS, &root), &geometry).unwrap();
    let shapes = found
        .extents()
        .iter()
        .map(|e| (e.length_blocks, e.unwritten));
    assert_eq!(shapes.collect::<Vec<_>>(), [(32768, false), (32767, true)]);
}

#[test]
fn index_entries_must_rise() {
    assert!(parse_root(&node(1, &[[0, 20, 0], [5, 21, 0]], 60)).is_ok());
    for second in [0, 4, 5] {
        let root = node(1, &[[0, 19, 0], [5, 20, 0], [second, 21, 0]], 60);
        let error = parse_root(&root).unwrap_err().to_string();
        assert!(error.contains("first block of an index entry"), "{error}");
    }
}

#[test]
fn a_short_link_in_extents_is_no_fast_one() {
    let link = |flags, size| {
        let mut link = inode(flags, &node(0, &[[0, 1, 100]], 60));
        put_u16(&mut link, 0, 0o120_777);
        put_u32(&mut link, 0x4, size);
        parse_inode(&link, &geometry()).map(|inode| inode.mapping)
    };
    assert!(matches!(link(EXTENTS, 20), Ok(Mapping::Blocks(_))));
    assert_eq!(link(0, 20), Ok(Mapping::FastSymlink));
    assert_eq!(link(0x1000_0000, 100), Ok(Mapping::Inline));
    // Taken for pointers, an extent header leads outside.
    assert!(matches!(link(0, 60), Err(Ext4Error::BlockOutside { .. })));
}

#[test]
fn extents_are_in_order_of_the_file_whatever_the_order_of_the_nodes() {
    let root = node(1, &[[0, 30, 0], [10, 20, 0]], 60);
    let first = node(0, &[[0, 5, 100]], BLOCK_BYTES);
    let second = node(0, &[[10, 5, 200]], BLOCK_BYTES);
    let image = image(&[inode(EXTENTS, &root)], &[(30, first), (20, second)]);
    let found = survey(&image, 1, Limits::default());
    let extents = found[0].as_ref().unwrap().extents();
    let logical: Vec<_> = extents.iter().map(|extent| extent.logical_block).collect();
    assert_eq!(logical, [0, 10]);
}

#[test]
fn nodes_that_are_not_what_their_parent_said() {
    let parent = NodeRef {
        block: 20,
        kind: NodeKind::Extents { depth: 0 },
        logical_start: 100,
        logical_end: 200,
    };
    let parse = |bytes: &[u8]| parse_node(bytes, &parent, &geometry());
    let inside = node(0, &[[100, 50, 300], [150, 50, 500]], BLOCK_BYTES);
    assert_eq!(parse(&inside).unwrap().extents.len(), 2);
    for outside in [[99, 1, 300], [199, 2, 300], [200, 1, 300]] {
        let error = parse(&node(0, &[outside], BLOCK_BYTES))
            .unwrap_err()
            .to_string();
        assert!(error.contains("first block of an extent"), "{error}");
    }
    let error = parse(&node(1, &[[100, 30, 0]], BLOCK_BYTES)).unwrap_err();
    assert_eq!(
        error,
        Ext4Error::BadBlockMap {
            what: "the depth of a node",
            value: 1
        }
    );
    assert!(matches!(
        parse(&inside[..4095]),
        Err(Ext4Error::Truncated { .. })
    ));
    assert_eq!(parse(&node(0, &[], BLOCK_BYTES)).unwrap().extents, []);
}

#[test]
fn a_node_that_points_at_itself_ends() {
    let root = node(2, &[[0, 20, 0]], 60);
    let loops = image(
        &[inode(EXTENTS, &root)],
        &[(20, node(1, &[[0, 20, 0]], BLOCK_BYTES))],
    );
    let found = survey(&loops, 1, Limits::default());
    let expected = Ext4Error::BadBlockMap {
        what: "the depth of a node",
        value: 1,
    };
    assert_eq!(found, [Err(expected)]);
}

#[test]
fn indirect_blocks_that_point_at_themselves_stop_at_the_limit() {
    let mut i_block = [0; 60];
    put_u32(&mut i_block, 56, 20); // triple indirect
    let block: Vec<u8> = 20_u32.to_le_bytes().repeat(BLOCK_BYTES / 4);
    let good = inode(EXTENTS, &node(0, &[[0, 4, 100]], 60));
    let loops = image(&[inode(0, &i_block), good.clone(), good], &[(20, block)]);
    let limits = Limits {
        nodes_max: 3000,
        ..Limits::default()
    };
    let found = survey(&loops, 3, limits);
    assert_eq!(found[0], Err(Ext4Error::TooFragmented { limit: 3000 }));
    assert_eq!(found[1].as_ref().unwrap().extents().len(), 1);
    assert_eq!(found[2].as_ref().unwrap().extents().len(), 1);
}

#[test]
fn a_file_over_the_limit_of_extents_spoils_no_other() {
    let many: Vec<[u32; 3]> = (0..300).map(|at| [at * 2, 1, 1000 + at * 2]).collect();
    let fragmented = inode(EXTENTS, &node(1, &[[0, 20, 0]], 60));
    let good = inode(EXTENTS, &node(0, &[[0, 1, 100], [2, 1, 200]], 60));
    let image = image(
        &[good.clone(), fragmented, good],
        &[(20, node(0, &many, BLOCK_BYTES))],
    );
    let found = survey(
        &image,
        3,
        Limits {
            extents_max: 303,
            ..Limits::default()
        },
    );
    assert_eq!(found[1], Err(Ext4Error::TooFragmented { limit: 303 }));
    assert_eq!(
        [0, 2].map(|file| found[file].as_ref().unwrap().extents().len()),
        [2, 2]
    );
    let found = survey(
        &image,
        3,
        Limits {
            extents_max: 304,
            ..Limits::default()
        },
    );
    assert_eq!(found[1].as_ref().unwrap().extents().len(), 300);
}

#[test]
fn what_cannot_be_read_fails_alone() {
    // The node is behind the end of the image, the third inode behind that of the file system.
    let far = inode(EXTENTS, &node(1, &[[0, 30000, 0]], 60));
    let good = inode(EXTENTS, &node(0, &[[0, 1, 100]], 60));
    let image = image(&[far, good], &[]);
    let mut source = image.as_slice();
    let mut geometry = Geometry::read(&mut source).unwrap();
    let unloaded = geometry.inode_location(1);
    assert_eq!(unloaded, Err(Ext4Error::GroupNotLoaded { group: 0 }));
    geometry
        .load_groups(&mut source, [1, 2, 5000].into_iter())
        .unwrap();
    let wanted = [1, 2, 5000, 3].map(|inode| Wanted {
        inode,
        pages: vec![WHOLE_FILE],
    });
    let mut survey = Survey::new(&geometry, wanted, Limits::default());
    survey.run(&mut source);
    let found: Vec<_> = survey
        .finish()
        .into_iter()
        .map(|found| found.inode)
        .collect();
    assert!(
        matches!(found[0], Err(Ext4Error::Read(_))),
        "{:?}",
        found[0]
    );
    assert!(found[1].is_ok());
    assert_eq!(
        found[2],
        Err(Ext4Error::NoSuchInode {
            inode: 5000,
            inodes: 1024
        })
    );
    assert_eq!(found[3], Err(Ext4Error::FreeInode));
}
