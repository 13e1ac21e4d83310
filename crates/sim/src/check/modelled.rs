// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model: the policy of a kernel over this crate's page cache, without time.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::Range;

use foreread_core::policy::{Access, Limits, Policy};

use super::machine::Machine;
use super::program::{DESCRIPTORS, MapAdvice, Program, Step};
use super::seen::{Event, Facts, Placed, Remembered, Run, Seen, pages_of, runs};
use crate::cache::{FileId, Generations, PageCache, StreamId};
use crate::path::{
    Batch, Decided, FaultCall, Host, Mapping, OpenFile, PAGE_BYTES, ReadCall, Step as Stop, force,
};

/// A descriptor.
#[derive(Clone, Debug)]
struct Open {
    file: OpenFile,
    position_bytes: u64,
}

/// Which kernel is modelled, and how closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The policy that decides as the kernel does.
    pub policy: Policy,
    /// The departures from its own rules that the model has, too (`Limits::QUIRK_*`).
    pub quirks: u8,
    /// Whether the multi-generational LRU is on. It is no part of readahead, but counts files that
    /// are read often as evicted ones, which fault-around asks about.
    pub has_generations: bool,
}

impl Model {
    /// The kernel that `policy` models, with all of its known departures.
    #[must_use]
    pub fn of(policy: Policy) -> Self {
        Self {
            policy,
            quirks: policy.quirks(),
            has_generations: false,
        }
    }

    /// Linux 6.18, with these departures.
    #[must_use]
    pub fn linux(quirks: u8) -> Self {
        Self {
            policy: Policy::Linux,
            quirks,
            has_generations: false,
        }
    }

    /// How reads mark folios.
    fn generations(self) -> Option<Generations> {
        let generations = match self.policy {
            Policy::Linux61 | Policy::Linux612 => Generations::Second,
            _ => Generations::Fifth,
        };
        self.has_generations.then_some(generations)
    }
}

/// A model of the kernel that a program runs on.
#[derive(Clone, Debug)]
pub struct Modelled {
    facts: Facts,
    model: Model,
    file_bytes: u64,
    cache: PageCache,
    file: FileId,
    stream: StreamId,
    descriptors: [Option<Open>; DESCRIPTORS],
    mapping: Option<Mapped>,
}

#[derive(Clone, Debug)]
struct Mapped {
    mapping: Mapping,
    /// The open file that it is of: the descriptor's while that stays open.
    of: Holder,
}

#[derive(Clone, Debug)]
enum Holder {
    Descriptor(usize),
    Closed(Box<OpenFile>),
}

/// The results of a step.
#[derive(Default)]
struct Told {
    batches: Vec<Range<u64>>,
    under_way: Vec<Range<u64>>,
    /// First pages of folios that do not arrive before the end of the step.
    late: BTreeSet<u64>,
    events: Vec<Event>,
    misled: u8,
}

impl Host for Told {
    fn submit(&mut self, batch: Batch) {
        if batch.alone {
            let alone = format!("page {} is read alone", batch.pages.start);
            self.events.push(Event(alone));
        }
        self.batches.push(batch.pages.clone());
        self.under_way.push(batch.pages);
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        self.misled |= decided.misled;
        let (access, decision) = (decided.access, decided.decision);
        let windows: Vec<String> = decision.windows().iter().map(ToString::to_string).collect();
        let windows = match windows.is_empty() {
            true => "nothing".to_owned(),
            false => windows.join(" "),
        };
        self.events.push(Event(format!(
            "{:?} at {} for {}: {windows} ({})",
            access.kind, access.index, access.req_pages, decision.reason
        )));
    }
}

impl Modelled {
    /// A machine of which nothing is known yet.
    #[must_use]
    pub fn new(model: Model) -> Self {
        let facts = Facts {
            ra_pages: 0,
            io_pages: 0,
            folio_order_max: 0,
        };
        let mut cache = PageCache::new(None).with_generations(model.generations());
        let (file, stream) = (cache.add_file(), cache.add_stream());
        Self {
            facts,
            model,
            file_bytes: 0,
            cache,
            file,
            stream,
            descriptors: [const { None }; DESCRIPTORS],
            mapping: None,
        }
    }

    /// Sets the facts of the machine that the next program is compared with.
    #[must_use]
    pub fn with_facts(self, facts: Facts) -> Self {
        Self { facts, ..self }
    }

    fn file_pages(&self) -> u64 {
        self.file_bytes.div_ceil(PAGE_BYTES)
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::new(self.file_pages(), self.facts.ra_pages);
        limits.io_pages = self.facts.io_pages;
        limits.folio_order_max = self.facts.folio_order_max;
        limits.quirks = self.model.quirks;
        limits
    }

    fn open(&mut self, number: usize) {
        self.close(number);
        let mut file = OpenFile::new(self.file, self.stream, self.model.policy, self.limits());
        file.file_bytes = self.file_bytes;
        self.descriptors[number] = Some(Open {
            file,
            position_bytes: 0,
        });
    }

    /// A mapping keeps its open file.
    fn close(&mut self, number: usize) {
        let Some(closed) = self.descriptors[number].take() else {
            return;
        };
        if let Some(mapped) = &mut self.mapping
            && matches!(mapped.of, Holder::Descriptor(of) if of == number)
        {
            mapped.of = Holder::Closed(Box::new(closed.file));
        }
    }

    fn unmap(&mut self) {
        if self.mapping.take().is_some() {
            self.cache.unmap_pages(self.file, 0..self.file_pages());
        }
    }

    fn step_on(&mut self, number: usize, step: &Step, told: &mut Told) {
        let Some(open) = self.descriptors.get_mut(number).and_then(Option::as_mut) else {
            return;
        };
        match *step {
            Step::Read {
                offset_bytes,
                bytes,
                ..
            } => read(&mut self.cache, &mut open.file, offset_bytes, bytes, told),
            Step::ReadOn { bytes, .. } => {
                let at = open.position_bytes;
                read(&mut self.cache, &mut open.file, at, bytes, told);
                let end = at.saturating_add(bytes).min(self.file_bytes);
                open.position_bytes = at.max(end);
            }
            Step::Seek { offset_bytes, .. } => {
                open.position_bytes = offset_bytes;
                open.file.state.seek();
            }
            Step::Advise { advice, .. } => open.file.advise(advice),
            Step::WillNeed {
                offset_bytes,
                bytes,
                ..
            }
            | Step::Readahead {
                offset_bytes,
                bytes,
                ..
            } => {
                let (start, pages) = touched_pages(offset_bytes, bytes);
                force(&mut self.cache, &mut open.file, start, pages, told);
            }
            _ => {}
        }
    }

    /// `POSIX_FADV_DONTNEED`: whole pages only, but for the last one of the file
    /// (generic_fadvise).
    fn drop_pages(&mut self, offset_bytes: u64, bytes: u64) {
        let end = offset_bytes.saturating_add(bytes);
        let end_page = match end == self.file_bytes {
            true => end.div_ceil(PAGE_BYTES),
            false => end / PAGE_BYTES,
        };
        let start_page = offset_bytes.div_ceil(PAGE_BYTES);
        self.cache.drop_pages(self.file, start_page, end_page);
    }

    fn map(&mut self, number: usize, mapping: Mapping) {
        self.unmap();
        if self.descriptors[number].is_some() {
            self.mapping = Some(Mapped {
                mapping,
                of: Holder::Descriptor(number),
            });
        }
    }

    /// Runs on the open file of the mapping.
    fn through_mapping(&mut self, run: impl FnOnce(&mut PageCache, &mut OpenFile, &Mapping)) {
        let Some(mapped) = &mut self.mapping else {
            return;
        };
        let open = match &mut mapped.of {
            Holder::Closed(file) => Some(&mut **file),
            Holder::Descriptor(number) => self.descriptors[*number]
                .as_mut()
                .map(|open| &mut open.file),
        };
        if let Some(open) = open {
            run(&mut self.cache, open, &mapped.mapping);
        }
    }

    fn map_advise(&mut self, advice: MapAdvice) {
        let Some(mapped) = &mut self.mapping else {
            return;
        };
        let flags = &mut mapped.mapping.flags;
        *flags &= !(Access::VMA_SEQUENTIAL | Access::VMA_RANDOM);
        *flags |= match advice {
            MapAdvice::Normal => 0,
            MapAdvice::Sequential => Access::VMA_SEQUENTIAL,
            MapAdvice::Random => Access::VMA_RANDOM,
        };
    }

    fn play(&mut self, step: &Step, told: &mut Told) {
        let file_pages = self.file_pages();
        match *step {
            Step::Open { descriptor } => self.open(descriptor),
            Step::DontNeed {
                descriptor,
                offset_bytes,
                bytes,
            } => {
                if self.descriptors[descriptor].is_some() {
                    self.drop_pages(offset_bytes, bytes);
                }
            }
            Step::Map {
                descriptor,
                start,
                pages,
                slot,
                exec,
            } => {
                let flags = if exec { Access::VMA_EXEC } else { 0 };
                let mapping = Mapping {
                    address_page: slot,
                    ..Mapping::new(start..start + pages, flags)
                };
                self.map(descriptor, mapping);
            }
            Step::Unmap => self.unmap(),
            Step::Touch { page } => self.through_mapping(|cache, open, mapping| {
                if mapping.pages.contains(&page) && page < file_pages {
                    let mut call = FaultCall::new(open, page..page + 1, mapping.clone());
                    run(cache, told, |cache, told| call.step(cache, open, told));
                }
            }),
            Step::MapAdvise { advice } => self.map_advise(advice),
            Step::MapWillNeed { start, pages } => self.through_mapping(|cache, open, mapping| {
                let start = start.max(mapping.pages.start);
                let end = start.saturating_add(pages).min(mapping.pages.end);
                if start < end {
                    force(cache, open, start, end - start, told);
                }
            }),
            Step::Read { descriptor, .. }
            | Step::ReadOn { descriptor, .. }
            | Step::Seek { descriptor, .. }
            | Step::Advise { descriptor, .. }
            | Step::WillNeed { descriptor, .. }
            | Step::Readahead { descriptor, .. } => self.step_on(descriptor, step, told),
        }
    }

    /// The folios of pages, in order.
    fn folios(&self, pages: Range<u64>) -> Vec<Placed> {
        let mut folios = Vec::new();
        let mut at = pages.start;
        while at < pages.end {
            let Some(id) = self.cache.find(self.file, at) else {
                at += 1;
                continue;
            };
            let info = self.cache.info(id);
            folios.push(Placed {
                index: info.index,
                order: info.order,
            });
            at = info.end();
        }
        folios
    }

    fn cached_runs(&self) -> Vec<Run> {
        let folios = self.folios(0..self.file_pages());
        let pages = folios.iter().flat_map(Placed::pages);
        runs(pages.take_while(|page| *page < self.file_pages()))
    }

    fn remembered(&self) -> [Option<Remembered>; DESCRIPTORS] {
        self.descriptors.each_ref().map(|open| {
            let state = &open.as_ref()?.file.state;
            Some(Remembered {
                start: state.start,
                size: state.size,
                async_size: state.async_size,
                ra_pages: state.ra_pages,
                order: state.order.into(),
                mmap_miss: state.mmap_miss.into(),
                prev_pos: state.prev_end_bytes,
            })
        })
    }
}

/// First page and number of the pages that a range of bytes is in.
fn touched_pages(offset_bytes: u64, bytes: u64) -> (u64, u64) {
    let end = offset_bytes.saturating_add(bytes).div_ceil(PAGE_BYTES);
    let start = offset_bytes / PAGE_BYTES;
    (start, end - start)
}

fn read(cache: &mut PageCache, open: &mut OpenFile, offset: u64, bytes: u64, told: &mut Told) {
    let mut call = ReadCall::new(open, offset, bytes);
    run(cache, told, |cache, told| call.step(cache, open, told));
}

/// Runs a call to its end. What it waits for arrives, with all that is under way.
///
/// For read(2) the order of arrivals does not matter. A folio that has not arrived ends a batch of
/// filemap_get_pages(), but marks and holes are found in the same order with any batches.
fn run(
    cache: &mut PageCache,
    told: &mut Told,
    mut step: impl FnMut(&mut PageCache, &mut Told) -> Stop,
) {
    loop {
        match step(cache, told) {
            Stop::Wait(folio) => {
                // The waiting thread goes on when this folio has arrived.
                let awaited = cache.info(folio).index;
                told.late.remove(&awaited);
                arrive(cache, told);
            }
            Stop::Again => arrive(cache, told),
            Stop::Used(_) => {}
            Stop::Done => break,
        }
    }
}

/// All folios in flight arrive, except for the late ones.
fn arrive(cache: &mut PageCache, told: &mut Told) {
    for pages in std::mem::take(&mut told.under_way) {
        let mut at = pages.start;
        while at < pages.end {
            // The cache has one file, and nothing of a batch leaves it before it arrived.
            let Some(id) = cache.find(FileId::FIRST, at) else {
                break;
            };
            let end = cache.info(id).end();
            if told.late.contains(&at) {
                told.under_way.push(at..end);
            } else {
                cache.arrive(FileId::FIRST, at..end, &mut Vec::new());
            }
            at = end;
        }
    }
}

impl Modelled {
    /// One step, in which folios arrive as late as they did on the machine. Those in `late` (by
    /// first page) arrive at its end, and all others when a program first waits.
    pub fn step_with(&mut self, step: &Step, late: &BTreeSet<u64>) -> Seen {
        let mut told = Told {
            late: late.clone(),
            ..Told::default()
        };
        let before = self.folios(0..self.file_pages());
        self.play(step, &mut told);
        told.late.clear();
        arrive(&mut self.cache, &mut told);
        let mut seen = Seen {
            cached: self.cached_runs(),
            remembered: self.remembered(),
            mapped: self.cache.mapped_runs(self.file, self.file_pages()),
            late: late.clone(),
            events: told.events,
            misled: told.misled,
            ..Seen::default()
        };
        for batch in told.batches {
            seen.inserted.extend(self.folios(batch));
        }
        seen.new_pages = pages_of(&seen.inserted);
        if let Step::DontNeed { .. } = step {
            let after = self.folios(0..self.file_pages());
            let gone = |folio: &Placed| after.binary_search(folio).is_err();
            seen.removed = before.into_iter().filter(gone).collect();
        }
        seen
    }
}

impl Machine for Modelled {
    type Error = Infallible;

    fn begin(&mut self, program: &Program) -> Result<Facts, Infallible> {
        *self = Self::new(self.model).with_facts(self.facts);
        self.file_bytes = program.file_bytes();
        Ok(self.facts)
    }

    fn step(&mut self, step: &Step) -> Result<Seen, Infallible> {
        Ok(self.step_with(step, &BTreeSet::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreread_core::policy::Advice;

    fn program(file: usize) -> Program {
        Program {
            seed: 0,
            number: 0,
            file,
            read_ahead_kib: 128,
            steps: Vec::new(),
        }
    }

    fn machine(file: usize) -> Modelled {
        let facts = Facts {
            ra_pages: 32,
            io_pages: 320,
            folio_order_max: 0,
        };
        let mut machine = Modelled::new(Model::linux(0)).with_facts(facts);
        let Ok(_) = machine.begin(&program(file));
        machine
    }

    fn read(descriptor: usize, offset_bytes: u64, bytes: u64) -> Step {
        Step::Read {
            descriptor,
            offset_bytes,
            bytes,
        }
    }

    #[test]
    fn a_first_read_opens_a_window() {
        let mut machine = machine(8);
        let Ok(_) = machine.step(&Step::Open { descriptor: 0 });
        let Ok(seen) = machine.step(&read(0, 0, 4096));
        let pages: Vec<u64> = seen.inserted.iter().map(|folio| folio.index).collect();
        assert_eq!(pages, [0, 1, 2, 3]);
        let state = seen.remembered[0].expect("it is open");
        assert_eq!((state.size, state.async_size, state.prev_pos), (4, 3, 4096));
        assert_eq!(seen.remembered[1], None);
    }

    #[test]
    fn steps_on_what_is_not_open_do_nothing() {
        let mut machine = machine(8);
        let Ok(seen) = machine.step(&read(1, 0, 4096));
        assert_eq!(seen, Seen::default());
        let Ok(seen) = machine.step(&Step::Touch { page: 0 });
        assert_eq!(seen, Seen::default());
    }

    #[test]
    fn a_mapping_outlives_its_descriptor() {
        let mut machine = machine(8);
        let map = Step::Map {
            descriptor: 0,
            start: 0,
            pages: 100,
            slot: 0,
            exec: false,
        };
        for step in [
            Step::Open { descriptor: 0 },
            map,
            Step::Open { descriptor: 0 },
        ] {
            let Ok(_) = machine.step(&step);
        }
        let Ok(seen) = machine.step(&Step::Touch { page: 50 });
        assert!(!seen.inserted.is_empty());
        // The new open file under the old number knows nothing of it.
        assert_eq!(seen.remembered[0].map(|state| state.size), Some(0));
    }

    #[test]
    fn whole_pages_are_dropped_and_the_last_one_with_its_file() {
        let mut machine = machine(8);
        let Ok(_) = machine.step(&Step::Open { descriptor: 0 });
        let Ok(_) = machine.step(&read(0, 0, 1 << 20));
        let drop = |offset_bytes, bytes| Step::DontNeed {
            descriptor: 0,
            offset_bytes,
            bytes,
        };
        let Ok(seen) = machine.step(&drop(1, 3 * 4096));
        assert_eq!(
            seen.removed.iter().map(|f| f.index).collect::<Vec<_>>(),
            [1, 2]
        );
        let Ok(seen) = machine.step(&drop(100 * 4096, 2048));
        assert_eq!(
            seen.removed.iter().map(|f| f.index).collect::<Vec<_>>(),
            [100]
        );
    }

    #[test]
    fn advice_sets_the_maximum() {
        let mut machine = machine(8);
        let advice = Advice::Sequential;
        let advise = Step::Advise {
            descriptor: 0,
            advice,
        };
        let Ok(_) = machine.step(&Step::Open { descriptor: 0 });
        let Ok(seen) = machine.step(&advise);
        assert_eq!(seen.remembered[0].map(|state| state.ra_pages), Some(64));
    }
}
