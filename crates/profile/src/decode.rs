// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stored form of a profile, read. See `docs/profile-format.md`.
//!
//! Every input gives a valid profile or an error. Memory is allocated only in proportion to the
//! length of the input. The payload is at most 256 times its stored form. Each count is compared
//! with the bytes that are left before anything is allocated for it.

use foreread_core::bytes::{Cursor, Fault, TOO_BIG};
use thiserror::Error;

use crate::access::id_of;
use crate::devices;
use crate::format::{
    HEADER_BYTES, MAGIC, MOUNT_BYTES_MIN, NODE_BYTES_MIN, PAYLOAD_BYTES_MAX, PHASE_BYTES_MIN,
    RANGE_BYTES_MIN, RATIO_MAX, RUN_BYTES_MIN, SCRIPT_BYTES_MIN, VERSION, method, run_has, section,
};
use crate::limits::{NODES_MAX, PAGE_END_MAX, RANGES_MAX};
use crate::types::{
    BlindSpots, Mount, Node, NodeKind, PageRange, Phase, PhaseKind, Profile, Program, Recorder,
    Run, RunMode, Script, Source, Uses,
};
use crate::validate::Invalid;

/// Why bytes are not a profile. Each is one line for people.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The magic is missing.
    #[error("this is not a Foreread profile; name a file that 'foreread record' has written")]
    NotAProfile,
    /// The input is shorter than it says.
    #[error("the profile is cut short ({have} of {expected} bytes)")]
    CutShort {
        /// Bytes there are.
        have: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// The input is longer than it says.
    #[error("the profile has {0} bytes after its end")]
    Trailing(usize),
    /// A checksum is wrong.
    #[error("the profile is damaged (the checksum of its {part} is wrong)")]
    Damaged {
        /// `header` or `content`.
        part: &'static str,
    },
    /// A later program wrote it.
    #[error(
        "the profile has format version {found}, and this foreread reads up to version {known}; use \
         a newer foreread, or record again"
    )]
    Newer {
        /// The version of the input.
        found: u16,
        /// The newest that this code reads.
        known: u16,
    },
    /// It holds a section that must be understood and isn't.
    #[error(
        "the profile holds something that this foreread doesn't know (section {0}); use a newer \
         foreread, or record again"
    )]
    UnknownSection(u8),
    /// It says that it unpacks to more than is allowed.
    #[error("the profile says that its {stored} bytes unpack to {payload}, more than any real one")]
    TooLarge {
        /// Bytes of the stored payload.
        stored: usize,
        /// Bytes of the payload, as the header says.
        payload: usize,
    },
    /// It can't be unpacked.
    #[error("the profile can't be unpacked")]
    Unpack,
    /// A section can't be read.
    #[error("the profile is malformed (its section {section} {why})")]
    Malformed {
        /// Tag of the section; 0 for the list of sections.
        section: u8,
        /// The error, as the rest of a sentence.
        why: &'static str,
    },
    /// It can be read, but its content is impossible.
    #[error("the profile is invalid: {0}")]
    Invalid(#[from] Invalid),
}

impl DecodeError {
    /// Whether only a new recording helps, and not a newer program or another file.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        let is_other = matches!(
            self,
            Self::NotAProfile | Self::Newer { .. } | Self::UnknownSection(_)
        );
        !is_other
    }
}

/// Reads the stored form of a profile.
///
/// # Errors
/// [`DecodeError`] for everything that [`crate::encode()`] would not have written, except sections
/// that later versions add as optional: these are skipped.
pub fn decode(bytes: &[u8]) -> Result<Profile, DecodeError> {
    let header = Header::read(bytes)?;
    let payload = header.unpack(bytes.get(HEADER_BYTES..).unwrap_or(&[]))?;
    decode_payload(payload.as_ref())
}

/// The header: 32 bytes in this and every later version.
struct Header {
    version: u16,
    method: u16,
    stored_bytes: usize,
    payload_bytes: usize,
    stored_crc: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(DecodeError::NotAProfile);
        }
        let Some((header, after)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(DecodeError::CutShort {
                have: bytes.len(),
                expected: HEADER_BYTES,
            });
        };
        let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        if crc32fast::hash(&header[..28]) != u32_at(28) {
            return Err(DecodeError::Damaged { part: "header" });
        }
        let header = Self {
            version: u16_at(8),
            method: u16_at(10),
            stored_bytes: u32_at(12) as usize,
            payload_bytes: u32_at(16) as usize,
            stored_crc: u32_at(20),
        };
        header.check(after.len())?;
        Ok(header)
    }

    fn check(&self, have_bytes: usize) -> Result<(), DecodeError> {
        if self.version > VERSION {
            return Err(DecodeError::Newer {
                found: self.version,
                known: VERSION,
            });
        }
        if have_bytes < self.stored_bytes {
            let expected = HEADER_BYTES.saturating_add(self.stored_bytes);
            return Err(DecodeError::CutShort {
                have: HEADER_BYTES + have_bytes,
                expected,
            });
        }
        if have_bytes > self.stored_bytes {
            return Err(DecodeError::Trailing(have_bytes - self.stored_bytes));
        }
        if self.payload_bytes > PAYLOAD_BYTES_MAX
            || self.payload_bytes > self.stored_bytes.saturating_mul(RATIO_MAX)
        {
            let (stored, payload) = (self.stored_bytes, self.payload_bytes);
            return Err(DecodeError::TooLarge { stored, payload });
        }
        Ok(())
    }

    fn unpack<'a>(&self, stored: &'a [u8]) -> Result<std::borrow::Cow<'a, [u8]>, DecodeError> {
        if crc32fast::hash(stored) != self.stored_crc {
            return Err(DecodeError::Damaged { part: "content" });
        }
        let payload: std::borrow::Cow<'a, [u8]> = match self.method {
            method::PLAIN => stored.into(),
            // The capacity is a hard limit for zstd, whatever the frame itself says.
            method::ZSTD => zstd::bulk::decompress(stored, self.payload_bytes)
                .map_err(|_| DecodeError::Unpack)?
                .into(),
            _ => return Err(DecodeError::Unpack),
        };
        if payload.len() != self.payload_bytes {
            return Err(DecodeError::Unpack);
        }
        Ok(payload)
    }
}

fn decode_payload(payload: &[u8]) -> Result<Profile, DecodeError> {
    let sections = Sections::read(payload)?;
    let mut profile = Profile::default();
    sections.decode(section::PROGRAM, |cursor| {
        profile.program = program(cursor)?;
        Ok(())
    })?;
    sections.decode(section::SOURCE, |cursor| {
        profile.source = source(cursor)?;
        Ok(())
    })?;
    sections.decode(section::MOUNTS, |cursor| {
        profile.mounts = mounts(cursor)?;
        Ok(())
    })?;
    sections.decode(section::NODES, |cursor| {
        profile.nodes = nodes(cursor)?;
        Ok(())
    })?;
    profile.names = sections.get(section::NAMES)?.to_vec();
    sections.decode(section::RANGES, |cursor| {
        profile.ranges = ranges(cursor, &mut profile.nodes)?;
        Ok(())
    })?;
    sections.decode(section::RUNS, |cursor| {
        profile.runs = runs(cursor)?;
        Ok(())
    })?;
    if sections.has(section::ASTRAY) {
        profile.is_astray = true;
        sections.decode(section::ASTRAY, |_| Ok(()))?;
    }
    if sections.has(section::SCRIPTS) {
        sections.decode(section::SCRIPTS, |cursor| {
            profile.program.scripts = scripts(cursor)?;
            Ok(())
        })?;
    }
    if sections.has(section::BOOT) {
        sections.decode(section::BOOT, |cursor| boot(cursor, &mut profile))?;
    }
    if sections.has(section::DEVICES) {
        sections.decode(section::DEVICES, |cursor| {
            profile.devices = devices::decode(cursor)?;
            Ok(())
        })?;
    }
    profile.validate()?;
    Ok(profile)
}

/// The content of each section by its tag.
struct Sections<'a>([Option<&'a [u8]>; SECTIONS]);

/// The last four places are those of optional sections, whose tags are far from the others.
const SECTIONS: usize = section::RUNS as usize + 5;

/// The place of a section; `None` for unknown tags.
fn place(tag: u8) -> Option<usize> {
    match tag {
        section::PROGRAM..=section::RUNS => Some(tag.into()),
        section::DEVICES => Some(SECTIONS - 4),
        section::SCRIPTS => Some(SECTIONS - 3),
        section::ASTRAY => Some(SECTIONS - 2),
        section::BOOT => Some(SECTIONS - 1),
        _ => None,
    }
}

impl<'a> Sections<'a> {
    fn read(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let malformed = |why| DecodeError::Malformed { section: 0, why };
        let mut sections = Self([None; SECTIONS]);
        let mut cursor = Cursor::new(payload);
        while !cursor.is_empty() {
            let tag = cursor.byte().map_err(malformed)?;
            let length = cursor.number().map_err(malformed)?;
            let content = cursor.take(length).map_err(malformed)?;
            match place(tag) {
                Some(place) => {
                    if sections.0[place].replace(content).is_some() {
                        return Err(malformed("list names one twice"));
                    }
                }
                _ if tag & section::OPTIONAL != 0 => {}
                _ => return Err(DecodeError::UnknownSection(tag)),
            }
        }
        Ok(sections)
    }

    fn get(&self, tag: u8) -> Result<&'a [u8], DecodeError> {
        let missing = DecodeError::Malformed {
            section: tag,
            why: "is missing",
        };
        place(tag).and_then(|place| self.0[place]).ok_or(missing)
    }

    fn has(&self, tag: u8) -> bool {
        self.get(tag).is_ok()
    }

    fn decode(
        &self,
        tag: u8,
        mut with: impl FnMut(&mut Cursor<'a>) -> Result<(), Fault>,
    ) -> Result<(), DecodeError> {
        let mut cursor = Cursor::new(self.get(tag)?);
        with(&mut cursor)
            .and_then(|()| cursor.end())
            .map_err(|why| DecodeError::Malformed { section: tag, why })
    }
}

fn text(cursor: &mut Cursor) -> Result<Vec<u8>, Fault> {
    Ok(cursor.text(usize::MAX)?.to_vec())
}

fn program(cursor: &mut Cursor) -> Result<Program, Fault> {
    let executable = text(cursor)?;
    let directory = text(cursor)?;
    let key = text(cursor)?;
    let count = cursor.count(1)?;
    // A vector's header is 24 times the byte that announces it; the limit keeps that small.
    if count > crate::limits::ARGUMENTS_MAX {
        return Err(TOO_BIG);
    }
    let arguments = (0..count).map(|_| text(cursor)).collect::<Result<_, _>>()?;
    Ok(Program {
        executable,
        arguments,
        directory,
        key,
        scripts: Vec::new(),
    })
}

fn scripts(cursor: &mut Cursor) -> Result<Vec<Script>, Fault> {
    let count = cursor.count(SCRIPT_BYTES_MIN)?;
    if count > crate::limits::SCRIPTS_MAX {
        return Err(TOO_BIG);
    }
    let script = |_| {
        let path = text(cursor)?;
        let size_bytes = cursor.varint()?;
        let mut checksum = [0; 4];
        checksum.copy_from_slice(cursor.take(4)?);
        Ok(Script {
            path,
            size_bytes,
            checksum: u32::from_le_bytes(checksum),
        })
    };
    (0..count).map(script).collect()
}

fn boot(cursor: &mut Cursor, profile: &mut Profile) -> Result<(), Fault> {
    let count = cursor.count(PHASE_BYTES_MIN)?;
    if count > crate::limits::PHASES_MAX {
        return Err(TOO_BIG);
    }
    for _ in 0..count {
        let kind = phase_kind(cursor.byte()?)?;
        let start_ns = cursor.varint()?;
        profile.phases.push(Phase { kind, start_ns });
    }
    let count = cursor.count(1)?;
    if count > crate::limits::UNITS_MAX {
        return Err(TOO_BIG);
    }
    for _ in 0..count {
        profile.units.push(text(cursor)?);
    }
    if count > 0 {
        for node in &mut profile.nodes {
            node.unit = cursor.number()?;
        }
        for range in &mut profile.ranges {
            range.unit = cursor.number()?;
        }
    }
    Ok(())
}

fn phase_kind(byte: u8) -> Result<PhaseKind, Fault> {
    match byte {
        0 => Ok(PhaseKind::Initramfs),
        1 => Ok(PhaseKind::Sysinit),
        2 => Ok(PhaseKind::Target),
        3 => Ok(PhaseKind::Session),
        _ => Err("names an unknown part of a boot"),
    }
}

fn source(cursor: &mut Cursor) -> Result<Source, Fault> {
    let recorder = match cursor.byte()? {
        0 => Recorder::Bpf,
        1 => Recorder::Tracefs,
        2 => Recorder::Fanotify,
        _ => return Err("names an unknown recorder"),
    };
    Ok(Source {
        recorder,
        blind_spots: BlindSpots(cursor.number()?),
        events_lost: cursor.varint()?,
        recorded_unix_s: cursor.varint()?,
        kernel: text(cursor)?,
    })
}

fn mounts(cursor: &mut Cursor) -> Result<Vec<Mount>, Fault> {
    let count = cursor.count(MOUNT_BYTES_MIN)?;
    if count > crate::limits::MOUNTS_MAX {
        return Err(TOO_BIG);
    }
    let mount = |_| {
        Ok(Mount {
            fs_type: text(cursor)?,
            mount_point: text(cursor)?,
            device_major: cursor.number()?,
            device_minor: cursor.number()?,
        })
    };
    (0..count).map(mount).collect()
}

fn nodes(cursor: &mut Cursor) -> Result<Vec<Node>, Fault> {
    let count = cursor.count(NODE_BYTES_MIN)?;
    if count > NODES_MAX {
        return Err(TOO_BIG);
    }
    let mut nodes = vec![Node::default(); count];
    let mut before = 0;
    for (at, node) in nodes.iter_mut().enumerate() {
        let parent = cursor.difference(before)?;
        before = parent;
        if parent > at as u64 {
            return Err("names a parent that isn't there");
        }
        node.parent = (at > 0).then(|| id_of(parent as usize));
    }
    let mut name_start = 0u32;
    for (node, length) in nodes.iter_mut().zip(cursor.take(count)?) {
        node.name_start = name_start;
        node.name_length = *length;
        name_start = name_start.checked_add(u32::from(*length)).ok_or(TOO_BIG)?;
    }
    for (node, byte) in nodes.iter_mut().zip(cursor.take(count)?) {
        node.kind = kind(*byte)?;
    }
    for (node, byte) in nodes.iter_mut().zip(cursor.take(count)?) {
        node.uses = Uses(*byte);
    }
    for (node, byte) in nodes.iter_mut().zip(cursor.take(count)?) {
        node.weight = *byte;
    }
    for node in &mut nodes {
        node.mount = cursor.number()?;
    }
    identities(cursor, &mut nodes)?;
    let mut before = 0;
    for node in &mut nodes {
        node.need_ns = cursor.difference(before)?;
        before = node.need_ns;
    }
    Ok(nodes)
}

fn identities(cursor: &mut Cursor, nodes: &mut [Node]) -> Result<(), Fault> {
    let mut before = 0;
    for node in &mut *nodes {
        node.identity.inode = cursor.difference(before)?;
        before = node.identity.inode;
    }
    for node in &mut *nodes {
        node.identity.generation = cursor.number()?;
    }
    for node in &mut *nodes {
        node.identity.size_bytes = cursor.varint()?;
    }
    let mut before = 0;
    for node in nodes {
        before = cursor.difference(before)?;
        node.identity.mtime_ns = before.cast_signed();
    }
    Ok(())
}

fn kind(byte: u8) -> Result<NodeKind, Fault> {
    match byte {
        0 => Ok(NodeKind::File),
        1 => Ok(NodeKind::Directory),
        2 => Ok(NodeKind::Symlink),
        3 => Ok(NodeKind::Absent),
        _ => Err("names an unknown kind of file"),
    }
}

fn ranges(cursor: &mut Cursor, nodes: &mut [Node]) -> Result<Vec<PageRange>, Fault> {
    let node_count: usize = cursor.number()?;
    if node_count != nodes.len() {
        return Err("counts other paths than there are");
    }
    let count = cursor.count(RANGE_BYTES_MIN)?;
    if count > RANGES_MAX {
        return Err(TOO_BIG);
    }
    let mut start = 0u32;
    for node in &mut *nodes {
        node.range_start = start;
        node.range_count = cursor.number()?;
        start = start.checked_add(node.range_count).ok_or(TOO_BIG)?;
    }
    if start as usize != count {
        return Err("counts other page ranges than there are");
    }
    let mut ranges = vec![PageRange::default(); count];
    // Gaps stand before lengths, and a start needs both: kept as a gap until the lengths are known.
    for range in &mut ranges {
        range.start_page = cursor.varint()?;
    }
    for range in &mut ranges {
        range.pages = cursor.varint()?.checked_add(1).ok_or(TOO_BIG)?;
    }
    for node in nodes {
        let mut end_page = 0u64;
        let mut before = node.need_ns;
        let first = node.range_start as usize;
        for range in &mut ranges[first..first + node.range_count as usize] {
            let start_page = end_page.checked_add(range.start_page).ok_or(TOO_BIG)?;
            end_page = start_page.checked_add(range.pages).ok_or(TOO_BIG)?;
            if end_page > PAGE_END_MAX {
                return Err(TOO_BIG);
            }
            range.start_page = start_page;
            range.need_ns = cursor.difference(before)?;
            before = range.need_ns;
        }
    }
    for (range, byte) in ranges.iter_mut().zip(cursor.take(count)?) {
        range.weight = *byte;
    }
    Ok(ranges)
}

fn runs(cursor: &mut Cursor) -> Result<Vec<Run>, Fault> {
    let count = cursor.count(RUN_BYTES_MIN)?;
    if count > crate::types::RUNS_MAX {
        return Err(TOO_BIG);
    }
    (0..count).map(|_| run(cursor)).collect()
}

fn run(cursor: &mut Cursor) -> Result<Run, Fault> {
    let has = cursor.byte()?;
    if has & !run_has::ALL != 0 {
        return Err("has an unknown field in a run");
    }
    let mode = match cursor.byte()? {
        0 => RunMode::Recorded,
        1 => RunMode::Replayed,
        2 => RunMode::ReplayedRecorded,
        3 => RunMode::Plain,
        _ => return Err("names an unknown kind of run"),
    };
    let started_unix_s = cursor.varint()?;
    let wall_ns = cursor.varint()?;
    let fetched_pages = cursor.varint()?;
    let mut optional = |bit| {
        if has & bit != 0 {
            cursor.varint().map(Some)
        } else {
            Ok::<_, Fault>(None)
        }
    };
    let stall_ns = optional(run_has::STALL)?;
    let cached_before = optional(run_has::CACHED_BEFORE)?;
    Ok(Run {
        started_unix_s,
        mode,
        wall_ns,
        stall_ns,
        cached_before_permille: cached_before
            .map(|share| u16::try_from(share).map_err(|_| TOO_BIG))
            .transpose()?,
        missed_pages: optional(run_has::MISSED)?,
        fetched_pages,
        used_on_time_pages: optional(run_has::USED_ON_TIME)?,
        used_late_pages: optional(run_has::USED_LATE)?,
    })
}
