// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metadata that lies: the layout read from the device is wrong, while the mounted file system,
//! which has its inodes in memory, is right. The replay must still bring in what is named, by
//! looking.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use foreread_linux_prefetcher::{Options, Report};
use foreread_prefetch::ext4::Geometry;
use foreread_profile::Profile;
use foreread_sys::block_device::BlockDevice;
use foreread_testbed::FileSystem;

use super::bed::{Bed, bed, replay};
use super::tree;

struct Damaged {
    bed: Bed,
    needs: tree::Needs,
    profile: Profile,
    /// Places of the files' inodes on the device.
    inodes: Vec<u64>,
    /// Kept open, so that their inodes stay in memory.
    _open: Vec<File>,
}

fn made() -> Option<Damaged> {
    // Without checksums: with them, most lies would be found out too soon.
    let bed = bed(FileSystem::Ext4, &["-O", "^metadata_csum,^64bit"])?;
    let top = bed.root.join("tree");
    tree::make(&top, 150);
    bed.remount("ro");
    let mut needs = tree::everything(&top);
    needs.retain(|(path, _)| !path.ends_with("special/hole"));
    let profile = tree::profile(&bed.root, &top, &needs);
    let numbers = needs
        .iter()
        .map(|(path, _)| fs::metadata(path).unwrap().ino());
    let numbers: Vec<u64> = numbers.collect();
    let inodes = places(&bed, &numbers);
    let open = needs.iter().map(|(path, _)| File::open(path).unwrap());
    let open: Vec<File> = open.collect();
    // Reading maps the blocks: what is known of a map then stays in memory too.
    tree::use_tree(&top, &needs);
    Some(Damaged {
        _open: open,
        bed,
        needs,
        profile,
        inodes,
    })
}

fn device_of(bed: &Bed) -> BlockDevice {
    let number = fs::metadata(bed.testbed.device()).unwrap().rdev();
    BlockDevice::open(rustix::fs::major(number), rustix::fs::minor(number)).unwrap()
}

fn places(bed: &Bed, numbers: &[u64]) -> Vec<u64> {
    let device = device_of(bed);
    let mut geometry = Geometry::read(&mut &device).unwrap();
    geometry
        .load_groups(&mut &device, numbers.iter().copied())
        .unwrap();
    let place = |number: &u64| geometry.inode_location(*number).unwrap().offset_bytes;
    numbers.iter().map(place).collect()
}

impl Damaged {
    /// Forgets the pages of the files, and not their inodes.
    fn forget_pages(&self) {
        for file in &self._open {
            rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }

    /// Changes the device under the mounted file system: as if what is read there were wrong.
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Vec<u8> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.bed.testbed.device());
        let device = device.unwrap();
        let mut before = vec![0; bytes.len()];
        device.read_exact_at(&mut before, offset_bytes).unwrap();
        device.write_all_at(bytes, offset_bytes).unwrap();
        before
    }

    fn replay(&self) -> Report {
        replay(&self.profile, &Options::default())
    }

    fn assert_all_there(&self) {
        tree::assert_exactly(&self.bed.root.join("tree"), &self.needs);
    }
}

#[test]
fn without_a_superblock_it_looks() {
    let Some(damaged) = made() else { return };
    damaged.bed.undisturbed(|| {
        damaged.forget_pages();
        // The kernel asks for its magic number once, when it mounts.
        let magic = 1024 + 0x38;
        let before = damaged.write(magic, &[0; 2]);
        let report = damaged.replay();
        damaged.write(magic, &before);
        assert_eq!(
            (report.raw_file_systems, report.looked_file_systems),
            (0, 1),
            "{report:?}"
        );
        assert_eq!(report.arrived_pages, report.planned_pages, "{report:?}");
        assert_eq!(report.gone_files + report.replaced_files, 0, "{report:?}");
        damaged.assert_all_there();
    });
}

#[test]
fn inodes_that_seem_free_are_looked_at() {
    let Some(damaged) = made() else { return };
    damaged.bed.undisturbed(|| {
        damaged.forget_pages();
        let every_third = damaged.inodes.iter().step_by(3);
        let before: Vec<_> = every_third
            .map(|place| (*place, damaged.write(*place, &[0; 128])))
            .collect();
        let report = damaged.replay();
        for (place, bytes) in &before {
            damaged.write(*place, bytes);
        }
        assert_eq!(
            (report.raw_file_systems, report.looked_file_systems),
            (1, 0),
            "{report:?}"
        );
        assert_eq!(report.looked_at, before.len() as u64, "{report:?}");
        assert_eq!(report.arrived_pages, report.planned_pages, "{report:?}");
        assert_eq!(report.gone_files + report.replaced_files, 0, "{report:?}");
        damaged.assert_all_there();
    });
}

#[test]
fn block_maps_that_lead_astray_change_the_order_at_most() {
    /// Where an inode's extents begin: behind their header.
    const EXTENTS: u64 = 0x28 + 12;
    let Some(damaged) = made() else { return };
    damaged.bed.undisturbed(|| {
        damaged.forget_pages();
        // Far outside the device; at its start; one over the other.
        let block = |at: usize| [u32::MAX, 0, 77][at % 3];
        let physical = EXTENTS + 8;
        let before: Vec<_> = damaged
            .inodes
            .iter()
            .enumerate()
            .map(|(at, place)| {
                let place = place + physical;
                (place, damaged.write(place, &block(at).to_le_bytes()))
            })
            .collect();
        let report = damaged.replay();
        for (place, bytes) in &before {
            damaged.write(*place, bytes);
        }
        assert_eq!(report.raw_file_systems, 1, "{report:?}");
        assert_eq!(report.arrived_pages, report.planned_pages, "{report:?}");
        damaged.assert_all_there();
    });
}

#[test]
fn flipped_bits_bring_in_nothing_that_is_not_named() {
    let Some(damaged) = made() else { return };
    let top = damaged.bed.root.join("tree");
    let expected = tree::named(&damaged.needs);
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for _ in 0..30 {
        let flips: Vec<(u64, u8)> = damaged
            .inodes
            .iter()
            .map(|place| (place + next() % 128, 1 << (next() % 8)))
            .collect();
        damaged.bed.undisturbed(|| {
            damaged.forget_pages();
            for (place, bit) in &flips {
                let byte = damaged.write(*place, &[0])[0];
                damaged.write(*place, &[byte ^ bit]);
            }
            let report = damaged.replay();
            for (place, bit) in flips.iter().rev() {
                let byte = damaged.write(*place, &[0])[0];
                damaged.write(*place, &[byte ^ bit]);
            }
            // A map that has become shorter hides pages; it never adds any.
            let found = tree::all_resident(&top);
            let besides: Vec<&PathBuf> = found
                .iter()
                .filter(|(path, pages)| {
                    let named = expected.get(*path).map_or(&[][..], Vec::as_slice);
                    pages.iter().any(|page| !named.contains(page))
                })
                .map(|(path, _)| path)
                .collect();
            assert!(besides.is_empty(), "{besides:?}");
            assert_eq!(report.arrived_pages, report.asked_pages, "{report:?}");
            let files = damaged.needs.len() as u64;
            assert!(report.files > files * 3 / 4, "{files}: {report:?}");
        });
    }
}
