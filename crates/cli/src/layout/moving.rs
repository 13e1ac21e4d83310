// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves files: `apply`, `resume`, `undo`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use foreread_core::{Bytes, Device};
use foreread_layout::{Forecast, Pass, PassFile, Step};
use foreread_linux_layout::{Moved, Mover, Watcher, movable, uuid_of};
use foreread_sys::clock::now_unix_s;
use foreread_sys::interrupt::Interrupt;
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::priority::be_last;
use indicatif::{ProgressBar, ProgressStyle};

use super::args::ApplyArguments;
use super::passes::{Passes, Stored, all};
use super::{EXIT_NOTHING, Laid, Layout};
use crate::output::{counted, percent, time};
use crate::text::{self, escaped_path};
use crate::{EXIT_PARTLY, output};

/// What was done on one file system.
pub struct Done {
    pub stored: Stored,
    pub mount_point: PathBuf,
    pub device: Device,
    pub moved: Moved,
    pub time: Duration,
    /// What a replay took before, and takes now; of `apply`.
    pub replay: Option<(Forecast, Forecast)>,
}

/// A file system on which nothing was moved.
pub struct Refused {
    /// Where it is mounted, or its name, in a form to print.
    pub file_system: String,
    pub why: String,
}

/// What a command did.
pub struct Report {
    /// `apply`, `resume` or `undo`.
    pub verb: &'static str,
    pub done: Vec<Done>,
    pub refused: Vec<Refused>,
}

/// Moves what the plan of a profile says.
pub fn apply(arguments: &ApplyArguments) -> Result<Report> {
    let passes = Passes::take()?;
    if let Some(stored) = all()?.iter().find(|stored| !stored.pass.is_finished) {
        bail!(
            "pass {} of {} isn't finished; `foreread layout resume` goes on with it, \
             `foreread layout undo` takes it back",
            stored.number,
            text::date(stored.pass.planned_unix_s)
        );
    }
    let layout = Layout::of(&arguments.what)?;
    // Before a pass is stored: from then on a signal stops it in order.
    let mut watching = Watching::begin()?;
    let mut report = Report::new("apply");
    let mut stored = Vec::new();
    for laid in &layout.laid {
        let file_system = escaped_path(&laid.found.mount_point);
        let planned_unix_s = now_unix_s();
        match may_move(laid) {
            Err(why) => report.refused.push(Refused { file_system, why }),
            Ok(uuid) => {
                let mut pass = of_plan(&layout, laid);
                pass.uuid = uuid;
                pass.profile.clone_from(&layout.name);
                pass.planned_unix_s = planned_unix_s;
                pass.bandwidth_bytes_per_s = laid.device.disk.bandwidth_bytes_per_s;
                stored.push((passes.store(pass)?, laid.plan.before));
            }
        }
    }
    for (stored, before) in stored {
        let mut done = go_on(&passes, stored, &mut watching)?;
        let now = forecast_now(arguments, done.device);
        done.replay = now.map(|now| (before, now));
        report.done.push(done);
        if watching.is_told {
            break;
        }
    }
    Ok(report)
}

/// Goes on with passes that were stopped.
pub fn resume() -> Result<Report> {
    let passes = Passes::take()?;
    let mut report = Report::new("resume");
    let mut watching = Watching::begin()?;
    let unfinished = all()?.into_iter().filter(|stored| !stored.pass.is_finished);
    for stored in unfinished {
        report.done.push(go_on(&passes, stored, &mut watching)?);
        if watching.is_told {
            break;
        }
    }
    if report.done.is_empty() {
        output::note("there is no pass to go on with");
    }
    Ok(report)
}

/// Takes the last passes back: those of one `apply`.
pub fn undo() -> Result<Report> {
    let passes = Passes::take()?;
    let mut kept = all()?;
    let Some(last) = kept.last() else {
        output::note("there is no pass to undo");
        return Ok(Report::new("undo"));
    };
    let (profile, planned) = (last.pass.profile.clone(), last.pass.planned_unix_s);
    kept.retain(|stored| {
        let is_near = planned.abs_diff(stored.pass.planned_unix_s) <= 1;
        stored.pass.profile == profile && is_near
    });
    let mut report = Report::new("undo");
    let mut watching = Watching::begin()?;
    for mut stored in kept.into_iter().rev() {
        if let Err(error) = mounted(&stored.pass) {
            report.refused.push(Refused {
                file_system: stored.pass.uuid,
                why: format!("{error:#}"),
            });
            continue;
        }
        stored.pass.is_finished = false;
        passes.replace(&stored)?;
        let steps = stored.pass.back();
        let done = run(stored, &steps, &mut watching)?;
        let mut skipped = done.moved.skipped.iter();
        let is_all = skipped.all(|(_, _, why)| why.is_for_good());
        if is_all && !done.moved.is_stopped {
            passes.remove(&done.stored)?;
        }
        report.done.push(done);
        if watching.is_told {
            break;
        }
    }
    Ok(report)
}

/// Does what is left of a pass.
fn go_on(passes: &Passes, stored: Stored, watching: &mut Watching) -> Result<Done> {
    let steps = stored.pass.steps.clone();
    let mut done = run(stored, &steps, watching)?;
    if !done.moved.is_stopped {
        done.stored.pass.is_finished = true;
        passes.replace(&done.stored)?;
    }
    Ok(done)
}

fn run(stored: Stored, steps: &[Step], watching: &mut Watching) -> Result<Done> {
    let (device, mount_point, fs_type) = mounted(&stored.pass)?;
    let cannot = || format!("nothing can be moved on {}", escaped_path(&mount_point));
    let movable = movable(&fs_type, device, &mount_point).with_context(cannot)?;
    let mover = Mover::of(&movable, stored.pass.bandwidth_bytes_per_s).with_context(cannot)?;
    watching.start(stored.pass.bytes());
    let begun = Instant::now();
    let moved = mover.run(&stored.pass.files, steps, watching);
    watching.bar.finish_and_clear();
    let moved = moved.with_context(|| {
        format!(
            "stopped on {}; `foreread layout undo` takes back what was moved",
            escaped_path(&mount_point)
        )
    })?;
    Ok(Done {
        stored,
        mount_point,
        device,
        moved,
        time: begun.elapsed(),
        replay: None,
    })
}

/// Where the file system of a pass is mounted.
pub fn mounted(pass: &Pass) -> Result<(Device, PathBuf, Vec<u8>)> {
    let mounts = mounts_of_self().context("cannot read the table of mounts")?;
    let is_it =
        |device: Device| uuid_of(device).map(|uuid| digits(&uuid)).as_ref() == Some(&pass.uuid);
    let mut points = mounts.points().iter();
    let found = points.find(|point| point.fs_type == b"ext4" && is_it(point.device()));
    let Some(point) = found else {
        bail!("the file system {} isn't mounted", pass.uuid);
    };
    let path = OsString::from_vec(point.mount_point.clone());
    Ok((point.device(), path.into(), point.fs_type.clone()))
}

/// The name of the file system on which a plan may be carried out; otherwise why not.
fn may_move(laid: &Laid) -> Result<String, String> {
    let found = &laid.found;
    let movable = movable(&found.fs_type, found.device, &found.mount_point);
    let movable = movable.map_err(|refusal| refusal.to_string())?;
    if laid.plan.moves.is_empty() {
        return Err("there is nothing to move".to_owned());
    }
    if !laid.plan.is_worth_it() {
        let (before, after) = (laid.plan.before.time_ns, laid.plan.after.time_ns);
        let share = percent(before.saturating_sub(after), before);
        return Err(format!(
            "it isn't worth it: a replay would save {share} of its time"
        ));
    }
    Ok(digits(&movable.geometry.uuid()))
}

fn digits(uuid: &[u8; 16]) -> String {
    uuid.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn of_plan(layout: &Layout, laid: &Laid) -> Pass {
    Pass::of(
        &laid.plan,
        &laid.found.files,
        laid.found.block_bytes,
        |node| {
            let identity = layout.profile.node(node).map(|node| node.identity);
            let identity = identity.unwrap_or_default();
            PassFile {
                inode: identity.inode,
                generation: identity.generation,
                path: layout.path(node),
            }
        },
    )
}

/// What a replay takes now, on this device.
fn forecast_now(arguments: &ApplyArguments, device: Device) -> Option<Forecast> {
    let layout = Layout::of(&arguments.what).ok()?;
    let mut laid = layout.laid.into_iter();
    let ours = laid.find(|laid| laid.found.device == device)?;
    Some(ours.plan.before)
}

/// Shows how far it is, and stops on Ctrl-C.
struct Watching {
    interrupt: Interrupt,
    is_told: bool,
    bar: ProgressBar,
}

impl Watching {
    fn begin() -> Result<Self> {
        // A filter of system calls may forbid it: then it has the priority that it has.
        if let Err(error) = be_last() {
            output::note(&format!("it runs at normal priority: {error}"));
        }
        Ok(Self {
            interrupt: Interrupt::hold().context("cannot hold back signals")?,
            is_told: false,
            bar: ProgressBar::hidden(),
        })
    }

    fn start(&mut self, bytes: u64) {
        // Hides itself where stderr is no terminal.
        self.bar = output::progress(bytes);
        let template = "{bar:20} {bytes}/{total_bytes}  {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style.progress_chars("=> "));
        }
    }
}

impl Watcher for Watching {
    fn is_stopped(&mut self) -> bool {
        self.is_told |= !matches!(self.interrupt.take(), Ok(None));
        self.is_told
    }

    fn done(&mut self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Report {
    fn new(verb: &'static str) -> Self {
        Self {
            verb,
            done: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// The exit status that tells what was done.
    pub fn exit_code(&self) -> ExitCode {
        let is_lacking = |done: &Done| {
            let is_undo = self.verb == "undo" && !done.moved.skipped.is_empty();
            done.moved.is_stopped || is_undo
        };
        match () {
            () if self.done.is_empty() => ExitCode::from(EXIT_NOTHING),
            () if self.done.iter().any(is_lacking) => ExitCode::from(EXIT_PARTLY),
            () => ExitCode::SUCCESS,
        }
    }

    /// For people.
    pub fn human(&self) -> String {
        let mut text = String::new();
        for refused in &self.refused {
            let at = &refused.file_system;
            // Writing to a string can't fail.
            let _ = writeln!(text, "{at}: nothing is moved: {}", refused.why);
        }
        for done in &self.done {
            text += &self.on_one(done);
        }
        text
    }

    fn on_one(&self, done: &Done) -> String {
        let size = |bytes: u64| Bytes::new(bytes).human().to_string();
        let mut text = format!("{} on {}\n", escaped_path(&done.mount_point), done.device);
        let mut line = |label: &str, value: String| {
            // Writing to a string can't fail.
            let _ = writeln!(text, "{label:6} {value}");
        };
        let moved = &done.moved;
        let took = u64::try_from(done.time.as_nanos()).unwrap_or(u64::MAX);
        line("moved", format!("{} in {}", size(moved.bytes), time(took)));
        if moved.there_bytes > 0 {
            let there = format!("{} are there already", size(moved.there_bytes));
            line("done", there);
        }
        for (why, (parts, bytes)) in by_reason(moved) {
            let parts = counted(parts, "part", "parts");
            line("stays", format!("{parts}, {}: {why}", size(bytes)));
        }
        if moved.written_bytes > 0 {
            let written = size(moved.written_bytes);
            line(
                "note",
                format!("{written} were written meanwhile, so they were not compared"),
            );
        }
        if let Some((before, now)) = &done.replay {
            let seeks = |forecast: &Forecast| counted(forecast.seeks, "seek", "seeks");
            let (before, now) = (
                format!("{}, {}", time(before.time_ns), seeks(before)),
                format!("{}, {}", time(now.time_ns), seeks(now)),
            );
            line("replay", format!("{before} before; {now} now"));
        }
        match (self.verb, moved.is_stopped) {
            ("undo", true) => line("stop", "`foreread layout undo` goes on".to_owned()),
            (_, true) => line(
                "stop",
                "`foreread layout resume` goes on, `foreread layout undo` takes it back".to_owned(),
            ),
            ("undo", false) => {}
            (_, false) => line("undo", "`foreread layout undo` takes it back".to_owned()),
        }
        text
    }
}

/// Numbers of parts and bytes that were not moved, by reason.
fn by_reason(moved: &Moved) -> BTreeMap<String, (u64, u64)> {
    let mut reasons: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (_, bytes, why) in &moved.skipped {
        let entry = reasons.entry(why.to_string()).or_default();
        entry.0 += 1;
        entry.1 += bytes;
    }
    reasons
}
