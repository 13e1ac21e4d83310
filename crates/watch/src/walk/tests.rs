// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks from their first list to their end.

use super::ahead::LISTS_MAX;
use super::met::{FILES_PER_REVIEW, GONE_MIN, STRAYS_MAX};
use super::place::STEPS_BEHIND;
use super::steps::Step;
use super::*;
use crate::order::Entry;
use crate::paths::joined;
use proptest::prelude::*;

const LARGE_BYTES: u64 = 1 << 40;

/// Directories of directories, `files` in each.
fn tree(top: &str, levels: u32, directories: u64, files: u64) -> HashMap<Vec<u8>, Vec<Entry>> {
    let mut lists = HashMap::new();
    let mut inode = 1;
    let mut level = vec![top.as_bytes().to_vec()];
    for depth in 0..=levels {
        let mut next = Vec::new();
        for path in level {
            let mut entries = Vec::new();
            for n in 0..files + if depth < levels { directories } else { 0 } {
                inode += 1;
                let is_directory = n >= files;
                let name = format!("{n:02}").into_bytes();
                if is_directory {
                    next.push(joined(&path, &name));
                }
                entries.push(Entry {
                    name,
                    inode,
                    is_directory,
                });
            }
            lists.insert(path, entries);
        }
        level = next;
    }
    lists
}

/// All files in the order in which a program goes that sorts by name.
fn files_of(lists: &HashMap<Vec<u8>, Vec<Entry>>, top: &str) -> Vec<FileToFetch> {
    let mut walk = Walk::new(top.as_bytes(), Order::Name, LARGE_BYTES);
    walk.listed(&[], lists);
    let files = walk.steps.from(0).map(|step| match step {
        Step::File(file) => file.clone(),
        Step::Unlisted(path) => panic!("{path:?} is not listed"),
    });
    files.collect()
}

/// Carries out the decisions of a walk until it waits. Lists no deeper than one level a time.
fn serve(
    walk: &mut Walk,
    lists: &HashMap<Vec<u8>, Vec<Entry>>,
    fetched: &mut Vec<FileToFetch>,
) -> Option<Why> {
    loop {
        match walk.decide() {
            Decision::Wait => return None,
            Decision::End(why) => return Some(why),
            Decision::List(asked) => {
                assert!(!asked.is_empty() && asked.len() <= LISTS_MAX);
                let of = |path: &Vec<u8>| Some((path.clone(), lists.get(path)?.clone()));
                walk.listed(&asked, &asked.iter().filter_map(of).collect());
            }
            Decision::Fetch(files, _) => {
                assert!(!files.is_empty());
                walk.fetching(&files);
                walk.fetched(files.len() as u64, 4 * files.len() as u64);
                fetched.extend(files);
            }
        }
    }
}

#[test]
fn a_program_that_walks_finds_all_but_its_first_files() {
    let lists = tree("/t", 3, 5, 10);
    let files = files_of(&lists, "/t");
    assert_eq!(files.len(), 1560);
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    for (at, file) in files.iter().enumerate() {
        if at > 20 {
            assert_eq!(serve(&mut walk, &lists, &mut fetched), None);
        }
        if fetched.contains(file) {
            assert_eq!(walk.hit(file.inode), Met::Known);
        } else {
            walk.missed(&file.directory, file.inode);
            assert!(at <= 20, "{at}");
        }
    }
    let tally = walk.tally();
    assert_eq!((tally.missed_files, tally.wasted_files()), (21, 0));
    assert_eq!(tally.used_files, 1560 - 21);
    // Files that the program passed before the walk are not fetched.
    assert!(!fetched.contains(&files[5]));
}

#[test]
fn what_has_gone_from_memory_is_fetched_again() {
    let lists = tree("/t", 2, 4, 10);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let pass = |walk: &mut Walk| {
        let mut fetched = Vec::new();
        let before = walk.tally();
        for file in &files {
            match fetched.contains(file) {
                true => walk.hit(file.inode),
                false => walk.missed(&file.directory, file.inode),
            };
            assert_eq!(serve(walk, &lists, &mut fetched), None);
        }
        walk.tally().missed_files - before.missed_files
    };
    assert_eq!(pass(&mut walk), 1);
    // The files are dropped, and the program goes through them again, and again.
    for _ in 0..4 {
        assert!((8..16).contains(&pass(&mut walk)));
    }
}

#[test]
fn a_large_file_that_is_missed_again_says_nothing_of_others() {
    let lists = tree("/t", 0, 0, 60);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    for file in &files {
        walk.missed(&file.directory, file.inode);
        // These misses lie beyond the part of the file that is fetched.
        walk.missed(&file.directory, file.inode);
    }
    serve(&mut walk, &lists, &mut fetched);
    assert_eq!(fetched, []);
}

#[test]
fn of_what_is_only_looked_at_inodes_are_fetched_until_it_is_read() {
    let lists = tree("/t", 1, 8, 90);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::of_looks(b"/t", Order::Name, LARGE_BYTES);
    assert!(!walk.reads());
    // Before anything is listed.
    walk.looked(files[0].inode, true);
    let mut fetched = Vec::new();
    serve(&mut walk, &lists, &mut fetched);
    assert_eq!(fetched.len(), files.len() - 1);
    for file in &files[1..100] {
        walk.looked(file.inode, false);
    }
    assert_eq!(walk.tally().used_files, 99);
    for file in &files[100..102] {
        walk.missed(&file.directory, file.inode);
        assert!(!walk.reads());
    }
    walk.missed(&files[102].directory, files[102].inode);
    assert!(walk.reads());
    fetched.clear();
    serve(&mut walk, &lists, &mut fetched);
    assert_eq!(fetched.first(), Some(&files[103]));
    assert!(fetched.len() as u64 <= walk.window_files());
    assert_eq!(walk.tally().used_files, 99);
}

#[test]
fn of_threads_in_several_parts_all_find_their_files() {
    let lists = tree("/t", 0, 0, 8000);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    serve(&mut walk, &lists, &mut fetched);
    let mut missed = 0;
    for step in 0..2000 {
        for part in 0..4 {
            let file = &files[part * 2000 + step];
            if fetched.contains(file) {
                walk.hit(file.inode);
            } else {
                walk.missed(&file.directory, file.inode);
                missed += 1;
            }
            serve(&mut walk, &lists, &mut fetched);
        }
    }
    assert!(missed <= 12, "{missed}");
    assert_eq!(walk.tally().wasted_files(), 0);
}

#[test]
fn a_jump_tells_where_from_and_where_to() {
    let lists = tree("/t", 1, 8, 90);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    walk.listed(&[], &lists);
    let (one, far) = (&files[100], &files[600]);
    walk.hit(one.inode);
    assert_eq!(walk.jumped(), None);
    walk.hit(far.inode);
    let name = |file: &FileToFetch| file.directory[b"/t/".len()..].to_vec();
    assert_eq!(
        walk.jumped(),
        Some((b"/t".to_vec(), [name(one), name(far)]))
    );
    assert_eq!(walk.jumped(), None);
}

#[test]
fn what_a_fetch_did_not_come_to_is_fetched_again() {
    let lists = tree("/t", 0, 0, 100);
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    walk.listed(&[], &lists);
    let Decision::Fetch(files, _) = walk.decide() else {
        panic!("{:?}", walk.decide());
    };
    walk.fetching(&files);
    assert_eq!(walk.decide(), Decision::Wait);
    walk.stopped_fetching(&files, 7);
    assert_eq!(walk.tally().fetched_files, 0);
    assert!(matches!(walk.decide(), Decision::Fetch(again, _) if again == files));
}

#[test]
fn a_program_that_leaves_is_left() {
    let lists = tree("/t", 1, 2, 10);
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    serve(&mut walk, &lists, &mut fetched);
    for inode in 1000..1000 + u64::from(STRAYS_MAX) {
        assert_eq!(walk.missed(b"/elsewhere", inode), Met::Outside);
        assert_eq!(walk.decide(), Decision::Wait);
    }
    walk.missed(b"/elsewhere", 2000);
    assert_eq!(walk.decide(), Decision::End(Why::Left));
    assert_eq!(walk.tally().wasted_files(), 30);
}

#[test]
fn a_program_that_reads_something_else_of_the_tree_ends_it() {
    let lists = tree("/t", 1, 8, 90);
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    serve(&mut walk, &lists, &mut fetched);
    // New files, which no list has.
    for inode in 10_000..10_000 + FILES_PER_REVIEW {
        walk.missed(b"/t/90", inode);
    }
    assert_eq!(walk.decide(), Decision::End(Why::Unused));
}

#[test]
fn of_what_is_passed_unread_less_is_fetched() {
    let lists = tree("/t", 0, 0, 4000);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    for file in files.iter().step_by(10) {
        serve(&mut walk, &lists, &mut fetched);
        walk.hit(file.inode);
    }
    assert_eq!(walk.window_files(), 64);
}

#[test]
fn what_is_ahead_is_in_proportion_to_what_was_used() {
    let lists = tree("/t", 0, 0, 4000);
    let files = files_of(&lists, "/t");
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    for (used, file) in files[..1000].iter().enumerate() {
        serve(&mut walk, &lists, &mut fetched);
        let ahead = (fetched.len() - used) as u64;
        assert!(ahead <= (used as u64 * 4).max(64), "{used}: {ahead}");
        walk.hit(file.inode);
    }
    assert!(walk.tally().wasted_files() >= 256);
}

#[test]
fn what_there_was_no_room_for_is_asked_for_again_and_what_fails_is_not() {
    let lists = tree("/t", 1, 3, 2);
    let mut walk = Walk::new(b"/t", Order::Name, LARGE_BYTES);
    let only = |path: &str| {
        let path = path.as_bytes().to_vec();
        HashMap::from([(path.clone(), lists[&path].clone())])
    };
    walk.listed(&[b"/t".to_vec()], &only("/t"));
    walk.missed(b"/t", 3);
    let below = ["/t/02", "/t/03", "/t/04"].map(|path| path.as_bytes().to_vec());
    assert_eq!(walk.decide(), Decision::List(below.to_vec()));
    // The first can't be listed, the second could, for the third there was no room.
    walk.listed(&below[..2], &only("/t/03"));
    let Decision::Fetch(files, _) = walk.decide() else {
        panic!("{:?}", walk.decide());
    };
    assert_eq!(files.len(), 2);
    walk.fetching(&files);
    assert_eq!(walk.decide(), Decision::List(below[2..].to_vec()));
}

#[test]
fn it_rises_to_what_holds_both_and_not_too_far() {
    let walk = Walk::new(b"/a/b/c", Order::Name, LARGE_BYTES);
    let names = ["b", "x"].map(|name| name.as_bytes().to_vec());
    assert_eq!(walk.rise(b"/a/x/y/z/z/z"), Some((b"/a".to_vec(), names)));
    // The top's own parent, where no child is left; and one below the top.
    assert_eq!(walk.rise(b"/a/b"), None);
    assert_eq!(walk.rise(b"/a/b/c/d"), None);
    let deep = Walk::new(b"/a/b/c/d/e", Order::Name, LARGE_BYTES);
    assert_eq!(deep.rise(b"/a/x"), None);
}

#[test]
fn what_was_fetched_below_the_old_top_is_not_fetched_again() {
    let lists = tree("/t", 2, 3, 4);
    let mut walk = Walk::new(b"/t/04", Order::Name, LARGE_BYTES);
    let mut fetched = Vec::new();
    serve(&mut walk, &lists, &mut fetched);
    assert_eq!(fetched.len(), 4 * 4);
    walk.raise(b"/t", Order::Name);
    serve(&mut walk, &lists, &mut fetched);
    let distinct: HashSet<u64> = fetched.iter().map(|file| file.inode).collect();
    assert_eq!((distinct.len(), fetched.len()), (13 * 4, 13 * 4));
}

proptest! {
    #[test]
    fn whatever_a_program_does_the_bounds_hold(
        budget_pages in 0u64..20_000,
        reads in prop::collection::vec((0usize..2000, any::<bool>(), 0u8..20), 0..600)
    ) {
        let lists = tree("/t", 2, 6, 30);
        let files = files_of(&lists, "/t");
        let budget_bytes = budget_pages * foreread_profile::PAGE_BYTES;
        let mut walk = Walk::new(b"/t", Order::Name, budget_bytes);
        let mut fetched = Vec::new();
        let mut next = 0;
        let mut missed_again = 0;
        for (jump, is_hit, luck) in reads {
            let held = walk.tally().wasted_files();
            let before = fetched.len();
            let is_over = serve(&mut walk, &lists, &mut fetched).is_some();
            prop_assert!(!is_over || fetched.len() == before);
            // Not more at once than the window has room for.
            let brought = (fetched.len() - before) as u64;
            prop_assert!(brought <= walk.window_files().max(512), "{brought} {held}");
            next = if luck == 0 { jump } else { next + 1 } % files.len();
            let file = &files[next];
            if is_hit {
                walk.hit(file.inode);
            } else {
                let state = walk.states.get(&file.inode);
                missed_again += u32::from(matches!(state, Some(State::Used | State::Missed)));
                walk.missed(&file.directory, file.inode);
            }
        }
        // A file is fetched once, and once more each time that the visited files have gone.
        let mut times: HashMap<u64, u32> = HashMap::new();
        for file in &fetched {
            *times.entry(file.inode).or_default() += 1;
        }
        prop_assert!(times.values().all(|times| *times <= 1 + missed_again / GONE_MIN));
        let tally = walk.tally();
        prop_assert_eq!(tally.fetched_files, fetched.len() as u64);
        prop_assert!(tally.used_files <= tally.fetched_files);
        prop_assert!(budget_pages >= 8 || fetched.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn steps_far_behind_are_forgotten(files in 1u64..60_000, step in 1usize..50) {
        let lists = tree("/t", 0, 0, files);
        let mut walk = Walk::new(b"/t", Order::Listed, LARGE_BYTES);
        walk.listed(&[], &lists);
        let inodes: Vec<u64> = lists[&b"/t"[..]].iter().map(|entry| entry.inode).collect();
        for inode in inodes.into_iter().step_by(step) {
            walk.hit(inode);
            let behind = walk.cursors.hindmost() - walk.steps.front();
            prop_assert!(behind <= (STEPS_BEHIND * 2 + step) as u64);
        }
        let known = walk.steps.files_from(walk.steps.front()).count();
        prop_assert!(walk.states.len() <= known);
    }
}
