// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages touched through mappings. A fault maps more than the page it is for: up to 16 pages around
//! it that are cached, all of a large folio, or 2 MiB by one entry of the page table. Which of
//! these the program touches can't be seen, so all that is mapped counts. What is mapped, the probe
//! reads from its own page table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use foreread_profile::Uses;
use foreread_testbed::FileSystem;

use crate::setting::{Disk, Place, Recorded, evict, make, or_skip, record, warm};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Touches pages, and says what was mapped then and how.
fn touch(probe: &Command, file: &Path, how: &str, list: &str) -> (Recorded, Mapped) {
    let out = PathBuf::from(format!("{}.mapped", file.display()));
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$0\" map \"$1\" \"$2\" \"$3\" tell-mapped tell-huge \"$1\" > \"$4\"",
    ]);
    command
        .arg(probe.get_program())
        .args([text(file), how, list, text(&out)]);
    let recorded = record(&mut command);
    (recorded, Mapped::parse(&fs::read_to_string(out).unwrap()))
}

#[derive(Debug)]
struct Mapped {
    pages: Vec<(u64, u64)>,
    by_pmd_kib: u64,
}

impl Mapped {
    fn parse(told: &str) -> Self {
        let (pages, pmd) = told.split_once("pmd_mapped_kib=").unwrap();
        let range = |line: &str| {
            let (start, end) = line.split_once('-').unwrap();
            (start.parse().unwrap(), end.parse().unwrap())
        };
        Self {
            pages: pages.lines().map(range).collect(),
            by_pmd_kib: pmd.trim().parse().unwrap(),
        }
    }
}

fn each(ranges: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    ranges.iter().flat_map(|(start, end)| *start..*end)
}

fn is_in(page: u64, ranges: &[(u64, u64)]) -> bool {
    ranges
        .iter()
        .any(|(start, end)| (*start..*end).contains(&page))
}

/// `fault_around_bytes` of a kernel that nobody tuned, in pages.
const FAULT_AROUND_PAGES: u64 = 16;

/// All that is mapped is recorded. What is recorded and isn't mapped is around a page that is: it
/// wasn't cached when its neighbour was touched.
fn assert_recorded(recorded: &[(u64, u64)], mapped: &[(u64, u64)], what: &str) {
    for page in each(mapped) {
        assert!(
            is_in(page, recorded),
            "{what}: page {page} is missing in {recorded:?}"
        );
    }
    for page in each(recorded).filter(|page| !is_in(*page, mapped)) {
        let window = page / FAULT_AROUND_PAGES * FAULT_AROUND_PAGES;
        let near = (window..window + FAULT_AROUND_PAGES).any(|page| is_in(page, mapped));
        assert!(
            near,
            "{what}: page {page} is too much in {recorded:?}, mapped {mapped:?}"
        );
    }
}

const LIST: &str = "5000,0,7,100,101,600,9999,16383";
const STATES: [&str; 4] = ["as written", "cold", "warm", "warm by one large read"];

fn put_in_state(file: &Path, state: &str) {
    match state {
        "cold" => evict(file),
        "warm" => {
            evict(file);
            warm(file);
        }
        "warm by one large read" => {
            evict(file);
            drop(fs::read(file).unwrap());
        }
        _ => {}
    }
}

#[test]
fn touched_pages_are_seen_in_folios_of_all_sizes() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 64 << 20);
    for how in ["private", "shared", "random", "huge"] {
        for state in STATES {
            put_in_state(&file, state);
            let what = format!("{how}, {state}");
            let (recorded, mapped) = touch(&place.probe(&[""; 0]), &file, how, LIST);
            assert_recorded(&recorded.pages(&file), &mapped.pages, &what);
            assert!(recorded.uses(&file).contains(Uses::MAPPED), "{what}");
        }
    }
}

#[test]
fn a_cold_file_that_is_touched_here_and_there_stays_small() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 64 << 20);
    evict(&file);
    let (recorded, _) = touch(&place.probe(&[""; 0]), &file, "random", LIST);
    let pages = each(&recorded.pages(&file)).count() as u64;
    assert!(pages <= 8 * FAULT_AROUND_PAGES, "{pages}");
}

#[test]
fn a_mapping_read_from_end_to_end_is_seen_whole() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 32 << 20);
    let list: Vec<String> = (0..8192).map(|page: u64| page.to_string()).collect();
    for how in ["private", "shared", "huge"] {
        for state in STATES {
            put_in_state(&file, state);
            let recorded = record(&mut place.probe(&["map", text(&file), how, &list.join(",")]));
            assert_eq!(recorded.pages(&file), [(0, 8192)], "{how}, {state}");
        }
    }
}

#[test]
fn a_populated_mapping_is_seen_whole() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 16 << 20);
    for state in STATES {
        put_in_state(&file, state);
        let recorded = record(&mut place.probe(&["map", text(&file), "populate", ""]));
        assert_eq!(recorded.pages(&file), [(0, 4096)], "{state}");
    }
}

/// A PMD maps 2 MiB at once, and no event of the page cache tells it.
#[test]
fn what_a_pmd_maps_is_seen() {
    for file_system in [FileSystem::Xfs, FileSystem::Ext4] {
        let disk = or_skip!(Disk::new(file_system, &[]));
        let file = make(&disk.join("large"), 16 << 20);
        let mut by_pmd = false;
        for state in STATES {
            put_in_state(&file, state);
            let what = format!("{}, {state}", file_system.name());
            let (recorded, mapped) = touch(&disk.probe(&[""; 0]), &file, "huge", "10,700");
            assert_recorded(&recorded.pages(&file), &mapped.pages, &what);
            if mapped.by_pmd_kib >= 4096 {
                by_pmd = true;
                assert_eq!(recorded.pages(&file), [(0, 1024)], "{what}");
            }
        }
        if !by_pmd {
            println!(
                "not shown: this kernel maps nothing of {} by PMD",
                file_system.name()
            );
        }
    }
}

/// One page of a cached file is touched by the kernel, for write(), and not by the program.
#[test]
fn faults_of_the_kernel_for_the_program_are_seen() {
    let place = or_skip!(Place::new());
    let file = make(&place.join("large"), 16 << 20);
    for state in STATES {
        put_in_state(&file, state);
        let recorded = record(&mut place.probe(&["map-write", text(&file), "2000"]));
        let pages = recorded.pages(&file);
        assert!(is_in(2000, &pages), "{state}: {pages:?}");
    }
}
