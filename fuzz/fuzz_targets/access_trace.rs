// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes arbitrary records of accesses as a trace, and reads that trace back.
#![no_main]

use std::collections::HashMap;

use foreread_core::Device;
use foreread_fuzz::bytes::Bytes;
use foreread_fuzz::tree::{DEVICES, mounts};
use foreread_recorder::NodeRecord;
use foreread_recorder::accesses::{AccessKind, AccessRecord, MappingBits, Places, TraceWriter};
use foreread_trace::{Extent, Header, Objects, Source, TimeIs};
use libfuzzer_sys::fuzz_target;

const KINDS: [AccessKind; 10] = [
    AccessKind::Read,
    AccessKind::ReadCall,
    AccessKind::Fault,
    AccessKind::Mapped,
    AccessKind::Exit,
    AccessKind::Metadata,
    AccessKind::Call,
    AccessKind::Open,
    AccessKind::Advice,
    AccessKind::Block,
];

/// Names some devices, and gives each file two extents.
struct Made;

impl Places for Made {
    fn device_name(&self, device: Device) -> Option<String> {
        (device.major == 8).then(|| format!("sd{}", device.minor))
    }

    fn extents(&self, path: &[u8], inode: u64, size_bytes: u64) -> Vec<Extent> {
        let extent = |number: u64| Extent {
            logical_bytes: number << 12,
            physical_bytes: inode.wrapping_mul(4096),
            length_bytes: size_bytes.clamp(1, 4096),
        };
        (0..path.len().min(2) as u64).map(extent).collect()
    }
}

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let header = Header::new(Source::Recorded, TimeIs::Returned);
    let Ok(mut writer) = TraceWriter::new(Vec::new(), &header, mounts(), Made) else {
        return;
    };
    let nodes = nodes(&mut bytes);
    for number in 0..500 {
        if bytes.is_empty() {
            break;
        }
        writer.take(record(&mut bytes), &nodes);
        if number % 16 == 15 {
            writer.write_old().expect("a vector takes all");
        }
    }
    let lost = bytes.number();
    let (trace, traced) = writer.finish(lost).expect("a vector takes all");
    assert_eq!(traced.bytes, trace.len() as u64);
    assert!(traced.waited <= traced.accesses);
    foreread_fuzz::read(&trace, None, Objects::Files);
});

/// Six nodes: a root directory, and files and directories below it.
fn nodes(bytes: &mut Bytes<'_>) -> HashMap<u32, NodeRecord> {
    let node = |id: u32| NodeRecord {
        id,
        parent: if id == 1 {
            0
        } else {
            u32::from(bytes.byte() % 4)
        },
        number: u64::from(id),
        device: bytes.one_of(&DEVICES),
        mode: if id == 1 { 0o040_755 } else { 0o100_644 },
        name: if id == 1 { Vec::new() } else { bytes.name() },
        ..NodeRecord::default()
    };
    (1..7).map(node).map(|node| (node.id, node)).collect()
}

fn record(bytes: &mut Bytes<'_>) -> AccessRecord {
    AccessRecord {
        kind: bytes.one_of(&KINDS),
        id: u32::from(bytes.byte() % 8),
        pid: u32::from(bytes.byte() % 3),
        tid: u32::from(bytes.byte() % 4),
        parent_tid: u32::from(bytes.byte() % 4),
        time_ns: bytes.number(),
        start_bytes: bytes.number(),
        length_bytes: bytes.number(),
        file: u64::from(bytes.byte() % 3),
        size_bytes: bytes.number(),
        waited_ns: bytes.number(),
        first_waited_ns: bytes.number(),
        name: bytes.name(),
        asked_bytes: bytes.number(),
        map_bytes: (bytes.number(), bytes.number()),
        mapping: MappingBits(u32::from(bytes.byte())),
        advice: u32::from(bytes.byte() % 8),
        device: bytes.one_of(&DEVICES),
    }
}
