// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stored form of a profile, written. See `docs/profile-format.md`.

use foreread_core::bytes::{put_difference, put_text, put_varint};

use crate::devices;
use crate::format::{HEADER_BYTES, MAGIC, RATIO_MAX, VERSION, method, run_has, section};
use crate::limits::TEXT_BYTES_MAX;
use crate::types::{Profile, RUNS_MAX, Run};

/// zstd's own default: the higher levels save a tenth and take several times as long, and `run`
/// writes the profile after every run.
const ZSTD_LEVEL: i32 = 3;

/// The stored form of a valid profile.
///
/// [`crate::decode()`] gives back an equal one. Texts and runs beyond the limits are cut as
/// [`crate::Program::bounded`] and [`Profile::push_run`] do. Content that is invalid in other ways
/// is written as it is, and refused when it's read.
#[must_use]
pub fn encode(profile: &Profile) -> Vec<u8> {
    seal(&payload(profile))
}

/// Payload with its header around it, compressed where that helps.
pub(crate) fn seal(payload: &[u8]) -> Vec<u8> {
    let compressed = zstd::bulk::compress(payload, ZSTD_LEVEL)
        .ok()
        .filter(|compressed| {
            compressed.len() < payload.len()
                && payload.len() <= compressed.len().saturating_mul(RATIO_MAX)
        });
    match &compressed {
        Some(stored) => with_header(method::ZSTD, stored, payload.len()),
        None => with_header(method::PLAIN, payload, payload.len()),
    }
}

pub(crate) fn with_header(method: u16, stored: &[u8], payload_bytes: usize) -> Vec<u8> {
    let length = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = Vec::with_capacity(HEADER_BYTES + stored.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&method.to_le_bytes());
    out.extend_from_slice(&length(stored.len()));
    out.extend_from_slice(&length(payload_bytes));
    out.extend_from_slice(&crc32fast::hash(stored).to_le_bytes());
    // Kept free for later versions.
    out.extend_from_slice(&[0; 4]);
    let header_crc = crc32fast::hash(&out);
    out.extend_from_slice(&header_crc.to_le_bytes());
    out.extend_from_slice(stored);
    out
}

pub(crate) fn payload(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    put_section(&mut out, section::PROGRAM, &program(profile));
    put_section(&mut out, section::SOURCE, &source(profile));
    put_section(&mut out, section::MOUNTS, &mounts(profile));
    put_section(&mut out, section::NODES, &nodes(profile));
    put_section(&mut out, section::NAMES, &profile.names);
    put_section(&mut out, section::RANGES, &ranges(profile));
    put_section(&mut out, section::RUNS, &runs(&profile.runs));
    if !profile.program.scripts.is_empty() {
        put_section(&mut out, section::SCRIPTS, &scripts(profile));
    }
    if !profile.units.is_empty() || !profile.phases.is_empty() {
        put_section(&mut out, section::BOOT, &boot(profile));
    }
    if !profile.devices.is_empty() {
        put_section(
            &mut out,
            section::DEVICES,
            &devices::encode(&profile.devices),
        );
    }
    if profile.is_astray {
        put_section(&mut out, section::ASTRAY, &[]);
    }
    out
}

pub(crate) fn put_section(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    put_text(out, content);
}

fn program(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    let program = profile.program.clone().bounded();
    put_text(&mut out, &program.executable);
    put_text(&mut out, &program.directory);
    put_text(&mut out, &program.key);
    put_varint(&mut out, program.arguments.len() as u64);
    for argument in &program.arguments {
        put_text(&mut out, argument);
    }
    out
}

fn scripts(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    let program = profile.program.clone().bounded();
    put_varint(&mut out, program.scripts.len() as u64);
    for script in &program.scripts {
        put_text(&mut out, &script.path);
        put_varint(&mut out, script.size_bytes);
        out.extend_from_slice(&script.checksum.to_le_bytes());
    }
    out
}

fn boot(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, profile.phases.len() as u64);
    for phase in &profile.phases {
        out.push(phase.kind as u8);
        put_varint(&mut out, phase.start_ns);
    }
    put_varint(&mut out, profile.units.len() as u64);
    for unit in &profile.units {
        put_text(&mut out, &unit[..unit.len().min(TEXT_BYTES_MAX)]);
    }
    if !profile.units.is_empty() {
        for node in &profile.nodes {
            put_varint(&mut out, u64::from(node.unit));
        }
        for range in &profile.ranges {
            put_varint(&mut out, u64::from(range.unit));
        }
    }
    out
}

fn source(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    let source = profile.source.clone().bounded();
    out.push(source.recorder as u8);
    put_varint(&mut out, u64::from(source.blind_spots.0));
    put_varint(&mut out, source.events_lost);
    put_varint(&mut out, source.recorded_unix_s);
    put_text(&mut out, &source.kernel);
    out
}

fn mounts(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, profile.mounts.len() as u64);
    for mount in &profile.mounts {
        let mount = mount.clone().bounded();
        put_text(&mut out, &mount.fs_type);
        put_text(&mut out, &mount.mount_point);
        put_varint(&mut out, u64::from(mount.device_major));
        put_varint(&mut out, u64::from(mount.device_minor));
    }
    out
}

/// Column after column, so that like stands beside like: that is worth a third of the size.
fn nodes(profile: &Profile) -> Vec<u8> {
    let nodes = &profile.nodes;
    let mut out = Vec::with_capacity(nodes.len() * 32);
    put_varint(&mut out, nodes.len() as u64);
    let mut before = 0;
    for node in nodes {
        // The root has no parent; it is written as its own.
        let parent = node.parent.map_or(0, |parent| u64::from(parent.0));
        put_difference(&mut out, parent, before);
        before = parent;
    }
    out.extend(nodes.iter().map(|node| node.name_length));
    out.extend(nodes.iter().map(|node| node.kind as u8));
    out.extend(nodes.iter().map(|node| node.uses.0));
    out.extend(nodes.iter().map(|node| node.weight));
    for node in nodes {
        put_varint(&mut out, u64::from(node.mount));
    }
    put_differences(&mut out, nodes.iter().map(|node| node.identity.inode));
    for node in nodes {
        put_varint(&mut out, u64::from(node.identity.generation));
    }
    for node in nodes {
        put_varint(&mut out, node.identity.size_bytes);
    }
    put_differences(
        &mut out,
        nodes
            .iter()
            .map(|node| node.identity.mtime_ns.cast_unsigned()),
    );
    put_differences(&mut out, nodes.iter().map(|node| node.need_ns));
    out
}

fn put_differences(out: &mut Vec<u8>, values: impl Iterator<Item = u64>) {
    let mut before = 0;
    for value in values {
        put_difference(out, value, before);
        before = value;
    }
}

/// Encodes the ranges: the number of ranges of each node, then one column after another. The
/// columns: the gap to the range before in the same file; the length less one; the need against
/// that of the range before, or of the file; the weight.
fn ranges(profile: &Profile) -> Vec<u8> {
    let mut out = Vec::with_capacity(profile.nodes.len() + profile.ranges.len() * 8);
    put_varint(&mut out, profile.nodes.len() as u64);
    put_varint(&mut out, profile.ranges.len() as u64);
    for node in &profile.nodes {
        put_varint(&mut out, u64::from(node.range_count));
    }
    for node in &profile.nodes {
        let mut end_page = 0;
        for range in node.ranges(&profile.ranges) {
            put_varint(&mut out, range.start_page.wrapping_sub(end_page));
            end_page = range.end_page();
        }
    }
    for range in &profile.ranges {
        put_varint(&mut out, range.pages.wrapping_sub(1));
    }
    for node in &profile.nodes {
        let mut before = node.need_ns;
        for range in node.ranges(&profile.ranges) {
            put_difference(&mut out, range.need_ns, before);
            before = range.need_ns;
        }
    }
    out.extend(profile.ranges.iter().map(|range| range.weight));
    out
}

fn runs(runs: &[Run]) -> Vec<u8> {
    let mut out = Vec::new();
    let runs = &runs[runs.len().saturating_sub(RUNS_MAX)..];
    put_varint(&mut out, runs.len() as u64);
    for run in runs {
        let optional = [
            (run_has::STALL, run.stall_ns),
            (
                run_has::CACHED_BEFORE,
                run.cached_before_permille.map(u64::from),
            ),
            (run_has::MISSED, run.missed_pages),
            (run_has::USED_ON_TIME, run.used_on_time_pages),
            (run_has::USED_LATE, run.used_late_pages),
        ];
        let there = optional.iter().filter(|(_, value)| value.is_some());
        out.push(there.fold(0, |bits, (bit, _)| bits | bit));
        out.push(run.mode as u8);
        put_varint(&mut out, run.started_unix_s);
        put_varint(&mut out, run.wall_ns);
        put_varint(&mut out, run.fetched_pages);
        for value in optional.iter().filter_map(|(_, value)| *value) {
            put_varint(&mut out, value);
        }
    }
    out
}
