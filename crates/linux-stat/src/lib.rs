// SPDX-License-Identifier: MIT OR Apache-2.0
//! Live accounts of readahead: `bpf/stat.bpf.c`, loaded, attached, read out.
//!
//! [`Accounting::start`] follows every page that is read in from then on, by the whole machine or
//! by one process tree. [`Accounting::snapshot`] returns the use of these pages, in accounts whose
//! pages add up exactly, see [`Counts`].
#![forbid(unsafe_code)]

mod abi;
mod cost;
mod error;
mod names;
mod types;

pub use cost::{Cost, ProgramCost};
pub use error::StatError;

pub use names::Names;
pub use types::{Following, Losses, Sight, Snapshot};

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use foreread_accounting::{By, Counters, Counts, Process, Subject};
use foreread_bpf::skeletons::stat::{OpenStatSkel, StatSkel, StatSkelBuilder};
use foreread_bpf::system_calls::fill as fill_syscall_classes;
use foreread_bpf::{MissingHook, Served, Wanted, likes, needs, read_counter, wait_for_programs};
use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, ProgramMut, RingBuffer};

use abi::{KEY_BYTES, Key, Named};
use cost::Measured;
use error::refused;

/// In the order in which they are attached.
const PAGES: [&str; 10] = [
    "removed",
    "get_pages",
    "map_pages",
    "switched",
    "inserted",
    "fault",
    "ra_unbounded",
    "ra_order",
    "async_ra",
    "sync_ra",
];
const LIVES: [&str; 3] = ["executed", "exited", "forked"];
/// Optional hooks, each with the events that aren't seen without it.
const EXTRAS: [(&str, &str); 3] = [
    ("block_touched", "uses of metadata that was read ahead"),
    ("ring_read_done", "a part of what io_uring reads"),
    ("issued", "requests of devices"),
];

fn wanted(following: Following, sight: Sight) -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = PAGES.map(needs).to_vec();
    if following.by.process {
        wanted.push(likes("executed", "new names of processes"));
    }
    if following.only_next_child {
        wanted.extend(["exited", "forked"].map(needs));
    }
    if sight == Sight::Full {
        wanted.extend(EXTRAS.map(|(hook, loss)| likes(hook, loss)));
    }
    wanted
}

/// Names of accounts and processes, as they come from the ring buffer.
#[derive(Default)]
struct Inbox {
    accounts: HashMap<u32, Subject>,
    names: Names,
}

/// The programs in the kernel. Detached when dropped.
pub struct Accounting {
    // Detached before the objects that the links use are dropped.
    links: Vec<Link>,
    skel: StatSkel<'static>,
    served: Served,
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
    following: Following,
    measured: Option<Measured>,
    /// Entries in the table of chunks, when it was last looked at.
    chunks: u64,
}

impl Accounting {
    /// Follows pages from now on.
    ///
    /// # Errors
    /// [`StatError`] when the kernel can't or rights are missing.
    pub fn start(following: Following) -> Result<Self, StatError> {
        Self::start_with(following, Sight::Full)
    }

    /// The same, seeing no more than this.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(following: Following, sight: Sight) -> Result<Self, StatError> {
        let by = following.by;
        let set = |open: &mut OpenStatSkel<'static>| {
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                fill_syscall_classes(&mut rodata.syscall_class);
                rodata.by_device = u32::from(by.device);
                rodata.by_process = u32::from(by.process);
                rodata.by_file = u32::from(by.file);
                rodata.by_cgroup = u32::from(by.cgroup);
                rodata.only_tree = u32::from(following.only_next_child);
            }
            open.maps
                .fr_stat_chunk_table
                .set_max_entries(following.chunks_max.max(1))
                .map_err(foreread_bpf::refused("sizing the tables"))
        };
        let (skel, served) = foreread_bpf::load::<StatSkelBuilder>(&wanted(following, sight), set)?;
        let inbox = Rc::new(RefCell::new(Inbox::default()));
        let receiver = Rc::clone(&inbox);
        let ring = foreread_bpf::ring(&skel.maps.fr_stat_names, move |bytes| {
            receiver.borrow_mut().take(bytes, by);
        })
        .map_err(StatError::from)?;
        let mut accounting = Self {
            links: Vec::new(),
            skel,
            served,
            ring,
            inbox,
            following,
            measured: None,
            chunks: 0,
        };
        if following.measure {
            accounting.measured = Some(Measured::start()?);
        }
        accounting.attach()?;
        Ok(accounting)
    }

    fn attach(&mut self) -> Result<(), StatError> {
        if self.following.only_next_child {
            self.skel
                .progs
                .fr_stat_whoami
                .test_run(ProgramInput::default())
                .map_err(refused("asking for the process number"))?;
            if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
                bss.adopt_pid = bss.whoami_pid;
            }
        }
        // Ends of lives first: what begins before all are there is followed to its end.
        let hooks = [&PAGES[..], &LIVES[..], &EXTRAS.map(|(hook, _)| hook)].concat();
        self.links = self.served.attach(self.skel.object(), &hooks)?;
        Ok(())
    }

    /// The events that are seen.
    #[must_use]
    pub fn sight(&self) -> Sight {
        let all = EXTRAS.iter().all(|(hook, _)| self.served.has(hook));
        if all { Sight::Full } else { Sight::PagesOnly }
    }

    /// Events that aren't seen on this kernel, and why.
    #[must_use]
    pub fn lacking(&self) -> &[MissingHook] {
        self.served.lacking()
    }

    /// Properties that accounts are told apart by.
    #[must_use]
    pub fn by(&self) -> By {
        self.following.by
    }

    /// Takes what has come, and makes room where that is due; to be called a few times in a second.
    ///
    /// # Errors
    /// When the kernel refuses to run a program.
    pub fn keep_up(&mut self) -> Result<(), StatError> {
        // An error here is a damaged ring: what it held has numbers and no names.
        let _ = self.ring.consume();
        self.survey()?;
        if self.chunks * 2 >= u64::from(self.following.chunks_max) {
            self.sweep()?;
        }
        Ok(())
    }

    /// Counts of pages up to now. In each account, every fetched page is in exactly one place.
    ///
    /// # Errors
    /// When the kernel refuses to run a program, or counters contradict each other.
    pub fn snapshot(&mut self) -> Result<Snapshot, StatError> {
        self.keep_up()?;
        let accounts = self.counters()?;
        let _ = self.ring.consume();
        if (1..accounts.len()).any(|n| !self.inbox.borrow().accounts.contains_key(&(n as u32))) {
            self.find_unnamed();
        }
        let inbox = self.inbox.borrow();
        let of = |number: u32| match number {
            0 => Some(Subject {
                is_other: true,
                ..Subject::default()
            }),
            _ => inbox.accounts.get(&number).copied(),
        };
        let mut losses = self.losses();
        let accounts = (0u32..).zip(accounts).filter_map(|(number, counts)| {
            let is_used = number > 0 || counts != Counts::default();
            is_used.then(|| {
                // Lost with the ring and not in the table either: between the two, at this moment.
                let subject = of(number).unwrap_or(Subject {
                    is_other: true,
                    ..Subject::default()
                });
                (subject, counts)
            })
        });
        let accounts = accounts.collect();
        losses.unnamed_accounts = inbox.names.unnamed();
        Ok(Snapshot { accounts, losses })
    }

    /// Names of what accounts are of, as far as they are known now.
    pub fn with_names<T>(&self, look: impl FnOnce(&mut Names) -> T) -> T {
        look(&mut self.inbox.borrow_mut().names)
    }

    /// Cost of the programs up to now; `None` when it isn't measured.
    #[must_use]
    pub fn cost(&self) -> Option<Cost> {
        let measured = self.measured.as_ref()?;
        let mut cost = measured.cost(&self.served.all(self.skel.object()));
        cost.chunks = self.chunks;
        cost.kernel_bytes = cost::kernel_bytes(&self.skel.maps.fr_stat_account_table)
            + cost::kernel_bytes(&self.skel.maps.bss_accounts)
            + cost::kernel_bytes(&self.skel.maps.bss_filter)
            + cost::kernel_bytes(&self.skel.maps.fr_stat_chunk_table)
            + cost::kernel_bytes(&self.skel.maps.fr_stat_names);
        Some(cost)
    }

    /// Looks at which pages have arrived.
    fn survey(&mut self) -> Result<(), StatError> {
        run(
            &self.skel.progs.fr_stat_survey,
            "looking at what has arrived",
        )?;
        self.chunks = self
            .skel
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.chunk_count);
        Ok(())
    }

    /// Removes chunks without unused pages.
    fn sweep(&mut self) -> Result<(), StatError> {
        run(&self.skel.progs.fr_stat_sweep, "making room in a table")?;
        let dead = self
            .skel
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.chunks_dead);
        if dead > 0 {
            wait_for_programs();
            run(
                &self.skel.progs.fr_stat_remove_dead,
                "making room in a table",
            )?;
        }
        Ok(())
    }

    /// All counters, those of later steps first. A page that moves meanwhile is then in the step
    /// before or in the one after, never in both.
    fn counters(&self) -> Result<Vec<Counts>, StatError> {
        /// A page that another processor is moving at this moment is there in some nanoseconds.
        const READINGS_MAX: u32 = 1000;
        for _ in 0..READINGS_MAX {
            if let Some(counts) = self.read_counters() {
                return Ok(counts);
            }
            std::thread::yield_now();
        }
        Err(StatError::Unbalanced)
    }

    fn read_counters(&self) -> Option<Vec<Counts>> {
        let accounts = &self.skel.maps.bss_accounts_data.as_deref()?.accounts;
        let used = self.skel.maps.bss_data.as_deref()?.accounts_used as usize + 1;
        let accounts = accounts.get(..used.min(accounts.len()))?;
        let mut counters: Vec<Counters> = accounts
            .iter()
            .map(|account| Counters {
                used_on_time: read_counter(&account.used_on_time),
                used_late: read_counter(&account.used_late),
                wasted: read_counter(&account.wasted),
                windows: read_counter(&account.windows),
                requests: read_counter(&account.requests),
                request_bytes: read_counter(&account.request_bytes),
                stall_ns: read_counter(&account.stall_ns),
                stalls: read_counter(&account.stalls),
                ..Counters::default()
            })
            .collect();
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        for (counters, account) in counters.iter_mut().zip(accounts) {
            counters.arrived = read_counter(&account.arrived);
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        for (counters, account) in counters.iter_mut().zip(accounts) {
            counters.fetched = read_counter(&account.fetched);
        }
        counters.into_iter().map(Counts::new).collect()
    }

    /// Accounts whose names were lost with the ring: what they are of is in the table.
    fn find_unnamed(&self) {
        let table = &self.skel.maps.fr_stat_account_table;
        let mut inbox = self.inbox.borrow_mut();
        for bytes in table.keys() {
            let number = table.lookup(&bytes, MapFlags::ANY).ok().flatten();
            let number = number.and_then(|n| Some(u32::from_ne_bytes(n.try_into().ok()?)));
            let key = bytes.get(..KEY_BYTES).and_then(Key::from_bytes);
            if let (Some(number), Some(key)) = (number, key)
                && !inbox.accounts.contains_key(&number)
            {
                inbox
                    .accounts
                    .insert(number, key.subject(self.following.by));
                inbox.names.note_unnamed();
            }
        }
    }

    fn losses(&self) -> Losses {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else {
            return Losses::default();
        };
        Losses {
            unfollowed_pages: bss.losses.unfollowed_pages,
            shared_accounts: bss.losses.shared_accounts,
            unnamed_accounts: 0,
            processes: bss.losses.processes,
            missed_events: foreread_bpf::missed_calls(&self.served.all(self.skel.object())),
        }
    }
}

impl Inbox {
    fn take(&mut self, bytes: &[u8], by: By) {
        let Some(named) = Named::from_bytes(bytes) else {
            return;
        };
        let process: Process = named.key.process();
        if by.process {
            self.names.name_process(process, named.comm);
        }
        if named.account == 0 {
            return;
        }
        let subject = named.key.subject(by);
        if let Some(file) = subject.file
            && !named.path.is_empty()
        {
            self.names.name_file(file, named.path);
        }
        self.accounts.insert(named.account, subject);
    }
}

fn run(program: &ProgramMut<'_>, step: &'static str) -> Result<(), StatError> {
    let done = program.test_run(ProgramInput::default());
    done.map(drop).map_err(refused(step))
}
