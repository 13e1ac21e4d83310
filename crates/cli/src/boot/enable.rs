// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread boot enable` and `disable`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use foreread_linux_boot::{HISTORY, PACKAGES_CHANGED, PROFILE, PROFILE_SET_ASIDE};
use foreread_sys::mounts::mounts_of_self;
use serde::Serialize;
use serde_json::Value;

use super::args::ChangeArguments;
use super::installed::{Installed, Item, Standing};
use super::{EXIT_NOT_ENABLED, state_path};
use crate::text::{self, escaped_path};
use crate::{EXIT_PARTLY, output};

/// Where an administrator's units are.
const UNITS: &str = "etc/systemd/system";
const SERVE: &str = include_str!("../../../../packaging/systemd/foreread-boot.service");
const REACHED: &str = include_str!("../../../../packaging/systemd/foreread-boot-reached.service");
/// The program in the unit.
const PROGRAM: &str = "/usr/local/bin/foreread";

/// `foreread.boot.enable/1` and `foreread.boot.disable/1`.
#[derive(Serialize)]
struct ChangesJson<'a> {
    schema: &'static str,
    dry_run: bool,
    /// Whether anything was, or would be, changed.
    changed: bool,
    items: Vec<ItemJson<'a>>,
}

#[derive(Serialize)]
struct ItemJson<'a> {
    path: String,
    item: &'a Item,
    /// `absent`, `ours`, or `foreign`: before it was changed.
    standing: &'static str,
}

pub fn enable(arguments: &ChangeArguments) -> Result<ExitCode> {
    let root = &arguments.root;
    let is_here = root == Path::new("/");
    if is_here {
        check_this_system()?;
    } else if !root.join("usr/lib/systemd").is_dir() && !root.join("lib/systemd").is_dir() {
        bail!("{} holds no system with systemd", escaped_path(root));
    }
    let state = state_below(root)?;
    let is_there = |item: &Item| matches!(item.standing(root), Ok(Standing::Ours));
    // One that lacks something is made whole again: the list has what is to be removed later.
    let (list, changed) = match Installed::read(root, &state)? {
        Some(list) => {
            let is_whole = list.items.iter().all(is_there);
            (list, !is_whole)
        }
        None => (Installed::plan(root, &state, items(&program(root)?)), true),
    };
    let document = document("foreread.boot.enable/1", arguments, changed, &list);
    if changed && !arguments.dry_run {
        list.make(root, &state)?;
        if is_here {
            reload_units();
        }
    }
    match document {
        Some(document) => text::print_json(&document)?,
        None if changed => text::print(&said_enabled(arguments, &list))?,
        None => text::print("It is enabled already.\n")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn said_enabled(arguments: &ChangeArguments, list: &Installed) -> String {
    let mut said = String::from(match arguments.dry_run {
        true => "Would make:\n",
        false => "Made:\n",
    });
    for item in &list.items {
        said += &format!("  {}\n", described(item, &arguments.root));
    }
    said + "The next boot is recorded, later ones are replayed. `foreread boot status` tells what \
            that is worth; `foreread boot disable` undoes all of it.\n"
}

pub fn disable(arguments: &ChangeArguments) -> Result<ExitCode> {
    let root = &arguments.root;
    let state = state_below(root)?;
    let schema = "foreread.boot.disable/1";
    let Some(installed) = Installed::read(root, &state)? else {
        let none = Installed::plan(root, Path::new(""), Vec::new());
        match document(schema, arguments, false, &none) {
            Some(document) => text::print_json(&document)?,
            None => text::print("It is not enabled.\n")?,
        }
        return Ok(ExitCode::from(EXIT_NOT_ENABLED));
    };
    let document = document(schema, arguments, true, &installed);
    let mut foreign = Vec::new();
    if !arguments.dry_run {
        if root == Path::new("/") {
            systemctl(&["stop", "foreread-boot.service"]);
        }
        let kept = [HISTORY, PROFILE, PROFILE_SET_ASIDE, PACKAGES_CHANGED];
        foreign = installed.remove(root, &state, &kept)?;
        if root == Path::new("/") {
            reload_units();
        }
    }
    for item in &foreign {
        let path = escaped_path(&root.join(item.path()));
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
    changed: bool,
    list: &Installed,
) -> Option<Value> {
    let item = |item| {
        let root = &arguments.root;
        ItemJson {
            path: escaped_path(&root.join(Item::path(item))),
            item,
            standing: match item.standing(root) {
                Ok(Standing::Absent) => "absent",
                Ok(Standing::Ours) => "ours",
                Ok(Standing::Foreign) | Err(_) => "foreign",
            },
        }
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

fn described(item: &Item, root: &Path) -> String {
    let path = escaped_path(&root.join(item.path()));
    match item {
        Item::Directory { .. } => format!("{path}/"),
        Item::File { .. } => path,
        Item::Link { target, .. } => format!("{path} -> {}", escaped_path(target)),
    }
}

/// The state directory, as a path below the root.
fn state_below(root: &Path) -> Result<PathBuf> {
    let state = std::path::absolute(state_path(root)).context("no current directory")?;
    let root = std::path::absolute(root).context("no current directory")?;
    let below = state.strip_prefix(&root);
    Ok(below.unwrap_or(&state).to_owned())
}

/// The units, and what has systemd start them.
fn items(program: &str) -> Vec<Item> {
    let unit = |name: &str, content: String| Item::File {
        path: Path::new(UNITS).join(name),
        content,
    };
    let wanted = |target: &str, name: &str| Item::Link {
        path: Path::new(UNITS).join(format!("{target}.wants")).join(name),
        target: Path::new("/").join(UNITS).join(name),
    };
    let (serve, reached) = ("foreread-boot.service", "foreread-boot-reached.service");
    vec![
        unit(serve, SERVE.replace(PROGRAM, program)),
        unit(reached, REACHED.to_owned()),
        wanted("sysinit.target", serve),
        wanted("default.target", reached),
    ]
}

/// The program that the unit starts, as the system will see its path.
fn program(root: &Path) -> Result<String> {
    let path = if root == Path::new("/") {
        std::env::current_exe().context("cannot find this program")?
    } else {
        let places = ["usr/local/bin/foreread", "usr/bin/foreread"];
        let Some(place) = places.iter().find(|place| root.join(place).is_file()) else {
            bail!(
                "no foreread in {}: install it there first, as /usr/bin/foreread or \
                 /usr/local/bin/foreread",
                escaped_path(root)
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

/// Whether this system boots in a way that can be recorded and replayed.
fn check_this_system() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("only root can change how the system boots; try sudo");
    }
    if let Ok(container) = fs::read_to_string("/run/systemd/container") {
        bail!(
            "this is a container ({}): it has no boot of its own. Enable it on the machine below; \
             `foreread run` works here",
            container.trim()
        );
    }
    if !Path::new("/run/systemd/system").is_dir() {
        bail!(
            "systemd doesn't run here, and boots of others can't be recorded yet; `foreread run` \
             and `foreread watch` work"
        );
    }
    let mounts = mounts_of_self().context("cannot read the mounts")?;
    let root = mounts.mount_of(b"/").and_then(|at| mounts.points().get(at));
    let live: [&[u8]; 4] = [b"squashfs", b"erofs", b"iso9660", b"tmpfs"];
    if let Some(root) = root
        && live.contains(&&root.fs_type[..])
    {
        bail!(
            "the root file system is {}, as of a live image: nothing is kept from boot to boot",
            text::escaped(&root.fs_type)
        );
    }
    Ok(())
}

/// The units are found at the next boot in any case.
fn reload_units() {
    systemctl(&["daemon-reload"]);
}

fn systemctl(arguments: &[&str]) {
    let mut command = Command::new("systemctl");
    command.args(arguments).stdin(Stdio::null());
    let ended = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !ended.is_ok_and(|status| status.success()) {
        output::note(&format!("`systemctl {}` failed", arguments.join(" ")));
    }
}
