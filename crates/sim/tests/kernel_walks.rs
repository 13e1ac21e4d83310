// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where Linux 6.18 departs from its own rule. Each of these programs was found and made short by
//! `foreread check-kernel`, and each window here is the one that the kernel issued.

use foreread_core::policy::Limits;
use foreread_sim::check::{
    Facts, Machine, Model, Modelled, Program, Remembered, Seen, Step, in_runs,
};

const FACTS: Facts = Facts {
    ra_pages: 32,
    io_pages: 320,
    folio_order_max: 9,
};

fn pread(page: u64, pages: u64) -> Step {
    Step::Read {
        descriptor: 0,
        offset_bytes: page * 4096,
        bytes: pages * 4096,
    }
}

fn last(facts: Facts, file: usize, quirks: u8, steps: &[Step]) -> Seen {
    let program = Program {
        seed: 0,
        number: 0,
        file,
        read_ahead_kib: 128,
        steps: [&[Step::Open { descriptor: 0 }], steps].concat(),
    };
    let mut machine = Modelled::new(Model::linux(quirks)).with_facts(facts);
    let Ok(_) = machine.begin(&program);
    let mut seen = Seen::default();
    for step in &program.steps {
        let Ok(now) = machine.step(step);
        seen = now;
    }
    seen
}

fn state(seen: &Seen) -> Remembered {
    seen.remembered[0].expect("it is open")
}

#[test]
fn history_that_ends_in_a_large_folio_is_cut_short() {
    // 0+4 in pages, 4+8 in folios of 4; then page 12, with 12 pages of history.
    let steps = [pread(0, 1), pread(1, 1), pread(12, 1)];
    let rule = last(FACTS, 14, 0, &steps);
    assert_eq!(in_runs(&rule.inserted), "12+25 in 1s");
    let kernel = last(FACTS, 14, Limits::QUIRK_SHORT_HISTORY, &steps);
    assert_eq!(in_runs(&kernel.inserted), "12+10 in 1s");
}

#[test]
fn history_as_long_as_the_maximum_counts_a_page_less() {
    let map = Step::Map {
        descriptor: 0,
        start: 24,
        pages: 77,
        slot: 0,
        exec: true,
    };
    // 29+32 by the fault; then 31 pages at 61, with 32 pages of history.
    let steps = [map, Step::Touch { page: 29 }, pread(61, 31)];
    let rule = last(FACTS, 8, 0, &steps);
    assert_eq!(in_runs(&rule.inserted), "61+32 in 1s");
    let kernel = last(FACTS, 8, Limits::QUIRK_HISTORY_CAP, &steps);
    assert_eq!(in_runs(&kernel.inserted), "61+31 in 1s");
}

#[test]
fn a_hole_behind_a_large_folio_is_found_late() {
    let map = Step::Map {
        descriptor: 0,
        start: 319,
        pages: 193,
        slot: 319,
        exec: false,
    };
    let steps = [
        map,
        Step::Touch { page: 408 },
        Step::Touch { page: 416 },
        Step::Touch { page: 427 },
        pread(217, 64),
        pread(281, 256),
    ];
    let facts = FACTS;
    let quirks = Limits::QUIRK_EOF_MARK | Limits::QUIRK_SHORT_HISTORY;
    let rule = last(facts, 11, quirks, &steps);
    assert_eq!((state(&rule).start, state(&rule).size), (512, 81));
    let kernel = last(facts, 11, quirks | Limits::QUIRK_LATE_HOLE, &steps);
    assert_eq!((state(&kernel).start, state(&kernel).size), (513, 81));
}

#[test]
fn page_by_page_the_mark_is_counted_back_from_the_end_of_the_file() {
    let facts = Facts {
        ra_pages: 16,
        folio_order_max: 0,
        ..FACTS
    };
    // 37+32 a16 in a file of 64 pages: 27 are read. Page 53 was meant to be marked; 48 is.
    let steps = [Step::Read {
        descriptor: 0,
        offset_bytes: 151_552,
        bytes: 1_048_576,
    }];
    let facts = Facts {
        io_pages: 32,
        ..facts
    };
    let rule = last(facts, 6, 0, &steps);
    assert_eq!(state(&rule).start, 69);
    let kernel = last(facts, 6, Limits::QUIRK_EOF_MARK, &steps);
    assert_eq!(state(&kernel).start, 64);
}

#[test]
fn a_mapping_with_sequential_advice_reads_its_maximum_on_a_random_file_too() {
    use foreread_sim::check::{FileWideAdvice, MapAdvice};
    let map = Step::Map {
        descriptor: 0,
        start: 0,
        pages: 101,
        slot: 0,
        exec: false,
    };
    let steps = [
        Step::Advise {
            descriptor: 0,
            advice: FileWideAdvice::Random,
        },
        map,
        Step::MapAdvise {
            advice: MapAdvice::Sequential,
        },
        Step::Touch { page: 53 },
    ];
    let seen = last(FACTS, 8, 0, &steps);
    assert_eq!(in_runs(&seen.inserted), "53+32 in 1s");
}

#[test]
fn a_fault_that_has_to_wait_takes_its_miss_back() {
    let map = Step::Map {
        descriptor: 0,
        start: 0,
        pages: 1501,
        slot: 0,
        exec: false,
    };
    let mut steps = vec![map];
    // Each touch is a miss, far from the cached pages.
    steps.extend((0..40).map(|number| Step::Touch { page: number * 37 }));
    let seen = last(FACTS, 15, Limits::QUIRKS_6_18, &steps);
    assert!(!seen.inserted.is_empty());
    assert_eq!(state(&seen).mmap_miss, 0);
}

#[test]
fn what_ends_with_the_file_is_not_mapped_around_a_first_fault() {
    let map = Step::Map {
        descriptor: 0,
        start: 0,
        pages: 1,
        slot: 0,
        exec: false,
    };
    let seen = last(
        FACTS,
        1,
        Limits::QUIRKS_6_18,
        &[map, Step::Touch { page: 0 }],
    );
    // Mapped by the fault itself, which counts no hit.
    assert_eq!(state(&seen).mmap_miss, 1);
    assert_eq!(seen.mapped, [(0, 1)]);
}
