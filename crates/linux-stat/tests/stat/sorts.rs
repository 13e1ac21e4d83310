// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the properties that lines are told apart by, of the pages that are followed, and of
//! full tables.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use foreread_accounting::{By, Counts, Line, Subject, lines};
use foreread_linux_stat::{Accounting, Following, Sight, Snapshot};
use foreread_testbed::{FileSystem, SetAtEnd};
use rustix::fs::{Advice, fadvise};

use crate::bed::{
    BY, FILES, PAGES, Watched, five, of_file, on_bed, settled, start, start_by_file, sum,
};

fn will_need(file: &Watched) {
    fadvise(&file.file, 0, None, Advice::WillNeed).expect("advice");
}

/// The line that fetched as much as our files have, whatever else the machine does.
fn ours(snapshot: &Snapshot, by: By, is_it: impl Fn(&Subject) -> bool) -> Vec<Line> {
    let lines = lines(snapshot.accounts.iter().copied(), by);
    for line in &lines {
        assert!(line.counts.since(&Counts::default()).balances(), "{line:?}");
    }
    lines
        .into_iter()
        .filter(|line| is_it(&line.subject))
        .collect()
}

/// The sum of the accounts of one file, those of all processes.
fn of_all_processes(snapshot: &Snapshot, inode: u64) -> Counts {
    let accounts = snapshot.accounts.iter();
    let of_file = accounts.filter(|(subject, _)| subject.file.is_some_and(|f| f.inode == inode));
    of_file.map(|(_, counts)| *counts).sum()
}

fn by(word: &str) -> By {
    word.parse().expect("a word")
}

#[test]
fn lines_by_device_process_and_file_hold_the_same_pages() {
    on_bed(FileSystem::Ext4, |bed| {
        let files = bed.files();
        let Some(mut accounting) = start_by_file() else {
            return;
        };
        for file in &files {
            will_need(file);
            settled(&mut accounting, file.inode);
        }
        let snapshot = accounting.snapshot().expect("a snapshot");
        let fetched = |lines: Vec<Line>| -> Vec<u64> {
            lines
                .iter()
                .map(|line| line.counts.counters().fetched)
                .collect()
        };
        let own = |s: &Subject| s.process.is_some_and(|p| p.id == std::process::id());
        // A disk of somebody else may have a file with the same number.
        let one = |s: &Subject| own(s) && s.file.is_some_and(|f| f.inode == files[0].inode);
        let mut subjects = snapshot.accounts.iter().map(|(subject, _)| subject);
        let file = subjects.find(|s| one(s)).and_then(|s| s.file);
        let file = file.expect("a file");
        let found = ours(&snapshot, by("file"), |s| s.file == Some(file));
        assert_eq!(fetched(found), [PAGES]);
        let path = accounting
            .with_names(|names| names.file(file))
            .expect("a path");
        assert!(
            String::from_utf8_lossy(&path).ends_with("/file-0"),
            "{path:?}"
        );
        let of_device = ours(&snapshot, by("device"), |s| s.device == Some(file.device));
        let pages: u64 = fetched(of_device).iter().sum();
        assert!(pages >= FILES * PAGES, "{pages}");
        let name = accounting
            .with_names(|names| names.device(file.device))
            .expect("a name");
        assert!(name.starts_with(b"loop"), "{name:?}");
        let process = ours(&snapshot, by("process"), own);
        assert!(fetched(process.clone())[0] >= FILES * PAGES);
        let id = process[0].subject.process.expect("a process");
        // The group's name, not that of the test's thread.
        let comm = fs::read_to_string("/proc/self/comm").expect("a name");
        let told = accounting.with_names(|names| names.process(id).map(<[u8]>::to_vec));
        assert_eq!(told.as_deref(), Some(comm.trim_end().as_bytes()));
    });
}

#[test]
fn of_a_command_only_what_it_and_its_children_fetch_is_followed() {
    on_bed(FileSystem::Ext4, |bed| {
        let files = bed.files();
        let following = Following {
            by: BY,
            only_next_child: true,
            ..Following::default()
        };
        let Some(mut accounting) = start(following) else {
            return;
        };
        let path = files[0].path.display();
        // The shell's own child reads.
        let script = format!("cat {path} > /dev/null; true");
        let ran = Command::new("sh")
            .args(["-c", &script])
            .status()
            .expect("a shell");
        assert!(ran.success());
        will_need(&files[1]);
        let snapshot = accounting.snapshot().expect("a snapshot");
        assert_eq!(of_all_processes(&snapshot, files[0].inode).used(), PAGES);
        assert_eq!(
            of_all_processes(&snapshot, files[1].inode),
            Counts::default()
        );
        let cat = snapshot.accounts.iter().find_map(|(subject, counts)| {
            let is_it = subject
                .file
                .is_some_and(|file| file.inode == files[0].inode);
            (is_it && counts.counters().fetched > 0).then_some(subject.process)?
        });
        let name =
            accounting.with_names(|n| n.process(cat.expect("a process")).map(<[u8]>::to_vec));
        assert_eq!(name.as_deref(), Some(&b"cat"[..]));
    });
}

#[test]
fn pages_that_find_no_room_are_counted_and_in_no_line() {
    on_bed(FileSystem::Ext4, |bed| {
        let files = bed.files();
        let following = Following {
            by: BY,
            chunks_max: 4,
            ..Following::default()
        };
        let Some(mut accounting) = start(following) else {
            return;
        };
        for file in &files {
            will_need(file);
            settled(&mut accounting, file.inode);
        }
        let snapshot = accounting.snapshot().expect("a snapshot");
        let fetched: u64 = files
            .iter()
            .map(|file| sum(&of_file(&snapshot, file.inode)).fetched)
            .sum();
        assert!(fetched <= 4 * PAGES, "{fetched}");
        let unfollowed = snapshot.losses.unfollowed_pages;
        assert!(
            fetched + unfollowed >= FILES * PAGES,
            "{fetched} {unfollowed}"
        );
    });
}

/// Files of 92 chunks in all are read one after the other; the table has room for 48.
#[test]
fn room_is_made_for_what_comes_next() {
    const ALL_PAGES: u64 = FILES * 230;
    on_bed(FileSystem::Ext4, |bed| {
        let files: Vec<Watched> = (0..FILES).map(|number| bed.file(number, 230)).collect();
        let following = Following {
            by: BY,
            chunks_max: 48,
            only_next_child: true,
            ..Following::default()
        };
        let Some(mut accounting) = start(following) else {
            return;
        };
        let names: Vec<String> = files.iter().map(|f| f.path.display().to_string()).collect();
        let names = names.join(" ");
        let script = format!("for f in {names}; do cat $f > /dev/null; sleep 0.05; done");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .spawn()
            .expect("a shell");
        while shell.try_wait().expect("a wait").is_none() {
            accounting.keep_up().expect("it keeps up");
        }
        let snapshot = accounting.snapshot().expect("a snapshot");
        let fetched: u64 = files
            .iter()
            .map(|f| of_all_processes(&snapshot, f.inode).counters().fetched)
            .sum();
        let used: u64 = files
            .iter()
            .map(|f| of_all_processes(&snapshot, f.inode).used())
            .sum();
        assert_eq!(fetched, used);
        // Pages that didn't find room, on a machine that was too slow, are counted.
        assert!(fetched + snapshot.losses.unfollowed_pages >= ALL_PAGES);
        assert!(fetched > 48 * 64, "{fetched}: nothing was ever removed");
    });
}

#[test]
fn without_requests_and_metadata_pages_are_the_same() {
    on_bed(FileSystem::Ext4, |bed| {
        let file = bed.file(0, PAGES);
        let following = Following {
            by: BY,
            ..Following::default()
        };
        if start(following).is_none() {
            return;
        }
        let mut accounting =
            Accounting::start_with(following, Sight::PagesOnly).expect("it sees less");
        assert_eq!(accounting.sight(), Sight::PagesOnly);
        will_need(&file);
        let snapshot = settled(&mut accounting, file.inode);
        let all = sum(&of_file(&snapshot, file.inode));
        assert_eq!(five(&all), [PAGES, 0, 0, 0, PAGES]);
        assert_eq!(all.requests, 0);
    });
}

#[test]
fn what_it_costs_is_measured() {
    on_bed(FileSystem::Ext4, |bed| {
        let file = bed.file(0, PAGES);
        let following = Following {
            by: BY,
            measure: true,
            ..Following::default()
        };
        let Some(mut accounting) = start(following) else {
            return;
        };
        will_need(&file);
        settled(&mut accounting, file.inode);
        let cost = accounting.cost().expect("it is measured");
        let inserted = cost
            .programs
            .iter()
            .find(|p| p.name == "inserted")
            .expect("a program");
        assert!(inserted.calls > 0 && inserted.run_ns > 0, "{inserted:?}");
        assert!(
            cost.kernel_bytes > 1 << 20 && cost.elapsed_ns > 0,
            "{cost:?}"
        );
    });
}

/// Four threads read and drop files while snapshots are taken: in each of them every account
/// balances, and nothing that was counted is taken back.
#[test]
fn while_pages_move_every_snapshot_balances() {
    on_bed(FileSystem::Ext4, |bed| {
        let files = bed.files();
        let Some(mut accounting) = start_by_file() else {
            return;
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = SetAtEnd(&is_over);
            for number in 0..4 {
                let (files, is_over) = (&files, &is_over);
                scope.spawn(move || {
                    let mut bytes = vec![0; 5 * 4096];
                    for file in files.iter().cycle().skip(number * 5) {
                        if is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        let _ = file.file.read_at(&mut bytes, number as u64 * 4096);
                        file.forget();
                    }
                });
            }
            let mut before: BTreeMap<Subject, Counts> = BTreeMap::new();
            let (mut snapshots, mut fetched) = (0, 0);
            // On a busy machine it takes more of them until enough was read.
            while snapshots < 300 || fetched <= 1000 {
                snapshots += 1;
                assert!(snapshots < 30_000, "{fetched} pages fetched");
                let snapshot = accounting.snapshot().expect("a snapshot");
                fetched = 0;
                for (subject, counts) in snapshot.accounts {
                    let earlier = before.insert(subject, counts).unwrap_or_default();
                    assert!(counts.since(&earlier).balances());
                    let (now, then) = (counts.counters(), earlier.counters());
                    fetched += now.fetched;
                    assert!(now.fetched >= then.fetched && now.wasted >= then.wasted);
                    assert!(now.arrived >= then.arrived && counts.used() >= earlier.used());
                }
            }
        });
    });
}
