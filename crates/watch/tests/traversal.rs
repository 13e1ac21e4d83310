// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner of a directory traversal, on a machine that is only modelled: a tree of lists.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foreread_core::Device;
use foreread_core::mounts::Mounts;
use foreread_watch::ahead::{Access, Action, Ahead, Event, Fetched, Listed, Machine};
use foreread_watch::detect::{Missed, Passed, Suspicion};
use foreread_watch::log::note::What;
use foreread_watch::order::{Entry, Order};
use foreread_watch::paths::joined;
use foreread_watch::place::Place;
use foreread_watch::traversal::{Refusal, Traversal, confirm};
use foreread_watch::walk::Why;

const DEVICE: Device = Device { major: 8, minor: 1 };
const MOUNTS: &[u8] = b"22 1 8:1 / / rw - ext4 /dev/sda rw\n";
const BUDGET_BYTES: u64 = 1 << 30;

/// A tree of `/top/a` to `/top/e` with twenty files each.
struct Modelled {
    lists: BTreeMap<Vec<u8>, Vec<Entry>>,
    /// A directory that another planner has.
    taken: Option<Vec<u8>>,
    claimed: Vec<Vec<u8>>,
    notes: Vec<What>,
}

fn entry(name: String, inode: u64, is_directory: bool) -> Entry {
    Entry {
        name: name.into_bytes(),
        inode,
        is_directory,
    }
}

impl Modelled {
    fn new() -> Self {
        let directories = (0..5).map(|at| (char::from(b'a' + at), u64::from(at) + 1));
        let mut lists = BTreeMap::new();
        let all = directories.clone();
        let top = all.map(|(name, number)| entry(name.to_string(), number * 1000, true));
        lists.insert(b"/top".to_vec(), top.collect());
        for (name, number) in directories {
            let file = |at: u64| entry(format!("f{at:02}"), number * 1000 + at, false);
            lists.insert(
                format!("/top/{name}").into_bytes(),
                (1..21).map(file).collect(),
            );
        }
        Self {
            lists,
            taken: None,
            claimed: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Machine for Modelled {
    fn note(&mut self, what: What) {
        self.notes.push(what);
    }

    fn mounts(&mut self) -> Option<Arc<Mounts>> {
        Some(Arc::new(Mounts::parse(MOUNTS)))
    }

    fn list(&mut self, top: &Place, below: &[u8]) -> Option<Vec<Entry>> {
        let path = [&top.inside, below].concat();
        self.lists.get(&path).cloned()
    }

    fn is_free(&mut self, _: Device, inside: &[u8]) -> bool {
        self.taken.as_deref() != Some(inside)
    }

    fn claim(&mut self, device: Device, inside: &[u8]) -> bool {
        let is_free = self.is_free(device, inside);
        if is_free {
            self.claimed.push(inside.to_vec());
        }
        is_free
    }
}

fn suspicion(directory: &str, children: &[&str]) -> Suspicion {
    let directory = directory.as_bytes().to_vec();
    let children = children.iter().map(|child| child.as_bytes().to_vec());
    Suspicion {
        process: 7,
        parent: 1,
        device: DEVICE,
        directory: directory.clone(),
        passed: vec![Passed {
            directory,
            children: children.collect(),
        }],
        start: None,
        threads: 1,
        reads: true,
    }
}

fn missed(directory: &str, name: &str, inode: u64) -> Event {
    Event::Access(Access::Missed(Missed {
        process: 7,
        thread: 7,
        parent: 1,
        user: 0,
        device: DEVICE,
        inode,
        directory: directory.as_bytes().to_vec(),
        name: name.as_bytes().to_vec(),
    }))
}

fn hit(inode: u64) -> Event {
    Event::Access(Access::Hit {
        thread: 7,
        device: DEVICE,
        inode,
    })
}

fn begun<'a>(machine: &mut Modelled, directory: &str) -> Traversal<'a> {
    let suspicion = suspicion(directory, &["f01", "f02", "f03", "f04"]);
    let confirmed = confirm(&suspicion, BUDGET_BYTES, machine).expect("it goes by name");
    Traversal::begin(confirmed, 1, None)
}

/// Carries actions out until the planner waits or ends. Returns the inode numbers of all files of
/// plans, and the last action.
fn carry_out(planner: &mut Traversal<'_>, machine: &mut Modelled) -> (Vec<u64>, Action) {
    let mut files = Vec::new();
    loop {
        match planner.next() {
            Action::List { directories, .. } => {
                let mut lists = HashMap::new();
                let mut level = directories.clone();
                while let Some(path) = level.pop() {
                    if let Some(list) = machine.lists.get(&path) {
                        let below = list.iter().filter(|entry| entry.is_directory);
                        level.extend(below.map(|entry| joined(&path, &entry.name)));
                        lists.insert(path, list.clone());
                    }
                }
                let listed = Listed {
                    tried: [directories, lists.keys().cloned().collect()].concat(),
                    lists,
                    took_ns: 5,
                };
                planner.take(Event::Listed(listed), machine);
            }
            Action::Fetch(fetch) => {
                assert!(!fetch.takes_accesses && fetch.budget_bytes <= BUDGET_BYTES);
                let plan = &fetch.plan;
                files.extend(plan.files_with_pages().map(|(_, node)| node.identity.inode));
                let fetched = Fetched {
                    pages: plan.total_pages(),
                    ..Fetched::default()
                };
                planner.take(Event::Fetched(fetched), machine);
            }
            other => return (files, other),
        }
    }
}

#[test]
fn a_confirmed_program_has_the_next_files_fetched_until_it_ends() {
    let mut machine = Modelled::new();
    let mut planner = begun(&mut machine, "/top/a");
    assert_eq!(machine.claimed, [b"/top/a"]);
    let order = Order::Listed;
    let begun = What::Begun {
        top: b"/top/a".to_vec(),
        order,
    };
    assert_eq!(machine.notes, [begun]);
    planner.take(missed("/top/a", "f04", 1004), &mut machine);
    let (files, action) = carry_out(&mut planner, &mut machine);
    assert_eq!(action, Action::Wait);
    assert!(files.contains(&1005) && !files.contains(&1004), "{files:?}");
    assert!(planner.take(hit(1005), &mut machine));
    assert_eq!(planner.tally().used_files, 1);
    assert!(planner.goes_on());
    planner.take(Event::Exited, &mut machine);
    assert!(!planner.goes_on() && planner.why().is_none());
    assert_eq!(carry_out(&mut planner, &mut machine).1, Action::End);
    assert_eq!(planner.why(), Some(Why::Exited));
}

#[test]
fn accesses_without_an_order_are_refused() {
    let mut machine = Modelled::new();
    let mut of = |suspicion: &Suspicion| confirm(suspicion, BUDGET_BYTES, &mut machine).err();
    let jumping = suspicion("/top/a", &["f09", "f02", "f17", "f04"]);
    assert_eq!(of(&jumping), Some(Refusal::Wrong));
    let gone = suspicion("/top/gone", &["f01", "f02", "f03", "f04"]);
    assert_eq!(of(&gone), Some(Refusal::Wrong));
    let mut looking = suspicion("/top/a", &["f01", "f02"]);
    looking.reads = false;
    let refused = of(&looking);
    assert!(
        matches!(refused, Some(Refusal::TooEarly | Refusal::Wrong)),
        "{refused:?}"
    );
    assert!(machine.claimed.is_empty() && machine.notes.is_empty());
    machine.taken = Some(b"/top/a".to_vec());
    let known = suspicion("/top/a", &["f01", "f02", "f03", "f04"]);
    let refused = confirm(&known, BUDGET_BYTES, &mut machine).err();
    assert_eq!(refused, Some(Refusal::Known));
}

#[test]
fn it_follows_its_program_to_the_next_directory_above() {
    for is_taken in [false, true] {
        let mut machine = Modelled::new();
        let mut planner = begun(&mut machine, "/top/a");
        carry_out(&mut planner, &mut machine);
        machine.taken = is_taken.then(|| b"/top".to_vec());
        planner.take(missed("/top/b", "f01", 2001), &mut machine);
        if is_taken {
            assert_eq!(carry_out(&mut planner, &mut machine).1, Action::End);
            assert_eq!(planner.why(), Some(Why::Left));
            continue;
        }
        assert_eq!(
            machine.claimed.last().map(Vec::as_slice),
            Some(&b"/top"[..])
        );
        let raised = |note: &What| matches!(note, What::Raised { top, .. } if top == b"/top");
        assert!(machine.notes.iter().any(raised), "{:?}", machine.notes);
        let (files, _) = carry_out(&mut planner, &mut machine);
        let is_next = |inode: &u64| (2002..2021).contains(inode);
        assert!(files.iter().any(is_next), "{files:?}");
    }
}

#[test]
fn it_stays_where_the_directories_above_do_not_explain_the_access() {
    let mut machine = Modelled::new();
    let mut planner = begun(&mut machine, "/top/c");
    carry_out(&mut planner, &mut machine);
    // Back to the first one: no order of entries goes from c to a.
    planner.take(missed("/top/a", "f01", 1001), &mut machine);
    // On another file system.
    let Event::Access(Access::Missed(mut elsewhere)) = missed("/top/d", "f01", 4001) else {
        panic!("no miss");
    };
    elsewhere.device = Device { major: 9, minor: 9 };
    planner.take(Event::Access(Access::Missed(elsewhere)), &mut machine);
    assert_eq!(machine.claimed, [b"/top/c"]);
    assert!(planner.goes_on());
}
