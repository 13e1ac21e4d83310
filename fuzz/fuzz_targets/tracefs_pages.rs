// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as pages of the kernel's trace buffers. The formats of the events are
//! fixed ones, or text from the input up to the first NUL.
#![no_main]

use std::collections::HashSet;

use foreread_fuzz::bytes::Bytes;
use foreread_fuzz::tree::{DEVICES, Tree, mounts};
use foreread_recorder::tracefs::{
    Chosen, Kind, PageLayout, ReaderSetup, TraceReader, join, lost_events, page_layout,
};
use libfuzzer_sys::fuzz_target;

const PAGE_BYTES: usize = 512;
const LAYOUT: PageLayout = PageLayout {
    commit_at: 8,
    commit_bytes: 8,
    data_at: 16,
    page_bytes: PAGE_BYTES,
};

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let how = bytes.byte();
    let (mut layout, mut text) = (LAYOUT, None);
    let mut pages = bytes.0;
    if how & 1 == 1 {
        let end = pages.iter().position(|byte| *byte == 0);
        let (head, rest) = pages.split_at(end.unwrap_or(pages.len()));
        let head = String::from_utf8_lossy(head).into_owned();
        let _ = lost_events(&head);
        layout = page_layout(&head).unwrap_or(LAYOUT);
        (text, pages) = (Some(head), rest);
    }
    let format = |kind| Ok::<_, ()>(text.clone().unwrap_or_else(|| fixed(kind)));
    let Ok(chosen) = Chosen::new(format, how & 2 == 0) else {
        return;
    };
    let mut reader = TraceReader::new(ReaderSetup {
        layout,
        decoder: chosen.decoder,
        own_tid: 1,
        disks: DEVICES.into_iter().collect::<HashSet<_>>(),
        by_access: chosen.by_access,
        unit: if how & 4 == 0 { 1 } else { 16 },
    });
    for (number, page) in pages.chunks(PAGE_BYTES).enumerate() {
        reader.take_page(page);
        if number % 3 == 2 {
            reader.end_turn();
        }
    }
    reader.end_turn();
    reader.settle();
    let _ = reader.has(2);
    let counts = reader.counts();
    assert!(counts.news <= counts.calls);
    let start_ns = reader.start_ns().unwrap_or(0);
    join(
        std::iter::empty(),
        reader.into_inodes(),
        start_ns,
        &mounts(),
        &Tree { seed: how },
    );
});

/// A format in which an event is 11 words: its kind, then all fields that any kind has.
fn fixed(kind: Kind) -> String {
    const FIELDS: [(&str, usize, usize); 10] = [
        ("common_type", 0, 2),
        ("order", 2, 2),
        ("common_pid", 4, 4),
        ("s_dev", 8, 4),
        ("pid", 12, 4),
        ("i_ino", 16, 8),
        ("index", 24, 8),
        ("last_index", 32, 8),
        ("parent_pid", 4, 4),
        ("child_pid", 12, 4),
    ];
    let id = kind as u32;
    let mut text = format!("ID: {id}\n");
    for (name, at, size) in FIELDS.iter().chain([&("old_pid", 8, 4)]) {
        text += &format!("\tfield:int {name};\toffset:{at};\tsize:{size};\tsigned:0;\n");
    }
    text
}
