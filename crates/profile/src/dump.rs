// SPDX-License-Identifier: MIT OR Apache-2.0
//! A profile as text, one line a thing, the same for equal profiles. For tests and for reading.

use std::fmt::Write as _;

use crate::access::id_of;
use crate::types::{Identity, Node, NodeKind, PhaseKind, Profile, Run, RunMode, Uses};

/// The whole profile as text. Bytes that aren't printable ASCII are escaped as `\xNN`.
#[must_use]
pub fn dump(profile: &Profile) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = dump_into(profile, &mut out);
    out
}

fn dump_into(profile: &Profile, out: &mut String) -> std::fmt::Result {
    let program = &profile.program;
    writeln!(out, "executable {}", program.executable.escape_ascii())?;
    for argument in &program.arguments {
        writeln!(out, "argument {}", argument.escape_ascii())?;
    }
    writeln!(out, "directory {}", program.directory.escape_ascii())?;
    writeln!(out, "key {}", program.key.escape_ascii())?;
    for script in &program.scripts {
        let path = script.path.escape_ascii();
        let (size_bytes, checksum) = (script.size_bytes, script.checksum);
        writeln!(out, "script {path} {size_bytes} {checksum:#010x}")?;
    }
    let source = &profile.source;
    writeln!(
        out,
        "source {:?} blind={:#x} lost={} recorded={} kernel={}",
        source.recorder,
        source.blind_spots.0,
        source.events_lost,
        source.recorded_unix_s,
        source.kernel.escape_ascii()
    )?;
    for (at, mount) in profile.mounts.iter().enumerate() {
        let fs_type = mount.fs_type.escape_ascii();
        let mount_point = mount.mount_point.escape_ascii();
        let (major, minor) = (mount.device_major, mount.device_minor);
        writeln!(out, "mount {at} {fs_type} {mount_point} {major}:{minor}")?;
    }
    for phase in &profile.phases {
        writeln!(out, "phase {} {}", phase_name(phase.kind), phase.start_ns)?;
    }
    for (at, node) in profile.nodes.iter().enumerate() {
        dump_node(profile, at, node, out)?;
    }
    for run in &profile.runs {
        dump_run(run, out)?;
    }
    if profile.is_astray {
        writeln!(out, "astray")?;
    }
    writeln!(
        out,
        "total {} paths, {} pages",
        profile.nodes.len(),
        profile.total_pages()
    )
}

fn dump_node(profile: &Profile, at: usize, node: &Node, out: &mut String) -> std::fmt::Result {
    let Identity {
        inode,
        generation,
        size_bytes,
        mtime_ns,
    } = node.identity;
    write!(
        out,
        "{} {} uses={} weight={} mount={} need_ns={} inode={inode}.{generation} \
         size_bytes={size_bytes} mtime_ns={mtime_ns}",
        kind_name(node.kind),
        profile.path(id_of(at)).escape_ascii(),
        use_names(node.uses),
        node.weight,
        node.mount,
        node.need_ns,
    )?;
    dump_unit(profile, node.unit, out)?;
    for range in node.ranges(&profile.ranges) {
        write!(
            out,
            "  pages {}+{} need_ns={} weight={}",
            range.start_page, range.pages, range.need_ns, range.weight
        )?;
        dump_unit(profile, range.unit, out)?;
    }
    Ok(())
}

/// Ends a line with the control group, if it is known.
fn dump_unit(profile: &Profile, unit: u16, out: &mut String) -> std::fmt::Result {
    match profile.unit(unit) {
        [] => writeln!(out),
        unit => writeln!(out, " unit={}", unit.escape_ascii()),
    }
}

fn dump_run(run: &Run, out: &mut String) -> std::fmt::Result {
    let optional = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    writeln!(
        out,
        "run {} started={} wall_ns={} stall_ns={} cached_permille={} missed={} fetched={} \
         on_time={} late={}",
        mode_name(run.mode),
        run.started_unix_s,
        run.wall_ns,
        optional(run.stall_ns),
        optional(run.cached_before_permille.map(u64::from)),
        optional(run.missed_pages),
        run.fetched_pages,
        optional(run.used_on_time_pages),
        optional(run.used_late_pages),
    )
}

/// The word for a kind of node.
#[must_use]
pub const fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::File => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink => "symlink",
        NodeKind::Absent => "absent",
    }
}

/// The word for a part of a boot.
#[must_use]
pub const fn phase_name(kind: PhaseKind) -> &'static str {
    match kind {
        PhaseKind::Initramfs => "initramfs",
        PhaseKind::Sysinit => "sysinit",
        PhaseKind::Target => "target",
        PhaseKind::Session => "session",
    }
}

/// The word for the mode of a run.
#[must_use]
pub const fn mode_name(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Recorded => "recorded",
        RunMode::Replayed => "replayed",
        RunMode::ReplayedRecorded => "replayed+recorded",
        RunMode::Plain => "plain",
    }
}

/// The words for a set of uses, joined by `+`; `-` for none.
#[must_use]
pub fn use_names(uses: Uses) -> String {
    let names = [
        (Uses::LOOKED_UP, "looked-up"),
        (Uses::LISTED, "listed"),
        (Uses::READ, "read"),
        (Uses::MAPPED, "mapped"),
        (Uses::EXECUTED, "executed"),
        (Uses::OPENED, "opened"),
        (Uses::STATTED, "statted"),
    ];
    let set: Vec<&str> = names
        .iter()
        .filter(|(bit, _)| uses.contains(*bit))
        .map(|(_, name)| *name)
        .collect();
    if set.is_empty() {
        "-".to_owned()
    } else {
        set.join("+")
    }
}
