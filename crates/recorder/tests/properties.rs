// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers of bytes that others wrote: every input has an answer.

#![allow(clippy::unwrap_used)]

use foreread_recorder::interpreter;
use foreread_recorder::tracefs::{Decoder, Event, Kind, PageLayout, page_layout};
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [Kind; 7] = [
    Kind::Read,
    Kind::MapAround,
    Kind::Fault,
    Kind::Added,
    Kind::Fork,
    Kind::Exec,
    Kind::Exit,
];

/// A line for each field that any event needs, at any place.
fn format_text() -> impl Strategy<Value = String> {
    let names = [
        "common_type",
        "common_pid",
        "s_dev",
        "i_ino",
        "index",
        "last_index",
        "order",
        "parent_pid",
        "child_pid",
        "pid",
        "old_pid",
    ];
    let at = prop_oneof![0..40usize, Just(usize::MAX)];
    let places = vec((at, 0..10usize), names.len());
    places.prop_map(move |places| {
        let fields = names.iter().zip(places);
        let fields = fields.map(|(name, (at, size))| {
            format!("\tfield:int {name};\toffset:{at};\tsize:{size};\tsigned:1;\n")
        });
        format!("ID: 1\n{}", fields.collect::<String>())
    })
}

proptest! {
    #[test]
    fn any_page_gives_events_that_are_in_it(
        page in vec(any::<u8>(), 0..200),
        commit_at in prop_oneof![0..40usize, Just(usize::MAX)],
        commit_bytes in prop_oneof![Just(4usize), Just(8)],
        data_at in prop_oneof![0..40usize, Just(usize::MAX)],
    ) {
        let layout = PageLayout { commit_at, commit_bytes, data_at, page_bytes: 4096 };
        let mut bytes = 0;
        layout.events(&page, |_, event| bytes += event.len());
        prop_assert!(bytes <= page.len());
    }

    #[test]
    fn any_description_of_a_page_gives_an_answer(
        text in "(field: u64 (commit|data);|offset:|size:|[0-9; \t\n]){0,20}",
    ) {
        if let Some(layout) = page_layout(&text) {
            layout.events(&[0; 64], |_, event| assert!(event.len() <= 64));
        }
    }

    #[test]
    fn any_event_of_any_format_gives_an_answer(
        text in format_text(),
        kind in 0..KINDS.len(),
        event in vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..60),
    ) {
        let mut decoder = Decoder::new(&text).unwrap();
        prop_assert!(decoder.add(KINDS[kind], &text).is_some());
        prop_assert!(decoder.pid_of(&event).is_none() || !event.is_empty());
        if let Some(Event::Touch(touch)) = decoder.decode(0, &event) {
            prop_assert!(touch.start <= touch.end);
        }
    }

    #[test]
    fn any_file_names_an_absolute_path_or_none(
        wide in any::<bool>(),
        mut file in vec(prop_oneof![Just(0u8), Just(3), any::<u8>()], 5..300),
    ) {
        file[..4].copy_from_slice(b"\x7fELF");
        file[4] = 1 + u8::from(wide);
        let name = interpreter(|at, buffer| {
            let start = usize::try_from(at).ok()?;
            let end = start.checked_add(buffer.len())?;
            buffer.copy_from_slice(file.get(start..end)?);
            Some(())
        });
        prop_assert!(name.is_none_or(|name| name.starts_with(b"/") && !name.contains(&0)));
    }
}
