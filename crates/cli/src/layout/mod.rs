// SPDX-License-Identifier: MIT OR Apache-2.0
//! `foreread layout`: where the files that are read together lie, where they would lie better,
//! and to move them there.

pub mod args;
mod device;
mod human;
pub mod json;
mod moving;
pub mod order;
mod passes;
mod picture;
mod status;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use foreread_layout::{Account, Device, FileOnDisk, Plan, plan};
use foreread_linux_layout::{OnFileSystem, find};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, PhaseKind, Profile};
use foreread_sys::mounts::mounts_of_self;
use foreread_sys::save;

use self::args::{
    LayoutArguments, LayoutVerb, PlanArguments, ProfileArguments, ShowArguments, WhatArguments,
};
use crate::boot::recorded;
use crate::{store, text};

/// No plan is worth it, or nothing may be moved.
const EXIT_NOTHING: u8 = 1;

pub use passes::all as stored_passes;

/// What stands for the path of a profile, of the boot.
const BOOT: &str = "the boot";

/// `foreread layout`.
pub fn layout(arguments: &LayoutArguments) -> Result<ExitCode> {
    match &arguments.what {
        LayoutVerb::Show(arguments) => show(arguments),
        LayoutVerb::Plan(arguments) => planned(arguments),
        LayoutVerb::Apply(arguments) => printed(&moving::apply(arguments)?, arguments.json),
        LayoutVerb::Resume(arguments) => printed(&moving::resume()?, arguments.json),
        LayoutVerb::Undo(arguments) => printed(&moving::undo()?, arguments.json),
        LayoutVerb::Status(arguments) => {
            let statuses = status::status()?;
            match arguments.json {
                true => text::print_json(&json::status(&statuses))?,
                false => text::print(&status::human(&statuses))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        LayoutVerb::Order(arguments) => order::order(arguments),
    }
}

/// What a profile wants of a file system, and what a new layout would make of it.
struct Laid {
    found: OnFileSystem,
    account: Account,
    device: Device,
    origin: device::Origin,
    plan: Plan,
}

impl Laid {
    /// The model of the device in words.
    fn model(&self) -> String {
        device::said(&self.device, self.origin)
    }
}

/// A profile, and where it lies.
pub struct Layout {
    name: String,
    profile: Profile,
    laid: Vec<Laid>,
}

fn printed(report: &moving::Report, as_json: bool) -> Result<ExitCode> {
    match as_json {
        true => text::print_json(&json::moved(report))?,
        false => text::print(&report.human())?,
    }
    Ok(report.exit_code())
}

fn show(arguments: &ShowArguments) -> Result<ExitCode> {
    let layout = Layout::of(&arguments.what)?;
    if let Some(path) = &arguments.svg {
        let drawing = picture::picture(&layout);
        save::write(path, drawing.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    match arguments.json {
        true => text::print_json(&json::show(&layout, arguments.files))?,
        false => text::print(&human::show(&layout, arguments.files))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn planned(arguments: &PlanArguments) -> Result<ExitCode> {
    let layout = Layout::of(&arguments.what)?;
    let document = json::plan(&layout);
    if let Some(path) = &arguments.output {
        let bytes = serde_json::to_vec_pretty(&document)?;
        save::write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    match arguments.json {
        true => text::print_json(&document)?,
        false => text::print(&human::plan(&layout))?,
    }
    let is_worth_it = layout.laid.iter().any(|laid| laid.plan.is_worth_it());
    Ok(match is_worth_it {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_NOTHING),
    })
}

impl Layout {
    fn of(what: &WhatArguments) -> Result<Self> {
        let (name, profile) = profile(&what.profile)?;
        let mounts = mounts_of_self().context("cannot read the table of mounts")?;
        let found = find(&ReadPlan::from(&profile), &mounts);
        if found.is_empty() {
            bail!("none of its files lies on a disk of this machine");
        }
        let phase_of = |need_ns| profile.phase_at(need_ns);
        let laid = found.into_iter().map(|found| {
            let (device, origin) = device::model(&found, what.disk.as_ref());
            lay(found, device, origin, phase_of)
        });
        let laid = laid.collect();
        Ok(Self {
            name,
            profile,
            laid,
        })
    }

    /// The path of a file.
    fn path(&self, node: NodeId) -> String {
        text::escaped(&self.profile.path(node))
    }
}

/// Files in the order of need.
fn by_need(files: &[FileOnDisk]) -> Vec<&FileOnDisk> {
    let mut files: Vec<&FileOnDisk> = files.iter().collect();
    files.sort_by_key(|file| (file.first_need_ns(), file.node));
    files
}

fn lay(
    found: OnFileSystem,
    device: Device,
    origin: device::Origin,
    phase_of: impl Fn(u64) -> Option<PhaseKind>,
) -> Laid {
    let account = Account::of(&found.files, &phase_of);
    let free = found.free.clone().unwrap_or_default();
    let metadata = found.metadata.as_deref().unwrap_or_default();
    let plan = plan(
        &found.files,
        &free,
        found.block_bytes,
        metadata,
        &device,
        &phase_of,
    );
    Laid {
        found,
        account,
        device,
        origin,
        plan,
    }
}

fn profile(what: &ProfileArguments) -> Result<(String, Profile)> {
    if what.boot {
        return Ok((BOOT.to_owned(), recorded("/".as_ref())?));
    }
    let path = what.named.find()?;
    let profile = store::read(&path)?;
    Ok((text::escaped_path(&path), profile))
}
