// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot enable` and `disable`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use foreread_linux_boot::{HISTORY, PACKAGES_CHANGED, PROFILE, PROFILE_SET_ASIDE};
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::root_directory::RootDirectory;
use serde::Serialize;
use serde_json::Value;

use super::args::{ChangeArguments, EnableArguments};
use super::installed::{Installed, Item, Standing, shown};
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
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ItemJson<'a> {
    /// Its path below the root directory.
    path: String,
    /// What is made there.
    item: &'a Item,
    /// `absent`, `ours`, or `foreign`: before it was changed.
    standing: &'static str,
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
    let builder = match arguments.initramfs {
        true => Some(builder_of(root, &state)?),
        false => None,
    };
    let is_there = |item: &Item| matches!(item.standing(root), Ok(Standing::Ours));
    let program = program(root)?;
    let mut items = units(&program);
    if let Some(builder) = builder {
        items.extend(builder.items(&program));
        items.push(from_initramfs(&program));
    }
    // One that lacks something is made whole again: the list has what is to be removed later.
    let list = match Installed::read(root, &state)? {
        Some(list) => list.with(root, items),
        None => Installed::plan(root, &state, items),
    };
    let changed = !list.items.iter().all(is_there);
    let rebuilds = changed.then(|| builder_in(&list)).flatten();
    let document = document("foreread.boot.enable/1", change, root, changed, &list);
    if changed && !change.dry_run {
        list.make(root, &state)?;
        if root.is_here() {
            reload_units();
            if let Some(builder) = rebuilds {
                rebuild(builder);
            }
        }
    }
    match document {
        Some(document) => text::print_json(&document)?,
        None if changed => text::print(&said_enabled(change, root, &list, rebuilds))?,
        None => text::print("It is enabled already.\n")?,
    }
    Ok(ExitCode::SUCCESS)
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
    list: &Installed,
    rebuilds: Option<Builder>,
) -> String {
    let mut said = String::from(match arguments.dry_run {
        true => "Would make:\n",
        false => "Made:\n",
    });
    for item in &list.items {
        said += &format!("  {}\n", described(item, root));
    }
    if let Some(builder) = rebuilds {
        said += &about_initramfs(arguments, builder);
    }
    said + "The next boot is recorded, later ones are replayed. `foreread boot status` tells what \
            that is worth; `foreread boot disable` undoes all of it.\n"
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

/// Builds the initramfs anew. The old one stays if that fails, and boots as before.
fn rebuild(builder: Builder) {
    run(builder.command());
}

pub fn disable(arguments: &ChangeArguments) -> Result<ExitCode> {
    let root = &open_root(&arguments.root)?;
    let state = state_below(root)?;
    let schema = "foreread.boot.disable/1";
    let Some(installed) = Installed::read(root, &state)? else {
        let none = Installed::plan(root, Path::new(""), Vec::new());
        match document(schema, arguments, root, false, &none) {
            Some(document) => text::print_json(&document)?,
            None => text::print("It is not enabled.\n")?,
        }
        return Ok(ExitCode::from(EXIT_NOT_ENABLED));
    };
    let document = document(schema, arguments, root, true, &installed);
    let rebuilds = builder_in(&installed);
    let mut foreign = Vec::new();
    if !arguments.dry_run {
        if root.is_here() {
            systemctl(&["stop", "foreread-boot.service"]);
        }
        let kept = [HISTORY, PROFILE, PROFILE_SET_ASIDE, PACKAGES_CHANGED];
        foreign = installed.remove(root, &state, &kept)?;
        if root.is_here() {
            reload_units();
            if let Some(builder) = rebuilds {
                rebuild(builder);
            }
        }
    }
    for item in &foreign {
        let path = shown(root, item.path());
        output::note(&format!("{path} was changed by somebody else and stays"));
    }
    if let Some(document) = document {
        text::print_json(&document)?;
    } else {
        let mut said = String::from(match arguments.dry_run {
            true => "Would remove, with history and profile:\n",
            false => "Removed, with history and profile:\n",
        });
        for item in installed
            .items
            .iter()
            .filter(|item| !foreign.contains(item))
        {
            said += &format!("  {}\n", described(item, root));
        }
        if let Some(builder) = rebuilds {
            said += &about_initramfs(arguments, builder);
        }
        text::print(&said)?;
    }
    Ok(match foreign.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_PARTLY),
    })
}

/// The document, if one is asked for; with the standing of each item as it is now.
fn document(
    schema: &'static str,
    arguments: &ChangeArguments,
    root: &RootDirectory,
    changed: bool,
    list: &Installed,
) -> Option<Value> {
    let item = |item| ItemJson {
        path: shown(root, Item::path(item)),
        item,
        standing: match item.standing(root) {
            Ok(Standing::Absent) => "absent",
            Ok(Standing::Ours) => "ours",
            Ok(Standing::Foreign) | Err(_) => "foreign",
        },
    };
    arguments.json.then(|| {
        text::json(&ChangesJson {
            schema,
            dry_run: arguments.dry_run,
            changed,
            items: list.items.iter().map(item).collect(),
        })
    })
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
    run(&[&["systemctl"], arguments].concat());
}

/// Runs a command to its end, and says if it fails.
fn run(words: &[&str]) {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !ended.is_ok_and(|status| status.success()) {
        output::note(&format!("`{}` failed", words.join(" ")));
    }
}
