// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot enable` and `disable`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::root_directory::RootDirectory;
use serde::Serialize;

use super::args::{ChangeArguments, EnableArguments};
use super::installed::{Installed, Item, Removal, Standing, Stays, shown};
use super::items::{Builder, from_initramfs, units};
use super::this_system::ThisSystem;
use super::{EXIT_NOT_ENABLED, open_root, state_below};
use crate::text::{self, escaped_path};
use crate::{EXIT_PARTLY, output};

/// `foreread.boot.enable/1` and `foreread.boot.disable/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesJson<'a> {
    schema: &'static str,
    /// Whether nothing was changed, as was asked.
    dry_run: bool,
    /// Whether anything was, or would be, changed.
    changed: bool,
    /// Files, links and directories, in the order in which they are made.
    items: Vec<ItemJson<'a>>,
    /// What was left alone.
    stay: Vec<StaysJson>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ItemJson<'a> {
    /// Its path below the root directory.
    path: String,
    /// What is made there.
    item: &'a Item,
    /// `absent`, `ours`, `outdated` (as an earlier version made it), or `foreign`: before it was
    /// changed.
    standing: &'static str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StaysJson {
    /// Its path below the root directory.
    path: String,
    /// Why, in words.
    reason: String,
}

pub fn enable(arguments: &EnableArguments) -> Result<ExitCode> {
    let change = &arguments.change;
    let root = &open_root(&change.root)?;
    if root.is_here() {
        ThisSystem::read()?.check()?;
    } else if !has_systemd(root) {
        bail!("{} holds no system with systemd", escaped_path(root.path()));
    }
    let state = state_below(root)?;
    let had = Installed::read(root, &state)?;
    // Hooks that are there are kept up to date.
    let builder = match arguments.initramfs {
        true => Some(builder_of(root, &state)?),
        false => had.as_ref().and_then(builder_in),
    };
    let program = program(root)?;
    let mut items = units(&program);
    if let Some(builder) = builder {
        items.extend(builder.items(&program));
        items.push(from_initramfs(&program));
    }
    // One that lacks something is made whole again: the list has what is to be removed later.
    let list = match had.clone() {
        Some(had) => had.with(root, items),
        None => Installed::plan(root, &state, items),
    };
    let work = Work::of(&list, had.as_ref(), root)?;
    // A build that failed is due still.
    let was_due = had.as_ref().is_some_and(|had| had.build_due);
    let owns_any = |builder: &Builder| work.changed().any(|item| builder.owns(item));
    let rebuilds = builder.filter(|builder| was_due || owns_any(builder));
    let is_changed = work.is_any() || rebuilds.is_some();
    let document = ChangesJson {
        changed: is_changed,
        stay: stays_json(root, &work.stays),
        ..document("foreread.boot.enable/1", change, root, &list)
    };
    let mut built = Ok(());
    if is_changed && !change.dry_run {
        list.make(root, &state, rebuilds.is_some() && root.is_here())?;
        if root.is_here() {
            reload_units();
            if let Some(builder) = rebuilds {
                built = build(builder, &list, root, &state);
            }
        }
    }
    note_those_that_stay(root, &work.stays);
    let told = rebuilds.filter(|_| built.is_ok());
    match change.json {
        true => text::print_json(&document)?,
        false if is_changed => text::print(&said_enabled(change, root, &work, told))?,
        false => text::print("It is enabled already.\n")?,
    }
    built?;
    Ok(exit_code(&work.stays))
}

/// What `enable` has to do.
struct Work<'a> {
    makes: Vec<&'a Item>,
    updates: Vec<&'a Item>,
    /// What was made before, and changed by somebody else since.
    stays: Vec<Stays>,
}

impl<'a> Work<'a> {
    /// What a list needs that replaces another one.
    fn of(list: &'a Installed, had: Option<&Installed>, root: &RootDirectory) -> Result<Self> {
        let mut work = Self {
            makes: Vec::new(),
            updates: Vec::new(),
            stays: Vec::new(),
        };
        for item in &list.items {
            match list.standing(item, root)? {
                Standing::Ours => {}
                Standing::Absent => work.makes.push(item),
                Standing::Outdated => work.updates.push(item),
                Standing::Foreign if had.is_some_and(|had| had.has(item.path())) => {
                    work.stays.push(Stays::changed(item));
                }
                Standing::Foreign => bail!(
                    "{} is there already and not ours; nothing was changed",
                    shown(root, item.path())
                ),
            }
        }
        Ok(work)
    }

    fn changed(&self) -> impl Iterator<Item = &'a Item> {
        self.makes.iter().chain(&self.updates).copied()
    }

    fn is_any(&self) -> bool {
        self.changed().next().is_some()
    }
}

fn has_systemd(root: &RootDirectory) -> bool {
    ["usr/lib/systemd", "lib/systemd"].into_iter().any(|path| {
        let found = root.metadata(Path::new(path));
        found.is_ok_and(|found| found.is_dir())
    })
}

fn said_enabled(
    arguments: &ChangeArguments,
    root: &RootDirectory,
    work: &Work<'_>,
    rebuilds: Option<Builder>,
) -> String {
    let (made, updated) = match arguments.dry_run {
        true => ("Would make", "Would update"),
        false => ("Made", "Updated"),
    };
    let mut said = listed(made, &work.makes, root) + &listed(updated, &work.updates, root);
    if let Some(builder) = rebuilds {
        said += &about_initramfs(arguments, builder);
    }
    said + "The next boot is recorded, later ones are replayed. `foreread boot status` tells what \
            that is worth; `foreread boot disable` undoes all of it.\n"
}

/// A heading with items below it; nothing without items.
fn listed(heading: &str, items: &[&Item], root: &RootDirectory) -> String {
    if items.is_empty() {
        return String::new();
    }
    let lines = items
        .iter()
        .map(|item| format!("  {}\n", described(item, root)));
    format!("{heading}:\n{}", lines.collect::<String>())
}

/// What has happened to the initramfs, or is to be done.
fn about_initramfs(arguments: &ChangeArguments, builder: Builder) -> String {
    let command = builder.command().join(" ");
    if arguments.root != Path::new("/") {
        return format!("Run `{command}` in that system, so that its initramfs is built anew.\n");
    }
    match arguments.dry_run {
        true => format!("Would run `{command}`.\n"),
        false => format!("Ran `{command}`.\n"),
    }
}

/// What builds the initramfs, if hooks in it can be of use.
fn builder_of(root: &RootDirectory, state: &Path) -> Result<Builder> {
    let Some(builder) = Builder::of(root) else {
        bail!(
            "neither initramfs-tools nor dracut is installed; `foreread boot enable` without \
             --initramfs needs none"
        );
    };
    if root.is_here() {
        let mounts = mounts_of_self().context("cannot read the mounts")?;
        let path = Path::new("/").join(state);
        let at = mounts.mount_of(path.as_os_str().as_bytes());
        let point = at.and_then(|at| mounts.points().get(at));
        if let Some(point) = point.filter(|point| point.mount_point != b"/") {
            bail!(
                "an initramfs mounts the root file system only, and the profile lies on {}: use \
                 `foreread boot enable` without --initramfs",
                text::escaped(&point.mount_point)
            );
        }
    }
    Ok(builder)
}

/// The builder whose hooks are among what was made.
fn builder_in(list: &Installed) -> Option<Builder> {
    let builders = [Builder::InitramfsTools, Builder::Dracut];
    builders
        .into_iter()
        .find(|builder| list.items.iter().any(|item| builder.owns(item)))
}

/// Builds the initramfs anew, of each kernel that is installed: one of them boots next. The old one
/// stays if that fails, and boots as before.
fn build(builder: Builder, list: &Installed, root: &RootDirectory, state: &Path) -> Result<()> {
    if !succeeds(builder.command()) {
        bail!(
            "the initramfs could not be built, and stays as it was; see what `{}` says, then run \
             `foreread boot enable` again",
            builder.command().join(" ")
        );
    }
    list.built(root, state)
}

pub fn disable(arguments: &ChangeArguments) -> Result<ExitCode> {
    let root = &open_root(&arguments.root)?;
    let state = state_below(root)?;
    let schema = "foreread.boot.disable/1";
    let Some(installed) = Installed::read(root, &state)? else {
        let none = Installed::plan(root, Path::new(""), Vec::new());
        match arguments.json {
            true => text::print_json(&document(schema, arguments, root, &none))?,
            false => text::print("It is not enabled.\n")?,
        }
        return Ok(ExitCode::from(EXIT_NOT_ENABLED));
    };
    // With the standing of each item before.
    let mut document = ChangesJson {
        changed: true,
        ..document(schema, arguments, root, &installed)
    };
    let mut rebuilds = builder_in(&installed);
    let removal = match arguments.dry_run {
        true => installed.preview(root)?,
        false => remove(root, &state, &installed)?,
    };
    if root.is_here() && !arguments.dry_run {
        rebuilds = rebuilds.filter(|builder| builds_without_hooks(*builder));
    }
    note_those_that_stay(root, &removal.stays);
    if arguments.json {
        document.stay = stays_json(root, &removal.stays);
        text::print_json(&document)?;
    } else {
        text::print(&said_disabled(arguments, root, &removal, rebuilds))?;
    }
    Ok(exit_code(&removal.stays))
}

fn exit_code(stays: &[Stays]) -> ExitCode {
    match stays.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_PARTLY),
    }
}

/// Removes all that is as it was made.
fn remove<'a>(root: &RootDirectory, state: &Path, installed: &'a Installed) -> Result<Removal<'a>> {
    if root.is_here() {
        systemctl(&["stop", "foreread-boot.service"]);
    }
    let removal = installed.remove(root, state)?;
    if root.is_here() {
        reload_units();
    }
    Ok(removal)
}

/// Builds the initramfs anew. If that fails, says so: its copy of the hooks finds no profile, and
/// does nothing.
fn builds_without_hooks(builder: Builder) -> bool {
    let is_built = succeeds(builder.command());
    if !is_built {
        output::note(&format!(
            "`{}` failed; the hooks stay in the initramfs until that succeeds",
            builder.command().join(" ")
        ));
    }
    is_built
}

fn said_disabled(
    arguments: &ChangeArguments,
    root: &RootDirectory,
    removal: &Removal<'_>,
    rebuilds: Option<Builder>,
) -> String {
    let heading = match arguments.dry_run {
        true => "Would remove, with history, profile and traces",
        false => "Removed, with history, profile and traces",
    };
    let mut said = listed(heading, &removal.removed, root);
    if let Some(builder) = rebuilds {
        said += &about_initramfs(arguments, builder);
    }
    said
}

fn note_those_that_stay(root: &RootDirectory, stays: &[Stays]) {
    for Stays { path, reason } in stays {
        output::note(&format!("{} {reason} and stays", shown(root, path)));
    }
}

fn stays_json(root: &RootDirectory, stays: &[Stays]) -> Vec<StaysJson> {
    let json = |stays: &Stays| StaysJson {
        path: shown(root, &stays.path),
        reason: stays.reason.clone(),
    };
    stays.iter().map(json).collect()
}

/// The document of a list, with the standing of each item as it is now.
fn document<'a>(
    schema: &'static str,
    arguments: &ChangeArguments,
    root: &RootDirectory,
    list: &'a Installed,
) -> ChangesJson<'a> {
    let item = |item: &'a Item| ItemJson {
        path: shown(root, item.path()),
        item,
        standing: match list.standing(item, root) {
            Ok(Standing::Absent) => "absent",
            Ok(Standing::Ours) => "ours",
            Ok(Standing::Outdated) => "outdated",
            Ok(Standing::Foreign) | Err(_) => "foreign",
        },
    };
    ChangesJson {
        schema,
        dry_run: arguments.dry_run,
        changed: false,
        items: list.items.iter().map(item).collect(),
        stay: Vec::new(),
    }
}

fn described(item: &Item, root: &RootDirectory) -> String {
    let path = shown(root, item.path());
    match item {
        Item::Directory { .. } => format!("{path}/"),
        Item::File { .. } => path,
        Item::Link { target, .. } => format!("{path} -> {}", escaped_path(target)),
    }
}

/// The program that the unit starts, as the system will see its path.
fn program(root: &RootDirectory) -> Result<String> {
    let path = if root.is_here() {
        std::env::current_exe().context("cannot find this program")?
    } else {
        let places = ["usr/local/bin/foreread", "usr/bin/foreread"];
        let is_file = |place: &&&str| {
            let found = root.metadata(Path::new(place));
            found.is_ok_and(|found| found.is_file())
        };
        let Some(place) = places.iter().find(is_file) else {
            bail!(
                "no foreread in {}: install it there first, as /usr/bin/foreread or \
                 /usr/local/bin/foreread",
                escaped_path(root.path())
            );
        };
        Path::new("/").join(place)
    };
    let text = path
        .to_str()
        .filter(|path| !path.contains(|c: char| c.is_whitespace() || "\"'\\%$".contains(c)));
    match text {
        Some(text) => Ok(text.to_owned()),
        None => bail!("no unit can name {}", escaped_path(&path)),
    }
}

/// The units are found at the next boot in any case.
fn reload_units() {
    systemctl(&["daemon-reload"]);
}

fn systemctl(arguments: &[&str]) {
    if !succeeds(&[&["systemctl"], arguments].concat()) {
        output::note(&format!("`systemctl {}` failed", arguments.join(" ")));
    }
}

/// Runs a command to its end. What it prints is not shown.
fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    ended.is_ok_and(|status| status.success())
}
