// SPDX-License-Identifier: MIT OR Apache-2.0
//! 23 files of 23 pages, read in each way that there is.

use std::os::unix::fs::FileExt;

use foreread_accounting::Kind;
use foreread_linux_stat::Accounting;
use foreread_testbed::FileSystem;
use rustix::fs::{Advice, fadvise};

use crate::bed::{
    Mapped, PAGE_BYTES, PAGES, Watched, cached_pages, five, is_cached, of_file, on_bed, settled,
    start_by_file, sum,
};

/// The expected counts of a file: its pages, and the pages that each kind fetched.
struct Expected {
    five: [u64; 5],
    kinds: Vec<(Kind, u64)>,
}

/// Does something with each of 23 files on each file system, and compares every counter with the
/// expected one.
fn check(way: impl Fn(&Watched, &mut Accounting) -> Expected) {
    for file_system in FileSystem::ALL {
        on_bed(file_system, |bed| {
            let files = bed.files();
            let Some(mut accounting) = start_by_file() else {
                return;
            };
            let mut fetched_expected = 0;
            for file in &files {
                let expected = way(file, &mut accounting);
                fetched_expected += expected.five[0];
                let snapshot = settled(&mut accounting, file.inode);
                let of = of_file(&snapshot, file.inode);
                let all = sum(&of);
                let name = file_system.name();
                assert_eq!(
                    five(&all),
                    expected.five,
                    "{name}, {}: {of:?}",
                    file.path.display()
                );
                let fetched = of
                    .iter()
                    .filter(|(_, counts)| counts.counters().fetched > 0);
                let fetched: Vec<_> = fetched
                    .map(|(kind, counts)| (*kind, counts.counters().fetched))
                    .collect();
                assert_eq!(fetched, expected.kinds, "{name}");
                assert_eq!(
                    all.request_bytes,
                    all.fetched * PAGE_BYTES,
                    "{name}: {of:?}"
                );
            }
            let snapshot = accounting.snapshot().expect("a snapshot");
            assert_eq!(snapshot.losses.unfollowed_pages, 0);
            let fetched: u64 = files
                .iter()
                .map(|file| sum(&of_file(&snapshot, file.inode)).fetched)
                .sum();
            assert_eq!(fetched, fetched_expected);
        });
    }
}

fn read_pages(file: &Watched, first: u64, pages: u64) {
    let mut bytes = vec![0; (pages * PAGE_BYTES) as usize];
    let got = file
        .file
        .read_at(&mut bytes, first * PAGE_BYTES)
        .expect("a read");
    assert_eq!(got, bytes.len());
}

/// Reads `pages` pages one by one, each when nothing is in flight. Returns the pages that were not
/// cached before they were read: only these are late. On Linux 6.1 that is page 0 and, in large
/// folios, the page behind the first window, whose marker that kernel loses.
fn read_one_by_one(file: &Watched, pages: u64, accounting: &mut Accounting) -> Vec<u64> {
    let mut missing = Vec::new();
    for page in 0..pages {
        if !is_cached(&file.file, page) {
            missing.push(page);
        }
        read_pages(file, page, 1);
        settled(accounting, file.inode);
    }
    missing
}

fn will_need(file: &Watched) {
    fadvise(&file.file, 0, None, Advice::WillNeed).expect("advice");
}

#[test]
fn read_page_by_page_the_missing_are_late_and_the_others_on_time() {
    check(|file: &Watched, accounting: &mut Accounting| {
        match read_one_by_one(file, PAGES, accounting)[..] {
            [0] => Expected {
                five: [23, 22, 1, 0, 0],
                kinds: vec![(Kind::Initial, 4), (Kind::Subsequent, 19)],
            },
            [0, 4] => Expected {
                five: [23, 21, 2, 0, 0],
                kinds: vec![(Kind::Initial, 23)],
            },
            ref missing => panic!("{missing:?} were missing"),
        }
    });
}

#[test]
fn read_at_once_all_is_used() {
    // The number of pages that the reader waits for depends on the device.
    for file_system in FileSystem::ALL {
        on_bed(file_system, |bed| {
            let files = bed.files();
            let Some(mut accounting) = start_by_file() else {
                return;
            };
            for file in &files {
                read_pages(file, 0, PAGES);
                let snapshot = settled(&mut accounting, file.inode);
                let all = sum(&of_file(&snapshot, file.inode));
                assert_eq!((all.fetched, all.used_on_time + all.used_late), (23, 23));
                assert!(all.used_late > 0);
            }
        });
    }
}

#[test]
fn prefetched_and_never_read_it_is_unused() {
    check(|file: &Watched, _: &mut Accounting| {
        will_need(file);
        Expected {
            five: [23, 0, 0, 0, 23],
            kinds: vec![(Kind::Forced, 23)],
        }
    });
}

#[test]
fn prefetched_and_dropped_it_is_wasted() {
    check(|file: &Watched, accounting: &mut Accounting| {
        will_need(file);
        settled(accounting, file.inode);
        file.forget();
        Expected {
            five: [23, 0, 0, 23, 0],
            kinds: vec![(Kind::Forced, 23)],
        }
    });
}

#[test]
fn prefetched_and_read_in_part_the_rest_is_wasted() {
    check(|file: &Watched, accounting: &mut Accounting| {
        will_need(file);
        settled(accounting, file.inode);
        read_pages(file, 3, 7);
        // Again is not once more.
        read_pages(file, 3, 7);
        file.forget();
        Expected {
            five: [23, 7, 0, 16, 0],
            kinds: vec![(Kind::Forced, 23)],
        }
    });
}

#[test]
fn read_at_random_each_page_is_late() {
    check(|file: &Watched, accounting: &mut Accounting| {
        fadvise(&file.file, 0, None, Advice::Random).expect("advice");
        for page in 0..PAGES {
            read_pages(file, page * 7 % PAGES, 1);
            settled(accounting, file.inode);
        }
        Expected {
            five: [23, 0, 23, 0, 0],
            kinds: vec![(Kind::Random, 23)],
        }
    });
}

#[test]
fn fetched_again_it_counts_again() {
    check(|file: &Watched, accounting: &mut Accounting| {
        for _ in 0..3 {
            will_need(file);
            settled(accounting, file.inode);
            file.forget();
        }
        Expected {
            five: [69, 0, 0, 69, 0],
            kinds: vec![(Kind::Forced, 69)],
        }
    });
}

#[test]
fn mapped_and_touched_the_first_is_late_and_the_others_on_time() {
    check(|file: &Watched, accounting: &mut Accounting| {
        let mapped = Mapped::new(&file.file, PAGES, Advice::Normal);
        for page in 0..PAGES {
            mapped.touch(page);
            settled(accounting, file.inode);
        }
        Expected {
            five: [23, 22, 1, 0, 0],
            kinds: vec![(Kind::Around, 23)],
        }
    });
}

#[test]
fn mapped_at_random_each_page_is_missed_by_itself() {
    check(|file: &Watched, accounting: &mut Accounting| {
        let mapped = Mapped::new(&file.file, PAGES, Advice::Random);
        for page in 0..PAGES {
            mapped.touch(page * 7 % PAGES);
            settled(accounting, file.inode);
        }
        Expected {
            five: [23, 0, 23, 0, 0],
            kinds: vec![(Kind::Demand, 23)],
        }
    });
}

#[test]
fn cut_off_before_it_is_read_it_is_wasted() {
    check(|file: &Watched, accounting: &mut Accounting| {
        will_need(file);
        settled(accounting, file.inode);
        read_pages(file, 0, 5);
        let writable = std::fs::OpenOptions::new().write(true).open(&file.path);
        writable
            .and_then(|file| file.set_len(11 * PAGE_BYTES))
            .expect("a cut");
        Expected {
            five: [23, 5, 0, 12, 6],
            kinds: vec![(Kind::Forced, 23)],
        }
    });
}

#[test]
fn what_is_written_is_not_fetched() {
    check(|file: &Watched, _: &mut Accounting| {
        let writable = std::fs::OpenOptions::new().write(true).open(&file.path);
        let bytes = vec![7; (PAGES * PAGE_BYTES) as usize];
        writable
            .and_then(|file| file.write_all_at(&bytes, 0))
            .expect("a write");
        read_pages(file, 0, PAGES);
        Expected {
            five: [0; 5],
            kinds: vec![],
        }
    });
}

/// 230 pages, so that windows are in large folios where the file system has them.
#[test]
fn in_large_folios_each_page_counts() {
    for file_system in FileSystem::ALL {
        on_bed(file_system, |bed| {
            let file = bed.file(0, 230);
            let Some(mut accounting) = start_by_file() else {
                return;
            };
            let late = read_one_by_one(&file, 97, &mut accounting).len() as u64;
            assert!(late <= 2, "{late}");
            let snapshot = settled(&mut accounting, file.inode);
            let all = sum(&of_file(&snapshot, file.inode));
            // The kernel decides how far windows reach, but all of their pages must be cached.
            let cached = cached_pages(&file.file, 230);
            assert!(cached > 97, "{cached}");
            assert_eq!(
                five(&all),
                [cached, 97 - late, late, 0, cached - 97],
                "{}",
                file_system.name()
            );
            file.forget();
            let snapshot = accounting.snapshot().expect("a snapshot");
            let all = sum(&of_file(&snapshot, file.inode));
            assert_eq!(
                five(&all),
                [cached, 97 - late, late, cached - 97, 0],
                "{}",
                file_system.name()
            );
        });
    }
}
